"""The files that a session leaves: the company's report, plan and result, and the public ones.

All files except `public.csv`, the transcript and the evidence hold un-noised numbers, and only
their owner can read them. Never here: a message, a log line or an error with such a number.
docs/RESULT.md describes the files.
"""

import json
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from party.ledger import budget
from party.ledger.session_ledger import Ledger
from party.model.best_response import MipLimits
from party.model.company_model import CompanyModel
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import amounts
from protocol.errors import BadCommand, PeerError
from protocol.privacy.accountant import finite
from protocol.records import Opaque
from protocol.runtime.files import replace_private
from protocol.runtime.wait_times import WaitTimes
from protocol.wire.messages import Seal

if TYPE_CHECKING:  # reports are made when a session is over: they would slow its start
    from xml.etree.ElementTree import Element

    from party.settlement.settle import Plan, Settlement
    from party.settlement.spending import Spending
    from protocol.outcome.outcome import Outcome


def ensure_dir(folder: Path) -> None:
    """Make the folder of --out, unless it exists."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadCommand(
            f"--out {str(folder)!r} cannot be made: {error.strerror}; choose another folder"
        ) from None


class Company(Opaque, frozen=True):
    """A member of a session with its model and its ledger. Secret."""

    member: str
    data: CompanyModel
    ledger: Ledger
    mip_limits: MipLimits


def write_result(
    outcome: "Outcome", company: Company, settlement: "Settlement", folder: Path
) -> None:
    """Write all files but the report: no failure of a page keeps them from being written."""
    from protocol.report.csv import public_csv

    member, ledger = company.member, company.ledger
    spending = _spending(ledger, outcome.agreement.digest)
    waits, unanswered = WaitTimes(outcome.agreement, ledger.waits()), ledger.unanswered()
    with _writing(folder):
        (folder / "session.transcript").write_bytes(ledger.transcript_file())
        replace_private(folder / "plan.csv", plan_csv(company.data, settlement))
        content = result(outcome, member, settlement, spending, waits=waits, unanswered=unanswered)
        replace_private(folder / "result.json", json.dumps(content, indent=2) + "\n")
        (folder / "public.csv").write_text(public_csv(outcome), encoding="utf-8")


def write_report(
    outcome: "Outcome", company: Company, settlement: "Settlement", folder: Path
) -> "list[Element]":
    """Write the report, after all other files. Return its contents, which are secret."""
    from party.settlement.private_report import private_document, private_parts

    member, ledger = company.member, company.ledger
    report = private_parts(
        outcome,
        member,
        company.data,
        settlement,
        _spending(ledger, outcome.agreement.digest),
        waits=WaitTimes(outcome.agreement, ledger.waits()),
        unanswered=ledger.unanswered(),
        written=time.strftime("%d %B %Y"),
    )
    with _writing(folder):
        replace_private(folder / "report.html", private_document(outcome, member, report))
    return report


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Turn an error of the disk into one that says what to do."""
    try:
        yield
    except OSError as error:
        raise BadCommand(
            f"the result cannot be written to {str(folder)!r}: {error.strerror}; the session is "
            "safe in the ledger: write the files again with `party result`, there or elsewhere"
        ) from None


def read_outcome(ledger: Ledger, agreement: Agreement, member: str) -> "Outcome":
    """Compute the outcome from a ledger, verified as an auditor would, with the missing seals."""
    transcript = ledger.transcript()
    sealed = {s.message.sender for s in ledger.witnessed() if isinstance(s.message, Seal)}
    names = [m.name for m in agreement.members if m.name not in {member, *sealed}]
    from protocol.outcome.outcome import outcome as compute_outcome

    outcome = compute_outcome(
        agreement, transcript, unsealed=() if transcript.seals else tuple(names)
    )
    ledger.require_replayed(outcome.rounds, outcome.state.rounds_hash)
    return outcome


def _spending(ledger: Ledger, agreement: bytes) -> "Spending":
    """What the data set of a session has spent, according to the party's own ledger."""
    from party.settlement.spending import Spending

    accounts = ledger.accounts()
    this = next(a for a in accounts if a.agreement == agreement)
    return Spending(
        data_set=ledger.data_set,
        delta=this.delta or budget.DELTA,
        session=this.spent,
        lifetime=budget.spent(accounts, ledger.data_set),
        limit=ledger.limit(),
        colluders=budget.colluding(accounts, ledger.data_set),
    )


def public_result(outcome: "Outcome", member: str) -> dict[str, Any]:
    """The public part of `result.json`."""
    from protocol.report.terminal import outcome_figures

    agreement = outcome.agreement
    names = [member.name for member in agreement.members]
    return {
        "session": agreement.session,
        "agreement": agreement.digest.hex(),
        "member": member,
        **outcome_figures(outcome),
        "unsealed": list(outcome.unsealed),
        "resources": [r.name for r in agreement.resources],
        "last_prices": outcome.last_prices.tolist(),
        "endowment": {
            name: amounts(agreement, row, k).tolist()
            for k, (name, row) in enumerate(zip(names, outcome.endowment, strict=True))
        },
        "claims": claims_of(outcome, member),
        **({} if agreement.masked else _public_quotas(outcome, names)),
    }


