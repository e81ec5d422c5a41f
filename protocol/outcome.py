"""What a session came to: everything that follows from the agreement and what was released.

Public, and the same at every member and every auditor, bit for bit. Settlement, pages, files
and commands all ask one `Outcome`, and none of them computes any of it anew. No private
number may ever come here.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from protocol import quota as quotas
from protocol.agreement import TICKS, Agreement
from protocol.arrays import Floats, Ticks
from protocol.course import Position, numbers, overrun
from protocol.transcript import Transcript, positions


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """Where a session stands after `position.round` rounds, and how it came there.

    `released` holds rounds by members by numbers, `prices` λ(0) and those after each round.
    Binding only where it is `sealed`: else the session was still going on.
    """

    agreement: Agreement
    position: Position
    released: Ticks
    prices: Floats
    sealed: bool

    @property
    def rounds(self) -> int:
        """How many rounds were closed, which may be fewer than were agreed."""
        return self.position.round

    @property
    def final_prices(self) -> Floats:
        return self.position.final_prices

    @property
    def average_prices(self) -> Floats:
        return self.position.average_prices

    @cached_property
    def overrun(self) -> Floats:
        """Rounds by resources: how far the total was above the capacity, as a part of it."""
        return overrun(self.agreement, self.released)

    @cached_property
    def average(self) -> tuple[Floats, Floats]:
        """What each member released on average, and the noise (σ) left in that, in ticks."""
        return quotas.average(self.position)

    @cached_property
    def quota(self) -> Ticks:
        """Members by resources: what each may use, in ticks that fill each capacity exactly."""
        return quotas.quota(self.agreement, *self.average)

    @cached_property
    def prorata(self) -> Ticks:
        """The same for the split that listens to nobody."""
        return quotas.prorata(self.agreement)


def outcome(agreement: Agreement, transcript: Transcript) -> Outcome:
    """Verify and recompute a session. Raises `BadTranscript` where the transcript does not fit."""
    prices = []
    for position in positions(agreement, transcript):
        prices.append(position.prices.current)  # not the whole position: there may be very many
    released = np.array([numbers(r) for r in transcript.rounds], dtype=np.int64)
    return Outcome(
        agreement=agreement,
        position=position,
        released=released.reshape(-1, len(agreement.members), agreement.width),
        prices=np.array(prices),
        sealed=len(transcript.seals) == len(agreement.members),
    )


def amounts(agreement: Agreement, ticks: Ticks) -> Floats:
    """Ticks of each resource in its own unit, never rounded up.

    Guarantee: amounts of ticks that add up to a capacity do not add up to more than it.
    """

    def rounded_down(ticks: int, capacity: float) -> float:
        amount = ticks * capacity / TICKS
        exact = Fraction(capacity) * ticks / TICKS
        return amount if Fraction(amount) <= exact else math.nextafter(amount, 0.0)

    pairs = zip(ticks.tolist(), agreement.capacity.tolist(), strict=True)
    return np.array([rounded_down(*pair) for pair in pairs])
