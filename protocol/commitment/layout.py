"""Which numbers a member commits to, their sizes, and how many bytes they take.

A member commits to its quota of each resource in grains, and to its payment in grains of money.
Grains are coarse on purpose: an opened number carries few bits beyond what it is about. Nothing
here loads a library, so that a coordinator can read the lengths of messages.
"""

from protocol.agreement.model import Agreement

QUOTA_BITS = 25
"""A quota has fewer grains than 2 to the power of this."""

PAYMENT_BITS = 29
"""A payment plus `PAYMENT_OFFSET` has fewer grains of money than 2 to the power of this."""

PAYMENT_OFFSET = 1 << 28
"""Added to a payment before it is committed, because a payment may be negative."""

CAPACITY_GRAINS = 1 << 24
"""A capacity has at most this many grains."""

MONEY_GRAIN_UNITS = 1 << 12
"""Units of money in one grain. All capacities together are worth at most 2^28 grains."""

POINT_BYTES = SCALAR_BYTES = 32
_PROOF_POINTS = 4
_PROOF_SCALARS = 2  # in addition to one for each bit


def grain_ticks(agreement: Agreement) -> int:
    """Ticks in one grain of a quota."""
    return max(1, agreement.ticks // CAPACITY_GRAINS)


def widths(resources: int) -> tuple[int, ...]:
    """The bits of each committed number: one quota for each resource, then the payment."""
    return (QUOTA_BITS,) * resources + (PAYMENT_BITS,)


def proof_bytes(resources: int) -> int:
    """The length of a proof about the numbers of one member."""
    scalars = sum(widths(resources)) + _PROOF_SCALARS
    return POINT_BYTES * _PROOF_POINTS + SCALAR_BYTES * scalars
