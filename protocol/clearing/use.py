"""Compares what members used with what they may use, and prices what is above it.

The prices are those of the outcome, or those that the agreement states for overruns. Never here:
where the figures of use come from.
"""

import csv
import math
import re
from fractions import Fraction

from msgspec import Struct

from protocol.agreement.quantities import quantities
from protocol.clearing.settle import Clearing
from protocol.commitment.layout import grain_ticks
from protocol.errors import BadCommand
from protocol.outcome.outcome import Outcome

OVERRUN_FACTOR = 2.0
"""A unit above the quota costs this many times the clearing price, unless the agreement says."""

_COLUMNS = ["member", "resource", "amount"]
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")  # Python reads 1_0 as 10


class Use(Struct, frozen=True):
    """What one member used of one resource."""

    member: str
    resource: str
    used: float
    allowed: float
    #: What is above the quota by more than one grain, in units.
    above: float
    #: What that costs, in coins.
    coins: int


def read_use(outcome: Outcome, text: str) -> dict[tuple[str, str], float]:
    """Amounts by member and resource, from CSV with the columns member, resource, amount.

    Several lines for one member and resource are added up. Below 0 is what a member brings, where
    the agreement has floors. Raises `BadCommand` with the line.
    """
    members = {m.name for m in outcome.agreement.members}
    resources = {r.name for r in outcome.agreement.resources}
    try:
        rows = list(csv.reader(text.splitlines()))
    except csv.Error as error:  # such as a cell that is too long
        raise BadCommand(f"--used: it is no CSV: {error}") from None
    if not rows or [cell.strip() for cell in rows[0]] != _COLUMNS:
        raise BadCommand("--used: the first line must be member,resource,amount, with commas")
    used: dict[tuple[str, str], float] = {}
    for number, row in enumerate(rows[1:], 2):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if len(cells) != len(_COLUMNS):
            raise BadCommand(f"--used, line {number}: three values are needed, with commas between")
        if cells[0] not in members:
            raise BadCommand(f"--used, line {number}: {cells[0]!r} is not a member")
        if cells[1] not in resources:
            raise BadCommand(f"--used, line {number}: {cells[1]!r} is not a resource")
        if not _NUMBER.fullmatch(cells[2]):
            raise BadCommand(f"--used, line {number}: {cells[2]!r} is not a number")
        amount, key = float(cells[2]), (cells[0], cells[1])
        used[key] = used.get(key, 0.0) + amount
        if not math.isfinite(used[key]) or (amount < 0.0 and not outcome.agreement.banded):
            raise BadCommand(f"--used, line {number}: an amount must be 0 or more, and finite")
    return used


def overrun_price(outcome: Outcome, index: int) -> float:
    """What a unit above the quota costs."""
    agreed = outcome.agreement.resources[index].overrun_price
    if agreed is not None:
        return agreed
    return OVERRUN_FACTOR * max(0.0, float(outcome.prices[index]))


def compare(clearing: Clearing, used: dict[tuple[str, str], float]) -> list[Use]:
    """Each figure of use with its quota. A member without a claim may use its floor, or nothing.

    A member without a figure used nothing, of resources that have figures. It is listed if that is
    above its quota: it was to bring something. One grain above a quota counts as rounding: claims
    are rounded down by up to that.
    """
    outcome = clearing.outcome
    agreement, floors = outcome.agreement, quantities(outcome.agreement).floor
    grain = grain_ticks(agreement) / agreement.ticks
    measured = {resource for _, resource in used}
    rows = []
    for j, resource in enumerate(agreement.resources):
        quotas = clearing.quotas.get(resource.name, {})
        for k, member in enumerate(agreement.members if resource.name in measured else ()):
            amount = used.get((member.name, resource.name), 0.0)
            allowed = quotas.get(member.name, float(floors[k, j]))
            above = amount - allowed
            if above <= agreement.above_floors(j) * grain:
                above = 0.0
            if above or (member.name, resource.name) in used:
                cost = Fraction(above) * Fraction(overrun_price(outcome, j)) * 10**clearing.places
                rows.append(Use(member.name, resource.name, amount, allowed, above, round(cost)))
    return rows
