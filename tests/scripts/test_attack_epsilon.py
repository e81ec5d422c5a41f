"""The empirical audit: it proves most of ε, never more, and detects noise that is too small."""

import math
from itertools import product
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest

from party.release.noise import DRAWN_AHEAD, DiscreteGaussian
from protocol.numeric import Floats, Ticks
from protocol.privacy.calibration import Calibration
from scripts.lab.attack import page
from scripts.lab.attack.audit_sessions import DELTA, KINDS, Audit, Case, cases, twin_ratios
from scripts.lab.attack.bounds import Seen, seen, thresholds
from scripts.lab.attack.epsilon import play, units

TWINS, SESSIONS = 400_000, 120
TOO_LITTLE = 0.8
"""The fraction of the agreed noise at which the twin must be detected; repeatable."""

FAR_TOO_LITTLE = 0.5
"""The fraction at which a gate is detected in few sessions, which differ each time."""


class Quieter(DiscreteGaussian):
    """Noise that is smaller than agreed."""

    def add(self, values: Ticks, scales: Floats, *, member: str, round: int) -> Ticks:  # noqa: A002
        return super().add(values, FAR_TOO_LITTLE * scales, member=member, round=round)

    def prefetch(self, scales: Floats, count: int = DRAWN_AHEAD) -> None:
        """Noise drawn in advance would have the agreed scale, so none is."""


def audited(case: Case, *, scale: float = 1.0) -> float:
    """The fraction of ε that the twin proves, with this fraction of its noise."""
    agreement, rng = case.agreement(), np.random.default_rng(7)
    tried = thresholds(Calibration(agreement).mu, DELTA, TWINS // 2)
    nothing, everything = (
        twin_ratios(agreement, rng, TWINS // 2, everything=asked, scale=scale)
        for asked in (False, True)
    )
    found = seen(nothing, everything, tried, Calibration(agreement).mu)
    return found.epsilon(DELTA) / case.epsilon


def test_all_shapes_accountants_and_modes_are_audited() -> None:
    """Each combination occurs once with ε = 1 and once with ε = 4."""
    assert len(set(cases())) == len(cases()) == 2 * 2 * (3 * 2 + 1)
    assert {(case.mode, case.reveal) for case in cases()} == set(KINDS)


@pytest.mark.parametrize(
    ("reveal", "noise"),
    [*product(("each", "totals"), ("component", "norm")), ("totals", "ball")],
)
def test_the_twin_proves_most_of_epsilon_and_not_more(reveal: str, noise: str) -> None:
    """The exact accountant's noise is hardly more than ε requires, and never less."""
    for epsilon in (1.0, 4.0):
        part = audited(Case(epsilon, "private", reveal, noise, "exact"))
        assert 0.85 <= part <= 1.0, f"{part:.3f} of an epsilon of {epsilon:g} was proved"


def test_too_little_noise_is_detected() -> None:
    """A fifth less noise shows in the audit as a broken guarantee."""
    for reveal, noise in (("each", "norm"), ("totals", "norm"), ("totals", "ball")):
        part = audited(Case(4.0, "private", reveal, noise, "exact"), scale=TOO_LITTLE)
        assert part > 1.1


def test_the_papers_accountant_has_more_noise_than_it_needs() -> None:
    """The proved ε stays well below the agreed one."""
    assert 0.5 < audited(Case(4.0, "private", "each", "norm", "paper")) < 0.75


@pytest.mark.parametrize(
    ("mode", "reveal", "shape"),
    [*((*kind, "norm") for kind in KINDS), ("private", "totals", "ball")],
)
def test_few_sessions_of_the_gate_prove_too_little_noise(
    mode: str, reveal: str, shape: str
) -> None:
    """Noise that is too small is detected in the real gate; with its real noise it proves at most
    ε.

    Its noise cannot be repeated: the assertions allow for five standard deviations.
    """
    case = Case(4.0, mode, reveal, shape, "exact")
    mu = Calibration(case.agreement()).mu
    for noise, size in ((DiscreteGaussian(), 1.0), (Quieter(), FAR_TOO_LITTLE)):
        audit = Audit(case.agreement(), noise)
        nothing, everything = (
            np.array([audit.ratio(everything=asked) for _ in range(SESSIONS // 2)])
            for asked in (False, True)
        )
        found = seen(nothing, everything, (0.0,), mu)
        right = (found.true[0] + SESSIONS // 2 - found.false[0]) / SESSIONS
        expected = NormalDist().cdf(mu / 2.0 / size)
        assert abs(right - expected) < 5.0 * math.sqrt(0.25 / SESSIONS), (
            "guesses are right so often"
        )
        part = found.noise_epsilon(mu, DELTA, at_once=len(cases())) / case.epsilon
        assert part > 1.0 if size < 1.0 else 0.2 < part < 1.1


def test_the_units_of_work_add_up_to_all_sessions() -> None:
    """The units together have all sessions, half with each data set."""
    case = Case(4.0, "clipped", "each", "component", "exact")
    work = list(units(case, sessions=30, twins=2_000, seed=1))
    assert sum(u.sessions for u in work if u.twin) == 2_000
    parts = {u.twin: play(u) for u in work}
    assert (parts[True].nothing, parts[True].everything) == (1_000, 1_000)
    assert parts[True] == play(next(u for u in work if u.twin)), "the twin can be repeated"
    assert parts[False].nothing == parts[False].everything == 15
    assert Seen() + parts[True] == parts[True]
    assert (parts[True] + parts[True]).true == tuple(2 * count for count in parts[True].true)


def test_bounds_of_clopper_and_pearson() -> None:
    """Known values; without sessions nothing is proved."""
    for counts, least, most in (
        (Seen(20, 20, (2,), (18,)), 0.68302, 0.31698),
        (Seen(10, 10, (0,), (10,)), 0.69150, 0.30850),
    ):
        assert list(counts.bounds()) == [pytest.approx((least, most), abs=1e-5)]
    more = list(Seen(20, 20, (2, 2), (18, 18)).bounds())
    assert more[0] == more[1]
    assert more[0][0] < 0.683, "who tries twice proves less by each"
    assert more[0][1] > 0.317
    for counts in (Seen(), Seen(10, 10, (10,), (0,)), Seen(10, 10, (5,), (5,))):
        assert counts.epsilon(DELTA) == counts.gaussian_epsilon(DELTA) == 0.0


def test_a_page_keeps_the_sections_of_others(tmp_path: Path) -> None:
    """Each attack replaces its own section, and no other."""
    path = tmp_path / "ATTACK.md"
    page.put(path, "One", ["first"])
    page.put(path, "Two", ["second"])
    page.put(path, "One", ["third"])
    assert path.read_text() == f"{page.TITLE}\n\n## One\n\nthird\n\n## Two\n\nsecond\n"
