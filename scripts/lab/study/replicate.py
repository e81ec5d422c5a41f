"""One replication of the study: an instance, every session with it, and their rows.

Uses the real round engine, calibration and truncation, without sockets, signatures and ledgers.
Answers come from remembered corners and equal those of real parties. The central optimum judges the
rows and never reaches a session.
"""

import math
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from party.model.ball_response import Trader
from party.release.gate import clamped, truncated, within_ball
from party.release.noise import DiscreteGaussian
from protocol.agreement.endowment import prorata
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.numeric import Floats, Ticks
from protocol.outcome.outcome import Outcome
from protocol.privacy.calibration import Calibration
from protocol.rounds import RoundEngine
from scripts.lab.common.convergence import first_below, outcome_prices
from scripts.lab.common.instances import Instance, central, placebo
from scripts.lab.study.active_sets import Remembering, remembering
from scripts.lab.study.fates import Earnings, fates, oracle
from scripts.lab.study.grid import EXPERIMENTS, VARIANTS, Setting, agree

Row = Mapping[str, Any]
MARKS = (10, 20, 30, 40, 50, 60, 100, 150, 284, 500, 790, 1000)
"""Rounds whose gap is stored for every replication; the paper names 284 and 790."""

LEVELS = (25.0, 15.0, 5.0, 1.0, 0.1)
"""Gaps in percent for which the rounds needed are counted."""


class Unit(Struct, frozen=True):
    """The smallest piece of work: all sessions of one experiment with one instance."""

    experiment: str
    setting: Setting
    seed: int

    @property
    def name(self) -> str:
        s = self.setting
        return f"{self.experiment}-{s.parties}-{s.share_first}-{s.buffer}-{self.seed}"


class Rows(Struct, frozen=True):
    """The result of a unit: rows by table, for convergence the gap at every round, and its cost."""

    tables: Mapping[str, Sequence[Row]]
    curves: Mapping[str, Sequence[float]]
    cpu_seconds: float = 0.0


class SimulatedSession(Struct, frozen=True):
    """The outcome of a session, and dual values by round.

    `dual` is at the prices of the round. `outcome_dual` is at the prices of the outcome if the
    session had ended there: the weighted prices if the rule has weights, else those of the round.
    `asked` is each party's demand, rounds by parties by resources, which is private in a real
    session.
    """

    outcome: Outcome
    dual: Floats
    outcome_dual: Floats
    asked: Ticks

    @property
    def quota(self) -> Ticks:
        """What each party may use, from public or from private quotas."""
        if not self.outcome.agreement.masked:
            return self.outcome.quota
        caps, rule = quantities(self.outcome.agreement).share_ticks, self.outcome.rule
        own = np.tensordot(np.array(rule.weights), self.asked, 1)  # integers, far below 2^63
        rows = zip(own.tolist(), caps.tolist(), strict=True)
        return np.array([rule.quota(*row) for row in rows], dtype=np.int64)


class Companies:
    """The parties of one instance, asked together.

    In most rounds nearly all parties repeat their last answer. One multiplication checks this for
    all parties, with the region of each last corner; only the others are asked.
    """

    def __init__(self, instance: Instance, problems: Sequence[Remembering] | None = None) -> None:
        self.capacity = instance.capacity
        self.data = instance.data
        self._problems = remembering(instance) if problems is None else problems
        parties, m = instance.share.shape
        width = max(data.columns for data in instance.data) + m
        self._slope = np.zeros((parties, width, m))
        self._level = np.full((parties, width), -math.inf)
        self._lowest = np.zeros(parties)
        self._demand, self._uses = np.zeros((parties, m)), np.zeros((parties, m))
        self._utility = np.zeros(parties)

    def answers(self, prices: Floats) -> tuple[Floats, Floats]:
        """Demand and objective of each party at these prices: parties by resources, and parties.

        A failed solve counts as no demand, as in the gate, and gives no dual value.
        """
        margin = (self._slope @ prices + self._level).min(axis=1)
        for k in np.flatnonzero(margin < self._lowest).tolist():
            self._ask(k, prices)
        free = prices == 0.0
        demand = np.where(free, self._uses, self._demand) if free.any() else self._demand.copy()
        return demand, self._utility - self._demand @ prices

    def _ask(self, k: int, prices: Floats) -> None:
        answer, region = self._problems[k].answer(prices), self._problems[k].region
        self._level[k] = -math.inf
        if answer is None:
            self._demand[k] = self._uses[k] = 0.0
            self._utility[k] = math.inf
        elif region is None or region.corner.plan is not answer.plan:
            self._demand[k] = self._uses[k] = answer.demand
            self._utility[k] = answer.objective + float(prices @ answer.demand)
        else:
            corner, rows = region.corner, len(region.level)
            self._demand[k], self._uses[k] = corner.demand, corner.uses
            self._utility[k] = corner.utility
            self._level[k] = math.inf
            self._level[k, :rows], self._slope[k, :rows] = region.level, region.slope
            self._lowest[k] = region.lowest

    def dual(self, prices: Floats) -> float:
        """c·λ + Σ g_k(λ): never below the optimum."""
        return float(prices @ self.capacity + self.answers(prices)[1].sum())

    def overrun(self, prices: Floats) -> float:
        """By what fraction of a capacity the plans at these prices exceed it, at worst."""
        total = self.answers(prices)[0].sum(axis=0) / self.capacity
        return max(0.0, float(total.max()) - 1.0)


