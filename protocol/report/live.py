"""A session while it is under way, as a page: who is here, where the rounds are, what is wrong.

Holds what the page shows, of any number of rounds in little room, and draws it when somebody
looks. Public numbers only, until whoever plays the session puts its own report in their place.
Nothing is computed here that the session rests on, and nothing is fetched or kept.
"""

import json
import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any
from xml.etree.ElementTree import Element, tostring

from protocol.agreement.model import Agreement, Resource
from protocol.numeric import Floats
from protocol.report.certificate import certified, money
from protocol.report.charts import CHARTS, moves
from protocol.report.format import ROWS, amount_text, capacity_text, counted, left_out, per
from protocol.report.html import (
    Content,
    Line,
    aligned,
    bar,
    callout,
    chart,
    element,
    facts,
    figure,
    grid,
    number,
    page,
    paragraph,
    section,
    table,
)
from protocol.rounds import RoundState

POINTS = 256
"""Values of a course that are kept. Of more rounds each value is the mean of some."""

SENTENCES = 12
"""The newest things that have happened are shown, so many."""

SCRIPT = """
"use strict";
const main = document.querySelector("main"), lost = document.getElementById("lost");
function show(told) {
  const fresh = document.createElement("template");
  fresh.innerHTML = told.parts.join("");
  const parts = [...fresh.content.children];
  while (main.children.length > parts.length) main.lastElementChild.remove();
  parts.forEach((part, i) => {
    const old = main.children[i];
    if (!old) main.append(part);
    else if (!old.isEqualNode(part)) old.replaceWith(part);
  });
  document.title = told.title;
  document.body.className = told.kind;
}
function listen() {
  const source = new EventSource("events");
  source.onmessage = event => {
    const told = JSON.parse(event.data);
    show(told);
    lost.hidden = true;
    if (told.over) source.close();
  };
  source.onerror = () => {
    lost.hidden = false;
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 2000);
  };
}
listen();
"""
"""Puts what the server tells in the place of what was there, and asks again when it is gone."""


class Trail:
    """The course of a number over the rounds, in at most `POINTS` values."""

    def __init__(self) -> None:
        self._means: list[float] = []
        self._sum, self._count = 0.0, 0
        self.each = 1
        """Rounds of which a value is the mean."""

    def add(self, value: float) -> None:
        if len(self._means) >= POINTS:
            pairs = zip(self._means[::2], self._means[1::2], strict=True)
            self._means = [(a + b) / 2.0 for a, b in pairs]
            self.each *= 2
        self._sum, self._count = self._sum + value, self._count + 1
        if self._count >= self.each:
            self._means.append(self._sum / self._count)
            self._sum, self._count = 0.0, 0

    def values(self) -> list[float]:
        """From the first round on; the last may be of fewer rounds than the others."""
        count, rest = self._count, self._sum
        return [*self._means, *([rest / count] if count else [])]


