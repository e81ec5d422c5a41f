"""A member's own quota and payment, computed once from the demands in its ledger.

The gate commits to them, and the settlement uses them. Never here: a message.
"""

from party.ledger.session_ledger import Ledger
from protocol.errors import BadLedger
from protocol.outcome.member_allocation import member_allocation
from protocol.outcome.outcome import Outcome
from protocol.outcome.private_quota import Allocation


def own_allocation(outcome: Outcome, member: str, ledger: Ledger) -> Allocation | None:
    """A member's quota and payment if only totals are public, else None. Secret.

    Computed once, from the member's demands in the ledger. The ledger then destroys these.
    """
    if not outcome.agreement.masked:
        return None
    allocation = ledger.allocation()
    if allocation is None:
        asked, unmasked = ledger.demands()
        if len(asked) != outcome.rounds:
            raise BadLedger(
                f"the ledger holds own demands of {len(asked)} rounds, but {outcome.rounds} rounds "
                "are closed: it is damaged"
            )
        row = outcome.agreement.place(member)
        allocation = member_allocation(outcome, row, demands=asked, unmasked=unmasked)
        ledger.record_allocation(allocation)
    return allocation
