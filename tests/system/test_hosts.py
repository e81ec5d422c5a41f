"""Sessions between hosts with their own addresses, one of which is disconnected for a while.

The hosts are Linux network namespaces on a bridge. Nothing outside of them changes.
"""

import argparse
import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scripts.lab.common import local_session
from tests.support.local_sessions import RunningSession, assert_undisturbed, options
from tests.support.process_control import (
    IN_FLIGHT,
    Brake,
    rounds_closed,
    until_reported,
    until_waiting_for,
)
from tests.support.wait import LIMIT

HOSTS = ("coordinator", "party1", "party2", "party3", "party4")
CUT_OFF = "party2"


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True, timeout=LIMIT)


class Network:
    """Hosts and the switch between them."""

    def __init__(self, hosts: tuple[str, ...]) -> None:
        mark = uuid.uuid4().hex[:8]
        self._hosts = hosts
        self._switch = f"sotto-{mark}-switch"
        self._spaces = {host: f"sotto-{mark}-{host}" for host in hosts}
        self._made: list[str] = []

    def build(self) -> None:
        for space in (self._switch, *self._spaces.values()):
            ip("netns", "add", space)
            self._made.append(space)
            ip("-n", space, "link", "set", "lo", "up")
        ip("-n", self._switch, "link", "add", "hub", "type", "bridge")
        ip("-n", self._switch, "link", "set", "hub", "up")
        for host, space in self._spaces.items():
            cable = ("type", "veth", "peer", "name", self._port(host), "netns", self._switch)
            ip("link", "add", "eth0", "netns", space, *cable)
            ip("-n", space, "address", "add", f"{self.address(host)}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
            ip("-n", self._switch, "link", "set", self._port(host), "master", "hub", "up")
        ip("netns", "exec", self._switch, "true")

    def remove(self) -> None:
        for space in self._made:
            subprocess.run(["ip", "netns", "delete", space], check=False, timeout=LIMIT)

    def address(self, host: str) -> str:
        return f"10.83.0.{self._hosts.index(host) + 1}"

    def on(self, host: str, command: list[str]) -> list[str]:
        """The command, run on that host."""
        return ["ip", "netns", "exec", self._spaces[host], *command]

    def turn_interface(self, host: str, state: str) -> None:
        """The host turns its own network off or on, and notices at once."""
        ip("-n", self._spaces[host], "link", "set", "eth0", state)

    def turn_port(self, host: str, state: str) -> None:
        """A cable behind the switch is pulled or plugged in: packets vanish silently."""
        ip("-n", self._switch, "link", "set", self._port(host), state)

    def _port(self, host: str) -> str:
        return f"port{self._hosts.index(host) + 1}"


@contextmanager
def network(hosts: tuple[str, ...]) -> Iterator[Network]:
    """A network that is removed afterwards, also after an error."""
    joined = Network(hosts)
    try:
        joined.build()
        yield joined
    finally:
        joined.remove()


def place_on_hosts(session: RunningSession, net: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every process of the session will start on the host of its name."""
    path = session.folder / "agreement.toml"
    path.write_text(path.read_text().replace("127.0.0.1", net.address("coordinator")))
    serve, join = local_session.coordinator_command, local_session.party_command

    def serve_there(folder: Path) -> list[str]:
        return net.on("coordinator", serve(folder))

    def join_there(folder: Path, name: str, chosen: argparse.Namespace) -> list[str]:
        mesh = chosen.topology == "mesh"
        listen = ["--listen", f"tcp://{net.address(name)}:*"] if mesh else []
        return net.on(name, [*join(folder, name, chosen), *listen])

    monkeypatch.setattr(local_session, "coordinator_command", serve_there)
    monkeypatch.setattr(local_session, "party_command", join_there)


@pytest.fixture(scope="module")
def _namespaces() -> None:
    """Skip where this machine does not let us make hosts."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("hosts of their own need root and the ip command")
    try:
        with network(("trial",)):
            pass
    except subprocess.SubprocessError as error:
        pytest.skip(f"network namespaces cannot be used here: {getattr(error, 'stderr', error)}")


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("_namespaces")
@pytest.mark.parametrize(
    ("topology", "turn"),
    [
        pytest.param("relay", Network.turn_interface, id="relay"),
        pytest.param("mesh", Network.turn_port, id="mesh"),
    ],
)
def test_a_host_cut_off_in_mid_session_holds_the_others_up_and_comes_back(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    topology: str,
    turn: Callable[[Network, str, str], None],
) -> None:
    """Sessions on several hosts end with the undisturbed prices after a disconnection."""
    chosen = options("--topology", topology, parties=len(HOSTS) - 1, rounds=240)
    with network(HOSTS) as net, RunningSession(tmp_path / "s", chosen) as session:
        brake = Brake(session, monkeypatch, name="party1", furthest=60)
        place_on_hosts(session, net, monkeypatch)
        session.start()
        brake.reached()
        reported = len(session.events[CUT_OFF])
        turn(net, CUT_OFF, "down")
        brake.let_go()
        # Wait until its connections are closed, so that they must be made again.
        until_reported(session, CUT_OFF, "cannot reach", since=reported)
        for name in session.names:
            if name != CUT_OFF:
                until_waiting_for(session, name, CUT_OFF)
            closed = rounds_closed(session, name)
            assert closed <= 60 + IN_FLIGHT, f"{name} went on without {CUT_OFF}"
        turn(net, CUT_OFF, "up")
        session.wait(LIMIT)
        assert_undisturbed(session)
