"""Sessions with a privacy cost, and their total cost by another library's accountant."""

import math
from contextlib import closing
from pathlib import Path
from typing import Any

from dp_accounting.pld import privacy_loss_distribution as pld

from party.ledger.session_ledger import Ledger
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.privacy.calibration import Calibration
from tests.support.builders import make_agreement
from tests.support.ledgers import release

DELTA = 1e-3


def agreed(epsilon: float, *, session: str = "one", rounds: int = 4, **more: Any) -> Agreement:
    """A session with this ε at δ = 0.001."""
    privacy = {"epsilon": epsilon, "delta": DELTA, **more.pop("privacy", {})}
    return make_agreement(
        **{
            "session": session,
            "rounds": rounds,
            "mode": "private",
            "privacy": privacy,
            "prices": {"step": "sqrt", "step_size": 0.1},
            **more,
        }
    )


def exact_agreement(session: str = "bare") -> Agreement:
    return make_agreement(session=session, mode="exact")


def multiplier(agreement: Agreement) -> float:
    """μ of the real noise: √(Σ cap²/σ²) over all numbers and rounds of a member."""
    caps = quantities(agreement).share_ticks[0]
    sigma = Calibration(agreement).scales(caps)
    return math.sqrt(agreement.rounds * float(((caps / sigma) ** 2).sum()))


def composed(*multipliers: float, delta: float = DELTA) -> float:
    """The ε of Gaussian mechanisms with these multipliers together, by dp_accounting."""
    total = None
    for mu in multipliers:
        one = pld.from_gaussian_mechanism(1.0 / mu, value_discretization_interval=1e-3)
        total = one if total is None else total.compose(one)
    assert total is not None
    return float(total.get_epsilon_for_delta(delta))


def record(
    path: Path, agreement: Agreement, releases: int | None = None, *, data_set: str | None = None
) -> None:
    """Record a session in a ledger, with this many releases (default: all)."""
    with closing(Ledger(path, agreement, "ada", data_set=data_set)) as ledger:
        for t in range(agreement.rounds if releases is None else releases):
            ledger.record_release(release(agreement, t))
