"""The messages that this party signs, and those that it sends again until all have moved on.

Never here: a release, a mask key or a commitment. The gate makes and signs those.
"""

from collections.abc import Callable
from typing import Any

from protocol.agreement.model import Agreement
from protocol.rounds import RoundState
from protocol.wire.codec import as_evidence
from protocol.wire.messages import Halt, Message, Reason, Seal, Signed

Pack = Callable[[Message], Signed]


class Outbox:
    """Signs Hellos, Seals and Halts, and holds what every resend repeats."""

    def __init__(self, agreement: Agreement, me: str, pack: Pack, own: tuple[Signed, ...]) -> None:
        self._agreement = agreement
        self._me = me
        self._pack = pack
        #: What every resend repeats. In the rounds the two newest releases, for peers one
        #: exchange behind. Then the last release and the seals, or the Halts that prove a fault.
        self.messages = own[-2:]

    def sign(self, kind: type[Message], state: RoundState, **fields: Any) -> Signed:
        """Sign a message at this round and chain hash."""
        return self._pack(
            kind(
                sender=self._me,
                agreement=self._agreement.digest,
                round=state.step,
                chain_hash=state.chain_hash,
                **fields,
            )
        )

    def add(self, release: Signed) -> None:
        """Repeat this message of an exchange from now on, and the one before it."""
        others = (s for s in self.messages if s.message != release.message)
        self.messages = (*others, release)[-2:]

    def seal(self, state: RoundState, *, has_all_seals: bool) -> Signed:
        """Seal the end of the session, and repeat that from now on."""
        seal = self.sign(Seal, state, has_all_seals=has_all_seals)
        self.messages = (*(self.messages if has_all_seals else self.messages[-1:]), seal)
        return seal

    def halt(self, state: RoundState, reason: Reason, evidence: tuple[Signed, ...]) -> Signed:
        return self.sign(Halt, state, reason=reason, evidence=tuple(map(as_evidence, evidence)))

    def accuse(
        self, state: RoundState, proof: tuple[Signed, ...], last: tuple[Signed, ...]
    ) -> tuple[Signed, ...]:
        """Show the proof of a fault, and repeat only that from now on.

        Two messages prove equivocation. A single one is the Halt of a member that computed other
        prices. Then this party shows its own last exchange too, so that others can compare.
        """
        if len(proof) > 1:
            self.messages = (self.halt(state, Reason.EQUIVOCATION, proof),)
        else:
            ours = self.halt(state, Reason.HEADS_DIFFER, last)
            self.messages = ours, self.halt(state, Reason.HEADS_DIFFER, proof)
        return self.messages
