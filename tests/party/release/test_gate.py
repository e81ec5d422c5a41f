"""The gate answers each round once, within the caps, and records before it returns."""

import math
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from msgspec.structs import replace

from party.ledger.session_ledger import Ledger
from party.model.best_response import Subproblem
from party.release.gate import Gate
from party.release.noise import SeededGaussian
from protocol.agreement.model import Agreement
from protocol.agreement.schema import TICKS
from protocol.errors import BadAgreement, BadLedger, InternalError, LocalError
from protocol.rounds import RoundEngine, RoundState
from protocol.wire.codec import Reader, release_bytes
from protocol.wire.messages import VALUE_LIMIT, Message, Release, Signed
from tests.support.builders import make_agreement
from tests.support.gates import Problem, Shift, gate
from tests.support.ledgers import in_memory

HALF = TICKS // 2
KEYS = {m.name: m.signing_key.hex() for m in make_agreement().members}
SQRT = {"step": "sqrt", "step_size": 0.1}
PRIVATE: dict[str, Any] = {
    "mode": "private",
    "privacy": {"epsilon": 1.0, "delta": 0.001, "accountant": "paper"},
}


def values(signed: Signed) -> tuple[int, ...]:
    assert isinstance(signed.message, Release)
    return signed.message.values


def after(agreement: Agreement, state: RoundState, release: Signed) -> RoundState:
    """The next state if all members release these numbers."""
    rows = np.array([values(release)] * len(agreement.members), dtype=np.int64)
    return RoundEngine(agreement).advance(state, rows)


def test_release_is_a_signed_message_of_its_round() -> None:
    """A release has sender, agreement, round and chain hash, and its sender's signature."""
    agreement = make_agreement(rounds=3)
    own_gate = gate(agreement, Problem(5.0, 5.0), Shift(0, 0))
    state = RoundEngine(agreement).opening
    for t in range(3):
        signed = own_gate.release(state)
        opened = Reader(agreement).unpack(signed.data).message
        assert opened == signed.message
        assert (opened.sender, opened.round, opened.chain_hash) == ("ada", t, state.chain_hash)
        assert opened.agreement == agreement.digest
        state = after(agreement, state, signed)


def test_the_subproblem_is_solved_at_the_prices_of_the_round() -> None:
    """The gate asks the subproblem once, at the current prices."""
    agreement = make_agreement(prices={**SQRT, "start": {"r0": 3.0, "r1": 4.0}})
    problem = Problem(5.0, 5.0)
    gate(agreement, problem, Shift(0, 0)).release(RoundEngine(agreement).opening)
    assert [prices.tolist() for prices in problem.asked] == [[3.0, 4.0]]


@pytest.mark.parametrize(("demand", "part"), [(-2.0, 0.0), (2.0, 0.25), (6.0, 0.5)])
def test_a_release_counts_from_the_floor(demand: float, part: float) -> None:
    """With floors of −2 units, a capacity of 10 has 16 units above them."""
    member = [{"name": name, "signing_key": key, "floor": -0.2} for name, key in KEYS.items()]
    agreement = make_agreement(resources=1, member=member)
    release = gate(agreement, Problem(demand), Shift(0)).release(RoundEngine(agreement).opening)
    assert values(release) == (part * agreement.ticks,)


def test_a_second_call_returns_the_same_bytes() -> None:
    """A second call neither solves nor draws noise; it returns the recorded bytes."""
    agreement = make_agreement(**PRIVATE, prices=SQRT)
    problem, noise = Problem(5.0, 5.0), Shift(7, 9)
    own_gate = gate(agreement, problem, noise)
    opening = RoundEngine(agreement).opening
    first = own_gate.release(opening)
    later = own_gate.release(after(agreement, opening, first))
    assert [own_gate.release(opening).data for _ in range(5)] == [first.data] * 5
    assert later.data != first.data
    assert (len(problem.asked), len(noise.drawn)) == (2, 2)


def test_a_restart_returns_the_same_bytes(tmp_path: Path) -> None:
    """After a restart with other noise and another answer, the recorded bytes are returned."""
    agreement = make_agreement(**PRIVATE, prices=SQRT)
    opening = RoundEngine(agreement).opening
    ledger = Ledger(tmp_path / "ledger", agreement, "ada")
    first = gate(agreement, Problem(5.0, 5.0), Shift(7, 9), ledger).release(opening)
    ledger.close()
    problem, noise = Problem(1.0, 1.0), Shift(1, 1)
    ledger = Ledger(tmp_path / "ledger", agreement, "ada")
    again = gate(agreement, problem, noise, ledger).release(opening)
    ledger.close()
    assert again.data == first.data
    assert (problem.asked, noise.drawn) == ([], [])


