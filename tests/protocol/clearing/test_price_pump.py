"""One member that lies in every round moves prices; a lie that costs others much shows later."""

import numpy as np
import pytest

from protocol.agreement.quantities import quantities
from protocol.errors import ImpossibleTotal
from scripts.lab.attack.pump import LIAR, NEVER, pumped
from scripts.lab.study.ball_cells import ROUNDS, Cell

CELL = Cell(10, 16.0)


def test_a_lie_beyond_what_all_can_ask_for_closes_no_round() -> None:
    """The first round ends the session for all, before any price has moved."""
    with pytest.raises(ImpossibleTotal, match="round 1:"):
        pumped(CELL, 2001, range(ROUNDS - 1), bounded=False)


@pytest.mark.parametrize("seed", [2001, 2002])
def test_prices_driven_up_to_the_end_show_at_settlement(seed: int) -> None:
    """Within the possible totals the last round cannot pay back what is lacking."""
    session = pumped(CELL, seed, range(ROUNDS - 1))
    agreement = session.outcome.agreement
    assert float((session.outcome.prices * quantities(agreement).capacity).max()) > 1000.0
    assert not session.fits
    assert session.flagged


@pytest.mark.parametrize("seed", [2001, 2002])
def test_a_lie_that_is_paid_back_leaves_a_levy_that_is_flagged(seed: int) -> None:
    """All sums fit, and members bear a large levy: report and settlement advise to ask why."""
    session = pumped(CELL, seed, range(20, 25))
    assert session.levy > 0.0
    assert session.flagged


@pytest.mark.parametrize("seed", [2001, 2002])
def test_a_smaller_lie_stays_below_the_mark_and_costs_the_liar_nothing(seed: int) -> None:
    """All sums fit and nothing is flagged, though the levy is far above that of honest answers."""
    session = pumped(Cell(20, 8.0, endowments="half"), seed, range(4))
    assert not session.flagged
    assert session.levy > 0.03 * np.nansum(session.fates.alone)
    assert session.fates.gain[LIAR] > 0.0


@pytest.mark.parametrize("seed", [2001, 2002])
def test_honest_sessions_are_not_flagged(seed: int) -> None:
    """Their levy is small. (Quotas may exceed a capacity, with the agreed risk.)"""
    assert not pumped(CELL, seed, NEVER).flagged
