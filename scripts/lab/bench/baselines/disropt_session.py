"""DISROPT's dual subgradient method on the companies of a session; runs under mpirun.

The nearest alternative for a user: each agent solves its linear program at its prices, all agents
exchange prices, and nothing is signed, hidden, stored or checked. Needs only disropt and numpy, in
any interpreter. The companies are the files that the parties of the session read.
"""

import json
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
from disropt.agents import Agent
from disropt.algorithms import DualSubgradientMethod
from disropt.functions import Variable
from disropt.problems import ConstraintCoupledProblem
from mpi4py import MPI

STEP = 0.1
WARM_UP = 40
"""Python's garbage collector runs in one of these rounds, and hardly ever after them."""


def problem(home: Path, capacity: Any, parties: int) -> Any:
    """One company: its model, the capacities as limits, and its row of the coupling."""
    with np.load(home / "model.npz") as model:
        A, B, b, u, lower = (model[key] for key in ("A", "B", "b", "u", "lower"))
    x = Variable(len(u))
    column = (-1, 1)
    return ConstraintCoupledProblem(
        objective_function=(-u.reshape(column)) @ x,
        constraints=[
            B.T @ x <= b.reshape(column),
            A.T @ x <= capacity.reshape(column),
            x >= lower.reshape(column),
        ],
        coupling_function=A.T @ x - (capacity / parties).reshape(column),
    )


def main(folder: Path, rounds: int) -> None:
    world = MPI.COMM_WORLD
    parties, rank = world.Get_size(), world.Get_rank()
    agreement = tomllib.loads((folder / "agreement.toml").read_text())
    capacity = np.array([r["capacity"] for r in agreement["resource"]])
    others = [k for k in range(parties) if k != rank]
    agent = Agent(list(others), list(others), in_weights=[1.0 / parties] * parties)
    agent.set_problem(problem(folder / f"party{rank + 1}", capacity, parties))
    method = DualSubgradientMethod(agent, initial_condition=np.zeros((len(capacity), 1)))
    world.Barrier()
    ready_at = time.time()
    method.run(iterations=WARM_UP, stepsize=STEP)
    world.Barrier()
    began = time.perf_counter()
    method.run(iterations=rounds, stepsize=STEP)
    world.Barrier()
    if rank == 0:
        pace = rounds / (time.perf_counter() - began)
    prices = np.mean(world.allgather(method.x.ravel()), axis=0)
    if rank == 0:
        figures = {"rounds_per_second": pace, "ready_at": ready_at, "prices": prices.tolist()}
        print(json.dumps(figures))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
