"""A page for the operator that moves with her session, in a browser on the same machine.

Its address holds a secret that is made anew by every process and told to nobody but the operator.
While rounds are played it shows public numbers only; what the session is worth to the company
comes when it is over. Nothing made here goes into a message or a log.
"""

import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any
from xml.etree.ElementTree import Element

from party.ui.console import JsonView, TextView
from protocol.agreement.model import Agreement
from protocol.errors import SottoError
from protocol.report.live import Live
from protocol.rounds import RoundState, numbers, overrun
from protocol.runtime.cli import Interrupted
from protocol.runtime.page_server import PageServer
from protocol.session.phases import Phase
from protocol.wire.messages import Signed

_SECRET_BYTES = 24


class PageView:
    """A view whose session is on a page as well, until the `with` block is left."""

    def __init__(
        self, view: JsonView | TextView, agreement: Agreement, member: str, *, port: int
    ) -> None:
        self._view = view
        self._names = frozenset(m.name for m in agreement.members)
        self._agreement = agreement
        self._live = Live(agreement, member=member)
        self._window = PageServer(
            self._live, port=port, secret=secrets.token_urlsafe(_SECRET_BYTES)
        )
        self._told: tuple[Phase, tuple[str, ...]] | None = None
        print(
            f"watch the session at {self._window.address} (keep this address to yourself)",
            file=sys.stderr,
        )

    def __enter__(self) -> "PageView":
        if isinstance(self._view, TextView):
            self._view.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(self._view, TextView):
            self._view.__exit__(kind, error, trace)
        if isinstance(error, SottoError):
            self._wrong(f"This party has stopped: {error}")
        elif isinstance(error, Interrupted):
            self._wrong("This party was told to stop. The same command goes on with the session.")
        self._window.close()

    def waiting(self, phase: Phase, missing: tuple[str, ...]) -> None:
        self._view.waiting(phase, missing)
        if phase is Phase.HANDSHAKE:
            self._live.here(self._names - set(missing))
        elif missing and (phase, missing) != self._told:
            self._wrong(f"Waiting for {', '.join(missing)}.")
        self._told = phase, missing

    def round(self, state: RoundState, releases: tuple[Signed, ...]) -> None:
        self._view.round(state, releases)
        self._told = None
        self._live.here(self._names)
        self._live.closed(state.round, overrun(self._agreement, numbers(releases)), state)

    def warn(self, text: str) -> None:
        self._view.warn(text)
        self._wrong(text)

    def note(self, text: str) -> None:
        self._view.note(text)
        self._live.say(text, time.strftime("%H:%M:%S"))

    def dropped(self, why: str) -> None:
        self._view.dropped(why)

    def finished(self, public: dict[str, Any], folder: Path | None) -> None:
        self._view.finished(public, folder)

    def ended(self, report: Sequence[Element], *, kind: str) -> None:
        """The session is over, and this is the report about it."""
        self._live.ended(report, kind=kind)

    def _wrong(self, text: str) -> None:
        self._live.trouble(text)
        self._live.say(text, time.strftime("%H:%M:%S"))
