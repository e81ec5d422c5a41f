"""One member's quota and payment from an outcome in which only totals are public.

Never here: anything that goes into a message. What is computed here stays with the member.
"""

from protocol.numeric import Ticks
from protocol.outcome.ball_quota import ball_allocation
from protocol.outcome.outcome import Outcome
from protocol.outcome.private_quota import Allocation, allocate


def member_allocation(outcome: Outcome, row: int, *, demands: Ticks, unmasked: Ticks) -> Allocation:
    """The allocation of the member in this row, from its demands and its releases without masks."""
    agreement = outcome.agreement
    if agreement.ball:
        return ball_allocation(
            agreement,
            outcome.rule,
            row,
            demands=demands,
            path=outcome.path,
            prices=outcome.prices,
        )
    return allocate(
        agreement,
        outcome.rule,
        row,
        demands=demands,
        unmasked=unmasked,
        totals=outcome.totals,
        prices=outcome.prices,
    )
