"""Open files: raised where the system allows it, and a clear sentence where it does not."""

import subprocess
import sys

import pytest

from protocol.errors import FileLimitTooLow
from protocol.runtime.file_limits import coordinator_files, party_files
from tests.support import ROOT
from tests.support.builders import make_agreement

RAISE = """
import resource, sys
from protocol.errors import FileLimitTooLow
from protocol.runtime.file_limits import require_files
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
try:
    require_files(int(sys.argv[3]), "the coordinator")
except FileLimitTooLow as error:
    print(error)
    sys.exit(error.exit_code)
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(
    ("soft", "needed", "told"),
    [(64, 200, "200"), (256, 200, "256"), (64, 256, "256")],
    ids=["raised", "enough", "to the hard limit"],
)
def test_the_limit_is_raised_to_what_is_needed(soft: int, needed: int, told: str) -> None:
    """A soft limit below the need moves up, and never down."""
    code, said = limited(soft, 256, needed)
    assert (code, said) == (0, told)


def test_a_hard_limit_that_is_too_low_is_told_with_the_number() -> None:
    """Before anything is sent: who needs how many, what there are, and what to do."""
    code, said = limited(64, 256, 300)
    assert code == FileLimitTooLow.exit_code
    assert said.startswith("the coordinator needs 300 open files")
    assert "this system allows 256" in said
    assert "LimitNOFILE=300" in said


def test_what_is_needed_grows_with_the_members_that_connect() -> None:
    """Everybody connects to a relay, and in a mesh everybody to everybody."""
    few, many = make_agreement(members=2), make_agreement(members=5)
    assert party_files(few) == party_files(many)
    assert coordinator_files(many) - coordinator_files(few) == 2 * 3


def limited(soft: int, hard: int, needed: int) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", RAISE, str(soft), str(hard), str(needed)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        check=False,
    )
    return done.returncode, done.stdout.strip()
