"""What a party leaves on the disk and in memory is for its owner alone."""

import ctypes
import os
import resource
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from party import keys
from party.check import check
from party.ledger.session_ledger import Ledger
from party.model import company_model
from protocol.agreement.model import Agreement
from scripts.lab.common.instances import draw
from scripts.lab.common.workspace import save_model
from tests.support import ROOT
from tests.support.builders import make_agreement
from tests.support.wait import LIMIT

INSTANCE = draw(4, parties=3, resources=2, demands=False)


def agreed(pace: float | None = None) -> Agreement:
    resources = [{"name": f"r{j}", "capacity": c} for j, c in enumerate(INSTANCE.capacity.tolist())]
    terms = {} if pace is None else {"pace_seconds": pace}
    return make_agreement(members=3, resource=resources, **terms)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    save_model(INSTANCE.data[0], tmp_path / "model.npz")
    return tmp_path / "model.npz"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def checked(agreement: Agreement, model: Path) -> str:
    return "\n".join(check(agreement, "ada", model=model, key=None, ledger=None, data_set=None))


def test_a_ledger_and_its_log_are_for_their_owner(tmp_path: Path) -> None:
    """However careless the process is about files, and however an older one was left."""
    path = tmp_path / "ada.ledger"
    before = os.umask(0)
    try:
        for _ in range(2):
            with closing(Ledger(path, make_agreement(), "ada")):
                assert [mode(f) for f in (path, tmp_path / "ada.ledger-wal")] == [0o600, 0o600]
            path.chmod(0o644)
    finally:
        os.umask(before)


def test_a_model_that_others_can_read_is_mentioned(model: Path) -> None:
    """With the command that mends it; a file for its owner alone is not."""
    assert mode(model) == 0o600
    assert "chmod" not in checked(agreed(), model)
    model.chmod(0o640)
    assert f"others on this machine can read the model file; say: chmod 600 {model}" in checked(
        agreed(), model
    )


@pytest.mark.parametrize(
    ("pace", "words"),
    [(None, "none is agreed"), (0.001, "0.001 s is TOO SHORT"), (3600.0, "3600 s is enough")],
)
def test_a_check_says_whether_the_pace_will_do(
    model: Path, monkeypatch: pytest.MonkeyPatch, pace: float | None, words: str
) -> None:
    """From the slowest of many answers, before anybody has joined."""
    monkeypatch.setattr("party.check.slowest_answer", lambda *_: (0.02, 100))
    told = checked(agreed(pace), model)
    assert f"pace       {words}" in told
    assert "the slowest of 100 answers took 0.02 s" in told
    assert ("ask the convener for 0.08 s" in told) == (pace == 0.001)


def test_the_slowest_answer_is_measured(model: Path) -> None:
    """The real model is asked many prices."""
    assert "of 100 answers took" in checked(agreed(0.25), model)


def test_a_process_that_has_read_a_model_leaves_no_core_file(model: Path) -> None:
    """Whatever the limit was before."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
        company_model.read(model, agreed())
        assert resource.getrlimit(resource.RLIMIT_CORE) == (0, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)


OPENED = """
import ctypes, sys
from party.ledger.database import Database

before = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)  # PR_GET_DUMPABLE
Database(sys.argv[1]).close()
print(before, ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such thing")
def test_the_memory_of_a_process_that_has_opened_a_ledger_is_kept(tmp_path: Path) -> None:
    """A ledger may hold mask keys and demands: `party abandon` reads neither a key nor a model."""
    done = subprocess.run(
        [sys.executable, "-c", OPENED, str(tmp_path / "ledger")],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.stdout.split() == ["1", "0"], done.stderr


WATCHED = """
import ctypes, os, signal, sys
from protocol.runtime.process_memory import keep_private
from protocol.runtime import backlog_guard

system = ctypes.CDLL(None, use_errno=True)


def become_somebody():
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    system.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: as any process that this user starts


def run(task):
    child = os.fork()
    if not child:
        task()
        os._exit(0)
    return child


def victim():
    become_somebody()
    if sys.argv[1] == "private":
        keep_private()
    guarded = len(backlog_guard._descriptors()) > 3, backlog_guard._descriptor_count() >= 0
    print("guard", *guarded, flush=True)
    os.write(ready, b"x")
    signal.pause()


def spy():
    become_somebody()
    try:
        open(f"/proc/{watched}/mem", "rb").close()
        print("memory read", flush=True)
    except PermissionError:
        print("memory refused", flush=True)
    attached = system.ptrace(16, watched, 0, 0)  # PTRACE_ATTACH
    print("debugger", "refused" if attached else "attached", flush=True)


is_ready, ready = os.pipe()
watched = run(victim)
os.read(is_ready, 1)
os.waitpid(run(spy), 0)
os.kill(watched, 9)  # a debugger that has left leaves it stopped
os.waitpid(watched, 0)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root can become another user"
)
@pytest.mark.parametrize("private", [True, False])
def test_no_process_of_the_same_user_reads_the_memory(private: bool) -> None:
    """Neither a debugger nor who opens the memory; and the process still sees its own files."""
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    if not private and scope.exists() and int(scope.read_text()):
        pytest.skip("this machine refuses debuggers anyway")
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, "private" if private else "open"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    expected = ["memory refused", "debugger refused"]
    if not private:  # or this test could not fail
        expected = ["memory read", "debugger attached"]
    assert done.stdout.splitlines() == ["guard True True", *expected], done.stderr


DUMPABLE = "import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"  # PR_GET_DUMPABLE


@pytest.mark.skipif(sys.platform != "linux", reason="as Linux has it")
@pytest.mark.parametrize("what", ["key", "model"])
def test_a_process_keeps_its_memory_before_it_reads(model: Path, tmp_path: Path, what: str) -> None:
    """Whatever of a company comes first, key or model, is read into memory that is kept."""
    keys.save(keys.generate("ada"), tmp_path / "ada.key")
    code = {
        "key": "keys.load(Path(sys.argv[1]) / 'ada.key')",
        "model": "company_model.read(Path(sys.argv[1]) / 'model.npz', agreed())",
    }[what]
    imports = "import sys\nfrom pathlib import Path\nfrom party import keys\n"
    imports += "from party.model import company_model\n"
    imports += "from tests.party.ledger.test_permissions import agreed\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{imports}{DUMPABLE}\n{code}\n{DUMPABLE}", str(model.parent)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=True,
    )
    assert done.stdout.split() == ["1", "0"]


BESIDE = """
from contextlib import closing
from party.model.solver_process import Solver
from tests.party.ledger.test_permissions import INSTANCE, agreed

with closing(Solver(INSTANCE.data[0], agreed(0.25), "ada", seconds=1.0)) as beside:
    try:
        open(f"/proc/{beside._process.pid}/mem", "rb").close()
        print("read")
    except PermissionError:
        print("refused")
"""


def without_power_over_others() -> None:
    """Whatever this process becomes may not trace others, though it is root."""
    ctypes.CDLL(None).prctl(24, 19, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_SYS_PTRACE


@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="only root can give up a power"
)
def test_the_memory_of_a_solver_is_kept() -> None:
    """Its process holds the whole model, and is as closed as the party's."""
    done = subprocess.run(
        [sys.executable, "-c", BESIDE],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
        preexec_fn=without_power_over_others,
    )
    assert done.stdout == "refused\n", done.stderr


FORKED = """
import os, sys
import numpy as np
from party.release.noise import DiscreteGaussian

noise, scales = DiscreteGaussian(), np.full(8, 1e6)
noise.prefetch(scales)
child = os.fork()
print(noise.add(np.zeros(8, dtype=np.int64), scales, member="a", round=0).tolist(), flush=True)
if child:
    os.waitpid(child, 0)
"""


def test_a_forked_child_has_noise_of_its_own() -> None:
    """What the parent drew ahead hides one release of the parent, and none of a child."""
    done = subprocess.run(
        [sys.executable, "-c", FORKED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=True,
    )
    parent, child = done.stdout.splitlines()
    assert parent != child
