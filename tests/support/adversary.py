"""What goes wrong in a simulated session: faults of network and disks, and a member that lies.

All choices come from the seed of the simulation. Never here: a check of what must hold.
"""

import hashlib
import random
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from party.release.masks import MaskSecret, announcement
from protocol.agreement.model import Agreement
from protocol.commitment.group import IDENTITY, VALUE_BASE, add
from protocol.rounds import RoundState
from protocol.wire.codec import as_evidence, pack
from protocol.wire.messages import (
    FURTHEST,
    Commitment,
    Halt,
    Hello,
    MaskKey,
    Message,
    Reason,
    Release,
    Seal,
    Signed,
)
from tests.support.builders import public_key, sign

_WRONG_COMMITMENTS = (
    "withheld",
    "without proof",
    "copied",
    "small order",
    "identity",
    "zero scalars",
    "one grain more",
)


class Faults(Struct, frozen=True, kw_only=True):
    """What goes wrong until the faults stop. Numbers are probabilities at each step."""

    loss: float = 0.0
    duplicate: float = 0.0
    #: A bit of a message changes on its way.
    flip: float = 0.0
    #: An old message is delivered again.
    replay: float = 0.0
    delay_seconds: float = 0.01
    #: A party loses power.
    crash: float = 0.0
    #: It then starts from an old copy of its disk.
    restore: float = 0.0
    #: It then starts from a disk with a flipped bit.
    damage: float = 0.0
    #: The network splits in two from time to time.
    partition: bool = False
    #: Some pairs of parties lose every message of one kind.
    selective: bool = False
    #: The seals of one party never reach one other.
    withhold: bool = False
    #: One party is away when the others end.
    absent: bool = False
    #: One member lies.
    liar: bool = False

    @staticmethod
    def drawn(chance: random.Random, *, liar: bool = False) -> "Faults":
        """A random mix. Each kind is often absent, so that the others can get far."""

        def maybe(most: float) -> float:
            return chance.choice((0.0, chance.uniform(0.0, most)))

        return Faults(
            loss=maybe(0.6),
            duplicate=maybe(0.5),
            flip=maybe(0.2),
            replay=maybe(0.5),
            delay_seconds=chance.choice((0.001, 0.02, 0.2, 1.0)),
            crash=maybe(0.05),
            restore=0.0 if liar else chance.choice((0.0, 0.5, 1.0)),
            partition=chance.random() < 0.3,
            selective=chance.random() < 0.3,
            damage=maybe(0.3),
            withhold=chance.random() < 0.3,
            absent=not liar and chance.random() < 0.4,
            liar=liar,
        )


