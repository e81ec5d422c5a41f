"""When a party must speak again, and when it has waited long enough.

Apart from the rules of the session, which ask and tell it the time: nothing here knows what
is said or to whom, and the clock is whoever runs the session.
"""

from protocol.agreement.model import Agreement
from protocol.agreement.timing import RESEND_SECONDS, first_wait

HELLO_SECONDS = 0.05
"""Answers to a burst of hellos are gathered for this long, then given in one."""


GREETING_SECONDS = 0.01
"""With many members hellos come slower, so much for each."""


LINGER_SECONDS = 5.0
"""How long a party that is done stays to answer peers that are not; with many members, as long
as it takes to hear four times from one."""


class Timers:
    """All the waits of one party."""

    def __init__(self, agreement: Agreement, now: float) -> None:
        crowd = GREETING_SECONDS * len(agreement.members)
        # Nobody is silent, and nothing lost, before a release can be there.
        pace = agreement.pace_seconds or 0.0
        patience, wait = agreement.transport.patience_seconds, first_wait(agreement)
        self._patience = patience + pace
        self._shortest_gather = self._gather_seconds = max(HELLO_SECONDS, crowd)
        self._hello_wait = max(RESEND_SECONDS[0], crowd) + pace
        self._round_wait = wait + pace
        self._longest_wait = max(RESEND_SECONDS[1], min(16.0 * wait, patience / 4.0)) + pace
        self._linger = max(LINGER_SECONDS, 4.0 * wait) + pace
        self._wait = self._hello_wait
        self.greeting = True
        self._progress_at = self._sent_at = self._hello_at = now
        self.answer_owed = False

    def deadline(self, *, lingering: bool) -> float:
        """None of the questions below has another answer before this time."""
        due = [self._resend_at, self._given_up_at(lingering)]
        if self.answer_owed:
            due.append(self._hello_at + self._gather_seconds)
        return min(due)

    def answer_due(self, now: float) -> bool:
        """Whether the hellos that came in have been gathered for long enough."""
        return self.answer_owed and now >= self._hello_at + self._gather_seconds

    def given_up(self, now: float, *, lingering: bool) -> bool:
        """Whether patience is at its end, or the time that a party stays when it is done."""
        return now >= self._given_up_at(lingering)

    def resend_due(self, now: float) -> bool:
        """Whether to send again; where it is so, the next wait is twice as long."""
        if now < self._resend_at:
            return False
        self._wait = min(2.0 * self._wait, self._longest_wait)
        self._sent_at = now
        return True

    def progressed(self, now: float) -> None:
        """Something new has come in: waiting begins anew, and short."""
        self._progress_at = now
        self._wait = self._first_wait

    def excused(self, now: float) -> None:
        """Nobody can be blamed for the silence so far."""
        self._progress_at = now

    def hurried(self) -> None:
        """Somebody needs to hear us: the next wait is short."""
        self._wait = self._first_wait

    def sent(self, now: float) -> None:
        self._sent_at = now

    def greeted(self, now: float, *, waiting: bool) -> None:
        """A hello went out, which answers all that came in.

        While somebody is awaited without whom nobody can go on, the next one has time.
        """
        answers, self.answer_owed = self.answer_owed, False
        self._hello_at = now
        if answers and waiting:
            self._gather_seconds = min(2.0 * self._gather_seconds, self._longest_wait)

    def all_here(self) -> None:
        """Everybody has been heard: from now on hellos are worth their while."""
        self._gather_seconds = self._shortest_gather
        self._wait = min(self._wait, self._first_wait)

    @property
    def _first_wait(self) -> float:
        return self._hello_wait if self.greeting else self._round_wait

    @property
    def _resend_at(self) -> float:
        return max(self._sent_at, self._progress_at) + self._wait

    def _given_up_at(self, lingering: bool) -> float:
        return self._progress_at + (self._linger if lingering else self._patience)
