"""What people give by mistake is refused in words, where they give it, by the real commands."""

import socket
import subprocess
import sys
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from party.ledger.accounts import accounts
from party.ledger.session_ledger import Ledger
from protocol.runtime.files import read_agreement
from scripts.lab.common.local_session import environment, party_command
from scripts.lab.common.ports import reserve
from tests.support.local_sessions import RunningSession, options
from tests.support.wait import LIMIT

pytestmark = pytest.mark.timeout(600)


def said(module: str, *arguments: Any, within: Path | None = None) -> tuple[int, str]:
    """The exit code of a command, and all that it says."""
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=within,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    told = done.stdout + done.stderr
    assert "Traceback" not in told
    return done.returncode, told


def check(session: RunningSession, name: str, key: str, *more: Any) -> tuple[int, str]:
    folder = session.folder
    return said(
        "party", "check", "--agreement", folder / "agreement.toml", "--data",
        folder / name / "model.npz", "--as", name, "--key", folder / key / f"{key}.key", *more,
    )  # fmt: skip


def test_the_key_of_another_member_is_refused(tmp_path: Path) -> None:
    """A key that belongs to the agreement, but to somebody else in it, is not this member's."""
    with RunningSession(tmp_path / "s", options()) as session:
        assert check(session, "party1", "party1")[0] == 0
        code, told = check(session, "party1", "party2")
        assert code == 5
        assert "is that of 'party2', not of 'party1'" in told


def test_a_check_says_what_the_company_has_alone(tmp_path: Path) -> None:
    """The sense, what is earned alone with the pro rata split, and whether the minimum fits."""
    with RunningSession(tmp_path / "s", options()) as session:
        code, told = check(session, "party1", "party1")
        assert code == 0
        assert "read as: maximise" in told
        assert "with your pro rata part alone NO plan is possible" in told
    with RunningSession(tmp_path / "t", options("--no-demands")) as session:
        code, told = check(session, "party1", "party1")
        _, earns, amount = told.partition("with your pro rata part alone your best plan earns ")
        assert earns
        assert float(amount.split()[0]) > 0.0
        assert "`protocol plan` shows what the noise will do" in told
    with RunningSession(tmp_path / "u", options("--mode", "exact", "--no-demands")) as session:
        code, told = check(session, "party1", "party1")
        assert (code, "noise" in told) == (0, False)


@pytest.mark.parametrize("name", ["../x", 'a"b', "a b", "", ".x", "x" * 65, "é"])
def test_names_that_no_agreement_takes_get_no_keys(tmp_path: Path, name: str) -> None:
    """`party keygen` makes nothing for a name that could never be used."""
    inner = tmp_path / "inner"
    inner.mkdir()
    code, told = said("party", "keygen", name, within=inner)
    assert code == 2
    assert "a name of 1 to 64 letters" in told
    assert [*tmp_path.rglob("*")] == [inner]


def test_keys_are_made_for_other_names(tmp_path: Path) -> None:
    """What is written for the convener is TOML with that name."""
    assert said("party", "keygen", "acme-2.eu", "--dir", tmp_path)[0] == 0
    table = tomllib.loads((tmp_path / "acme-2.eu.member.toml").read_text())
    assert table["member"][0]["name"] == "acme-2.eu"
    code, told = said("party", "keygen", "acme", "--dir", tmp_path / "none")
    assert (code, "cannot be written" in told) == (5, True)


def convened(folder: Path, *arguments: Any) -> tuple[int, str]:
    """`coordinator new` for two members."""
    members: list[Any] = []
    for name in ("acme", "bolt"):
        path = folder / f"{name}.member.toml"
        if not path.exists():
            assert said("party", "keygen", name, "--dir", folder)[0] == 0
        members += ["--member", path]
    return said(
        "coordinator", "new", "--session", "s", "--resource", "hours=12:90", *members,
        "--key", folder / "coordinator.key", *arguments,
    )  # fmt: skip


def test_an_agreement_that_cannot_be_written(tmp_path: Path) -> None:
    """A folder that is not there is told, and no key is made for nothing."""
    code, told = convened(
        tmp_path, "--address", "tcp://h:5555", "--out", tmp_path / "nodir" / "x.toml"
    )
    assert code == 2
    assert "the folder does not exist" in told
    assert not (tmp_path / "coordinator.key").exists()


