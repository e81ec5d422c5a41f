"""What a session might bring, played with companies that are invented from public numbers alone.

The rounds are real: the agreed prices, noise of the agreed size, quotas and payments. What the
companies earn is drawn from the digest of the agreement: whoever holds the agreement gets the
same figures, and nobody can choose them. Nothing private may ever come here, and what is played
here must never be sent.

Symbols: y = λ·c money for a whole capacity, K companies, m resources, n steps of each demand.
"""

import hashlib
import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from protocol.agreement.model import Agreement, Pricing
from protocol.agreement.quantities import quantities
from protocol.agreement.schema import RESERVE, TOLERANCE
from protocol.numeric import Floats, Ticks
from protocol.outcome.outcome import Outcome
from protocol.outcome.payments import endowment
from protocol.outcome.private_quota import allocate
from protocol.privacy.calibration import Calibration
from protocol.privacy.sensitivity import floor_ticks
from protocol.rounds import RoundEngine

SESSIONS = 20
"""How many are played, where that is not too many rounds."""

MOST_ROUNDS = 6_000
"""Rounds that are played in all of them together."""

MOST_NUMBERS = 20_000_000
"""Numbers that the companies of all of them release together."""

_STEPS = 12  # of each company's demand for each resource
_APPETITE = (1.0, 3.0)  # what a company would take for nothing, over its part by shares
_KEENNESS = 2.0  # how much more one company may have from a unit than another, or less
_SPREAD = (0.4, 1.6)  # what a step of a demand is worth, over that company's mean


@dataclass(frozen=True)
class Companies:
    """What invented companies earn: steps of their demand, in parts of each capacity.

    `parts` and `values` are companies by resources by steps; a value is money for a whole
    capacity, and those of a demand fall. No demand is above the share of its company.
    """

    parts: Floats
    values: Floats

    @classmethod
    def drawn(cls, agreement: Agreement, number: int) -> "Companies":
        """The companies of one session, the same for all who hold this agreement."""
        terms = quantities(agreement)
        K, m = terms.share.shape
        seed = agreement.digest + b"companies" + number.to_bytes(4, "big")
        worth = np.ones(m) if terms.worth is None else terms.worth
        prorata = terms.share / terms.share.sum(axis=0)
        appetite = _between(*_APPETITE, _uniform(seed + b"a", K, m)) * prorata
        cuts = np.sort(_uniform(seed + b"b", K, m, _STEPS - 1), axis=2)
        edges = np.concatenate([np.zeros((K, m, 1)), cuts, np.ones((K, m, 1))], axis=2)
        keen = _KEENNESS ** _between(-1.0, 1.0, _uniform(seed + b"c", K, m, 1))
        step = np.sort(_between(*_SPREAD, _uniform(seed + b"d", K, m, _STEPS)), axis=2)[:, :, ::-1]
        return cls(
            parts=np.diff(edges, axis=2) * np.minimum(appetite, terms.share)[:, :, None],
            values=worth[None, :, None] * keen * step,
        )

    def demand(self, y: Floats) -> Floats:
        """What each would take at these prices, in parts of the capacities."""
        wanted = self.values > y[None, :, None]
        taken: Floats = np.where(wanted, self.parts, 0.0).sum(axis=2)
        return taken

    def earned(self, limit: Floats) -> Floats:
        """What each earns at most with so much of each capacity."""
        begins = np.cumsum(self.parts, axis=2) - self.parts
        used = np.clip(limit[:, :, None] - begins, 0.0, self.parts)
        total: Floats = (used * self.values).sum(axis=(1, 2))
        return total

    @cached_property
    def best(self) -> float:
        """What all earn together at most, with everything on one table."""
        K, m, n = self.parts.shape
        parts, values = (a.transpose(1, 0, 2).reshape(m, K * n) for a in (self.parts, self.values))
        order = np.argsort(-values, axis=1, kind="stable")
        parts, values = (np.take_along_axis(a, order, axis=1) for a in (parts, values))
        begins = np.cumsum(parts, axis=1) - parts
        return float((np.clip(1.0 - begins, 0.0, parts) * values).sum())


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What sessions came to on average, over what the companies earn alone.

    `gain` is what all earn together above that, as a part of it, `possible` the most that it
    could be, `kept` the part of the possible gain, `better` the part of all companies that are
    better off than alone after payment. Those of the `placebo` are of sessions that were played
    by other companies: whatever they show comes from no company's data.
    """

    sessions: int
    rounds: int
    possible: float
    gain: float
    placebo_gain: float
    better: float
    placebo_better: float

    @property
    def kept(self) -> float:
        return self.gain / self.possible if self.possible > 0.0 else 0.0

    @property
    def placebo_kept(self) -> float:
        return self.placebo_gain / self.possible if self.possible > 0.0 else 0.0


def expected(
    agreement: Agreement, *, sessions: int = SESSIONS, among: Agreement | None = None
) -> Expected | None:
    """Rehearse. None where that would be too many rounds or numbers.

    The companies are those of the agreement, or of another one that it is compared with.
    """
    numbers = agreement.rounds * len(agreement.members) * agreement.width
    count = min(sessions, MOST_ROUNDS // agreement.rounds, MOST_NUMBERS // numbers)
    if agreement.pricing.step == "center":
        count = min(sessions, MOST_NUMBERS // numbers)  # it ends long before its last round
    if count < 2 or agreement.objective_limit is not None:
        return None
    tables = [Companies.drawn(among or agreement, number) for number in range(count)]
    known = [_played(agreement, table, number) for number, table in enumerate(tables)]
    splits = [_split(session, asked) for session, asked in known]
    brought = endowment(agreement) / agreement.ticks
    alone = [table.earned(brought) for table in tables]
    whole = math.fsum(float(a.sum()) for a in alone)

    def after(shift: int) -> tuple[float, float]:
        """The gain of all and the part that is better off, by sessions of these or of others."""
        gained, better = 0.0, 0
        for number, table in enumerate(tables):
            quota, payments = splits[(number + shift) % count]
            earned = table.earned(quota / agreement.ticks)
            gained += float((earned - alone[number]).sum())
            net = earned - payments - alone[number]
            better += int((net > 1e-9 * np.abs(alone[number])).sum())
        return gained / whole, better / (count * len(agreement.members))

    gain, better_off = after(0)
    placebo_gain, placebo_better = after(1)
    best = math.fsum(table.best for table in tables)
    return Expected(
        sessions=count,
        rounds=max(session.rounds for session, _ in known),
        possible=best / whole - 1.0,
        gain=gain,
        placebo_gain=placebo_gain,
        better=better_off,
        placebo_better=placebo_better,
    )


def without_noise(agreement: Agreement) -> Agreement:
    """The same capacities and companies in a session that is exact and hides nothing."""
    return replace(
        agreement,
        mode="exact",
        privacy=None,
        truncate=False,
        objective_limit=None,
        rounds=max(agreement.rounds, 150),
        pricing=Pricing(
            step="center", tolerance=TOLERANCE, reserve=RESERVE, start=agreement.pricing.start
        ),
    )


def _split(known: Outcome, asked: Ticks) -> tuple[Ticks, Floats]:
    """Everybody's quota, in ticks, and payment, which here may be known of all."""
    if not known.agreement.masked:
        return known.quota, known.payments
    parts = [
        allocate(
            known.agreement,
            known.rule,
            row,
            demands=asked[:, row],
            unmasked=known.released[:, row],
            totals=known.totals,
            prices=known.prices,
        )
        for row in range(len(known.agreement.members))
    ]
    return np.array([p.quota for p in parts]), np.array([p.payment for p in parts])


