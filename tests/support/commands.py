"""Runs commands of this project as an operator would, and captures their output."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.lab.common.local_session import environment as session_environment
from tests.support import ROOT
from tests.support.wait import LIMIT


def run_command(
    command: Sequence[object],
    *,
    folder: Path = ROOT,
    check: bool = False,
    seconds: float = LIMIT,
    environment: Mapping[str, str] | None = None,
) -> "subprocess.CompletedProcess[str]":
    """Run a command in `folder` for at most `seconds`. With `check`, raise if it fails.

    Its environment is that of a session, unless another one is given.
    """
    return subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=session_environment() if environment is None else environment,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=check,
    )


def run_module(
    *arguments: object, folder: Path = ROOT, check: bool = False
) -> "subprocess.CompletedProcess[str]":
    """Run `python -m` with these arguments."""
    return run_command([sys.executable, "-m", *arguments], folder=folder, check=check)