@pytest.mark.parametrize(
    ("port", "why"),
    [(65535, "1 above it is needed too"), (99999, "from 1 to 65535"), (0, "from 1 to 65535")],
)
def test_ports_that_there_are_not(tmp_path: Path, port: int, why: str) -> None:
    """A port that cannot be is refused when the agreement is written, with the reason."""
    out = tmp_path / "agreement.toml"
    code, told = convened(tmp_path, "--address", f"tcp://h:{port}", "--out", out)
    assert code == 3
    assert why in told
    assert not out.exists()
    assert convened(tmp_path, "--address", "tcp://h:65534", "--out", out)[0] == 0
    assert read_agreement(out).transport.coordinator == "tcp://h:65534"


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_another_file_than_the_key(tmp_path: Path, mode: int) -> None:
    """A file that is no key is said to be none, and nobody is told to hide it."""
    assert convened(tmp_path, "--address", "tcp://h:5555", "--out", tmp_path / "a.toml")[0] == 0
    public = tmp_path / "acme.member.toml"
    public.chmod(mode)
    for command in (
        ("party", "join", "--data", "model.mps"),
        ("coordinator", "serve"),
    ):
        code, told = said(*command, "--agreement", tmp_path / "a.toml", "--key", public)
        assert (code, "is not a key file of " in told, "chmod" in told) == (5, True, False)


@pytest.mark.parametrize("offset", [0, 1])
def test_a_port_that_is_taken(tmp_path: Path, offset: int) -> None:
    """The place is named, with why and what to do, and no fault is found with the agreement."""
    out = tmp_path / "agreement.toml"
    port = reserve(2)
    with socket.create_server(("", port + offset)):
        assert convened(tmp_path, "--address", f"tcp://127.0.0.1:{port}", "--out", out)[0] == 0
        code, told = said(
            "coordinator", "serve", "--agreement", out, "--key", tmp_path / "coordinator.key"
        )
    assert code == 2
    assert f"cannot listen at tcp://*:{port + offset}: Address already in use. Stop" in told


def test_what_was_told_comes_before_the_error(tmp_path: Path) -> None:
    """In a file that has both, the lines are in the order in which they were said."""
    with RunningSession(tmp_path / "s", options()) as session:
        folder = session.folder
        done = subprocess.run(
            [
                *(sys.executable, "-m", "party", "check", "--as", "party1"),
                *("--agreement", folder / "agreement.toml", "--data", tmp_path / "none.mps"),
            ],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    assert done.returncode == 4
    assert done.stdout.startswith("agreement ")
    assert done.stdout.splitlines()[-1].startswith("error: there is no model file ")


def test_a_join_refused_for_its_budget_pins_nothing(tmp_path: Path) -> None:
    """As long as nothing was released, the session goes to the data set that is named next."""
    chosen = options("--epsilon", "1")
    chosen.rehearsal = False
    with RunningSession(tmp_path / "s", chosen) as session:
        folder, ledger = session.folder, session.folder / "party1" / "party1.ledger"
        join = party_command(folder, "party1", session.options)[2:]
        code, told = said(*join, "--data-set", "spring", "--max-epsilon", "0.5")
        assert (code, "its limit is epsilon 0.5" in told) == (7, True)
        code, told = check(session, "party1", "party1", "--data-set", "autumn")
        assert (code, "data set 'autumn' has spent nothing" in told) == (0, True)
        code, _ = said(*join, "--data-set", "autumn", "--max-epsilon", "0.25")
        assert code == 7
        assert [account.data_set for account in accounts(ledger)[0]] == ["autumn"]
        assert check(session, "party1", "party1", "--data-set", "spring")[0] == 7


def test_a_check_notices_another_data_set(tmp_path: Path) -> None:
    """Once something was released, `party check` refuses another data set as `party join` does."""
    with RunningSession(tmp_path / "s", options(rounds=3)) as session:
        session.start()
        session.wait(LIMIT)
        path = session.folder / "party1" / "party1.ledger"
        with closing(Ledger(path, session.agreement, "party1")) as ledger:
            assert ledger.data_set == "rehearsal"
        code, told = check(session, "party1", "party1", "--data-set", "spring")
        assert code == 6
        assert "was begun with the data set 'rehearsal', not with 'spring'" in told


def test_nobody_is_missed_after_the_end(tmp_path: Path) -> None:
    """In a mesh those who leave first are not told of as if they could not be reached."""
    chosen = options("--topology", "mesh", "--no-demands", rounds=6)
    with RunningSession(tmp_path / "s", chosen) as session:
        session.start()
        session.wait(LIMIT)
        for name in session.names:
            events = [event["event"] for event in session.events[name]]
            end = events.index("finished")
            assert not {"warning", "waiting"} & set(events[end:])