def _played(agreement: Agreement, companies: Companies, number: int) -> tuple[Outcome, Ticks]:
    """One session among these companies, to its end, and what they asked for without noise."""
    engine, noise, m = RoundEngine(agreement), Calibration(agreement), len(agreement.resources)
    state = engine.opening
    path, released, meant = [state.prices.current], list[Ticks](), list[Ticks]()
    while not state.over:
        wanted = companies.demand(state.prices.current * quantities(agreement).capacity)
        asked = np.minimum(np.rint(wanted * agreement.ticks).astype(np.int64), state.caps)
        meant.append(asked)
        if agreement.privacy is not None:
            seed = agreement.digest + b"noise" + _numbered(number, state.round)
            sigma = noise.scales(state.caps)[:, :m]
            asked = asked + np.rint(sigma * _normal(seed, *asked.shape)).astype(np.int64)
        if agreement.truncate:
            asked = np.clip(asked, floor_ticks(agreement), agreement.ticks)
        state = engine.advance(state, asked)
        path.append(state.prices.current)
        released.append(asked)
    known = Outcome(
        agreement=agreement,
        state=state,
        released=np.array(released),
        path=np.array(path),
        sealed=True,
    )
    return known, np.array(meant)


def _numbered(number: int, round: int) -> bytes:  # noqa: A002
    """The place of some draws: in which session, and in which round of it."""
    return number.to_bytes(4, "big") + round.to_bytes(4, "big")


def _uniform(seed: bytes, *shape: int) -> Floats:
    """Numbers above 0 and below 1 that follow from the seed alone."""
    raw = np.frombuffer(hashlib.shake_128(seed).digest(8 * math.prod(shape)), dtype="<u8")
    return ((raw >> 11).astype(np.float64) + 0.5).reshape(shape) * 2.0**-53


def _normal(seed: bytes, *shape: int) -> Floats:
    """The same from the standard normal distribution (Box and Muller)."""
    first, second = _uniform(seed + b"1", *shape), _uniform(seed + b"2", *shape)
    drawn: Floats = np.sqrt(-2.0 * np.log(first)) * np.cos(2.0 * math.pi * second)
    return drawn


def _between(low: float, high: float, part: Floats) -> Floats:
    return low + (high - low) * part
