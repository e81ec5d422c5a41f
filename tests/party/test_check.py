"""What `party check` says before anybody joins, and in which order."""

from pathlib import Path

import pytest

from party.check import check
from protocol.errors import BadAgreement
from protocol.planning.verdict import plan_figures
from tests.support.builders import make_agreement


def test_an_agreement_that_cannot_be_played_is_not_called_valid(tmp_path: Path) -> None:
    """Noise that no message can carry is found before the first line; the plan finds it too."""
    agreement = make_agreement(
        mode="private",
        rounds=1_000_000,
        privacy={"epsilon": 1e-6, "delta": 1e-10},
        prices={"step": "sqrt", "step_size": 0.1},
    )
    told = check(agreement, "ada", model=tmp_path / "none", key=None, ledger=None, data_set=None)
    with pytest.raises(BadAgreement, match="choose fewer rounds, or a larger epsilon or delta"):
        next(told)
    with pytest.raises(BadAgreement, match="choose fewer rounds"):
        plan_figures(agreement)
