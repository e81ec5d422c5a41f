"""Where a party connects to: names are looked up beside its loop, and libzmq sees numbers only."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zmq

from party.keys import Identity, generate
from party.ledger.session_ledger import Ledger
from party.network import name_lookup
from party.network.connection_monitor import Watch
from party.network.mesh_link import MeshLink
from party.network.name_lookup import Names
from party.network.relay_link import RelayLink
from protocol.agreement.address import numeric
from protocol.agreement.model import Agreement, Transport
from scripts.lab.common.ports import reserve
from tests.support.builders import make_agreement
from tests.support.wait import until

pytestmark = pytest.mark.timeout(300)


class Book:
    """The name server of a test: what it answers, and whom it keeps waiting."""

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
def book(monkeypatch: pytest.MonkeyPatch) -> Iterator[Book]:
    book = Book()
    monkeypatch.setattr(socket, "getaddrinfo", book.look_up)
    monkeypatch.setattr(name_lookup, "AGAIN_SECONDS", 0.01)
    yield book
    book.answering.set()


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
def test_only_numbers_are_numeric(place: object, number: bool) -> None:
    """An address that is announced is one that needs no lookup and names one host."""
    assert numeric(place) is number


def test_a_lookup_that_hangs_holds_up_no_other(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for a slow name is that name alone."""
    book.hosts = {"slow.test": ["10.0.0.1"], "quick.test": ["10.0.0.2"]}
    slow = threading.Event()
    answer = book.look_up

    def one_slow(host: str, *rest: object, **more: object) -> list[Any]:
        if host == "slow.test":
            slow.wait()
        return answer(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", one_slow)
    with closing(Names()) as sought:
        sought.seek("slow.test")
        sought.seek("quick.test")
        found = until(sought.found, "the quick name is found")
        assert [(f.name, f.hosts) for f in found] == [("quick.test", ("10.0.0.2",))]
        slow.set()
        found = until(sought.found, "the slow name is found")
        assert [(f.name, f.hosts) for f in found] == [("slow.test", ("10.0.0.1",))]


def test_a_relay_is_followed_to_where_its_name_leads(book: Book) -> None:
    """A party does not wait for a name, tries each address of it, and follows a changed entry."""
    port = reserve(2)
    agreement, who, secret = session("relay", f"tcp://relay.test:{port}")
    book.hosts["relay.test"] = ["127.0.0.2"]
    book.answering.clear()
    link = RelayLink(agreement, who[0])
    try:
        until(lambda: book.asked, "the name is looked up")
        assert link.receive(0.0) == []  # the loop goes on
        book.answering.set()
        with server(zmq.XPUB, secret, f"tcp://127.0.0.1:{port + 1}") as above:
            until(lambda: link.receive(0.01) or "nobody answers" in str(link.troubles()), "a try")
            book.hosts["relay.test"] = ["127.0.0.3", "127.0.0.1"]

            def subscribed() -> int:
                link.receive(0.01)
                link.troubles()
                return above.poll(10)

            until(subscribed, "the party comes to where the name leads now")
    finally:
        link.close()


def test_ipv6_is_spoken(book: Book) -> None:
    """A party connects to an IPv6 address of the agreement."""
    port = reserve(2)
    agreement, who, secret = session("relay", f"tcp://[::1]:{port}")
    with server(zmq.XPUB, secret, f"tcp://[::1]:{port + 1}") as above:
        link = RelayLink(agreement, who[0])
        try:
            until(lambda: link.receive(0.01) or above.poll(10), "the party subscribes")
        finally:
            link.close()
    assert not book.asked


def test_a_coordinator_that_tells_of_names_is_ignored(tmp_path: Path) -> None:
    """A party connects to no name that it was told, remembers none, and complains once a member."""
    port = reserve(1)
    agreement, who, secret = session("mesh", f"tcp://127.0.0.1:{port}")
    liar, other = agreement.members[1].name, agreement.members[2].name
    told: list[str] = []
    with (
        server(zmq.ROUTER, secret, f"tcp://127.0.0.1:{port}") as desk,
        closing(Ledger(tmp_path / "a.ledger", agreement, who[0].name)) as ledger,
    ):
        link = MeshLink(agreement, who[0], ledger, "tcp://127.0.0.1:*", told.append)
        try:
            for count in range(1, 4):
                until(lambda: link.receive(0.01) or desk.poll(10), "the party says where it is")
                route, said = desk.recv_multipart()
                assert numeric(msgpack.unpackb(said))
                lies = {liar: f"tcp://slow{count}.test:5555", other: f"tcp://127.0.0.1:{port}"}
                desk.send_multipart([route, msgpack.packb(lies)])
            until(lambda: link.receive(0.01) or ledger.addresses().get(other), "it is heard")
            for _ in range(20):
                link.receive(0.01)
            assert liar not in ledger.addresses()
        finally:
            link.close()
    assert len(told) == 1
    assert liar in told[0]


def test_who_has_a_name_in_the_agreement_announces_nothing(tmp_path: Path, book: Book) -> None:
    """A name is for each member to look up: the party only asks where the others are."""
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
    assert not book.asked


def test_what_is_told_of_one_connection_has_an_end() -> None:
    """However often a peer moves to where nobody can be reached, its log lines are few."""
    with zmq.Context() as context, context.socket(zmq.SUB) as ear, closing(Names()) as sought:
        ear.linger = 0
        watch = Watch(ear, "'ben'", sought)
        told: list[str] = []
        for count in range(1_000):
            watch.connect(f"tcp://[1.2:3]:{count + 1}")
            told += watch.news()
        watch.close()
        watch.socket.close()
    assert told[0].startswith("cannot reach 'ben' at tcp://[1.2:3]:1: ")
    assert len(told) < 10
