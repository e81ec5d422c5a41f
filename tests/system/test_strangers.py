"""Strangers at every open port of running sessions, and parties that come with wrong keys.

Loopback only, and every stranger keeps a moderate pace: what is tested is that nothing gets
in and nothing breaks, not how much traffic a machine can bear.
"""

import argparse
import itertools
import os
import random
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import zmq

from party import identity
from party.link import RelayLink
from protocol.agreement import TOPOLOGIES
from protocol.command import INTERRUPTED
from protocol.errors import BadKey, Unavailable
from protocol.messages import HEAD_BYTES, Release
from protocol.transport import STRANGERS_TOLD, Roster, address
from scripts import processes
from tests.kit.builders import make_agreement
from tests.kit.processes import LIMIT, Play, options, play, undisturbed

ROUNDS = 500
PACE_SECONDS = 0.05
"""A session of so many rounds at this pace lasts about half a minute."""

WARM_UP_SECONDS = 5
GROWTH_BYTES = 15 << 20
HUGE_BYTES = 4 << 20
HUGE_SUBSCRIPTION_BYTES = 1 << 16  # with more, libzmq breaks in the one who sends it
MUTE_CONNECTIONS = 40
PAUSE_SECONDS = 0.1

PACED = f"""
import time
from party import __main__, view
class Paced(view.JsonView):
    def round(self, *arguments):
        time.sleep({PACE_SECONDS})
        super().round(*arguments)
view.JsonView = Paced
__main__.main()
"""
"""A party that takes its time, so that a session lasts as long on every machine."""

Keys = tuple[bytes, bytes]
"""Public and secret half of a transport key."""


def assert_undisturbed(session: Play) -> None:
    """All parties ended where the same session in one process ends."""
    figures = session.figures()
    expected = undisturbed((), session.options.parties, session.options.rounds)
    assert figures["prices"] == expected["prices"]
    assert figures["releases_digest"] == expected["releases_digest"]
    assert len(set(figures["heads"].values())) == 1


def key_file(session: Play, name: str) -> Path:
    return session.cast.folder / name / f"{name}.key"


def agreement_text(session: Play) -> str:
    return (session.cast.folder / "agreement.toml").read_text()


@dataclass(frozen=True)
class Door:
    """An open port: its owner's public key, and the kind of socket a member connects to it."""

    place: str
    key: str
    kind: int


def touch(place: str) -> socket.socket:
    """A bare connection."""
    host, port = place.removeprefix("tcp://").rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=2.0)


def doors(session: Play) -> list[Door]:
    """Every port that the processes of a session listen at."""
    transport = session.agreement.transport
    desk = Door(transport.coordinator, transport.coordinator_key, zmq.DEALER)
    if transport.topology == "relay":
        above = address(transport.coordinator, 1)
        return [replace(desk, kind=zmq.PUB), replace(desk, place=above, kind=zmq.SUB)]
    keys = {m.name: m.transport_key for m in session.agreement.members}
    log = session.cast.complained("coordinator")
    known = [line.split() for line in log.splitlines() if " listens at " in line]
    assert {words[0] for words in known} == keys.keys()
    return [desk, *(Door(words[3], keys[words[0]], zmq.SUB) for words in known)]


class Siege:
    """What the strangers before one session share: its doors, a member's keys, a record."""

    def __init__(self, session: Play, record: list[bytes]) -> None:
        self.agreement = session.agreement
        self.record = record
        self.overheard: list[bytes] = []
        self.over = threading.Event()
        self._doors = doors(session)
        member = identity.load(key_file(session, "party2"))
        self.member: Keys = member.transport_key, member.transport_secret
        self.held: deque[socket.socket] = deque()
        self._context: zmq.Context[Any] = zmq.Context()

    def lay(self, stranger: "Stranger") -> int:
        """Send a stranger to one door after the other until it is over; how often it went."""
        for count, door in enumerate(itertools.cycle(self._doors)):
            if self.over.wait(PAUSE_SECONDS):
                break
            stranger(self, door, random.Random(count))
        return count

    def knock(
        self, door: Door, keys: Keys | None, says: list[bytes], kind: int | None = None
    ) -> list[bytes]:
        """Connect as a member would, say something, and return what was heard."""
        heard: list[bytes] = []
        with self._context.socket(kind or door.kind) as client:
            client.linger = 0
            if keys is not None:
                client.curve_publickey, client.curve_secretkey = keys
                client.curve_serverkey = door.key.encode()
            if client.type == zmq.SUB:
                client.subscribe(b"")
            client.connect(door.place)
            time.sleep(0.1)  # for the handshake, should it succeed
            for data in says if client.type != zmq.SUB else ():
                with suppress(zmq.Again):
                    client.send(data, zmq.NOBLOCK)
            while client.type != zmq.PUB and client.poll(100) and len(heard) < 20:
                heard.append(client.recv())
            time.sleep(0.05)  # for what was said to leave
        return heard

    def close(self) -> None:
        for connection in self.held:
            connection.close()
        self._context.destroy(linger=0)


