"""Releases leave at their public time, and the solver process keeps to its time."""

import ctypes
import os
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from party.driver import Driver
from party.ledger.session_ledger import Ledger
from party.model.best_response import Answer, subproblem
from party.model.solver_process import Solver
from party.model_check import pace_for
from party.release import pacing
from party.release.masks import Masks
from party.release.noise import DRAWN_AHEAD, DiscreteGaussian
from party.release.pacing import Pacer, solving_seconds
from protocol.agreement.model import Agreement
from protocol.errors import BadData, NoSolver
from protocol.numeric import Floats, Ticks
from protocol.rounds import RoundEngine, mask_keys
from protocol.wire.messages import Signed
from scripts.lab.attack.timing import Timed, accuracy, attacked
from scripts.lab.common.instances import Instance, draw
from tests.support import ROOT
from tests.support.builders import make_agreement, signer
from tests.support.gates import Problem, Shift, gate
from tests.support.ledgers import in_memory
from tests.support.wait import until

PACE = 0.05


def agreed(instance: Instance) -> Agreement:
    resources = [{"name": f"r{j}", "capacity": c} for j, c in enumerate(instance.capacity.tolist())]
    return make_agreement(members=3, resource=resources, pace_seconds=PACE)


INSTANCE = draw(4, parties=3, resources=3, demands=False)
AGREEMENT = agreed(INSTANCE)


@pytest.fixture
def solver() -> Iterator[Solver]:
    with closing(Solver(INSTANCE.data[0], AGREEMENT, "ada", seconds=1.0)) as beside:
        yield beside


def answered(solver: Solver, prices: Floats) -> Answer:
    """The solver's answer; asks until it is ready, however busy the machine is."""

    def once() -> Answer | None:
        solver.ask(prices)
        time.sleep(0.02)
        return solver.answer(prices)

    found = until(once, "the solver answers")
    assert found is not None
    return found


def state(process: int) -> str:
    """The state of a process: T if it is stopped, empty if it is gone."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_the_solver_process_gives_the_same_answers(solver: Solver) -> None:
    """Answers from the process equal those computed here."""
    problem = subproblem(INSTANCE.data[0], AGREEMENT, "ada")
    for prices in np.random.default_rng(5).uniform(0.0, 3.0, (8, 3)):
        beside, here = answered(solver, prices), problem.answer(prices)
        assert here is not None
        assert beside.demand == pytest.approx(here.demand)
        assert beside.objective == pytest.approx(here.objective)


def test_a_late_answer_is_never_used_for_another_round(solver: Solver) -> None:
    """An answer to earlier prices is dropped."""
    problem = subproblem(INSTANCE.data[0], AGREEMENT, "ada")
    dear, cheap = np.full(3, 1e3), np.full(3, 1e-3)
    expected = problem.answer(cheap)
    assert expected is not None
    for _ in range(5):
        solver.ask(dear)
        solver.answer(dear)  # ready or not: the call does not wait
        assert answered(solver, cheap).demand == pytest.approx(expected.demand)


def test_a_solver_runs_only_between_question_and_deadline(solver: Solver) -> None:
    """Outside of its time the process is stopped and takes no CPU time."""
    process = solver._process.pid
    until(lambda: state(process) == "T", "it is stopped before the first question")
    answered(solver, np.ones(3))
    until(lambda: state(process) == "T", "it is stopped when its time is over")


def test_a_crashed_solver_is_replaced(solver: Solver) -> None:
    """A crash costs one answer, and the party goes on."""
    before = answered(solver, np.ones(3))
    solver._process.kill()
    solver._process.wait()
    assert solver.answer(np.ones(3)) is None
    assert answered(solver, np.ones(3)).demand == pytest.approx(before.demand)


def test_a_truncated_question_affects_no_later_one(
    solver: Solver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pipe to a slow solver may take only a part of a long question."""
    before = answered(solver, np.ones(3))
    whole = solver._socket

    class Narrow:
        def send(self, data: bytes, flags: int) -> int:
            return whole.send(data[:20], flags)

    with monkeypatch.context() as patch:
        patch.setattr(solver, "_socket", Narrow())
        solver.ask(np.ones(3))
    assert solver.answer(np.ones(3)) is None
    assert answered(solver, np.ones(3)).demand == pytest.approx(before.demand)


