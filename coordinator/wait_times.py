"""How long the releases of each round were apart when they came to this relay.

Who released first has waited for all others since. In lock step a member answers a round only when
it has all of the round before: so a round is complete here before the next one begins. What a
member says about another round than the present one moves nothing. Public arrivals only.
"""

from protocol.agreement.model import Agreement
from protocol.runtime.wait_times import WaitTimes


class RelayWaits:
    """Follows the rounds of a relayed session by the releases that pass."""

    def __init__(self, agreement: Agreement) -> None:
        self.waits = WaitTimes(agreement)
        self._members = len(agreement.members)
        self._complete = -1
        self._there: dict[str, float] = {}
        self._ahead: dict[str, int] = {}

    def hear(self, name: str, round: int, now: float) -> str:  # noqa: A002
        """A release has come. A sentence if its round is complete and took long, else nothing."""
        if round <= self._complete:
            return ""  # sent again
        if round > self._complete + 1:
            self._catch_up(name, round)
            return ""
        self._there.setdefault(name, now)
        if len(self._there) < self._members:
            return ""
        self.waits.begin(min(self._there.values()))
        for member, at in self._there.items():
            self.waits.arrived(member, at)
        self._go_on(round)
        return self.waits.closed(round)

    def _catch_up(self, name: str, round: int) -> None:  # noqa: A002
        """Where all members are ahead together, this relay was started after their rounds began.

        It does not know when that round began, and begins with the next one.
        """
        self._ahead[name] = round
        if len(self._ahead) == self._members and set(self._ahead.values()) == {round}:
            self._go_on(round)

    def _go_on(self, round: int) -> None:  # noqa: A002
        self._complete = round
        self._there, self._ahead = {}, {}
