"""Random exact sessions, played as numbers alone, and what must hold of every one of them.

`scripts/environment python -m tests.support.exact_sessions honest 1000` plays sessions of companies
that answer with best plans, of all kinds: none contradicts itself beyond what is allowed.
`... small 5000` plays small sessions of few rounds: no certificate that fits is below the true
loss, payments add up, no company loses by joining beyond the certificate. Both stop at the first
session that fails, name its seed, and print the worst figures otherwise.
"""

import math
import sys
from collections import Counter
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from party.model.best_response import Responder, subproblem
from party.release.gate import clamped
from party.settlement.settle import plan_within, settle
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.agreement.quantities import amounts, quantities
from protocol.errors import BadData
from protocol.outcome.allocation_rule import weighted_sums
from protocol.outcome.outcome import Outcome
from protocol.outcome.private_quota import Allocation, allocate
from protocol.outcome.public_quota import weighted_quota
from protocol.pricing.center import Certificate
from protocol.pricing.paths import worst_contradiction
from protocol.rounds import RoundEngine
from scripts.lab.common.instances import Instance, central, curved, draw, dual_value, knapsacks

CLOSE = 1e-7
"""What solvers may miss, as a fraction of the money that is at stake."""


class NoAnswer(AssertionError):
    """A solver failed for numerical reasons."""


class Figures(Struct):
    """The worst that was seen, and how many sessions there were of each kind."""

    kinds: Counter[str] = field(default_factory=Counter)
    worst: dict[str, float] = field(default_factory=dict)

    def note(self, what: str, value: float) -> None:
        self.worst[what] = max(value, self.worst.get(what, -math.inf))


def agreed(instance: Instance, **terms: Any) -> Agreement:
    """An exact agreement for these companies; `terms` are those of its prices."""
    rounds, reveal = terms.pop("rounds", 150), terms.pop("reveal", "each")
    worth, endowment = terms.pop("worth", None), terms.pop("endowment", None)
    members = []
    for k, share in enumerate(instance.share[:, 0].tolist()):
        members.append({"name": f"party{k + 1}", "share": share})
        if endowment is not None:
            members[-1]["endowment"] = float(endowment[k])
    return from_table(
        {
            "session": "random",
            "mode": "exact",
            "reveal": reveal,
            "rounds": rounds,
            "prices": {"step": "center", **terms},
            "resource": [
                {"name": f"r{j}", "capacity": c} | ({} if worth is None else {"worth": worth})
                for j, c in enumerate(instance.capacity.tolist())
            ],
            "member": members,
        }
    )


def play(agreement: Agreement, problems: list[Responder]) -> Outcome:
    """The session of these companies, with each answer rounded to ticks as a gate does.

    Masks cancel in totals, so the releases stand here without them.
    """
    engine = RoundEngine(agreement)
    state, path, rounds = engine.opening, [], []
    state = replace(state, unpaired=False)
    while not state.over:
        path.append(state.prices.current)
        rows = []
        for row, problem in enumerate(problems):
            answer = problem.answer(state.prices.current)
            if answer is None:
                raise NoAnswer(f"round {state.round}: a solver has no answer")
            above = answer.demand - quantities(agreement).floor[row]
            rows.append(clamped(agreement, above, np.zeros(()), state.caps[row]))
        rounds.append(np.array(rows))
        state = engine.advance(state, rounds[-1])
    return Outcome(
        agreement=agreement,
        state=state,
        released=np.array(rounds),
        path=np.array([*path, state.prices.current]),
        sealed=True,
    )


def problems_of(agreement: Agreement, instance: Instance) -> list[Responder]:
    names = [member.name for member in agreement.members]
    return [subproblem(d, agreement, n) for d, n in zip(instance.data, names, strict=True)]


def allocations(result: Outcome) -> list[Allocation]:
    """What each member may use and pays, also where only totals are public."""
    agreement = result.agreement
    if not agreement.masked:
        pairs = zip(result.quota, result.payments.tolist(), strict=True)
        return [Allocation(quota, payment) for quota, payment in pairs]
    return [
        allocate(
            agreement,
            result.rule,
            k,
            demands=result.released[:, k],
            unmasked=result.released[:, k],
            totals=result.totals,
            prices=result.prices,
        )
        for k in range(len(agreement.members))
    ]


def honest_session(seed: int, figures: Figures) -> None:
    """One session of any kind. Raises `AssertionError` if answers contradict each other."""
    rng = np.random.default_rng([seed, 1])
    parties, resources = int(rng.integers(3, 8)), int(rng.integers(1, 7))
    kind = str(rng.choice(["linear", "free", "whole", "curved"], p=[0.4, 0.2, 0.2, 0.2]))
    if kind == "whole":
        instance = knapsacks(seed, parties=parties, resources=resources, things=12)
    elif kind == "curved":
        instance = curved(seed, parties=parties, resources=resources)
    else:
        narrow = float(rng.uniform(1.2, parties)) if rng.random() < 0.5 else None
        instance = draw(
            seed, parties=parties, resources=resources, demands=kind == "linear", share_total=narrow
        )
    terms: dict[str, Any] = {"rounds": int(rng.integers(10, 81))}
    terms["reveal"] = str(rng.choice(["each", "totals"]))
    if rng.random() < 0.6:
        terms["worth"] = float(10.0 ** rng.uniform(-1.0, 5.0))
    agreement = agreed(instance, **terms)
    try:
        result = play(agreement, problems_of(agreement, instance))
    except (BadData, NoAnswer):
        if kind != "curved":
            raise
        figures.kinds["curved, which HiGHS could not solve"] += 1
        return
    if result.inconsistencies:
        raise AssertionError(f"seed {seed}, {kind}: {result.inconsistencies}")
    figures.kinds[f"{kind}, {agreement.reveal}"] += 1
    figures.kinds["no trade" if result.no_trade else "trade"] += 1
    asked = result.path[:-1] * quantities(agreement).capacity
    if result.worth > 0.0:
        for k in range(parties):
            found = worst_contradiction(asked, -(result.released[:, k] / agreement.ticks))
            part = 0.0 if found is None else found.amount * parties / result.worth
            figures.note(f"contradiction, {kind}, as a part of all worth", part)