def test_other_prices_for_an_answered_round_get_the_recorded_bytes(tmp_path: Path) -> None:
    """The gate gives no second answer to a round, even at other prices."""
    agreement = make_agreement()
    problem = Problem(5.0, 5.0)
    ledger = Ledger(tmp_path / "ledger", agreement, "ada")
    own_gate = gate(agreement, problem, Shift(0, 0), ledger)
    opening = RoundEngine(agreement).opening
    first = own_gate.release(opening)
    dearer = replace(opening, prices=replace(opening.prices, current=np.array([9.0, 9.0])))
    assert own_gate.release(dearer).data == first.data
    assert len(problem.asked) == 1
    ledger.close()


def test_no_release_after_the_last_round() -> None:
    """After the agreed number of rounds nothing is solved, drawn or released."""
    agreement = make_agreement(rounds=2)
    problem, noise = Problem(5.0, 5.0), Shift(0, 0)
    own_gate = gate(agreement, problem, noise)
    state = RoundEngine(agreement).opening
    for _ in range(2):
        state = after(agreement, state, own_gate.release(state))
    with pytest.raises(InternalError, match="more releases than agreed"):
        own_gate.release(state)
    assert (len(problem.asked), len(noise.drawn)) == (2, 2)


def test_each_sign_of_the_end_forbids_a_release() -> None:
    """A state that is over forbids it before the last round, and the last round in any state."""
    agreement = make_agreement(rounds=1)
    problem, ledger = Problem(5.0, 5.0), in_memory(agreement, "ada")
    own_gate, opening = (
        gate(agreement, problem, Shift(0, 0), ledger),
        RoundEngine(agreement).opening,
    )
    with pytest.raises(InternalError, match="more releases than agreed"):
        own_gate.release(replace(opening, over=True))
    last = after(agreement, opening, own_gate.release(opening))
    with pytest.raises(InternalError, match="more releases than agreed"):
        own_gate.release(replace(last, over=False))
    assert (len(problem.asked), len(ledger.own())) == (1, 1)


@pytest.mark.parametrize("mode", ["exact", "private"])
def test_noise_is_loaded_before_the_first_round_if_it_is_used(mode: str) -> None:
    """A paced release must not wait for a library, and an exact session needs none."""
    loaded = []

    class Loaded(Shift):
        def load(self) -> None:
            loaded.append(mode)

    agreement = make_agreement(**PRIVATE, prices=SQRT) if mode == "private" else make_agreement()
    gate(agreement, Problem(5.0, 5.0), Loaded(0, 0))
    assert loaded == ["private"] * (mode == "private")


@pytest.mark.parametrize("fails", [True, False])
def test_the_ledger_notes_in_which_rounds_the_solver_failed(fails: bool) -> None:
    """The operator reads it later; no other member can."""
    agreement = make_agreement(**PRIVATE, prices=SQRT)
    ledger = in_memory(agreement, "ada")
    own_gate = gate(agreement, Problem(5.0, 5.0, fails=fails), Shift(0, 0), ledger)
    own_gate.release(RoundEngine(agreement).opening)
    assert ledger.unanswered() == fails


def test_no_round_is_skipped() -> None:
    """A release for a later round is neither returned nor recorded."""
    agreement = make_agreement()
    ledger = in_memory(agreement, "ada")
    own_gate = gate(agreement, Problem(5.0, 5.0), Shift(0, 0), ledger)
    opening = RoundEngine(agreement).opening
    ahead = replace(opening, prices=replace(opening.prices, round=1))
    with pytest.raises(InternalError, match="release 1 would follow 0 recorded ones"):
        own_gate.release(ahead)
    assert ledger.own() == ()
    assert own_gate.release(opening).message.round == 0


@pytest.mark.parametrize("mode", ["exact", "private"])
def test_seeded_noise_is_refused_outside_rehearsals(mode: str) -> None:
    """Every session that is not a rehearsal refuses repeatable noise."""
    fields: dict[str, Any] = {"mode": mode, "prices": SQRT}
    if mode == "private":
        fields["privacy"] = PRIVATE["privacy"]
    with pytest.raises(LocalError, match="seeded noise gives no privacy and 'test' is not a reh"):
        gate(make_agreement(**fields), Problem(5.0, 5.0), SeededGaussian(1))
    rehearsal = make_agreement(**fields, rehearsal=True)
    gate(rehearsal, Problem(5.0, 5.0), SeededGaussian(1)).release(RoundEngine(rehearsal).opening)


def test_only_a_member_has_a_gate() -> None:
    """A name that is not in the agreement is refused."""
    agreement = make_agreement()
    with pytest.raises(BadAgreement, match="'zoe' is not a member"):
        gate(agreement, Problem(5.0, 5.0), Shift(0, 0), in_memory(agreement, "zoe"), "zoe")


