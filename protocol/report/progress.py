"""How far a running session is: the certificate in money, and how many rounds are left.

Public numbers only, as every member has them. Amounts are rounded up, so that no line is better
than the truth. An estimate is called one. Never here: a clock.
"""

import math

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import net_prices, quantities
from protocol.rounds import RoundState


class SessionPath:
    """Follows a session round by round, and estimates how much of it is done."""

    def __init__(self, agreement: Agreement) -> None:
        self._agreement = agreement
        #: The first certificate that fits, as a fraction of all worth, and after which round.
        self._first: tuple[float, int] | None = None
        #: How much of the session is done, from 0 to 1: it never falls.
        self.done = 0.0
        #: About how many rounds are left; no more than the agreement allows.
        self.rounds_left = agreement.rounds

    def add(self, state: RoundState) -> None:
        """A round is closed, and led to this state."""
        rounds, tolerance = self._agreement.rounds, self._agreement.pricing.tolerance
        done = state.round / rounds
        fits = state.certificate is not None and state.certificate.fits
        part = part_of_worth(self._agreement, state) if fits else None
        if part is not None and part > 0.0 and tolerance:
            self._first = self._first or (part, state.round)
            begin, since = self._first
            # A certificate falls by about the same factor in every round.
            way = math.log(max(begin, 10.0 * tolerance) / tolerance)
            fallen = math.log(max(begin, 10.0 * tolerance) / max(part, tolerance)) / way
            speed = fallen / max(1, state.round - since)
            if speed > 0.0:
                left = (1.0 - fallen) / speed
                done = max(done, state.round / (state.round + left))
        self.done = 1.0 if state.over else min(max(self.done, done), 0.99)
        left = math.ceil(state.round * (1.0 - self.done) / self.done)
        self.rounds_left = 0 if state.over else max(1, min(left, rounds - state.round))


def part_of_worth(agreement: Agreement, state: RoundState) -> float | None:
    """The certificate as a fraction of all worth at its prices; None without either."""
    certificate = state.certificate
    if certificate is None:
        return None
    worth = math.fsum(net_prices(certificate.prices, quantities(agreement).opposites))
    return certificate.bound / worth if worth > 0.0 else None


def distance_text(agreement: Agreement, state: RoundState) -> str:
    """How far the outcome is from the best at most, in money; empty if nothing is certified."""
    certificate = state.certificate
    if certificate is None or not certificate.fits:
        return ""
    currency = f" {agreement.currency}" if agreement.currency else ""
    return f"at most {_rounded_up(certificate.bound)}{currency} from the best"


def _rounded_up(amount: float) -> str:
    """An amount in cents, or in whole units if it is large, never less than it is."""
    if amount >= 1_000.0:
        return f"{math.ceil(amount):,}"
    return f"{math.ceil(max(amount, 0.0) * 100.0) / 100.0:.2f}"