def claims_of(outcome: "Outcome", member: str) -> list[dict[str, str]]:
    """The claims that a member can make: who receives each, if the agreement says, and its file."""
    from protocol.clearing.claims import file_name
    from protocol.outcome.outcome import no_claims

    agreement = outcome.agreement
    if no_claims(outcome):
        return []
    roles = [(r.name, r.operator) for r in agreement.resources]
    return [
        {
            "for": resource or "payment",
            "to": "" if role is None else role.name,
            "file": file_name(agreement, member, resource),
        }
        for resource, role in (*roles, (None, agreement.clearing))
    ]


def _public_quotas(outcome: "Outcome", names: list[str]) -> dict[str, Any]:
    """Quota and payment of every member, where each release is public."""
    rows = dict(zip(names, outcome.quota, strict=True))
    return {
        "quota": {
            name: amounts(outcome.agreement, row, k).tolist()
            for k, (name, row) in enumerate(rows.items())
        },
        "quota_ticks": {name: row.tolist() for name, row in rows.items()},
        "payments": dict(zip(names, outcome.payments.tolist(), strict=True)),
    }


def result(
    outcome: "Outcome",
    member: str,
    settlement: "Settlement",
    spending: "Spending",
    *,
    waits: WaitTimes | None = None,
    unanswered: int = 0,
) -> dict[str, Any]:
    """The content of `result.json` (docs/RESULT.md). What is under "private" is secret."""
    privacy: dict[str, Any] = {
        name: {"epsilon": finite(cost.epsilon(spending.delta)), "delta": spending.delta}
        for name, cost in (("session", spending.session), ("lifetime", spending.lifetime))
    }
    limit = spending.limit
    covered = limit.fixed if limit and not math.isinf(spending.lifetime.mu_squared) else None
    privacy["covered_by"] = covered and {"epsilon": covered[0], "delta": covered[1]}
    return public_result(outcome, member) | {
        "privacy": privacy,
        "waiting": {} if waits is None else _waiting(waits),
        "private": {
            **_private(outcome, outcome.agreement.place(member), settlement),
            "rounds_without_answer": unanswered,
        },
    }


def _waiting(waits: WaitTimes) -> dict[str, Any]:
    """How long this party has waited for each other member."""
    return {
        one.name: {
            "seconds": round(one.seconds, 1),
            "longest_seconds": round(one.longest, 1),
            "last_in_rounds": one.last,
        }
        for one in waits.all
    }


def _private(outcome: "Outcome", row: int, settlement: "Settlement") -> dict[str, Any]:
    within, alone = settlement.within_quota, settlement.alone
    wanted, extra = settlement.at_prices, settlement.extra_ticks
    return {
        "whole_columns": settlement.integer_columns,
        "mixture_loss": settlement.mixture_loss,
        "quota": amounts(outcome.agreement, settlement.quota_ticks, row).tolist(),
        "quota_ticks": settlement.quota_ticks.tolist(),
        "utility_within_quota": within and within.utility,
        "utility_alone": alone and alone.utility,
        "payment": settlement.payment,
        "gain": settlement.gain,
        "utility_at_prices": wanted and wanted.utility,
        "paid_at_prices": settlement.paid,
        "uses_within_quota": within and within.uses.tolist(),
        "uses_at_prices": wanted and wanted.uses.tolist(),
        "extra": None if extra is None else (extra / outcome.agreement.ticks).tolist(),
    }


def plan_csv(data: CompanyModel, settlement: "Settlement") -> str:
    """A CSV file with the values of every variable in both plans. Secret."""
    from protocol.report.csv import Rows, plain

    rows = Rows()
    rows.add("variable", "within_quota", "at_prices")
    blank = [""] * data.columns
    columns = [
        blank if plan is None else _written(data, plan)
        for plan in (settlement.within_quota, settlement.at_prices)
    ]
    for name, *values in zip(data.names, *columns, strict=True):
        rows.add(plain(name), *values)
    return "".join(rows)


def _written(data: CompanyModel, plan: "Plan") -> list[str]:
    """The values of a plan to the last digit; those of integer columns as integers."""
    whole = np.zeros(data.columns, dtype=np.bool_) if data.integer is None else data.integer
    values = zip(plan.values.tolist(), whole.tolist(), strict=True)
    return [str(int(value)) if integer else repr(value) for value, integer in values]


def keep_evidence(error: PeerError, folder: Path) -> bool:
    """Write the signed messages that prove a fault, if there are any. False if that fails.

    Nothing is lost then: the ledger keeps the proof of a final fault.
    """
    if not error.evidence:
        return True
    path = folder / "evidence.json"
    content = {
        "what": str(error),
        "accused": error.sender,
        "signed_messages": [data.hex() for data in error.evidence],
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    except OSError as failed:
        print(
            f"the evidence cannot be written to {path}: {failed.strerror}; write it again with "
            "`party result`",
            file=sys.stderr,
        )
        return False
    print(f"evidence written to {path}", file=sys.stderr)
    return True
