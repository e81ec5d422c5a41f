"""A rehearsal: what a session may bring a company, played with partners that are invented.

The company's own model is the real one; the partners are drawn from what the agreement says to
everybody (capacities, shares, worths, how many there are) and from nothing else. Nothing is sent,
nothing is written and no budget is spent. What comes out is private: for the operator alone.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from party.model.best_response import USUAL, MipLimits, subproblem
from party.model.company_model import CompanyModel, dense
from party.rehearsal.in_process import players, run
from party.release.pacing import pace_for
from party.settlement.settle import own_part, settle
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.errors import BadCommand
from protocol.outcome.outcome import Outcome, outcome
from protocol.planning.synthetic_market import Companies, without_noise
from protocol.privacy.calibration import Calibration
from protocol.privacy.sensitivity import first_caps

SESSIONS = 20
"""How many are played unless it is said."""


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Played:
    """What one session came to for the company. Secret."""

    rounds: int
    utility: float | None
    alone: float | None
    payment: float
    gain: float | None
    seconds: float

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
    effort: MipLimits = USUAL,
    on_session: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """What to expect of a session, in figures. Secret.

    `worth` is a guess of what each whole capacity fetches, where the agreement has none.
    """
    guess = quantities(agreement).worth
    if guess is None:
        if worth is None:
            raise BadCommand(
                f"{agreement.session!r} does not say what its capacities are worth, and so not "
                "what partners would pay: give a guess for a whole capacity with --worth"
            )
        guess = np.full(len(agreement.resources), worth)
    practice = replace(agreement, rehearsal=True)
    exact = without_noise(practice)
    games = [practice] if agreement.privacy is None else [practice, exact]
    played: list[list[Played]] = [[] for _ in games]
    for number in range(sessions):
        draw = seed * 1_000_003 + number
        market = Companies.drawn(agreement, draw % 2**32, guess)
        companies = [
            data if k == agreement.place(member) else partner(agreement, market, k)
            for k in range(len(agreement.members))
        ]
        for game, kept in zip(games, played, strict=True):
            kept.append(_one(game, member, companies, seed=draw, effort=effort))
            on_session()
    noise = Calibration(practice).scales(first_caps(practice))[agreement.place(member)]
    first = played[0]
    return {
        "session": agreement.session,
        "member": member,
        "sessions": sessions,
        "alone": first[0].alone,
        "minimises": data.minimises,
        "noise_over_capacity": float(noise[: len(agreement.resources)].max()) / agreement.ticks,
        "slowest_answer_seconds": max(p.seconds for kept in played for p in kept),
        "pace_seconds": pace_for(max(p.seconds for kept in played for p in kept)),
        "agreed_pace_seconds": agreement.pace_seconds,
        "expected": _expected(first),
        "without_noise": _expected(played[1]) if len(played) > 1 else None,
    }


def _one(
    agreement: Agreement,
    member: str,
    companies: list[CompanyModel],
    *,
    seed: int,
    effort: MipLimits,
) -> Played:
    """One session to its end, and what it means for the company."""
    row, names = agreement.place(member), [m.name for m in agreement.members]
    problems = [
        subproblem(d, agreement, name, effort) for d, name in zip(companies, names, strict=True)
    ]
    with players(agreement, problems, seed) as members:
        run(members)
        known: Outcome = outcome(agreement, members[row].ledger.transcript())
        seconds = members[row].longest_seconds
        part = own_part(known, member, members[row].ledger)
    own = settle(companies[row], known, member, part, effort=effort)
    return Played(
        rounds=known.rounds,
        utility=None if own.within_quota is None else own.within_quota.utility,
        alone=None if own.alone is None else own.alone.utility,
        payment=own.payment,
        gain=own.gain,
        seconds=seconds,
    )


def _expected(played: list[Played]) -> dict[str, Any]:
    gains = [p.gain for p in played if p.gain is not None]
    return {
        "rounds": max(p.rounds for p in played),
        "without_plan": sum(p.utility is None for p in played),
        "worse_off": sum(gain < 0.0 for gain in gains),
        "gain_mean": math.fsum(gains) / len(gains) if gains else None,
        "gain_worst": min(gains, default=None),
        "gain_best": max(gains, default=None),
        "payment_mean": math.fsum(p.payment for p in played) / len(played),
    }


def told(figures: dict[str, Any], currency: str) -> Iterator[tuple[str, str]]:
    """The figures for people, line by line. Secret."""
    sign = -1.0 if figures["minimises"] else 1.0

    def money(value: float | None, factor: float = 1.0) -> str:
        return "–" if value is None else f"{factor * value:.6g} {currency}".rstrip()

    count, alone = figures["sessions"], figures["alone"]
    earns = "costs" if figures["minimises"] else "earns"
    yield f"alone the best plan {earns}", "no plan" if alone is None else money(alone, sign)
    kinds = [("expected", "")]
    if figures["without_noise"] is not None:
        kinds.append(("without_noise", ", without noise"))
    for key, words in kinds:
        kind = figures[key]
        yield f"gain after payment, on average{words}", money(kind["gain_mean"])
        yield "  in the worst session", money(kind["gain_worst"])
        yield "  in the best session", money(kind["gain_best"])
        yield "  worse off than alone", f"{kind['worse_off']} of {count}"
        yield "  no plan within the quota", f"{kind['without_plan']} of {count}"
        yield "  to pay on average", money(kind["payment_mean"])
        yield "  rounds", str(kind["rounds"])
    if figures["without_noise"] is not None:
        yield "noise of one release / capacity", f"{figures['noise_over_capacity']:.4g}"
    yield "slowest answer of the solver", f"{figures['slowest_answer_seconds']:.3g} s"
    agreed = figures["agreed_pace_seconds"]
    enough = "none is agreed" if agreed is None else f"{agreed:g} s is agreed"
    if agreed is not None and agreed < figures["pace_seconds"]:
        enough += ": TOO SHORT"
    yield "a pace that covers it", f"{figures['pace_seconds']:g} s ({enough})"


def show(figures: dict[str, Any], currency: str) -> None:
    """The table of what to expect."""
    from rich.console import Console
    from rich.table import Table

    title = (
        f"{figures['session']} for {figures['member']}: {figures['sessions']} sessions "
        "with invented partners"
    )
    table = Table(title=title, title_justify="left", show_header=False)
    for line in told(figures, currency):
        table.add_row(*line)
    console = Console()
    console.print(table)
    console.print(
        "PRIVATE: for you alone. The partners are invented from public numbers; real ones differ. "
        "Nothing was sent, and no budget was spent.",
        highlight=False,
    )
