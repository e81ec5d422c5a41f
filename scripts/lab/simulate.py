"""A session in one process, compared with the optimum that only an owner of all data knows.

Every party has the real session, gate and ledger (`party.rehearsal.in_process`). Noise is seeded,
so that a run can be repeated.
"""

import argparse
import hashlib
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from party.model.best_response import responder
from party.rehearsal.in_process import players, run
from party.release.allocation import own_allocation
from party.settlement.settle import plan_within, settle
from protocol.agreement.endowment import prorata
from protocol.agreement.parse import from_table
from protocol.agreement.quantities import amounts, quantities
from protocol.errors import BadCommand
from protocol.numeric import Floats
from protocol.outcome.ball_quota import levied
from protocol.outcome.outcome import Outcome, outcome
from protocol.outcome.private_quota import Allocation
from protocol.planning.verdict import verdict
from protocol.privacy.calibration import Calibration
from protocol.privacy.sensitivity import first_caps
from protocol.report.trade import contradiction_figures, trade_figures
from protocol.runtime.cli import run as start
from scripts.lab.common.agreements import WORTH, agreement_table, drawn, session_options
from scripts.lab.common.convergence import LEVELS, first_below, gaps
from scripts.lab.common.convergence import gap as relative
from scripts.lab.common.instances import Instance, Optimum, central, dual_value
from scripts.lab.common.model_sets import read_set


def summary(
    result: Outcome, instance: Instance, optimum: Optimum, allocations: Sequence[Allocation | None]
) -> dict[str, Any]:
    """The figures of one session. Gaps are fractions of the optimum: 0.01 is 1 %.

    `allocations` has each company's quota and payment where these are private.
    """
    agreement = result.agreement
    problems = instance.subproblems()

    def gap(prices: Floats) -> float:
        return relative(dual_value(instance, problems, prices), optimum.utility)

    by_round = gaps(result, instance, optimum.utility)
    calibration = Calibration(agreement)
    return {
        "parties": len(agreement.members),
        "rounds": agreement.rounds,
        "rounds_played": result.rounds,
        "mode": agreement.mode,
        "reveal": agreement.reveal,
        "step": agreement.pricing.step,
        "optimum": optimum.utility,
        "dual_gap_last": gap(result.last_prices),
        "dual_gap_average": gap(result.average_prices),
        "dual_gap_weighted": gap(result.prices),
        "dual_gap_best": min(gap(prices) for prices in result.path),
        "dual_gap_best_note": "an oracle: no member can know which round was best",
        "rounds_to_gap": {f"{level:g}": first_below(by_round, level) for level in LEVELS},
        "certificate": result.certificate and result.certificate.bound / abs(optimum.utility),
        "certificate_part": result.certificate_part,
        "trade": trade_figures(result),
        "contradictions": contradiction_figures(result),
        "prices": result.prices.tolist(),
        "head": result.state.chain_hash.hex(),
        "releases_digest": releases_digest(result),
        "releases_per_party": result.rounds,
        "noise_std_over_capacity": (
            calibration.scales(first_caps(agreement))[:, : len(agreement.resources)].max()
            / agreement.ticks
        ),
        **settled(result, instance, optimum.utility, allocations),
        "verdict": verdict(agreement),
    }


def releases_digest(result: Outcome) -> str:
    """The digest of all releases and prices. Masks differ in every session: then of the totals."""
    digest = hashlib.sha256()
    released = result.totals[:, None, :] if result.agreement.masked else result.released
    for values, prices in zip(released, result.path[1:], strict=True):
        digest.update(values.astype(">i8").tobytes() + prices.astype(">f8").tobytes())
    return digest.hexdigest()


