"""Host names are looked up beside the loop of a party, and libzmq gets numeric addresses only."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zmq
from msgspec.structs import replace

from party.keys import Identity, generate
from party.ledger.session_ledger import Ledger
from party.network import name_lookup
from party.network.connection_monitor import ConnectionMonitor
from party.network.mesh_link import MeshLink
from party.network.name_lookup import NameLookup
from party.network.relay_link import RelayLink
from protocol.agreement.address import numeric
from protocol.agreement.model import Agreement, Transport
from scripts.lab.common.ports import reserve
from tests.support.builders import make_agreement
from tests.support.wait import until

pytestmark = pytest.mark.timeout(300)


class NameServer:
    """A name server whose answers a test can set and hold back."""

    def __init__(self) -> None:
        self.hosts: dict[str, list[str]] = {}
        self.asked: list[str] = []
        self.answering = threading.Event()
        self.answering.set()

    def look_up(self, host: str, *_: object, **__: object) -> list[Any]:
        self.asked.append(host)
        self.answering.wait()
        if host not in self.hosts:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        kinds = {True: socket.AF_INET6, False: socket.AF_INET}
        return [(kinds[":" in n], socket.SOCK_STREAM, 6, "", (n, 0)) for n in self.hosts[host]]


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    fake = NameServer()
    monkeypatch.setattr(socket, "getaddrinfo", fake.look_up)
    monkeypatch.setattr(name_lookup, "RETRY_SECONDS", 0.01)
    yield fake
    fake.answering.set()


def session(topology: str, coordinator: str) -> tuple[Agreement, list[Identity], bytes]:
    """An agreement with keys, the members' identities, and the coordinator's secret."""
    agreement = make_agreement()
    who = [generate(m.name) for m in agreement.members]
    members = tuple(
        replace(
            m,
            signing_key=w.signing_key,
            transport_key=w.transport_key.decode(),
        )
        for m, w in zip(agreement.members, who, strict=True)
    )
    public, secret = zmq.curve_keypair()
    transport = Transport(
        topology=topology, coordinator=coordinator, coordinator_key=public.decode()
    )
    return replace(agreement, members=members, transport=transport), who, secret


@contextmanager
def server(kind: int, secret: bytes, *places: str) -> Iterator[zmq.Socket[bytes]]:
    """The other side of a link: a bare socket with the coordinator's key."""
    with zmq.Context() as context, context.socket(kind) as made:
        made.linger, made.curve_server, made.curve_secretkey = 0, True, secret
        for place in places:
            made.ipv6 = "[" in place
            made.bind(place)
        yield made


@pytest.mark.parametrize(
    ("place", "number"),
    [
        ("tcp://10.0.0.1:5555", True),
        ("tcp://[::1]:5555", True),
        ("tcp://[2001:db8::7]:1", True),
        ("tcp://acme.example:5555", False),
        ("tcp://localhost:5555", False),
        ("tcp://1.2.3:5555", False),
        ("tcp://[1.2:3]:5555", False),
        ("tcp://0.0.0.0:5555", False),
        ("tcp://[0::0]:5555", False),
        ("tcp://224.0.0.1:5555", False),
        ("tcp://10.0.0.1:*", False),
        (7, False),
    ],
)
def test_only_an_address_of_one_host_in_numbers_is_numeric(place: object, number: bool) -> None:
    """A numeric address needs no lookup and names one host."""
    assert numeric(place) is number


