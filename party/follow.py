"""Follows a standing agreement: takes part in each next session that is announced in a folder.

Guarantee: a session is joined only if its agreement is, to the last bit, the one that this party
computes itself: the terms that its operator signed, the prices of a session in its own ledger, and
a capacity and a name within the signed limits. What the convener or the folder's owner adds, such
as other members, keys, addresses, colluders or a larger epsilon, is refused in words. No session
is joined twice under two agreements, and none that comes before the last one.
Never here: a release, or a decision inside a session.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from party import keys
from party.ledger import accounts
from party.ledger.session_ledger import Ledger
from party.run import PartyConfig, play
from party.settlement.result_files import read_outcome
from party.ui.console import View
from protocol import errors
from protocol.agreement.differences import differences, in_words
from protocol.agreement.model import Agreement
from protocol.outcome.continuation import next_agreement
from protocol.outcome.outcome import Outcome
from protocol.runtime.approvals import read_approval
from protocol.runtime.files import read_agreement
from protocol.wire.approval import Approval, beyond, in_series, number_in_series, require_signed

POLL_SECONDS = 5.0
"""Pause between two looks into the folder."""

RETRY_SECONDS = 10.0
"""Pause before a session is resumed in which a member was missing."""

_SEARCHES = 7
"""Integer searches after a session: two for each of three plans, and one for what a quota lacks.
More if the solver exceeds a quota and searches again. With every model, the next session waits for
as long as they may take. So its start does not show how hard this plan was."""

_LONGEST_REST = 3600.0
"""The longest wait, whatever the time limit of a search: a longer one could miss a session."""

_GOES_ON = (errors.NoTrade, errors.QuotaTooSmall, errors.Unsolved)
"""Errors with which a session is over for this company. Only its operator may see which."""

_BACK = 3  # sessions of the ledger from whose prices the next one may start

Say = Callable[[str], None]


class Past(Struct, frozen=True):
    """What the ledger says about one session of the series."""

    number: int
    agreement: Agreement
    outcome: Outcome
    #: Nothing is left to do: all seals are there, or it was given up.
    ended: bool
    #: This party has released something.
    begun: bool


class Series(Struct):
    """A standing agreement, what its operator signed, and what is announced in a folder."""

    standing: Agreement
    #: The operator's own signature under it.
    approval: Approval
    #: Where next agreements are announced. It need not be trusted.
    folder: Path
    member: str
    ledger: Path
    #: Tells the operator.
    say: Say
    #: What was said already, so that each refusal is said once.
    _said: set[str] = field(default_factory=set)
    #: Files that were read, by path and time of change.
    _read: dict[tuple[Path, int, int], Agreement | None] = field(default_factory=dict)
    #: The files of the last look, if there was no session to take part in.
    _idle: set[tuple[Path, int, int]] | None = None

    def next_session(self) -> Agreement | None:
        """The session to take part in now: the unfinished one, or the next; None if there is none.

        A session that has not begun, or lacks only seals, gives way to the next one. While the
        folder does not change, nothing is computed again.
        """
        announced = self._announced()
        if self._idle == self._read.keys():
            return None
        found = self._found(announced)
        self._idle = set(self._read) if found is None else None
        return found

    def _found(self, announced: list[tuple[Path, Agreement]]) -> Agreement | None:
        """`next_session` for these announcements."""
        taken = self._taken()
        if not taken:
            return self.standing
        newest = max(taken)
        known = {a.digest: a for _, a in announced} | {self.standing.digest: self.standing}
        past = list(self._past(taken, known))
        if not past or past[0].number != newest:
            name = in_series(self.standing.session, newest)
            self._once(f"the agreement of {name!r}, which you joined, is not in {self.folder}; put "
                       "it back: without it this party cannot go on")  # fmt: skip
            return None
        self._report_second_agreements(announced, taken)
        following = self._acceptable(announced, newest, past)
        last = past[0]
        if last.ended or (following is not None and (not last.begun or last.outcome.state.over)):
            return following
        return last.agreement

    def number(self, agreement: Agreement) -> int | None:
        """The number of a session in the series; None if it belongs to another one."""
        return number_in_series(self.standing.session, agreement.session)

    def _announced(self) -> list[tuple[Path, Agreement]]:
        """The agreements in the folder, in the order of their files."""
        found = {}
        for path in sorted(self.folder.glob("*.toml")):
            try:
                status = path.stat()
                key = (path, status.st_mtime_ns, status.st_size)
                found[key] = self._read[key] if key in self._read else read_agreement(path)
            except (OSError, errors.BadAgreement):
                found[path, 0, 0] = None  # another file, or half a file that is being copied
        self._read = found
        return [(key[0], agreement) for key, agreement in found.items() if agreement is not None]

    def _taken(self) -> dict[int, bytes]:
        """The sessions of the series in the ledger: number and digest of the agreement."""
        if not self.ledger.is_file():
            return {}
        taken = {}
        for account in accounts.accounts(self.ledger)[0]:
            number = number_in_series(self.standing.session, account.session)
            if number is not None:
                taken[number] = account.agreement
        return taken

    def _past(self, taken: dict[int, bytes], known: dict[bytes, Agreement]) -> Iterator[Past]:
        """The newest sessions of the ledger whose agreements are known, newest first."""
        for number in sorted(taken, reverse=True)[:_BACK]:
            agreement = known.get(taken[number])
            if agreement is None:
                continue
            _, data_set = accounts.find_session(self.ledger, agreement)
            with closing(Ledger(self.ledger, agreement, self.member, data_set=data_set)) as opened:
                outcome = read_outcome(opened, agreement, self.member)
                yield Past(
                    number,
                    agreement,
                    outcome,
                    ended=outcome.sealed or opened.abandoned is not None,
                    begun=opened.release(0) is not None,
                )

    def _acceptable(
        self, announced: list[tuple[Path, Agreement]], newest: int, past: list[Past]
    ) -> Agreement | None:
        """The first announced session after the newest one that keeps to what was signed."""
        later = [
            (number, path, agreement)
            for path, agreement in announced
            if (number := self.number(agreement)) is not None and number > newest
        ]
        for number, path, agreement in sorted(later, key=lambda found: found[:2]):
            reasons = self.refusals(agreement, past)
            if not reasons:
                return agreement
            name = in_series(self.standing.session, number)
            lines = "\n  ".join(reasons)
            self._once(f"{path}: {name!r} is not what you signed, so it is refused:\n  {lines}")
        return None

    def refusals(self, agreement: Agreement, past: list[Past]) -> list[str]:
        """Why this party does not take part in a session; empty if it does."""
        if reasons := beyond(self.approval, self.standing, agreement):
            return reasons
        capacities = {resource.name: resource.capacity for resource in agreement.resources}
        starts: list[Outcome | Agreement] = [*(p.outcome for p in past), self.standing]
        expected = [
            next_agreement(start, session=agreement.session, capacities=capacities)
            for start in starts
        ]
        # The standing file decides about addresses and keys, which no digest covers.
        expected = [
            replace(e, members=self.standing.members, transport=self.standing.transport)
            for e in expected
        ]
        if agreement in expected:
            return []
        return in_words(differences(expected[0], agreement))

    def _report_second_agreements(
        self, announced: list[tuple[Path, Agreement]], taken: dict[int, bytes]
    ) -> None:
        """Say where a session that was joined is announced with other terms."""
        for path, agreement in announced:
            joined = taken.get(self.number(agreement) or 0, agreement.digest)
            if joined != agreement.digest:
                self._once(
                    f"{path}: {agreement.session!r} was joined with agreement {joined.hex()}; this "
                    f"is {agreement.digest.hex()}, and is refused. See `protocol diff`"
                )

    def _once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self.say(text)


def series(config: PartyConfig, folder: Path, approval: Path | None, say: Say) -> Series:
    """The series of a party's configuration, whose agreement is the standing one.

    Raises unless the operator's own approval of it, with limits for later sessions, is there.
    """
    identity = keys.load(config.key)
    identity.belongs_to(config.agreement)
    if not folder.is_dir():
        raise errors.BadCommand(f"--follow {str(folder)!r} is not a folder; make it first")
    path = approval or config.key.parent / (
        f"{identity.name}.{config.agreement.session}.approval.toml"
    )
    signed = read_approval(path)
    require_signed(signed, config.agreement)
    if signed.member != identity.name:
        raise errors.BadApproval(
            f"{path}: it is the approval of {signed.member!r}, not of {identity.name!r}"
        )
    if not signed.standing:
        raise errors.BadCommand(
            f"{str(path)!r} covers one session only; sign for the next ones too: party sign "
            "--standing"
        )
    return Series(config.agreement, signed, folder, identity.name, config.ledger_path, say)


def follow(
    config: PartyConfig, sessions: Series, view: Callable[[Agreement], View], *, once: bool
) -> None:
    """Take part in the sessions of a series as they are announced; with `once`, in one.

    Each has its own folder of results. Raises what ends a session, unless the next one can follow.
    """
    ended = list[float]()
    while True:
        agreement = sessions.next_session()
        if agreement is None:
            if once:
                raise errors.Unavailable(
                    f"no next session of {sessions.standing.session!r} is announced in "
                    f"{sessions.folder}; run the same command again when it is"
                )
            time.sleep(POLL_SECONDS)
            continue
        sessions.say(_announcement(sessions, agreement))
        pause = 0.0
        out = None if config.out is None else config.out / agreement.session
        try:
            play(
                replace(config, agreement=agreement, out=out),
                view(agreement),
                on_left=lambda: ended.append(time.monotonic()),
            )
        except _GOES_ON as error:
            sessions.say(f"{agreement.session}: {error}")
        except errors.Unavailable as error:
            if once:
                raise
            sessions.say(f"{agreement.session}: {error}")
            pause = RETRY_SECONDS
        finally:
            sys.stdout.flush()  # a log file shows the outcome now, not when this process ends
        if once:
            return
        if ended:
            seconds = POLL_SECONDS + _SEARCHES * config.mip_limits.seconds
            _rest(ended.pop(), min(seconds, _LONGEST_REST))
        time.sleep(pause)


def _rest(since: float, seconds: float) -> None:
    """Sleep until a multiple of this time has passed: the next Hello shows no more of the plan.

    Called when the ledger is closed, so that claims can be made meanwhile.
    """
    time.sleep(seconds - (time.monotonic() - since) % seconds)


def _announcement(sessions: Series, agreement: Agreement) -> str:
    """Which session this party takes part in, and what is new in it."""
    capacities = [
        f"{new.name} {old.capacity:g} -> {new.capacity:g} {new.unit}".strip()
        for old, new in zip(sessions.standing.resources, agreement.resources, strict=True)
        if old.capacity != new.capacity
    ]
    changed = f"; capacities: {', '.join(capacities)}" if capacities else ""
    left = sessions.approval.last - (sessions.number(agreement) or 0)
    return (
        f"taking part in {agreement.session!r} with the terms that you signed{changed}. Your "
        f"approval covers {left} more sessions"
    )