def settled(
    result: Outcome,
    instance: Instance,
    optimum: float,
    allocations: Sequence[Allocation | None] | None = None,
) -> dict[str, Any]:
    """What the companies together earn within their quotas, with a pro rata split, and at prices.

    Utilities are sums over the companies that have a plan. `quota_loss` is their loss against the
    optimum, or None where some company has no plan. `shortfall` is what companies need above their
    quotas, and `price_plan_overrun` what the plans at the prices of the outcome use above the
    capacity: each a fraction of the capacity, the largest of all resources. `gains` is how much
    more each company has than alone, after its payment.
    """
    agreement = result.agreement
    allocations = with_levy(result, allocations or [None] * len(agreement.members))
    settlements = [
        settle(data, result, member.name, allocation)
        for data, member, allocation in zip(
            instance.data, agreement.members, allocations, strict=True
        )
    ]
    used = np.sum([p.quota_ticks for p in settlements], axis=0)
    equal = [
        plan_within(data, amounts(agreement, row, k), floor=quantities(agreement).floor[k])
        for k, (data, row) in enumerate(zip(instance.data, prorata(agreement), strict=True))
    ]
    quota = [p.within_quota.utility for p in settlements if p.within_quota is not None]
    all_plan = len(quota) == len(settlements)
    equal_utility = [plan.utility for plan in equal if plan is not None]
    uses = np.sum([p.at_prices.uses for p in settlements if p.at_prices is not None], axis=0)
    above = uses - quantities(agreement).floor.sum(axis=0)
    extra = np.sum([p.extra_ticks for p in settlements if p.extra_ticks is not None], axis=0)
    return {
        "quota_utility": math.fsum(quota),
        "quota_loss": (optimum - math.fsum(quota)) / abs(optimum) if all_plan else None,
        "quota_plans": len(quota),
        "without_plan": len(settlements) - len(quota),
        "quota_overrun": max(0.0, float(used.max()) / agreement.ticks - 1.0),
        "payments": [p.payment for p in settlements],
        "gains": [p.gain for p in settlements],
        "prorata_utility": math.fsum(equal_utility),
        "prorata_plans": len(equal_utility),
        "price_plan_overrun": max(0.0, float((above / quantities(agreement).capacity).max()) - 1.0),
        "shortfall": float(np.max(extra)) / agreement.ticks,
    }


def with_levy(
    result: Outcome, allocations: Sequence[Allocation | None]
) -> Sequence[Allocation | None]:
    """What each company pays in the end, where payments need not add up to zero."""
    known = [own for own in allocations if own is not None]
    if not result.agreement.ball or len(known) < len(allocations):
        return allocations
    payments = levied(result.agreement, result.prices, np.array([own.payment for own in known]))
    return [
        Allocation(own.quota, payment)
        for own, payment in zip(known, payments.tolist(), strict=True)
    ]


def show(console: Console, figures: dict[str, Any]) -> None:
    table = Table(
        title=f"{figures['parties']} parties, {figures['rounds_played']} rounds",
        show_header=False,
    )
    for label, text in (
        ("optimum (from all data)", f"{figures['optimum']:.6g}"),
        ("gap at the prices of the outcome", f"{figures['dual_gap_weighted']:.4%}"),
        ("  upper bound by the certificate", _certified(figures)),
        ("trade", _trade(figures)),
        ("gap at the last prices", f"{figures['dual_gap_last']:.4%}"),
        ("gap at the best round (in hindsight)", f"{figures['dual_gap_best']:.4%}"),
        ("utility within the quotas", _plans(figures, "quota")),
        ("utility with a pro rata split", _plans(figures, "prorata")),
        ("shortfall of too small quotas / capacity", f"{figures['shortfall']:.3%}"),
        ("companies with a gain, after payment", _better_off(figures)),
        ("overrun of plans at these prices / capacity", f"{figures['price_plan_overrun']:.3%}"),
        ("noise of one release / capacity", f"{figures['noise_std_over_capacity']:.4g}"),
        ("releases of each party", str(figures["releases_per_party"])),
        ("prices", "  ".join(f"{p:.4g}" for p in figures["prices"])),
        ("chain hash", figures["head"][:16] + "…"),
    ):
        table.add_row(label, text)
    console.print(table)
    console.print(figures["verdict"])


def _certified(figures: dict[str, Any]) -> str:
    bound, trade = figures["certificate"], figures["trade"]
    if bound is None or trade is None:
        return "none: there is noise" if figures["mode"] != "exact" else "none with this step"
    excess = max(trade["excess"])
    return f"{bound:.4%}" + (f", before quotas are cut by {excess:.2g}" if excess else "")


