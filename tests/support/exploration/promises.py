"""What must hold in every state of an exploration.

Every check looks at one step of one party, or at what all parties have signed and stored. More
messages in the network never hide a broken promise. Never here: how states are found.
"""

from collections.abc import Iterable

from protocol.errors import (
    DifferentAgreement,
    DifferentPrices,
    Diverged,
    Equivocation,
    ImpossibleTotal,
    Unavailable,
)
from protocol.wire.messages import Commitment, Contribution, Message, Release, Seal, Signed
from tests.support.exploration.party import Local, Players, Step
from tests.support.simulated_disk import Violation


class Promises:
    """The promises of one session; `liar` is the place of the member that may break them."""

    def __init__(self, players: Players, liar: int | None) -> None:
        self._players = players
        self._masked = players.agreement.masked
        self._liar = None if liar is None else players.names[liar]
        self._honest = {name for name in players.names if name != self._liar}

    # One party

    def check_step(self, before: int, step: Step) -> None:
        """Check what one event made an honest party do."""
        held, then = self._players.locals[before], self._players.locals[step.after]
        self._check_made(held, then)
        self._check_durable(then, step)
        self._check_party(then)

    def _check_made(self, held: Local, then: Local) -> None:
        """A party makes a release only after every peer has answered this start of it."""
        if held.stored.sent == then.stored.sent:
            return
        missing = set(range(len(self._players.names))) - then.heard - {then.party}
        if missing and then.driver is not None:
            names = [self._players.names[k] for k in sorted(missing)]
            name = self._players.names[then.party]
            raise Violation(f"{name} made a release before {names} answered")

    def _check_durable(self, then: Local, step: Step) -> None:
        """What a party signs for an exchange is on its disk."""
        name, stored = self._players.names[then.party], then.stored
        once = [pair[1] for pair in (stored.mask, stored.opening) if pair]
        own = [signed.message for signed in (*stored.releases, *once)]
        for number in step.sends:
            message = self._players.messages[number].message
            if message.sender == name and isinstance(message, Contribution) and message not in own:
                raise Violation(f"{name} sent a message that its disk does not hold")

    def _check_party(self, held: Local) -> None:
        """Check how a party ended, or why it stopped."""
        name, error = self._players.names[held.party], held.error
        if held.stored.seals:
            self._check_seals(name, held.stored.seals)
        if held.stored.seals and held.stored.fault:
            raise Violation(f"{name} both finished and failed")
        if held.stored.seals and held.stored.mask and held.stored.mask[0]:
            raise Violation(f"{name} finished and still has its secret mask key")
        if error is None or isinstance(error, Unavailable):
            return
        blames = isinstance(error, Equivocation | DifferentPrices | Diverged | DifferentAgreement)
        if self._liar is not None and blames and getattr(error, "sender", None) == self._liar:
            return
        if isinstance(error, ImpossibleTotal) and self._liar is not None and self._masked:
            return
        raise Violation(f"{name} has no reason for {type(error).__name__}: {error}")

    def _check_seals(self, name: str, seals: tuple[Signed, ...]) -> None:
        """A party finishes with one seal of every member, all on one chain hash."""
        if tuple(signed.message.sender for signed in seals) != self._players.names:
            raise Violation(f"{name} finished without a seal of every member")
        if len({signed.message.chain_hash for signed in seals}) > 1:
            raise Violation(f"{name} finished with seals on different chain hashes")

    # All parties

    def check_signed(self, messages: Iterable[Message]) -> None:
        """Check all that honest parties have signed for exchanges, and their seals."""
        slots: dict[tuple[str, int, bool], Message] = {}
        hashes: dict[int, set[bytes]] = {}
        for message in messages:
            if message.sender not in self._honest:
                continue
            if isinstance(message, Contribution):
                slot = message.sender, message.round, isinstance(message, Release | Commitment)
                if slots.setdefault(slot, message) != message:
                    raise Violation(f"{message.sender} signed two messages for one exchange")
            if isinstance(message, Release | Commitment | Seal):
                hashes.setdefault(message.round, set()).add(message.chain_hash)
        for number, found in sorted(hashes.items()):
            if len(found) < 2:
                continue
            if self._liar is None:
                raise Violation(f"honest parties have different chain hashes in round {number}")
            if number + 1 in hashes:
                raise Violation(f"round {number} was closed with different chain hashes")

    def check_ends(self, parties: Iterable[int]) -> None:
        """All parties that finished have the same rounds and the same final chain hash."""
        ends = set()
        for local in parties:
            held = self._players.locals[local]
            if held.stored.seals and self._players.names[held.party] in self._honest:
                rounds = tuple(signed.data for row in held.stored.rounds for signed in row)
                seals = (signed.message.chain_hash for signed in held.stored.seals)
                ends.add((rounds, *seals))
        if len(ends) > 1:
            raise Violation("parties finished with different transcripts")
