"""Which totals of a round the members can have released together, if all did as agreed.

Masks hide single releases, so a member that lies can move a total. These limits say how far. They
follow from the agreement alone. Float64 truncated to 16 bits, so that every machine gets the same.
Never here: released numbers, private numbers.

Symbols: N ticks to a capacity, c centre and A half axis of a ball, T rounds.
"""

import math
from functools import cached_property

import numpy as np

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.numeric import Floats, Ticks, frozen, truncate_to_16_bits
from protocol.privacy.ball import ball
from protocol.privacy.calibration import Calibration

DEVIATIONS = 8.0
"""The noise of an honest total exceeds this many σ with a probability below 3·10⁻¹⁴."""


class PossibleTotals:
    """The limits of the total of each resource, in ticks.

    Guarantee: without noise every honest total lies within. With noise one lies outside with a
    probability below 3·10⁻¹⁴: the discrete Gaussian exceeds x·σ on either side with at most
    2·exp(−x²/2) (PRIVACY.md §11).
    """

    def __init__(self, agreement: Agreement) -> None:
        self._agreement = agreement

    def __call__(self, round: int) -> tuple[Ticks, Ticks]:  # noqa: A002
        """The lowest and the highest total of this round."""
        lowest, highest = self._answers
        noise = self._noise
        if self._agreement.ball:  # each round has noise for its part of the budget
            T = self._agreement.rounds
            noise = noise * math.sqrt(T * (T + 1) / (2.0 * (round + 1)))
        slack = np.ceil(DEVIATIONS * noise * self._agreement.ticks).astype(np.int64)
        return lowest - slack, highest + slack

    @cached_property
    def _answers(self) -> tuple[Ticks, Ticks]:
        """The sums of the smallest and of the largest answers of all members, without noise."""
        shares = quantities(self._agreement).share_ticks
        if not self._agreement.ball:
            most = shares.sum(axis=0)
            return frozen(np.zeros_like(most)), frozen(most)
        public = ball(self._agreement)
        lowest = np.maximum(public.center - public.axes, 0)
        highest = np.minimum(public.center + public.axes, np.maximum(shares, public.center))
        return frozen(lowest.sum(axis=0)), frozen(highest.sum(axis=0))

    @cached_property
    def _noise(self) -> Floats:
        """σ of a total as a fraction of the capacity: of a round, or of a ball's weighted mean."""
        if self._agreement.privacy is None:
            return frozen(np.zeros(len(self._agreement.resources)))
        if self._agreement.ball:
            return ball(self._agreement).noise
        return totals_noise(self._agreement)


def totals_noise(agreement: Agreement) -> Floats:
    """σ of the total of one round, as a fraction of each capacity. Not for the step `ball`."""
    sigma = Calibration(agreement).scales(quantities(agreement).share_ticks) / agreement.ticks
    columns = sigma[:, : len(agreement.resources)].T.tolist()
    sums = [math.sqrt(math.fsum(s * s for s in column)) for column in columns]
    return frozen(truncate_to_16_bits(np.array(sums)))
