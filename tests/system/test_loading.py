"""What each command loads: no library that it does not use, because that would slow its start."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.lab.common.local_session import environment, party_command
from tests.support.local_sessions import RunningSession, options
from tests.support.process_control import until_reported
from tests.support.wait import LIMIT

LARGE = {"asyncio", "highspy", "nacl", "numpy", "opendp", "rich", "sqlite3", "zmq"}
REPORTS = {"html", "party.settlement.private_report", "protocol.report", "xml"}
NOT_YET = {"numpy.ma", "protocol.outcome", "protocol.commitment.range_proof"}
OTHER_SESSIONS = {"party.model.ball_response", "party.model.lp_text", "party.model.mps_text"}


def modules(log: str) -> set[str]:
    """Every module in the output of `python -X importtime`, and every package of one."""
    loaded = re.findall(r"^import time:.*\| +(\S+)$", log, re.MULTILINE)
    return {name.rsplit(".", count)[0] for name in loaded for count in range(name.count(".") + 1)}


def loaded_by(*command: str) -> set[str]:
    """What a command loads that ends by itself."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *command],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=True,
    )
    return modules(done.stderr)


def loaded_to_wait(folder: Path, mode: str) -> set[str]:
    """What a party loads until it waits for the others, without a terminal."""
    chosen = options("--mode", mode)
    chosen.rehearsal = False  # with noise, it is real noise
    with RunningSession(folder, chosen) as session:
        role = ("-X", "importtime", "-m", "party")
        session.launch("party1", party_command(folder, "party1", session.options, role=role))
        until_reported(session, "party1", "waiting")
        session.processes["party1"].send_signal(signal.SIGTERM)
        session.processes["party1"].wait(LIMIT)
        return modules(session.stderr("party1"))


@pytest.mark.parametrize("command", ["party", "coordinator", "protocol"])
def test_help_loads_no_large_library(command: str) -> None:
    """`--help` needs the standard library only."""
    assert not loaded_by("-m", command, "--help") & LARGE


COUNT = """
import os
from protocol.runtime.cli import command_line
command_line("party", "")
import numpy
print(len(os.listdir("/proc/self/task")))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads as Linux does")
def test_a_command_starts_no_threads_for_matrices() -> None:
    """Starting them would take longer than all that they could save."""
    unset = {name: value for name, value in environment().items() if "_NUM_THREADS" not in name}
    done = subprocess.run(
        [sys.executable, "-c", COUNT],
        env=unset,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=True,
    )
    assert done.stdout == "1\n"


def test_an_exact_party_loads_no_sampler_no_tables_and_no_reports(tmp_path: Path) -> None:
    """A party without noise and without a terminal leaves out what it does not use, or not yet."""
    loaded = loaded_to_wait(tmp_path / "s", "exact")
    assert loaded & LARGE == {"highspy", "nacl", "numpy", "sqlite3", "zmq"}
    assert not loaded & (REPORTS | NOT_YET | OTHER_SESSIONS)


def test_a_party_with_noise_loads_its_sampler_before_it_connects(tmp_path: Path) -> None:
    """A paced release must not wait for a library."""
    assert "opendp.measurements" in loaded_to_wait(tmp_path / "s", "private")


def test_party_check_loads_no_sampler_and_no_reports(tmp_path: Path) -> None:
    """A check prepares a session and holds none."""
    with RunningSession(tmp_path / "s", options("--mode", "exact")) as session:
        folder = session.folder
        files = ("--agreement", folder / "agreement.toml", "--data", folder / "party1/model.npz")
        loaded = loaded_by("-m", "party", "check", *map(str, files), "--as", "party1")
    assert not loaded & {"asyncio", "opendp", "rich", *REPORTS}


def test_the_solver_loads_the_solver() -> None:
    """A solver process that begins as a new interpreter loads neither sockets nor the ledger."""
    assert loaded_by("-c", "import party.model.solver_process") & LARGE == {"highspy", "numpy"}
