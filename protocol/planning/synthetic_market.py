"""Invented companies, and what sessions among them bring.

The sessions are real: agreed prices, noise of the agreed size, quotas and payments. The companies
are drawn from the digest of the agreement, so everyone with the agreement gets the same figures,
and no one can choose them. Never here: private numbers, or anything that is sent.

Symbols: y = λ·c money for a whole capacity, K companies, m resources, n steps of each demand.
"""

import hashlib
import math
from functools import cached_property
from typing import Protocol

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from protocol.agreement import schema
from protocol.agreement.endowment import endowment
from protocol.agreement.model import Agreement, Pricing
from protocol.agreement.quantities import quantities
from protocol.numeric import Floats, Ticks
from protocol.outcome.ball_quota import levied
from protocol.outcome.member_allocation import member_allocation
from protocol.outcome.outcome import Outcome, outcome_of
from protocol.privacy.ball import Ball, ball, clip
from protocol.privacy.calibration import Calibration
from protocol.privacy.sensitivity import floor_ticks
from protocol.rounds import RoundEngine

SESSIONS = 20
"""How many sessions are run, unless that exceeds a limit below."""

MOST_ROUNDS = 6_000
"""Limit on the rounds of all sessions together."""

MOST_NUMBERS = 20_000_000
"""Limit on the numbers that all companies release in all sessions."""

_HALVINGS = 30
_NEGLIGIBLE = 1e-4  # a smaller loss, as a fraction of what a company earns alone, is none
_STEPS = 12  # of each company's demand for each resource
_APPETITE = (1.0, 3.0)  # demand at price 0, over the pro rata quota
_KEENNESS = 2.0  # the largest factor between a company's mean value and the worth
_SPREAD = (0.4, 1.6)  # value of a step, over that company's mean


class Market(Protocol):
    """Companies that answer prices."""

    def demand(self, y: Floats) -> Floats:
        """What each company would take at these prices, as fractions of the capacities."""
        ...


class Companies(Struct, frozen=True, dict=True):
    """Invented companies: demands in steps, companies by resources by steps.

    No demand is above the share of its company.
    """

    #: The size of each step, as a fraction of the capacity.
    sizes: Floats
    #: What each step earns, in money for a whole capacity. The values of a demand fall.
    values: Floats

    @classmethod
    def drawn(cls, agreement: Agreement, number: int, worth: Floats | None = None) -> "Companies":
        """The companies of one session. The same agreement and number give the same companies.

        `worth` is used if the agreement has none.
        """
        terms = quantities(agreement)
        K, m = terms.share.shape
        seed = agreement.digest + b"companies" + number.to_bytes(4, "big")
        if terms.worth is not None:
            worth = terms.worth
        elif worth is None:
            worth = np.ones(m)
        prorata = terms.share / terms.share.sum(axis=0)
        appetite = _between(*_APPETITE, _uniform(seed + b"a", K, m)) * prorata
        cuts = np.sort(_uniform(seed + b"b", K, m, _STEPS - 1), axis=2)
        edges = np.concatenate([np.zeros((K, m, 1)), cuts, np.ones((K, m, 1))], axis=2)
        keen = _KEENNESS ** _between(-1.0, 1.0, _uniform(seed + b"c", K, m, 1))
        step = np.sort(_between(*_SPREAD, _uniform(seed + b"d", K, m, _STEPS)), axis=2)[:, :, ::-1]
        return cls(
            sizes=np.diff(edges, axis=2) * np.minimum(appetite, terms.share)[:, :, None],
            values=worth[None, :, None] * keen * step,
        )

    def demand(self, y: Floats) -> Floats:
        """What each company would take at these prices, as fractions of the capacities."""
        wanted = self.values > y[None, :, None]
        taken: Floats = np.where(wanted, self.sizes, 0.0).sum(axis=2)
        return taken

    def earned(self, limit: Floats) -> Floats:
        """What each company earns at most within these fractions of the capacities."""
        begins = np.cumsum(self.sizes, axis=2) - self.sizes
        used = np.clip(limit[:, :, None] - begins, 0.0, self.sizes)
        total: Floats = (used * self.values).sum(axis=(1, 2))
        return total

    @cached_property
    def best(self) -> float:
        """What all companies together earn at most if they pool the capacities."""
        K, m, n = self.sizes.shape
        sizes, values = (a.transpose(1, 0, 2).reshape(m, K * n) for a in (self.sizes, self.values))
        order = np.argsort(-values, axis=1, kind="stable")
        sizes, values = (np.take_along_axis(a, order, axis=1) for a in (sizes, values))
        begins = np.cumsum(sizes, axis=1) - sizes
        return float((np.clip(1.0 - begins, 0.0, sizes) * values).sum())


