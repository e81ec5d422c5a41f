"""A page for the operator that follows the session, in a browser on the same machine.

Every process makes a new secret for the address of its page, and tells it to the operator only.
While rounds run, the page shows public numbers only; the private report comes at the end.
Never here: a message, or a log line about that report.
"""

import secrets
import sys
import time
from pathlib import Path
from typing import Any, Self
from xml.etree.ElementTree import Element

from party.ui.console import View
from protocol.agreement.model import Agreement
from protocol.errors import SottoError
from protocol.outcome.outcome import Outcome
from protocol.report.live import Live
from protocol.report.public import public_parts
from protocol.rounds import RoundState, numbers, overrun
from protocol.runtime.cli import Interrupted
from protocol.runtime.page_server import PageServer
from protocol.session.phases import Phase
from protocol.wire.messages import Signed

_SECRET_BYTES = 24


class PageView(View):
    """Shows the session on a page and in another view, until the `with` block is left."""

    def __init__(self, view: View, agreement: Agreement, member: str, *, port: int) -> None:
        self._view = view
        self._names = frozenset(m.name for m in agreement.members)
        self._agreement = agreement
        self._live = Live(agreement, member=member)
        secret = secrets.token_urlsafe(_SECRET_BYTES)
        self._server = PageServer(self._live, port=port, secret=secret)
        self._waiting: tuple[Phase, tuple[str, ...]] | None = None
        print(
            f"watch the session at {self._server.address} (keep this address to yourself)",
            file=sys.stderr,
        )

    def __enter__(self) -> Self:
        self._view.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._view.__exit__(*raised)
        error = raised[1]
        if isinstance(error, SottoError):
            self._show_trouble(f"This party has stopped: {error}")
        elif isinstance(error, Interrupted):
            self._show_trouble("This party was interrupted. Run the same command to resume.")
        self._server.close()

    def waiting(self, phase: Phase, missing: tuple[str, ...]) -> None:
        self._view.waiting(phase, missing)
        if phase is Phase.HANDSHAKE:
            self._live.here(self._names - set(missing))
        elif missing and (phase, missing) != self._waiting:
            self._show_trouble(f"Waiting for {', '.join(missing)}.")
        self._waiting = phase, missing

    def round(self, state: RoundState, releases: tuple[Signed, ...]) -> None:
        self._view.round(state, releases)
        self._waiting = None
        self._live.here(self._names)
        self._live.closed(state.round, overrun(self._agreement, numbers(releases)), state)

    def warn(self, text: str) -> None:
        self._view.warn(text)
        self._show_trouble(text)

    def note(self, text: str) -> None:
        self._view.note(text)
        self._live.say(text, time.strftime("%H:%M:%S"))

    def dropped(self, why: str) -> None:
        self._view.dropped(why)

    def outcome(self, outcome: Outcome) -> None:
        self._live.ended(public_parts(outcome), kind="public")

    def report(self, contents: list[Element]) -> None:
        self._live.ended(contents, kind="private")

    def finished(self, public: dict[str, Any], folder: Path | None) -> None:
        self._view.finished(public, folder)

    def _show_trouble(self, text: str) -> None:
        self._live.trouble(text)
        self._live.say(text, time.strftime("%H:%M:%S"))
