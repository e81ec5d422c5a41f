"""The study: the same numbers on every way to run it, and the committed ones are current."""

import argparse
import functools
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import asdict
from scipy import stats

from party.release.allocation import own_allocation
from party.release.noise import Noise
from protocol.agreement.model import Agreement
from protocol.numeric import Floats, Ticks
from scripts.lab.common.instances import placebo
from scripts.lab.common.local_session import Processes, environment
from scripts.lab.common.ports import reserve
from scripts.lab.study import replicate, tables
from scripts.lab.study.__main__ import manifest
from scripts.lab.study.figures.whole import draw_all
from scripts.lab.study.grid import (
    EXPERIMENTS,
    PAPER_EPSILONS,
    PAPER_VARIANTS,
    VARIANTS,
    Experiment,
    Setting,
    agree,
)
from scripts.lab.study.page import results
from scripts.lab.study.replicate import Companies, Unit, play, session
from scripts.lab.study.tables import COLUMNS, Columns, Results, cell, read, settings, shown, where
from scripts.lab.study.units import units
from scripts.lab.study.workers import versions
from tests.support import ROOT
from tests.support.gates import play as play_gates
from tests.support.ledgers import in_memory
from tests.support.wait import LIMIT, until

COMMITTED = ROOT / "scripts" / "results" / "study"
NAMES = [e.name for e in EXPERIMENTS]

pytestmark = pytest.mark.timeout(1800)


class Drawn(Noise):
    """Gives a gate the draws of the study."""

    private = False

    def __init__(self, agreement: Agreement, draws: Floats) -> None:
        self._agreement, self._draws = agreement, draws

    def add(self, values: Ticks, scales: Floats, *, member: str, round: int) -> Ticks:  # noqa: A002
        draws = self._draws[round, self._agreement.place(member)]
        noise: Ticks = np.rint(draws * scales).astype(np.int64)
        return values + noise


@pytest.mark.parametrize("name", VARIANTS)
def test_sessions_equal_those_of_real_gates(name: str) -> None:
    """Real gates with the same draws reach the same chain hash, which covers all releases.

    With masks every chain hash differs, and prices and totals are equal.
    """
    setting = Setting(4, 0.5, 1.5)
    instance, draws = setting.instance(3), setting.draws(3, 40)
    agreement = agree(VARIANTS[name], instance, rounds=40, epsilon=4.0, buffer=1.5)
    path = play_gates(agreement, instance.subproblems(), Drawn(agreement, draws))
    played = session(agreement, Companies(instance), draws)
    if not agreement.masked:
        assert played.outcome.state.chain_hash == path[-1].chain_hash
    assert (played.outcome.path == [state.prices.current for state in path]).all()


def test_private_quotas_equal_those_of_parties() -> None:
    """Each party computes from its ledger alone the quota of the study."""
    setting = Setting(8, 0.3, 2.0)
    instance, draws = setting.instance(4), setting.draws(4, 30)
    agreement = agree(VARIANTS["totals"], instance, rounds=30, epsilon=100.0, buffer=2.0)
    ledgers = [in_memory(agreement, member.name) for member in agreement.members]
    play_gates(agreement, instance.subproblems(), Drawn(agreement, draws), ledgers)
    played = session(agreement, Companies(instance), draws)
    for member, ledger, quota in zip(agreement.members, ledgers, played.quota, strict=True):
        own = own_allocation(played.outcome, member.name, ledger)
        assert own is not None
        assert own.quota.tolist() == quota.tolist()
    assert len({tuple(row) for row in played.quota.tolist()}) > 1


def test_a_session_does_not_depend_on_earlier_sessions() -> None:
    """Corners remembered from other sessions make answers faster and do not change them."""
    setting = Setting(6, None, 2.0)
    instance, draws = setting.instance(2), setting.draws(2, 60)
    used = Companies(instance)
    for epsilon in (0.1, 4.0, 64.0, 4.0):
        agreement = agree(VARIANTS["recommended"], instance, rounds=60, epsilon=epsilon, buffer=2.0)
        again = session(agreement, used, draws)
        fresh = session(agreement, Companies(instance), draws)
        assert again.outcome.state.chain_hash == fresh.outcome.state.chain_hash


