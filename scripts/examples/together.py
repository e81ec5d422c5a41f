"""Plays a session of several companies' models in this process, and solves the joint problem.

The joint optimum needs every model, which no company has: it only judges the result. Nothing here
uses a network or spends a budget.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from party.model import company_model
from party.model.best_response import MipLimits, subproblem
from party.model.company_model import CompanyModel
from party.model.shared_rows import row_map
from party.rehearsal.in_process import players, run
from party.release.allocation import own_allocation
from party.settlement.settle import Settlement, settle
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.agreement.quantities import quantities
from protocol.outcome.outcome import Outcome, outcome
from scripts.lab.common.agreements import public_key
from scripts.lab.common.instances import Instance, central

LIMITS = MipLimits(gap=0.0)


class Example(Struct, frozen=True, kw_only=True):
    """Companies that share resources. The terms of a member may have its share and its floor."""

    resources: list[dict[str, Any]]
    #: The models by company, built when they are needed.
    models: Callable[[], Mapping[str, Any]]
    #: The row of each resource that has another name in the models.
    rows: Mapping[str, str | None] | None = None
    #: The terms of every member.
    terms: Mapping[str, Any] | None = None
    currency: str = "EUR"

    def agreement(self, names: list[str]) -> Agreement:
        """The terms for a session in one process, where only totals can be read."""
        terms = dict(self.terms or {})
        return from_table(
            {
                "session": "together",
                "mode": "exact",
                "reveal": "totals",
                "rounds": 300,
                "currency": self.currency,
                "rehearsal": True,
                "resource": self.resources,
                "member": [
                    {"name": name, "signing_key": public_key(name), **terms} for name in names
                ],
            }
        )


class Played(Struct, frozen=True):
    """A session that has ended, each company's settlement, and the joint optimum."""

    outcome: Outcome
    settlements: dict[str, Settlement]
    best: float

    @property
    def earned(self) -> float:
        """What all plans earn together; NaN if a company has none."""
        plans = [s.within_quota for s in self.settlements.values()]
        return math.fsum(math.nan if p is None else p.utility for p in plans)

    @property
    def lost(self) -> float:
        """What the plans earn less than the joint optimum, as a fraction of it."""
        return (self.best - self.earned) / abs(self.best)


def play(example: Example, agreement: Agreement | None = None) -> Played:
    """Run a session of the example to its end, and settle it for every company.

    The agreement may also come from a file, with these companies as its members.
    """
    models = example.models()
    agreement = agreement or example.agreement(list(models))
    rows = row_map(example.rows)
    data = {name: company_model.read(model, agreement, rows) for name, model in models.items()}
    problems = [subproblem(d, agreement, name, LIMITS) for name, d in data.items()]
    with players(agreement, problems, 1) as members:
        run(members)
        known = outcome(agreement, members[0].ledger.transcript())
        settlements = {
            name: settle(
                d, known, name, own_allocation(known, name, member.ledger), mip_limits=LIMITS
            )
            for (name, d), member in zip(data.items(), members, strict=True)
        }
    return Played(known, settlements, joint_optimum(agreement, tuple(data.values())))


def joint_optimum(agreement: Agreement, data: tuple[CompanyModel, ...]) -> float:
    """What the companies could earn together if one of them knew all models."""
    public = quantities(agreement)
    capacity = np.array([r.capacity for r in agreement.resources])
    return central(Instance(capacity, public.share, data, floor=public.floor)).utility


def show(example: Example) -> None:
    """Play the example and print what each company gains."""
    played, currency = play(example), example.currency
    print(f"{'company':12} {'alone':>12} {'together':>12} {'payment':>12} {'gain':>12}")
    for name, own in played.settlements.items():
        plans = [None if plan is None else plan.utility for plan in (own.alone, own.within_quota)]
        texts = ["none" if value is None else f"{value:,.2f}" for value in (*plans, own.payment)]
        gain = "-" if own.gain is None else f"{own.gain:,.2f}"
        print(f"{name:12} " + " ".join(f"{text:>12}" for text in (*texts, gain)))
    print(
        f"{played.outcome.rounds} rounds; together {played.earned:,.2f} {currency}, "
        f"{max(played.lost, 0.0):.3%} below the joint optimum. A negative payment is received."
    )
