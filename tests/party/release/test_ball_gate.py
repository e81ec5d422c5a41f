"""The gate with the step `ball`: clipped answers, noise that falls, the cost of each release."""

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from party.ledger.accounts import accounts
from party.ledger.budget import Account, opened
from party.ledger.session_ledger import Ledger
from party.model.best_response import responder
from party.rehearsal.in_process import players, run
from party.release.allocation import own_allocation
from party.release.gate import clamped
from party.release.noise import DiscreteGaussian
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.agreement.quantities import quantities
from protocol.numeric import Floats, Ticks
from protocol.outcome.outcome import outcome
from protocol.privacy.accountant import gaussian_epsilon
from protocol.privacy.ball import ball, clip
from protocol.privacy.calibration import Calibration
from protocol.rounds import RoundEngine, RoundState
from scripts.lab.common.agreements import public_key
from scripts.lab.common.instances import draw
from tests.support.gates import Problem, Shift, gate

NAMES = ["ada", "ben", *(f"p{k}" for k in range(18))]


def agree(**of_each: float) -> Agreement:
    return from_table(
        {
            "session": "ball",
            "mode": "private",
            "reveal": "totals",
            "rounds": 6,
            "privacy": {"epsilon": 8.0, "delta": 0.001},
            "resource": [{"name": f"r{j}", "capacity": 10.0, "worth": 50.0} for j in range(2)],
            "member": [
                {"name": name, "share": 0.1, "signing_key": public_key(name), **of_each}
                for name in NAMES
            ],
        }
    )


AGREEMENT = agree()


def released(
    problem: Problem, state: RoundState, noise: Any, agreement: Agreement = AGREEMENT
) -> tuple[list[int], list[int]]:
    """The demand and the unmasked numbers of one release."""
    with closing(Ledger(":memory:", agreement, "ada")) as ledger:
        own = gate(agreement, problem, noise, ledger)
        own._masks = _NoMasks()  # type: ignore[assignment]
        own.release(state)
        asked, unmasked = ledger.demands()
        return asked[-1].tolist(), unmasked[-1].tolist()


class _NoMasks:
    """Leaves numbers as they are: only what is beneath the mask matters here."""

    def masked(self, values: Ticks, state: RoundState) -> Ticks:  # noqa: ARG002
        return values


def opening(agreement: Agreement = AGREEMENT) -> RoundState:
    engine = RoundEngine(agreement)
    return engine.pair(engine.opening, [])


@pytest.mark.parametrize(
    "problem",
    [Problem(fails=True), Problem(float("nan"), 1.0), Problem(0.3, float("inf"))],
    ids=["late", "not a number", "infinite"],
)
def test_without_a_usable_answer_the_centre_is_released(problem: Problem) -> None:
    """A late or failed solver, or a number that is none, counts as the centre plus noise."""
    center = ball(AGREEMENT).center[0].tolist()
    demand, unmasked = released(problem, opening(), Shift(5, -6))
    assert demand == center
    assert unmasked == [center[0] + 5, center[1] - 6]


def test_an_answer_counts_from_the_floor() -> None:
    """With floors of −1 unit, a capacity of 10 has 30 units above them; the centre stays itself."""
    agreement = agree(floor=-0.1)
    center = ball(agreement).center[0]
    units = [30.0 * ticks / agreement.ticks - 1.0 for ticks in center.tolist()]
    assert ball(agreement).axes[0].all()
    demand, _ = released(Problem(*units), opening(agreement), Shift(0, 0), agreement)
    assert np.abs(np.array(demand) - center).max() <= 1  # ticks, by rounding


def test_an_answer_outside_the_ball_is_clipped_before_the_noise() -> None:
    """Asking for everything gives a point of the ball, in the direction of what was asked."""
    public = ball(AGREEMENT)
    demand, _ = released(Problem(1e9, 0.0), opening(), Shift(0, 0))
    apart = (np.array(demand) - public.center[0]) / public.axes[0]
    assert 0.999 <= float((apart * apart).sum()) <= 1.0
    assert apart[0] > 0.0 > apart[1]


def test_the_noise_of_a_round_falls_with_the_root_of_its_number() -> None:
    """σ of round t is that of the first over √(t + 1), and the sampler gets exactly that."""
    noise, state = Shift(0, 0), opening()
    shares = quantities(AGREEMENT).share_ticks
    with closing(Ledger(":memory:", AGREEMENT, "ada")) as ledger:
        own = gate(AGREEMENT, Problem(0.5, 0.5), noise, ledger)
        own._masks = _NoMasks()  # type: ignore[assignment]
        engine = RoundEngine(AGREEMENT)
        for _ in range(AGREEMENT.rounds):
            own.release(state)
            state = engine.advance(state, ball(AGREEMENT).center)
    first = Calibration(AGREEMENT).scales(shares)[0]
    for number, (_, scales, _, _) in enumerate(noise.drawn):
        assert scales == pytest.approx(first / np.sqrt(number + 1.0), rel=1e-12)


