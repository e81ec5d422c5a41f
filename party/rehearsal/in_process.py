"""A whole session in one process: the real session, gate and ledger of every party.

Everything a party would say goes through its real `Session`; only the sockets and the
signatures are left out. Noise is seeded, so that a run can be repeated, and gives no privacy:
what is played here must never be sent.
"""

import hashlib
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from party.driver import Driver
from party.ledger.session_ledger import Ledger
from party.model.best_response import Subproblem
from party.release.gate import Gate
from party.release.noise import SeededGaussian
from protocol.agreement.model import Agreement
from protocol.numeric import Ticks
from protocol.rounds import RoundEngine, RoundState
from protocol.wire.codec import pack
from protocol.wire.messages import Message, Signed


class _TimedGate(Gate):
    """A gate that knows how long its slowest release took."""

    longest_seconds = 0.0

    def release(self, state: RoundState) -> Signed:
        began = time.perf_counter()
        release = super().release(state)
        self.longest_seconds = max(self.longest_seconds, time.perf_counter() - began)
        return release


class _OneCourse(RoundEngine):
    """A course that several sessions share: what one of them has found, no other seeks again.

    The head of a position commits to all that led there, so that with the same numbers every
    session would find the same next one. With many resources that is most of the work of a round.
    """

    def __init__(self, agreement: Agreement) -> None:
        super().__init__(agreement)
        self._sought = b""
        self._found = self.opening

    def advance(self, state: RoundState, values: Ticks) -> RoundState:
        sought = state.chain_hash + values.tobytes()
        if sought != self._sought:
            self._found = super().advance(state, values)
            self._sought = sought
        return self._found


class Player(Driver):
    """One party of the simulation, unsigned and with seeded noise."""

    def __init__(
        self,
        agreement: Agreement,
        engine: RoundEngine,
        index: int,
        problem: Subproblem,
        seed: int,
        on_round: Callable[[int], None],
    ) -> None:
        """Play for one member. `self.longest_seconds` is what its slowest release took."""
        member = agreement.members[index]

        def unsigned(message: Message) -> Signed:
            return pack(message, key=member.signing_key, sign=lambda _: bytes(64))

        self.ledger = Ledger(":memory:", agreement, member.name)
        self._timed = gate = _TimedGate(
            agreement,
            member.name,
            subproblem=problem,
            noise=SeededGaussian(seed),
            ledger=self.ledger,
            pack=unsigned,
        )
        super().__init__(
            agreement,
            member.name,
            nonce=hashlib.sha256(member.name.encode()).digest()[:16],
            pack=unsigned,
            gate=gate,
            ledger=self.ledger,
            on_round=lambda state, _: on_round(state.round),
        )
        self.session.engine = engine

    @property
    def longest_seconds(self) -> float:
        return self._timed.longest_seconds


@contextmanager
def players(
    agreement: Agreement,
    problems: list[Subproblem],
    seed: int,
    on_round: Callable[[int], None] = lambda _: None,
) -> Iterator[list[Player]]:
    """All members of a session. Their ledgers are closed at the end, whatever happens."""
    seated: list[Player] = []
    engine = _OneCourse(agreement)
    try:
        for k, problem in enumerate(problems):
            tell = on_round if k == 0 else lambda _: None
            seated.append(Player(agreement, engine, k, problem, seed, tell))
        yield seated
    finally:
        for player in seated:
            player.ledger.close()


def run(members: list[Player]) -> None:
    """Let the members talk until all have left."""
    now = 0.0
    mail = deque(signed for member in members for signed in member.begin(now))
    while not all(member.left for member in members):
        while mail:
            signed = mail.popleft()
            for member in members:
                mail.extend(member.receive(signed, now))
                member.run_idle_work()
        staying = [member for member in members if not member.left]
        now = min((member.session.deadline for member in staying), default=now)
        for member in staying:
            mail.extend(member.tick(now))
            if member.error is not None:
                raise member.error
