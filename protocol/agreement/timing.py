"""When a party sends messages again, as its agreement implies.

Nothing here reads a clock.
"""

from protocol.agreement.model import Agreement

RESEND_SECONDS = (0.1, 1.6)
"""The first and the longest wait without progress before re-sending. It doubles in between."""

CROWD_SECONDS = 0.0005
"""What the first wait grows by for each pair of members: all re-send, and all receive it."""


def first_wait(agreement: Agreement) -> float:
    """Seconds without progress before anything is sent again."""
    crowd = CROWD_SECONDS * len(agreement.members) ** 2
    return max(RESEND_SECONDS[0], min(crowd, agreement.transport.patience_seconds / 8.0))
