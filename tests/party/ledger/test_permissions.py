"""A ledger is readable by its owner only, on the disk and in memory."""

import os
import stat
import sys
from contextlib import closing
from pathlib import Path

import pytest

from party.ledger.session_ledger import Ledger
from tests.support.builders import make_agreement
from tests.support.ledgers import run_python


def test_a_ledger_and_its_log_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    """The umask does not matter, nor does the mode of an existing file."""
    path = tmp_path / "ada.ledger"
    before = os.umask(0)
    try:
        for _ in range(2):
            with closing(Ledger(path, make_agreement(), "ada")):
                files = path, tmp_path / "ada.ledger-wal"
                assert [stat.S_IMODE(f.stat().st_mode) for f in files] == [0o600, 0o600]
            path.chmod(0o644)
    finally:
        os.umask(before)


OPENED = """
import ctypes, sys
from party.ledger.database import Database

before = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)  # PR_GET_DUMPABLE
Database(sys.argv[1]).close()
print(before, ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="uses prctl")
def test_opening_a_ledger_closes_the_memory_to_other_processes(tmp_path: Path) -> None:
    """A ledger may hold mask keys and demands, and `party abandon` reads neither key nor model."""
    done = run_python(OPENED, tmp_path / "ledger")
    assert done.stdout.split() == ["1", "0"], done.stderr