def test_a_release_without_an_answer_takes_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """It clips, too: the member's share, which lies outside the ball like a large answer."""
    clipped, in_ticks = list[bool](), list[Ticks]()

    def converted(*arguments: Any) -> Ticks:
        in_ticks.append(clamped(*arguments))
        return in_ticks[-1]

    def watched(demand: list[int], center: list[int], axes: list[int]) -> list[int]:
        result = clip(demand, center, axes)
        clipped.append(result != demand)
        return result

    monkeypatch.setattr("protocol.privacy.ball.clip", watched)
    monkeypatch.setattr("party.release.gate.clamped", converted)
    for fails in (False, True):
        released(Problem(9e9, 9e9, fails=fails), opening(), Shift(0, 0))
    assert clipped == [True, True]
    assert len(in_ticks) == 2


def test_noise_drawn_ahead_is_that_of_its_round() -> None:
    """`prepare` draws for one round only; the next round gets a new draw with its own scale."""

    class Counting(DiscreteGaussian):
        def __init__(self) -> None:
            super().__init__()
            self.ahead: list[tuple[Floats, int]] = []

        def prefetch(self, scales: Floats, count: int = 16) -> None:
            self.ahead.append((scales, count))
            super().prefetch(scales, count)

    noise = Counting()
    with closing(Ledger(":memory:", AGREEMENT, "ada")) as ledger:
        own = gate(AGREEMENT, Problem(0.5, 0.5), noise, ledger)
        for number in range(AGREEMENT.rounds + 1):  # after the last round nothing is drawn
            own.prepare(number)
    assert [count for _, count in noise.ahead] == [1] * AGREEMENT.rounds
    assert noise.ahead[3][0] == pytest.approx(noise.ahead[0][0] / 2.0)


def played(releases: int) -> Account:
    return replace(opened(AGREEMENT), releases=releases)


def test_early_releases_cost_less_and_all_together_the_budget() -> None:
    """n of T releases cost n(n+1)/(T(T+1)) of μ²; all cost ε, and no more."""
    mu, T = Calibration(AGREEMENT).mu, AGREEMENT.rounds
    for n in range(T + 1):
        assert played(n).spent.mu_squared == pytest.approx(mu**2 * n * (n + 1) / (T * (T + 1)))
    assert played(T).spent.mu_squared == pytest.approx(played(T).agreed.mu_squared)
    assert 7.999 < gaussian_epsilon(mu=mu, delta=0.001) <= 8.0
    assert played(T).spent.epsilon(0.001) <= 8.0


def test_the_ledger_keeps_that_early_releases_cost_less(tmp_path: Path) -> None:
    """The account that is read back from the file counts a session of the step `ball` alike."""
    with closing(Ledger(tmp_path / "ada.ledger", AGREEMENT, "ada")):
        pass
    (account,), _ = accounts(tmp_path / "ada.ledger")
    assert account.growing
    assert account == opened(AGREEMENT)


def test_members_end_with_equal_prices_and_quotas_that_fit() -> None:
    """A whole session with real sessions, gates and ledgers: equal hashes, private quotas."""
    instance = draw(3, parties=20, resources=2, share_total=2.0, demands=False)
    table = [
        {"name": f"r{j}", "capacity": float(c), "worth": 100.0}
        for j, c in enumerate(instance.capacity)
    ]
    agreement = from_table(
        {
            "session": "whole",
            "mode": "private",
            "reveal": "totals",
            "rounds": 20,
            "rehearsal": True,
            "privacy": {"epsilon": 20.0, "delta": 0.001},
            "resource": table,
            "member": [
                {"name": name, "share": 0.1, "signing_key": public_key(name)} for name in NAMES
            ],
        }
    )
    problems = [
        responder(data, agreement, member.name)
        for data, member in zip(instance.data, agreement.members, strict=True)
    ]
    with players(agreement, problems, 7) as members:
        run(members)
        assert len({m.finished and m.finished.chain_hash for m in members}) == 1
        known = outcome(agreement, members[0].ledger.transcript())
        parts = [own_allocation(known, m.session.me, m.ledger) for m in members]
    quotas = np.array([part.quota for part in parts if part is not None])
    assert len(quotas) == 20
    assert (quotas.sum(axis=0) <= agreement.ticks).all()
    assert np.abs(quotas - known.endowment).max() > 0.01 * agreement.ticks, "something was traded"