Stranger = Callable[[Siege, Door, random.Random], None]


def wrong_key(siege: Siege, door: Door, _: random.Random) -> None:
    """Knows the owner's public key, and has no key of a member."""
    siege.overheard += siege.knock(door, zmq.curve_keypair(), siege.record[:20])


def no_key(siege: Siege, door: Door, _: random.Random) -> None:
    """Speaks plain ZMTP."""
    siege.overheard += siege.knock(door, None, siege.record[:20])


def replayer(siege: Siege, door: Door, draw: random.Random) -> None:
    """Has a member's transport key, and says again what was said before."""
    siege.knock(door, siege.member, draw.sample(siege.record, 20))


def forger(siege: Siege, door: Door, draw: random.Random) -> None:
    """Has a member's transport key, and says what no member has signed."""
    forged = identity.generate("party2").pack(
        Release(
            sender="party2",
            agreement=siege.agreement.digest,
            round=draw.randrange(siege.agreement.rounds),
            head=bytes(HEAD_BYTES),
            values=(0,) * siege.agreement.width,
        )
    )
    changed = bytearray(draw.choice(siege.record))
    changed[-1] ^= 1
    siege.knock(door, siege.member, [forged.data, bytes(changed), b""])


def giant(siege: Siege, door: Door, _: random.Random) -> None:
    """Has a member's transport key, and sends what is larger than any message."""
    if door.kind == zmq.SUB:
        siege.knock(door, siege.member, [b"\1" * HUGE_SUBSCRIPTION_BYTES], zmq.XSUB)
    else:
        siege.knock(door, siege.member, [b"\1" * HUGE_BYTES])


def greeting(mechanism: bytes) -> bytes:
    """How a ZMTP 3 connection begins."""
    return b"\xff" + bytes(8) + b"\x7f\x03\x01" + mechanism.ljust(20, b"\0") + bytes(32)


OPENINGS = (
    b"",
    greeting(b"NULL"),
    greeting(b"CURVE"),
    greeting(b"CURVE") + b"\4\xc8\5HELLO",
    greeting(b"CURVE") + b"\6" + (1 << 62).to_bytes(8, "big"),
)


def babbler(_: Siege, door: Door, draw: random.Random) -> None:
    """Sends random bytes, at once or after a good beginning."""
    with suppress(OSError), touch(door.place) as connection:  # to be cut off is no surprise
        connection.sendall(draw.choice(OPENINGS) + draw.randbytes(draw.randrange(1 << 18)))
        connection.recv(4096)


def mute(siege: Siege, door: Door, _: random.Random) -> None:
    """Connects and never speaks."""
    with suppress(OSError):
        siege.held.append(touch(door.place))
    if len(siege.held) > MUTE_CONNECTIONS:
        siege.held.popleft().close()


STRANGERS: tuple[Stranger, ...] = (wrong_key, no_key, replayer, forger, giant, babbler, mute)


@contextmanager
def recording(session: Play) -> Iterator[list[bytes]]:
    """Everything that passes the relay meanwhile, heard with a member's transport key."""
    heard: list[bytes] = []
    over = threading.Event()
    keys = identity.load(key_file(session, "party2"))
    transport = session.agreement.transport

    def listen() -> None:
        with zmq.Context() as context, context.socket(zmq.SUB) as ear:
            ear.linger = 0
            ear.curve_publickey, ear.curve_secretkey = keys.transport_key, keys.transport_secret
            ear.curve_serverkey = transport.coordinator_key.encode()
            ear.subscribe(b"")
            ear.connect(address(transport.coordinator, 1))
            while not over.is_set():
                if ear.poll(50):
                    heard.append(ear.recv())

    thread = threading.Thread(target=listen)
    thread.start()
    try:
        yield heard
    finally:
        over.set()
        thread.join()


