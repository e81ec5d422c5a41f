"""Keys and models are read only into memory that is closed to other processes."""

import ctypes
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from party import keys
from party.model import company_model
from tests.support import ROOT
from tests.support.ledgers import run_python
from tests.support.sample_models import LP, SHARED, write
from tests.support.wait import LIMIT


def test_a_process_that_has_read_a_model_leaves_no_core_file(tmp_path: Path) -> None:
    """Reading sets the limit for core files to 0."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
        company_model.read(write(tmp_path, "plan.lp", LP), SHARED)
        assert resource.getrlimit(resource.RLIMIT_CORE) == (0, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)


READ = """
import ctypes, sys
from pathlib import Path
from party import keys
from party.model import company_model
from tests.support.sample_models import SHARED

folder = Path(sys.argv[1])
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))  # PR_GET_DUMPABLE
if sys.argv[2] == "key":
    keys.load(folder / "ada.key")
else:
    company_model.read(folder / "plan.lp", SHARED)
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="uses prctl")
@pytest.mark.parametrize("secret", ["key", "model"])
def test_reading_a_secret_closes_the_memory(tmp_path: Path, secret: str) -> None:
    """Reading either a key or a model closes the memory of the process."""
    keys.save(keys.generate("ada"), tmp_path / "ada.key")
    write(tmp_path, "plan.lp", LP)
    done = run_python(READ, tmp_path, secret)
    assert done.stdout.split() == ["1", "0"], done.stderr


SOLVER = """
import sys
from contextlib import closing
from pathlib import Path
from party.model import company_model
from party.model.solver_process import Solver, early
from tests.support.sample_models import SHARED

child = early() if sys.argv[2] == "forked" else None
data = company_model.read(Path(sys.argv[1]), SHARED)
with closing(Solver(data, SHARED, "ada", seconds=1.0, child=child)) as solver:
    assert (type(solver._process).__name__ == "Forked") == (child is not None)
    try:
        open(f"/proc/{solver._process.pid}/mem", "rb").close()
        print("read")
    except PermissionError:
        print("refused")
"""


def drop_ptrace() -> None:
    """The program that this process becomes may not trace others, even as root."""
    ctypes.CDLL(None).prctl(24, 19, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_SYS_PTRACE


@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root can drop a capability"
)
@pytest.mark.parametrize("how", ["forked", "new"])
def test_the_memory_of_the_solver_is_closed(tmp_path: Path, how: str) -> None:
    """The solver's process holds the complete model."""
    done = subprocess.run(
        [sys.executable, "-c", SOLVER, str(write(tmp_path, "plan.lp", LP)), how],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
        preexec_fn=drop_ptrace,
    )
    assert done.stdout == "refused\n", done.stderr
