"""The last check of an agreement: that parties can compute with it.

Apart from `agreement.parse`, because a relay reads agreements and must not load numpy. Call it
before you call an agreement valid.
"""

from protocol.agreement.model import Agreement
from protocol.rounds import RoundEngine


def require_playable(agreement: Agreement) -> None:
    """Raise `BadAgreement` unless a party can compute the noise and the price steps.

    A party that joins builds the same `RoundEngine` first, so it would be refused in the same way.
    """
    RoundEngine(agreement)
