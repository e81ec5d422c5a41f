"""A page for the convener that moves with the session: what anybody on the relay could know.

Only with `--page` does a coordinator compute anything, and then beside its work: what it carries
is put, verified, into a bounded queue for a thread that follows the rounds. A page that cannot
keep up misses rounds; the session never waits for it. Public numbers only.
"""

import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from protocol.agreement.model import Agreement
from protocol.errors import SottoError
from protocol.runtime.page_server import PageServer
from protocol.wire.codec import Reader, release_bytes
from protocol.wire.messages import MaskKey, Release, Seal, Signed

if TYPE_CHECKING:  # a coordinator that shows no page loads no mathematics
    from coordinator.progress import SessionProgress
    from protocol.rounds import RoundState

Say = Callable[[str], None]

QUEUE_BYTES = 1 << 26
"""Of messages that wait to be looked at."""

KEPT_BYTES = 1 << 28
"""Of releases for the page about the outcome. Of longer sessions only their course is shown."""

AHEAD = 2
"""Releases of each member that are kept of rounds which the page cannot close yet, because it was
started late or has missed some."""

_STOP, _OVER = "stop", "over"
_SWITCH_SECONDS = 0.0005  # how long the page may keep the relay waiting, instead of 5 ms


class LivePage:
    """Follows a session that is passed on, and shows it, until the `with` block is left.

    `earlier` is what was passed on before, where somebody has kept it.
    """

    def __init__(self, agreement: Agreement, port: int, *, earlier: Sequence[bytes] = ()) -> None:
        from protocol.report.live import Live
        from protocol.rounds import RoundEngine

        self._agreement = agreement
        self._earlier = earlier
        self._live = Live(agreement)
        self._window = PageServer(self._live, port=port)
        self._reader = Reader(agreement)
        most = QUEUE_BYTES // release_bytes(agreement)
        self._queue: queue.Queue[Signed | str] = queue.Queue(max(4 * len(agreement.members), most))
        self._course = RoundEngine(agreement)
        self._position: RoundState | None = self._course.opening
        self._closed = 0
        self._boxes: dict[int, dict[str, Signed]] = {}
        self._kept: list[tuple[bytes, ...]] = []
        self._kept_bytes = 0
        self._keys: dict[str, Signed] = {}
        self._seals: dict[str, bytes] = {}
        self._over = False
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> "LivePage":
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._put(_STOP)
        self._thread.join(timeout=5.0)
        self._window.close()

    @property
    def address(self) -> str:
        return self._window.address

    def also(self, say: Say) -> Say:
        """What is said is on the page as well."""

        def both(text: str) -> None:
            say(text)
            self._live.say(text, time.strftime("%H:%M:%S"))

        return both

    def hear(self, signed: Signed) -> None:
        """A verified message is passed on."""
        if isinstance(signed.message, MaskKey | Release | Seal):
            self._put(signed)

    def look(self, standing: "SessionProgress") -> None:
        """How the session stands, about once a second."""
        self._live.here(standing.here)
        if standing.trouble:
            self._live.trouble(standing.trouble)
        if standing.over and not self._over:
            self._over = True
            self._put(_OVER)

    def _put(self, item: Signed | str) -> None:
        try:
            self._queue.put_nowait(item)
        except queue.Full:  # the rounds go on without the page
            self._live.trouble("The rounds pass faster than this page can follow.")

    def _follow(self) -> None:
        for known in self._earlier:
            self._look_at(self._reader.unpack(known, verified=True))
        self._earlier = ()
        while (item := self._queue.get()) != _STOP:
            self._look_at(item)

    def _look_at(self, item: Signed | str) -> None:
        """A message, or the word that the session is over."""
        try:
            if isinstance(item, Signed):
                self._take(item)
            else:
                self._end()
        except SottoError as error:
            self._live.trouble(str(error))

    def _take(self, signed: Signed) -> None:
        message = signed.message
        if isinstance(message, Seal):
            fits = self._position is not None and message.chain_hash == self._position.chain_hash
            if fits and not message.has_all_seals:  # the ones that a transcript has
                self._seals.setdefault(message.sender, signed.data)
            return
        if isinstance(message, MaskKey):
            self._keys.setdefault(message.sender, signed)
            return
        if not self._closed <= message.round < self._agreement.rounds:
            return
        # The newest counts: what was signed for a round before its time was not the release.
        self._boxes.setdefault(message.round, {})[message.sender] = signed
        far = [r for r in self._boxes if r > self._closed + 1]
        ahead = [r for r in far if message.sender in self._boxes[r]]
        if len(ahead) > AHEAD:
            del self._boxes[ahead[0]][message.sender]
        # In lock step no honest member is two rounds ahead. If all of them are, what came between
        # was not heard here; what one of them says alone moves nothing.
        whole = [r for r, box in self._boxes.items() if len(box) == len(self._agreement.members)]
        if whole and self._closed not in whole:
            self._position, self._closed = None, min(whole)
        while len(self._boxes.get(self._closed, ())) == len(self._agreement.members):
            self._close(self._boxes.pop(self._closed))
        self._boxes = {r: box for r, box in self._boxes.items() if box and r >= self._closed}

    def _close(self, box: dict[str, Signed]) -> None:
        from protocol.rounds import mask_keys, numbers, overrun

        releases = self._in_turn(box)
        values = numbers(releases)
        self._closed += 1
        if self._position is not None and self._position.unpaired:
            keys = mask_keys(self._in_turn(self._keys))
            whole = len(keys) == len(self._agreement.members)
            self._position = self._course.pair(self._position, keys) if whole else None
        if self._position is not None:
            self._position = self._course.advance(self._position, values)
            self._kept_bytes += sum(len(signed.data) for signed in releases)
            if self._kept_bytes <= KEPT_BYTES:
                self._kept.append(tuple(signed.data for signed in releases))
        self._live.closed(self._closed, overrun(self._agreement, values), self._position)

    def _in_turn(self, box: dict[str, Signed]) -> tuple[Signed, ...]:
        """What members have said, as far as they have, in roster order."""
        return tuple(box[m.name] for m in self._agreement.members if m.name in box)

    def _end(self) -> None:
        """The session is over: the page is the public report, where all rounds were heard."""
        from protocol.outcome.outcome import outcome
        from protocol.report.public import public_parts
        from protocol.wire.transcript import Transcript

        whole = self._position is not None and self._position.over
        if not whole or len(self._kept) < self._closed:
            self._live.trouble(
                "The session is over. Not all of its rounds were heard here: `protocol report` "
                "shows the outcome from any member's transcript."
            )
            return

        def opened(parts: Any) -> tuple[Signed, ...]:
            return tuple(self._reader.unpack(data, verified=True) for data in parts)

        names = [member.name for member in self._agreement.members]
        sealed = all(name in self._seals for name in names)
        transcript = Transcript(
            rounds=tuple(map(opened, self._kept)),
            seals=opened(self._seals[name] for name in names) if sealed else (),
            keys=self._in_turn(self._keys),
        )
        self._live.ended(public_parts(outcome(self._agreement, transcript)))
