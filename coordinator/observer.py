"""Verifies what members send, and hands it to the collector and its readers.

The relay and the rendezvous share it. Never here: sockets, and what members are sent.
"""

import time
from typing import TYPE_CHECKING

from coordinator.collector import Collected, RoundCollector
from coordinator.journal import Journal
from coordinator.progress import Say, SessionProgress
from protocol.agreement.model import Agreement
from protocol.errors import BadMessage
from protocol.runtime.admission import Admission
from protocol.wire.messages import Signed

if TYPE_CHECKING:  # a coordinator without a page needs no page server
    from coordinator.live_page import LivePage


LOOK_SECONDS = 1.0
"""Between two looks at the session. Loops wait no longer: a signal may come just before a wait."""


class SessionObserver:
    """What a coordinator knows about its session.

    With `keep_running` it continues when the session is over.
    """

    def __init__(
        self,
        agreement: Agreement,
        collector: RoundCollector,
        *,
        say: Say,
        journal: Journal | None = None,
        page: "LivePage | None" = None,
        keep_running: bool = False,
    ) -> None:
        self.admission = Admission(agreement, say)
        self.progress = SessionProgress(agreement, collector, say, now := time.monotonic())
        if journal is not None and journal.resumed_at is not None:
            self.progress.presence.resumed(now - max(0.0, time.time() - journal.resumed_at))
        self._collector = collector
        self._journal = journal
        self._page = page
        self._keep_running = keep_running
        self._look_at = float("-inf")

    def read(self, owner: str, data: bytes, now: float) -> tuple[Signed, Collected] | None:
        """Return an admitted message and what it has changed; None if it is invalid."""
        try:
            signed = self.admission.read(owner, data, now)
        except BadMessage:
            return None
        collected = self._collector.collect(signed, now)
        self.progress.add(signed.message, owner, collected, now)
        self.admission.rounds = self._collector.closed
        if self._journal is not None:
            self._journal.append(collected.closed)
        if self._page is not None:
            self._page.add(collected.closed)
        return signed, collected

    def lost(self, names: list[str], now: float) -> None:
        """The connections of these members are gone."""
        for name in names:
            self.progress.left(name, now)

    def continues(self, now: float) -> bool:
        """Report progress, about once a second; False when the coordinator should end."""
        if now < self._look_at:
            return True
        self._look_at = now + LOOK_SECONDS
        self.progress.check(now)
        if self._page is not None:
            self._page.update(self.progress)
        return self._keep_running or not self.progress.ended(now)

    def close(self) -> None:
        """Show the end on the page and write the transcript."""
        if self._page is not None:
            self._page.update(self.progress)
        if self._journal is not None:
            self._journal.close()
