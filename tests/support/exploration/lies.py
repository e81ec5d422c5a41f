"""A member that lies in every way the protocol knows: what it can sign, and when.

The liar has no process. Everything that it can sign is in the network from the moment when it
knows enough to sign it. Each honest party may receive any of it, or nothing. So the liar may also
act as agreed, stay silent, equivocate, or change its mind. Lies go through the real reader, which
refuses some of them. Never here: what honest parties do with it.
"""

import hashlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from party.release.masks import MaskSecret, announcement, pair_secret, stream
from protocol.agreement.model import Agreement
from protocol.commitment.exchange import statement
from protocol.commitment.group import commit
from protocol.commitment.layout import widths
from protocol.commitment.range_proof import prove
from protocol.errors import BadMessage
from protocol.rounds import RoundEngine, RoundState, session_id
from protocol.wire.codec import Reader
from protocol.wire.messages import (
    Commitment,
    Contribution,
    Halt,
    Hello,
    MaskKey,
    Message,
    Reason,
    Release,
    Seal,
    Signed,
)
from tests.support.builders import sign

_SECRETS = MaskSecret(b"\x07" * 32), MaskSecret(b"\x08" * 32)
_NOWHERE = bytes(32)


class Head(NamedTuple):
    """A place in the session where an honest party stands: the round and the chain hash."""

    round: int
    chain_hash: bytes


class Knowledge(NamedTuple):
    """What the liar has seen."""

    #: The contributions and seals of honest parties.
    seen: tuple[Signed, ...]
    #: Where honest parties stand, the opening first.
    heads: tuple[Head, ...]


class Liar:
    """One member that signs anything of a finite alphabet, on every head that it sees."""

    def __init__(
        self,
        agreement: Agreement,
        place: int,
        nonces: tuple[bytes, ...],
        lies: tuple[str, ...],
    ) -> None:
        """`nonces` are those of all members, in roster order; `lies` names rows of `LIES`."""
        self.agreement = agreement
        self.place = place
        self.nonces = nonces
        self.name = agreement.members[place].name
        self.opening = RoundEngine(agreement).opening
        self.refused: set[bytes] = set()
        self._reader = Reader(agreement)
        self._lies = lies
        #: The commitments that it has made, by head and number: a proof takes long.
        self._commitments: dict[tuple[Head, int], Signed] = {}

    def alphabet(self, seen: list[Signed]) -> list[Signed]:
        """All that the liar can sign once these messages were sent; its own count for nothing."""
        seen = [one for one in seen if one.message.sender != self.name]
        stands = [Head(0, self.opening.chain_hash)]
        stands += [Head(one.message.round, one.message.chain_hash) for one in seen]
        known = Knowledge(tuple(seen), tuple(dict.fromkeys(stands)))
        messages = list(as_agreed(self, known))
        for lie in self._lies:
            messages += LIES[lie](self, known)
        return [read for signed in messages if (read := self._through_reader(signed))]

    def _through_reader(self, signed: Signed) -> Signed | None:
        try:
            return self._reader.unpack(signed.data)
        except BadMessage:
            self.refused.add(signed.data)
            return None

    def message(self, kind: type[Message], head: Head, **fields: Any) -> Signed:
        common = {"sender": self.name, "agreement": self.agreement.digest, **head._asdict()}
        return sign(kind(**common | fields))

    def hello(self, head: Head, **fields: Any) -> list[Signed]:
        """A Hello that answers each honest party."""
        usual: dict[str, Any] = {
            "nonce": self.nonces[self.place],
            "wants_reply": True,
            "recorded": 0,
            "nonce_digest": _NOWHERE,
        }
        return [
            self.message(Hello, head, **usual | {"echo": nonce} | fields)
            for place, nonce in enumerate(self.nonces)
            if place != self.place
        ]

    def mask_key(self, secret: MaskSecret = _SECRETS[0]) -> Signed:
        return sign(announcement(self.agreement, self.name, self.opening.chain_hash, secret))

    def releases(
        self, known: Knowledge, demand: int, secret: MaskSecret = _SECRETS[0]
    ) -> list[Signed]:
        """A release on every head that has one, masked with this secret where there are masks."""
        if self.agreement.masked:
            return self._masked(known, demand, secret)
        heads = [head for head in known.heads if head.round < self.agreement.rounds]
        values = (demand,) * self.agreement.width
        return [self.message(Release, head, values=values) for head in heads]

    def commitments(self, known: Knowledge, number: int) -> list[Signed]:
        """Commitments to this number on every head that awaits them, each with a valid proof.

        They need not add up with those of others: the session goes on without claims then.
        """
        if not self.agreement.commits:
            return []
        heads = [head for head in known.heads if head.round == self.agreement.rounds]
        for head in heads:
            if (head, number) not in self._commitments:
                self._commitments[head, number] = self._commitment(head, number)
        return [self._commitments[head, number] for head in heads]

    def _commitment(self, head: Head, number: int) -> Signed:
        count = len(widths(len(self.agreement.resources)))
        numbers, blindings = (number,) * count, tuple(range(1, count + 1))
        points = tuple(map(commit, numbers, blindings))
        claim = statement(self.agreement, head.chain_hash, self.place, points)
        proof = prove(claim, numbers, blindings, _NOWHERE).data
        return self.message(Commitment, head, points=points, **_proof(proof))

    def _masked(self, known: Knowledge, demand: int, secret: MaskSecret) -> list[Signed]:
        own = self.mask_key(secret).message
        by_name = {
            s.message.sender: s.message for s in known.seen if isinstance(s.message, MaskKey)
        }
        if isinstance(own, MaskKey):
            by_name[self.name] = own
        if len(by_name) < len(self.agreement.members):
            return []
        announced = [by_name[member.name] for member in self.agreement.members]
        keys = [one.key for one in announced]
        session = session_id(self.opening.chain_hash, announced)
        state: RoundState = replace(self.opening, chain_hash=session, unpaired=False)
        total = np.full(self.agreement.width, demand, dtype=np.int64)
        for other in range(len(keys)):
            if other != self.place:
                pair = pair_secret(secret, keys, self.place, other, session)
                row = np.frombuffer(stream(pair, state, self.agreement.width), dtype=">i8")
                total = total + row.astype(np.int64) * (1 if self.place < other else -1)
        values = tuple(total.tolist())
        return [self.message(Release, Head(0, session), values=values, masked=True)]


