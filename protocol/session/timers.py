"""When a party must send again, and when it has waited long enough.

The session reports what happened and asks what is due. Never here: the content of a message,
its receiver, or a clock. The driver brings the time.
"""

from protocol.agreement.model import Agreement
from protocol.agreement.schema import WAIT_SECONDS
from protocol.agreement.timing import RESEND_SECONDS, first_wait
from protocol.session.handshake import Arrival
from protocol.session.phases import Phase

HELLO_SECONDS = 0.05
"""Replies to a burst of Hellos are collected for this long, then sent as one."""

HELLO_SECONDS_PER_MEMBER = 0.01
"""With many members Hellos come more slowly: by this much for each."""

LINGER_SECONDS = 5.0
"""How long a party that is done stays to help peers that are not. With many members, long enough
to receive four messages from one."""


class Timers:
    """All the waits of one party."""

    def __init__(self, agreement: Agreement, now: float, wait: float = WAIT_SECONDS) -> None:
        crowd = HELLO_SECONDS_PER_MEMBER * len(agreement.members)
        # A release arrives no earlier than its pace, so every wait is longer by that.
        pace = agreement.pace_seconds or 0.0
        patience, pause = agreement.transport.patience_seconds, first_wait(agreement)
        #: How long this party waits for a silent peer.
        self._patience = patience + pace
        #: Since when and until when it waits for people: to be here, and for the first round.
        self._gathers = now, now + wait + pace
        #: How long an ended party stays.
        self._linger = max(LINGER_SECONDS, 4.0 * pause) + pace
        #: How long requests for a reply are collected: at least, and at present.
        self._shortest_collection = self._collection = max(HELLO_SECONDS, crowd)
        #: The first wait before a resend: in the handshake, and afterwards.
        self._hello_wait = max(RESEND_SECONDS[0], crowd) + pace
        self._round_wait = pause + pace
        #: Waits double up to this.
        self._longest_wait = max(RESEND_SECONDS[1], min(16.0 * pause, patience / 4.0)) + pace
        #: The present wait before a resend.
        self._wait = self._hello_wait
        #: What waits must know of the phase of the session.
        self._phase = Phase.HANDSHAKE
        #: Whether this party waits for people.
        self._gathering = True
        #: When anything new came in, was sent, and when our last Hello left.
        self._progress_at = self._sent_at = self._hello_at = now
        #: Whether a peer waits for a reply to its Hello.
        self.reply_owed = False

    def enter(self, phase: Phase, *, gathering: bool) -> None:
        """The session is in this phase; `gathering` if it waits for people.

        The wait for people has its own limit. Patience is for silence in a session that runs.
        """
        self._phase, self._gathering = phase, gathering

    # What is due

    @property
    def deadline(self) -> float:
        """The questions below keep their answers until this time."""
        due = [self._resend_at, self._expires_at]
        if self.reply_owed:
            due.append(self._hello_at + self._collection)
        return min(due)

    def reply_due(self, now: float) -> bool:
        """Whether requests for a reply have been collected for long enough."""
        return self.reply_owed and now >= self._hello_at + self._collection

    def expired(self, now: float) -> bool:
        """Whether the wait or patience has run out, or the time that an ended party stays."""
        return now >= self._expires_at

    def seconds_waited(self, now: float) -> float:
        """How long this party has waited for the others by now: for people, or for messages."""
        return now - (self._gathers[0] if self._gathering else self._progress_at)

    def resend_due(self, now: float) -> bool:
        """Whether to send again. If so, the next wait is twice as long."""
        if now < self._resend_at:
            return False
        self._wait = min(2.0 * self._wait, self._longest_wait)
        self._sent_at = now
        return True

    # What happened

    def progressed(self, now: float) -> None:
        """Something new came in: patience and backoff begin again."""
        self.reset_patience(now)
        self.reset_backoff()

    def reset_patience(self, now: float) -> None:
        """No peer is to blame for the silence so far."""
        self._progress_at = now

    def reset_backoff(self) -> None:
        """A peer needs our messages: the next wait is short."""
        self._wait = self._first_wait

    def sent(self, now: float) -> None:
        self._sent_at = now

    def hello_received(self, now: float, arrival: Arrival, *, all_met: bool) -> None:
        if arrival.first and self._phase is Phase.HANDSHAKE:
            self.reset_patience(now)
        self.reply_owed = self.reply_owed or arrival.needs_reply
        if arrival.new_nonce and all_met:
            # All peers run, so replies are worth their cost again.
            self._collection = self._shortest_collection
            self._wait = min(self._wait, self._first_wait)
            if arrival.first:  # with the nonce of the last peer our Hello answers all: no delay
                self._hello_at = now - self._collection

    def answered(self, now: float, *, all_met: bool) -> None:
        """A peer has answered. Until all are met the session cannot go on: no need to hurry."""
        self.reset_patience(now)
        if all_met:
            self.reset_backoff()

    def hello_sent(self, now: float, *, waiting: bool) -> None:
        """A Hello left, which replies to all requests.

        While a peer is missing, without which the session cannot go on, the next reply waits.
        """
        replied, self.reply_owed = self.reply_owed, False
        self._hello_at = now
        if replied and waiting:
            self._collection = min(2.0 * self._collection, self._longest_wait)

    @property
    def _first_wait(self) -> float:
        return self._hello_wait if self._phase is Phase.HANDSHAKE else self._round_wait

    @property
    def _resend_at(self) -> float:
        return max(self._sent_at, self._progress_at) + self._wait

    @property
    def _expires_at(self) -> float:
        if self._phase in (Phase.FINISHED, Phase.HALTED):
            return self._progress_at + self._linger
        if self._gathering and self._phase is not Phase.RESPONDING:
            began, until = self._gathers
            # A member that comes at the last moment gets some time, but no longer than the wait
            # was.
            return max(until, self._progress_at + min(self._patience, until - began))
        return self._progress_at + self._patience