def small_session(seed: int, figures: Figures) -> None:
    """One small session. Raises `AssertionError` if a promise of CERTIFICATE.md is broken."""
    rng = np.random.default_rng([seed, 2])
    parties, resources = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    instance = draw(seed, parties=parties, resources=resources, demands=rng.random() < 0.5)
    terms: dict[str, Any] = {"rounds": int(rng.integers(1, 61))}
    if parties > 2 and rng.random() < 0.4:
        terms["reveal"] = "totals"
    if rng.random() < 0.6:
        terms["worth"] = float(10.0 ** rng.uniform(0.0, 4.0))
    if rng.random() < 0.5:
        parts = rng.dirichlet(np.ones(parties))
        terms["endowment"] = [*parts[:-1], 1.0 - math.fsum(parts[:-1])]
    if rng.random() < 0.3:
        terms["trade_limit"] = float(rng.choice([0.1, 1.0]))
    agreement = agreed(instance, **terms)
    result = play(agreement, problems_of(agreement, instance))
    best = central(instance).utility
    where = f"seed {seed}"
    figures.kinds["no trade" if result.no_trade else "trade"] += 1
    _check_certificate(result, instance, best, figures, where)
    given = allocations(result)
    off = abs(math.fsum(a.payment for a in given))
    allowed = 1e-9 * result.worth if agreement.masked else 0.0
    if off > allowed:
        raise AssertionError(f"{where}: payments are off by {off}")
    check_gains(result, instance, given, figures, where)


def _check_certificate(
    result: Outcome, instance: Instance, best: float, figures: Figures, where: str
) -> None:
    """The bound covers the loss at the prices and, if demand fits, within quotas by weights."""
    certificate, agreement = result.certificate, result.agreement
    if certificate is None:
        raise AssertionError(f"{where}: no certificate")
    if not certificate.fits:
        figures.kinds["does not fit"] += 1
        return
    figures.kinds["fits"] += 1
    stake = CLOSE * (abs(best) + result.worth)
    over = dual_value(instance, instance.subproblems(), result.prices) - best
    quota = weighted_quota(agreement, result.released, certificate.weights)
    plans = [
        plan_within(data, amounts(agreement, row, k))
        for k, (data, row) in enumerate(zip(instance.data, quota, strict=True))
    ]
    earned = math.fsum(plan.utility if plan else -math.inf for plan in plans)
    for what, loss in (("prices", over), ("quotas", best - earned)):
        figures.note(
            f"loss less certificate, {what}, of the optimum", _part(loss, certificate, best)
        )
        if not loss <= certificate.bound + stake:
            raise AssertionError(f"{where}: {what} lose {loss}, certified {certificate.bound}")


def _part(loss: float, certificate: Certificate, best: float) -> float:
    return (loss - certificate.bound) / abs(best)


def check_gains(
    result: Outcome,
    instance: Instance,
    given: list[Allocation],
    figures: Figures,
    where: str,
    *,
    liar: int | None = None,
    more: float = 0.0,
) -> None:
    """No company is worse off than alone by more than the certificate, Theorem 8.

    Beside a liar the others may lose `more`, Theorem 9 (d). What the liar loses is not checked.
    """
    certificate, agreement = result.certificate, result.agreement
    excess = max(result.trade.excess) if result.trade else 0.0
    for k, (data, own) in enumerate(zip(instance.data, given, strict=True)):
        if k == liar:
            continue
        found = settle(data, result, agreement.members[k].name, own)
        if result.no_trade and (own.payment or (own.quota != result.endowment[k]).any()):
            raise AssertionError(f"{where}: no trade, but member {k} gets or pays something")
        if found.alone is None:
            continue
        if found.within_quota is None:
            raise AssertionError(f"{where}: member {k} has a plan alone and none in its quota")
        bound = 0.0 if result.no_trade or certificate is None else certificate.bound + more
        bound += excess * (result.worth + abs(found.within_quota.utility))
        stake = CLOSE * (abs(found.alone.utility) + abs(own.payment) + result.worth)
        loss = -(found.gain or 0.0)
        figures.note("loss of a company less certificate, in money", loss - bound)
        if loss > bound + stake:
            raise AssertionError(f"{where}: member {k} loses {loss}, allowed {bound}")


def total_excess(result: Outcome) -> list[float]:
    """By how much averaged totals exceed each capacity, from the releases themselves."""
    whole = sum(result.weights) * result.agreement.ticks
    return [s / whole - 1.0 for s in weighted_sums(result.weights, result.totals)]


SESSIONS = {"honest": honest_session, "small": small_session}


def main() -> None:
    kind, count = sys.argv[1], int(sys.argv[2])
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    figures = Figures()
    for seed in range(first, first + count):
        SESSIONS[kind](seed, figures)
    for name, number in sorted(figures.kinds.items()):
        print(f"{number:6} {name}")
    for what, value in sorted(figures.worst.items()):
        print(f"worst {what}: {value:.3g}")
    print(f"{count} sessions: every promise held")


if __name__ == "__main__":
    main()
