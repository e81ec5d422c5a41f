"""The public course of a session: where all parties stand, and the hash chain between.

A `Position` lies between two rounds; `Course.advance` is the only way from one to the next,
for a live session, a simulation and an audit alike. Nothing private is ever in a position.
"""

import hashlib
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from protocol.agreement import Agreement
from protocol.arrays import Floats, Ticks
from protocol.caps import first_caps, next_caps
from protocol.center import Certificate
from protocol.messages import MaskKey, Release, Signed
from protocol.prices import PriceRule, Prices
from protocol.privacy import Calibration
from protocol.totals import Possible, session_id


@dataclass(frozen=True)
class Position:
    """Where the session stands before the releases of `round`.

    `unpaired`: first come the mask keys of all members, and then the releases. `over`: there is
    none, the session ends here, at the agreed number of rounds or because its rule says so.
    `released` and `variance` are sums, members by resources, of what was released in the
    `counted` rounds and of its noise (σ², in ticks): what the quota rests on where rounds have no
    weights. They have one row, for all members together, where releases are masked. `tail_sum`
    is that of the `tail_count` prices of the last half of the rounds.
    """

    head: bytes
    prices: Prices
    caps: Ticks
    counted: int
    released: Ticks
    variance: Floats
    tail_count: int
    tail_sum: Floats
    over: bool = False
    unpaired: bool = False
    best: tuple[float, Floats] | None = None

    @property
    def round(self) -> int:
        return self.prices.round

    @property
    def certificate(self) -> Certificate | None:
        """What the rounds so far prove, where they follow the centre rule."""
        return None if self.prices.center is None else self.prices.center.best

    @property
    def average_prices(self) -> Floats:
        """The mean of λ(t) over the last half of the rounds."""
        return self.tail_sum / self.tail_count if self.tail_count else self.prices.current


class Course:
    """Moves a session from position to position as its agreement says."""

    def __init__(self, agreement: Agreement) -> None:
        self.agreement = agreement
        self._rule = PriceRule(agreement)
        self._tail_from = agreement.rounds - (agreement.rounds + 1) // 2 + 1
        self._noise = Calibration(agreement)
        fixed = agreement.mode != "clipped"
        self._fixed_variance = self._variance(agreement.share_ticks) if fixed else None
        self._possible = Possible(agreement)
        self._rows = 1 if agreement.masked else len(agreement.members)

    @property
    def opening(self) -> Position:
        prices = self._rule.first
        m = len(self.agreement.resources)
        digest = hashlib.sha256(b"sotto head\n" + self.agreement.digest + _floats(prices.current))
        return Position(
            head=digest.digest(),
            prices=prices,
            caps=first_caps(self.agreement),
            counted=0,
            released=np.zeros((self._rows, m), dtype=np.int64),
            variance=np.zeros((self._rows, m)),
            tail_count=0,
            tail_sum=np.zeros(m),
            unpaired=self.agreement.masked,
        )

    def pair(self, position: Position, keys: Sequence[MaskKey]) -> Position:
        """Close the exchange of mask keys, in roster order. Only the head moves."""
        return replace(position, head=session_id(position.head, keys), unpaired=False)

    def advance(self, position: Position, values: Ticks) -> Position:
        """Close a round with the released numbers of all members, in roster order.

        Guarantee: the same position and values give the same next position, bit for bit,
        on every machine; its head commits to all that came before. Raises `ImpossibleTotal`
        where masked numbers add up to nothing that can be a total.
        """
        m = len(self.agreement.resources)
        demands = values[:, :m]
        totals = demands.sum(axis=0)  # of 64 bits that wrap, as masks do
        if self.agreement.masked:
            self._possible.require(totals, position.round)
            demands = totals[None, :]
        prices = self._rule.next(position.prices, totals)
        digest = hashlib.sha256(position.head)
        digest.update(struct.pack(">I", position.round))
        digest.update(values.astype(">i8").tobytes())
        digest.update(_floats(prices.current))
        late = prices.round >= self._tail_from
        tail = position.tail_sum + prices.current if late else position.tail_sum
        counted, released, variance = position.counted, position.released, position.variance
        # Without noise the early demands, at prices far from the last, could only mislead.
        if late or self.agreement.privacy is not None:
            counted, released = counted + 1, released + demands
            noise = self._fixed_variance
            variance = variance + (self._variance(position.caps) if noise is None else noise)
        return Position(
            head=digest.digest(),
            prices=prices,
            caps=next_caps(self.agreement, demands),
            counted=counted,
            released=released,
            variance=variance,
            tail_count=position.tail_count + late,
            tail_sum=tail,
            over=self._over(prices),
            best=self._better(position, values),
        )

    def _over(self, prices: Prices) -> bool:
        center, tolerance = prices.center, self.agreement.pricing.tolerance
        if center is None or center.best is None or tolerance is None:
            return prices.round >= self.agreement.rounds
        done = center.exact or center.best.within(tolerance)
        return done or prices.round >= self.agreement.rounds

    def _variance(self, caps: Ticks) -> Floats:
        sigma = self._noise.scales(caps)[:, : len(self.agreement.resources)]
        if self.agreement.masked:
            return np.array([[math.fsum(column) for column in (sigma * sigma).T]])
        return sigma * sigma

    def _better(self, position: Position, values: Ticks) -> tuple[float, Floats] | None:
        """The Remark after thm:convergence_tight: the best noisy dual value so far."""
        limit = self.agreement.objective_limit
        if limit is None:
            return None
        worth = math.fsum(position.prices.current * self.agreement.capacity)
        dual = worth + float(int(values[:, -1].sum())) * (limit / self.agreement.ticks)
        if position.best is not None and position.best[0] <= dual:
            return position.best
        return dual, position.prices.current


def _floats(values: Floats) -> bytes:
    return values.astype(">f8").tobytes()


def numbers(releases: tuple[Signed, ...]) -> Ticks:
    """The released numbers of one round, members by numbers."""
    rows = [r.message.values for r in releases if isinstance(r.message, Release)]
    return np.array(rows, dtype=np.int64)


def mask_keys(keys: tuple[Signed, ...]) -> list[MaskKey]:
    """The mask keys of all members, as they announced them."""
    return [k.message for k in keys if isinstance(k.message, MaskKey)]


def overrun(agreement: Agreement, values: Ticks) -> Floats:
    """How far the total of a round is above (below) each capacity, as a part of it.

    For the numbers of one round, or for any number of rounds along the leading axes.
    """
    totals = values[..., : len(agreement.resources)].sum(axis=-2)
    over: Floats = (totals - agreement.ticks) / agreement.ticks
    return over