@pytest.mark.parametrize(
    ("demand", "ticks"),
    [
        ((5.0, 5.0), (HALF, TICKS // 4)),
        ((0.0, 20.0), (0, TICKS)),
        ((-1e-9, 20.0 + 1e-9), (0, TICKS)),
        ((-3.0, 25.0), (0, TICKS)),
        ((10.0 * 1.4 / TICKS, 20.0 * 1.6 / TICKS), (1, 2)),
        ((math.nan, math.inf), (0, TICKS)),
        ((-math.inf, 1e300), (0, TICKS)),
    ],
)
def test_a_demand_is_clamped_and_rounded_to_ticks(
    demand: tuple[float, ...], ticks: tuple[int, ...]
) -> None:
    """Any answer of the solver becomes the nearest tick within [0, cap]."""
    agreement = make_agreement()
    release = gate(agreement, Problem(*demand), Shift(0, 0)).release(RoundEngine(agreement).opening)
    assert values(release) == ticks


def test_a_release_is_capped_by_the_share() -> None:
    """A demand above the member's share is released as the share."""
    share = {"r0": 0.5, "r1": 0.25}
    ada = {"name": "ada", "share": share, "signing_key": KEYS["ada"]}
    agreement = make_agreement(member=[ada, {"name": "ben"}])
    noise = Shift(5, 6)
    release = gate(agreement, Problem(10.0, 20.0), noise).release(RoundEngine(agreement).opening)
    assert noise.drawn[0][0].tolist() == [HALF, TICKS // 4]
    assert values(release) == (HALF + 5, TICKS // 4 + 6)


def test_clipped_mode_uses_the_caps_of_the_round() -> None:
    """In clipped mode the current caps apply, and the noise shrinks with them."""
    privacy = {**PRIVATE["privacy"], "alpha": 1.5}
    agreement = make_agreement(mode="clipped", privacy=privacy, prices=SQRT)
    noise = Shift(0, 0)
    own_gate = gate(agreement, Problem(10.0, 20.0), noise)
    opening = RoundEngine(agreement).opening
    first = own_gate.release(opening)
    assert values(first) == (HALF, HALF)
    caps = opening.caps.copy()
    caps[0] = [HALF // 2, HALF // 8]
    second = own_gate.release(replace(after(agreement, opening, first), caps=caps))
    assert values(second) == (HALF // 2, HALF // 8)
    before, now = noise.drawn[0][1], noise.drawn[1][1]
    assert (now / before).tolist() == pytest.approx([1 / 2, 1 / 8])


def test_the_noise_has_the_scale_of_the_paper() -> None:
    """Noise is drawn for member and round with σ = cap·√(Tm/2ρ) in ticks."""
    shares = [0.5, 1.0, 1.0]
    members = [
        {"name": name, "share": share, "signing_key": KEYS[name]}
        for name, share in zip(KEYS, shares, strict=True)
    ]
    agreement = make_agreement(**PRIVATE, rounds=7, prices=SQRT, member=members)
    noise = Shift(0, 0)
    gate(agreement, Problem(5.0, 5.0), noise).release(RoundEngine(agreement).opening)
    log = math.log(1000.0)
    rho = (math.sqrt(log + 1.0) - math.sqrt(log)) ** 2
    _, scales, member, round_ = noise.drawn[0]
    assert scales.tolist() == pytest.approx([HALF * math.sqrt(7 * 2 / (2 * rho))] * 2, rel=1e-12)
    assert (member, round_) == ("ada", 0)


def test_a_truncated_release_is_within_the_capacity() -> None:
    """After the noise, each demand is cut to between τ and the capacity."""
    privacy = {**PRIVATE["privacy"], "truncate": True, "tau": 0.25}
    agreement = make_agreement(mode="private", privacy=privacy, prices=SQRT)
    opening = RoundEngine(agreement).opening
    for shift, expected in (
        ((-(10**9), 10**9), (TICKS // 4, TICKS)),
        ((0, 0), (HALF, TICKS // 4)),
        ((-HALF, HALF), (TICKS // 4, TICKS // 4 + HALF)),
    ):
        release = gate(agreement, Problem(5.0, 5.0), Shift(*shift)).release(opening)
        assert values(release) == expected


@pytest.mark.parametrize(
    ("objective", "ticks"),
    [(50.0, HALF), (100.0, TICKS), (1e9, TICKS), (0.0, 0), (-20.0, 0), (math.nan, 0)],
)
def test_a_shared_objective_is_clamped_to_its_limit(objective: float, ticks: int) -> None:
    """A shared objective is one more number, between 0 and its limit."""
    privacy = {**PRIVATE["privacy"], "share_objective": True, "objective_limit": 100.0}
    agreement = make_agreement(mode="private", privacy=privacy, prices=SQRT)
    noise = Shift(0, 0, 11)
    problem = Problem(5.0, 5.0, objective=objective)
    release = gate(agreement, problem, noise).release(RoundEngine(agreement).opening)
    assert values(release) == (HALF, TICKS // 4, ticks + 11)
    assert noise.drawn[0][1].shape == (3,)
    assert noise.drawn[0][1].min() > 0.0


def test_truncation_leaves_the_objective() -> None:
    """Truncation cuts demands only."""
    privacy = {
        **PRIVATE["privacy"],
        "truncate": True,
        "share_objective": True,
        "objective_limit": 100.0,
    }
    agreement = make_agreement(mode="private", privacy=privacy, prices=SQRT)
    problem = Problem(5.0, 5.0, objective=50.0)
    own_gate = gate(agreement, problem, Shift(-(10**8), 10**8, -(10**8)))
    release = values(own_gate.release(RoundEngine(agreement).opening))
    assert release == (math.ceil(0.01 * TICKS), TICKS, HALF - 10**8)


def test_a_failed_solver_counts_as_no_demand() -> None:
    """A failed solver leads to a release of 0 plus noise, which looks like any other."""
    privacy = {**PRIVATE["privacy"], "share_objective": True, "objective_limit": 100.0}
    agreement = make_agreement(mode="private", privacy=privacy, prices=SQRT)
    opening = RoundEngine(agreement).opening
    failed = gate(agreement, Problem(fails=True), Shift(5, 6, 7)).release(opening)
    none = gate(agreement, Problem(0.0, 0.0), Shift(5, 6, 7)).release(opening)
    assert values(failed) == (5, 6, 7)
    assert failed.data == none.data


def test_an_exception_of_the_solver_counts_as_no_demand() -> None:
    """The text of the exception, which may hold private numbers, goes nowhere."""

    class Broken(Problem):
        def answer(self, prices: Any) -> Any:
            raise ArithmeticError(f"the private pivot {prices} is 0")

    agreement = make_agreement(**PRIVATE, prices=SQRT)
    release = gate(agreement, Broken(), Shift(5, 6)).release(RoundEngine(agreement).opening)
    assert values(release) == (5, 6)


def test_noise_beyond_the_largest_number_is_cut() -> None:
    """Such a draw is no error, which would reveal it."""
    agreement = make_agreement(**PRIVATE, prices=SQRT)
    noise = Shift(1 << 60, -(1 << 60))
    release = gate(agreement, Problem(5.0, 5.0), noise).release(RoundEngine(agreement).opening)
    assert values(release) == (VALUE_LIMIT, -VALUE_LIMIT)


def test_all_releases_have_one_length() -> None:
    """The length of a release does not depend on its numbers."""
    agreement = make_agreement(**PRIVATE, prices=SQRT)
    opening = RoundEngine(agreement).opening
    lengths = {
        len(gate(agreement, Problem(d, d), Shift(n, -n)).release(opening).data)
        for d in (0.0, 5.0, 10.0)
        for n in (0, 1, 10**6, 1 << 47)
    }
    assert lengths == {release_bytes(agreement)}


class FullDisk:
    """A ledger that cannot write."""

    def __init__(self) -> None:
        self.tried: list[Signed] = []

    def release(self, round: int) -> None:  # noqa: A002, ARG002
        return None

    def record_release(self, release: Signed, *_: object, **__: object) -> None:
        self.tried.append(release)
        raise BadLedger("the disk is full")


def test_a_release_that_cannot_be_recorded_is_not_returned() -> None:
    """The gate records first: if the disk is full, it raises."""
    agreement = make_agreement()
    disk = FullDisk()
    with pytest.raises(BadLedger, match="the disk is full"):
        gate(agreement, Problem(5.0, 5.0), Shift(0, 0), cast(Ledger, disk)).release(
            RoundEngine(agreement).opening
        )
    assert len(disk.tried) == 1


def test_a_release_that_cannot_be_signed_is_not_recorded() -> None:
    """The round stays open and can be answered later."""
    agreement = make_agreement()
    ledger = in_memory(agreement, "ada")
    opening = RoundEngine(agreement).opening

    def broken(message: Message) -> Signed:
        raise LocalError(f"no key for {message.sender}")

    own_gate = Gate(
        agreement,
        "ada",
        subproblem=cast(Subproblem, Problem(5.0, 5.0)),
        noise=Shift(0, 0),
        ledger=ledger,
        pack=broken,
    )
    with pytest.raises(LocalError, match="no key for ada"):
        own_gate.release(opening)
    assert ledger.release(0) is None
    release = gate(agreement, Problem(5.0, 5.0), Shift(0, 0), ledger).release(opening)
    assert values(release) == (HALF, TICKS // 4)