class InBalls(Struct, frozen=True):
    """Invented companies that answer within their balls (step `ball`)."""

    companies: Companies
    limits: Ball

    def demand(self, y: Floats) -> Floats:
        """The best point of each company's ball, as fractions of the capacities.

        There each step is worth its price plus 2ρ·(s − centre)/A². Bisection finds the ρ at which
        the ball just holds the point.
        """
        center, axes = self.limits.center / schema.TICKS, self.limits.axes / schema.TICKS
        sizes, values = self.companies.sizes, self.companies.values
        begins = np.cumsum(sizes, axis=2) - sizes
        above = (values - y[None, :, None]) * (axes * axes)[:, :, None]

        def outside(s: Floats) -> Floats:
            apart = np.where(axes > 0.0, (s - center) / np.maximum(axes, 1e-12), 0.0)
            size: Floats = np.sqrt((apart * apart).sum(axis=1))
            return size

        low, high = np.zeros(len(center)), np.full(len(center), 1e3 * float(y.max()))
        for _ in range(_HALVINGS):
            rho = 0.5 * (low + high)
            best = center[:, :, None] + above / np.maximum(rho, 1e-300)[:, None, None]
            s = np.clip(best - begins, 0.0, sizes).sum(axis=2)
            far = outside(s) > 1.0
            low, high = np.where(far, rho, low), np.where(far, high, rho)
        taken = self.companies.demand(y)
        return np.where((outside(taken) <= 1.0)[:, None], taken, s)


class Expected(Struct, frozen=True, kw_only=True):
    """The results of all sessions, compared with what the companies earn alone.

    The placebo uses quotas and payments from sessions of other companies. So what it gains comes
    from no company's data.
    """

    sessions: int
    #: Of the longest session.
    rounds: int
    #: The largest possible gain, as a fraction of what all companies earn alone.
    possible: float
    #: The gain of all companies together, as a fraction of what they earn alone.
    gain: float
    placebo_gain: float
    #: The fraction of companies that are better off than alone, after payment.
    better: float
    #: The fraction that is worse off by more than a ten-thousandth, and the largest such loss as a
    #: fraction of what the company earns alone.
    worse: float
    worst: float
    #: What all companies together earn alone in one session, in money.
    alone: float

    @property
    def kept(self) -> float:
        """The gain as a fraction of the possible gain."""
        return self.gain / self.possible if self.possible > 0.0 else 0.0

    @property
    def placebo_kept(self) -> float:
        return self.placebo_gain / self.possible if self.possible > 0.0 else 0.0


