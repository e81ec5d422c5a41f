"""The `party` command line: help that teaches, and options by their present names only."""

import subprocess
import sys

import pytest

from protocol.agreement.schema import WAIT_SECONDS
from scripts.lab.common.local_session import environment
from tests.support.wait import LIMIT


def party(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "party", *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


@pytest.mark.parametrize(
    "command",
    ["keygen", "check", "join", "rehearse", "result", "abandon", "budget", "backup", "restore"],
)
def test_help_has_an_example_and_exit_codes(command: str) -> None:
    """Each command shows how it is called and which exit codes it has."""
    shown = party(command, "--help")
    assert shown.returncode == 0
    assert f"\n  party {command} " in shown.stdout
    assert "\nexit codes:\n  0 " in shown.stdout


def test_a_party_waits_a_day_for_people() -> None:
    """Patience is for silence between rounds; before the first one, members come when they come."""
    assert WAIT_SECONDS == 24 * 3600.0
    assert "first round closes: 10m, 2h, 1d or seconds (1d)" in " ".join(
        party("join", "--help").stdout.split()
    )


def test_former_names_of_options_are_refused() -> None:
    """The options for models with integers have one name each."""
    usage = party("join", "--help").stdout
    assert "--mip-gap" in usage
    assert "--mip-time-limit" in usage
    for option in ("--gap", "--solve-seconds"):
        arguments = ("--agreement", "a", "--data", "b", "--key", "c", option, "1")
        refused = party("join", *arguments)
        assert (refused.returncode, "unrecognized arguments" in refused.stderr) == (2, True)
