"""Unknown keys at every open port of running sessions, and parties with wrong keys.

Loopback only, and every intruder keeps a moderate pace: the tests show that nothing gets in and
nothing breaks, not how much traffic a machine can bear.
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
from pathlib import Path
from typing import Any

import pytest
import zmq
from msgspec import Struct
from msgspec.structs import replace

from party import keys as identity
from party.network.inbox import Incoming
from party.network.relay_link import RelayLink
from protocol.agreement.address import address
from protocol.errors import BadKey
from protocol.runtime.cli import INTERRUPTED
from protocol.wire.messages import HEAD_BYTES, Release
from scripts.lab.common import local_session
from tests.support.commands import run_command
from tests.support.local_sessions import RunningSession, assert_undisturbed, options
from tests.support.process_control import Brake, rounds_closed, until_reported
from tests.support.relay_client import hello, key_file, recording, speaking
from tests.support.wait import LIMIT, until

pytestmark = pytest.mark.timeout(900)

ROUNDS = 100
SAMPLES = 6
"""How often memory is sampled: once a second, with ten rounds between two samples."""

VISITS = 10
"""How often each intruder connects at least, on any machine."""

GROWTH_BYTES = 15 << 20
HUGE_BYTES = 4 << 20
HUGE_SUBSCRIPTION_BYTES = 1 << 16  # with more, libzmq fails in the sender
MUTE_CONNECTIONS = 40
PAUSE_SECONDS = 0.1

Keys = tuple[bytes, bytes]
"""Public and secret half of a transport key."""


def agreement_text(session: RunningSession) -> str:
    return (session.folder / "agreement.toml").read_text()


class Port(Struct, frozen=True):
    """An open port: its owner's public key, and the kind of socket that a member connects."""

    place: str
    key: str
    kind: int


def connect(place: str) -> socket.socket:
    """A bare TCP connection."""
    host, number = place.removeprefix("tcp://").rsplit(":", 1)
    return socket.create_connection((host, int(number)), timeout=2.0)


def open_ports(session: RunningSession) -> list[Port]:
    """Every port at which the processes of a session listen."""
    transport = session.agreement.transport
    desk = Port(transport.coordinator, transport.coordinator_key, zmq.DEALER)
    if transport.topology == "relay":
        above = address(transport.coordinator, 1)
        return [replace(desk, kind=zmq.XPUB), replace(desk, place=above, kind=zmq.SUB)]
    keys = {m.name: m.transport_key for m in session.agreement.members}
    log = session.stderr("coordinator")
    known = [line.split() for line in log.splitlines() if " listens at " in line]
    assert {words[0] for words in known} == keys.keys()
    return [desk, *(Port(words[3], keys[words[0]], zmq.SUB) for words in known)]


VERDICTS = (
    zmq.Event.HANDSHAKE_SUCCEEDED
    | zmq.Event.HANDSHAKE_FAILED_NO_DETAIL
    | zmq.Event.HANDSHAKE_FAILED_PROTOCOL
    | zmq.Event.HANDSHAKE_FAILED_AUTH
    | zmq.Event.DISCONNECTED
)
"""How a handshake can end."""


