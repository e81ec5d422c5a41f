"""Sessions whose agreement has host names: the party looks them up, never libzmq.

The names end with `.test`, which no name server knows. Only Python's own lookup is patched to
resolve them, so libzmq could never find one.
"""

import argparse
from pathlib import Path

import msgpack
import pytest
import zmq

from party import keys
from scripts.lab.common import local_session
from scripts.lab.common.ports import reserve
from tests.support.local_sessions import RunningSession, assert_undisturbed, options
from tests.support.process_control import until_reported
from tests.support.relay_client import key_file
from tests.support.wait import LIMIT, until

pytestmark = pytest.mark.timeout(600)

NAMES = """
import socket, time
ask = socket.getaddrinfo
def getaddrinfo(host, *rest, **more):
    if host == "slow.test":
        time.sleep(3600)
    return ask("127.0.0.1" if str(host).endswith(".test") else host, *rest, **more)
socket.getaddrinfo = getaddrinfo
"""


@pytest.fixture(autouse=True)
def _names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process of the session resolves `.test` hosts to this machine."""
    (tmp_path / "names").mkdir()
    (tmp_path / "names" / "sitecustomize.py").write_text(NAMES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "names"))


def with_address(text: str, session: RunningSession, name: str, place: str) -> str:
    """The agreement with this address for a member; the digest does not change."""
    member = next(m for m in session.agreement.members if m.name == name)
    line = f'signing_key = "{member.signing_key.hex()}"'
    assert line in text
    return text.replace(line, f'{line}\naddress = "{place}"')


def test_a_relay_is_reached_by_its_host_name(tmp_path: Path) -> None:
    """Each party looks up the coordinator's host name itself."""
    with RunningSession(tmp_path / "s", options(rounds=10)) as session:
        path = session.folder / "agreement.toml"
        path.write_text(path.read_text().replace("127.0.0.1", "coordinator.test"))
        session.start()
        session.wait(LIMIT)
        assert_undisturbed(session)


def test_a_name_that_is_never_resolved_delays_no_mesh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session completes although one of its host names is never resolved.

    One member has a name in the agreement. Another has a name that is never found: the others
    learn its numeric address from the coordinator.
    """
    with RunningSession(tmp_path / "s", options("--topology", "mesh", rounds=10)) as session:
        first = reserve(2)
        folder = session.folder
        path, own = folder / "agreement.toml", folder / "own.toml"
        text = path.read_text().replace("127.0.0.1", "coordinator.test")
        text = with_address(text, session, "party1", f"tcp://party1.test:{first}")
        own.write_text(with_address(text, session, "party2", f"tcp://127.0.0.1:{first + 1}"))
        path.write_text(with_address(text, session, "party2", f"tcp://slow.test:{first + 1}"))
        join = local_session.party_command

        def join_here(folder: Path, name: str, chosen: argparse.Namespace) -> list[str]:
            command = join(folder, name, chosen)
            if name == "party1":
                command[command.index("--listen") + 1] = f"tcp://127.0.0.1:{first}"
            if name == "party2":
                command[command.index("--listen") + 1] = f"tcp://127.0.0.1:{first + 1}"
                command[command.index("--agreement") + 1] = str(own)
            return command

        monkeypatch.setattr(local_session, "party_command", join_here)
        session.start()
        session.wait(LIMIT)
        assert_undisturbed(session, "--topology", "mesh")


def test_the_coordinator_refuses_an_announced_host_name(tmp_path: Path) -> None:
    """The coordinator reports the member, and passes the name to no party."""
    with RunningSession(tmp_path / "s", options("--topology", "mesh", rounds=10)) as session:
        transport = session.agreement.transport
        session.start_coordinator()
        who = keys.load(key_file(session, "party3"))
        with zmq.Context() as context, context.socket(zmq.DEALER) as desk:
            desk.linger = 0
            desk.curve_publickey, desk.curve_secretkey = who.transport_key, who.transport_secret
            desk.curve_serverkey = transport.coordinator_key.encode()
            desk.connect(transport.coordinator)
            for _ in range(3):
                desk.send(msgpack.packb("tcp://party3.test:5555"))
            refused = "party3 has announced an invalid address: 'tcp://party3.test:5555'"
            until(lambda: refused in session.stderr("coordinator"), "the name is refused")
            desk.send(msgpack.packb(None))
            assert desk.poll(int(1000 * LIMIT))
            assert msgpack.unpackb(desk.recv()) == {}
        assert session.stderr("coordinator").count("invalid address") == 1
        for name in session.names:
            session.start_party(name)
        session.wait(LIMIT)
        assert_undisturbed(session, "--topology", "mesh")


def test_a_host_name_that_is_not_found_is_reported_and_retried(tmp_path: Path) -> None:
    """The party names the host that cannot be found, and waits."""
    with RunningSession(tmp_path / "s", options(rounds=10)) as session:
        path = session.folder / "agreement.toml"
        path.write_text(path.read_text().replace("127.0.0.1", "nowhere.invalid"))
        session.start_party("party1")
        until_reported(
            session, "party1", "cannot find the host 'nowhere.invalid' of the coordinator"
        )
