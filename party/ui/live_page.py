"""A page for the operator that follows the session, in a browser on the same machine.

Every process makes a new secret for the address of its page, and tells it to the operator only. A
monitor needs an address that stays: then the secret is in a file that only its owner can read.
While rounds run, the page shows public numbers only; the private report comes at the end.
Never here: a message, or a log line about that report.
"""

import re
import secrets
import sys
import time
from pathlib import Path
from typing import Any, Self
from xml.etree.ElementTree import Element

from party.ui.console import View
from protocol.agreement.model import Agreement
from protocol.errors import BadKey, SottoError
from protocol.outcome.outcome import Outcome
from protocol.report.live import Live
from protocol.report.public import public_parts
from protocol.rounds import RoundState, excess_demand, numbers
from protocol.runtime.cli import Interrupted
from protocol.runtime.files import read_private, write_private
from protocol.runtime.page_server import PageServer
from protocol.runtime.presence import Away, state_text
from protocol.session.phases import Phase
from protocol.wire.messages import Signed

_SECRET_BYTES = 24
_FORM = r"[A-Za-z0-9_-]{32,200}"


class PageView(View):
    """Shows the session on a page and in another view, until the `with` block is left."""

    def __init__(
        self,
        view: View,
        agreement: Agreement,
        member: str,
        *,
        port: int,
        secret_file: Path | None = None,
    ) -> None:
        self._view = view
        self._names = frozenset(m.name for m in agreement.members)
        self._agreement = agreement
        self._live = Live(agreement, member=member)
        secret = _new_secret() if secret_file is None else _kept_secret(secret_file)
        self._server = PageServer(self._live, port=port, secret=secret)
        self._waiting: tuple[Phase, tuple[str, ...]] | None = None
        #: Why a peer cannot be reached at present.
        self._unreached = ""
        shown = f"{self._server.address} (keep this address to yourself)"
        if secret_file is not None:  # the output of a service is kept, and others may read it
            address = self._server.address.replace(secret, "SECRET")
            shown = f"{address}, with the secret in {secret_file}"
        print(f"watch the session at {shown}", file=sys.stderr)

    def __enter__(self) -> Self:
        self._view.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._view.__exit__(*raised)
        error = raised[1]
        self._live.stopped = error is not None
        if isinstance(error, SottoError):
            self._show_trouble(f"This party has stopped: {error}")
        elif isinstance(error, Interrupted):
            self._show_trouble("This party was interrupted. Run the same command to resume.")
        self._server.close()

    def waiting(self, phase: Phase, missing: tuple[str, ...], away: Away) -> None:
        self._view.waiting(phase, missing, away)
        unanswered = set(missing) if phase is Phase.HANDSHAKE else set()
        here = self._names - unanswered - away.keys()
        self._live.presence(here, {name: state_text(away, name) for name in away})
        named = [f"{n} ({state_text(away, n)})" if n in away else n for n in missing]
        waits = phase is not Phase.HANDSHAKE and bool(missing)
        text = f"Waiting for {', '.join(named)}." if waits else ""
        if waits and (phase, missing) != self._waiting:
            self._live.say(text, time.strftime("%H:%M:%S"))
        self._waiting = phase, missing
        self._live.lasting_trouble(". ".join(filter(None, (self._unreached, text))))

    def unreached(self, text: str) -> None:
        self._unreached = text

    def resumed(self, state: RoundState) -> None:
        self._view.resumed(state)
        self._live.resumed(state)

    def round(self, state: RoundState, releases: tuple[Signed, ...]) -> None:
        self._view.round(state, releases)
        self._waiting = None
        self._live.presence(self._names, {})
        self._live.closed(state.round, excess_demand(self._agreement, numbers(releases)), state)

    def warn(self, text: str) -> None:
        self._view.warn(text)
        self._show_trouble(text)

    def note(self, text: str) -> None:
        self._view.note(text)
        self._live.say(text, time.strftime("%H:%M:%S"))

    def privately(self, text: str) -> None:
        self._view.privately(text)

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


def _new_secret() -> str:
    return secrets.token_urlsafe(_SECRET_BYTES)


def _kept_secret(path: Path) -> str:
    """The secret in a file that only its owner can read. A file that is not there is made."""
    if not path.exists():
        write_private(path, f"{_new_secret()}\n")

    def parse(text: str) -> str:
        found = text.strip()
        if not re.fullmatch(_FORM, found):
            raise BadKey(
                f"{str(path)!r} holds no secret for a page: name a file that is not there yet, and "
                "one is made"
            )
        return found

    return read_private(path, parse)
