"""A disk in memory in place of a party's ledger: it can lose power, flip a bit, or be an old copy.

It keeps the ledger's promises, such as committing a release before it returns. Never here: the
network, or a decision when something fails.
"""

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from party.ledger.secret_records import Opening
from protocol.errors import BadLedger, InternalError, PeerError
from protocol.numeric import Ticks
from protocol.outcome.private_quota import Allocation
from protocol.wire.messages import Signed
from protocol.wire.transcript import Transcript
from tests.support.builders import sign


class Violation(AssertionError):
    """Something happened that must never happen."""


class Stored(Struct, frozen=True):
    """The content of a disk."""

    #: The party's own releases, by round.
    releases: tuple[Signed, ...] = ()
    #: The closed rounds, members in roster order.
    rounds: tuple[tuple[Signed, ...], ...] = ()
    seals: tuple[Signed, ...] = ()
    #: What peers had sent at the last shutdown; after a fault, its proof.
    witnessed: tuple[Signed, ...] = ()
    fault: PeerError | None = None
    #: The party's own mask secret, empty once the session is sealed, and its mask key.
    mask: tuple[bytes, Signed] | None = None
    #: The mask keys of all members.
    keys: tuple[Signed, ...] = ()
    #: Each round's demand and unmasked release, until the allocation is computed.
    demands: tuple[tuple[Ticks, Ticks], ...] = ()
    allocation: Allocation | None = None
    #: The party's own commitments and what opens them.
    opening: tuple[Opening, Signed] | None = None
    #: The commitments of all members.
    commitments: tuple[Signed, ...] = ()

    @property
    def sent(self) -> int:
        """How many own messages of exchanges it holds."""
        return len(self.releases) + (self.mask is not None) + (self.opening is not None)

    @property
    def closed(self) -> int:
        """How many exchanges are closed."""
        return len(self.rounds) + bool(self.keys) + bool(self.commitments)


