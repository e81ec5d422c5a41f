"""Problems drawn as in Section 3.1 of the paper, and their central optimum.

The central optimum needs every data set, which no party has. It judges simulations and must never
choose a parameter.
"""

import math
from typing import Any

import highspy
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from party.model.best_response import USUAL, MipLimits, Subproblem, found, loaded
from party.model.company_model import CompanyModel, dense
from party.model.highs_program import model
from party.model.linear_program import Quadratic
from protocol.numeric import Floats

RESOURCES = 5


class Instance(Struct, frozen=True):
    """The capacities, each party's share of them (parties by resources) and its model.

    `names` are the names of the resources, if they have any. `floor` (parties by resources, in
    units) is the least that each party is given, and may be negative; shares are then of what is
    above all floors. `opposites` names the resource that a resource is the other side of, or is
    empty.
    """

    capacity: Floats
    share: Floats
    data: tuple[CompanyModel, ...]
    names: tuple[str, ...] = ()
    floor: Floats | None = None
    opposites: tuple[str, ...] = ()

    @property
    def bands(self) -> tuple[Floats, Floats]:
        """Parties by resources: the least and the most of each capacity, in units."""
        if self.floor is None:
            return np.zeros_like(self.share), self.share * self.capacity
        return self.floor, self.floor + self.share * (self.capacity - self.floor.sum(axis=0))

    def subproblems(self) -> list[Subproblem]:
        return [
            Subproblem(d, most, floor=least)
            for d, least, most in zip(self.data, *self.bands, strict=True)
        ]


class Optimum(Struct, frozen=True):
    """The best total utility, the plan of each party and the best prices.

    With integer columns `utility` is the proved upper bound, and there are no prices.
    """

    utility: float
    plans: tuple[Floats, ...]
    prices: Floats


def draw(
    seed: int,
    *,
    parties: int,
    share_first: float | None = None,
    share_total: float | None = None,
    demands: bool = True,
    resources: int = RESOURCES,
) -> Instance:
    """One instance. The same arguments give the same instance."""
    rng = np.random.default_rng([seed, parties])
    capacity = rng.uniform(10.0, 20.0, resources)
    data = tuple(_draw_data(rng, resources) for _ in range(parties))
    share = _draw_shares(rng, parties, share_first, share_total)
    instance = Instance(capacity, np.repeat(share[:, None], resources, axis=1), data)
    return _with_demands(rng, instance) if demands else instance


KINDS = ("linear", "whole", "curved")
"""Kinds of drawn companies: as in the paper, knapsacks, or with concave objectives."""


def knapsacks(seed: int, *, parties: int, resources: int, things: int = 30) -> Instance:
    """Companies that choose among indivisible items, half of which fit together."""
    rng = np.random.default_rng([seed, parties, resources, things])
    data = tuple(_knapsack(rng, resources, things) for _ in range(parties))
    taken = sum((d.value.reshape(things, resources).sum(axis=0) for d in data), np.zeros(resources))
    return Instance(np.floor(taken / 2.0), np.ones((parties, resources)), data)


def _knapsack(rng: np.random.Generator, resources: int, things: int) -> CompanyModel:
    A = rng.integers(1, 20, (resources, things)).astype(float)
    data = dense(
        A=A,
        B=np.zeros((0, things)),
        u=10.0 * A.mean(axis=0) * rng.uniform(0.5, 1.5, things),
        row_lower=np.zeros(0),
        row_upper=np.zeros(0),
        lower=np.zeros(things),
        upper=np.ones(things),
    )
    return replace(data, integer=np.ones(things, dtype=np.bool_))


def curved(seed: int, *, parties: int, resources: int) -> Instance:
    """Companies as in the paper, whose products earn less for each further unit."""
    instance = draw(seed, parties=parties, resources=resources, demands=False)
    rng = np.random.default_rng([seed, parties, resources, 2])
    return replace(instance, data=tuple(_add_quadratic(rng, d) for d in instance.data))


def _add_quadratic(rng: np.random.Generator, data: CompanyModel) -> CompanyModel:
    """Adds −½ x·(D + F·F′) x: each product by itself, and some of them together."""
    n = data.columns
    root = rng.uniform(0.0, 3.0, (n, 3)) * (rng.random((n, 3)) < 0.5)
    Q = -np.diag(rng.uniform(5.0, 50.0, n)) - root @ root.T
    column, row = np.nonzero(np.tril(Q).T)
    start = np.concatenate([[0], np.cumsum(np.bincount(column, minlength=n))]).astype(np.int32)
    return replace(data, quadratic=Quadratic(start, row.astype(np.int32), Q[row, column]))


def placebo(instance: Instance, seed: int, *, demands: bool = True) -> Instance:
    """Other companies with the same capacities and shares, and unrelated models."""
    parties = len(instance.data)
    rng = np.random.default_rng([seed, parties, 1])
    resources = len(instance.capacity)
    other = replace(instance, data=tuple(_draw_data(rng, resources) for _ in range(parties)))
    return _with_demands(rng, other) if demands else other


def _with_demands(rng: np.random.Generator, instance: Instance) -> Instance:
    """Demands of 75 to 100 % of each product in the optimum without minimum demands."""
    plans = central(instance).plans
    return replace(
        instance,
        data=tuple(
            replace(d, lower=np.maximum(plan, 0.0) * rng.uniform(0.75, 1.0, d.columns))
            for d, plan in zip(instance.data, plans, strict=True)
        ),
    )


