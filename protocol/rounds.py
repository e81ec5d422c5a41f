"""The public course of a session: where all parties stand, and the hash chain between.

A `RoundState` lies between two rounds; `RoundEngine.advance` is the only way from one to the next,
for a live session, a simulation and an audit alike. Nothing private is ever in a position.
"""

import hashlib
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.errors import ImpossibleTotal
from protocol.numeric import Floats, Ticks
from protocol.pricing.center import Certificate
from protocol.pricing.rule import PriceRule, Prices
from protocol.privacy.calibration import Calibration
from protocol.privacy.sensitivity import first_caps, next_caps
from protocol.wire.messages import VALUE_LIMIT, MaskKey, Release, Signed


@dataclass(frozen=True)
class RoundState:
    """Where the session stands before the releases of `round`.

    `unpaired`: first come the mask keys of all members, and then the releases. `over`: there is
    none, the session ends here, at the agreed number of rounds or because its rule says so.
    `released` and `variance` are sums, members by resources, of what was released in the
    `counted` rounds and of its noise (σ², in ticks): what the quota rests on where rounds have no
    weights. They have one row, for all members together, where releases are masked. `tail_sum`
    is that of the `tail_count` prices of the last half of the rounds.
    """

    chain_hash: bytes
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


class RoundEngine:
    """Moves a session from position to position as its agreement says."""

    def __init__(self, agreement: Agreement) -> None:
        self.agreement = agreement
        self._rule = PriceRule(agreement)
        self._tail_from = agreement.rounds - (agreement.rounds + 1) // 2 + 1
        self._noise = Calibration(agreement)
        fixed = agreement.mode != "clipped"
        self._fixed_variance = self._variance(quantities(agreement).share_ticks) if fixed else None
        self._possible = TotalBounds(agreement)
        self._rows = 1 if agreement.masked else len(agreement.members)

    @property
    def opening(self) -> RoundState:
        prices = self._rule.first
        m = len(self.agreement.resources)
        digest = hashlib.sha256(b"sotto head\n" + self.agreement.digest + _floats(prices.current))
        return RoundState(
            chain_hash=digest.digest(),
            prices=prices,
            caps=first_caps(self.agreement),
            counted=0,
            released=np.zeros((self._rows, m), dtype=np.int64),
            variance=np.zeros((self._rows, m)),
            tail_count=0,
            tail_sum=np.zeros(m),
            unpaired=self.agreement.masked,
        )

    def pair(self, state: RoundState, keys: Sequence[MaskKey]) -> RoundState:
        """Close the exchange of mask keys, in roster order. Only the head moves."""
        return replace(state, chain_hash=session_id(state.chain_hash, keys), unpaired=False)

    def advance(self, state: RoundState, values: Ticks) -> RoundState:
        """Close a round with the released numbers of all members, in roster order.

        Guarantee: the same position and values give the same next position, bit for bit,
        on every machine; its head commits to all that came before. Raises `ImpossibleTotal`
        where masked numbers add up to nothing that can be a total.
        """
        m = len(self.agreement.resources)
        demands = values[:, :m]
        totals = demands.sum(axis=0)  # of 64 bits that wrap, as masks do
        if self.agreement.masked:
            self._possible.require(totals, state.round)
            demands = totals[None, :]
        prices = self._rule.next(state.prices, totals)
        digest = hashlib.sha256(state.chain_hash)
        digest.update(struct.pack(">I", state.round))
        digest.update(values.astype(">i8").tobytes())
        digest.update(_floats(prices.current))
        late = prices.round >= self._tail_from
        tail = state.tail_sum + prices.current if late else state.tail_sum
        counted, released, variance = state.counted, state.released, state.variance
        # Without noise the early demands, at prices far from the last, could only mislead.
        if late or self.agreement.privacy is not None:
            counted, released = counted + 1, released + demands
            noise = self._fixed_variance
            variance = variance + (self._variance(state.caps) if noise is None else noise)
        return RoundState(
            chain_hash=digest.digest(),
            prices=prices,
            caps=next_caps(self.agreement, demands),
            counted=counted,
            released=released,
            variance=variance,
            tail_count=state.tail_count + late,
            tail_sum=tail,
            over=self._over(prices),
            best=self._better(state, values),
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

    def _better(self, state: RoundState, values: Ticks) -> tuple[float, Floats] | None:
        """The Remark after thm:convergence_tight: the best noisy dual value so far."""
        limit = self.agreement.objective_limit
        if limit is None:
            return None
        worth = math.fsum(state.prices.current * quantities(self.agreement).capacity)
        dual = worth + float(int(values[:, -1].sum())) * (limit / self.agreement.ticks)
        if state.best is not None and state.best[0] <= dual:
            return state.best
        return dual, state.prices.current


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


def session_id(chain_hash: bytes, keys: Sequence[MaskKey]) -> bytes:
    """The chain hash after the exchange of mask keys, which are in roster order.

    `head` is the hash before it, which covers the agreement and the first prices. All later hashes
    and all masks depend on the session id. So parties that hold different keys, or different
    proofs, find out in the first round.
    """
    said = b"".join(k.key + k.proof for k in keys)
    return hashlib.sha256(b"sotto session 2\n" + chain_hash + said).digest()


class TotalBounds:
    """What the members of an agreement can say together, in ticks of each resource."""

    def __init__(self, agreement: Agreement) -> None:
        self._members = len(agreement.members)
        self._least, self._most = _range(agreement)

    def require(self, totals: Ticks, round: int) -> None:  # noqa: A002
        """Refuse totals that so many members cannot have said together.

        Where masks do not cancel, a total is any of 2^64 numbers, all alike; hardly any passes
        here. Nobody can be named for it: that is what masks are for.
        """
        said = zip(totals.tolist(), self._least, self._most, strict=True)
        if not all(low <= total <= high for total, low, high in said):
            raise ImpossibleTotal(
                f"the releases of round {round} add up to what {self._members} members "
                "cannot have said: at least one was not masked as agreed, and nobody can tell "
                "which. The round is not closed"
            )


def _range(agreement: Agreement) -> tuple[list[int], list[int]]:
    """The least and the largest total of each resource."""
    if agreement.privacy is None:
        most = quantities(agreement).share_ticks.sum(axis=0).tolist()
        return [0] * len(most), most
    limit = len(agreement.members) * VALUE_LIMIT
    return [-limit] * len(agreement.resources), [limit] * len(agreement.resources)
