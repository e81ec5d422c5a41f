"""What a party leaves on the disk and in memory is for its owner alone."""

import os
import resource
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from party import dataset
from party.check import check
from party.ledger import Ledger
from protocol.agreement import Agreement
from scripts.folders import save_model
from scripts.instances import draw
from tests.kit import ROOT
from tests.kit.builders import make_agreement
from tests.kit.waiting import LIMIT

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
    assert "its slowest of 100 answers took 0.02 s" in told
    assert ("ask the convener for 0.08 s" in told) == (pace == 0.001)


def test_the_slowest_answer_is_measured(model: Path) -> None:
    """The real model is asked many prices."""
    assert "of 100 answers took" in checked(agreed(0.25), model)


def test_a_process_that_has_read_a_model_leaves_no_core_file(model: Path) -> None:
    """Whatever the limit was before."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
        dataset.read(model, agreed())
        assert resource.getrlimit(resource.RLIMIT_CORE) == (0, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)


FORKED = """
import os, sys
import numpy as np
from party.noise import DiscreteGaussian

noise, scales = DiscreteGaussian(), np.full(8, 1e6)
noise.ahead(scales)
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
