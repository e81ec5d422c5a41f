"""A member that lies in every round moves prices and the levy of the step `ball`.

It answers last, so with masks it chooses each total, within what is possible. It drives prices up
for some rounds, and claims to have sold all that it can in these. Then it lowers totals until the
payments of all add up to what the public rounds tell; what it claims for all other rounds is its
best answer, as before. The sessions are those of the study (`ball_cells`), with real rounds,
noise, quotas and payments. All data are invented.
"""

import argparse
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from party.model.ball_response import Trader
from party.release.gate import within_ball
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.clearing.statements import payment_sum, quota_sum
from protocol.numeric import Floats, Ticks
from protocol.outcome.ball_quota import large_levy
from protocol.outcome.outcome import Outcome, outcome_of
from protocol.privacy.ball import ball, clip
from protocol.privacy.calibration import Calibration
from protocol.privacy.possible_totals import PossibleTotals
from protocol.rounds import RoundEngine
from scripts.lab.attack import page
from scripts.lab.study.ball_cells import ROUNDS, Cell
from scripts.lab.study.fates import Earnings, Fates, fates
from scripts.lab.study.replicate import real_noise

CELLS = (Cell(20, 8.0), Cell(20, 8.0, endowments="half"), Cell(10, 16.0), Cell(10, 8.0, 1))

LIAR = 1

NEVER = range(0)
PUMPS = (NEVER, *(range(n) for n in (2, 4, 5, 6)), range(20, 25), range(40, 46), range(ROUNDS - 1))
"""The rounds in which the liar drives prices up. In all later ones it pays back."""

COLUMNS = (
    *(
        "members",
        "resources",
        "endowments",
        "ε",
        "prices driven up in rounds",
        "levy",
        "liar",
        "worst other",
    ),
    *("all sums fit", "levy is flagged"),
)

_WORDS = (
    "`scripts/attack pump --page FILE`: the last member to answer lies about its releases and its "
    "claim, in sessions with noise and totals. *Levy*: in percent of what all earn alone. *Liar* "
    "and *worst other*: what it gains, in percent of what it earns alone, after payment and levy. "
    "*All sums fit*: neither quotas nor payments of all show the lie at settlement. *Flagged*: "
    "report and settlement advise to find out why before anyone pays. Sessions in a row: "
)


class Pumped(Struct, frozen=True, eq=False):
    """A session in which one member lied, or none."""

    outcome: Outcome
    fates: Fates

    @property
    def levy(self) -> float:
        return -float(self.fates.payments.sum())

    @property
    def fits(self) -> bool:
        """Whether the sums of what all members state show no lie."""
        quotas = self.fates.quota.sum(axis=0).tolist()
        sums = [quota_sum(self.outcome, j, ticks) for j, ticks in enumerate(quotas)]
        paid = sum(map(Fraction, self.fates.payments.tolist()), Fraction(0))
        return all(one.fits for one in (*sums, payment_sum(self.outcome, paid)))

    @property
    def flagged(self) -> bool:
        return large_levy(self.outcome.agreement, self.outcome.prices, self.levy)


def pumped(cell: Cell, seed: int, rounds: range, *, bounded: bool = True) -> Pumped:
    """A session in which the liar drives prices up in these rounds; without rounds, an honest one.

    If the liar is not `bounded`, it ignores which totals are possible.
    """
    instance = cell.instance(seed)
    agreement = cell.agreement(instance, "ball")
    engine, possible = RoundEngine(agreement), PossibleTotals(agreement)
    calibration, terms = Calibration(agreement), quantities(agreement)
    pairs = zip(instance.data, agreement.members, strict=True)
    companies = [Trader.of(data, agreement, member.name) for data, member in pairs]
    state, asked, debt = engine.pair(engine.opening, []), [], np.zeros(cell.resources)
    while not state.over:
        demands = _demands(agreement, companies, state.prices.current)
        if state.round in rounds:
            demands[LIAR] = sold(agreement)
        values = demands + real_noise(calibration.scales(state.caps, state.round))
        honest, (lowest, highest) = values.sum(axis=0), possible(state.round)
        money = (state.round + 1) * state.prices.current * terms.capacity
        lie = np.zeros_like(honest)
        if state.round in rounds:
            lie = (highest if bounded else 50 * agreement.ticks) - honest
        elif rounds and state.round > rounds[-1]:
            wanted = honest - np.rint(debt / money).astype(np.int64)
            lie = (np.clip(wanted, lowest, highest) if bounded else wanted) - honest
        values[LIAR] += lie
        debt += money * lie
        asked.append(demands)
        state = engine.advance(state, values)
    known = outcome_of(agreement, state, sealed=True)
    return Pumped(known, fates(known, np.array(asked), Earnings(instance)))


def _demands(agreement: Agreement, companies: Sequence[Trader], prices: Floats) -> Ticks:
    missing = np.full(len(agreement.resources), np.nan)
    answers = [company.answer(prices) for company in companies]
    rows = [
        within_ball(agreement, row, missing if answer is None else answer.demand)
        for row, answer in enumerate(answers)
    ]
    return np.array(rows)


def sold(agreement: Agreement) -> Ticks:
    """What the liar says that it asked for while prices are high: it sells all that it can."""
    public, nothing = ball(agreement), [0] * len(agreement.resources)
    clipped = clip(nothing, public.center[LIAR].tolist(), public.axes[LIAR].tolist())
    return np.array(clipped, dtype=np.int64)


def row(cell: Cell, rounds: range, sessions: Sequence[Pumped]) -> list[str]:
    """One line of the table, in means over sessions; for the worst other, the worst of all."""
    others = [np.delete(one.fates.gain, LIAR) for one in sessions]
    alone = [float(np.nansum(one.fates.alone)) for one in sessions]
    levies = [one.levy / all_alone for one, all_alone in zip(sessions, alone, strict=True)]
    return [
        str(cell.parties),
        str(cell.resources),
        {"equal": "equal", "half": "one has half"}[cell.endowments],
        f"{cell.epsilon:g}",
        f"{rounds[0] + 1} to {rounds[-1] + 1}" if rounds else "none",
        f"{100.0 * np.mean(levies):z.0f} %",
        f"{100.0 * np.mean([one.fates.gain[LIAR] for one in sessions]):.0f} %",
        f"{100.0 * min(float(np.nanmin(gains)) for gains in others):.0f} %",
        f"{sum(one.fits for one in sessions)} of {len(sessions)}",
        f"{sum(one.flagged for one in sessions)} of {len(sessions)}",
    ]


def options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--sessions", type=int, default=5, help="in a row (%(default)s)")
    command.add_argument("--page", type=Path, metavar="FILE", help="replace the section of a page")


def pump(chosen: argparse.Namespace, console: Console) -> list[list[str]]:
    """Play all rows, and show them."""
    sessions = 1 if chosen.quick else chosen.sessions
    table, rows = Table(*COLUMNS), []
    for cell in CELLS[:1] if chosen.quick else CELLS:
        for rounds in PUMPS:
            seeds = range(2000 + chosen.seed, 2000 + chosen.seed + sessions)
            rows.append(row(cell, rounds, [pumped(cell, seed, rounds) for seed in seeds]))
            table.add_row(*rows[-1])
            console.print(" ".join(rows[-1]), style="dim") if console.is_terminal else None
    console.print(table)
    if chosen.page:
        lines = [f"{_WORDS}{sessions}.", "", *page.grid(COLUMNS, rows, 5)]
        page.put(chosen.page, "One member moves prices and the levy", lines)
    return rows
