"""`scripts/bench large`: one company with a very large model, from `party check` to its plan.

Real processes and a real file. The table shows CPU and memory of each command, and the ratio to
solving the model once in this process with the interior-point method.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import highspy
import numpy as np
from rich.console import Console
from rich.table import Table

from scripts.lab.common.local_session import environment
from scripts.lab.common.ports import reserve

COLUMNS, FEW = 100_000, 5_000
METHODS = {"simplex": "one solve, simplex method", "ipm": "one solve, interior-point method"}
A_ROW = 100
"""Columns that share one private row of the company."""


def written(path: Path, columns: int, seed: int) -> None:
    """Write a model as a modelling tool would: two shared rows and many private ones."""
    rng = np.random.default_rng(seed)
    rows = max(1, columns // A_ROW)
    profit, hours, docks, own = (rng.uniform(low, 5.0, columns) for low in (1.0, 0.1, 0.1, 0.5))
    with path.open("w") as file:
        file.write("NAME large\nROWS\n N profit\n L hours\n L docks\n")
        file.writelines(f" L row{i}\n" for i in range(rows))
        file.write("COLUMNS\n")
        for j in range(columns):
            file.write(f" x{j} profit {-profit[j]:.6f} hours {hours[j]:.6f}\n")
            file.write(f" x{j} docks {docks[j]:.6f} row{j % rows} {own[j]:.6f}\n")
        file.write("RHS\n rhs hours 1e9 docks 1e9\n")
        file.writelines(f" rhs row{i} {0.3 * A_ROW}\n" for i in range(rows))
        file.write("ENDATA\n")


def took(folder: Path, *words: str) -> dict[str, float]:
    """CPU seconds and peak megabytes of a command and its children."""
    process = subprocess.Popen(
        [sys.executable, "-m", *words], cwd=folder, env=environment(), stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {process.returncode}")
    return {"cpu": usage.ru_utime + usage.ru_stime, "megabytes": usage.ru_maxrss / 1024.0}


def large(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    columns = FEW if options.quick else COLUMNS
    with tempfile.TemporaryDirectory() as name:
        figures = _measured(Path(name), columns, options.seed)
    table = Table("command", "CPU, s", "memory, MB", "times one solve", title=f"{columns} columns")
    for command, (cpu, megabytes) in {k: tuple(v.values()) for k, v in figures.items()}.items():
        ratio = cpu / figures[METHODS["ipm"]]["cpu"]
        table.add_row(
            command, f"{cpu:.1f}", f"{megabytes:.0f}" if megabytes else "", f"{ratio:.1f}"
        )
    console.print(table)
    return {"columns": columns, **figures}


def _measured(folder: Path, columns: int, seed: int) -> dict[str, dict[str, float]]:
    for name, count in (("acme", columns), ("bolt", columns // 100)):
        took(folder, "party", "keygen", name)
        written(folder / f"{name}.mps", count, seed)
    supply = 0.2 * columns
    took(
        folder, "coordinator", "new", "--session", "large", "--mode", "exact",
        "--resource", f"hours={supply}", "--resource", f"docks={supply}", "--patience", "3600",
        "--member", "acme.member.toml", "--member", "bolt.member.toml", "--key", "coordinator.key",
        "--address", f"tcp://127.0.0.1:{reserve(2)}",
    )  # fmt: skip
    agreed = ("--agreement", "agreement.toml")
    figures = {
        name: _solved(folder / "acme.mps", supply, method) for method, name in METHODS.items()
    }
    figures["party check"] = took(
        folder, "party", "check", *agreed, "--data", "acme.mps", "--as", "acme"
    )
    others = [
        ("coordinator", "serve", *agreed, "--key", "coordinator.key"),
        ("party", "join", *agreed, "--data", "bolt.mps", "--key", "bolt.key", "--out", "bolt"),
    ]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=folder, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for words in others
    ]  # fmt: skip
    try:
        figures["party join, to its files"] = took(
            folder, "party", "join", *agreed, "--data", "acme.mps", "--key", "acme.key",
            "--out", "acme",
        )  # fmt: skip
    finally:
        for process in started:
            process.terminate()
            process.wait()
    return figures


def _solved(model: Path, supply: float, method: str) -> dict[str, float]:
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("solver", method)
    solver.readModel(str(model))
    for row in (0, 1):
        solver.changeRowBounds(row, -highspy.kHighsInf, supply)
    began = time.process_time()
    solver.run()
    return {"cpu": time.process_time() - began, "megabytes": 0.0}
