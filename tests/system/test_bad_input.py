"""The real commands refuse wrong input, with a message that names it."""

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
from protocol.agreement.render import written
from protocol.runtime.files import read_agreement
from scripts.lab.common.local_session import environment, party_command
from scripts.lab.common.ports import reserve
from tests.support.builders import make_agreement
from tests.support.local_sessions import RunningSession, options
from tests.support.wait import LIMIT

pytestmark = pytest.mark.timeout(600)


def run_command(module: str, *arguments: Any, within: Path | None = None) -> tuple[int, str]:
    """The exit code of a command, and its output."""
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=within,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    output = done.stdout + done.stderr
    assert "Traceback" not in output
    return done.returncode, output


def check(session: RunningSession, name: str, key: str, *more: Any) -> tuple[int, str]:
    folder = session.folder
    return run_command(
        "party", "check", "--agreement", folder / "agreement.toml", "--data",
        folder / name / "model.npz", "--as", name, "--key", folder / key / f"{key}.key", *more,
    )  # fmt: skip


def test_a_path_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """A name that is too long for the system ends with 2 and without a traceback."""
    (tmp_path / "a.toml").write_text(written(make_agreement()))
    name, agreed = "x" * 300, ("--agreement", "a.toml")
    for command in (
        ("party", "check", *agreed, "--data", f"{name}.lp", "--as", "ada"),
        ("party", "budget", name),
        ("party", "keygen", "ada", "--dir", name),
        ("protocol", "plan", "a.toml", "--approvals", name),
    ):
        code, output = run_command(*command, within=tmp_path)
        assert code == 2
        assert name in output
        assert "File name too long; check this path" in output


def test_the_key_of_another_member_is_refused(tmp_path: Path) -> None:
    """A key that the agreement lists for another member is refused for this one."""
    with RunningSession(tmp_path / "s", options()) as session:
        assert check(session, "party1", "party1")[0] == 0
        code, output = check(session, "party1", "party2")
        assert code == 5
        assert "is that of 'party2', not of 'party1'" in output


def test_a_check_says_what_the_company_has_alone(tmp_path: Path) -> None:
    """It prints the sense, what the company earns alone, and whether it has a plan alone."""
    with RunningSession(tmp_path / "s", options()) as session:
        code, output = check(session, "party1", "party1")
        assert code == 0
        assert "read as: maximise" in output
        assert "with your pro rata part alone NO plan is possible" in output
    with RunningSession(tmp_path / "t", options("--no-demands")) as session:
        code, output = check(session, "party1", "party1")
        _, earns, amount = output.partition("with your pro rata part alone your best plan earns ")
        assert earns
        assert float(amount.split()[0]) > 0.0
        assert "`protocol plan` shows what the noise will do" in output
    with RunningSession(tmp_path / "u", options("--mode", "exact", "--no-demands")) as session:
        code, output = check(session, "party1", "party1")
        assert (code, "noise" in output) == (0, False)


@pytest.mark.parametrize("name", ["../x", 'a"b', "a b", "", ".x", "x" * 65, "é"])
def test_a_name_that_no_agreement_accepts_gets_no_keys(tmp_path: Path, name: str) -> None:
    """`party keygen` writes no file for such a name."""
    inner = tmp_path / "inner"
    inner.mkdir()
    code, output = run_command("party", "keygen", name, within=inner)
    assert code == 2
    assert "a name of 1 to 64 letters" in output
    assert [*tmp_path.rglob("*")] == [inner]


def test_keygen_writes_a_member_file(tmp_path: Path) -> None:
    """The file for the convener is TOML with the member's name; every file is named."""
    code, output = run_command("party", "keygen", "acme-2.eu", "--dir", tmp_path)
    assert code == 0
    assert [line.partition(": ")[0] for line in output.splitlines()] == [
        str(tmp_path / f"acme-2.eu.{kind}") for kind in ("key", "budget", "member.toml")
    ]
    table = tomllib.loads((tmp_path / "acme-2.eu.member.toml").read_text())
    assert table["member"][0]["name"] == "acme-2.eu"
    code, output = run_command("party", "keygen", "acme", "--dir", tmp_path / "none")
    assert (code, "cannot be written" in output) == (5, True)


