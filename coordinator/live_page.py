"""A page for the convener that follows the session, in public numbers.

Only with `--page` does a coordinator compute anything. The relay puts closed exchanges into a
bounded queue, and a thread computes prices from them. The session never waits for the page: a
page that cannot keep up misses rounds. Never here: a number that a member could not read.
"""

import queue
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from coordinator.collector import KEYS, SEALS, Exchange, RoundCollector
from protocol.agreement.model import Agreement
from protocol.errors import SottoError
from protocol.runtime.page_server import PageServer
from protocol.wire.codec import Reader, release_bytes
from protocol.wire.messages import Commitment, MaskKey, Message, Signed

if TYPE_CHECKING:  # a coordinator without a page loads no mathematics
    from coordinator.progress import Say, SessionProgress
    from protocol.rounds import RoundState

QUEUE_BYTES = 1 << 26
"""The limit for exchanges that wait for the page."""

KEPT_BYTES = 1 << 28
"""The limit for releases kept for the final report. A longer session has no report here."""

_SWITCH_SECONDS = 0.0005  # how long the page may keep the relay waiting, instead of 5 ms


class LivePage:
    """Follows a session and shows it until the `with` block is left.

    `earlier` has the exchanges that an earlier process has kept, from the first one on.
    """

    def __init__(
        self,
        agreement: Agreement,
        port: int,
        collector: RoundCollector,
        *,
        earlier: Sequence[Sequence[bytes]] = (),
    ) -> None:
        from protocol.report.live import Live
        from protocol.rounds import RoundEngine

        self._agreement = agreement
        self._collector = collector
        self._earlier = tuple(earlier)
        self._live = Live(agreement)
        self._server = PageServer(self._live, port=port)
        self._reader = Reader(agreement)
        exchange_bytes = len(agreement.members) * release_bytes(agreement)
        #: Exchanges as (number, messages); then the seals; None ends the thread.
        self._queue: queue.Queue[tuple[int, tuple[Signed, ...]] | None] = queue.Queue(
            max(4, QUEUE_BYTES // exchange_bytes)
        )
        self._engine = RoundEngine(agreement)
        #: The state after the newest exchange; None if earlier exchanges were missed.
        self._state: RoundState | None = self._engine.opening
        #: The number of the exchange that comes next.
        self._next = KEYS if agreement.masked else 0
        #: Mask keys and commitments, by their kind.
        self._once: dict[type[Message], tuple[Signed, ...]] = {}
        #: The releases of each round, for the final report.
        self._rounds: list[tuple[bytes, ...]] = []
        self._kept_bytes = 0
        self._over = False
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> "LivePage":
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._put(None)
        self._thread.join(timeout=5.0)
        self._server.close()

    @property
    def address(self) -> str:
        """Where a browser finds the page."""
        return self._server.address

    def also(self, say: "Say") -> "Say":
        """Return a function that logs a line and shows it on the page."""

        def both(text: str) -> None:
            say(text)
            self._live.say(text, time.strftime("%H:%M:%S"))

        return both

    def add(self, closed: Iterable[Exchange]) -> None:
        """Show exchanges that were closed."""
        for exchange in closed:
            if exchange.number != SEALS:
                self._put((exchange.number, self._collector.in_roster_order(exchange)))

    def update(self, progress: "SessionProgress") -> None:
        """Show how the session is going. Called about once a second."""
        self._server.beat()
        self._live.presence(progress.here, progress.states(time.monotonic()))
        self._live.lasting_trouble(progress.trouble)
        if self._collector.over and not self._over:
            self._over = True
            self._put((SEALS, self._collector.seals))

    def _put(self, item: tuple[int, tuple[Signed, ...]] | None) -> None:
        try:
            self._queue.put_nowait(item)
        except queue.Full:  # the session continues without the page
            self._live.trouble("The rounds pass faster than this page can follow.")

    def _follow(self) -> None:
        for number, messages in enumerate(self._earlier, self._next):
            self._show(number, self._unpack(messages))
        self._earlier = ()
        while (item := self._queue.get()) is not None:
            self._show(*item)

    def _show(self, number: int, messages: tuple[Signed, ...]) -> None:
        try:
            if number == SEALS:
                self._show_report(messages)
            else:
                self._advance(number, messages)
        except SottoError as error:
            self._live.trouble(str(error))

    def _advance(self, number: int, messages: tuple[Signed, ...]) -> None:
        from protocol.rounds import commitments_in, excess_demand, mask_keys, numbers

        if number != self._next:
            self._state = None
        self._next = number + 1
        if number == KEYS:
            self._once[MaskKey] = messages
            if self._state is not None:
                self._state = self._engine.pair(self._state, mask_keys(messages))
            return
        if isinstance(messages[0].message, Commitment):
            self._once[Commitment] = messages
            if self._state is not None:
                self._state = self._engine.commit(self._state, commitments_in(messages))
            return
        values = numbers(messages)
        if self._state is not None:
            # Without its history, which would keep all rounds a second time, and without a limit.
            self._state = replace(self._engine.advance(self._state, values), last=None)
            self._kept_bytes += sum(len(signed.data) for signed in messages)
            if self._kept_bytes <= KEPT_BYTES:
                self._rounds.append(tuple(signed.data for signed in messages))
        self._live.closed(self._next, excess_demand(self._agreement, values), self._state)

    def _unpack(self, messages: Iterable[bytes]) -> tuple[Signed, ...]:
        return tuple(self._reader.unpack(data, verified=True) for data in messages)

    def _show_report(self, seals: tuple[Signed, ...]) -> None:
        """Show the public report if all rounds were received and kept."""
        from protocol.outcome.outcome import outcome
        from protocol.report.public import public_parts
        from protocol.wire.transcript import Transcript

        state = self._state
        if state is None or not state.final or len(self._rounds) < state.round:
            self._live.trouble(
                "The session is over. This coordinator has missed some of its rounds. To see the "
                "outcome, run `protocol report` with any member's transcript."
            )
            return
        rounds = tuple(map(self._unpack, self._rounds))
        transcript = Transcript(
            rounds=rounds,
            seals=seals,
            keys=self._once.get(MaskKey, ()),
            commitments=self._once.get(Commitment, ()),
        )
        self._live.ended(public_parts(outcome(self._agreement, transcript)))
