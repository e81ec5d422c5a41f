"""`party abandon`: gives up a session for good, in this party's ledger, without network.

The session's secrets are destroyed. Its releases stay counted, and its closed rounds stay public.
Never here: anything that makes a release possible or takes one off the budget.
"""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from party.ledger import accounts
from party.ledger.session_ledger import Ledger
from party.release.allocation import own_allocation
from party.settlement.result_files import ensure_dir, read_outcome
from protocol.agreement.model import Agreement
from protocol.errors import BadCommand
from protocol.outcome.outcome import Outcome


def abandon(
    agreement: Agreement, path: Path, *, out: Path | None, confirm: Callable[[str], None]
) -> list[str]:
    """End a session in a ledger for good. Returns lines for the operator.

    `confirm` is given the consequences, and raises unless the operator agrees. If the process ends
    before this returns, the same call completes it without asking again.
    """
    member, data_set = accounts.find_session(path, agreement)
    with closing(Ledger(path, agreement, member, data_set=data_set)) as ledger:
        outcome = read_outcome(ledger, agreement, member)
        _require_open(ledger, agreement, outcome)
        if out is not None:
            ensure_dir(out)
        if ledger.abandoned is None:
            confirm(_consequences(agreement, outcome))
        if outcome.state.over:
            own_allocation(outcome, member, ledger)  # the company keeps its quota
        ledger.record_abandoned(over=outcome.state.over)
        lines = [str(ledger.abandoned), _destroyed(agreement)]
        if ledger.opening() is not None:
            lines.append(
                "Others may have all seals, so the secrets behind claims are kept: `party claim "
                "--transcript` uses them, and `party forget` destroys them"
            )
        if out is not None:
            lines.append(_write_transcript(ledger, out))
    return lines


def _require_open(ledger: Ledger, agreement: Agreement, outcome: Outcome) -> None:
    """Refuse a session that has ended in another way."""
    if outcome.sealed:
        raise BadCommand(
            f"all members have sealed {agreement.session!r}: it is finished, and cannot be "
            "abandoned. Write its files with `party result`"
        )
    if ledger.fault is not None:
        raise BadCommand(f"{ledger.fault}. There is nothing to abandon")


def _consequences(agreement: Agreement, outcome: Outcome) -> str:
    if outcome.state.over:
        result = "All rounds are closed: prices and quotas stay, but are never sealed here"
    else:
        result = "There will be no outcome: the others cannot finish without this party"
    return (
        f"{agreement.session!r} has closed {outcome.rounds} of {agreement.rounds} rounds. "
        f"Abandoning it is final. {result}. Tell the others yourself: they only see that you are "
        "silent, and wait until their patience ends. What was released stays spent"
    )


def _destroyed(agreement: Agreement) -> str:
    if agreement.masked:
        return (
            "Its mask key and this company's demands are overwritten in the ledger. Copies of the "
            "ledger still hold them: delete the copies, but never the ledger itself"
        )
    return "Keep the ledger: it counts what was released"


def _write_transcript(ledger: Ledger, folder: Path) -> str:
    """Write the closed rounds, which are public."""
    path = folder / "session.transcript"
    try:
        path.write_bytes(ledger.transcript_file())
    except OSError as error:
        raise BadCommand(
            f"the session is abandoned, but {str(path)!r} cannot be written: {error.strerror}; "
            "run the same command with another --out"
        ) from None
    return (
        f"{path}: the closed rounds, public. The next session starts at their prices with "
        f"`coordinator new --from {path} --agreement FILE`: FILE is the agreement of this session"
    )
