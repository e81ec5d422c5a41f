"""Calibration where noise is nothing, too much, or too little, and what it then promises."""

import math
from typing import Any

import numpy as np
import pytest

from protocol.agreement.quantities import quantities
from protocol.agreement.schema import TICKS
from protocol.errors import BadAgreement, InternalError
from protocol.privacy.accountant import PrivacyCost
from protocol.privacy.calibration import Calibration
from tests.protocol.privacy import test_collusion as totals
from tests.protocol.privacy.test_calibration import agree
from tests.support.builders import make_agreement


def epsilon_for(mu: float, delta: float) -> float:
    """ε that prop:diffPriv needs for this μ: ρ + 2√(ρ·ln(1/δ)) with ρ = μ²/2."""
    rho = mu * mu / 2.0
    return rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))


def test_noise_of_four_million_capacities_is_the_most() -> None:
    """2⁴² ticks can be carried; what needs a millionth more is refused."""
    epsilon = epsilon_for(mu=math.sqrt(150.0) * TICKS / 2.0**42, delta=1e-3)
    terms: dict[str, Any] = {"capacity": (10.0,), "accountant": "paper"}
    allowed = Calibration(agree(epsilon=epsilon * (1.0 + 1e-6), **terms))
    assert allowed.scales(np.array([TICKS]))[0] == pytest.approx(2.0**42, rel=1e-5)
    with pytest.raises(BadAgreement, match="more than a release can carry"):
        Calibration(agree(epsilon=epsilon * (1.0 - 1e-6), **terms))


def test_without_noise_nothing_is_promised() -> None:
    """In mode `exact` there is no noise, and the cost of a release is infinite."""
    calibration = Calibration(make_agreement(mode="exact"))
    shares = quantities(calibration.agreement).share_ticks
    assert not calibration.scales(shares).any()
    assert calibration.per_release == PrivacyCost(mu_squared=math.inf)
    assert calibration.against(1) == PrivacyCost(mu_squared=math.inf)


def test_joint_noise_needs_the_caps_of_all_members() -> None:
    """The part of one member depends on those of the others."""
    agreement = totals.agree([0.5] * 4)
    calibration, caps = Calibration(agreement), quantities(agreement).share_ticks
    assert calibration.scales(caps).shape == caps.shape
    with pytest.raises(InternalError, match="caps of all members"):
        calibration.scales(caps[:3])
