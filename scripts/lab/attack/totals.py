"""What a member that steers prices learns about another one where only exact totals are read.

The attacker answers last: by then it knows what all others ask for together, from their releases
and its own masks. So its own answer can set any possible total, and with it the next prices. It
keeps all prices equal and searches, over several sessions, for the prices at which the demand of
the others changes, and by how much. Prices move by the real `RoundEngine`; the others answer with
the real `Subproblem`. All data are invented.

Prices are in money for a whole capacity here, demands in fractions of each capacity.
"""

import argparse
import math
import textwrap
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from msgspec import Struct
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from party.model.best_response import Subproblem
from party.release.gate import clamped
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.agreement.quantities import quantities
from protocol.numeric import Floats
from protocol.rounds import RoundEngine, RoundState
from scripts.lab.attack import page
from scripts.lab.common.agreements import WORTH, players, table
from scripts.lab.common.instances import RESOURCES, Instance, draw, placebo

MEMBERS, STEPS, SESSIONS = (3, 4, 8), ("center", "worth"), (1, 10)
VICTIMS, QUICK_VICTIMS = 10, 2
ROUNDS = 150

NARROW = 0.01
"""A step is claimed once its price is known to this fraction."""

_SAME = 1e-6  # of a capacity: smaller differences count as equal
_HIGHEST = 8.0 * WORTH  # above it no drawn company asks for anything
_ANSWERS = 4096  # candidate answers, where the size of an answer matters

Asked = Callable[[float], Floats]
Samples = dict[float, Floats]


class Step(Struct, frozen=True):
    """The demand falls by `size` as the price of everything rises from `low` to `high`."""

    low: float
    high: float
    size: Floats

    @property
    def price(self) -> float:
        return 0.5 * (self.low + self.high)

    @property
    def narrow(self) -> bool:
        return self.high - self.low <= NARROW * self.high

    def like(self, other: "Step") -> bool:
        """Whether both may be one step: equal sizes, and prices that overlap."""
        same = float(np.abs(self.size - other.size).max()) <= _SAME
        return same and self.low <= other.high and other.low <= self.high


def steps(samples: Samples) -> list[Step]:
    """What is known of the steps of a demand: at least one between any two different samples."""
    return [
        Step(low, high, samples[low] - samples[high])
        for low, high in pairwise(sorted(samples))
        if float(np.abs(samples[low] - samples[high]).max()) > _SAME
    ]


def true_steps(asked: Asked) -> list[Step]:
    """The steps of a demand that can be asked freely, from price 0 to no demand."""
    samples = {price: asked(price) for price in (0.0, _HIGHEST)}
    while wide := [s for s in steps(samples) if s.high - s.low > 1e-7 * _HIGHEST]:
        samples |= {step.price: asked(step.price) for step in wide}
    return steps(samples)


def answering(problem: Subproblem, agreement: Agreement) -> Asked:
    """What a company releases beneath its mask, where all capacities have one price."""
    limit, none = quantities(agreement).share_ticks[0], np.zeros(0)

    def asked(price: float) -> Floats:
        answer = problem.answer(price / quantities(agreement).capacity)
        demand = np.zeros(len(limit)) if answer is None else answer.demand
        released: Floats = clamped(agreement, demand, none, limit) / agreement.ticks
        return released

    return asked


