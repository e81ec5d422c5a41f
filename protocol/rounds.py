"""The public state between two rounds, and the one step from a round to the next.

`RoundEngine.advance` is the only step function: live sessions, simulations and audits all call
it. A round state holds public numbers only. Never here: averages and quotas (`outcome`).
"""

import hashlib
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import net_prices, quantities
from protocol.errors import BadCommitment, ImpossibleTotal
from protocol.numeric import Floats, Ticks
from protocol.pricing.center import Certificate
from protocol.pricing.rule import PriceRule, Prices
from protocol.privacy.calibration import Calibration
from protocol.privacy.possible_totals import PossibleTotals
from protocol.privacy.sensitivity import first_caps, next_caps
from protocol.records import Opaque
from protocol.wire.messages import (
    Commitment,
    Contribution,
    MaskKey,
    Release,
    Signed,
)

if TYPE_CHECKING:  # a program that sees no commitments need not load libsodium
    from protocol.commitment.exchange import Committed


class ClosedRound(Opaque, frozen=True):
    """A closed round. Its link to the one before makes the history of a session."""

    #: The prices that the members answered.
    prices: Floats
    #: Members by numbers: what they released.
    values: Ticks
    before: "ClosedRound | None"


class RoundState(Struct, frozen=True, eq=False):
    """Everything that a live session needs to know before the releases of `round`."""

    #: SHA-256 over the agreement and all that was released so far.
    chain_hash: bytes
    #: The prices of this round, and what the price rule remembers.
    prices: Prices
    #: Members by resources: the largest demand that each may release, in ticks.
    caps: Ticks
    #: No round is left: all agreed ones are closed, or the price rule has stopped.
    over: bool = False
    #: The members must exchange mask keys before the first release.
    unpaired: bool = False
    #: The members must exchange commitments before they seal.
    uncommitted: bool = False
    #: The commitments of all members, once they are exchanged.
    committed: "Committed | None" = None
    #: The round that was closed last; None before the first.
    last: ClosedRound | None = None

    @property
    def history(self) -> list[ClosedRound]:
        """All closed rounds, the first one first."""
        rounds, one = [], self.last
        while one is not None:
            rounds.append(one)
            one = one.before
        return rounds[::-1]

    @property
    def round(self) -> int:
        return self.prices.round

    @property
    def step(self) -> int:
        """The round as messages count it: once commitments are exchanged, one more."""
        return self.round + (self.committed is not None)

    @property
    def final(self) -> bool:
        """Whether no exchange is left: members seal this state."""
        return self.over and not self.uncommitted

    @property
    def awaits(self) -> type[Contribution]:
        """What every member sends next, if the state is not final."""
        return MaskKey if self.unpaired else Commitment if self.uncommitted else Release

    @property
    def rounds_hash(self) -> bytes:
        """The chain hash after the last closed round, without commitments."""
        return self.chain_hash if self.committed is None else self.committed.head

    @property
    def certificate(self) -> Certificate | None:
        """What the rounds so far prove; None unless the centre rule sets the prices."""
        return None if self.prices.center is None else self.prices.center.best


