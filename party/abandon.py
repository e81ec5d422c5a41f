"""Gives up a session for good, at home: in this party's ledger, without network.

What the session keeps secret is destroyed; what it released stays counted, and the rounds that
were closed stay public. Nothing here may make a release possible, or take one off the budget.
"""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from party.ledger import accounts
from party.ledger.session_ledger import Ledger
from party.settlement.result_files import known_by
from party.settlement.settle import own_part
from protocol.agreement.model import Agreement
from protocol.errors import BadCommand
from protocol.outcome.outcome import Outcome


def abandon(
    agreement: Agreement, path: Path, *, out: Path | None, confirm: Callable[[str], None]
) -> list[str]:
    """End a session in a ledger for good; what was done, for the operator.

    `confirm` is given what that means, and raises unless the operator wants it. Where the process
    ends before this returns, the same call does what is missing, and asks no more.
    """
    member, data_set = accounts.find_session(path, agreement)
    with closing(Ledger(path, agreement, member, data_set=data_set)) as ledger:
        known = known_by(ledger, agreement, member)
        _require_open(ledger, agreement, known)
        if ledger.abandoned is None:
            confirm(_meaning(agreement, known))
        if known.state.over:
            own_part(known, member, ledger)  # the quota is this company's: it is kept
        ledger.record_abandoned()
        told = [str(ledger.abandoned), _destroyed(agreement)]
        if out is not None:
            told.append(_written(ledger, out))
    return told


def _require_open(ledger: Ledger, agreement: Agreement, known: Outcome) -> None:
    """Refuse a session that has ended otherwise."""
    if known.sealed:
        raise BadCommand(
            f"all members have sealed {agreement.session!r}: it is finished, and cannot be "
            "abandoned. `party result` writes its files"
        )
    if ledger.fault is not None:
        raise BadCommand(f"{ledger.fault}. There is nothing to abandon")


def _meaning(agreement: Agreement, known: Outcome) -> str:
    """What it means to give this session up, before it is done."""
    stands = f"{agreement.session!r} stands at round {known.rounds} of {agreement.rounds}"
    if known.state.over:
        then = (
            "All rounds are closed: prices and quotas stay as they are, but they will never be "
            "sealed here"
        )
    else:
        then = "There will be no outcome: the others cannot finish without this party"
    return (
        f"{stands}. To abandon it is final. {then}. The others are not told: they wait until "
        "their patience ends, so tell them. What was released stays spent"
    )


def _destroyed(agreement: Agreement) -> str:
    if agreement.masked:
        return (
            "Its mask key and what this company asked for are overwritten in the ledger. Copies "
            "of the ledger still hold them: delete those, but never the ledger itself"
        )
    return "Keep the ledger: it counts what was released"


def _written(ledger: Ledger, folder: Path) -> str:
    """Write the closed rounds, which are public."""
    path = folder / "session.transcript"
    try:
        path.write_bytes(ledger.transcript_file())
    except OSError as error:
        raise BadCommand(
            f"the session is abandoned, but {str(path)!r} cannot be written: {error.strerror}; "
            "give the same command with another --out"
        ) from None
    return (
        f"{path}: the closed rounds, public. The next session begins at their prices with "
        f"`coordinator new --from {path} --agreement FILE`: FILE is the agreement of this session"
    )