def _proof(proof: bytes) -> dict[str, Any]:
    return {"proof": proof, "proof_hash": hashlib.sha256(proof).digest()}


def as_agreed(liar: Liar, known: Knowledge) -> Iterator[Signed]:
    """What an honest member in its place could sign."""
    for head in known.heads:
        yield from liar.hello(head)
    if liar.agreement.masked:
        yield liar.mask_key()
    yield from liar.releases(known, 5)
    yield from liar.commitments(known, 3)
    for head in _ends(liar, known):
        for has_all_seals in (False, True):
            yield liar.message(Seal, head, has_all_seals=has_all_seals)


def _ends(liar: Liar, known: Knowledge) -> list[Head]:
    end = liar.agreement.rounds + liar.agreement.commits
    return [head for head in known.heads if head.round == end]


def second_release(liar: Liar, known: Knowledge) -> list[Signed]:
    """Another number for the same round."""
    return liar.releases(known, 6)


def second_mask_key(liar: Liar, known: Knowledge) -> list[Signed]:
    """Another mask key, with a valid proof, and the releases that belong to it."""
    if not liar.agreement.masked:
        return []
    return [liar.mask_key(_SECRETS[1]), *liar.releases(known, 5, _SECRETS[1])]


def copied_mask_key(liar: Liar, known: Knowledge) -> list[Signed]:
    """The mask key of an honest party, with its proof or with one of the liar's own."""
    own, copies = liar.mask_key().message, []
    for theirs in known.seen:
        if isinstance(theirs.message, MaskKey) and isinstance(own, MaskKey):
            for proof in (own.proof, theirs.message.proof):
                copies.append(sign(replace(own, key=theirs.message.key, proof=proof)))
    return copies


def second_commitment(liar: Liar, known: Knowledge) -> list[Signed]:
    """Commitments to another number, with a valid proof."""
    return liar.commitments(known, 4)


def false_commitment(liar: Liar, known: Knowledge) -> list[Signed]:
    """Commitments whose proof fails, is missing, or belongs to an honest party."""
    theirs = [s.message for s in known.seen if isinstance(s.message, Commitment)]
    found = []
    for own in liar.commitments(known, 3):
        assert isinstance(own.message, Commitment)
        proof = own.message.proof
        for wrong in (proof[:-1] + bytes([proof[-1] ^ 1]), b""):
            found.append(sign(replace(own.message, **_proof(wrong))))
        for one in (t for t in theirs if t.chain_hash == own.message.chain_hash):
            copied = replace(own.message, points=one.points, **_proof(one.proof))
            found.append(sign(copied))
    return found