def expected(
    agreement: Agreement, *, sessions: int = SESSIONS, among: Agreement | None = None
) -> Expected | None:
    """Run sessions among invented companies. None if that exceeds a limit.

    `among` is another agreement, whose companies are to be used.
    """
    numbers = agreement.rounds * len(agreement.members) * agreement.width
    count = min(sessions, MOST_ROUNDS // agreement.rounds, MOST_NUMBERS // numbers)
    if agreement.pricing.step == "center":
        count = min(sessions, MOST_NUMBERS // numbers)  # it ends long before its last round
    if count < 2 or agreement.objective_limit is not None:
        return None
    markets = [Companies.drawn(among or agreement, number) for number in range(count)]
    answering = [
        InBalls(market, ball(agreement)) if agreement.ball else market for market in markets
    ]
    played = [play(agreement, market, number) for number, market in enumerate(answering)]
    splits = [split(outcome, demands) for outcome, demands in played]
    brought = endowment(agreement) / agreement.ticks
    alone = [market.earned(brought) for market in markets]
    total_alone = math.fsum(float(a.sum()) for a in alone)

    def results(shift: int) -> tuple[float, Floats]:
        """The gain, and what each company gains of what it has alone, by own or shifted splits."""
        gained, nets = 0.0, list[Floats]()
        for number, market in enumerate(markets):
            quota, payments = splits[(number + shift) % count]
            earned = market.earned(quota / agreement.ticks)
            gained += float((earned - alone[number]).sum())
            net = earned - payments - alone[number]
            nets.append(net / np.maximum(np.abs(alone[number]), 1e-300))
        return gained / total_alone, np.concatenate(nets)

    gain, nets = results(0)
    placebo_gain, _ = results(1)
    best = math.fsum(market.best for market in markets)
    return Expected(
        sessions=count,
        rounds=max(outcome.rounds for outcome, _ in played),
        possible=best / total_alone - 1.0,
        gain=gain,
        placebo_gain=placebo_gain,
        better=float((nets > 1e-9).mean()),
        worse=float((nets < -_NEGLIGIBLE).mean()),
        worst=max(0.0, -float(nets.min())),
        alone=total_alone / count,
    )


def without_noise(agreement: Agreement) -> Agreement:
    """The agreement in mode exact: equal capacities and members, the centre rule, no noise."""
    return replace(
        agreement,
        mode="exact",
        privacy=None,
        truncate=False,
        objective_limit=None,
        rounds=max(agreement.rounds, schema.DRAFT_ROUNDS),
        pricing=Pricing(
            step="center",
            tolerance=schema.TOLERANCE,
            reserve=schema.RESERVE,
            trade_limit=schema.TRADE_LIMIT,
            answer_gap=schema.ANSWER_GAP,
            start=agreement.pricing.start,
        ),
    )


def split(outcome: Outcome, demands: Ticks) -> tuple[Ticks, Floats]:
    """All quotas, in ticks, and payments. For invented companies, masks hide nothing."""
    if not outcome.agreement.masked:
        return outcome.quota, outcome.payments
    allocations = [
        member_allocation(outcome, row, demands=demands[:, row], unmasked=outcome.released[:, row])
        for row in range(len(outcome.agreement.members))
    ]
    quotas = np.array([own.quota for own in allocations])
    payments = np.array([own.payment for own in allocations])
    if outcome.agreement.ball:
        payments = levied(outcome.agreement, outcome.prices, payments)
    return quotas, payments


def play(agreement: Agreement, companies: Market, number: int) -> tuple[Outcome, Ticks]:
    """One session to its end: the outcome, and the demands without noise.

    The noise follows from the digest of the agreement and the number of the session.
    """
    engine, calibration = RoundEngine(agreement), Calibration(agreement)
    state, m = engine.opening, len(agreement.resources)
    demands = list[Ticks]()
    while not state.over:
        wanted = companies.demand(state.prices.current * quantities(agreement).capacity)
        values = np.minimum(np.rint(wanted * agreement.ticks).astype(np.int64), state.caps)
        if agreement.ball:
            values = _clipped(ball(agreement), values)
        demands.append(values)
        if agreement.privacy is not None:
            draw = number.to_bytes(4, "big") + state.round.to_bytes(4, "big")
            seed = agreement.digest + b"noise" + draw
            sigma = calibration.scales(state.caps, state.round)[:, :m]
            values = values + np.rint(sigma * _normal(seed, *values.shape)).astype(np.int64)
        if agreement.truncate:
            values = np.clip(values, floor_ticks(agreement), agreement.ticks)
        state = engine.advance(state, values)
    return outcome_of(agreement, state, sealed=True), np.array(demands)


def _clipped(limits: Ball, values: Ticks) -> Ticks:
    """The demands of all companies, clipped to their balls as gates clip them."""
    rows = zip(values.tolist(), limits.center.tolist(), limits.axes.tolist(), strict=True)
    return np.array([clip(*row) for row in rows], dtype=np.int64)


def _uniform(seed: bytes, *shape: int) -> Floats:
    """Uniform numbers between 0 and 1, from the seed alone."""
    raw = np.frombuffer(hashlib.shake_128(seed).digest(8 * math.prod(shape)), dtype="<u8")
    return ((raw >> 11).astype(np.float64) + 0.5).reshape(shape) * 2.0**-53


def _normal(seed: bytes, *shape: int) -> Floats:
    """Standard normal numbers from the seed alone (Box and Muller)."""
    first, second = _uniform(seed + b"1", *shape), _uniform(seed + b"2", *shape)
    drawn: Floats = np.sqrt(-2.0 * np.log(first)) * np.cos(2.0 * math.pi * second)
    return drawn


def _between(low: float, high: float, fraction: Floats) -> Floats:
    return low + (high - low) * fraction
