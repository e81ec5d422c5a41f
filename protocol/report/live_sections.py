"""What the page of a running session shows: its state, in little memory, and the sections.

Public numbers only. Nothing is computed here that the session depends on.
"""

import math
from collections import deque
from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import Element

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import pair_prices, quantities
from protocol.numeric import Floats
from protocol.report.certificate import certified
from protocol.report.charts import CHARTS, Line, chart
from protocol.report.elements import (
    Content,
    bar,
    callout,
    element,
    facts,
    grid,
    number,
    page_header,
    paragraph,
    section,
    table,
)
from protocol.report.format import (
    ROWS,
    aligned,
    amount_text,
    capacity_text,
    counted,
    figure,
    in_price_of,
    left_out,
    money,
    per,
    percent,
    price_rule,
)
from protocol.report.progress import part_of_worth
from protocol.rounds import RoundState, excess_demand

POINTS = 256
"""Values that a trail keeps. With more rounds, each value is the mean of several."""

_ABSENT = "no answer yet"

SENTENCES = 12
"""How many of the newest events are shown."""


class Trail:
    """How a number changed over the rounds, in at most `POINTS` values."""

    def __init__(self) -> None:
        #: Finished values, each the mean of `each` rounds.
        self._means: list[float] = []
        #: Sum and number of the rounds in the value that is not finished.
        self._sum, self._count = 0.0, 0
        #: Rounds of which a value is the mean.
        self.each = 1
        #: The round of the first value.
        self.first = 1

    def add(self, value: float, round: int) -> None:  # noqa: A002
        if not self._means and not self._count:
            self.first = round
        if len(self._means) >= POINTS:
            pairs = zip(self._means[::2], self._means[1::2], strict=True)
            self._means = [(a + b) / 2.0 for a, b in pairs]
            self.each *= 2
        self._sum, self._count = self._sum + value, self._count + 1
        if self._count >= self.each:
            self._means.append(self._sum / self._count)
            self._sum, self._count = 0.0, 0

    def values(self) -> list[float]:
        """From the first round on; the last value may be of fewer rounds than the others."""
        count, rest = self._count, self._sum
        return [*self._means, *([rest / count] if count else [])]


class LiveState:
    """The public state of a running session, as the page needs it."""

    def __init__(self, agreement: Agreement, member: str) -> None:
        self.agreement = agreement
        #: Whose page it is; empty for the coordinator.
        self.member = member
        #: Members that are here, and where each of the others is, in words.
        self.present: set[str] = {member} - {""}
        self.states: dict[str, str] = {}
        #: Closed rounds.
        self.round = 0
        #: What is wrong; empty if nothing is.
        self.trouble = ""
        #: Times and events, the newest first.
        self.log: deque[tuple[str, str]] = deque(maxlen=SENTENCES)
        #: Prices after the last round; empty if they are not known here.
        self.prices: list[float] = []
        #: Total demand of the last round above the capacity, as a fraction of it.
        self.excess_demand: list[float] = []
        #: Figures of the certificate as `certified` reads them.
        self.certificate: dict[str, Any] | None = None
        shown = min(len(agreement.resources), CHARTS)
        self.price_trails = [Trail() for _ in range(shown)]
        #: In percent of the capacity.
        self.excess_trails = [Trail() for _ in range(shown)]
        #: Decimal logarithm of the certificate's fraction of all worth.
        self.certificate_trail = Trail()

    @property
    def noise(self) -> str:
        return "" if self.agreement.privacy is None else ", with noise"

    def where(self, name: str) -> str:
        """Where a member is that is not here, in words."""
        return self.states.get(name, _ABSENT)

    def close_round(self, round: int, excess: Floats, state: RoundState | None) -> None:  # noqa: A002
        self.trouble = ""
        self._add(round, excess, None if state is None else state.prices.current)
        if state is not None:
            self._add_certificate(state)

    def resume(self, state: RoundState) -> None:
        """All rounds up to this state were closed before this process began.

        Only the last certificate is known.
        """
        history = state.history
        after = [*(closed.prices for closed in history[1:]), state.prices.current]
        for count, (closed, prices) in enumerate(zip(history, after, strict=False), 1):
            self._add(count, excess_demand(self.agreement, closed.values), prices)
        self._add_certificate(state)

    def _add(self, round: int, excess: Floats, prices: Floats | None) -> None:  # noqa: A002
        """A closed round, and the prices that follow it, if they are known here."""
        self.round, self.excess_demand = round, excess.tolist()
        for trail, value in zip(self.excess_trails, self.excess_demand, strict=False):
            trail.add(100.0 * value, round)
        if prices is None:
            return
        self.prices = pair_prices(prices, quantities(self.agreement).opposites).tolist()
        for trail, value in zip(self.price_trails, self.prices, strict=False):
            trail.add(value, round)

    def _add_certificate(self, state: RoundState) -> None:
        certificate = state.certificate
        if certificate is None:
            return
        fraction = part_of_worth(self.agreement, state)
        self.certificate = {"money": certificate.bound, "part": fraction, "fits": certificate.fits}
        if fraction is not None and 0.0 < fraction < math.inf:
            self.certificate_trail.add(math.log10(fraction), state.round)


