"""Week after week: members sign once, the convener announces, parties follow by themselves."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from protocol.runtime.files import read_agreement
from scripts.lab.common.local_session import Processes
from scripts.lab.common.ports import reserve
from tests.support import ROOT
from tests.support.commands import run_module
from tests.support.wait import LIMIT, until

NAMES = ("acme", "bolt", "cargo")
MODEL = "max\n obj: {0} x + {1} y\nst\n hours: x + y <= 0\n own: x <= 30\nbounds\n y <= 25\nend\n"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys, models, the agreement of the first week, and the standing approvals of all."""
    folder, members = tmp_path_factory.mktemp("series"), []
    for k, name in enumerate(NAMES):
        run_module("party", "keygen", name, folder=folder, check=True)
        (folder / f"{name}.lp").write_text(MODEL.format(9 - k, 3 + 2 * k))
        members += ["--member", f"{name}.member.toml"]
    run_module(
        *("coordinator", "new", "--session", "trucks-7", "--mode", "exact", "--currency", "EUR"),
        *("--resource", "hours=60:400", "--unit", "hours=h", *members, "--key", "coordinator.key"),
        *("--address", f"tcp://127.0.0.1:{reserve(2)}", "--out", "trucks-7.toml"),
        folder=folder, check=True,
    )  # fmt: skip
    for name in NAMES:
        run_module(
            *("party", "sign", "--agreement", "trucks-7.toml", "--key", f"{name}.key"),
            *("--standing", "--sessions", "3"),
            folder=folder,
            check=True,
        )
    for name in ("announced", "approvals"):
        (folder / name).mkdir()
    for path in [*folder.glob("*.approval.toml"), folder / "trucks-7.toml"]:
        shutil.copy(path, folder / "approvals")
    return folder


@pytest.fixture
def series(prepared: Path, tmp_path: Path) -> Path:
    """A copy of the files of all roles, in one folder."""
    return Path(shutil.copytree(prepared, tmp_path / "series"))


class Week(Processes):
    """The processes of a series in one folder: parties that follow, and the convener's week."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.pages = {name: reserve(1) for name in NAMES}

    def convene(self) -> None:
        """What the timer starts: announce the next session and serve it."""
        self.launch("convener", [str(ROOT / "scripts/systemd/sotto-week"), "trucks"],
                    within=self.folder)  # fmt: skip

    def follow(self, name: str) -> None:
        self.launch(
            name,
            [
                *(sys.executable, "-m", "party", "join", "--agreement", "trucks-7.toml"),
                *("--data", f"{name}.lp", "--key", f"{name}.key", "--out", f"out-{name}"),
                *("--follow", "announced", "--page", str(self.pages[name])),
                *("--page-secret", f"{name}.secret"),
                *("--mip-time-limit", "0.1"),  # between sessions it waits for seven such searches
            ],
            within=self.folder,
        )

    def result(self, name: str, session: str) -> dict[str, object]:
        """The result of a session, once it is written."""
        path = self.folder / f"out-{name}" / session / "result.json"
        until(path.exists, f"no result of {session} for {name}: {self.stderr(name)}")
        until(lambda: bool(path.read_text()), "an empty result")
        found: dict[str, object] = json.loads(path.read_text())
        return found


def test_an_approval_that_is_there_is_not_overwritten(series: Path) -> None:
    """Who has signed one session and now signs the next ones, too, is told what to do."""
    there = series / "acme.trucks-7.approval.toml"
    before = there.read_bytes()
    sign = ("party", "sign", "--agreement", "trucks-7.toml", "--key", "acme.key", "--standing")
    refused = run_module(*sign, folder=series)
    assert refused.returncode == 2
    assert "acme.trucks-7.approval.toml' exists already" in refused.stderr
    assert "Move it away" in refused.stderr
    assert there.read_bytes() == before
    run_module(*sign, "--out", "other.approval.toml", folder=series, check=True)
    assert (series / "other.approval.toml").exists()


@pytest.mark.timeout(LIMIT)
def test_parties_follow_from_week_to_week(series: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second week has another capacity and begins when its file appears.

    A file with other terms is refused, and the right one is joined. A party that was killed in
    between goes on.
    """
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    monkeypatch.setenv("PAGE", "0")  # any free port
    with Week(series) as week:
        week.convene()
        for name in NAMES:
            week.follow(name)
        first = [week.result(name, "trucks-7") for name in NAMES]
        assert len({json.dumps(result["prices"]) for result in first}) == 1
        week.done("convener", seconds=LIMIT)

        text = (series / "trucks-7.toml").read_text().replace("trucks-7", "trucks-8")
        other = series / "announced" / "other.toml"
        other.write_text(text.replace("rounds = ", "rounds = 1"))
        until(
            lambda: "is not what you signed, so it is refused" in week.stderr("acme"),
            "the other terms were not refused",
        )
        week.processes["bolt"].kill()
        week.processes["bolt"].wait()
        (series / "week.csv").write_text("resource,capacity\nhours, 66\n\n")
        week.convene()
        week.follow("bolt")
        second = [week.result(name, "trucks-8") for name in NAMES]
        assert len({json.dumps(result["prices"]) for result in second}) == 1
        assert "taking part in 'trucks-8'" in week.stderr("bolt")
        assert "capacities: hours 60 -> 66 h" in week.stderr("acme")
        week.done("convener", seconds=LIMIT)
    later = read_agreement(series / "trucks-8.toml")
    assert list(later.pricing.start) == first[0]["prices"]
    assert later.resources[0].capacity == 66.0
    assert later.resources[0].worth == pytest.approx(440.0)
    audit = run_module(
        *("protocol", "audit", "out-cargo/trucks-8/session.transcript"),
        *("--agreement", "trucks-8.toml", "--approvals", "approvals"),
        folder=series,
    )
    assert audit.returncode == 0, audit.stderr
    for name in NAMES:  # each session had its page at the same address, which no log shows
        page = f"watch the session at http://127.0.0.1:{week.pages[name]}/SECRET/"
        assert week.stderr(name).count(page) >= 2
        assert (series / f"{name}.secret").read_text().strip() not in week.stderr(name)
    assert audit.stdout.count("signed the standing agreement 'trucks-7'") == len(NAMES)


def test_a_coordinator_waits_for_approvals(series: Path) -> None:
    """Without the approval of every member it does not start, and names who is missing."""
    (series / "approvals" / "bolt.trucks-7.approval.toml").unlink()
    done = run_module(
        *("coordinator", "serve", "--agreement", "trucks-7.toml", "--key", "coordinator.key"),
        *("--approvals", "approvals"),
        folder=series,
    )
    assert done.returncode == 26
    assert "there is no approval of 'bolt' for 'trucks-7'" in done.stderr


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--capacity", "hours=1,5"), "with a point before decimals"),
        (("--capacity", "lifts=3"), "there is no resource 'lifts' in"),
        (("--capacities", "week.csv"), "the first line must be resource,capacity"),
        (("--session", "trucks-7"), "is the last session; choose a new name"),
    ],
)
def test_wrong_capacities_write_nothing(series: Path, options: tuple[str, ...], text: str) -> None:
    """The error says what is wrong, and no next agreement is written."""
    (series / "week.csv").write_text("hours;70\n")
    done = run_module("coordinator", "next", "--agreement", "trucks-7.toml", *options,
                      folder=series)  # fmt: skip
    assert done.returncode == 2
    assert text in done.stderr
    assert not (series / "trucks-8.toml").exists()
