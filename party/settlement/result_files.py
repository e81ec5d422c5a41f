"""The files that a session leaves: the company's report, plan and result, and what is public.

All but `public.csv`, the transcript and the evidence hold un-noised numbers and can be read by
their owner only: nothing made here goes into a message, a log or an error. `RESULT.md` is the page
about them.
"""

import io
import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from party.ledger import budget
from party.ledger.session_ledger import Ledger
from party.model.best_response import USUAL, MipLimits
from party.model.company_model import CompanyModel
from party.settlement.private_report import private_document, private_parts
from party.settlement.settle import Settlement, own_part, settle
from party.settlement.spending import Spending
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import amounts
from protocol.errors import BadCommand, PeerError
from protocol.outcome.outcome import Outcome, outcome
from protocol.report.certificate import certificate_figures
from protocol.report.csv import Rows, plain, public_csv
from protocol.runtime.files import replace_private
from protocol.runtime.wait_times import WaitTimes
from protocol.wire.messages import Seal


def write_result(
    known: Outcome,
    member: str,
    data: CompanyModel,
    *,
    ledger: Ledger,
    folder: Path,
    effort: MipLimits = USUAL,
    settlement: Settlement | None = None,
    on_report: Callable[[list[Element]], None] = lambda _: None,
) -> bool:
    """Settle, unless that is done, and write all files. The ledger keeps what they are made of.

    Whether the quota allows the company a plan: for its operator only. `on_report` is given the
    parts of the report, which are secret.
    """
    if settlement is None:
        own = own_part(known, member, ledger)
        settlement = settle(data, known, member, own, effort=effort)
    spending = spent(ledger, known.agreement.digest)
    written = time.strftime("%d %B %Y")
    waits, unanswered = WaitTimes(known.agreement, ledger.waits()), ledger.unanswered()
    report = private_parts(
        known,
        member,
        data,
        settlement,
        spending,
        waits=waits,
        unanswered=unanswered,
        written=written,
    )
    on_report(report)
    content = result(known, member, settlement, spending, waits=waits, unanswered=unanswered)
    try:
        replace_private(folder / "report.html", private_document(known, member, report))
        replace_private(folder / "plan.csv", plan_csv(data, settlement))
        replace_private(folder / "result.json", json.dumps(content, indent=2) + "\n")
        (folder / "public.csv").write_text(public_csv(known), encoding="utf-8")
        (folder / "session.transcript").write_bytes(ledger.transcript_file())
    except OSError as error:
        raise BadCommand(
            f"the result cannot be written to {str(folder)!r}: {error.strerror}; the session is "
            "safe in the ledger, and `party result` writes it again, there or elsewhere"
        ) from None
    return settlement.within_quota is not None


def known_by(ledger: Ledger, agreement: Agreement, member: str) -> Outcome:
    """What a ledger knows of a session, verified as an auditor would, with whose seals it lacks."""
    transcript = ledger.transcript()
    sealed = {s.message.sender for s in ledger.heard() if isinstance(s.message, Seal)}
    names = [m.name for m in agreement.members if m.name not in {member, *sealed}]
    known = outcome(agreement, transcript, unsealed=() if transcript.seals else tuple(names))
    ledger.require_replayed(known.rounds, known.state.chain_hash)
    return known


def spent(ledger: Ledger, agreement: bytes) -> Spending:
    """What privacy the data of a session have spent, by the party's own ledger."""
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


def public_result(known: Outcome, member: str) -> dict[str, Any]:
    """What everybody knows of the outcome: the part of `result.json` that is no secret."""
    agreement = known.agreement
    names = [member.name for member in agreement.members]
    return {
        "session": agreement.session,
        "reveal": agreement.reveal,
        "agreement": agreement.digest.hex(),
        "member": member,
        "rounds": known.rounds,
        "ended_by_itself": known.ended_by_itself,
        "head": known.state.chain_hash.hex(),
        "sealed": known.sealed,
        "unsealed": list(known.unsealed),
        "currency": agreement.currency,
        "resources": [r.name for r in agreement.resources],
        "certificate": certificate_figures(known),
        "prices": known.prices.tolist(),
        "last_prices": known.last_prices.tolist(),
        "totals": known.weighted_total.tolist(),
        "quota_risk": known.quota_risk,
        "ticks": agreement.ticks,
        "endowment": {
            name: amounts(agreement, row, k).tolist()
            for k, (name, row) in enumerate(zip(names, known.endowment, strict=True))
        },
        **({} if agreement.masked else _public_parts(known, names)),
    }