def _trade(figures: dict[str, Any]) -> str:
    trade, found = figures["trade"], figures["contradictions"]
    if trade is None:
        return "not decided: there is no certificate"
    text = "yes" if trade["held"] else f"no: {', '.join(trade['obstacles'])}"
    named = [f"{one['member'] or 'totals'} by {one['money']:.4g}" for one in found]
    return text + (f"; contradictions: {', '.join(named)}" if named else "")


def _better_off(figures: dict[str, Any]) -> str:
    gains = [gain for gain in figures["gains"] if gain is not None]
    better = sum(gain > 0.0 for gain in gains)
    without = len(figures["gains"]) - len(gains)
    return f"{better} of {len(gains)}" + (f", {without} have no plan alone" if without else "")


def _plans(figures: dict[str, Any], kind: str) -> str:
    utility, optimum = figures[f"{kind}_utility"], figures["optimum"]
    without = figures["parties"] - figures[f"{kind}_plans"]
    if optimum > 0.0:
        text = f"{utility / optimum:.2%} of the optimum"
    elif without:  # the sum lacks some companies
        return f"{without} without a plan"
    else:
        text = f"{(optimum - utility) / abs(optimum):.4%} below the optimum"
    return text + (f", {without} without a plan" if without else "")


def simulate(options: argparse.Namespace, on_round: Callable[[int], None]) -> dict[str, Any]:
    """Draw an instance, run a session, and measure it."""
    instance = drawn(options)
    return play(instance, central(instance), options, on_round)


def play(
    instance: Instance,
    optimum: Optimum,
    options: argparse.Namespace,
    on_round: Callable[[int], None] = lambda _: None,
) -> dict[str, Any]:
    """The figures of one session among these companies, as the options describe it."""
    result, allocations = session(instance, options, on_round)
    return summary(result, instance, optimum, allocations)


def session(
    instance: Instance,
    options: argparse.Namespace,
    on_round: Callable[[int], None] = lambda _: None,
) -> tuple[Outcome, list[Allocation | None]]:
    """One session among these companies, and each one's allocation where these are private."""
    agreement = from_table(agreement_table(instance, options))
    problems = [
        responder(data, agreement, member.name)
        for data, member in zip(instance.data, agreement.members, strict=True)
    ]
    with players(agreement, problems, options.seed, on_round) as members:
        run(members)
        heads = {m.finished and m.finished.chain_hash for m in members}
        if len(heads) != 1:
            raise AssertionError("the parties ended with different chain hashes")
        result = outcome(agreement, members[0].ledger.transcript())
        return result, [own_allocation(result, m.session.me, m.ledger) for m in members]


DRAWN = {
    "parties": "--parties",
    "resources": "--resources",
    "kind": "--kind",
    "share_first": "--share-first",
    "share_total": "--share-total",
    "demands": "--no-demands",
}
"""Options that describe what to draw. They are refused where models are read."""


def command_line() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/simulate",
        description="Run a session in one process on a problem drawn as in the paper, or "
        "on models from files, and compare it with the optimum that only an owner of all data "
        "could find.",
    )
    session_options(parser)
    parser.add_argument(
        "--models",
        type=Path,
        metavar="DIR",
        help="instead of drawing: a folder with set.json and the companies' models; nothing is "
        "assumed about worth then, unless --worth is given",
    )
    parser.set_defaults(rehearsal=True, seed=1, worth=None, run=shown)
    return parser


def shown(options: argparse.Namespace) -> None:
    """Run the session of the options, and show its figures."""
    if options.worth is None:
        options.worth = 0.0 if options.models else WORTH
    console = Console()
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("rounds", total=options.rounds)

        def advance(done: int) -> None:
            progress.update(task, completed=done)

        if options.models:
            _refuse_drawing(options)
            figures = play(*read_set(options.models), options, advance)
        else:
            figures = simulate(options, advance)
    show(console, figures)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


def _refuse_drawing(options: argparse.Namespace) -> None:
    for name, flag in DRAWN.items():
        if getattr(options, name) != command_line().get_default(name):
            raise BadCommand(f"{flag} describes a drawn problem; remove it, or --models")


def main(arguments: Sequence[str] | None = None) -> None:
    start(command_line(), arguments)


if __name__ == "__main__":
    main()