def session(agreement: Agreement, companies: Companies, draws: Floats | None) -> SimulatedSession:
    """Run a session; `draws` is the noise in units of σ, rounds by parties by numbers.

    Without `draws` it is the discrete noise of real gates, which no one can repeat.
    """
    engine, calibration = RoundEngine(agreement), Calibration(agreement)
    state = engine.opening
    if agreement.masked:  # no release is read on its own, so none needs a mask
        state = engine.pair(state, [])
    scales, adaptive = calibration.scales(state.caps), agreement.mode == "clipped"
    traders = _traders(agreement, companies) if agreement.ball else []
    path, dual, outcome_dual = [], [], []
    released: list[Ticks] = []
    asked: list[Ticks] = []
    while True:
        prices = state.prices.current
        demand, objective = companies.answers(prices)
        path.append(prices)
        dual.append(float(prices @ companies.capacity + objective.sum()))
        proved = state.certificate is not None
        outcome_dual.append(
            companies.dual(outcome_prices(state, companies.capacity)) if proved else dual[-1]
        )
        if state.over:
            outcome = Outcome(
                agreement=agreement,
                state=state,
                released=np.array(released),
                path=np.array(path),
                sealed=True,
            )
            return SimulatedSession(
                outcome, np.array(dual), np.array(outcome_dual), np.array(asked)
            )
        if adaptive or traders:
            scales = calibration.scales(state.caps, state.round)
        noise = real_noise(scales) if draws is None else _rounded(draws[state.round] * scales)
        if traders:
            asked.append(_within_balls(agreement, traders, prices))
        else:
            asked.append(clamped(agreement, demand, objective, state.caps))
        released.append(truncated(agreement, asked[-1] + noise))
        state = engine.advance(state, released[-1])


def real_noise(scales: Floats) -> Ticks:
    """What real gates add, with these σ: parties by numbers."""
    flat, none = scales.ravel(), np.zeros(scales.size, dtype=np.int64)
    return DiscreteGaussian().add(none, flat, member="", round=0).reshape(scales.shape)


def _rounded(noise: Floats) -> Ticks:
    ticks: Ticks = np.rint(noise).astype(np.int64)
    return ticks


def _traders(agreement: Agreement, companies: Companies) -> list[Trader]:
    """What answers for each party within its ball."""
    pairs = zip(companies.data, agreement.members, strict=True)
    return [Trader.of(data, agreement, member.name) for data, member in pairs]


def _within_balls(agreement: Agreement, traders: Sequence[Trader], prices: Floats) -> Ticks:
    """The demands of all parties as their gates clip them; a failed solve counts as the centre."""
    missing = np.full(len(agreement.resources), math.nan)
    answers = [trader.answer(prices) for trader in traders]
    rows = [
        within_ball(agreement, row, missing if answer is None else answer.demand)
        for row, answer in enumerate(answers)
    ]
    return np.array(rows)


def play(unit: Unit) -> Rows:
    """All rows of a unit. The same unit gives the same rows."""
    begin = time.process_time()
    if unit.experiment == "convergence":
        rows = _convergence(unit)
    else:
        rows = Rows({"sessions": _sessions(unit), "shares": _shares(unit)}, {})
    return replace(rows, cpu_seconds=time.process_time() - begin)


