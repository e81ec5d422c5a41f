"""Sessions with hard numbers: money of all sizes, and random concave companies.

`python -m tests.party.settlement.robustness money|concave [COUNT] [FIRST SEED]` runs many and
prints how many companies end without a plan. With `money`, what they earn is compared with a joint
solve.
"""

import math
import sys

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from party.model.best_response import subproblem
from party.model.company_model import CompanyModel, dense
from party.model.linear_program import Quadratic, column_wise
from party.model.scaling import Scale
from party.rehearsal.in_process import players, run
from party.release.allocation import own_allocation
from party.settlement.settle import settle
from protocol.agreement.parse import from_table
from protocol.errors import BadData
from protocol.numeric import Floats
from protocol.outcome.outcome import outcome
from scripts.lab.common.agreements import players as roster
from scripts.lab.common.instances import Instance, central, draw

MONEY = (-6, -3, 0, 3, 6, 9, 10)
"""The exponents of the sizes of money."""


class Count(Struct, frozen=True):
    """What became of the companies of a session."""

    companies: int
    without_plan: int = 0
    refused: int = 0
    #: 1 if no plans fit together, which a joint solve proves: then a refusal is right.
    impossible: int = 0
    #: What the plans earn less than a joint solve, as a fraction of it.
    lost: float = math.nan


def in_money(instance: Instance, factor: float) -> Instance:
    """The same companies, with another unit of money."""
    return replace(
        instance,
        data=tuple(
            Scale(np.ones(d.resources), factor, np.ones(d.private_rows)).applied(d)
            for d in instance.data
        ),
    )


def played(instance: Instance, best: float | None = None) -> Count:
    """Run a session of these companies, and settle it for each of them."""
    agreement = from_table(
        {
            "session": "robust",
            "mode": "exact",
            "rounds": 150,
            "resource": [
                {"name": f"r{j}", "capacity": c} for j, c in enumerate(instance.capacity.tolist())
            ],
            "member": roster(len(instance.data)),
            "rehearsal": True,
        }
    )
    names = [member.name for member in agreement.members]
    count = Count(len(names))
    pairs = list(zip(instance.data, names, strict=True))
    try:
        problems = [subproblem(data, agreement, name) for data, name in pairs]
    except BadData:
        return replace(count, refused=1) if possible(instance) else replace(count, impossible=1)
    with players(agreement, problems, 1) as members:
        run(members)
        known = outcome(agreement, members[0].ledger.transcript())
        settled = [
            settle(data, known, name, own_allocation(known, name, member.ledger))
            for (data, name), member in zip(pairs, members, strict=True)
        ]
    earned = [s.within_quota.utility for s in settled if s.within_quota is not None]
    lost = math.nan
    if best is not None and len(earned) == len(names):
        lost = 1.0 - math.fsum(earned) / best
    return replace(count, without_plan=len(names) - len(earned), lost=lost)


def possible(instance: Instance) -> bool:
    """Whether plans of all companies fit together. Only a proof of HiGHS says that none do."""
    data = tuple(replace(d, utility=0.0 * d.utility, quadratic=None) for d in instance.data)
    try:
        central(replace(instance, data=data))
    except ValueError as error:
        return "Infeasible" not in str(error)
    return True


def at_money(exponent: int, seed: int) -> Count:
    """Ten companies as in the paper, half of the sessions with minimum demands."""
    instance = draw(seed, parties=10, demands=seed % 2 == 0)
    factor = 10.0 ** (exponent - 2)  # the paper's objectives are about 100
    return played(in_money(instance, factor), factor * central(instance).utility)


def concave(seed: int) -> Instance:
    """Companies with concave objectives, equations, free columns, and numbers of many sizes."""
    rng = np.random.default_rng([seed, 77])
    parties, resources = int(rng.integers(2, 8)), int(rng.integers(1, 6))
    capacity = rng.uniform(10.0, 20.0, resources) * 10.0 ** rng.integers(-4, 5, resources)
    data = tuple(_concave(rng, capacity / parties) for _ in range(parties))
    return Instance(capacity, np.ones((parties, resources)), data)


def _concave(rng: np.random.Generator, unit: Floats) -> CompanyModel:
    n, r = int(rng.integers(2, 30)), int(rng.integers(0, 8))
    equations = int(rng.integers(0, 3)) if n > 6 else 0
    shape = (len(unit), n)
    A = rng.uniform(0.0, 5.0, shape) * (rng.random(shape) < 0.6) * unit[:, None]
    B = rng.normal(0.3, 1.0, (r + equations, n)) * (rng.random((r + equations, n)) < 0.5)
    inner = rng.uniform(0.0, 1.0, n) / n  # a plan of which all companies together can have one
    size = 10.0 ** rng.integers(-2, 4)
    at = B @ inner
    slack = np.concatenate([rng.uniform(0.1, 3.0, r), np.zeros(equations)])
    least = np.concatenate([np.full(r, -math.inf), at[r:]])
    upper = np.where(rng.random(n) < 0.7, rng.uniform(1.0, 5.0, n), math.inf)
    lower = np.where(rng.random(n) < 0.2, inner, 0.0)
    lower = np.where(rng.random(n) < 0.1, -math.inf, lower)
    utility = rng.uniform(-20.0, 150.0, n)
    root = rng.normal(0.0, 3.0, (n, n)) * (rng.random((n, n)) < 0.4 * rng.random())
    curvature = rng.uniform(0.0, 30.0, n) * (rng.random(n) < 0.6)
    unlimited = np.isinf(upper) | np.isinf(lower)  # these need curvature of their own
    Q = -(root @ root.T) - np.diag(curvature + unlimited * rng.uniform(1.0, 20.0, n))
    money = 10.0 ** rng.integers(-3, 7)
    data = dense(
        A=A,
        B=size * B,
        u=money * utility,
        row_lower=size * least,
        row_upper=size * (at + slack),
        lower=lower,
        upper=upper,
    )
    column, row = np.nonzero(np.tril(Q).T)
    return replace(data, quadratic=Quadratic(**column_wise(n, column, row, money * Q[row, column])))


def main() -> None:
    what, numbers = sys.argv[1], [int(number) for number in sys.argv[2:]]
    count, first = (numbers + [12 if what == "money" else 200, 0][len(numbers) :])[:2]
    seeds = range(first, first + count)
    if what == "money":
        for exponent in MONEY:
            counts = [at_money(exponent, seed) for seed in seeds]
            print(f"money of 10^{exponent}: {_line(counts)}", flush=True)
        return
    counts = [played(concave(seed)) for seed in seeds]
    wrong = [seed for seed, c in zip(seeds, counts, strict=True) if c.without_plan or c.refused]
    print(f"concave: {_line(counts)}, seeds {wrong}")


def _line(counts: list[Count]) -> str:
    lost = max((c.lost for c in counts if not math.isnan(c.lost)), default=math.nan)
    impossible = sum(c.impossible for c in counts)
    return (
        f"{sum(c.without_plan for c in counts)} of {sum(c.companies for c in counts)} companies "
        f"without a plan, {sum(c.refused for c in counts)} of {len(counts)} sessions refused, "
        f"{impossible} without joint plans, at most {lost:.1e} lost"
    )


if __name__ == "__main__":
    main()
