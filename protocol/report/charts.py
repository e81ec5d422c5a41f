"""The part of the public page about how prices and totals moved from round to round, as charts."""

import math
from fractions import Fraction
from xml.etree.ElementTree import Element

import numpy as np

from protocol.agreement.model import Agreement
from protocol.numeric import Floats
from protocol.outcome.outcome import Outcome
from protocol.report.certificate import money
from protocol.report.format import (
    counted,
    left_out,
    per,
)
from protocol.report.html import (
    Line,
    chart,
    figure,
    grid,
    paragraph,
    section,
)

CHARTS = 8
"""Resources that are drawn. The tables name more of them."""


def courses(known: Outcome) -> list[Element]:
    resources = known.agreement.resources
    if not len(known.overrun):
        return [section("The rounds", paragraph("No round has been closed yet."))]
    shown = range(min(len(resources), CHARTS))
    more = left_out(len(shown), len(resources), "resources")
    noisy, window = known.agreement.privacy is not None, max(1, len(known.overrun) // 10)
    thin = f" The thin line is each round, the thick one the mean of {window} rounds."
    return [
        section(
            "How the prices moved",
            paragraph(
                "Each round, every company answers the prices with what it would take"
                + (", plus noise. " if noisy else ". ")
                + moves(known.agreement)
            ),
            grid([_price_chart(known, j) for j in shown]),
            *more,
        ),
        section(
            "What was asked for, against the capacity",
            paragraph(
                f"The {'noisy total' if noisy else 'total'} of all companies in each round, in "
                "percent above or below the capacity." + (thin if window > 1 else "")
            ),
            grid([_overrun_chart(known, j, window) for j in shown]),
            *more,
        ),
    ]


def moves(agreement: Agreement) -> str:
    """How the next prices follow from the answers."""
    if agreement.pricing.step == "center":
        return "The next prices lie amid all those that the answers so far leave possible."
    return "The price of what is wanted too much rises, that of what is left over falls."


def _price_chart(known: Outcome, j: int) -> Element:
    resource = known.agreement.resources[j]
    price = money(known.agreement, figure(float(known.prices[j])))
    note = f"price {price} {per(resource)}"
    return chart(resource.name, note, [Line(known.path[:, j].tolist())], first=0)


def _overrun_chart(known: Outcome, j: int, window: int) -> Element:
    values = 100.0 * known.overrun[:, j]
    lines = [Line(values.tolist())]
    if window > 1:
        lines = [Line(values.tolist(), "raw"), Line(trailing_mean(values, window).tolist())]
    name = known.agreement.resources[j].name
    return chart(name, _average_note(known, j), lines, first=1, suffix=" %", level="capacity")


def _average_note(known: Outcome, j: int) -> str:
    """How far off the capacity the rounds were on average that the quota rests on."""
    if known.certificate is not None:
        return f"weighed as the quotas are: {_signed(_weighed_overrun(known, j))}\u00a0%"
    count = known.averaged_rounds
    if not count:
        return "no average yet"
    mean, noise = known.average
    off = 100.0 * (math.fsum(mean[:, j]) / known.agreement.ticks - 1.0)
    spread = 100.0 * math.sqrt(math.fsum(noise[:, j] ** 2)) / known.agreement.ticks
    note = f"mean of {counted(count, 'round', 'rounds')}: {_signed(off)}\u00a0%"
    return f"{note}, noise ±{figure(spread, digits=2)}\u00a0%" if spread else note


def _weighed_overrun(known: Outcome, j: int) -> float:
    """In percent of the capacity, and exact until it is: what is left over may be very little."""
    weights = known.certificate.weights if known.certificate is not None else ()
    totals = known.released[:, :, j].sum(axis=1).tolist()
    asked = sum(w * total for w, total in zip(weights, totals, strict=False))
    return float(100 * (Fraction(asked, sum(weights) * known.agreement.ticks) - 1))


def _signed(value: float) -> str:
    return ("+" if value > 0.0 else "") + figure(value, digits=2)


def trailing_mean(values: Floats, window: int) -> Floats:
    """For each round the mean of the last `window` ones, or of as many as there were."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    begins = np.maximum(ends - window, 0)
    means: Floats = (sums[ends] - sums[begins]) / (ends - begins)
    return means
