"""Verifies what each member's connections bring in, within a limit for each member.

A message is charged to the member whose transport key its connection has proved, never to the
member that the message claims to be from. So a member that floods uses up its own limit, and it
is named for what it did. Nothing here reads a socket or a clock.
"""

from collections.abc import Callable
from dataclasses import dataclass

from protocol.agreement.model import Agreement
from protocol.errors import BadMessage
from protocol.runtime.backoff import Backoff
from protocol.wire.codec import Reader, peek_header
from protocol.wire.messages import MaskKey, Release, Seal, Signed

PER_SECOND = (200.0, 50.0, 400.0)
"""Messages of each account that are read in a second. Of the first two an honest member sends at
most about half: what it sends again, and one Hello in 0.05 s. Of the third it can be made to send
almost all, by members that claim to lack what others said: with 14 members two of them get the
releases and seals of all others ten times a second, and all of them their own releases too."""

PER_ROUND = 4
"""Messages that are read in addition for each round that closes, which takes all members."""

BURST = 100
"""Messages that are read at once after a silence; four for each member are added."""

INVALID_COST = 10
"""An invalid message is charged like this many: an honest member sends none."""

TELL_SECONDS = (5.0, 600.0)
"""A member that was named is named again after this time at the earliest: it doubles each time, up
to the second figure."""


@dataclass
class _Account:
    """How many messages may still be read."""

    left: float
    per_second: float
    at: float = float("-inf")
    rounds: int = 0


@dataclass
class _Member:
    """One member's accounts, and what its connections have brought that was dropped.

    There is an account for its own part in the rounds, one for whatever else it signs, and one
    for the rest: what it passes on for others, and what claims nothing. So a member that forges
    messages of others can still play.
    """

    key: bytes
    accounts: tuple[_Account, ...]
    invalid: int = 0
    excess: int = 0


class Admission:
    """The limits of all members, and one reader for what is within them.

    `owner` is everywhere the member whose connection brought the bytes. Where it is none, as with
    a party that hears the relay, there is no limit. `say` is told which member's connection sends
    invalid messages, or more than its limit: at once, and then now and then with the counts.
    """

    def __init__(self, agreement: Agreement, say: Callable[[str], None]) -> None:
        self._say = say
        self._seldom = Backoff(*TELL_SECONDS)
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
        self._away = 0.0
        self.rounds = 0
        """Rounds that are closed, as far as the caller knows."""

    def looked(self, now: float, *, meant: float) -> None:
        """The caller has looked for messages, and meant to wait for them for at most this long.

        If that took longer the caller was busy or asleep. What came in meanwhile is read at one
        time, and no member is blamed for it.
        """
        self._away = max(0.0, now - self._looked_at - max(0.0, meant))
        self._looked_at = now

    def admits(self, owner: str, data: bytes, now: float) -> bool:
        """Whether the limit of a member leaves room for this message.

        Costs no signature. If this says no, the message is to be dropped unread.
        """
        member = self._members.get(owner)
        if member is None:
            return True
        account = self._account(member, data)
        if account.at < now or account.rounds < self.rounds:
            earned = account.per_second * (now - account.at)
            earned += PER_ROUND * (self.rounds - account.rounds)
            most = self._burst + account.per_second * self._away
            account.left = min(most, account.left + earned)
            account.at, account.rounds = now, self.rounds
        if account.left < 1.0:
            member.excess += 1
            self._tell(owner, member, now)
            return False
        account.left -= 1.0
        return True

    def read(self, owner: str, data: bytes, now: float) -> Signed:
        """The verified message in these bytes, which were admitted. Raises `BadMessage`."""
        try:
            return self._reader.unpack(data)
        except BadMessage:
            self.invalid(owner, data, now)
            raise

    def invalid(self, owner: str, data: bytes, now: float) -> None:
        """Charge a member for bytes from its connection that are no message of this session."""
        member = self._members.get(owner)
        if member is None:
            return
        self._account(member, data).left -= INVALID_COST - 1
        member.invalid += 1
        self._tell(owner, member, now)

    def _account(self, member: _Member, data: bytes) -> _Account:
        claimed = peek_header(data)
        if claimed is None or claimed.key != member.key:
            return member.accounts[2]
        return member.accounts[0 if claimed.kind in (Release, MaskKey, Seal) else 1]

    def _tell(self, owner: str, member: _Member, now: float) -> None:
        if not self._seldom.due(owner, now):
            return
        what = [
            f"{count} {'message' if count == 1 else 'messages'} {why}"
            for count, why in (
                (member.invalid, "not valid in this session"),
                (member.excess, "beyond its limit"),
            )
            if count
        ]
        self._say(f"{owner}: its connection sent {' and '.join(what)}; dropped")
