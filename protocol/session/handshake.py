"""The handshake: which peers run, and which have answered this start of this party.

Every start draws a nonce. A Hello answers a start if it repeats that nonce, or the digest of all
nonces. Never here: a decision about rounds, prices or chain hashes.
"""

import hashlib
from typing import Any, NamedTuple

from protocol.agreement.model import Agreement
from protocol.errors import DifferentAgreement
from protocol.session.exchange import RoundBuffer
from protocol.wire.messages import NO_NONCE, Hello, Signed

CONTEXT = b"sotto nonces\n"

COMPARE = (
    "all members need the same file. Ask the convener for it, and see with `protocol diff YOURS "
    "THEIRS` which terms differ"
)
"""What to do about another agreement. Only digests are sent, so no message says what differs."""


class Arrival(NamedTuple):
    """What the arrival of a Hello changes."""

    #: It is the first Hello of this peer.
    first: bool
    #: Its nonce is new: the peer has started since its last Hello.
    new_nonce: bool
    #: Its sender waits for our reply.
    needs_reply: bool


class Handshake:
    """The newest nonce of every member, and which peers have answered."""

    def __init__(self, agreement: Agreement, me: str, nonce: bytes, recorded: int = 0) -> None:
        names = tuple(member.name for member in agreement.members)
        self._agreement = agreement.digest
        self._me = me
        #: How many of our own mask keys and releases our ledger holds.
        self.recorded = recorded
        #: The newest nonce of every member in roster order; zeros until its first Hello.
        self._nonces = dict.fromkeys(names, NO_NONCE) | {me: nonce}
        #: How many peers have sent no Hello yet.
        self._unmet = len(names) - 1
        #: The digest of `_nonces`; empty when it must be computed again.
        self._digest = b""
        #: The digest in our last Hello.
        self._sent_digest = b""
        #: The peers that want a reply, in the order of their requests, each with its digest;
        #: empty for another agreement, whose digest cannot equal ours.
        self._requests: dict[str, bytes] = {}
        #: The newest Hello of each peer that is not known to answer this start.
        self.unverified_hellos: dict[str, Signed] = {}
        #: The peers that have answered this start.
        self.answered: set[str] = set()
        #: The peers that once claimed more of our messages than our ledger holds.
        self.stale_claims: set[str] = set()
        #: The digest of the agreement of each peer that has another one.
        self.other_agreements: dict[str, bytes] = {}
        #: A peer's own newest message, if its ledger lacks it, until our next Hello.
        self._lost: dict[str, Signed] = {}

    # Who is there

    @property
    def nonce_digest(self) -> bytes:
        """The digest of all nonces in roster order; zeros stand for peers not met."""
        if not self._digest:
            self._digest = hashlib.sha256(b"".join((CONTEXT, *self._nonces.values()))).digest()
        return self._digest

    @property
    def all_met(self) -> bool:
        """Whether every peer has sent a Hello. Until then the session cannot go on."""
        return not self._unmet

    def meet(self, hello: Hello, *, repeating: bool) -> Arrival:
        """Remember the nonce of a peer and whether it wants a reply. Zeros are not a nonce.

        While this party keeps `repeating` its Hello, a peer that knows all the nonces of that
        Hello needs no reply.
        """
        before = self._nonces[hello.sender]
        new_nonce = hello.nonce not in (before, NO_NONCE)
        first = new_nonce and before == NO_NONCE
        if new_nonce:
            self._unmet -= first
            self._nonces[hello.sender] = hello.nonce
            self._digest = b""
        ours = hello.agreement == self._agreement
        informed = repeating and ours and hello.nonce_digest == self._sent_digest
        needs_reply = hello.wants_reply and not informed
        if needs_reply:
            self._requests.pop(hello.sender, None)
            self._requests[hello.sender] = hello.nonce_digest if ours else b""
        return Arrival(first, new_nonce, needs_reply)

    # Our Hellos

    def compose(self, *, wants_reply: bool, known_ahead: bytes) -> dict[str, Any]:
        """The fields of our next Hello.

        `echo` is the nonce of the peer that has waited longest among those whose digest differs.
        """
        self._sent_digest = self.nonce_digest
        waiting = [name for name, digest in self._requests.items() if digest != self.nonce_digest]
        self._requests = {name: self._requests[name] for name in waiting[1:]}
        return {
            "nonce": self._nonces[self._me],
            "wants_reply": wants_reply,
            "recorded": self.recorded,
            "nonce_digest": self.nonce_digest,
            "echo": self._nonces[waiting[0]] if waiting else NO_NONCE,
            "known_ahead": known_ahead if any(known_ahead) else b"",
        }

    def find_lost(self, hello: Hello, buffer: RoundBuffer) -> None:
        """If the ledger of a peer lacks its own newest message, send that back with our Hello.

        It proves to the peer that its ledger is an old copy.
        """
        for newest in buffer.of_sender(hello.sender)[-1:]:
            if hello.wants_reply and buffer.numbering.number(newest.message) >= hello.recorded:
                self._lost[hello.sender] = newest

    def take_lost(self) -> tuple[Signed, ...]:
        """What `find_lost` has found since the last Hello."""
        lost = tuple(self._lost.values())
        self._lost.clear()
        return lost

    # Answers

    def answers(self, hello: Hello) -> bool:
        """Whether the sender of this Hello knew our nonce.

        *Guarantee:* then the Hello was made after this start. It repeats our nonce, or its digest
        covers it; both were unknown before the nonce was drawn.
        """
        ours = self._nonces[self._me]
        return hello.echo == ours or hello.nonce_digest == self.nonce_digest

    def verify(self, signed: Signed, *, new_nonce: bool) -> list[tuple[Signed, Hello]]:
        """The Hellos that are now known to answer this start.

        After a new nonce, older Hellos may be among them: their digests may cover that nonce.
        """
        self.unverified_hellos[signed.message.sender] = signed
        candidates = tuple(self.unverified_hellos.values()) if new_nonce else (signed,)
        verified = []
        for one in candidates:
            if isinstance(one.message, Hello) and self.answers(one.message):
                del self.unverified_hellos[one.message.sender]
                verified.append((one, one.message))
        return verified

    def accept(self, name: str) -> bool:
        """A peer has answered; whether that is new."""
        if name in self.answered:
            return False
        self.other_agreements.pop(name, None)
        self.answered.add(name)
        return True

    @property
    def complete(self) -> bool:
        """Whether every peer has answered."""
        return len(self.answered) == len(self._nonces) - 1

    def doubt(self, name: str, claim: int) -> str | None:
        """A peer claims more of our messages than we have. Returns a warning the first time.

        A claim is not proof, so our ledger stands. But the peer has not answered either.
        """
        self.answered.discard(name)
        if name in self.stale_claims:
            return None
        self.stale_claims.add(name)
        return (
            f"{name!r} claims to know {claim} releases of {self._me!r}, but this ledger holds "
            f"{self.recorded}; waiting until it shows one of them or corrects its claim"
        )

    def reject(self, hello: Hello) -> DifferentAgreement | str | None:
        """A peer has another agreement, if it answers this start. Returns a warning when new.

        If more than half of the peers have another one, it is an error: ours is likely wrong.
        """
        if hello.echo != self._nonces[self._me]:
            return None
        new = self.other_agreements.get(hello.sender) != hello.agreement
        self.other_agreements[hello.sender] = hello.agreement
        text = f"{hello.sender!r} has agreement {hello.agreement.hex()}, "
        text += f"this is {self._agreement.hex()}"
        if 2 * len(self.other_agreements) > len(self._nonces) - 1:
            error = f"{text}; {COMPARE}"
            return DifferentAgreement(error, sender=hello.sender)
        wait = f"waiting until {hello.sender!r} joins with ours; `protocol diff` shows what differs"
        return f"{text}; {wait}" if new else None