def live_sections(state: LiveState) -> list[Element]:
    """All elements of the page; events stand beside the certificate, or below all else."""
    events = _events(state)
    certificate = _certificate(state)
    moving = [grid([*certificate, *events])] if certificate else []
    return [
        _top(state),
        *([callout(state.trouble)] if state.trouble else []),
        _members(state),
        *_capacities(state),
        *moving,
        *_charts(state),
        *([] if certificate else events),
    ]


def _top(state: LiveState) -> Element:
    agreement = state.agreement
    most = ", at most" if agreement.pricing.step == "center" else " of"
    figures: list[tuple[str, Content]] = [
        ("Companies here", f"{len(state.present)} of {len(agreement.members)}"),
        ("Rounds closed", f"{state.round}{most} {agreement.rounds}"),
    ]
    if state.certificate is not None and state.certificate["fits"]:
        amount = money(agreement, figure(state.certificate["money"], digits=3))
        figures.append(("From the best plan, at most", number(amount)))
    elif state.excess_demand:
        far = max(state.excess_demand, key=abs)
        name = agreement.resources[state.excess_demand.index(far)].name
        text = element("span", f"{name} ", number(percent(far, digits=3, signed=True)))
        figures.append(("Furthest from its capacity", text))
    if state.certificate is not None and state.certificate["part"] is not None:
        figures.append(("Certificate, of all worth", number(percent(state.certificate["part"]))))
    rehearsal = "This is a rehearsal: invented data, no privacy."
    return page_header(
        f"Live, for {state.member}" if state.member else "Live, public numbers",
        agreement.session,
        element("p", _progress(state), class_="lead", role="status"),
        *([callout(rehearsal)] if agreement.rehearsal else []),
        facts(*figures),
    )


def _progress(state: LiveState) -> str:
    """Where the session is, in a sentence or two."""
    if state.round:
        return (
            f"Round {state.round} is closed. Every company has answered with what it would take at "
            f"the prices of the round{state.noise}. The next prices follow from the total."
            + _proved(state)
        )
    away = [m.name for m in state.agreement.members if m.name not in state.present]
    if away:
        named = [
            f"{name} ({state.states[name]})" if name in state.states else name for name in away
        ]
        return f"Waiting for {_listed(named)}. The rounds begin when all companies are here."
    return "All companies are here. The first round is open."


def _proved(state: LiveState) -> str:
    if state.certificate is None:
        return ""
    if not state.certificate["fits"]:
        return " Nothing is certified yet: on average, demand is above the capacity."
    text = certified(state.agreement, state.certificate, write=lambda v: figure(v, digits=3))
    return f" If the session ended now: {text[0].lower()}{text[1:]}"


def _members(state: LiveState) -> Element:
    members = state.agreement.members
    names = [
        element("li", m.name, class_="here")
        if m.name in state.present
        else element("li", m.name, element("span", f" {state.where(m.name)}"), class_="away")
        for m in members[:ROWS]
    ]
    return element(
        "div",
        element("ul", *names, class_="people", aria_label="Who is here"),
        *left_out(len(names), len(members), "companies", "the agreement"),
    )


