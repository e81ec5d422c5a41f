"""The distribution: the wheel, and the source that it is built from."""

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from protocol import __version__
from scripts.lab.release.build import build
from tests.support import ROOT
from tests.support.commands import run_command
from tests.support.wait import LIMIT

TIME = 1_700_000_000
PROGRAMS = ("coordinator", "party", "protocol")


@pytest.fixture(scope="module")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The source distribution, and the wheel that is built from it alone."""
    folder = tmp_path_factory.mktemp("dist")
    return {path.suffix: path for path in build(ROOT, folder, TIME)}


def test_two_builds_have_equal_bytes(distribution: dict[str, Path], tmp_path: Path) -> None:
    """Another folder, another umask, and files of another age give the same wheel and source."""
    source = tmp_path / "elsewhere"
    left_out = ".venv*", ".git", "*.egg-info", "__pycache__", ".*_cache", "build"
    before = os.umask(0o077)
    try:
        shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*left_out))
        for path in source.rglob("*.py"):
            path.chmod(0o600)
            os.utime(path, (TIME + 86_400, TIME + 86_400))
        again = build(source, tmp_path / "again", TIME)
    finally:
        os.umask(before)
    assert len(again) == 2
    for path in again:
        assert path.read_bytes() == distribution[path.suffix].read_bytes(), path.name


def test_distributions_have_the_names_of_an_index(distribution: dict[str, Path]) -> None:
    """Both have the names that an index expects, with this version."""
    names = sorted(path.name for path in distribution.values())
    assert names == [
        f"sottovoce-{__version__}-py3-none-any.whl",
        f"sottovoce-{__version__}.tar.gz",
    ]


def test_the_wheel_has_the_programs_and_nothing_else(distribution: dict[str, Path]) -> None:
    """The wheel has every file of the three packages in git, and its metadata."""
    with zipfile.ZipFile(distribution[".whl"]) as wheel:
        found = {name for name in wheel.namelist() if ".dist-info/" not in name}
    expected = {
        str(path.relative_to(ROOT))
        for program in PROGRAMS
        for path in (ROOT / program).rglob("*")
        if path.is_file() and path.suffix in {".py", ".md", ".css", ".typed"}
    }
    assert found == expected
    assert "protocol/report/style.css" in found


def test_installing_the_wheel_gives_the_commands(distribution: dict[str, Path]) -> None:
    """The wheel tells pip and pipx which programs to put into the path."""
    with zipfile.ZipFile(distribution[".whl"]) as wheel:
        [name] = [name for name in wheel.namelist() if name.endswith("/entry_points.txt")]
        lines = wheel.read(name).decode().split()
    assert lines[0] == "[console_scripts]"
    assert [line for line in lines if line in PROGRAMS] == list(PROGRAMS)


def test_the_source_has_what_its_tests_need(distribution: dict[str, Path]) -> None:
    """The source has all folders of the project, and no key, ledger or leftover."""
    with tarfile.open(distribution[".gz"]) as source:
        found = {name.partition("/")[2] for name in source.getnames()}
    for folder in (*PROGRAMS, "docs", "scripts", "tests"):
        here = {
            str(path.relative_to(ROOT))
            for path in (ROOT / folder).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert here <= found
    assert {"LICENSE", "README.md", "CHANGELOG.md", "constraints.txt", "scripts/test"} <= found
    assert not [name for name in found if name.endswith((".pyc", ".key", ".ledger"))]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_wheel_runs_alone(distribution: dict[str, Path], program: str, tmp_path: Path) -> None:
    """Every command prints its version from the wheel alone."""
    result = subprocess.run(
        [sys.executable, "-m", program, "--version"],
        cwd=tmp_path, env={"PYTHONPATH": str(distribution[".whl"])},
        capture_output=True, text=True, timeout=LIMIT,
    )  # fmt: skip
    assert (result.returncode, result.stdout) == (0, f"{program} of sotto {__version__}\n")
    assert not result.stderr


DEMO = ("-m", "scripts.lab.demo", "--parties", "3")


@pytest.mark.skipif("SOTTO_LOWEST" not in os.environ, reason="SOTTO_LOWEST=1 downloads 150 MB")
@pytest.mark.timeout(900)
def test_the_lowest_versions_suffice(tmp_path: Path) -> None:
    """A session of real processes runs with the oldest declared version of everything."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lowest = [needed.replace(">=", "==") for needed in project["dependencies"]]
    assert all("==" in needed for needed in lowest)
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    for command in (
        [python, "-m", "pip", "install", "--quiet", *lowest],
        [python, *DEMO, "--mode", "exact", "--rounds", "40"],
        [python, *DEMO, "--epsilon", "8", "--rounds", "5"],
    ):
        done = run_command(command, seconds=600.0)
        assert done.returncode == 0, done.stdout + done.stderr