class Adversary:
    """The member that lies, if there is one: what it sends in place of its honest messages."""

    def __init__(
        self,
        agreement: Agreement,
        chance: random.Random,
        honest: list[str],
        *,
        first_lies: int,
        copies: bool,
        note: Callable[[str], None],
    ) -> None:
        self._agreement = agreement
        self._chance = chance
        self._note = note
        #: The parties that receive other messages than the rest.
        self._deceived = {name for name in honest if chance.random() < 0.5}
        #: The first round with such messages.
        self._lies_from = chance.randrange(first_lies)
        #: Whether a lie has the chain hash of its receiver.
        self._two_faced = chance.random() < 0.5
        #: How often a bogus Halt replaces a message.
        self._bluff_chance = 0.1
        #: Whether it claims the end of the session too early.
        self._rushes = chance.random() < 0.3
        #: Whether it sends Halts that prove nothing.
        self.bluffs = chance.random() < 0.3
        #: Whether its Hellos claim more than it knows.
        self.boasts = chance.random() < 0.3
        #: Whether it announces the mask key of another member as its own, and never its own.
        self.copies = copies and chance.random() < 0.3
        #: How it commits, to all alike: None if as agreed.
        self.miscommits = chance.choice((None, None, *_WRONG_COMMITMENTS)) if copies else None
        #: Every message that was published, for replays and false evidence.
        self.published: list[bytes] = []
        #: The mask keys and releases of honest parties.
        self.keys: dict[str, MaskKey] = {}
        self.released: dict[tuple[str, int], Release] = {}
        self.committed: dict[str, Commitment] = {}

    def only_claim(self) -> None:
        """Sign no two messages that contradict each other, but claim anything else."""
        self._deceived = set()
        self._rushes = False
        self.bluffs = self.boasts = True
        self._bluff_chance = 0.3

    def lie(
        self, receiver: str, state: RoundState | None, signed: Signed, *, faulty: bool
    ) -> bytes:
        """What the liar sends to this receiver, which is in this state if it runs.

        Bogus Halts and Hellos come only while the network is `faulty`.
        """
        message, chance = signed.message, self._chance
        if self.copies and isinstance(message, MaskKey):
            return self._copied_key(signed, message)
        if isinstance(message, Commitment) and self.miscommits:
            return self._false_commitment(message, self.miscommits)
        if faulty and self.bluffs and chance.random() < self._bluff_chance:
            return sign(self._bogus_halt(message)).data
        if faulty and self.boasts and isinstance(message, Hello):
            return sign(self._boast(receiver, message)).data
        if self._rushes and isinstance(message, Release) and chance.random() < 0.1:
            return sign(self._early_seal(message)).data
        if receiver not in self._deceived or message.round < self._lies_from:
            return signed.data
        fields: dict[str, Any] = {}
        if isinstance(message, Release):
            fields["values"] = tuple(value + 1 for value in message.values)
        if isinstance(message, Commitment):
            points = (add(message.points[0], VALUE_BASE), *message.points[1:])
            fields["points"] = points
        if self._two_faced and state and state.step == message.round:
            fields["chain_hash"] = state.chain_hash
        if isinstance(message, MaskKey):
            other = MaskSecret(hashlib.sha256(message.key).digest())
            chain_hash = fields.get("chain_hash", message.chain_hash)
            return sign(announcement(self._agreement, message.sender, chain_hash, other)).data
        return sign(replace(message, **fields)).data

    def _false_commitment(self, own: Commitment, how: str) -> bytes:
        """Commitments that no honest member accepts, or that do not add up."""
        self._note(f"{own.sender} commits falsely: {how}")
        if how == "withheld":
            return bytes(200)
        if how == "without proof":
            return as_evidence(sign(own))
        others = [theirs for name, theirs in self.committed.items() if name != own.sender]
        if how == "copied" and others:
            return sign(replace(others[0], sender=own.sender)).data
        if how == "small order":
            return sign(replace(own, points=(bytes(32), *own.points[1:]))).data
        if how == "identity":
            return sign(replace(own, points=(IDENTITY, *own.points[1:]))).data
        if how == "zero scalars":
            proof = own.proof[:128] + bytes(len(own.proof) - 128)
            return sign(replace(own, proof=proof, proof_hash=hashlib.sha256(proof).digest())).data
        points = (add(own.points[0], VALUE_BASE), *own.points[1:])  # one grain more
        return sign(replace(own, points=points)).data

    def _copied_key(self, signed: Signed, own: MaskKey) -> bytes:
        """The key of another member, under one of the proofs that the liar can have."""
        others = [key for name, key in self.keys.items() if name != own.sender]
        if not others:
            return bytes(len(signed.data))  # it waits until there is a key to copy
        theirs = self._chance.choice(others)
        key = theirs.key
        if self._chance.random() < 0.3:  # the same point of X25519 in another encoding
            key = key[:-1] + bytes([key[-1] ^ 0x80])
        proof = self._chance.choice((own.proof, theirs.proof))
        self._note(f"{own.sender} copies the mask key of {theirs.sender}")
        return sign(replace(own, key=key, proof=proof)).data

    def _early_seal(self, message: Release) -> Seal:
        """A claim, in place of a release, that the session is over."""
        return Seal(
            sender=message.sender,
            agreement=message.agreement,
            round=message.round,
            chain_hash=message.chain_hash,
            has_all_seals=self._chance.random() < 0.5,
        )

    def _boast(self, receiver: str, hello: Hello) -> Hello:
        """A Hello that claims to know more than there is, or than the liar can show."""
        row, claim = self._agreement.place(receiver), self._chance.choice((1, 2, 10**6))
        counts = bytearray(hello.known_ahead or bytes(len(self._agreement.members)))
        counts[row] = min(FURTHEST, counts[row] + claim)
        further = claim if self._chance.random() < 0.3 else 0
        return replace(hello, round=hello.round + further, known_ahead=bytes(counts))

    def _bogus_halt(self, message: Message) -> Halt:
        """A Halt whose evidence proves nothing: old messages and a forged release."""
        chance, published = self._chance, self.published
        shown = chance.sample(published, chance.randrange(min(3, len(published) + 1)))
        if self.released:
            victim = chance.choice(list(self.released.values()))
            forged = replace(victim, values=(7,) * self._agreement.width)
            shown.append(pack(forged, key=public_key(victim.sender), sign=lambda _: bytes(64)).data)
        return Halt(
            sender=message.sender,
            agreement=message.agreement,
            round=message.round,
            chain_hash=chance.choice((message.chain_hash, bytes(32)))
            if self._deceived
            else message.chain_hash,
            reason=chance.choice(tuple(Reason)),
            evidence=tuple(shown),
        )
