"""How long the releases of each round were apart when they came to this relay.

Who released first has waited for all others since. In lock step a member answers a round only when
it has all of the round before: so a round is complete here before the next one begins. What a
member says about another round than the present one moves nothing. Public arrivals only.
"""

from collections import Counter

from protocol.agreement import Agreement
from protocol.waits import Waits


class Waiting:
    """Follows the rounds of a relayed session by the newest release of each member."""

    def __init__(self, agreement: Agreement) -> None:
        self.waits = Waits(agreement)
        self._members = len(agreement.members)
        self._newest: dict[str, tuple[int, float]] = {}
        self._there: Counter[int] = Counter()
        self._complete = -1

    def hear(self, name: str, round: int, now: float) -> str:  # noqa: A002
        """A release has come. A sentence if its round is complete and took long, else nothing."""
        before = self._newest.get(name)
        if round <= self._complete or (before is not None and before[0] == round):
            return ""  # sent again
        if before is not None:
            self._there[before[0]] -= 1
            self._there += Counter()  # rounds at which nobody is any more
        self._newest[name] = round, now
        self._there[round] += 1
        if self._there[round] < self._members:
            return ""
        # Of a round that had begun before this relay was started nobody knows when.
        seen = round == self._complete + 1
        self._complete = round
        if seen:
            self.waits.begin(min(at for _, at in self._newest.values()))
            for member, (_, at) in self._newest.items():
                self.waits.arrived(member, at)
        return self.waits.closed(round)