def wrong_chain_hash(liar: Liar, known: Knowledge) -> list[Signed]:
    """A contribution of each kind, seals and a Hello on a chain hash that no party has."""
    signed = [*liar.releases(known, 5), *liar.commitments(known, 3)]
    signed += [liar.mask_key()] if liar.agreement.masked else []
    found = [sign(replace(one.message, chain_hash=_NOWHERE)) for one in signed]
    for head in (Head(head.round, _NOWHERE) for head in known.heads):
        found += liar.hello(head)
        found += [liar.message(Seal, head, has_all_seals=done) for done in (False, True)]
    return found


def early_release(liar: Liar, known: Knowledge) -> list[Signed]:
    """Releases one round early and far ahead."""
    values, masked = (5,) * liar.agreement.width, liar.agreement.masked
    return [
        liar.message(Release, head._replace(round=head.round + n), values=values, masked=masked)
        for head, n in itertools.product(known.heads, (1, 2))
    ]


def wrong_seal(liar: Liar, known: Knowledge) -> list[Signed]:
    """Seals before the end and after it."""
    return [
        liar.message(Seal, head._replace(round=head.round + n), has_all_seals=done)
        for head, n, done in itertools.product(known.heads, (0, 1, 2), (False, True))
    ]


def impossible_number(liar: Liar, known: Knowledge) -> list[Signed]:
    """A number that no honest member can release, and one that only masks could hide."""
    found = liar.releases(known, -(1 << 40))
    for one in liar.releases(known, 5):
        assert isinstance(one.message, Release)
        wrapped = tuple(value ^ (1 << 62) for value in one.message.values)
        if liar.agreement.masked:
            found.append(sign(replace(one.message, values=wrapped)))
    return found


def boast(liar: Liar, known: Knowledge) -> list[Signed]:
    """Hellos that claim releases that do not exist, or a round that is far ahead."""
    everything = b"\x02" * len(liar.agreement.members)
    found = []
    for head in known.heads:
        found += liar.hello(head, known_ahead=everything, recorded=9)
        found += liar.hello(Head(head.round + 1, head.chain_hash))
    return found


def restarts(liar: Liar, known: Knowledge) -> list[Signed]:
    """Hellos with another nonce, with none, and with another agreement."""
    found = []
    for head in known.heads:
        found += liar.hello(head, nonce=b"\x05" * 16)
        found += liar.hello(head, nonce=bytes(16))
        found += liar.hello(head, agreement=b"\x06" * 32)
    return found


def false_accusation(liar: Liar, known: Knowledge) -> list[Signed]:
    """Halts with evidence that proves nothing: repeated, forged, or none."""
    found, shown = [], [one for one in known.seen if isinstance(one.message, Contribution)][-2:]
    for head, reason in itertools.product(known.heads, Reason):
        evidences = [(), *((one.data, one.data) for one in shown)]
        evidences += [(one.data, one.data[:-1] + bytes([one.data[-1] ^ 1])) for one in shown]
        for evidence in evidences:
            found.append(liar.message(Halt, head, reason=reason, evidence=evidence))
    return found


def other_prices(liar: Liar, known: Knowledge) -> list[Signed]:
    """Halts on another chain hash, with nothing and with a whole exchange as evidence."""
    found = []
    for head in known.heads:
        wrong = Head(head.round, _NOWHERE)
        kind, own = _last_exchange(liar, known, head)
        shown = [s for s in (*known.seen, *own) if isinstance(s.message, kind)]
        for evidence in ((), tuple(one.data for one in shown)):
            halt = liar.message(Halt, wrong, reason=Reason.HEADS_DIFFER, evidence=evidence)
            found.append(halt)
    return found


def _last_exchange(liar: Liar, known: Knowledge, head: Head) -> tuple[type[Message], list[Signed]]:
    """The kind of the exchange that leads to a head, and the liar's own part of it."""
    if head.round > liar.agreement.rounds:
        return Commitment, liar.commitments(known, 3)
    return (Release, liar.releases(known, 5)) if head.round else (MaskKey, [liar.mask_key()])


Lie = Callable[[Liar, Knowledge], list[Signed]]

LIES: dict[str, Lie] = {
    lie.__name__.replace("_", "-"): lie
    for lie in (
        *(second_release, second_mask_key, copied_mask_key, second_commitment),
        *(false_commitment, wrong_chain_hash, early_release, wrong_seal),
        *(impossible_number, boast, restarts, false_accusation, other_prices),
    )
}
"""Every way to lie, by its name in the command."""
