"""Lies that no check can find: the answers of another company, and what they bring the liar.

Every lie here is a best response of some company, so the answers never contradict each other. The
sessions are `protocol.planning.synthetic_market.play` with real models; the first member of the
roster lies. All data are invented.
"""

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from party.model.best_response import responder
from party.model.company_model import CompanyModel
from party.settlement.settle import plan_within
from protocol.agreement.endowment import endowment
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import amounts, quantities
from protocol.numeric import Floats, Ticks
from protocol.outcome.outcome import Outcome
from protocol.planning.synthetic_market import play, split
from scripts.lab.common.instances import Instance, central

LIAR = 0
"""The liar's place in the roster."""


class Lie(Struct, frozen=True):
    """The company for which a member answers, compared with its own. All ones: the truth."""

    #: Every product earns this many times as much.
    values: float = 1.0
    #: Every private limit and bound is this many times as large.
    size: float = 1.0
    #: It trades this fraction of what it would: it must use the rest of its endowment itself.
    trade: float = 1.0
    #: Consumption of one resource: its place, and the factor.
    uses: tuple[int, float] = (0, 1.0)

    def told(self, data: CompanyModel) -> CompanyModel:
        """The model that the member answers for, except for `trade`."""
        place, factor = self.uses
        return replace(
            data,
            utility=self.values * data.utility,
            value=np.where(data.index == place, factor * data.value, data.value),
            **{
                name: self.size * getattr(data, name)
                for name in ("lower", "upper", "row_lower", "row_upper")
            },
        )

    def __str__(self) -> str:
        parts = [f"{name} × {part:g}" for name, part in self._factors if part != 1.0]
        return ", ".join(parts) or "the truth"

    @property
    def _factors(self) -> list[tuple[str, float]]:
        place, factor = self.uses
        named = [("values", self.values), ("size", self.size), ("trade", self.trade)]
        return [*named, (f"use of resource {place + 1}", factor)]


TRUTH = Lie()


def grid(resources: int) -> list[Lie]:
    """The lies that are tried."""
    values = (0.5, 0.7, 0.85, 0.95, 1.0, 1.05, 1.2, 1.5)
    found = [Lie(values=v, trade=t) for v in values for t in (1.0, 0.65)]
    found += [Lie(trade=t) for t in (0.85, 0.4)]
    found += [Lie(size=s) for s in (0.6, 0.85, 1.2)]
    found += [Lie(uses=(j, factor)) for j in range(resources) for factor in (0.8, 1.25)]
    return [lie for lie in found if lie != TRUTH]


class Answers:
    """Companies that answer prices with best plans of their models. The first may lie."""

    def __init__(self, agreement: Agreement, data: Sequence[CompanyModel], lie: Lie) -> None:
        terms = quantities(agreement)
        models = [lie.told(data[LIAR]), *data[1:]]
        names = [member.name for member in agreement.members]
        self._capacity, self._floor, self._trade = terms.capacity, terms.floor, lie.trade
        self._brought = endowment(agreement)[LIAR] / agreement.ticks
        self._problems = [
            responder(model, agreement, name) for model, name in zip(models, names, strict=True)
        ]

    def demand(self, y: Floats) -> Floats:
        """What each company asks for at these prices, as fractions of the capacities."""
        answers = [problem.answer(y / self._capacity) for problem in self._problems]
        none = np.zeros_like(y)
        rows = [none if a is None else np.maximum(a.demand, 0.0) / self._capacity for a in answers]
        if self._trade != 1.0:
            rows[LIAR] = self._brought + self._trade * (rows[LIAR] - self._brought)
        return np.array(rows)


class Played(Struct, frozen=True):
    """A session to its end."""

    outcome: Outcome
    #: Rounds by members by resources, without noise.
    demands: Ticks
    data: tuple[CompanyModel, ...]

    @classmethod
    def of(
        cls, agreement: Agreement, data: Sequence[CompanyModel], lie: Lie, number: int
    ) -> "Played":
        """Play it. The noise depends on the agreement and the number, not on the lie."""
        return cls(*play(agreement, Answers(agreement, data, lie), number), tuple(data))

    def under(self, agreement: Agreement) -> "Played":
        """The same rounds without noise, settled by another agreement with the same prices."""
        return replace(self, outcome=replace(self.outcome, agreement=agreement))

    def nets(self, rows: Sequence[int]) -> list[float]:
        """What these members truly earn within their quotas, less their payments."""
        agreement, (quota, payments) = self.outcome.agreement, split(self.outcome, self.demands)
        return [_earns(self.data[k], agreement, k, quota[k]) - float(payments[k]) for k in rows]

    def bound(self) -> float:
        """What the certificate leaves open, in money; 0 if there is none."""
        found = self.outcome.certificate
        return 0.0 if found is None else found.bound


def alone(agreement: Agreement, data: CompanyModel, row: int) -> float:
    """What a member earns with its endowment, without any session."""
    return _earns(data, agreement, row, endowment(agreement)[row])


def _earns(data: CompanyModel, agreement: Agreement, row: int, ticks: Ticks) -> float:
    plan = plan_within(data, amounts(agreement, ticks, row))
    return -math.inf if plan is None else plan.utility


def added(instance: Instance, agreement: Agreement) -> float:
    """How much more all companies earn together because the first takes part.

    OPT − OPT of the others with their own endowments: after payments no consistent lie leaves the
    liar more (docs/incentives.md, Theorem 2).
    """
    brought = amounts(agreement, endowment(agreement)[LIAR], LIAR)
    left = instance.capacity - brought
    most = np.minimum(instance.share[1:] * instance.capacity, left)
    share = most / np.where(left > 0.0, left, 1.0)
    others = Instance(left, share, instance.data[1:])
    return central(instance).utility - central(others).utility