def convened(folder: Path, *arguments: Any) -> tuple[int, str]:
    """`coordinator new` for two members."""
    members: list[Any] = []
    for name in ("acme", "bolt"):
        path = folder / f"{name}.member.toml"
        if not path.exists():
            assert run_command("party", "keygen", name, "--dir", folder)[0] == 0
        members += ["--member", path]
    return run_command(
        "coordinator", "new", "--session", "s", "--resource", "hours=12:90", *members,
        "--key", folder / "coordinator.key", *arguments,
    )  # fmt: skip


def test_an_agreement_for_a_missing_folder_is_refused(tmp_path: Path) -> None:
    """The error names the missing folder, and no key is made."""
    code, output = convened(
        tmp_path, "--address", "tcp://h:5555", "--out", tmp_path / "nodir" / "x.toml"
    )
    assert code == 2
    assert "the folder does not exist" in output
    assert not (tmp_path / "coordinator.key").exists()


@pytest.mark.parametrize(
    ("port", "why"),
    [(65535, "1 above it is needed too"), (99999, "from 1 to 65535"), (0, "from 1 to 65535")],
)
def test_an_invalid_port_is_refused(tmp_path: Path, port: int, why: str) -> None:
    """It is refused when the agreement is written, with the reason."""
    out = tmp_path / "agreement.toml"
    code, output = convened(tmp_path, "--address", f"tcp://h:{port}", "--out", out)
    assert code == 3
    assert why in output
    assert not out.exists()
    assert convened(tmp_path, "--address", "tcp://h:65534", "--out", out)[0] == 0
    assert read_agreement(out).transport.coordinator == "tcp://h:65534"


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_file_that_is_no_key_is_refused(tmp_path: Path, mode: int) -> None:
    """The error says so, and does not advise chmod."""
    assert convened(tmp_path, "--address", "tcp://h:5555", "--out", tmp_path / "a.toml")[0] == 0
    public = tmp_path / "acme.member.toml"
    public.chmod(mode)
    for command in (
        ("party", "join", "--data", "model.mps"),
        ("coordinator", "serve"),
    ):
        code, output = run_command(*command, "--agreement", tmp_path / "a.toml", "--key", public)
        assert (code, "is not a key file of " in output, "chmod" in output) == (5, True, False)


@pytest.mark.parametrize("offset", [0, 1])
def test_a_port_in_use_is_named(tmp_path: Path, offset: int) -> None:
    """The error has the address, the reason and what to do, and does not blame the agreement."""
    out = tmp_path / "agreement.toml"
    port = reserve(2)
    with socket.create_server(("", port + offset)):
        assert convened(tmp_path, "--address", f"tcp://127.0.0.1:{port}", "--out", out)[0] == 0
        code, output = run_command(
            "coordinator", "serve", "--agreement", out, "--key", tmp_path / "coordinator.key"
        )
    assert code == 2
    assert f"cannot listen at tcp://*:{port + offset}: Address already in use. Stop" in output


def test_output_comes_before_the_error(tmp_path: Path) -> None:
    """In a file with both streams, the lines are in the order in which they were printed."""
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


def test_a_join_refused_for_its_budget_fixes_no_data_set(tmp_path: Path) -> None:
    """Until something is released, the session counts for the data set that was named last."""
    chosen = options("--epsilon", "1")
    chosen.rehearsal = False
    with RunningSession(tmp_path / "s", chosen) as session:
        folder, ledger = session.folder, session.folder / "party1" / "party1.ledger"
        join = party_command(folder, "party1", session.options)[2:]
        code, output = run_command(*join, "--data-set", "spring", "--max-epsilon", "0.5")
        assert (code, "its limit is epsilon 0.5" in output) == (7, True)
        code, output = check(session, "party1", "party1", "--data-set", "autumn")
        assert (code, "data set 'autumn' has spent nothing" in output) == (0, True)
        code, _ = run_command(*join, "--data-set", "autumn", "--max-epsilon", "0.25")
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
        code, output = check(session, "party1", "party1", "--data-set", "spring")
        assert code == 6
        assert "was started with the data set 'rehearsal', not with 'spring'" in output


def test_members_that_leave_after_the_end_are_not_reported(tmp_path: Path) -> None:
    """In a mesh, a party prints no warning about peers that have finished and left."""
    chosen = options("--topology", "mesh", "--no-demands", rounds=6)
    with RunningSession(tmp_path / "s", chosen) as session:
        session.start()
        session.wait(LIMIT)
        for name in session.names:
            events = [event["event"] for event in session.events[name]]
            end = events.index("finished")
            assert not {"warning", "waiting"} & set(events[end:])