def test_a_slow_lookup_delays_no_other(
    name_server: NameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quick name is found while a slow one is still being looked up."""
    name_server.hosts = {"slow.test": ["10.0.0.1"], "quick.test": ["10.0.0.2"]}
    slow = threading.Event()
    answer = name_server.look_up

    def answer_slowly(host: str, *arguments: object, **options: object) -> list[Any]:
        if host == "slow.test":
            slow.wait()
        return answer(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", answer_slowly)
    with closing(NameLookup()) as lookup:
        lookup.start("slow.test")
        lookup.start("quick.test")
        found = until(lookup.results, "the quick name is found")
        assert [(f.name, f.hosts) for f in found] == [("quick.test", ("10.0.0.2",))]
        slow.set()
        found = until(lookup.results, "the slow name is found")
        assert [(f.name, f.hosts) for f in found] == [("slow.test", ("10.0.0.1",))]


def test_a_party_follows_the_host_name_of_the_relay(name_server: NameServer) -> None:
    """A party does not block on a lookup, tries each address, and follows a changed entry."""
    port = reserve(2)
    agreement, who, secret = session("relay", f"tcp://relay.test:{port}")
    name_server.hosts["relay.test"] = ["127.0.0.2"]
    name_server.answering.clear()
    link = RelayLink(agreement, who[0])
    try:
        until(lambda: name_server.asked, "the name is looked up")
        assert link.receive(0.0) == []  # the loop goes on
        name_server.answering.set()
        with server(zmq.XPUB, secret, f"tcp://127.0.0.1:{port + 1}") as above:
            until(lambda: link.receive(0.01) or "nothing answers" in str(link.warnings()), "a try")
            assert "nothing answers" in link.unreached
            name_server.hosts["relay.test"] = ["127.0.0.3", "127.0.0.1"]

            def subscribed() -> int:
                link.receive(0.01)
                link.warnings()
                return above.poll(10)

            until(subscribed, "the party connects to the changed address")
            until(lambda: not link._monitors[0].trouble, "a peer that answers is no trouble")
    finally:
        link.close()


def test_a_party_connects_over_ipv6(name_server: NameServer) -> None:
    """An IPv6 address of the agreement works without a lookup."""
    port = reserve(2)
    agreement, who, secret = session("relay", f"tcp://[::1]:{port}")
    with server(zmq.XPUB, secret, f"tcp://[::1]:{port + 1}") as above:
        link = RelayLink(agreement, who[0])
        try:
            until(lambda: link.receive(0.01) or above.poll(10), "the party subscribes")
        finally:
            link.close()
    assert not name_server.asked


def test_a_host_name_from_the_coordinator_is_ignored(tmp_path: Path) -> None:
    """A party neither looks it up nor remembers it, and warns once for each member."""
    port = reserve(1)
    agreement, who, secret = session("mesh", f"tcp://127.0.0.1:{port}")
    liar, other = agreement.members[1].name, agreement.members[2].name
    warnings: list[str] = []
    with (
        server(zmq.ROUTER, secret, f"tcp://127.0.0.1:{port}") as desk,
        closing(Ledger(tmp_path / "a.ledger", agreement, who[0].name)) as ledger,
    ):
        link = MeshLink(agreement, who[0], ledger, "tcp://127.0.0.1:*", warnings.append)
        try:
            for count in range(1, 4):
                until(lambda: link.receive(0.01) or desk.poll(10), "the party says where it is")
                route, request = desk.recv_multipart()
                assert numeric(msgpack.unpackb(request))
                lies = {liar: f"tcp://slow{count}.test:5555", other: f"tcp://127.0.0.1:{port}"}
                desk.send_multipart([route, msgpack.packb(lies)])
            until(
                lambda: link.receive(0.01) or ledger.addresses().get(other), "its address arrives"
            )
            for _ in range(20):
                link.receive(0.01)
            assert liar not in ledger.addresses()
        finally:
            link.close()
    assert len(warnings) == 1
    assert liar in warnings[0]


def test_a_member_with_an_agreed_host_name_announces_no_address(
    tmp_path: Path, name_server: NameServer
) -> None:
    """Each member looks the name up for itself; the party only asks for the other addresses."""
    first = reserve(2)
    agreement, who, secret = session("mesh", f"tcp://127.0.0.1:{first}")
    named = replace(agreement.members[0], address=f"tcp://acme.test:{first + 1}")
    agreement = replace(agreement, members=(named, *agreement.members[1:]))
    with (
        server(zmq.ROUTER, secret, f"tcp://127.0.0.1:{first}") as desk,
        closing(Ledger(tmp_path / "a.ledger", agreement, who[0].name)) as ledger,
    ):
        link = MeshLink(agreement, who[0], ledger, None, lambda _: None)
        try:
            until(lambda: link.receive(0.01) or desk.poll(10), "the party speaks")
            assert msgpack.unpackb(desk.recv_multipart()[1]) is None
            assert ledger.addresses() == {}
        finally:
            link.close()
    assert not name_server.asked


def test_warnings_about_one_connection_are_bounded() -> None:
    """A peer that moves to 1,000 addresses that cannot be reached causes few warnings."""
    with (
        zmq.Context() as context,
        context.socket(zmq.SUB) as socket_,
        closing(NameLookup()) as lookup,
    ):
        socket_.linger = 0
        monitor = ConnectionMonitor(socket_, "'ben'", lookup)
        warnings: list[str] = []
        for count in range(1_000):
            monitor.connect(f"tcp://[1.2:3]:{count + 1}")
            warnings += monitor.warnings()
        monitor.close()
        monitor.events.close()
    assert warnings[0].startswith("cannot reach 'ben' at tcp://[1.2:3]:1: ")
    assert len(warnings) < 10
