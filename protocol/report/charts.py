"""Charts, and the sections of the public page that show how prices and demand moved with them."""

import math
from collections.abc import Callable, Sequence
from xml.etree.ElementTree import Element

import numpy as np
from msgspec import Struct

from protocol.agreement.quantities import pair_prices, quantities
from protocol.numeric import Floats
from protocol.outcome.ball_quota import noise_left
from protocol.outcome.outcome import Outcome
from protocol.report.elements import element, grid, section
from protocol.report.format import counted, figure, left_out, money, per, percent, price_rule

CHARTS = 8
"""Resources that are drawn. The tables name more of them."""

_POINTS = 400  # corners of a line at most, so that a page of many rounds stays small
_WIDTH, _HEIGHT = 320.0, 150.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 54.0, 314.0, 10.0, 128.0


class Line(Struct, frozen=True):
    """One line of a chart: a value for each round, and how it is drawn."""

    values: Sequence[float]
    kind: str = "main"


def chart(
    caption: str,
    note: str,
    lines: Sequence[Line],
    *,
    first: int,
    last: int | None = None,
    suffix: str = "",
    level: str = "",
    write: Callable[[float], str] | None = None,
) -> Element:
    """Lines over the rounds from `first` to `last`, with the level 0 always in sight.

    The values are spread evenly; without `last` there is one for each round. `level` labels
    the height 0. `write` turns a height into its label.
    """
    write = _axis_label if write is None else write
    low = min(0.0, *(min(line.values) for line in lines))
    high = max(0.0, *(max(line.values) for line in lines))
    high = high if high > low else low + 1.0

    def height(value: float) -> float:
        return _BOTTOM - (value - low) / (high - low) * (_BOTTOM - _TOP)

    drawing = element("svg", viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}", role="img", class_="chart")
    drawing.append(element("title", f"{caption}: {note}"))
    for step in round_numbers(low, high):
        y, kind, label = f"{height(step):.1f}", "rule", write(step) + suffix
        if step == 0.0:
            kind, label = "zero", level or label
        drawing.append(element("line", class_=kind, x1=f"{_LEFT:g}", x2=f"{_RIGHT:g}", y1=y, y2=y))
        drawing.append(_text(_LEFT - 6.0, height(step) + 3.5, label, "end"))
    drawing.extend(_path(line, height) for line in lines)
    last = first + len(lines[0].values) - 1 if last is None else last
    drawing.append(_text(_LEFT, _HEIGHT - 6.0, str(first), "start"))
    drawing.append(_text(_RIGHT, _HEIGHT - 6.0, f"round {last}", "end"))
    texts = [element("strong", caption), element("span", note)]
    return element("figure", element("figcaption", *texts), drawing)


def _text(x: float, y: float, text: str, anchor: str) -> Element:
    return element("text", text, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)


def _axis_label(value: float) -> str:
    """A round number, as short as possible."""
    text = f"{value:.5g}" if abs(value) < 1e5 else f"{value:.2g}"
    return text.replace("e+0", "e").replace("e+", "e").replace("-", "\u2212")


def _path(line: Line, height: Callable[[float], float]) -> Element:
    count = len(line.values)
    shown = sorted({*range(0, count, math.ceil(count / _POINTS)), count - 1})
    width = (_RIGHT - _LEFT) / max(1, count - 1)
    points = [f"{_LEFT + width * i:.1f},{height(line.values[i]):.1f}" for i in shown]
    if count == 1:
        points.append(f"{_RIGHT:.1f},{height(line.values[0]):.1f}")
    return element("polyline", class_=line.kind, points=" ".join(points))


def round_numbers(low: float, high: float) -> list[float]:
    """Two to six round numbers between `low` < `high`; 0 is one of them if it is between."""
    power = 10.0 ** math.floor(math.log10(high - low))
    step = next(s * power for s in (0.2, 0.5, 1.0, 2.0, 5.0) if (high - low) / (s * power) <= 5.0)
    return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def round_sections(outcome: Outcome) -> list[Element]:
    """How prices and total demand moved from round to round."""
    agreement, rounds = outcome.agreement, len(outcome.excess_demand)
    if not rounds:
        return [section("The rounds", "No round is closed yet.")]
    shown = range(min(len(agreement.resources), CHARTS))
    more = left_out(len(shown), len(agreement.resources), "resources")
    noise, noisy = (", plus noise", "noisy total") if agreement.privacy else ("", "total")
    window = max(1, rounds // 10)
    lines = f" The thin line shows each round, the thick line the average of {window} rounds."
    return [
        section(
            "How the prices moved",
            f"In each round, every company answers the prices with what it would take{noise}. "
            + price_rule(agreement),
            grid([_price_chart(outcome, j) for j in shown if not agreement.resources[j].opposite]),
            *more,
        ),
        section(
            "Total demand compared with the capacity",
            f"The {noisy} of all companies in each round, in percent above or below the "
            "capacity." + (lines if window > 1 else ""),
            grid([_demand_chart(outcome, j, window) for j in shown]),
            *more,
        ),
    ]


def _price_chart(outcome: Outcome, j: int) -> Element:
    resource, opposites = outcome.agreement.resources[j], quantities(outcome.agreement).opposites
    price = float(pair_prices(outcome.prices, opposites)[j])
    note = f"price {money(outcome.agreement, figure(price))} {per(resource)}"
    path = pair_prices(outcome.path, opposites)[:, j]
    return chart(resource.name, note, [Line(path.tolist())], first=0)


def _demand_chart(outcome: Outcome, j: int, window: int) -> Element:
    values = 100.0 * outcome.excess_demand[:, j]
    lines = [Line(values.tolist())]
    if window > 1:
        lines = [Line(values.tolist(), "raw"), Line(trailing_mean(values, window).tolist())]
    name = outcome.agreement.resources[j].name
    return chart(name, _average_note(outcome, j), lines, first=1, suffix=" %", level="capacity")


def _average_note(outcome: Outcome, j: int) -> str:
    """How far demand was from the capacity, averaged over the rounds that the quotas use."""
    if outcome.certificate is not None:
        return f"average used for the quotas: {percent(_weighted_excess(outcome, j), signed=True)}"
    count = outcome.averaged_rounds
    if not count:
        return "no average yet"
    if outcome.agreement.ball:
        note = f"average used for the quotas: {percent(_weighted_excess(outcome, j), signed=True)}"
        left = float(noise_left(outcome.agreement, count)[j])
        return f"{note}, noise ±{percent(left)}" if left else note
    mean, noise = outcome.average
    excess = math.fsum(mean[:, j]) / outcome.agreement.ticks - 1.0
    spread = math.sqrt(math.fsum(noise[:, j] ** 2)) / outcome.agreement.ticks
    note = f"mean of {counted(count, 'round', 'rounds')}: {percent(excess, signed=True)}"
    return f"{note}, noise ±{percent(spread)}" if spread else note


def _weighted_excess(outcome: Outcome, j: int) -> float:
    """Average demand above the capacity, as a fraction of it, with the weights of the quotas."""
    total = sum(outcome.weights)
    pairs = zip(outcome.weights, outcome.excess_demand[:, j].tolist(), strict=False)
    return math.fsum(weight / total * excess for weight, excess in pairs)


def trailing_mean(values: Floats, window: int) -> Floats:
    """For each round the mean of the last `window` rounds, or of as many as there were."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(ends - window, 0)
    means: Floats = (sums[ends] - sums[begins]) / (ends - begins)
    return means
