"""What companies on macOS and Windows run: everything before and after a session.

The commands run here on a Linux that lacks what only Linux or POSIX has. A session itself needs
Linux.
"""

import sys
from pathlib import Path

import pytest

from scripts.lab.common.local_session import environment
from tests.support.commands import run_command
from tests.support.local_sessions import RunningSession, options
from tests.support.wait import LIMIT

ELSEWHERE = """
import ctypes, os, signal, sys

for module in ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"):
    sys.modules[module] = None  # importing it fails

library = ctypes.CDLL

def load(name, *arguments, **options):  # a C library without prctl
    return object() if name is None else library(name, *arguments, **options)

ctypes.CDLL = load
for name in ("chown", "fork", "geteuid", "getuid", "sched_yield", "statvfs", "O_NOFOLLOW"):
    delattr(os, name)
for name in ("SIGCONT", "SIGHUP", "SIGKILL", "SIGSTOP", "SIGUSR1"):
    delattr(signal, name)
"""
"""Python runs this first in every process, as the module `sitecustomize`."""

AGREED = ("--agreement", "agreement.toml")
MODEL = ("--data", "party1/model.npz")
CLAIMED = ("party", "claim", *AGREED, "--key", "party1/party1.key", "--payment")
SETTLED = ("protocol", "settle", *AGREED, "--transcript", "session.transcript", "party1.claim")

COMMANDS = {
    "keygen": ("party", "keygen", "newcomer"),
    "plan": ("protocol", "plan", "agreement.toml", "--html", "plan.html"),
    "diff": ("protocol", "diff", "agreement.toml", "agreement.toml"),
    "check": ("party", "check", *AGREED, *MODEL, "--as", "party1", "--key", "party1/party1.key"),
    "rehearse": ("party", "rehearse", *AGREED, *MODEL, "--as", "party1", "--sessions", "1"),
    "audit": ("protocol", "audit", "session.transcript", *AGREED),
    "claim": (*CLAIMED, "--out", "another.claim"),
    "settle": (*SETTLED, "--out", "settled"),
}
EXPECTED = {"settle": 25}  # two other members have not claimed


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished session, with one claim."""
    folder = tmp_path_factory.mktemp("played") / "s"
    chosen = options("--mode", "exact", "--reveal", "totals", rounds=20)
    with RunningSession(folder, chosen) as session:
        session.start()
        session.wait(LIMIT)
    (folder / "party1/out/session.transcript").rename(folder / "session.transcript")
    claim = [sys.executable, "-m", *CLAIMED, "--out", "party1.claim"]
    run_command(claim, folder=folder, check=True)
    return folder


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a machine that lacks what POSIX has."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "sitecustomize.py").write_text(ELSEWHERE)
    found = environment()
    return found | {"PYTHONPATH": f"{folder}:{found['PYTHONPATH']}"}


@pytest.mark.parametrize("missing", ["import fcntl", "import ctypes; ctypes.CDLL(None).prctl"])
def test_the_other_machine_lacks_it(elsewhere: dict[str, str], missing: str) -> None:
    """Otherwise the test below would show nothing."""
    assert run_command([sys.executable, "-c", missing]).returncode == 0
    assert run_command([sys.executable, "-c", missing], environment=elsewhere).returncode == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_needs_nothing_of_posix(
    played: Path, elsewhere: dict[str, str], name: str
) -> None:
    """It ends as it does on Linux."""
    command = [sys.executable, "-m", *COMMANDS[name]]
    done = run_command(command, folder=played, environment=elsewhere)
    assert done.returncode == EXPECTED.get(name, 0), done.stdout + done.stderr
    assert "Traceback" not in done.stderr