def _convergence(unit: Unit) -> Rows:
    experiment = next(e for e in EXPERIMENTS if e.name == unit.experiment)
    instance = unit.setting.instance(unit.seed)
    companies, optimum = Companies(instance), central(instance).utility
    silence = np.zeros((experiment.rounds, *instance.share.shape))
    rows, curves = [], {}
    for epsilon, name in experiment.sessions:
        agreement = agree(
            VARIANTS[name], instance, rounds=experiment.rounds, epsilon=epsilon, buffer=None
        )
        played = session(agreement, companies, silence)
        gap = lasting(played.outcome_dual / optimum - 1.0, experiment.rounds)
        curves[name] = gap.tolist()
        rows.append(
            {"parties": unit.setting.parties, "variant": name, "seed": unit.seed}
            | {"rounds_played": played.outcome.rounds}
            | {f"gap_{mark}": gap[mark] for mark in MARKS}
            | {f"rounds_{level:g}": first_below(gap, level / 100.0) for level in LEVELS}
        )
    return Rows({"convergence": rows}, curves)


def lasting(values: Floats, rounds: int) -> Floats:
    """Values by round; a session that has ended keeps its last value."""
    return np.pad(values, (0, rounds + 1 - len(values)), mode="edge")


def _sessions(unit: Unit) -> list[Row]:
    experiment = next(e for e in EXPERIMENTS if e.name == unit.experiment)
    setting, instance = unit.setting, unit.setting.instance(unit.seed)
    companies, optimum = Companies(instance), central(instance).utility
    others = Companies(placebo(instance, unit.seed, demands=setting.demands))
    draws = setting.draws(unit.seed, experiment.rounds)
    earnings = Earnings(instance)
    within = partial(_split, earnings=earnings, optimum=optimum)
    equal: dict[str, Any] = {}

    def gap(dual: float) -> float:
        return dual / optimum - 1.0

    rows: list[Row] = []
    for epsilon, name in experiment.sessions:
        agreement = agree(
            VARIANTS[name],
            instance,
            rounds=experiment.rounds,
            epsilon=epsilon,
            buffer=setting.buffer,
        )
        own, other = (session(agreement, t, draws) for t in (companies, others))
        average = own.outcome.prices
        row: dict[str, Any] = {
            "experiment": unit.experiment,
            "parties": setting.parties,
            "share_first": setting.share_first,
            "buffer": setting.buffer,
            "epsilon": epsilon,
            "variant": name,
            "seed": unit.seed,
            "gap_start": gap(own.dual[0]),
            "gap_last": gap(own.dual[-1]),
            "gap_average": gap(companies.dual(average)),
            "gap_best": gap(own.dual.min()),
            "placebo_last": gap(companies.dual(other.outcome.last_prices)),
            "placebo_average": gap(companies.dual(other.outcome.prices)),
            "overrun_last": companies.overrun(own.outcome.last_prices),
            "overrun_average": companies.overrun(average),
        }
        if experiment.hindsight:
            row["placebo_best"] = gap(min(companies.dual(prices) for prices in other.outcome.path))
        if experiment.quota and VARIANTS[name].caps:
            equal = equal or within(agreement, prorata(agreement), "prorata")
            row |= equal | within(agreement, own.quota, "quota")
            row["quota_over"] = _over(agreement, own.quota)
        if experiment.quota and not setting.demands:
            row |= within(agreement, other.quota, "placebo_quota")
        if experiment.fates:
            got = fates(own.outcome, own.asked, earnings)
            row |= {"worse": got.worse, "worst": got.worst}
            if agreement.ball:
                row["oracle"] = oracle(agreement, instance) / optimum
        rows.append(row)
    return rows


def _split(
    agreement: Agreement, split: Ticks, name: str, *, earnings: Earnings, optimum: float
) -> dict[str, Any]:
    """The utility of a split over the optimum, and how many parties have no plan.

    The utility is missing where some party's minimum demands do not fit into its quota.
    """
    earned = earnings.within(agreement, split)
    lacking = 1.0 - float(np.isfinite(earned).mean())
    return {
        name: None if lacking else math.fsum(earned) / optimum,
        f"{name}_lacking": lacking,
    }


def _over(agreement: Agreement, split: Ticks) -> float:
    """By what fraction of a capacity all quotas together exceed it, at worst."""
    return max(0.0, float(split.sum(axis=0).max()) / agreement.ticks - 1.0)


def _shares(unit: Unit) -> list[Row]:
    setting = unit.setting
    if setting.share_first is None:
        return []
    share = setting.instance(unit.seed).share[:, 0].tolist()
    market = {
        "parties": setting.parties,
        "share_first": setting.share_first,
        "buffer": setting.buffer,
        "seed": unit.seed,
    }
    return [{**market, "party": k + 1, "share": part} for k, part in enumerate(share)]
