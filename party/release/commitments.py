"""The commitments of one party: its quota and payment, bound before anyone seals.

Made once, from the own allocation and the pair secrets of the masks, and durable before they are
sent. Never here: a number in a log or an error. Their openings stay in the ledger.
"""

import hashlib
from collections.abc import Callable
from fractions import Fraction

from party.ledger.secret_records import Opening
from party.ledger.session_ledger import Ledger
from party.release.allocation import own_allocation
from party.release.masks import Masks
from protocol.agreement.model import Agreement
from protocol.commitment.exchange import statement
from protocol.commitment.group import commit
from protocol.commitment.layout import MONEY_GRAIN_UNITS, PAYMENT_OFFSET, grain_ticks, widths
from protocol.commitment.range_proof import prove
from protocol.errors import InternalError
from protocol.outcome.outcome import Outcome, outcome_of
from protocol.outcome.payments import unit_of_money
from protocol.outcome.private_quota import Allocation
from protocol.rounds import RoundState
from protocol.wire.messages import Commitment, Message, Signed


def committed_numbers(result: Outcome, allocation: Allocation) -> tuple[int, ...]:
    """The quota of each resource in grains, rounded down, then the payment with its offset.

    Each is within the bits of its proof. Numbers that follow from honest releases always are. A
    false release can make others larger. They are cut here, and then do not add up.
    """
    agreement = result.agreement
    grain = grain_ticks(agreement)
    unit = Fraction(unit_of_money(result.prices, agreement))
    payment = round(Fraction(allocation.payment) / unit / MONEY_GRAIN_UNITS) + PAYMENT_OFFSET
    quotas = (ticks // grain for ticks in allocation.committed_ticks.tolist())
    sizes = widths(len(agreement.resources))
    rows = zip((*quotas, payment), sizes, strict=True)
    return tuple(min(max(number, 0), (1 << width) - 1) for number, width in rows)


def commitment(
    agreement: Agreement,
    member: str,
    ledger: Ledger,
    masks: Masks,
    pack: Callable[[Message], Signed],
    state: RoundState,
) -> Signed:
    """The signed commitments: recorded, or new.

    Guarantee: when this returns, they and their openings survive a crash, and the session
    cannot get others. The same ledger always gives the same bytes.
    """
    recorded = ledger.commitment()
    if recorded is not None:
        return recorded
    result = outcome_of(agreement, state, sealed=False)
    allocation = own_allocation(result, member, ledger)
    if allocation is None or not state.uncommitted:
        raise InternalError("the session asked for commitments before its rounds were closed")
    numbers = committed_numbers(result, allocation)
    blindings = masks.blindings(state, len(numbers))
    points = tuple(map(commit, numbers, blindings))
    claim = statement(agreement, state.chain_hash, agreement.place(member), points)
    proof = prove(claim, numbers, blindings, masks.proof_secret(state)).data
    signed = pack(
        Commitment(
            sender=member,
            agreement=agreement.digest,
            round=state.round,
            chain_hash=state.chain_hash,
            points=points,
            proof_hash=hashlib.sha256(proof).digest(),
            proof=proof,
        )
    )
    ledger.record_opening(Opening(numbers, blindings), signed)
    return signed