def _draw_data(rng: np.random.Generator, resources: int) -> CompanyModel:
    n, r = int(rng.integers(10, 21)), int(rng.integers(5, 11))
    return dense(
        A=rng.uniform(0.0, 5.0, (resources, n)),
        B=rng.uniform(0.0, 1.0, (r, n)),
        u=rng.uniform(50.0, 150.0, n),
        row_lower=np.full(r, -math.inf),
        row_upper=rng.uniform(0.0, 10.0, r),
        lower=np.zeros(n),
        upper=np.full(n, math.inf),
    )


def _draw_shares(
    rng: np.random.Generator, parties: int, first: float | None, total: float | None
) -> Floats:
    """Market shares: none, equal ones, or the first one given and the others random."""
    if total is None:
        share = np.ones(parties)
        if first is not None:
            share[0] = first
        return share
    if first is None:
        return np.full(parties, min(1.0, total / parties))
    for _ in range(10_000):
        weights = rng.uniform(0.1, 1.0, parties - 1)
        others = weights / weights.sum() * (total - first)
        if others.max() <= 1.0:
            return np.concatenate([[first], others])
    raise ValueError(
        f"{parties} parties cannot hold shares of {total:g} with the first at {first:g}"
    )


def _joint_hessian(instance: Instance, columns: int) -> highspy.HighsHessian | None:
    """The quadratic terms of all companies as one block matrix, if there are any."""
    if all(d.quadratic is None for d in instance.data):
        return None
    joint = highspy.HighsHessian()
    joint.dim_, joint.format_ = columns, highspy.HessianFormat.kTriangular
    start, index, value, first = [0], [], [], 0
    for d in instance.data:
        width = d.columns + d.resources
        if d.quadratic is None:
            start += [start[-1]] * width
        else:
            q = d.quadratic
            start += (q.start[1:] + start[-1]).tolist()
            start += [start[-1]] * d.resources
            index += (q.index + first).tolist()
            value += q.value.tolist()
        first += width
    joint.start_, joint.index_ = np.array(start, dtype=np.int32), np.array(index, dtype=np.int32)
    joint.value_ = np.array(value)
    return joint


def central(instance: Instance, mip_limits: MipLimits = USUAL) -> Optimum:
    """The joint problem with all data: max Σ u·x with Σ s ≤ c.

    With integer columns the plans are the best that were found.
    """
    blocks = [
        model(d, most, least) for d, least, most in zip(instance.data, *instance.bands, strict=True)
    ]
    m = len(instance.capacity)
    lp = highspy.HighsLp()
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.num_col_ = sum(b.num_col_ for b in blocks)
    lp.num_row_ = m + sum(b.num_row_ for b in blocks)
    for field in ("col_cost_", "col_lower_", "col_upper_"):
        setattr(lp, field, np.concatenate([np.array(getattr(b, field)) for b in blocks]))
    free = np.full(m, -math.inf)
    lp.row_lower_ = np.concatenate([free, *(np.array(b.row_lower_) for b in blocks)])
    lp.row_upper_ = np.concatenate([instance.capacity, *(np.array(b.row_upper_) for b in blocks)])
    start = [0]
    index: list[Any] = []
    value: list[Any] = []
    first_row = m
    for block in blocks:
        a = block.a_matrix_
        begins, rows, values = np.array(a.start_), np.array(a.index_), np.array(a.value_)
        for column in range(block.num_col_):
            entries = slice(begins[column], begins[column + 1])
            index.append(rows[entries] + first_row)
            value.append(values[entries])
            resource = column - (block.num_col_ - m)
            if resource >= 0:
                index.append([resource])
                value.append([1.0])
            start.append(start[-1] + (entries.stop - entries.start) + (resource >= 0))
        first_row += block.num_row_
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.array(start, dtype=np.int32)
    lp.a_matrix_.index_ = np.concatenate(index).astype(np.int32)
    lp.a_matrix_.value_ = np.concatenate(value)
    if any(d.integer is not None for d in instance.data):
        free_kind = highspy.HighsVarType.kContinuous
        kinds = [list(b.integrality_) or [free_kind] * b.num_col_ for b in blocks]
        lp.integrality_ = [kind for block in kinds for kind in block]
    solver = loaded(lp, _joint_hessian(instance, lp.num_col_), mip_limits)
    solver.run()
    if not found(solver):
        raise ValueError(
            f"the joint problem is {solver.modelStatusToString(solver.getModelStatus())}"
        )
    info, solution = solver.getInfo(), solver.getSolution()
    best = info.mip_dual_bound if lp.integrality_ else info.objective_function_value
    values, duals = np.array(solution.col_value), np.array(solution.row_dual)
    plans, first = [], 0
    for block, data in zip(blocks, instance.data, strict=True):
        plans.append(values[first : first + data.columns])
        first += block.num_col_
    return Optimum(
        utility=best + math.fsum(d.offset for d in instance.data),
        plans=tuple(plans),
        prices=np.abs(duals[:m]) if len(duals) else np.zeros(m),
    )


def dual_value(instance: Instance, subproblems: list[Subproblem], prices: Floats) -> float:
    """L(λ) = c·λ + Σ g_k(λ): never below the optimum, and equal to it at the best prices."""
    answers = [s.answer(prices) for s in subproblems]
    if any(a is None for a in answers):
        return math.inf
    return math.fsum([*(prices * instance.capacity), *(a.objective for a in answers if a)])