class Attack:
    """What the intruders of one session share: its ports, a member's keys, a record."""

    def __init__(self, session: RunningSession, record: list[bytes]) -> None:
        self.agreement = session.agreement
        self.record = record
        self.overheard: list[bytes] = []
        self.over = threading.Event()
        self.visits = dict.fromkeys(INTRUDERS, 0)
        self._ports = open_ports(session)
        member = identity.load(key_file(session, "party2"))
        self.member: Keys = member.transport_key, member.transport_secret
        self.held: deque[socket.socket] = deque()
        self._context: zmq.Context[Any] = zmq.Context()

    def run(self, intruder: "Intruder") -> None:
        """Send an intruder to one port after the other until the attack is over."""
        for count, port in enumerate(itertools.cycle(self._ports)):
            if self.over.wait(PAUSE_SECONDS):
                return
            intruder(self, port, random.Random(count))
            self.visits[intruder] += 1

    def connect_and_send(
        self, port: Port, keys: Keys | None, says: list[bytes], kind: int | None = None
    ) -> list[bytes]:
        """Connect as a member would, send messages once let in, and return what was received."""
        received: list[bytes] = []
        with self._context.socket(kind or port.kind) as client:
            client.linger = 1_000  # so that sent messages leave
            if keys is not None:
                client.curve_publickey, client.curve_secretkey = keys
                client.curve_serverkey = port.key.encode()
            if client.type == zmq.SUB:
                client.subscribe(b"")
            with client.get_monitor_socket(VERDICTS) as verdict:
                client.connect(port.place)
                self._wait(verdict)
                client.disable_monitor()
            if keys == self.member and client.type == zmq.XPUB:
                self._wait(client)  # messages before a subscription are lost
            for data in says if client.type != zmq.SUB else ():
                with suppress(zmq.Again):
                    client.send(data, zmq.NOBLOCK)
            while client.type != zmq.XPUB and client.poll(100) and len(received) < 20:
                received.append(client.recv())
        return received

    def _wait(self, socket: zmq.Socket[bytes]) -> None:
        """Wait until there is something at a socket, or the attack is over."""
        while not self.over.is_set() and not socket.poll(100):
            pass

    def close(self) -> None:
        for connection in self.held:
            connection.close()
        self._context.destroy(linger=0)


Intruder = Callable[[Attack, Port, random.Random], None]


def wrong_key(attack: Attack, port: Port, _: random.Random) -> None:
    """Has the owner's public key, and no key of a member."""
    attack.overheard += attack.connect_and_send(port, zmq.curve_keypair(), attack.record[:20])


def no_key(attack: Attack, port: Port, _: random.Random) -> None:
    """Uses plain ZMTP."""
    attack.overheard += attack.connect_and_send(port, None, attack.record[:20])


def replayer(attack: Attack, port: Port, draw: random.Random) -> None:
    """Has a member's transport key, and repeats earlier messages."""
    attack.connect_and_send(port, attack.member, draw.sample(attack.record, 5))


def forger(attack: Attack, port: Port, draw: random.Random) -> None:
    """Has a member's transport key, and sends messages that no member has signed."""
    forged = identity.generate("party2").pack(
        Release(
            sender="party2",
            agreement=attack.agreement.digest,
            round=draw.randrange(attack.agreement.rounds),
            chain_hash=bytes(HEAD_BYTES),
            values=(0,) * attack.agreement.width,
        )
    )
    changed = bytearray(draw.choice(attack.record))
    changed[-1] ^= 1
    attack.connect_and_send(port, attack.member, [forged.data, bytes(changed), b""])


def oversender(attack: Attack, port: Port, _: random.Random) -> None:
    """Has a member's transport key, and sends more than any message may have."""
    if port.kind == zmq.SUB:
        attack.connect_and_send(port, attack.member, [b"\1" * HUGE_SUBSCRIPTION_BYTES], zmq.XSUB)
    else:
        attack.connect_and_send(port, attack.member, [b"\1" * HUGE_BYTES])


def zmtp_greeting(mechanism: bytes) -> bytes:
    """How a ZMTP 3 connection begins."""
    return b"\xff" + bytes(8) + b"\x7f\x03\x01" + mechanism.ljust(20, b"\0") + bytes(32)


OPENINGS = (
    b"",
    zmtp_greeting(b"NULL"),
    zmtp_greeting(b"CURVE"),
    zmtp_greeting(b"CURVE") + b"\4\xc8\5HELLO",
    zmtp_greeting(b"CURVE") + b"\6" + (1 << 62).to_bytes(8, "big"),
)