class Disk:
    """Replaces the ledger. Only what was committed survives a loss of power."""

    def __init__(self, power: Callable[[str], None], read: Callable[[bytes], Signed]) -> None:
        #: What survives a loss of power, and what was written since the last commit.
        self.durable = self.pending = Stored()
        #: Every state that was ever committed.
        self.copies = [self.durable]
        #: The content before a bit flipped; None while the disk is undamaged.
        self.good: Stored | None = None
        #: Called at each step where the power may fail.
        self._power = power
        self._read = read

    def transcript(self) -> Transcript:
        held = self.pending
        return Transcript(held.rounds, held.seals, held.keys, held.commitments)

    def own(self) -> tuple[Signed, ...]:
        messages = (self.mask_key(), *self.durable.releases, self.commitment())
        return tuple(message for message in messages if message is not None)

    def mask_key(self) -> Signed | None:
        return None if self.pending.mask is None else self.pending.mask[1]

    def mask_keys(self) -> tuple[Signed, ...]:
        return self.pending.keys

    def mask_secret(self) -> bytes:
        if self.pending.mask is None or not self.pending.mask[0]:
            raise InternalError("an open session must have its mask secret")
        return self.pending.mask[0]

    def record_mask_key(self, secret: bytes, key: Signed) -> None:
        self._power("before the mask key is written")
        self._write(mask=(secret, key))
        self.commit()
        self._power("after the mask key is written")

    def record_mask_keys(self, keys: tuple[Signed, ...]) -> None:
        self._write(keys=keys)

    def demands(self) -> tuple[Ticks, Ticks]:
        demands, unmasked = zip(*self.pending.demands, strict=True)
        return np.array(demands), np.array(unmasked)

    def allocation(self) -> Allocation | None:
        return self.pending.allocation

    def record_allocation(self, allocation: Allocation) -> None:
        self._power("before the allocation is written")
        self._write(allocation=allocation, demands=())
        self.commit()
        self._power("after the allocation is written")

    def commitment(self) -> Signed | None:
        return None if self.pending.opening is None else self.pending.opening[1]

    def record_opening(self, opening: Opening, message: Signed) -> None:
        self._power("before the commitments are written")
        self._write(opening=(opening, message))
        self.commit()
        self._power("after the commitments are written")

    def record_commitments(self, commitments: tuple[Signed, ...]) -> None:
        self._write(commitments=commitments)

    def witnessed(self) -> tuple[Signed, ...]:
        return () if self.durable.fault else self.durable.witnessed

    def flip(self, chance: random.Random) -> None:
        """Flip one bit of a stored message."""
        messages = [s for releases in self.durable.rounds for s in releases]
        messages += [*self.durable.releases, *self.durable.witnessed]
        if messages and self.good is None:
            old = chance.choice(messages)
            new = old._replace(data=flip_bit(old.data, chance))

            def damaged(row: tuple[Signed, ...]) -> tuple[Signed, ...]:
                return tuple(new if s is old else s for s in row)

            self.good = self.durable
            self.put_back(
                replace(
                    self.durable,
                    rounds=tuple(map(damaged, self.durable.rounds)),
                    releases=damaged(self.durable.releases),
                    witnessed=damaged(self.durable.witnessed),
                )
            )

    @property
    def fault(self) -> PeerError | None:
        return self.durable.fault

    def proof(self) -> tuple[Signed, ...]:
        return self.durable.witnessed if self.durable.fault else ()

    def require_replayed(self, rounds: int, chain_hash: bytes) -> None:
        """Refuse a damaged disk, as a ledger does by its checksums."""
        rows = (*self.durable.rounds, self.durable.releases, self.durable.witnessed)
        for signed in itertools.chain(*rows):
            if sign(signed.message).data != signed.data:
                raise BadLedger(
                    f"a bit has flipped in {rounds} rounds, or before {chain_hash.hex()}"
                )

    def release(self, round: int) -> Signed | None:  # noqa: A002
        recorded = self.pending.releases
        return recorded[round] if round < len(recorded) else None

    def record_release(
        self,
        release: Signed,
        demand: tuple[Ticks, Ticks] | None = None,
        *,
        answered: bool = True,  # noqa: ARG002
    ) -> None:
        if release.message.round != len(self.pending.releases):
            raise InternalError("releases are recorded in order, once")
        self._power("before the release is written")
        kept = () if demand is None else (demand,)
        self._write(
            releases=(*self.pending.releases, release), demands=(*self.pending.demands, *kept)
        )
        self.commit()
        self._power("after the release is written")

    def record_round(self, round: int, releases: tuple[Signed, ...], chain_hash: bytes) -> None:  # noqa: A002, ARG002
        if round == len(self.pending.rounds):
            self._write(rounds=(*self.pending.rounds, releases))

    def record_seals(self, seals: tuple[Signed, ...]) -> None:
        self._power("before the seals are written")
        self._write(seals=seals, mask=self.pending.mask and (b"", self.pending.mask[1]))
        self.commit()
        self._power("after the seals are written")

    def record_witnessed(self, releases: tuple[Signed, ...]) -> None:
        self._write(witnessed=releases)
        self.commit()

    def record_fault(self, error: PeerError, *, over: bool = False) -> None:  # noqa: ARG002
        if not error.evidence:
            raise Violation(f"{error} is final without proof")
        self._write(fault=error, witnessed=tuple(map(self._read, error.evidence)))
        self.commit()

    def commit(self) -> None:
        if self.durable is not self.pending:
            self.durable = self.pending
            self.copies.append(self.durable)

    def put_back(self, copy: Stored) -> None:
        self.durable = self.pending = copy

    def _write(self, **changes: Any) -> None:
        self.pending = replace(self.pending, **changes)


def flip_bit(data: bytes, chance: random.Random) -> bytes:
    """These bytes with one random bit changed."""
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
