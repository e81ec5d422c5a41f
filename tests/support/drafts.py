"""`coordinator new` as a command, with member files made for it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from party import keys
from tests.support import ROOT
from tests.support.wait import LIMIT

EXACT = ("--mode", "exact")


def new(
    folder: Path,
    *more: Any,
    names: tuple[str, ...] = ("acme", "bolt"),
    resources: tuple[str, ...] = ("hours=120:9000", "docks=16:4000"),
) -> subprocess.CompletedProcess[str]:
    """Run the real command, for two members and two resources by default."""
    members = []
    for name in names:
        path = folder / f"{name}.member.toml"
        if not path.exists():
            path.write_text(keys.generate(name).member_table())
        members += ["--member", path]
    return subprocess.run(
        [
            *(sys.executable, "-m", "coordinator", "new", "--session", "first"),
            *(f"--resource={resource}" for resource in resources),
            *("--address", "tcp://relay.example.org:5555", "--key", str(folder / "new.key")),
            *("--out", str(folder / "agreement.toml"), *map(str, members), *map(str, more)),
        ],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
