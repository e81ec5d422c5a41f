"""The limit on open files: raised if the system allows it, a clear error if not."""

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
    ("soft", "needed", "limit"),
    [(64, 200, "200"), (256, 200, "256"), (64, 256, "256")],
    ids=["raised", "enough", "to the hard limit"],
)
def test_the_limit_is_raised_to_what_is_needed(soft: int, needed: int, limit: str) -> None:
    """A soft limit that is too low is raised; a higher one stays."""
    code, output = limited(soft, 256, needed)
    assert (code, output) == (0, limit)


def test_a_hard_limit_that_is_too_low_is_an_error_with_the_number() -> None:
    """The message says what is needed, what is allowed, and what to do."""
    code, output = limited(64, 256, 300)
    assert code == FileLimitTooLow.exit_code
    assert output.startswith("the coordinator needs 300 open files")
    assert "this system allows 256" in output
    assert "LimitNOFILE=300" in output


def test_the_need_grows_with_the_members_that_connect() -> None:
    """All members connect to a relay, and a party connects only to the relay."""
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