class Attacker:
    """Steers one session after the other, and remembers what the others asked for."""

    def __init__(self, agreement: Agreement, others: Sequence[Asked]) -> None:
        self._agreement, self._others, self._course = agreement, others, RoundEngine(agreement)
        self.samples: Samples = {}

    def session(self) -> None:
        """Run a session from its first prices to its end."""
        state, goal = self._course.opening, math.inf
        while not state.over:
            price, m = self._price(state), len(self._agreement.resources)
            self.samples[price] = sum((asked(price) for asked in self._others), np.zeros(m))
            goal = self._goal(price, goal)
            state = self._steered(state, goal)

    def _steered(self, state: RoundState, goal: float) -> RoundState:
        """The possible next round state nearest to this price, for any demand of the others."""
        highest = len(self._agreement.members) * self._agreement.ticks

        def after(total: int) -> RoundState:
            values = np.zeros(quantities(self._agreement).share.shape, dtype=np.int64)
            values[0] = total
            return self._course.advance(state, values)

        if self._agreement.pricing.step == "center":  # which follows only the direction
            return after(highest if goal > self._price(state) else 0)
        totals = range(0, highest, highest // _ANSWERS)
        place = bisect_left(totals, goal, key=lambda total: self._price(after(total)))
        return after(totals[min(place, len(totals) - 1)])

    def _price(self, state: RoundState) -> float:
        return float((state.prices.current * quantities(self._agreement).capacity).mean())

    def _goal(self, price: float, last: float) -> float:
        """The price to ask next: within a step that is not narrow, else the last one."""
        if self.samples[max(self.samples)].any():
            return _HIGHEST
        wide = [step for step in steps(self.samples) if not step.narrow]
        if not wide:
            return 0.0  # everything above is known
        if math.isinf(last) or last == _HIGHEST:
            return max(wide, key=lambda step: step.high - step.low).price
        same = [step for step in wide if step.low <= last <= step.high]
        return (same or [min(wide, key=lambda step: abs(step.price - price))])[0].price

    @property
    def claims(self) -> list[Step]:
        return [step for step in steps(self.samples) if step.narrow]


def terms(instance: Instance, members: int, rule: str) -> Agreement:
    """An exact session with totals."""
    return from_table(
        table(
            session="attacked",
            mode="exact",
            reveal="totals",
            rounds=ROUNDS,
            capacity=instance.capacity,
            members=players(members),
            worth=WORTH,
            prices={"step": rule, "start": "worth"},
        )
    )


def attacked(seed: int, *, members: int, rule: str, sessions: int) -> dict[str, Any]:
    """Attack one victim; compare the claims with its true model and with a placebo."""
    apart = members - 2  # members besides attacker and victim; later they are replaced
    instance = draw(seed, parties=2 + 2 * apart, demands=False)
    agreement = terms(instance, members, rule)
    _, victim, *rest = (answering(p, agreement) for p in instance.subproblems())
    first = Attacker(agreement, [victim, *rest[:apart]])
    later = Attacker(agreement, [victim, *rest[apart:]])
    for _ in range(sessions):
        first.session()
    for _ in range(sessions):
        later.session()
    stranger = placebo(instance, seed, demands=False).subproblems()[1]
    true, others = true_steps(victim), [true_steps(asked) for asked in rest[:apart]]
    named = [claim for claim in first.claims if any(claim.like(c) for c in later.claims)]
    alone = {price: victim(price) for price in first.samples}
    found = [(step, claim) for step in true for claim in first.claims if claim.like(step)]
    return {
        "steps": len(true),
        "rounds": len(first.samples),
        "claims": len(first.claims),
        "mixed": sum(
            not any(claim.like(step) for known in (true, *others) for step in known)
            for claim in first.claims
        ),
        "found": len(found),
        "errors": [abs(claim.price / step.price - 1.0) for step, claim in found],
        "named": sum(any(claim.like(step) for step in true) for claim in named),
        "misnamed": sum(not any(claim.like(step) for step in true) for claim in named),
        "placebo": sum(
            any(claim.like(step) for claim in first.claims)
            for step in true_steps(answering(stranger, agreement))
        ),
        "each": sum(
            any(claim.narrow and claim.like(step) for claim in steps(alone)) for step in true
        ),
    }


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--victims", type=int, metavar="N", help=f"companies attacked in each row ({VICTIMS})")
    add("--members", type=int, nargs="+", default=MEMBERS, choices=range(3, 21), metavar="K",
        help="members of a session, from 3 to 20 (3 4 8)")  # fmt: skip
    add("--step", nargs="+", choices=STEPS, default=STEPS, help="price rules (both)")
    add("--page", type=Path, metavar="FILE", help="write the table into its section of this page")


def totals(chosen: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Attack, for every number of members, price rule and number of sessions."""
    victims = chosen.victims or (QUICK_VICTIMS if chosen.quick else VICTIMS)
    cells = [(K, rule, s) for K in chosen.members for rule in chosen.step for s in SESSIONS]
    rows = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("victims", total=len(cells) * victims)
        for members, rule, sessions in cells:
            each = []
            for number in range(victims):
                seed = chosen.seed + number
                each.append(attacked(seed, members=members, rule=rule, sessions=sessions))
                progress.advance(task)
            rows.append(_row(each, members=members, rule=rule, sessions=sessions))
    console.print(_shown(rows))
    console.print(_WHAT, highlight=False)
    if chosen.page:
        page.put(chosen.page, _HEADING, _written(rows))
    return rows


def _row(each: list[dict[str, Any]], **cell: Any) -> dict[str, Any]:
    errors = [error for one in each for error in one.pop("errors")]
    sums = {name: sum(one[name] for one in each) for name in each[0]}
    return {
        **cell,
        "victims": len(each),
        **sums,
        "error_median": median(errors) if errors else None,
        "error_most": max(errors, default=None),
    }


_HEADING = "What exact totals reveal of one company"
_SETTING = (
    "`scripts/attack totals --page FILE` runs sessions without noise in which only totals can be "
    f"read: {RESOURCES} resources, companies drawn as in the paper, up to {ROUNDS} rounds. One "
    "member lies. It answers last, when it already knows what all others ask for together. So its "
    "own answer sets the total and with it the next prices. It keeps the prices of all resources "
    "equal and searches for the prices at which the demand of the others changes. A change is a "
    "step of one company: the price shows what a change of its plan earns, the size what that "
    "change takes of every resource. The attacker has no data of any other company."
)
_WHAT = (
    "Steps: the sum over all victims. Found: the attacker knows the size in every resource to a "
    f"millionth of the capacity, and the price to {NARROW:.0%}. Price off: the error of the price, "
    "median and worst. Mixed: claims that are the steps of several companies taken for one. Each: "
    "what these rounds reveal where every release can be read. Placebo: steps of an unrelated "
    "company that the claims fit. A found step belongs to one of the candidates; these sessions "
    "do not show which. Named: after as many more sessions with the victim and new other members, "
    "steps seen in both are the victim's. Wrong: named steps that are not the victim's."
)
_COLUMNS = (
    *("members", "rule", "sessions", "victims", "steps", "found", "each", "price off", "mixed"),
    *("candidates", "named", "wrong", "placebo"),
)
_WORDS = 2


def _cells(row: dict[str, Any]) -> list[str]:
    off = "–"
    if row["error_most"] is not None:
        off = f"{row['error_median']:.2%}, {row['error_most']:.2%}"
    counts = (row[name] for name in ("sessions", "victims", "steps", "found", "each"))
    rest = (row["mixed"], row["members"] - 1, row["named"], row["misnamed"], row["placebo"])
    return [str(row["members"]), row["rule"], *map(str, counts), off, *map(str, rest)]


def _written(rows: list[dict[str, Any]]) -> list[str]:
    """The section of the page."""
    words = [[*textwrap.wrap(text, 100), ""] for text in (_SETTING, _WHAT)]
    return [*words[0], *words[1], *page.grid(_COLUMNS, [_cells(row) for row in rows], _WORDS)]


def _shown(rows: list[dict[str, Any]]) -> Table:
    shown = Table(title="what exact totals reveal of one company")
    for index, name in enumerate(_COLUMNS):
        shown.add_column(name, justify="left" if index < _WORDS else "right")
    for row in rows:
        shown.add_row(*_cells(row))
    return shown