def _public_parts(known: Outcome, names: list[str]) -> dict[str, Any]:
    """Everybody's quota and payment, where each release can be read."""
    rows = dict(zip(names, known.quota, strict=True))
    return {
        "quota": {
            name: amounts(known.agreement, row, k).tolist()
            for k, (name, row) in enumerate(rows.items())
        },
        "quota_ticks": {name: row.tolist() for name, row in rows.items()},
        "payments": dict(zip(names, known.payments.tolist(), strict=True)),
    }


def result(
    known: Outcome,
    member: str,
    settlement: Settlement,
    spending: Spending,
    *,
    waits: WaitTimes | None = None,
    unanswered: int = 0,
) -> dict[str, Any]:
    """The content of `result.json`, as `RESULT.md` says. What is under "private" is secret."""
    privacy: dict[str, Any] = {
        name: {"epsilon": budget.finite(cost.epsilon(spending.delta)), "delta": spending.delta}
        for name, cost in (("session", spending.session), ("lifetime", spending.lifetime))
    }
    limit = spending.limit
    covered = limit.fixed if limit and not math.isinf(spending.lifetime.mu_squared) else None
    privacy["covered_by"] = covered and {"epsilon": covered[0], "delta": covered[1]}
    return public_result(known, member) | {
        "privacy": privacy,
        "waiting": {} if waits is None else _waiting(waits),
        "private": {
            **_private(known, known.agreement.place(member), settlement),
            "rounds_without_answer": unanswered,
        },
    }


def _waiting(waits: WaitTimes) -> dict[str, Any]:
    """How long this party has waited for each other one, as far as it has seen."""
    return {
        one.name: {
            "seconds": round(one.seconds, 1),
            "longest_seconds": round(one.longest, 1),
            "last_in_rounds": one.last,
        }
        for one in waits.all
    }


def _private(known: Outcome, row: int, settlement: Settlement) -> dict[str, Any]:
    within, alone = settlement.within_quota, settlement.alone
    wanted, extra = settlement.at_prices, settlement.extra_ticks
    return {
        "whole_columns": settlement.whole_columns,
        "quota": amounts(known.agreement, settlement.quota_ticks, row).tolist(),
        "quota_ticks": settlement.quota_ticks.tolist(),
        "utility_within_quota": within and within.utility,
        "utility_alone": alone and alone.utility,
        "payment": settlement.payment,
        "gain": settlement.gain,
        "utility_at_prices": wanted and wanted.utility,
        "paid_at_prices": settlement.paid,
        "uses_within_quota": within and within.uses.tolist(),
        "uses_at_prices": wanted and wanted.uses.tolist(),
        "extra": None if extra is None else (extra / known.agreement.ticks).tolist(),
    }


def plan_csv(data: CompanyModel, settlement: Settlement) -> str:
    """Every variable of the model with its values in both plans, as a CSV file. Secret."""
    text = io.StringIO()
    rows = Rows(text)
    rows.write("variable", "within_quota", "at_prices")
    blank = [""] * data.columns
    columns = [
        blank if plan is None else [repr(value) for value in plan.values.tolist()]
        for plan in (settlement.within_quota, settlement.at_prices)
    ]
    for name, *values in zip(data.names, *columns, strict=True):
        rows.write(plain(name), *values)
    return text.getvalue()


def keep_evidence(error: PeerError, folder: Path) -> bool:
    """Write down the signed messages that show what a peer did, where there are some.

    Whether that could be done: the ledger keeps what is final, whatever becomes of the file.
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
            f"the evidence cannot be written to {path}: {failed.strerror}; `party result` "
            "writes it again",
            file=sys.stderr,
        )
        return False
    print(f"evidence written to {path}", file=sys.stderr)
    return True
