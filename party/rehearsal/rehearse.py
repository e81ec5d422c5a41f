"""A rehearsal: sessions of one company with invented partners, to see what they may bring.

The company's own model is the real one. The partners follow from the public numbers of the
agreement only. Nothing is sent or written, and no budget is spent. The results are private.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from msgspec.structs import replace

from party.model.best_response import USUAL, MipLimits, responder
from party.model.company_model import CompanyModel, dense
from party.model_check import pace_for
from party.rehearsal.in_process import Player, players, run
from party.release.allocation import own_allocation
from party.settlement.settle import plan_within, settle
from protocol.agreement.currency import money_places
from protocol.agreement.endowment import endowment
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import amounts, quantities
from protocol.errors import BadCommand
from protocol.outcome.ball_quota import levied
from protocol.outcome.outcome import Outcome, outcome
from protocol.outcome.private_quota import Allocation
from protocol.planning.incentives import incentives
from protocol.planning.synthetic_market import Companies, without_noise
from protocol.privacy.calibration import Calibration
from protocol.privacy.sensitivity import first_caps
from protocol.records import Opaque

_NEGLIGIBLE = 1e-5

SESSIONS = 20
"""The default number of sessions."""


class SessionResult(Opaque, frozen=True, kw_only=True):
    """The company's result of one session. Secret."""

    rounds: int
    utility: float | None
    alone: float | None
    payment: float
    gain: float | None
    seconds: float

    @property
    def negligible(self) -> float:
        """A loss that is within the tolerances of session and solver."""
        return _NEGLIGIBLE * max(abs(self.alone or 0.0), abs(self.payment))

    def __repr__(self) -> str:
        return "<private rehearsal>"


def partner(agreement: Agreement, companies: Companies, row: int) -> CompanyModel:
    """The invented company in this row of the roster, as a model.

    Each step of its demand is a product that takes one resource. It always uses its floor.
    """
    terms, sizes = quantities(agreement), companies.sizes[row]
    m, n = sizes.shape
    uses = np.repeat(np.diag(terms.capacity), n, axis=1)
    return dense(
        A=np.hstack([uses, terms.floor[row][:, None]]),
        B=np.zeros((0, m * n + 1)),
        u=np.append(companies.values[row].ravel(), 0.0),
        row_lower=np.zeros(0),
        row_upper=np.zeros(0),
        lower=np.append(np.zeros(m * n), 1.0),
        upper=np.append(sizes.ravel(), 1.0),
    )


