"""Strangers at every open port of running sessions, and parties that come with wrong keys.

Loopback only, and every stranger keeps a moderate pace: what is tested is that nothing gets
in and nothing breaks, not how much traffic a machine can bear.
"""

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

from party import keys as identity
from party.network.inbox import Incoming
from party.network.relay_link import RelayLink
from protocol.agreement.address import address
from protocol.agreement.schema import TOPOLOGIES
from protocol.errors import BadKey
from protocol.runtime.cli import INTERRUPTED
from protocol.wire.messages import HEAD_BYTES, Release
from scripts.lab.common import local_session
from tests.support.local_sessions import Play, assert_undisturbed, options, play
from tests.support.process_control import Brake, rounds_closed, until_told
from tests.support.relay_client import hello, key_file, recording, speaking
from tests.support.wait import LIMIT, until

pytestmark = pytest.mark.timeout(900)

ROUNDS = 400
SAMPLES = 30
"""How often memory is looked at: once a second, with ten rounds between two looks."""

VISITS = 10
"""How often each stranger comes at the least, whatever the machine has to do besides."""

GROWTH_BYTES = 15 << 20
HUGE_BYTES = 4 << 20
HUGE_SUBSCRIPTION_BYTES = 1 << 16  # with more, libzmq breaks in the one who sends it
MUTE_CONNECTIONS = 40
PAUSE_SECONDS = 0.1

Keys = tuple[bytes, bytes]
"""Public and secret half of a transport key."""


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
        return [replace(desk, kind=zmq.XPUB), replace(desk, place=above, kind=zmq.SUB)]
    keys = {m.name: m.transport_key for m in session.agreement.members}
    log = session.cast.complained("coordinator")
    known = [line.split() for line in log.splitlines() if " listens at " in line]
    assert {words[0] for words in known} == keys.keys()
    return [desk, *(Door(words[3], keys[words[0]], zmq.SUB) for words in known)]


VERDICTS = (
    zmq.Event.HANDSHAKE_SUCCEEDED
    | zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
    | zmq.Event.HANDSHAKE_FAILED_PROTOCOL
    | zmq.Event.HANDSHAKE_FAILED_AUTH
    | zmq.Event.DISCONNECTED
)
"""How a handshake can end."""


class Siege:
    """What the strangers before one session share: its doors, a member's keys, a record."""

    def __init__(self, session: Play, record: list[bytes]) -> None:
        self.agreement = session.agreement
        self.record = record
        self.overheard: list[bytes] = []
        self.over = threading.Event()
        self.visits = dict.fromkeys(STRANGERS, 0)
        self._doors = doors(session)
        member = identity.load(key_file(session, "party2"))
        self.member: Keys = member.transport_key, member.transport_secret
        self.held: deque[socket.socket] = deque()
        self._context: zmq.Context[Any] = zmq.Context()

    def lay(self, stranger: "Stranger") -> None:
        """Send a stranger to one door after the other until it is over."""
        for count, door in enumerate(itertools.cycle(self._doors)):
            if self.over.wait(PAUSE_SECONDS):
                return
            stranger(self, door, random.Random(count))
            self.visits[stranger] += 1

    def knock(
        self, door: Door, keys: Keys | None, says: list[bytes], kind: int | None = None
    ) -> list[bytes]:
        """Connect as a member would, say something once let in, and return what was heard."""
        heard: list[bytes] = []
        with self._context.socket(kind or door.kind) as client:
            client.linger = 1_000  # for what was said to leave
            if keys is not None:
                client.curve_publickey, client.curve_secretkey = keys
                client.curve_serverkey = door.key.encode()
            if client.type == zmq.SUB:
                client.subscribe(b"")
            with client.get_monitor_socket(VERDICTS) as verdict:
                client.connect(door.place)
                self._wait(verdict)
                client.disable_monitor()
            if keys == self.member and client.type == zmq.XPUB:
                self._wait(client)  # what is said before somebody subscribes is lost
            for data in says if client.type != zmq.SUB else ():
                with suppress(zmq.Again):
                    client.send(data, zmq.NOBLOCK)
            while client.type != zmq.XPUB and client.poll(100) and len(heard) < 20:
                heard.append(client.recv())
        return heard

    def _wait(self, socket: zmq.Socket[bytes]) -> None:
        """Until there is something at a socket, or the siege is over."""
        while not self.over.is_set() and not socket.poll(100):
            pass

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
    siege.knock(door, siege.member, draw.sample(siege.record, 5))