@pytest.mark.parametrize("name", VARIANTS)
def test_no_private_number_is_in_an_agreement(name: str) -> None:
    """Other companies with the same capacities and shares give the same agreement."""
    setting = Setting(5, 0.15, 1.5)
    instance = setting.instance(1)
    other = placebo(instance, 1)
    terms: dict[str, Any] = {"rounds": 20, "epsilon": 2.0, "buffer": 1.5}
    own = agree(VARIANTS[name], instance, **terms)
    assert own.digest == agree(VARIANTS[name], other, **terms).digest
    assert (other.data[0].utility[:5] != instance.data[0].utility[:5]).all()


def lines(tables: Sequence[Any], table: str) -> list[list[str]]:
    return [[shown(row.get(column)) for column in COLUMNS[table]] for row in tables]


def test_the_same_unit_gives_the_same_rows() -> None:
    """A replication can be repeated, digit for digit."""
    unit = Unit("parties", settings("parties")[0], 7)
    first, second = play(unit), play(unit)
    assert lines(first.tables["sessions"], "sessions") == lines(
        second.tables["sessions"], "sessions"
    )


class Study:
    """A study of a few replications in its own folder."""

    def __init__(self, out: Path, *arguments: str) -> None:
        self.out, self.work = out, out / ".work"
        self._command = [
            sys.executable, "-m", "scripts.lab.study", "--out", str(out), "--only", "quota",
            "--replications", "3", *arguments,
        ]  # fmt: skip

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._command,
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def finish(self) -> str:
        process = self.start()
        text, _ = process.communicate(timeout=LIMIT)
        assert process.returncode == 0, text
        return text

    def started_until(self, parts: int) -> subprocess.Popen[str]:
        """A process that has finished this many units, and still runs."""
        process = self.start()
        until(
            lambda: process.poll() is not None or len(self.parts()) >= parts, f"there are {parts}"
        )
        assert process.poll() is None
        return process

    def parts(self) -> list[Path]:
        return list(self.work.glob("quota-*.json"))

    def table(self) -> str:
        return gzip.decompress(tables.path(self.out, "sessions").read_bytes()).decode()


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in found.read_text().split()] if found.exists() else []


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A study that was not stopped."""
    study = Study(tmp_path_factory.mktemp("study") / "undisturbed")
    study.finish()
    return study


def test_a_stopped_study_resumes(undisturbed: Study, tmp_path: Path) -> None:
    """Interrupted, then killed, then resumed: the table is the same, and no process stays."""
    study = Study(tmp_path / "stopped", "--processes", "1")
    process = study.started_until(1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    text, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    assert "Traceback" not in text
    assert "run the same command to resume" in text
    process = study.started_until(2)
    workers = children(process.pid)
    process.kill()
    process.communicate(timeout=LIMIT)
    assert "2 of 3 units are done" in study.finish()
    assert study.table() == undisturbed.table()
    assert not study.work.exists()
    assert workers
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), "its workers end")


def test_a_study_refuses_the_work_of_another(tmp_path: Path) -> None:
    """Units of a study with other options are refused: exit code 2, and the difference."""
    study = Study(tmp_path / "begun", "--seed", "5")
    study.work.mkdir(parents=True)
    terms = {"experiments": ["quota"], "replications": 3, "seed": 1, **versions()}
    (study.work / "terms.json").write_text(json.dumps(terms))
    process = study.start()
    text, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 2
    assert "(seed 1, now 5)" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--redraw"], "holds no finished study"),
        (["--replications", "0"], "--replications"),
        (["--only", "nothing"], "invalid choice: 'nothing'"),
    ],
)
def test_bad_options_are_named(tmp_path: Path, arguments: list[str], message: str) -> None:
    """A bad option ends with exit code 2 and a reason."""
    process = Study(tmp_path / "new", *arguments).start()
    text, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 2
    assert message in text


def test_a_study_needs_no_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without git the manifest has no commit."""
    monkeypatch.setenv("PATH", str(tmp_path))
    options = argparse.Namespace(arguments=[], processes=1, dask=None)
    terms = {"replications": 3, "seed": 1}
    content = json.loads(manifest(options, terms, seconds=1.0, cpu_seconds=2.0))
    assert content["commit"] is None
    assert content["commit_changed"] is None


def _says(log: Path, text: str) -> bool:
    return text in log.read_text()


