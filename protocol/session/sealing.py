"""The seals of a session, and what peers that are late still need to finish.

Seals come in here once their chain hash is checked. Never here: a decision that all is sealed
correctly, which is the session's.
"""

from collections.abc import Iterable

from protocol.agreement.model import Agreement
from protocol.rounds import RoundState
from protocol.session.exchange import RoundBuffer
from protocol.wire.messages import Hello, Signed


class Sealing:
    """Who has sealed, who has all seals, and who lacks what."""

    def __init__(self, agreement: Agreement, me: str) -> None:
        self._agreement = agreement
        self._me = me
        self._names = tuple(member.name for member in agreement.members)
        #: The seal of each member by sender, our own included once it is sent. Before the last
        #: round is closed, those of peers that have closed it already.
        self.seals: dict[str, Signed] = {}
        #: The peers that say they have all seals.
        self.have_all: set[str] = set()
        #: Messages of other members that a late peer lacks, by peer, until the next resend.
        self._owed: dict[str, tuple[Signed, ...]] = {}
        #: The peers for which this party has stayed, each with how far it was behind.
        self._helped: set[tuple[str, int]] = set()

    @property
    def everyone_sealed(self) -> bool:
        return len(self.seals) == len(self._names)

    @property
    def everyone_has_all(self) -> bool:
        return len(self.have_all) == len(self._names) - 1

    def add(self, signed: Signed) -> bool:
        """Keep a seal; whether it is the first of its sender."""
        first = signed.message.sender not in self.seals
        self.seals.setdefault(signed.message.sender, signed)
        return first

    def complete(self) -> tuple[Signed, ...]:
        """The seals of all members, in roster order."""
        return tuple(self.seals[name] for name in self._names)

    def recheck(self, state: RoundState) -> list[Signed]:
        """Drop the early seals that this new state shows to be wrong, and return the diverging.

        If the session is not over, every early seal was wrong: its sender has to seal again.
        """
        diverging = [s for s in self.seals.values() if s.message.chain_hash != state.chain_hash]
        if not state.final:
            self.seals.clear()
        for signed in diverging:
            self.seals.pop(signed.message.sender, None)
        return diverging

    def known_ahead(self) -> bytes:
        """1 for each peer whose seal is here, in roster order."""
        return bytes(int(n != self._me and n in self.seals) for n in self._names)

    def owe(self, hello: Hello, buffer: RoundBuffer) -> bool:
        """After the last round: note what the sender of a Hello lacks; whether to stay for it.

        A peer one exchange behind lacks messages of the last exchange, others lack seals. Owed
        are messages of members that may have left: not its own and not ours. This party stays
        longer once for each exchange that a late peer has reached.
        """
        ahead = buffer.ahead(hello)
        if ahead not in (-1, 0):
            return False
        held = dict(zip(self._names, buffer.last, strict=True)) if ahead else self.seals
        owed = tuple(
            signed
            for name, signed in held.items()
            if name not in (self._me, hello.sender)
            and not hello.beyond(self._agreement.place(name))
        )
        self._owed[hello.sender] = owed
        step = hello.sender, ahead
        if not owed or step in self._helped:
            return False
        self._helped.add(step)
        return True

    def take_owed(self, besides: Iterable[Signed]) -> list[Signed]:
        """What late peers lack, each message once and none that is sent `besides`."""
        skipped, taken = list(besides), []
        for owed in self._owed.values():
            taken += [signed for signed in owed if signed not in skipped and signed not in taken]
        self._owed.clear()
        return taken
