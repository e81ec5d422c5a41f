"""The lines of `party check`, and their order."""

from pathlib import Path

import pytest

from party.check import check
from protocol.errors import BadAgreement
from protocol.planning.verdict import forecast
from tests.support.builders import make_agreement


def test_an_agreement_with_unusable_noise_is_not_called_valid(tmp_path: Path) -> None:
    """`party check` and `protocol plan` refuse noise that no message can carry."""
    agreement = make_agreement(
        mode="private",
        rounds=1_000_000,
        privacy={"epsilon": 1e-6, "delta": 1e-10},
        prices={"step": "dog"},
    )
    lines = check(agreement, "ada", model=tmp_path / "none", key=None, ledger=None, data_set=None)
    with pytest.raises(BadAgreement, match="choose fewer rounds, or a larger epsilon or delta"):
        next(lines)
    with pytest.raises(BadAgreement, match="choose fewer rounds"):
        forecast(agreement)
