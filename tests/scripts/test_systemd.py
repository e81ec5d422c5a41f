"""The systemd units in the tree are valid, and name commands and options that exist."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.commands import run_module
from tests.support.wait import LIMIT

FOLDER = ROOT / "scripts" / "systemd"
UNITS = sorted(path for path in FOLDER.iterdir() if path.suffix in (".service", ".timer"))


def settings(unit: Path) -> dict[str, str]:
    """The settings of a unit by section and key; each is stated once."""
    section, found = "", dict[str, str]()
    for line in unit.read_text().replace("\\\n", " ").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            key, equals, value = line.partition("=")
            assert equals, line
            assert found.setdefault(f"{section}.{key}", value) == value
    return found


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    """`systemd-analyze verify` has nothing to say about them."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed here")
    for unit in UNITS:
        text = unit.read_text().replace("User=sotto\n", "")  # no such user here
        (tmp_path / unit.name).write_text(text.replace("/opt/sotto/bin", str(tmp_path / "bin")))
    (tmp_path / "bin").mkdir()
    for name in ("party", "coordinator"):
        (tmp_path / "bin" / name).symlink_to(Path(sys.executable).parent / name)
    shutil.copy(FOLDER / "sotto-week", tmp_path / "bin")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, sorted(tmp_path.glob("sotto-*")))],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if "sotto" in line]
    assert (done.returncode, ours) == (0, []), done.stderr


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_units_are_well_formed(unit: Path) -> None:
    """Every line is a comment, a section or a setting; a service says what it starts."""
    found = settings(unit)
    if unit.suffix == ".timer":
        assert found["Timer.Persistent"] == "true"
        return
    assert found["Service.ExecStart"].startswith("/opt/sotto/bin/")
    assert found["Service.UMask"] == "0077"
    assert found["Service.LimitCORE"] == "0"


def test_units_give_options_that_exist() -> None:
    """Every option in a unit or script is one of the command that it is for."""
    texts = {
        ("party", "join"): settings(FOLDER / "sotto-party.service")["Service.ExecStart"],
        ("coordinator", "next"): (FOLDER / "sotto-week").read_text(),
    }
    for command, text in texts.items():
        shown = run_module(*command, "--help").stdout
        if command[0] == "coordinator":
            shown += run_module("coordinator", "serve", "--help").stdout
        for option in re.findall(r"(?<= )--[a-z-]+", text):
            assert option in shown, option


def test_no_restart_depends_on_private_data() -> None:
    """Code 30 says something about the model, so systemd must not start the party again."""
    kept = settings(FOLDER / "sotto-party.service")["Service.RestartPreventExitStatus"].split()
    assert "30" in kept
    assert not {"0", "20", "21", "130"} & set(kept)
