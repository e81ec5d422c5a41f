"""Verifies incoming messages, up to a limit for each member.

A message is charged to the member whose transport key its connection has proved, never to the
member that it claims to be from. So a member that floods uses up its own limit, and only that
member is named. Never here: a socket or a clock.
"""

from collections.abc import Callable

from msgspec import Struct

from protocol.agreement.model import Agreement
from protocol.errors import BadMessage
from protocol.runtime.backoff import Backoff
from protocol.wire.codec import Reader, peek_header
from protocol.wire.messages import Commitment, MaskKey, Release, Seal, Signed

PER_SECOND = (200.0, 50.0, 400.0)
"""Messages per second for each account. An honest member uses at most half of the first two: it
sends messages again, and one Hello in 0.05 s. Members that claim to lack messages can make it use
almost all of the third. With 14 members, two of them get the releases and seals of all others ten
times a second, and every member gets its own releases too."""

PER_ROUND = 4
"""Additional messages for each round that closes. No member can close a round alone."""

BURST = 100
"""Messages that are read at once after a silence, plus four for each member."""

INVALID_COST = 10
"""An invalid message counts as this many. An honest member sends none."""

COMMITMENT_COST = 10
"""A commitment that was not read before counts as this many, because its points take long to
check. An honest member makes one in a session; copies of it count once each."""

REPORT_SECONDS = (5.0, 600.0)
"""The shortest time between two reports about a member. It doubles each time, up to the second
figure."""


class _Account(Struct):
    """A token bucket: how many messages may still be read."""

    left: float
    per_second: float
    #: When it was last refilled, and how many rounds were closed then.
    refilled_at: float = float("-inf")
    rounds: int = 0


class _Member(Struct):
    """One member's accounts, and the count of its messages that were dropped.

    The first account is for its own mask key, releases, commitments and seals. The second is for
    its other messages. The third is for messages that claim another sender or none. So a member
    that forges messages of others can still take part.
    """

    key: bytes
    accounts: tuple[_Account, ...]
    invalid: int = 0
    excess: int = 0


class Admission:
    """The limits of all members, and the reader of their messages.

    `owner` is always the member whose connection brought the bytes. If it is no member, as for a
    party that receives from the relay, there is no limit. `say` reports a member whose connection
    sends invalid messages or too many: at once, and then rarely, with the counts.
    """

    def __init__(self, agreement: Agreement, say: Callable[[str], None]) -> None:
        self._say = say
        self._reports = Backoff(*REPORT_SECONDS)
        self._reader = Reader(agreement)
        self._burst = float(BURST + 4 * len(agreement.members))
        self._members = {
            m.name: _Member(
                m.signing_key,
                tuple(_Account(self._burst, per_second) for per_second in PER_SECOND),
            )
            for m in agreement.members
        }
        self._looked_at = float("inf")
        #: How long the caller was busy before it last looked for messages.
        self._busy_seconds = 0.0
        #: How many rounds are closed. The caller keeps it up to date.
        self.rounds = 0

    def looked(self, now: float, *, meant: float) -> None:
        """Note that the caller has looked for messages after waiting for up to `meant` seconds.

        If that took longer, the caller was busy or asleep. Then all messages of that time are
        read at once, and no member is blamed for it.
        """
        self._busy_seconds = max(0.0, now - self._looked_at - max(0.0, meant))
        self._looked_at = now

    def admits(self, owner: str, data: bytes, now: float) -> bool:
        """Return whether a member's limit allows this message; if not, drop it unread.

        This verifies no signature, so it is cheap.
        """
        member = self._members.get(owner)
        if member is None:
            return True
        account = self._account(member, data)
        if account.refilled_at < now or account.rounds < self.rounds:
            earned = account.per_second * (now - account.refilled_at)
            earned += PER_ROUND * (self.rounds - account.rounds)
            limit = self._burst + account.per_second * self._busy_seconds
            account.left = min(limit, account.left + earned)
            account.refilled_at, account.rounds = now, self.rounds
        if account.left < 1.0:
            member.excess += 1
            self._report(owner, member, now)
            return False
        account.left -= 1.0
        return True

    def read(self, owner: str, data: bytes, now: float) -> Signed:
        """Return the verified message in bytes that were admitted. Raises `BadMessage`."""
        known = self._reader.remembers(data)
        try:
            signed = self._reader.unpack(data)
        except BadMessage:
            self.invalid(owner, data, now)
            raise
        if isinstance(signed.message, Commitment) and not known and owner in self._members:
            self._account(self._members[owner], data).left -= COMMITMENT_COST - 1
        return signed

    def invalid(self, owner: str, data: bytes, now: float) -> None:
        """Charge a member for bytes that are no message of this session."""
        member = self._members.get(owner)
        if member is None:
            return
        self._account(member, data).left -= INVALID_COST - 1
        member.invalid += 1
        self._report(owner, member, now)

    def _account(self, member: _Member, data: bytes) -> _Account:
        header = peek_header(data)
        if header is None or header.key != member.key:
            return member.accounts[2]
        own = (Release, MaskKey, Commitment, Seal)
        return member.accounts[0 if header.kind in own else 1]

    def _report(self, owner: str, member: _Member, now: float) -> None:
        if not self._reports.due(owner, now):
            return
        counts = [
            f"{count} {'message' if count == 1 else 'messages'} {fault}"
            for count, fault in (
                (member.invalid, "not valid in this session"),
                (member.excess, "beyond its limit"),
            )
            if count
        ]
        self._say(f"{owner}: its connection sent {' and '.join(counts)}; dropped")
