"""An agreement that no party could join is refused by every command that calls agreements valid."""

from typing import Any

import pytest

from protocol.errors import BadAgreement
from protocol.rounds import RoundEngine
from tests.support.builders import make_agreement

PRIVATE: dict[str, Any] = {
    "mode": "private",
    "prices": {"step": "constant", "step_size": 1.0},
}


def test_an_ordinary_agreement_passes() -> None:
    """Terms that a party can compute with pass."""
    RoundEngine(make_agreement())
    RoundEngine(make_agreement(**PRIVATE, privacy={"epsilon": 1.0, "delta": 1e-3}))


def test_noise_that_no_message_can_carry_is_refused() -> None:
    """The file is valid, but its noise is beyond the largest released number."""
    agreement = make_agreement(
        **PRIVATE, rounds=1_000_000, privacy={"epsilon": 1e-6, "delta": 1e-10}
    )
    with pytest.raises(BadAgreement, match="fewer rounds"):
        RoundEngine(agreement)


def test_noise_shares_too_small_for_the_proof_are_refused() -> None:
    """With `totals`, each member's share of the noise must be some ticks at least."""
    members = [{"name": name, "share": share} for name, share in (("ada", 1), ("ben", 1e-6))]
    members.append({"name": "cyd", "share": 1e-6})
    agreement = make_agreement(
        **PRIVATE,
        rounds=1,
        reveal="totals",
        member=members,
        privacy={"epsilon": 100.0, "delta": 0.1},
    )
    with pytest.raises(BadAgreement, match="reveal is 'totals'"):
        RoundEngine(agreement)
