"""Builds wheel and source distribution so that two builds of one commit have equal bytes.

The sources are those of the commit, never of the working tree. Times, owners, modes and order of
all entries are fixed afterwards. Never here: what a release needs besides its files.
"""

import gzip
import io
import os
import subprocess
import sys
import tarfile
import zipfile
from datetime import UTC, datetime
from pathlib import Path

from scripts.lab.common.local_session import ROOT

_EARLIEST = 315_532_800  # 1980, before which a zip file has no time


def git(*arguments: str, root: Path = ROOT) -> str:
    """What git answers about this repository."""
    done = subprocess.run(
        ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit_time(commit: str = "HEAD", root: Path = ROOT) -> int:
    """When a commit was made, in seconds since 1970."""
    return max(_EARLIEST, int(git("log", "-1", "--format=%ct", commit, root=root)))


def export(folder: Path, commit: str = "HEAD", root: Path = ROOT) -> None:
    """Write the files of a commit into a folder."""
    archive = subprocess.run(
        ["git", "-C", str(root), "archive", "--format=tar", commit], capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")


def build(source: Path, out: Path, time: int) -> list[Path]:
    """The wheel and the source distribution of the sources in a folder, in `out`.

    The installed setuptools builds them, which pyproject.toml and constraints.txt pin.
    """
    out.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)],
        env=os.environ | {"SOURCE_DATE_EPOCH": str(time), "PYTHONHASHSEED": "0"},
        capture_output=True,
        check=True,
    )
    built = sorted(out.glob("sottovoce-*"))
    for path in built:
        if path.suffix == ".whl":
            path.write_bytes(normal_wheel(path.read_bytes(), time))
        else:
            path.write_bytes(normal_source(path.read_bytes(), time))
    return built


def normal_wheel(data: bytes, time: int) -> bytes:
    """A wheel with one time and one mode for all files. RECORD stays the last, as it must."""
    moment = datetime.fromtimestamp(time, UTC).timetuple()[:6]
    output = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(output, "w") as new:
        for name in sorted(old.namelist(), key=lambda name: (name.endswith("/RECORD"), name)):
            entry = zipfile.ZipInfo(name, moment)
            entry.external_attr = 0o100644 << 16
            entry.create_system = 3  # Unix
            entry.compress_type = zipfile.ZIP_DEFLATED
            new.writestr(entry, old.read(name), compresslevel=9)
    return output.getvalue()


def normal_source(data: bytes, time: int) -> bytes:
    """A source distribution with sorted entries, one time, no owner, and two modes."""
    output = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as old,
        tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for entry in sorted(old.getmembers(), key=lambda entry: entry.name):
            runs = entry.isdir() or entry.mode & 0o100
            entry.mode = 0o755 if runs else 0o644
            entry.mtime, entry.pax_headers = time, {}
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            new.addfile(entry, old.extractfile(entry) if entry.isfile() else None)
    return gzip.compress(output.getvalue(), compresslevel=9, mtime=0)