def earlier_session(session: Play) -> list[bytes]:
    """Let the same members play another session to its end, and return all that was said."""
    text = agreement_text(session)
    path = session.cast.folder / "agreement.toml"
    rounds = f"rounds = {session.options.rounds} "
    assert rounds in text
    path.write_text(text.replace(rounds, "rounds = 5 ").replace("demo-", "earlier-"))
    cast = processes.Cast(session.cast.folder, session.options)
    try:
        with recording(session) as heard:
            cast.start()
            cast.wait(LIMIT)
    finally:
        cast.stop()
        path.write_text(text)
    return heard


def resident_bytes(process: "subprocess.Popen[bytes]") -> int:
    pages = Path(f"/proc/{process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def watch_memory(sessions: list[Play]) -> dict[str, list[int]]:
    """The memory of every process, once a second until all parties have ended."""
    sizes: dict[str, list[int]] = {}
    until = time.monotonic() + 2.0 * LIMIT
    running = True
    while running and time.monotonic() < until:
        running = False
        for session in sessions:
            for name, process in session.cast.processes.items():
                if process.poll() is None:
                    running = running or name != "coordinator"
                    key = f"{name} ({session.agreement.transport.topology})"
                    with suppress(OSError):  # it may have ended by now
                        sizes.setdefault(key, []).append(resident_bytes(process))
        time.sleep(1.0)
    return sizes


def besiege(sessions: list[Play], record: list[bytes]) -> tuple[list[bytes], dict[str, list[int]]]:
    """Send all strangers to all doors until the parties have ended.

    Returns what those without a member's key have heard, and the memory of each process.
    """
    with ExitStack() as stack:
        sieges = [stack.enter_context(closing(Siege(s, record))) for s in sessions]
        pairs = [(siege, stranger) for siege in sieges for stranger in STRANGERS]
        pool = stack.enter_context(ThreadPoolExecutor(max_workers=len(pairs)))
        for siege in sieges:
            stack.callback(siege.over.set)
        visits = [pool.submit(siege.lay, stranger) for siege, stranger in pairs]
        sizes = watch_memory(sessions)
        for siege in sieges:
            siege.over.set()
        for (_, stranger), visit in zip(pairs, visits, strict=True):
            assert visit.result(timeout=30.0) >= 10, f"{stranger.__name__} hardly came"
    return [data for siege in sieges for data in siege.overheard], sizes


def reports(session: Play, name: str, kind: str, field: str) -> str:
    """All that a party has reported of one kind, as lines."""
    return "\n".join(e[field] for e in session.cast.events[name] if e["event"] == kind)


@pytest.mark.timeout(180)
def test_strangers_at_every_port_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a minute of strangers at all ports of a relay and a mesh leaves both undisturbed."""
    plain = processes.party_command

    def paced(folder: Path, name: str, chosen: argparse.Namespace) -> list[str]:
        command = plain(folder, name, chosen)
        assert command[1:3] == ["-m", "party"]
        return [command[0], "-c", PACED, *command[3:]] if name == "party1" else command

    monkeypatch.setattr(processes, "party_command", paced)
    chosen = [options("--topology", t, parties=4, rounds=ROUNDS) for t in ("relay", "mesh")]
    with play(tmp_path / "relay", chosen[0]) as relay, play(tmp_path / "mesh", chosen[1]) as mesh:
        sessions = [relay, mesh]
        earlier = earlier_session(relay)
        with recording(relay) as first_rounds:
            for session in sessions:
                session.cast.start()
            for session in sessions:
                session.until_round("party1", 10)
        assert min(len(earlier), len(first_rounds)) > 20
        overheard, sizes = besiege(sessions, [*earlier, *first_rounds])

        assert not overheard
        for session in sessions:
            coordinator = session.cast.processes["coordinator"]
            assert coordinator.poll() is None
            session.cast.wait(5.0)
            session.cast.stop()
            assert coordinator.returncode == INTERRUPTED
            assert_undisturbed(session)
            log = session.cast.complained("coordinator")
            assert "refused a stranger" in log
            assert "Traceback" not in log + "".join(map(session.error, session.cast.names))
        for name in mesh.cast.names:
            assert "refused a stranger" in reports(mesh, name, "warning", "text")
        for name in relay.cast.names:
            dropped = reports(relay, name, "dropped", "why")
            for reason in ("another agreement", "not in the roster", "does not fit"):
                assert reason in dropped, f"nothing of that kind came through to {name}"
        for who, sampled in sizes.items():
            growth = max(sampled[WARM_UP_SECONDS:]) - sampled[WARM_UP_SECONDS]
            assert growth < GROWTH_BYTES, f"{who} grew by {growth >> 20} MB"


@contextmanager
def member_at_the_relay(session: Play) -> Iterator[zmq.Socket[bytes]]:
    """A publisher with a member's transport key, once the relay lets it speak."""
    keys = identity.load(key_file(session, "party1"))
    transport = session.agreement.transport
    with zmq.Context() as context, context.socket(zmq.XPUB) as mouth:
        mouth.linger = 0
        mouth.curve_publickey, mouth.curve_secretkey = keys.transport_key, keys.transport_secret
        mouth.curve_serverkey = transport.coordinator_key.encode()
        mouth.connect(transport.coordinator)
        assert mouth.poll(10_000), "nobody listens to the relay"
        yield mouth


@pytest.mark.timeout(60)
def test_a_message_in_parts_is_not_passed_on(tmp_path: Path) -> None:
    """Parts have no limit and no message of a session has any: the relay keeps them back."""
    with play(tmp_path / "s", options(rounds=5)) as session:
        session.cast.start_coordinator()
        with recording(session) as heard, member_at_the_relay(session) as mouth:
            mouth.send_multipart([b"in", b"parts"])
            mouth.send(b"whole")
            until = time.monotonic() + LIMIT
            while not heard and time.monotonic() < until:
                time.sleep(0.02)
        assert heard == [b"whole"]


@pytest.mark.timeout(60)
def test_a_flooded_relay_still_ends_when_told(tmp_path: Path) -> None:
    """However busy a member keeps it, the coordinator obeys the first polite signal."""
    with play(tmp_path / "s", options(rounds=5)) as session:
        session.cast.start_coordinator()
        coordinator = session.cast.processes["coordinator"]
        with recording(session), member_at_the_relay(session) as mouth:
            for count in range(100_000):
                mouth.send(bytes(200))
                if count == 20_000:
                    coordinator.terminate()
                if count % 1_000 == 0 and coordinator.poll() is not None:
                    break
            assert coordinator.wait(10) == INTERRUPTED


def test_each_stranger_is_named_once_and_only_so_many() -> None:
    """However often strangers come, what is written about them has an end."""
    told: list[str] = []
    roster = Roster(make_agreement(), told.append)
    keys = [zmq.curve_keypair()[0] for _ in range(STRANGERS_TOLD + 5)]
    for key in keys * 2:
        assert not roster.callback("*", key)
    assert len(told) == STRANGERS_TOLD
    assert keys[0].decode() in told[0]


def join_alone(
    session: Play, name: str, text: str, key: Path
) -> "subprocess.CompletedProcess[str]":
    """Join with this agreement and key file, and wait for the end."""
    path = key.with_suffix(".toml")
    path.write_text(text)
    return subprocess.run(
        [
            *processes.party_command(session.cast.folder, name, session.options),
            *("--agreement", str(path), "--key", str(key)),
        ],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def until_listening(place: str) -> None:
    """Wait until somebody listens there."""
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        with suppress(OSError), touch(place):
            return
        time.sleep(0.02)
    raise TimeoutError(f"nobody listens at {place}")


@contextmanager
def plaintext_listener(place: str) -> Iterator[None]:
    """Somebody who listens in the coordinator's place and knows nothing of keys."""
    with zmq.Context() as context, context.socket(zmq.XPUB) as one, context.socket(zmq.XPUB) as two:
        for offset, listener in enumerate((one, two)):
            listener.linger = 0
            listener.bind(address(place, offset))
        yield


SENTENCES = {
    "wrong transport key": "it does not accept our transport key",
    "wrong coordinator key": "its transport key is not the one in the agreement",
    "plaintext listener": "it does not speak this protocol",
    "nobody there": "nobody answers there",
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("trouble", SENTENCES)
def test_a_party_that_cannot_reach_the_coordinator_says_why(
    tmp_path: Path, topology: str, trouble: str
) -> None:
    """Whatever keeps it from the coordinator, a party says it in a sentence and ends with 20."""
    chosen = options("--topology", topology, "--patience", "1", rounds=5)
    with play(tmp_path / "s", chosen) as session, ExitStack() as stack:
        transport = session.agreement.transport
        text, key = agreement_text(session), key_file(session, "party1")
        if trouble == "plaintext listener":
            stack.enter_context(plaintext_listener(transport.coordinator))
        elif trouble != "nobody there":
            session.cast.start_coordinator()
            until_listening(session.agreement.transport.coordinator)
        if trouble == "wrong coordinator key":
            text = text.replace(transport.coordinator_key, zmq.curve_keypair()[0].decode())
        if trouble == "wrong transport key":
            known, key = identity.load(key), tmp_path / "new.key"
            public, secret = zmq.curve_keypair()
            identity.save(replace(known, transport_key=public, transport_secret=secret), key)
            text = text.replace(known.transport_key.decode(), public.decode())
        alone = join_alone(session, "party1", text, key)
        assert alone.returncode == Unavailable.exit_code
        beginning = f"cannot reach the coordinator at {transport.coordinator}: "
        told = [line for line in alone.stdout.splitlines() if beginning in line]
        assert any(SENTENCES[trouble] in line for line in told)
        assert "nobody answers" not in alone.stdout or trouble == "nobody there"


@pytest.mark.timeout(60)
def test_a_link_that_reaches_nobody_waits_quietly(tmp_path: Path) -> None:
    """Failed attempts to connect do not cut the wait for a message short."""
    with play(tmp_path / "s", options(rounds=5)) as session:
        link = RelayLink(session.agreement, identity.load(key_file(session, "party1")))
        try:
            time.sleep(0.3)  # for the first attempts to fail
            began = time.monotonic()
            assert not list(link.receive(0.5))
            assert time.monotonic() >= began + 0.5
            assert len(link.troubles()) == 2
        finally:
            link.close()


@pytest.mark.timeout(60)
def test_a_refused_party_is_let_in_once_the_coordinator_knows_its_key(tmp_path: Path) -> None:
    """A coordinator that had an old agreement is corrected; the waiting parties need nothing."""
    with play(tmp_path / "s", options(rounds=10)) as session:
        cast, text = session.cast, agreement_text(session)
        path = cast.folder / "agreement.toml"
        key = session.agreement.members[2].transport_key
        path.write_text(text.replace(key, zmq.curve_keypair()[0].decode()))
        cast.start_coordinator()
        until_listening(session.agreement.transport.coordinator)
        path.write_text(text)
        for name in cast.names:
            cast.start_party(name)
        until_event(session, "party3", "it does not accept our transport key")
        cast.processes["coordinator"].terminate()
        cast.processes["coordinator"].wait(10)
        cast.start_coordinator()
        cast.wait(LIMIT)
        assert_undisturbed(session)


def until_event(session: Play, name: str, text: str) -> None:
    """Wait until a party has reported this."""
    until = time.monotonic() + LIMIT
    while not any(text in str(event) for event in list(session.cast.events[name])):
        if time.monotonic() > until:
            raise TimeoutError(f"{name} never said {text!r}")
        time.sleep(0.02)


@pytest.mark.timeout(60)
def test_a_foreign_signing_key_does_not_take_a_members_place(tmp_path: Path) -> None:
    """Whoever has a member's transport key but signs with another key is ignored."""
    with play(tmp_path / "s", options(rounds=10)) as session:
        cast = session.cast
        cast.start_coordinator()
        for name in ("party1", "party2"):
            cast.start_party(name)
        known = identity.load(key_file(session, "party3"))
        foreign = replace(
            identity.generate("party3"),
            transport_key=known.transport_key,
            transport_secret=known.transport_secret,
        )
        identity.save(foreign, tmp_path / "foreign.key")
        text = agreement_text(session).replace(known.signing_key.hex(), foreign.signing_key.hex())
        text = text.replace("patience_seconds = 60.0", "patience_seconds = 2.0")
        alone = join_alone(session, "party3", text, tmp_path / "foreign.key")
        assert alone.returncode == Unavailable.exit_code
        for name in ("party1", "party2"):
            until_event(session, name, "signed by somebody who is not in the roster")
            assert not [e for e in cast.events[name] if e["event"] == "round"]
        cast.start_party("party3")
        cast.wait(LIMIT)
        assert_undisturbed(session)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604], ids=oct)
def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    """Party and coordinator end with 5 and say what to do about the file."""
    with play(tmp_path / "s", options(rounds=5)) as session:
        folder = session.cast.folder
        commands = {
            key_file(session, "party1"): processes.party_command(folder, "party1", session.options),
            folder / "coordinator.key": processes.coordinator_command(folder),
        }
        for key, command in commands.items():
            key.chmod(mode)
            refused = subprocess.run(
                command, capture_output=True, text=True, timeout=30, check=False
            )
            assert refused.returncode == BadKey.exit_code
            assert f"chmod 600 {key}" in refused.stderr