def random_sender(_: Attack, port: Port, draw: random.Random) -> None:
    """Sends random bytes, at once or after a valid beginning."""
    with suppress(OSError), connect(port.place) as connection:  # being disconnected is expected
        connection.sendall(draw.choice(OPENINGS) + draw.randbytes(draw.randrange(1 << 18)))
        connection.recv(4096)


def silent_client(attack: Attack, port: Port, _: random.Random) -> None:
    """Connects and never sends."""
    with suppress(OSError):
        attack.held.append(connect(port.place))
    if len(attack.held) > MUTE_CONNECTIONS:
        attack.held.popleft().close()


INTRUDERS: tuple[Intruder, ...] = (
    wrong_key,
    no_key,
    replayer,
    forger,
    oversender,
    random_sender,
    silent_client,
)


def earlier_session(session: RunningSession) -> list[bytes]:
    """Let the same members finish another session, and return all its messages."""
    text = agreement_text(session)
    path = session.folder / "agreement.toml"
    rounds = f"rounds = {session.options.rounds} "
    assert rounds in text
    path.write_text(text.replace(rounds, "rounds = 5 ").replace("demo-", "earlier-"))
    earlier = local_session.LocalSession(session.folder, session.options)
    try:
        with recording(session) as recorded:
            earlier.start()
            earlier.wait(LIMIT)
            until(lambda: len(recorded) > 20, "the earlier session is recorded")
    finally:
        earlier.stop()
        path.write_text(text)
    return recorded


