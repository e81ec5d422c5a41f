"""`requirements.lock`: every package that a session needs, with the hashes of its files.

The versions are those of `constraints.txt`. pip itself finds them, for each version of Python and
each kind of machine. With `pip install --require-hashes -r requirements.lock` no other file counts.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from scripts.lab.common.local_session import ROOT

LOCK = ROOT / "requirements.lock"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MACHINES = ("x86_64", "aarch64")
_GLIBC = ("manylinux_2_17", "manylinux2014", "manylinux_2_24", "manylinux_2_28")
_HEADER = """\
# What a session needs, with the hash of each file that pip may install: Linux with glibc, Python
# {first} to {last}. Made from constraints.txt by `scripts/release --lock`; do not edit.
#   pip install --require-hashes -r requirements.lock
"""


def resolved(python: str, machine: str) -> dict[str, tuple[str, str]]:
    """Version and hash by package, as pip would install them there. Installs nothing."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        platforms = [word for name in _GLIBC for word in ("--platform", f"{name}_{machine}")]
        subprocess.run(
            [
                sys.executable, "-m", "pip", "install", "--quiet", "--dry-run",
                "--ignore-installed", "--only-binary=:all:", "--implementation", "cp",
                "--python-version", python, *platforms, "--target", folder,
                "--report", str(report), "-c", str(ROOT / "constraints.txt"),
                *project["dependencies"],
            ],
            check=True,
        )  # fmt: skip
        installed: list[dict[str, Any]] = json.loads(report.read_text())["install"]
    return {
        normal_name(found["metadata"]["name"]): (
            found["metadata"]["version"],
            found["download_info"]["archive_info"]["hashes"]["sha256"],
        )
        for found in installed
    }


def normal_name(name: str) -> str:
    """The one spelling of a package's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(text: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Version and hashes by package in the text of a lock."""
    found = re.findall(r"^([\w.-]+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", text, re.M)
    return {
        name: (version, tuple(re.findall(r"[0-9a-f]{64}", hashes)))
        for name, version, hashes in found
    }


def pinned() -> dict[str, str]:
    """The version of each package in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().split()
    return {normal_name(name): version for name, _, version in (n.partition("==") for n in lines)}


def write_lock() -> None:
    """Write the lock anew."""
    versions: dict[str, str] = {}
    hashes: dict[str, set[str]] = {}
    for python in PYTHONS:
        for machine in MACHINES:
            for name, (version, digest) in resolved(python, machine).items():
                if versions.setdefault(name, version) != version:
                    raise SystemExit(f"{name} has two versions; pin it in constraints.txt")
                hashes.setdefault(name, set()).add(digest)
    lines = [_HEADER.format(first=PYTHONS[0], last=PYTHONS[-1]).rstrip("\n")]
    for name in sorted(versions):
        files = " \\\n".join(f"    --hash=sha256:{digest}" for digest in sorted(hashes[name]))
        lines.append(f"{name}=={versions[name]} \\\n{files}")
    LOCK.write_text("\n".join(lines) + "\n")
