"""When messages of a session are sent again, as its agreement implies."""

from protocol.agreement.model import Agreement

RESEND_SECONDS = (0.1, 1.6)
"""The first wait without progress before re-sending, and the longest: it doubles in between."""


CROWD_SECONDS = 0.0005
"""And what is sent again, so much for each pair: all send it, and all hear it."""


def first_wait(agreement: Agreement) -> float:
    """How many seconds without progress pass before anything is sent again."""
    crowd = CROWD_SECONDS * len(agreement.members) ** 2
    return max(RESEND_SECONDS[0], min(crowd, agreement.transport.patience_seconds / 8.0))