def _capacities(state: LiveState) -> list[Element]:
    agreement, excess = state.agreement, state.excess_demand
    if not excess:
        return []
    longest = max(1.0, *(1.0 + fraction for fraction in excess[:ROWS]))
    resources = agreement.resources[:ROWS]
    demand = aligned(
        [amount_text(r, (1.0 + excess[j]) * r.capacity) for j, r in enumerate(resources)]
    )
    rows = [
        (
            _two_lines(resource.name, capacity_text(resource)),
            bar((1.0 + excess[j]) / longest, mark=1.0 / longest),
            _two_lines(number(demand[j]), number(percent(excess[j], digits=3, signed=True))),
            _next_price(state, j),
        )
        for j, resource in enumerate(resources)
    ]
    return [
        section(
            "The capacities",
            "What all companies together asked for in the last round. The mark in a bar is the "
            f"capacity. {price_rule(agreement)}",
            table(("Capacity", "", f"Total demand{state.noise}", "Next price"), rows),
            *left_out(len(rows), len(agreement.resources), "resources"),
        )
    ]


def _next_price(state: LiveState, j: int) -> Content:
    resource = state.agreement.resources[j]
    if not state.prices or resource.opposite:
        return in_price_of(resource) if state.prices else "–"
    return _two_lines(number(money(state.agreement, figure(state.prices[j]))), per(resource))


def _charts(state: LiveState) -> list[Element]:
    each = max(trail.each for trail in state.excess_trails)
    mean = [paragraph(f"Each point is the mean of {each} rounds.")] if each > 1 else []
    last = state.round
    prices, demand = [], []
    for j, resource in enumerate(state.agreement.resources[:CHARTS]):
        name = resource.name
        if (values := state.price_trails[j].values()) and not resource.opposite:
            first = state.price_trails[j].first
            price = money(state.agreement, figure(state.prices[j]))
            note = f"next price {price} {per(resource)}"
            prices.append(chart(name, note, [Line(values)], first=first, last=last))
        if values := state.excess_trails[j].values():
            first = state.excess_trails[j].first
            note = f"last round {percent(state.excess_demand[j], digits=3, signed=True)}"
            lines, level = [Line(values)], "capacity"
            drawn = chart(name, note, lines, first=first, last=last, suffix=" %", level=level)
            demand.append(drawn)
    more = left_out(len(demand), len(state.agreement.resources), "resources")
    groups = (("How the prices move", prices), ("Total demand compared with the capacity", demand))
    return [section(heading, *mean, grid(charts), *more) for heading, charts in groups if charts]


def _certificate(state: LiveState) -> list[Element]:
    values, first = state.certificate_trail.values(), state.certificate_trail.first
    if not values:
        return []
    lines, ends = [Line(values)], ""
    tolerance = state.agreement.pricing.tolerance
    if tolerance:
        lines.append(Line([math.log10(tolerance)] * len(values), "raw"))
        ends = f" The session ends by itself at {percent(tolerance)}."

    def written(height: float) -> str:
        return percent(10.0**height)

    note = f"{written(values[-1])} after round {state.round}"
    return [
        section(
            "How the certificate falls",
            "How much more any other plan for all companies together could earn, at most, in "
            "percent of what all capacities are worth." + ends,
            chart("Certificate", note, lines, first=first, last=state.round, write=written),
        )
    ]


def _events(state: LiveState) -> list[Element]:
    items = [element("li", element("time", at), f" {text}") for at, text in list(state.log)]
    return [section("What has happened", element("ol", *items, class_="log"))] if items else []


def _listed(names: Sequence[str]) -> str:
    """Names as in a sentence; of many, the rest is counted."""
    if len(names) > 8:
        return f"{', '.join(names[:7])} and {counted(len(names) - 7, 'other', 'others')}"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _two_lines(first: Content, second: Content) -> Element:
    """Two lines of a cell, the second one paler."""
    return element("div", first, element("br"), element("span", second, class_="soft"))