@pytest.mark.parametrize("lacking", ["socket.socketpair", "subprocess.Popen", "threading.Thread"])
def test_a_solver_that_cannot_be_restarted_has_no_answer(
    solver: Solver, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    """The party goes on without answers until the system can start a process again."""
    before = answered(solver, np.ones(3))
    solver._process.kill()
    solver._process.wait()

    def no_room(*_: object, **__: object) -> None:
        raise RuntimeError if "Thread" in lacking else BlockingIOError

    with monkeypatch.context() as patch:
        patch.setattr(lacking, no_room)
        for _ in range(2):
            solver.ask(np.ones(3))
            assert solver.answer(np.ones(3)) is None
    assert answered(solver, np.ones(3)).demand == pytest.approx(before.demand)


def test_a_hanging_solver_is_replaced_and_a_loading_one_is_not(solver: Solver) -> None:
    """After some rounds without an answer it is restarted, with time to load its model."""
    before, process = answered(solver, np.ones(3)), solver._process
    mute, _unheard = socket.socketpair()
    with mute, _unheard:
        solver._socket.close()
        solver._socket = mute
        for _ in range(3):
            solver.ask(np.ones(3))
            assert solver.answer(np.ones(3)) is None
            assert solver._process is process
        solver.ask(np.ones(3))
        assert solver._process is not process
        process = solver._process
        solver.answer(np.ones(3))
        assert answered(solver, np.ones(3)).demand == pytest.approx(before.demand)
        assert solver._process is process


@pytest.mark.parametrize("lacking", ["socket.socketpair", "subprocess.Popen", "threading.Thread"])
def test_a_solver_that_cannot_be_started_ends_the_command(
    monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    """The error comes before anything is sent, and says what to do."""

    def no_room(*_: object, **__: object) -> None:
        raise RuntimeError if "Thread" in lacking else BlockingIOError(11, "no room")

    monkeypatch.setattr(lacking, no_room)
    with pytest.raises(NoSolver, match="limits on memory"):
        Solver(INSTANCE.data[0], AGREEMENT, "ada", seconds=1.0)


@pytest.mark.parametrize("masked", [False, True])
def test_rounds_without_an_answer_are_counted_in_the_ledger_only(
    tmp_path: Path, masked: bool
) -> None:
    """The count is part of the release's transaction, and takes the same number of bytes."""
    agreement = make_agreement(members=3, rounds=3, reveal="totals" if masked else "each")
    sizes, lengths = set(), set()
    for fails in (False, True):
        path = tmp_path / f"{fails}.ledger"
        with closing(Ledger(path, agreement, "ada")) as ledger:
            release = first_release(agreement, Problem(0.0, 0.0, fails=fails), ledger)
            lengths.add(len(release.data))
            assert not ledger._file._base.in_transaction
            assert ledger.unanswered() == fails
            sizes.add((path.stat().st_size, Path(f"{path}-wal").stat().st_size))
        with closing(Ledger(path, agreement, "ada")) as ledger:
            assert ledger.unanswered() == fails
    assert len(sizes) == len(lengths) == 1


def first_release(agreement: Agreement, problem: Problem, ledger: Ledger) -> Signed:
    """The first release of ada, after the mask keys of all if the agreement has masks."""
    engine = RoundEngine(agreement)
    state, own_gate = engine.opening, gate(agreement, problem, Shift(0, 0), ledger)
    if state.unpaired:
        others = [
            Masks(agreement, name, in_memory(agreement, name), signer(name)).key(state)
            for name in ("ben", "cyd")
        ]
        keys = (own_gate.release(state), *others)
        ledger.record_mask_keys(keys)
        state = engine.pair(state, mask_keys(keys))
    return own_gate.release(state)


def test_the_solver_process_refuses_a_model_with_the_same_message() -> None:
    """The error of the process equals the error of a check in this process."""
    data = replace(INSTANCE.data[0], lower=INSTANCE.data[0].lower + 1e6)
    data = replace(data, upper=data.lower + 1.0)
    with pytest.raises(BadData) as here:
        subproblem(data, AGREEMENT, "ada")
    with pytest.raises(BadData) as beside:
        Solver(data, AGREEMENT, "ada", seconds=1.0)
    assert str(beside.value) == str(here.value)


KILLED = """
import os, signal
from party.model.solver_process import Solver
from tests.party.release.test_pacing import AGREEMENT, INSTANCE, state
process = Solver(INSTANCE.data[0], AGREEMENT, "ada", seconds=1.0)._process.pid
while {stopped} and state(process) != "T":
    pass
print(process, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def adopting() -> Iterator[None]:
    """Makes this process the parent of orphans, as the first process of a container is."""
    adopt = 36  # PR_SET_CHILD_SUBREAPER
    ctypes.CDLL(None).prctl(adopt, 1, 0, 0, 0)
    yield
    ctypes.CDLL(None).prctl(adopt, 0, 0, 0, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="adopts orphans as Linux does")
@pytest.mark.usefixtures("adopting")
@pytest.mark.parametrize("stopped", [True, False])
def test_no_solver_outlives_its_party(stopped: bool) -> None:
    """A killed party leaves no solver process, stopped or running."""
    command = [sys.executable, "-c", KILLED.format(stopped=stopped)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    process = int(done.stdout)
    until(lambda: state(process) in ("", "Z"), "the solver is gone, too")
    with suppress(ChildProcessError):  # where this process could not adopt it, another has
        os.waitpid(process, 0)


@pytest.mark.parametrize("ready", [True, False])
def test_a_release_is_recorded_before_its_time_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ready: bool
) -> None:
    """With or without an answer, the steps are the same and the release is not early."""
    agreement = make_agreement(rounds=2, pace_seconds=PACE)
    problem = Problem(3.0, 5.0, fails=not ready)
    done: list[str] = []
    sleep = pacing._sleep_until

    def watched(moment: float) -> None:
        kept = "recorded" if ledger.release(0) else "nothing recorded"
        open_transaction = ledger._file._base.in_transaction
        done.append(
            f"{kept}, {'not ' if open_transaction else ''}durable, asked {problem.announced}"
        )
        sleep(moment)

    monkeypatch.setattr(pacing, "_sleep_until", watched)
    with closing(Ledger(tmp_path / "ledger", agreement, "ada")) as ledger:
        own_gate, opened = gate(agreement, problem, Shift(1, 2), ledger), time.monotonic()
        state = RoundEngine(agreement).opening
        release = Pacer(PACE).release(own_gate, ledger, state, opened)
        assert time.monotonic() >= opened + PACE
        assert ledger.release(0) == release
        asked = [state.prices.current]
        assert done == [
            f"nothing recorded, durable, asked {asked}",
            f"recorded, durable, asked {asked}",
        ]
        again = Pacer(PACE).release(own_gate, ledger, state, time.monotonic())
        assert (again, len(problem.announced), len(problem.asked)) == (release, 1, 1)


class WatchedPacer(Pacer):
    """A pacer that knows whether a release is being made."""

    within = False

    def release(self, *arguments: Any) -> Signed:
        self.within = True
        try:
            return super().release(*arguments)
        finally:
            self.within = False


class WatchedNoise(DiscreteGaussian):
    """Real noise that records when it was drawn."""

    def __init__(self, pacer: WatchedPacer, drawn: list[bool]) -> None:
        super().__init__()
        self._pacer, self._drawn_within = pacer, drawn

    def prefetch(self, scales: Floats, count: int = DRAWN_AHEAD) -> None:
        self._drawn_within.append(self._pacer.within)
        super().prefetch(scales, count)

    def add(self, *arguments: Any, **more: Any) -> Ticks:
        self._drawn_within.append(self._pacer.within)
        return super().add(*arguments, **more)


def test_noise_is_drawn_only_while_a_release_is_made() -> None:
    """The time of a draw delays nothing that others can measure."""
    noisy = {"mode": "private", "privacy": {"epsilon": 1.0, "delta": 0.01}}
    agreement = make_agreement(members=2, rounds=3, pace_seconds=PACE, **noisy)
    drawn: list[bool] = []
    parties: list[Driver] = []
    for name in ("ada", "ben"):
        pacer, ledger = WatchedPacer(PACE), in_memory(agreement, name)
        own_gate = gate(agreement, Problem(3.0, 5.0), WatchedNoise(pacer, drawn), ledger, name)
        who = signer(name)
        nonce = name.encode().ljust(16)
        parties.append(
            Driver(
                agreement, name, nonce=nonce, pack=who, gate=own_gate, ledger=ledger, pacer=pacer
            )
        )
    now = 0.0
    mail = deque(signed for party in parties for signed in party.begin(now))
    while not all(party.session.state.over for party in parties):
        now = max(now, time.monotonic())
        for party in parties:
            replies = [answer for signed in list(mail) for answer in party.receive(signed, now)]
            mail += replies if replies else party.tick(now)
            party.run_idle_work()
            mail += party.respond()
            party.run_idle_work()
    assert len(drawn) >= 4 * agreement.rounds  # of both, ahead and for the release
    assert all(drawn)


@pytest.mark.parametrize("slowest", [1e-5, 0.003, 0.0123, 0.7, 40.0])
def test_a_proposed_pace_has_a_margin(slowest: float) -> None:
    """The slowest answer fits in it three times, and it has two digits."""
    pace = pace_for(slowest)
    assert solving_seconds(pace) > 3.0 * slowest
    assert float(f"{pace:.2g}") == pace


@pytest.mark.parametrize(("apart", "low", "high"), [(1.0, 0.99, 1.0), (0.0, 0.4, 0.6)])
def test_the_timing_attack_finds_times_that_differ(apart: float, low: float, high: float) -> None:
    """It is right in every round if times differ, and in half of them if they do not."""
    rng = np.random.default_rng(3)
    new = rng.random(2_000) < 0.5
    timed = Timed(rng.random(2_000) * 0.9 + apart * new, new)
    assert low <= accuracy(timed) <= high
    assert low <= accuracy(Timed(-timed.seconds, new)) <= high


def test_the_timing_attack_by_chance_is_within_its_stated_bound() -> None:
    """Without information, 19 of 20 results are within 1.25/√rounds of one half."""
    rng, rounds = np.random.default_rng(4), 400
    cells = [Timed(rng.random(rounds), rng.random(rounds) < 0.5) for _ in range(1_000)]
    within = np.mean([abs(accuracy(cell) - 0.5) < 1.25 * rounds**-0.5 for cell in cells])
    assert within == pytest.approx(0.95, abs=0.02)


def test_no_release_of_a_real_party_is_early() -> None:
    """A member that sets every price measures no release before its time."""
    timed = attacked(60, "relay", pace=PACE, rounds=10, seed=2)
    assert len(timed.seconds) == 10
    assert timed.new.any()
    assert not timed.new.all()
    assert timed.seconds.min() >= PACE