class Live:
    """What everybody may know of a session that is under way, and the page of it.

    Changed by whoever plays or carries the session, at the cost of a few numbers a round, and
    drawn in another thread. `times` of sentences are texts, because here is no clock.
    """

    def __init__(self, agreement: Agreement, *, member: str = "") -> None:
        self.version = 0
        self._agreement = agreement
        self._member = member
        self._here: set[str] = {member} - {""}
        self._round = 0
        self._trouble = ""
        self._sentences: deque[tuple[str, str]] = deque(maxlen=SENTENCES)
        shown = min(len(agreement.resources), CHARTS)
        self._price_trails = [Trail() for _ in range(shown)]
        self._overrun_trails = [Trail() for _ in range(shown)]
        self._proved_trail = Trail()
        self._certificate: dict[str, Any] | None = None
        self._prices: list[float] = []
        self._overrun: list[float] = []
        self._end: tuple[list[Element], str] | None = None

    # What may happen

    def here(self, names: Iterable[str]) -> None:
        """These members have been heard."""
        fresh = self._here | set(names)
        if fresh != self._here:
            self._here = fresh
            self.version += 1

    def say(self, text: str, at: str) -> None:
        """Something has happened."""
        self._sentences.appendleft((at, text))
        self.version += 1

    def trouble(self, text: str) -> None:
        """What is wrong, in a sentence, until the next round is closed; empty if nothing is."""
        if text != self._trouble:
            self._trouble = text
            self.version += 1

    def closed(self, round: int, overrun: Floats, state: RoundState | None) -> None:  # noqa: A002
        """A round is closed. The prices that it led to, if they are known, are in the position."""
        self._round, self._trouble = round, ""
        self._overrun = overrun.tolist()
        for trail, value in zip(self._overrun_trails, self._overrun, strict=False):
            trail.add(100.0 * value)
        if state is not None:
            self._prices = state.prices.current.tolist()
            for trail, value in zip(self._price_trails, self._prices, strict=False):
                trail.add(value)
            self._prove(state)
        self.version += 1

    def _prove(self, state: RoundState) -> None:
        certificate = state.certificate
        if certificate is None:
            return
        worth = math.fsum(certificate.prices)
        part = certificate.bound / worth if worth > 0.0 else None
        self._certificate = {"money": certificate.bound, "part": part, "fits": certificate.fits}
        if part is not None and 0.0 < part < math.inf:
            self._proved_trail.add(math.log10(part))

    def ended(self, parts: Sequence[Element], *, kind: str = "public") -> None:
        """The session is over: from now on this is the page. A `private` one says so on paper."""
        self._end = list(parts), kind
        self.version += 1

    # What is seen of it

    def page(self) -> str:
        """The whole page, which goes on by itself."""
        parts, kind, title = self._parts()
        lost = callout(
            "The connection to the session’s process is lost: what is below is how things stood. "
            "This page asks again by itself. A process that was started anew may have another "
            "address, which it says."
        )
        lost.set("id", "lost")
        lost.set("exact", "exact")
        return page(title, lost, element("main", *parts), kind=kind, script=SCRIPT)

    def news(self) -> str:
        """The same for a page that is open already, as one line of JSON."""
        parts, kind, title = self._parts()
        return json.dumps(
            {
                "title": title,
                "kind": kind,
                "over": self._end is not None,
                "parts": [tostring(part, encoding="unicode", method="html") for part in parts],
            }
        )

    def _parts(self) -> tuple[list[Element], str, str]:
        session = self._agreement.session
        if self._end is not None:
            parts, kind = self._end
            private = "PRIVATE: " if kind == "private" else ""
            return parts, kind, f"{private}{session}: the outcome"
        parts = [
            self._top(),
            *self._wrong(),
            self._people(),
            *self._resources(),
            *self._moving(),
        ]
        at = f"round {self._round}" if self._round else "waiting"
        return parts, "public", f"{session}: {at}"

    def _top(self) -> Element:
        agreement = self._agreement
        eyebrow = f"Live, for {self._member}" if self._member else "Live, public numbers"
        made = element(
            "header",
            element("p", eyebrow, class_="eyebrow"),
            element("h1", agreement.session),
            element("p", self._standing(), class_="lead", role="status"),
        )
        if agreement.rehearsal:
            made.append(callout("This is a rehearsal: no privacy, and invented data."))
        most = ", at most" if agreement.pricing.step == "center" else " of"
        figures: list[tuple[str, Content]] = [
            ("Companies here", f"{len(self._here)} of {len(agreement.members)}"),
            ("Rounds closed", f"{self._round}{most} {agreement.rounds}"),
        ]
        if self._overrun:
            far = max(self._overrun, key=abs)
            name = agreement.resources[self._overrun.index(far)].name
            told = element("span", f"{name} ", number(_percent(100.0 * far)))
            figures.append(("Furthest off its capacity", told))
        if self._certificate is not None and self._certificate["part"] is not None:
            part = f"{figure(100.0 * self._certificate['part'], digits=2)} %"
            figures.append(("Certificate, of all worth", number(part)))
        made.append(facts(*figures))
        return made

    def _standing(self) -> str:
        """Where the session is, in a sentence or two."""
        away = [m.name for m in self._agreement.members if m.name not in self._here]
        if self._round:
            noisy = "" if self._agreement.privacy is None else ", with noise"
            text = f"Round {self._round} is closed. Every company has said what it would take"
            text += f" at the prices asked{noisy}; the next prices follow from the total."
            return text + self._proved()
        if away:
            return f"Waiting for {_listed(away)}. The rounds begin when all are here."
        return "All companies are here. The first round is under way."

    def _proved(self) -> str:
        if self._certificate is None:
            return ""
        if not self._certificate["fits"]:
            return " Nothing is certified yet: on average more was asked for than there is."
        told = certified(self._agreement, self._certificate, write=lambda v: figure(v, digits=3))
        return f" If it ended here: {told[0].lower()}{told[1:]}"

    def _wrong(self) -> list[Element]:
        return [callout(self._trouble)] if self._trouble else []

    def _resources(self) -> list[Element]:
        agreement, prices, overrun = self._agreement, self._prices, self._overrun
        if not overrun:
            return []
        longest = max(1.0, *(1.0 + part for part in overrun[:ROWS]))
        resources = agreement.resources[:ROWS]
        asked = aligned(
            [amount_text(r, (1.0 + overrun[j]) * r.capacity) for j, r in enumerate(resources)]
        )
        rows = [
            (
                _two(resource.name, capacity_text(resource)),
                bar((1.0 + overrun[j]) / longest, mark=1.0 / longest),
                _two(number(asked[j]), number(_percent(100.0 * overrun[j]))),
                self._price(resource, prices[j] if prices else None),
            )
            for j, resource in enumerate(resources)
        ]
        noisy = "" if agreement.privacy is None else ", with noise"
        return [
            section(
                "The capacities",
                paragraph(
                    "What all companies together asked for in the last round; the mark in a bar is "
                    f"the capacity. {moves(agreement)}"
                ),
                table(("Capacity", "", f"Asked for{noisy}", "Next price"), rows),
                *left_out(len(rows), len(agreement.resources), "resources"),
            )
        ]

    def _price(self, resource: Resource, price: float | None) -> Content:
        if price is None:
            return "–"
        return _two(number(money(self._agreement, figure(price))), per(resource))

    def _moving(self) -> list[Element]:
        """What has happened stands beside what is proved, or below everything else."""
        falling, happened = self._falling(), self._happened()
        if falling:
            return [grid([*falling, *happened]), *self._course()]
        return [*self._course(), *happened]

    def _course(self) -> list[Element]:
        each = max(trail.each for trail in self._overrun_trails)
        mean = [paragraph(f"Each point is the mean of {each} rounds.")] if each > 1 else []
        prices, overruns = [], []
        for j, resource in enumerate(self._agreement.resources[:CHARTS]):
            if values := self._price_trails[j].values():
                price = money(self._agreement, figure(self._prices[j]))
                note = f"next price {price} {per(resource)}"
                prices.append(self._chart(resource, note, values))
            if values := self._overrun_trails[j].values():
                note = f"last round {_percent(100.0 * self._overrun[j])}"
                overruns.append(self._chart(resource, note, values, " %", "capacity"))
        more = left_out(len(overruns), len(self._agreement.resources), "resources")
        made = []
        if prices:
            made.append(section("How the prices move", *mean, grid(prices), *more))
        if overruns:
            heading = "What is asked for, against the capacity"
            made.append(section(heading, *mean, grid(overruns), *more))
        return made

    def _chart(
        self, resource: Resource, note: str, values: list[float], suffix: str = "", level: str = ""
    ) -> Element:
        return chart(
            resource.name,
            note,
            [Line(values)],
            first=1,
            last=self._round,
            suffix=suffix,
            level=level,
        )

    def _falling(self) -> list[Element]:
        proved = self._proved_trail.values()
        if not proved:
            return []
        lines = [Line(proved)]
        tolerance = self._agreement.pricing.tolerance
        ends = ""
        if tolerance:
            lines.append(Line([math.log10(tolerance)] * len(proved), "raw"))
            ends = f" The session ends by itself at {figure(100.0 * tolerance, digits=2)} %."
        note = f"{_part(proved[-1])} after round {self._round}"
        return [
            section(
                "The certificate falls",
                paragraph(
                    "What any other plan for all companies together could earn more, at most, as a "
                    "part of what all capacities are worth." + ends
                ),
                chart("Certificate", note, lines, first=1, last=self._round, write=_part),
            )
        ]

    def _people(self) -> Element:
        members = self._agreement.members
        names = [
            element("li", m.name, class_="here")
            if m.name in self._here
            else element("li", m.name, element("span", " not yet here"), class_="away")
            for m in members[:ROWS]
        ]
        return element(
            "div",
            element("ul", *names, class_="people", aria_label="Who is here"),
            *left_out(len(names), len(members), "companies", "the agreement"),
        )

    def _happened(self) -> list[Element]:
        sentences = list(self._sentences)
        if not sentences:
            return []
        items = [element("li", element("time", at), f" {text}") for at, text in sentences]
        return [section("What has happened", element("ol", *items, class_="log"))]


def _listed(names: Sequence[str]) -> str:
    """Some names as a sentence has them; many are counted."""
    if len(names) > 8:
        return f"{', '.join(names[:7])} and {counted(len(names) - 7, 'other', 'others')}"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _two(first: Content, second: Content) -> Element:
    """Two lines of a cell: what matters, and what it is beside."""
    return element("div", first, element("br"), element("span", second, class_="soft"))


def _percent(value: float) -> str:
    sign = "+" if value > 0.0 else ""
    return f"{sign}{figure(value, digits=3)} %"


def _part(height: float) -> str:
    """What a power of ten is as a percentage."""
    return f"{figure(10.0 ** (height + 2.0), digits=2)} %"