class RoundEngine:
    """Computes each round state from the one before, by the rules of one agreement."""

    def __init__(self, agreement: Agreement) -> None:
        self.agreement = agreement
        self._rule = PriceRule(agreement)
        self._possible = PossibleTotals(agreement)
        Calibration(agreement)  # raises `BadAgreement` if a release cannot carry the noise

    @property
    def opening(self) -> RoundState:
        """The state before the first round."""
        prices = self._rule.first
        digest = hashlib.sha256(b"sotto head\n" + self.agreement.digest + _floats(prices.current))
        return RoundState(
            chain_hash=digest.digest(),
            prices=prices,
            caps=first_caps(self.agreement),
            unpaired=self.agreement.masked,
        )

    def pair(self, state: RoundState, keys: Sequence[MaskKey]) -> RoundState:
        """Close the exchange of mask keys, given in roster order. Only the chain hash changes."""
        return replace(state, chain_hash=session_id(state.chain_hash, keys), unpaired=False)

    def advance(self, state: RoundState, values: Ticks) -> RoundState:
        """Close a round with the released numbers of all members, in roster order.

        Guarantee: the same state and values give the same next state, bit for bit, on every
        machine; its chain hash commits to all that came before. Raises `ImpossibleTotal` if
        masked numbers add up to a total that the members cannot have released.
        """
        demands = values[:, : len(self.agreement.resources)]
        totals = demands.sum(axis=0)  # 64 bits that wrap, as masks do
        if self.agreement.masked:
            self._require_possible(totals, state.round)
        prices = self._rule.next(state.prices, totals)
        digest = hashlib.sha256(state.chain_hash)
        digest.update(struct.pack(">I", state.round))
        digest.update(values.astype(">i8").tobytes())
        digest.update(_floats(prices.current))
        over = self._is_over(prices)
        return RoundState(
            chain_hash=digest.digest(),
            prices=prices,
            caps=next_caps(self.agreement, demands),
            over=over,
            uncommitted=over and self.agreement.commits,
            last=ClosedRound(state.prices.current, values, state.last),
        )

    def commit(self, state: RoundState, commitments: Sequence[Commitment]) -> RoundState:
        """Close the exchange of commitments, given in roster order. Prices do not change.

        Raises `BadCommitment` with the members whose proof does not hold. Commitments that do not
        add up close the exchange too: the new state says so, and no member can be named.
        """
        from protocol.commitment.exchange import Committed, adds_up, committed_hash, without_proof

        proved = [(message.points, message.proof) for message in commitments]
        if places := without_proof(self.agreement, state.chain_hash, proved):
            raise BadCommitment(tuple(commitments[place].sender for place in places))
        points = tuple(message.points for message in commitments)
        hashed = [(message.points, message.proof_hash) for message in commitments]
        return replace(
            state,
            chain_hash=committed_hash(state.chain_hash, hashed),
            uncommitted=False,
            committed=Committed(state.chain_hash, points, adds_up(self.agreement, points)),
        )

    def _require_possible(self, totals: Ticks, round: int) -> None:  # noqa: A002
        """Raise `ImpossibleTotal` for a total that the members cannot have released.

        If masks do not cancel, a total is a random number of 64 bits, and hardly any passes.
        A member that lies can move a total only within what all members together could ask for,
        and the noise. The masks that hide single releases also hide who is at fault.
        """
        lowest, highest = self._possible(round)
        if (totals < lowest).any() or (totals > highest).any():
            raise ImpossibleTotal(
                f"round {round + 1}: the releases add up to a total that "
                f"{len(self.agreement.members)} members cannot have released. At least one release "
                "was not made as agreed; masks hide which one. The round stays open"
            )

    def _is_over(self, prices: Prices) -> bool:
        center, tolerance = prices.center, self.agreement.pricing.tolerance
        if prices.round >= self.agreement.rounds:
            return True
        if center is None or center.best is None or tolerance is None:
            return False
        net = net_prices(center.best.prices, quantities(self.agreement).opposites)
        return center.exact or center.best.within(tolerance, net)


def _floats(values: Floats) -> bytes:
    return values.astype(">f8").tobytes()


def numbers(releases: tuple[Signed, ...]) -> Ticks:
    """The released numbers of one round, members by numbers."""
    rows = [r.message.values for r in releases if isinstance(r.message, Release)]
    return np.array(rows, dtype=np.int64)


def mask_keys(keys: tuple[Signed, ...]) -> list[MaskKey]:
    """The mask keys of all members, without their signatures."""
    return [k.message for k in keys if isinstance(k.message, MaskKey)]


def commitments_in(messages: tuple[Signed, ...]) -> list[Commitment]:
    """The commitments of all members, without their signatures."""
    return [c.message for c in messages if isinstance(c.message, Commitment)]


def excess_demand(agreement: Agreement, values: Ticks) -> Floats:
    """How far the total of a round is above (below) each capacity, as a fraction of it.

    `values` may also hold several rounds, along the leading axes.
    """
    totals = values[..., : len(agreement.resources)].sum(axis=-2)
    over: Floats = (totals - agreement.ticks) / agreement.ticks
    return over


def session_id(chain_hash: bytes, keys: Sequence[MaskKey]) -> bytes:
    """The chain hash after the exchange of mask keys, given in roster order.

    `chain_hash` is the hash before it, which covers the agreement and the first prices. All later
    hashes and all masks depend on the session id. So parties that hold different keys, or
    different proofs, find out in the first round.
    """
    announced = b"".join(k.key + k.proof for k in keys)
    return hashlib.sha256(b"sotto session 2\n" + chain_hash + announced).digest()
