"""A complete session in one process: the real session, gate and ledger of every party.

Only the sockets and the signatures are left out. The noise is seeded, so that a run can be
repeated; it gives no privacy, and its releases must never be sent.
"""

import hashlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from party.driver import Driver
from party.ledger.session_ledger import Ledger
from party.model.best_response import Responder
from party.release.gate import Gate
from party.release.noise import SeededGaussian
from protocol.agreement.model import Agreement
from protocol.numeric import Ticks
from protocol.rounds import RoundEngine, RoundState
from protocol.wire.codec import pack
from protocol.wire.messages import Message, Signed


class _TimedGate(Gate):
    """A gate that measures its slowest release."""

    longest_seconds = 0.0

    def release(self, state: RoundState) -> Signed:
        start = time.perf_counter()
        release = super().release(state)
        self.longest_seconds = max(self.longest_seconds, time.perf_counter() - start)
        return release


class _SharedEngine(RoundEngine):
    """An engine that all sessions share: it computes each round once.

    The chain hash and the releases of a round determine the next state, so every session would
    compute the same one. With many resources that is most of the work of a round.
    """

    def __init__(self, agreement: Agreement) -> None:
        super().__init__(agreement)
        self._last_input = b""
        self._last_state = self.opening

    def advance(self, state: RoundState, values: Ticks) -> RoundState:
        key = state.chain_hash + values.tobytes()
        if key != self._last_input:
            self._last_state = super().advance(state, values)
            self._last_input = key
        return self._last_state


class Player(Driver):
    """One party of the session, without signatures and with seeded noise."""

    def __init__(
        self,
        agreement: Agreement,
        engine: RoundEngine,
        index: int,
        problem: Responder,
        seed: int,
        on_round: Callable[[int], None],
    ) -> None:
        member = agreement.members[index]

        def unsigned(message: Message) -> Signed:
            return pack(message, key=member.signing_key, sign=lambda _: bytes(64))

        self.ledger = Ledger(":memory:", agreement, member.name)
        self.gate = _TimedGate(
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
            gate=self.gate,
            ledger=self.ledger,
            on_round=lambda state, _: on_round(state.round),
        )
        self.session.engine = engine


@contextmanager
def players(
    agreement: Agreement,
    problems: Sequence[Responder],
    seed: int,
    on_round: Callable[[int], None] = lambda _: None,
) -> Iterator[list[Player]]:
    """All members of a session. Their ledgers are closed at the end, even after an error."""
    members: list[Player] = []
    engine = _SharedEngine(agreement)
    try:
        for k, problem in enumerate(problems):
            callback = on_round if k == 0 else lambda _: None
            members.append(Player(agreement, engine, k, problem, seed, callback))
        yield members
    finally:
        for member in members:
            member.ledger.close()


def run(members: list[Player]) -> None:
    """Deliver messages between the members until all have left."""
    now = 0.0
    queue = deque(signed for member in members for signed in member.begin(now))
    while not all(member.left for member in members):
        while queue:
            signed = queue.popleft()
            for member in members:
                queue.extend(member.receive(signed, now))
                member.run_idle_work()
        active = [member for member in members if not member.left]
        now = min((member.session.deadline for member in active), default=now)
        for member in active:
            queue.extend(member.tick(now))
            if member.error is not None:
                raise member.error