def rehearse(
    agreement: Agreement,
    member: str,
    data: CompanyModel,
    *,
    sessions: int = SESSIONS,
    seed: int = 1,
    worth: float | None = None,
    limits: MipLimits = USUAL,
    on_session: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """The figures that a session may bring. Secret.

    `worth` is an estimate of each capacity's total value, if the agreement has none. Without it,
    the partners are about as large as the company itself.
    """
    guess = quantities(agreement).worth
    if guess is None:
        guess = np.full(len(agreement.resources), worth or _own_worth(agreement, member, data))
    practice = replace(agreement, rehearsal=True)
    exact = without_noise(practice)
    variants = [practice] if agreement.privacy is None else [practice, exact]
    results: list[list[SessionResult]] = [[] for _ in variants]
    for number in range(sessions):
        draw = seed * 1_000_003 + number
        market = Companies.drawn(agreement, draw % 2**32, guess)
        companies = [
            data if k == agreement.place(member) else partner(agreement, market, k)
            for k in range(len(agreement.members))
        ]
        for variant, collected in zip(variants, results, strict=True):
            collected.append(_run(variant, member, companies, seed=draw, limits=limits))
            on_session()
    noise = Calibration(practice).scales(first_caps(practice))[agreement.place(member)]
    slowest = max(result.seconds for collected in results for result in collected)
    return {
        "session": agreement.session,
        "member": member,
        "sessions": sessions,
        "alone": results[0][0].alone,
        "minimises": data.minimises,
        "noise_over_capacity": float(noise[: len(agreement.resources)].max()) / agreement.ticks,
        "slowest_answer_seconds": slowest,
        "pace_seconds": pace_for(slowest),
        "agreed_pace_seconds": agreement.pace_seconds,
        "expected": _summary(results[0], agreement.currency),
        "without_noise": _summary(results[1], agreement.currency) if len(results) > 1 else None,
        "incentives": incentives(agreement),
    }


def _own_worth(agreement: Agreement, member: str, data: CompanyModel) -> float:
    """A capacity's value if every member were like this company, spread evenly over resources."""
    row = agreement.place(member)
    least, most = (
        plan_within(data, amounts(agreement, ticks, row), floor=quantities(agreement).floor[row])
        for ticks in (0 * endowment(agreement)[row], endowment(agreement)[row])
    )
    if most is None:
        raise BadCommand(
            f"the agreement {agreement.session!r} has no worth of its capacities, and your model "
            "has no plan alone from which to estimate one; give the value of a capacity with "
            "--worth"
        )
    gained = most.utility - (0.0 if least is None else least.utility)
    each = gained * len(agreement.members) / len(agreement.resources)
    return each if each > 0.0 else 1.0


def _run(
    agreement: Agreement,
    member: str,
    companies: list[CompanyModel],
    *,
    seed: int,
    limits: MipLimits,
) -> SessionResult:
    """Run one session to its end, and settle it for the company."""
    row, names = agreement.place(member), [m.name for m in agreement.members]
    problems = [
        responder(d, agreement, name, limits) for d, name in zip(companies, names, strict=True)
    ]
    with players(agreement, problems, seed) as members:
        run(members)
        known: Outcome = outcome(agreement, members[row].ledger.transcript())
        seconds = members[row].gate.longest_seconds
        part = _own_part(known, members, row)
    own = settle(companies[row], known, member, part, mip_limits=limits)
    return SessionResult(
        rounds=known.rounds,
        utility=None if own.within_quota is None else own.within_quota.utility,
        alone=None if own.alone is None else own.alone.utility,
        payment=own.payment,
        gain=own.gain,
        seconds=seconds,
    )


def _own_part(known: Outcome, members: list[Player], row: int) -> Allocation | None:
    """The company's quota and payment, with its part of the levy if there is one."""
    parts = [own_allocation(known, m.session.me, m.ledger) for m in members]
    own = parts[row]
    if own is None or not known.agreement.ball:
        return own
    due = np.array([part.payment for part in parts if part is not None])
    return Allocation(own.quota, float(levied(known.agreement, known.prices, due)[row]))


def _summary(results: list[SessionResult], currency: str) -> dict[str, Any]:
    """The results of all sessions. Below half a cent a company is as well off as alone."""
    places = money_places(currency)
    coin = 0.0 if places is None else 0.5 * 10.0**-places
    gains = [r.gain for r in results if r.gain is not None]
    return {
        "rounds": max(r.rounds for r in results),
        "without_plan": sum(r.utility is None for r in results),
        "worse_off": sum(r.gain is not None and r.gain < -max(coin, r.negligible) for r in results),
        "as_well_off": sum(
            r.gain is not None and abs(r.gain) <= max(coin, r.negligible) for r in results
        ),
        "gain_mean": math.fsum(gains) / len(gains) if gains else None,
        "gain_worst": min(gains, default=None),
        "gain_best": max(gains, default=None),
        "payment_mean": math.fsum(r.payment for r in results) / len(results),
    }


def _amount(value: float, currency: str) -> str:
    """An amount to the cent, or with six digits if the currency has none."""
    places = money_places(currency)
    return f"{value + 0.0:.6g}" if places is None else f"{round(value, places) + 0.0:,.{places}f}"


def table_lines(figures: dict[str, Any], currency: str) -> Iterator[tuple[str, str]]:
    """The lines of the table: a text and a value. Secret."""
    sign = -1.0 if figures["minimises"] else 1.0

    def money(value: float | None, factor: float = 1.0) -> str:
        return "–" if value is None else f"{_amount(factor * value, currency)} {currency}".rstrip()

    count, alone = figures["sessions"], figures["alone"]
    earns = "costs" if figures["minimises"] else "earns"
    yield f"your best plan alone {earns}", "no plan" if alone is None else money(alone, sign)
    kinds = [("expected", "")]
    if figures["without_noise"] is not None:
        kinds.append(("without_noise", ", without noise"))
    for key, suffix in kinds:
        kind = figures[key]
        yield f"average gain after payment{suffix}", money(kind["gain_mean"])
        yield "  in the worst session", money(kind["gain_worst"])
        yield "  in the best session", money(kind["gain_best"])
        yield "  sessions worse than alone", f"{kind['worse_off']} of {count}"
        yield "  sessions as well off as alone", f"{kind['as_well_off']} of {count}"
        yield "  sessions without a plan within the quota", f"{kind['without_plan']} of {count}"
        paid = kind["payment_mean"] < 0.0
        yield (
            "  average payment to you" if paid else "  average payment by you",
            money(abs(kind["payment_mean"])),
        )
        yield "  rounds", str(kind["rounds"])
    if figures["without_noise"] is not None:
        yield "noise of one release / capacity", f"{figures['noise_over_capacity']:.4g}"
    yield "slowest answer of your solver", f"{figures['slowest_answer_seconds']:.3g} s"
    agreed = figures["agreed_pace_seconds"]
    comment = "none is agreed" if agreed is None else f"{agreed:g} s is agreed"
    if agreed is not None and agreed < figures["pace_seconds"]:
        comment += ": TOO SHORT"
    yield "a pace that is long enough", f"{figures['pace_seconds']:g} s ({comment})"


def show(figures: dict[str, Any], currency: str) -> None:
    """Print the table."""
    from rich.console import Console
    from rich.table import Table

    title = (
        f"{figures['session']} for {figures['member']}: {figures['sessions']} sessions "
        "with invented partners"
    )
    table = Table(title=title, title_justify="left", show_header=False)
    for line in table_lines(figures, currency):
        table.add_row(*line)
    console = Console()
    console.print(table)
    expected = figures["incentives"]
    console.print(f"If a member lies: {expected['text']}", highlight=False)
    if expected["warning"] is not None:
        console.print(f"warning: {expected['warning']}", highlight=False)
    console.print(
        "PRIVATE: for you only. The partners are invented from public numbers; real ones differ. "
        "Nothing was sent, and no budget was spent.",
        highlight=False,
    )
