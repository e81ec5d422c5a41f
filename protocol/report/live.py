"""A session while it runs, as a page that updates itself.

Holds what the page shows and draws it when a browser asks. Public numbers only, until the party
puts its own report in their place. Never here: anything that the session depends on.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from xml.etree.ElementTree import Element, tostring

from protocol.agreement.model import Agreement
from protocol.numeric import Floats
from protocol.report.elements import callout, page
from protocol.report.live_metrics import health_text, metrics_text
from protocol.report.live_sections import LiveState, live_sections
from protocol.rounds import RoundState

SCRIPT = """
"use strict";
const main = document.querySelector("main"), lost = document.getElementById("lost");
function show(update) {
  const template = document.createElement("template");
  template.innerHTML = update.parts.join("");
  const parts = [...template.content.children];
  while (main.children.length > parts.length) main.lastElementChild.remove();
  parts.forEach((part, i) => {
    const old = main.children[i];
    if (!old) main.append(part);
    else if (!old.isEqualNode(part)) old.replaceWith(part);
  });
  document.title = update.title;
  document.body.className = update.kind;
}
function listen() {
  const source = new EventSource("events");
  source.onmessage = event => {
    const update = JSON.parse(event.data);
    show(update);
    lost.hidden = true;
    if (update.over) source.close();
  };
  source.onerror = () => {
    lost.hidden = false;
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 2000);
  };
}
listen();
"""
"""Replaces what has changed, and connects again if the connection is lost."""


class Live:
    """What anyone may know of a running session, and its page.

    The party or the coordinator changes it, at the cost of a few numbers a round; the page server
    draws it in another thread. Times are texts, because there is no clock here.
    """

    def __init__(self, agreement: Agreement, *, member: str = "") -> None:
        #: Grows with every change, so that the page server knows when to send an update.
        self.version = 0
        #: Whether the process no longer works on the session, though it may still answer.
        self.stopped = False
        self._state = LiveState(agreement, member)
        #: The last text of `lasting_trouble`.
        self._lasting = ""
        #: The elements and the kind of the page after the end of the session.
        self._end: tuple[list[Element], str] | None = None

    def presence(self, here: Iterable[str], states: Mapping[str, str]) -> None:
        """These members are here; `states` says of each member where it is, in words."""
        now = set(here), dict(states)
        if now != (self._state.present, self._state.states):
            self._state.present, self._state.states = now
            self.version += 1

    def say(self, text: str, at: str) -> None:
        """Something has happened."""
        self._state.log.appendleft((at, text))
        self.version += 1

    def trouble(self, text: str) -> None:
        """Show what is wrong, until the next round is closed; an empty text shows nothing."""
        if text != self._state.trouble:
            self._state.trouble = text
            self.version += 1

    def lasting_trouble(self, text: str) -> None:
        """Like `trouble`, but called repeatedly: an empty text ends the last one."""
        if text or self._state.trouble == self._lasting:
            self.trouble(text)
        self._lasting = text

    def closed(self, round: int, excess: Floats, state: RoundState | None) -> None:  # noqa: A002
        """A round is closed; `state` follows it, if it is known here."""
        self._state.close_round(round, excess, state)
        self.version += 1

    def resumed(self, state: RoundState) -> None:
        """All rounds up to this state were closed before this process began."""
        self._state.resume(state)
        self.version += 1

    def ended(self, parts: Sequence[Element], *, kind: str = "public") -> None:
        """The session is over: from now on the page has these elements."""
        self._end = list(parts), kind
        self.version += 1

    def page(self) -> str:
        """The complete page, which then updates itself."""
        parts, kind, title = self._content()
        lost = callout(
            "The connection to the session’s process is lost. This page shows the last state that "
            "it received, and tries again by itself. A process that was started again may have "
            "another address, which it prints."
        )
        lost.set("id", "lost")
        lost.set("hidden", "hidden")
        return page(title, *parts, kind=kind, notice=lost, script=SCRIPT)

    def news(self) -> str:
        """An update for an open page, as one line of JSON."""
        parts, kind, title = self._content()
        return json.dumps(
            {
                "title": title,
                "kind": kind,
                "over": self._end is not None,
                "parts": [tostring(part, encoding="unicode", method="html") for part in parts],
            }
        )

    def metrics(self) -> str:
        """The session as metrics, in public numbers."""
        return metrics_text(self._state, over=self._end is not None)

    def health(self) -> tuple[bool, str]:
        """Whether the process works, and the answer to a health check."""
        works = not self.stopped
        return works, health_text(self._state, over=self._end is not None, works=works)

    def _content(self) -> tuple[list[Element], str, str]:
        """The elements, the kind and the title of the page."""
        session = self._state.agreement.session
        if self._end is None:
            at = f"round {self._state.round}" if self._state.round else "waiting"
            return live_sections(self._state), "public", f"{session}: {at}"
        parts, kind = self._end
        private = "PRIVATE: " if kind == "private" else ""
        return parts, kind, f"{private}{session}: the outcome"