@contextmanager
def dask_cluster(folder: Path, workers: int) -> Iterator[str]:
    """A scheduler and its workers, each in its own process, once all are connected."""
    address = f"tcp://127.0.0.1:{reserve(1)}"
    commands = [["scheduler", "--host", address]]
    commands += [["worker", address, "--nthreads", "1", "--no-nanny"]] * workers
    with Processes(folder) as processes:
        for number, (role, *arguments) in enumerate(commands):
            name = f"{role}-{number}"
            dask = [sys.executable, "-m", f"distributed.cli.dask_{role}", *arguments]
            processes.launch(name, [*dask, "--no-dashboard"])
            ready = "Scheduler at" if role == "scheduler" else "Registered to"
            log = folder / f"{name}.err.log"
            until(functools.partial(_says, log, ready), f"the {role} is ready")
        yield address


def test_a_study_on_a_dask_cluster_gives_the_same_table(undisturbed: Study, tmp_path: Path) -> None:
    """A real scheduler with two workers gives the rows of the undisturbed study."""
    with dask_cluster(tmp_path, 2) as address:
        study = Study(tmp_path / "cluster", "--dask", address)
        study.finish()
    assert study.table() == undisturbed.table()


def test_the_same_tables_give_the_same_figures(undisturbed: Study, tmp_path: Path) -> None:
    """Drawn again, a figure is the same file."""
    for path in (*undisturbed.out.glob("*.csv.gz"), undisturbed.out / "manifest.json"):
        shutil.copy(path, tmp_path)
    draw_all(tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*.png")) == ["quota.png"]
    drawn = (tmp_path / "quota.png").read_bytes()
    assert drawn == (undisturbed.out / "quota.png").read_bytes()


@functools.cache
def committed(table: str) -> Columns:
    return read(COMMITTED, table)


class Part(Experiment, frozen=True):
    """An experiment with those of its sessions, ε by variant, that are on every n-th diagonal."""

    first: int = 0
    step: int = 1

    @property
    def chosen(self) -> list[int]:
        """The places of its sessions among all."""
        width = sum(VARIANTS[name].mode != "exact" for name in self.variants) or 1
        places = range(len(super().sessions))
        return [at for at in places if (at // width + at % width) % self.step == self.first]

    @property
    def sessions(self) -> tuple[tuple[float, str], ...]:
        everything = super().sessions
        return tuple(everything[at] for at in self.chosen)


def parts(experiment: Experiment) -> Iterator[tuple[Unit, Part]]:
    """A unit of every setting with a part of the sessions; together they have each session once."""
    step = len(experiment.settings)
    for place, setting in enumerate(experiment.settings):
        seed = 1 + 37 * place % (experiment.most_replications or 100)
        yield (
            Unit(experiment.name, setting, seed),
            Part(**asdict(experiment), first=place, step=step),
        )


def committed_rows(unit: Unit, table: str) -> list[list[str]]:
    """The committed rows of a unit, in order."""
    setting = unit.setting
    wanted: dict[str, Any] = {"parties": setting.parties, "seed": unit.seed}
    if table != "convergence":
        wanted |= {"share_first": setting.share_first, "buffer": setting.buffer}
    if table == "sessions":
        wanted["experiment"] = unit.experiment
    found = where(committed(table), **wanted)
    columns = [found[column].tolist() for column in COLUMNS[table]]
    return [list(line) for line in zip(*columns, strict=True)]


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=NAMES)
def test_an_instance_of_every_setting_is_as_committed(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run again, one instance of every setting gives its committed rows.

    Each plays a part of the sessions: every ε with every variant is played in one setting.
    """
    for unit, part in parts(experiment):
        monkeypatch.setattr(replicate, "EXPERIMENTS", (part,))
        for table, played in play(unit).tables.items():
            expected = committed_rows(unit, table)
            if table != "shares":
                assert len(expected) == len(experiment.sessions)
                expected = [expected[at] for at in part.chosen]
            assert len(played) == len(expected)
            for row, line in zip(played, expected, strict=True):
                for column, value in zip(COLUMNS[table], line, strict=True):
                    if isinstance(value, str):
                        assert row[column] == value
                    else:
                        found = row.get(column)
                        number = np.nan if found is None else float(found)
                        assert number == pytest.approx(value, rel=1e-6, abs=1e-9, nan_ok=True)


def test_the_committed_study_is_complete() -> None:
    """The committed study has 100 replications of every cell, and the page of its tables."""
    work = units(NAMES, range(1, 101))
    sizes = {e.name: len(e.sessions) for e in EXPERIMENTS}
    played = [unit for unit in work if unit.experiment != "convergence"]
    assert len(committed("sessions")["seed"]) == sum(sizes[unit.experiment] for unit in played)
    quiet = [unit for unit in work if unit.experiment == "convergence"]
    assert len(committed("convergence")["seed"]) == sum(sizes[unit.experiment] for unit in quiet)
    page = (COMMITTED / "results.md").read_text()
    assert page == results.text(Results(COMMITTED))
    for name in re.findall(r"\]\((\S+)\.png\)", page):
        assert (COMMITTED / f"{name}.png").exists()


def test_the_findings_come_first_and_agree_everywhere() -> None:
    """The page begins with its findings, and the page for researchers repeats them."""
    title, found, *_ = (COMMITTED / "results.md").read_text().split("\n\n")
    assert title == "# What the study found"
    assert len(found.splitlines()) == 13
    assert found in (COMMITTED.parent / "README.md").read_text()


def test_verdicts_follow_the_tables() -> None:
    """Verdicts follow the tables: own data as bad as a placebo, and a quota that only loses."""
    changed = Results(COMMITTED)
    sessions = changed.sessions
    sessions["gap_average"] = sessions["placebo_average"]
    sessions["gap_best"] = sessions["placebo_best"] / 2
    sessions["quota"] = sessions["prorata"] - 0.01
    sessions["quota_over"] = np.where(np.isnan(sessions["quota_over"]), np.nan, 0.02)
    page = results.text(changed)
    assert "are better than a placebo beyond chance in 0 of 32 cells" in page
    assert "within a twentieth of the own data in 0 of 128 cells" in page
    assert "hardly what they learn" not in page
    assert "the quota is better at no ε here and at worst 1.00 points below" in page
    assert "a placebo's gap is 1.0 to 1.0 times the own one" in page
    assert "100 % of the sessions exceed a capacity" in page


@pytest.mark.parametrize("parties", [5, 10])
def test_committed_centre_rule_is_within_its_tolerance_by_round_60(parties: int) -> None:
    """Without noise, the mean gap over a hundred instances, all of which have ended by then."""
    rows = where(committed("convergence"), parties=parties, variant="default")
    assert rows["gap_30"].mean() <= 1e-3
    assert rows["gap_60"].mean() <= 1e-4
    assert rows["rounds_played"].max() <= 60


@pytest.mark.parametrize(
    ("setting", "epsilon"), [(s, e) for s in settings("totals") for e in (1.0, 4.0, 16.0)]
)
def test_committed_private_quotas_keep_their_risk_and_never_lose(
    setting: Setting, epsilon: float
) -> None:
    """At most 5 % of sessions exceed a capacity, and none loses a tenth of a point to shares."""
    rows = cell(committed("sessions"), setting, epsilon, "totals", "totals")
    over = int((rows["quota_over"] > tables.EXCEEDED).sum())
    assert stats.binomtest(over, len(rows["seed"]), 0.05, alternative="greater").pvalue > 1e-3
    assert (rows["quota"] - rows["prorata"]).mean() > -0.001


@pytest.mark.parametrize(
    ("setting", "epsilon"), [(s, e) for s in settings("totals") for e in (1.0, 4.0, 16.0)]
)
def test_committed_totals_inform_more_than_single_releases(
    setting: Setting, epsilon: float
) -> None:
    """With equal ε and δ prices are nearer to the optimum, and further ahead of a placebo."""
    each, totals = (
        cell(committed("sessions"), setting, epsilon, variant, "totals")
        for variant in ("recommended", "totals")
    )
    assert totals["gap_average"].mean() < each["gap_average"].mean()
    ahead = [t["placebo_average"].mean() / t["gap_average"].mean() for t in (each, totals)]
    assert ahead[0] < ahead[1]


GRID = [(setting, epsilon) for setting in settings("privacy") for epsilon in PAPER_EPSILONS]


@pytest.mark.parametrize(("setting", "epsilon"), GRID)
def test_committed_recommendation_is_below_the_paper_in_every_cell(
    setting: Setting, epsilon: float
) -> None:
    """Mean gap at the average prices of the last half, over all replications and variants."""
    sessions = committed("sessions")
    ours, *theirs = (
        cell(sessions, setting, epsilon, variant, "privacy")["gap_average"].mean()
        for variant in ("recommended", *PAPER_VARIANTS)
    )
    assert all(ours < value for value in theirs)