def forger(siege: Siege, door: Door, draw: random.Random) -> None:
    """Has a member's transport key, and says what no member has signed."""
    forged = identity.generate("party2").pack(
        Release(
            sender="party2",
            agreement=siege.agreement.digest,
            round=draw.randrange(siege.agreement.rounds),
            chain_hash=bytes(HEAD_BYTES),
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


def earlier_session(session: Play) -> list[bytes]:
    """Let the same members play another session to its end, and return all that was said."""
    text = agreement_text(session)
    path = session.cast.folder / "agreement.toml"
    rounds = f"rounds = {session.options.rounds} "
    assert rounds in text
    path.write_text(text.replace(rounds, "rounds = 5 ").replace("demo-", "earlier-"))
    cast = local_session.LocalSession(session.cast.folder, session.options)
    try:
        with recording(session) as heard:
            cast.start()
            cast.wait(LIMIT)
            until(lambda: len(heard) > 20, "the earlier session is heard")
    finally:
        cast.stop()
        path.write_text(text)
    return heard


def resident_bytes(process: "subprocess.Popen[bytes]") -> int:
    pages = Path(f"/proc/{process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


class Memory:
    """The memory of every process of some sessions, looked at now and then."""

    def __init__(self, sessions: list[Play]) -> None:
        self._sessions = sessions
        self.sizes: dict[str, list[int]] = {}

    def look(self) -> None:
        for session in self._sessions:
            for name, process in session.cast.processes.items():
                key = f"{name} ({session.agreement.transport.topology})"
                self.sizes.setdefault(key, []).append(resident_bytes(process))


def besiege(
    sessions: list[Play], brakes: list[Brake], record: list[bytes]
) -> tuple[list[bytes], dict[str, list[int]]]:
    """Send all strangers to all doors while the parties play, and until all have come often.

    Returns what those without a member's key have heard, and the memory of each process since
    everybody had come once to every door.
    """
    memory = Memory(sessions)
    with ExitStack() as stack:
        sieges = [stack.enter_context(closing(Siege(s, record))) for s in sessions]
        pool = stack.enter_context(ThreadPoolExecutor(len(sieges) * len(STRANGERS)))
        for siege in sieges:
            stack.callback(siege.over.set)
        strangers = [pool.submit(siege.lay, each) for siege in sieges for each in STRANGERS]

        def all_came(times: int) -> bool:
            for ended in (each for each in strangers if each.done()):
                ended.result()  # a stranger goes on until it is over, or has failed
            return all(min(siege.visits.values()) >= times for siege in sieges)

        until(lambda: all_came(VISITS // 2), "every stranger comes")
        for _ in range(SAMPLES):
            memory.look()
            for brake in brakes:
                brake.move(brake.furthest + 10)
            time.sleep(1.0)
        until(lambda: all_came(VISITS) and all(map(complained, sessions)), "all are turned away")
        memory.look()
        for siege in sieges:
            siege.over.set()
        for each in strangers:
            each.result()
    return [data for siege in sieges for data in siege.overheard], memory.sizes


def complained(session: Play) -> bool:
    """Whether each process with an open port has refused a stranger, and the relay has named the
    member whose transport key brought what is not valid."""
    log = session.cast.complained("coordinator")
    if "with the unknown key" not in log:
        return False
    if session.agreement.transport.topology == "mesh":
        texts = [reports(session, name, "warning", "text") for name in session.cast.names]
        return all("with the unknown key" in text for text in texts)
    return "party2: its connection sent" in log


def reports(session: Play, name: str, kind: str, field: str) -> str:
    """All that a party has reported of one kind, as lines."""
    return "\n".join(e[field] for e in session.cast.events[name] if e["event"] == kind)


def test_strangers_at_every_port_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Strangers at all ports of a relay and a mesh, for as long as it takes, change neither.

    Of what the relay carries only totals can be read.
    """
    masked = ("--reveal", "totals")
    chosen = [
        options(*more, "--topology", t, parties=4, rounds=ROUNDS)
        for t, more in (("relay", masked), ("mesh", ()))
    ]
    with play(tmp_path / "relay", chosen[0]) as relay, play(tmp_path / "mesh", chosen[1]) as mesh:
        sessions = [relay, mesh]
        earlier = earlier_session(relay)
        brakes = [Brake(s, monkeypatch, name="party1", furthest=10) for s in sessions]
        with recording(relay) as first_rounds:
            for session in sessions:
                session.cast.start()
            for brake in brakes:
                brake.reached()
            until(lambda: len(first_rounds) > 20, "the first rounds are heard")
        overheard, sizes = besiege(sessions, brakes, [*earlier, *first_rounds])
        for brake in brakes:
            brake.let_go()

        assert not overheard
        for session in sessions:
            session.cast.wait(LIMIT)
            assert session.cast.processes["coordinator"].wait(LIMIT) == 0
            assert_undisturbed(session, *(masked if session is relay else ()))
            log = session.cast.complained("coordinator")
            for name in set(session.cast.names) - {"party2"}:
                assert f"{name}: its connection" not in log, "an honest member is named"
            dropped = [reports(session, name, "dropped", "why") for name in session.cast.names]
            assert not any(dropped) or session is mesh, "the relay passed on what is not valid"
            assert "Traceback" not in log + "".join(map(session.error, session.cast.names))
        for who, sampled in sizes.items():
            growth = max(sampled) - sampled[0]
            assert growth < GROWTH_BYTES, f"{who} grew by {growth >> 20} MB"


@contextmanager
def joining(session: Play, name: str, text: str, key: Path) -> Iterator[Callable[[], str]]:
    """A party that joins with this agreement and key file; what it has said so far."""
    path = key.with_suffix(".toml")
    path.write_text(text)
    command = local_session.party_command(session.cast.folder, name, session.options)
    command += ["--agreement", str(path), "--key", str(key)]
    log = key.with_suffix(".log")
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        yield log.read_text
    finally:
        process.terminate()
        assert process.wait(LIMIT) == INTERRUPTED, log.read_text()


def until_listening(place: str) -> None:
    """Wait until somebody listens there."""

    def listens() -> bool:
        with suppress(OSError), touch(place):
            return True
        return False

    until(listens, f"somebody listens at {place}")


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


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("trouble", SENTENCES)
def test_a_party_that_cannot_reach_the_coordinator_says_why(
    tmp_path: Path, topology: str, trouble: str
) -> None:
    """Whatever keeps it from the coordinator, a party says it in a sentence and goes on trying."""
    with (
        play(tmp_path / "s", options("--topology", topology, rounds=5)) as session,
        ExitStack() as stack,
    ):
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
        beginning = f"cannot reach the coordinator at {transport.coordinator}: "
        with joining(session, "party1", text, key) as said:

            def told() -> list[str]:
                return [line for line in said().splitlines() if beginning in line]

            until(lambda: any(SENTENCES[trouble] in line for line in told()), SENTENCES[trouble])
            assert "nobody answers" not in said() or trouble == "nobody there"


def test_a_link_that_reaches_nobody_waits_on(tmp_path: Path) -> None:
    """Failed attempts to connect do not cut the wait for a message short."""
    with play(tmp_path / "s", options(rounds=5)) as session, ThreadPoolExecutor(1) as pool:
        place = session.agreement.transport.coordinator
        link = RelayLink(session.agreement, identity.load(key_file(session, "party1")))
        heard = pool.submit(link.receive, LIMIT)
        for offset in (0, 1):
            host, port = address(place, offset).removeprefix("tcp://").rsplit(":", 1)
            with socket.create_server((host, int(port))) as server:
                server.settimeout(LIMIT)
                for _ in range(3):  # whoever comes is sent away
                    server.accept()[0].close()
        session.cast.start_coordinator()
        said = hello(session, "party2")
        with speaking(session, "party2") as mouth:
            while not heard.done():
                mouth.send(said)
                time.sleep(0.05)
        assert set(heard.result()) == {Incoming("", said)}
        assert link.warnings()
        link.close()


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
        until_told(session, "party3", "it does not accept our transport key")
        cast.processes["coordinator"].terminate()
        cast.processes["coordinator"].wait(LIMIT)
        cast.start_coordinator()
        cast.wait(LIMIT)
        assert_undisturbed(session)


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
        with joining(session, "party3", text, tmp_path / "foreign.key"):
            named = "party3: its connection sent 1 message not valid in this session"
            until(lambda: named in cast.complained("coordinator"), "the coordinator names it")
            for name in ("party1", "party2"):
                assert rounds_closed(session, name) == 0
                assert not reports(session, name, "dropped", "why"), "the relay passed it on"
        cast.start_party("party3")
        cast.wait(LIMIT)
        assert_undisturbed(session)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604], ids=oct)
def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    """Party and coordinator end with 5 and say what to do about the file."""
    with play(tmp_path / "s", options(rounds=5)) as session:
        folder = session.cast.folder
        commands = {
            key_file(session, "party1"): local_session.party_command(
                folder, "party1", session.options
            ),
            folder / "coordinator.key": local_session.coordinator_command(folder),
        }
        for key, command in commands.items():
            key.chmod(mode)
            refused = subprocess.run(
                command, capture_output=True, text=True, timeout=LIMIT, check=False
            )
            assert refused.returncode == BadKey.exit_code
            assert f"chmod 600 {key}" in refused.stderr