def resident_bytes(process: "subprocess.Popen[bytes]") -> int:
    pages = Path(f"/proc/{process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


class Memory:
    """Samples of the memory of every process of some sessions."""

    def __init__(self, sessions: list[RunningSession]) -> None:
        self._sessions = sessions
        self.sizes: dict[str, list[int]] = {}

    def look(self) -> None:
        for session in self._sessions:
            for name, process in session.processes.items():
                key = f"{name} ({session.agreement.transport.topology})"
                self.sizes.setdefault(key, []).append(resident_bytes(process))


def attack_all_ports(
    sessions: list[RunningSession], brakes: list[Brake], record: list[bytes]
) -> tuple[list[bytes], dict[str, list[int]]]:
    """Send all intruders to all ports during the rounds, until each has connected often.

    Returns what those without a member's key have received, and the memory of each process since
    each intruder had visited every port.
    """
    memory = Memory(sessions)
    with ExitStack() as stack:
        attacks = [stack.enter_context(closing(Attack(s, record))) for s in sessions]
        pool = stack.enter_context(ThreadPoolExecutor(len(attacks) * len(INTRUDERS)))
        for attack in attacks:
            stack.callback(attack.over.set)
        intruders = [pool.submit(attack.run, each) for attack in attacks for each in INTRUDERS]

        def all_came(times: int) -> bool:
            for ended in (each for each in intruders if each.done()):
                ended.result()  # an intruder ends early only by an error
            return all(min(attack.visits.values()) >= times for attack in attacks)

        until(lambda: all_came(VISITS // 2), "every intruder connects")
        for _ in range(SAMPLES):
            memory.look()
            for brake in brakes:
                brake.move(brake.furthest + 10)
            time.sleep(1.0)
        until(
            lambda: all_came(VISITS) and all(map(has_refused_intruders, sessions)),
            "all are refused",
        )
        memory.look()
        for attack in attacks:
            attack.over.set()
        for each in intruders:
            each.result()
    return [data for attack in attacks for data in attack.overheard], memory.sizes


def has_refused_intruders(session: RunningSession) -> bool:
    """Whether each process with an open port has refused an unknown key, and the relay has named
    the member whose transport key brought invalid messages."""
    log = session.stderr("coordinator")
    if "with the unknown key" not in log:
        return False
    if session.agreement.transport.topology == "mesh":
        texts = [reports(session, name, "warning", "text") for name in session.names]
        return all("with the unknown key" in text for text in texts)
    return "party2: its connection sent" in log


def reports(session: RunningSession, name: str, kind: str, field: str) -> str:
    """All that a party has reported of one kind, as lines."""
    return "\n".join(e[field] for e in session.events[name] if e["event"] == kind)


def test_intruders_at_every_port_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Intruders at all ports of a relay and a mesh change no session.

    The relay's session has masked releases.
    """
    masked = ("--reveal", "totals")
    chosen = [
        options(*more, "--topology", t, parties=4, rounds=ROUNDS)
        for t, more in (("relay", masked), ("mesh", ()))
    ]
    with (
        RunningSession(tmp_path / "relay", chosen[0]) as relay,
        RunningSession(tmp_path / "mesh", chosen[1]) as mesh,
    ):
        sessions = [relay, mesh]
        earlier = earlier_session(relay)
        brakes = [Brake(s, monkeypatch, name="party1", furthest=10) for s in sessions]
        with recording(relay) as first_rounds:
            for session in sessions:
                session.start()
            for brake in brakes:
                brake.reached()
            until(lambda: len(first_rounds) > 20, "the first rounds are recorded")
        overheard, sizes = attack_all_ports(sessions, brakes, [*earlier, *first_rounds])
        for brake in brakes:
            brake.let_go()

        assert not overheard
        for session in sessions:
            session.wait(LIMIT)
            assert session.processes["coordinator"].wait(LIMIT) == 0
            assert_undisturbed(session, *(masked if session is relay else ()))
            log = session.stderr("coordinator")
            for name in set(session.names) - {"party2"}:
                assert f"{name}: its connection" not in log, "an honest member is named"
            dropped = [reports(session, name, "dropped", "why") for name in session.names]
            assert not any(dropped) or session is mesh, "the relay passed on what is not valid"
            assert "Traceback" not in log + "".join(map(session.stderr, session.names))
        for who, sampled in sizes.items():
            growth = max(sampled) - sampled[0]
            assert growth < GROWTH_BYTES, f"{who} grew by {growth >> 20} MB"


@contextmanager
def joining(
    session: RunningSession, name: str, text: str, key: Path
) -> Iterator[Callable[[], str]]:
    """A party that joins with this agreement and key file; yields its output so far."""
    path = key.with_suffix(".toml")
    path.write_text(text)
    command = local_session.party_command(session.folder, name, session.options)
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
    """Wait until a process listens there."""

    def listens() -> bool:
        with suppress(OSError), connect(place):
            return True
        return False

    until(listens, f"a process listens at {place}")


@contextmanager
def plaintext_listener(place: str) -> Iterator[None]:
    """A listener without keys at the coordinator's address."""
    with zmq.Context() as context, context.socket(zmq.XPUB) as one, context.socket(zmq.XPUB) as two:
        for offset, listener in enumerate((one, two)):
            listener.linger = 0
            listener.bind(address(place, offset))
        yield


REASONS = {
    "wrong transport key": "it does not accept our transport key",
    "wrong coordinator key": "its transport key is not the one in the agreement",
    "plaintext listener": "it uses another protocol",
    "nothing there": "nothing answers there",
}


@pytest.mark.parametrize(
    ("topology", "trouble"),
    [*(("relay", each) for each in REASONS), ("mesh", "wrong transport key")],
)
def test_a_party_that_cannot_reach_the_coordinator_gives_the_reason(
    tmp_path: Path, topology: str, trouble: str
) -> None:
    """A party that cannot reach the coordinator gives the reason and keeps trying."""
    with (
        RunningSession(tmp_path / "s", options("--topology", topology, rounds=5)) as session,
        ExitStack() as stack,
    ):
        transport = session.agreement.transport
        text, key = agreement_text(session), key_file(session, "party1")
        if trouble == "plaintext listener":
            stack.enter_context(plaintext_listener(transport.coordinator))
        elif trouble != "nothing there":
            session.start_coordinator()
            until_listening(session.agreement.transport.coordinator)
        if trouble == "wrong coordinator key":
            text = text.replace(transport.coordinator_key, zmq.curve_keypair()[0].decode())
        if trouble == "wrong transport key":
            known, key = identity.load(key), tmp_path / "new.key"
            public, secret = zmq.curve_keypair()
            identity.save(replace(known, transport_key=public, transport_secret=secret), key)
            text = text.replace(known.transport_key.decode(), public.decode())
        beginning = f"cannot reach the coordinator at {transport.coordinator}: "
        with joining(session, "party1", text, key) as output:

            def lines() -> list[str]:
                return [line for line in output().splitlines() if beginning in line]

            until(lambda: any(REASONS[trouble] in line for line in lines()), REASONS[trouble])
            assert "nothing answers" not in output() or trouble == "nothing there"


def test_failed_connections_do_not_shorten_a_wait(tmp_path: Path) -> None:
    """Failed connections do not shorten the wait for a message."""
    with (
        RunningSession(tmp_path / "s", options(rounds=5)) as session,
        ThreadPoolExecutor(1) as pool,
    ):
        place = session.agreement.transport.coordinator
        link = RelayLink(session.agreement, identity.load(key_file(session, "party1")))
        received = pool.submit(link.receive, LIMIT)
        for offset in (0, 1):
            host, port = address(place, offset).removeprefix("tcp://").rsplit(":", 1)
            with socket.create_server((host, int(port))) as server:
                server.settimeout(LIMIT)
                for _ in range(3):  # close every connection
                    server.accept()[0].close()
        session.start_coordinator()
        message = hello(session, "party2")
        with speaking(session, "party2") as out:
            while not received.done():
                out.send(message)
                time.sleep(0.05)
        assert set(received.result()) == {Incoming("", message)}
        assert link.warnings()
        link.close()


def test_a_refused_party_connects_once_the_coordinator_has_its_key(tmp_path: Path) -> None:
    """Once a coordinator's old agreement is corrected, waiting parties connect by themselves."""
    with RunningSession(tmp_path / "s", options(rounds=10)) as session:
        text = agreement_text(session)
        path = session.folder / "agreement.toml"
        key = session.agreement.members[2].transport_key
        path.write_text(text.replace(key, zmq.curve_keypair()[0].decode()))
        session.start_coordinator()
        until_listening(session.agreement.transport.coordinator)
        path.write_text(text)
        for name in session.names:
            session.start_party(name)
        until_reported(session, "party3", "it does not accept our transport key")
        session.processes["coordinator"].terminate()
        session.processes["coordinator"].wait(LIMIT)
        session.start_coordinator()
        session.wait(LIMIT)
        assert_undisturbed(session)


def test_a_foreign_signing_key_is_ignored(tmp_path: Path) -> None:
    """A process with a member's transport key and another signing key is ignored."""
    with RunningSession(tmp_path / "s", options(rounds=10)) as session:
        session.start_coordinator()
        for name in ("party1", "party2"):
            session.start_party(name)
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
            until(lambda: named in session.stderr("coordinator"), "the coordinator names it")
            for name in ("party1", "party2"):
                assert rounds_closed(session, name) == 0
                assert not reports(session, name, "dropped", "why"), "the relay passed it on"
        session.start_party("party3")
        session.wait(LIMIT)
        assert_undisturbed(session)


@pytest.mark.parametrize("mode", [0o640, 0o604], ids=oct)
def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    """Party and coordinator end with 5 and say how to correct the file."""
    with RunningSession(tmp_path / "s", options(rounds=5)) as session:
        folder = session.folder
        commands = {
            key_file(session, "party1"): local_session.party_command(
                folder, "party1", session.options
            ),
            folder / "coordinator.key": local_session.coordinator_command(folder),
        }
        for key, command in commands.items():
            key.chmod(mode)
            refused = run_command(command)
            assert refused.returncode == BadKey.exit_code
            assert f"chmod 600 {key}" in refused.stderr
