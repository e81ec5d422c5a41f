"""The lines of `party check`, and their order."""

from pathlib import Path

import numpy as np
import pytest

from party.model.shared_rows import row_map
from party.model_check import check
from protocol.agreement.model import Agreement
from protocol.errors import BadAgreement
from protocol.planning.verdict import plan_figures
from scripts.lab.common.instances import draw
from scripts.lab.common.workspace import save_model
from tests.support.builders import make_agreement

INSTANCE = draw(4, parties=3, resources=2, demands=False)


def test_an_agreement_with_unusable_noise_is_not_called_valid(tmp_path: Path) -> None:
    """`party check` and `protocol plan` refuse noise that no message can carry."""
    agreement = make_agreement(
        mode="private",
        rounds=1_000_000,
        privacy={"epsilon": 1e-6, "delta": 1e-10},
        prices={"step": "sqrt", "step_size": 0.1},
    )
    lines = check(agreement, "ada", model=tmp_path / "none", key=None, ledger=None, data_set=None)
    with pytest.raises(BadAgreement, match="choose fewer rounds, or a larger epsilon or delta"):
        next(lines)
    with pytest.raises(BadAgreement, match="choose fewer rounds"):
        plan_figures(agreement)


def agreed(pace: float | None = None) -> Agreement:
    resources = [{"name": f"r{j}", "capacity": c} for j, c in enumerate(INSTANCE.capacity.tolist())]
    terms = {} if pace is None else {"pace_seconds": pace}
    return make_agreement(members=3, resource=resources, **terms)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    save_model(INSTANCE.data[0], tmp_path / "model.npz")
    return tmp_path / "model.npz"


def checked(agreement: Agreement, model: Path) -> str:
    return "\n".join(check(agreement, "ada", model=model, key=None, ledger=None, data_set=None))


def test_a_model_that_other_users_can_read_is_reported(model: Path) -> None:
    """The warning has the command that closes the file; a closed file gives no warning."""
    assert "chmod" not in checked(agreed(), model)
    model.chmod(0o640)
    warning = f"other users of this machine can read the model file; run: chmod 600 {model}"
    assert warning in checked(agreed(), model)


def test_one_is_counted_in_the_singular(tmp_path: Path) -> None:
    """A model of one column has no plural."""
    np.savez(tmp_path / "one.npz", A=[[2.0]], B=[[1.0]], b=[4.0], u=[3.0])
    (tmp_path / "one.npz").chmod(0o600)
    found = checked(make_agreement(resources=1), tmp_path / "one.npz")
    assert "model      1 column, 1 private row, 1 shared resource found" in found


@pytest.mark.parametrize(
    ("pace", "words"),
    [(None, "none is agreed"), (0.001, "0.001 s is TOO SHORT"), (3600.0, "3600 s is enough")],
)
def test_a_check_says_whether_the_pace_is_long_enough(
    model: Path, monkeypatch: pytest.MonkeyPatch, pace: float | None, words: str
) -> None:
    """It compares the pace with the slowest of many answers, before the party joins."""
    monkeypatch.setattr("party.model_check.slowest_answer", lambda *_: (0.02, 100))
    text = checked(agreed(pace), model)
    assert f"pace       {words}" in text
    assert "the slowest of 100 answers took 0.02 s" in text
    assert ("ask the convener for 0.08 s" in text) == (pace == 0.001)


def test_a_check_measures_the_slowest_answer(model: Path) -> None:
    """It solves the real model at many prices."""
    assert "of 100 answers took" in checked(agreed(0.25), model)


def test_a_check_with_a_doubt_does_not_end_well(tmp_path: Path) -> None:
    """A company that takes nothing for free, or a mesh without its address, is the last line."""
    path = tmp_path / "model.lp"
    rows = "Subject To\n r0: x <= 9\n r1: x <= 9\nBounds\n x <= 5\nEnd\n"
    path.write_text(f"Minimize\n 3 x\n{rows}")
    path.chmod(0o600)
    assert checked(agreed(), path).endswith(
        "look at the line with ! before you join; nothing else is known to be wrong"
    )
    path.write_text(f"Maximize\n 3 x\n{rows}")
    assert "nothing known to be wrong" in checked(agreed(), path)
    resources = [{"name": f"r{j}", "capacity": 10.0} for j in range(2)]
    mesh = make_agreement(members=3, resource=resources, transport={"topology": "mesh"})
    text = checked(mesh, path)
    assert "join with --listen tcp://HOST:PORT" in text
    assert text.endswith(
        "look at the line with ! before you join; nothing else is known to be wrong"
    )


def test_a_check_names_resources_that_are_never_used(tmp_path: Path) -> None:
    """An empty row may be meant, or the row of another resource."""
    path = tmp_path / "model.lp"
    path.write_text("Maximize\n 3 x\nSubject To\n r0: x <= 9\nBounds\n x <= 5\nEnd\n")
    lines = check(
        agreed(), "ada", model=path, key=None, ledger=None, data_set=None, rows=row_map(["r1="])
    )
    assert "never uses 'r1'" in "\n".join(lines)


def test_a_cost_of_nothing_has_no_sign(tmp_path: Path) -> None:
    """A model that minimises and can do nothing costs 0, not -0."""
    path = tmp_path / "model.lp"
    path.write_text("Minimize\n 3 x\nSubject To\n r0: x <= 9\n r1: x <= 9\nEnd\n")
    assert "your best plan costs 0\n" in checked(agreed(), path)


def test_amounts_are_in_cents_whatever_their_size(tmp_path: Path) -> None:
    """No amount of money is shown as a power of ten."""
    path = tmp_path / "model.lp"
    path.write_text(
        "Maximize\n 1234567.89 x\nSubject To\n r0: x <= 9\n r1: x <= 9\n mine: x <= 1\nEnd\n"
    )
    text = checked(make_agreement(currency="EUR"), path)
    assert "your best plan earns 1,234,567.89 EUR\n" in text
