"""Theorem thm:convergence of the paper: its step size and its gap.

Never here: private numbers. No step depends on one.
"""

import math

import numpy as np

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.errors import BadAgreement
from protocol.numeric import Floats
from protocol.privacy.calibration import Calibration
from protocol.privacy.sensitivity import first_caps


def prices_distance(agreement: Agreement) -> float:
    """M of asmp: bound on lambda: how far the best prices may be from the first ones.

    From the agreed `worth`: ‖worth / c‖ in λ (step `theorem`), ‖worth‖ in money for a whole
    capacity.
    """
    worth = quantities(agreement).worth
    if worth is None:
        raise BadAgreement("every resource needs a worth to bound the distance to the best prices")
    return math.sqrt(math.fsum((worth / _units(agreement)) ** 2))


def _units(agreement: Agreement) -> Floats:
    """The capacities in the coordinates of the step: c, or 1 in money for a whole capacity."""
    c = quantities(agreement).capacity
    return c if agreement.pricing.step == "theorem" else np.ones_like(c)


def gradient_bound(calibration: Calibration) -> float:
    """B of eq: B bound: no expected squared noisy subgradient exceeds B².

    With every share 1, component noise and the paper's accountant this is the paper's
    ‖c‖·√(TmK/2ρ + (K−1)²). Smaller shares mean less noise and less overrun. In mode `clipped` it
    uses the caps of the first round, and the theorems promise nothing.
    """
    agreement = calibration.agreement
    sigma = calibration.scales(first_caps(agreement)) / agreement.ticks
    total = 0.0
    for j, c in enumerate(_units(agreement).tolist()):
        overrun = max(1.0, math.fsum(quantities(agreement).share[:, j]) - 1.0)
        total += c * c * (math.fsum(sigma[:, j] ** 2) + overrun * overrun)
    return math.sqrt(total)


def convergence_step(*, M: float, B: float, T: int) -> float:
    """The step ν = M/(B√T) for which thm:convergence holds."""
    return M / (B * math.sqrt(T))


def convergence_gap(*, M: float, B: float, T: int) -> float:
    """thm:convergence: min_t E[G(t)] ≤ MB/√T with that step and without momentum."""
    return M * B / math.sqrt(T)
