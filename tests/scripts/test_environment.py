"""The project's own environment: what `scripts/environment` may change."""

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT


def _run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = root / "scripts" / "environment"
    return subprocess.run(
        [script, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("installed", ["nothing", "session"])
def test_an_environment_behind_a_link_is_not_changed(tmp_path: Path, installed: str) -> None:
    """A `.venv` that is a link is refused if it would have to change; if it fits, it is used."""
    root, other = tmp_path / "clone", tmp_path / "other"
    (root / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "environment", root / "scripts")
    for name in ("pyproject.toml", "constraints.txt"):
        (root / name).write_text(name)
    wanted = f"{hashlib.sha256(b'pyproject.tomlconstraints.txt').hexdigest()}  -"
    (other / "bin").mkdir(parents=True)
    (other / "installed").write_text(f"{wanted} {installed}\n")
    (root / ".venv").symlink_to(other)
    refused = _run(root, "echo", "done")
    assert refused.returncode == 2
    assert f"{root / '.venv'} is a symbolic link" in refused.stderr
    assert (root / ".venv").is_symlink()
    assert [path.name for path in sorted(other.iterdir())] == ["bin", "installed"]
    (other / "installed").write_text(f"{wanted} whole\n")
    assert _run(root, "echo", "done").stdout == "done\n"


def test_help_is_printed_and_sets_nothing_up(tmp_path: Path) -> None:
    """In a new clone `--help` is instant."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "environment", tmp_path / "scripts")
    done = _run(tmp_path, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Runs a command in the project's own virtual environment")
    assert [path.name for path in tmp_path.iterdir()] == ["scripts"]
