"""A member, or the coordinator, that does its worst: the honest stay up, and small.

Loopback only. Whoever attacks has real keys, signs what it likes and keeps to ZeroMQ, and its
worst lasts for some seconds, or for SOTTO_ATTACK_SECONDS. What is measured is the highest memory
that an honest process has had, before and after; and nobody honest is named by anybody.
"""

import itertools
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import msgpack
import pytest
import zmq

from party import keys as identity
from party.keys import Identity
from party.ledger.session_ledger import Ledger
from protocol.agreement.address import address
from protocol.agreement.parse import parse
from protocol.errors import BadAgreement, BadCommand
from protocol.rounds import RoundEngine
from protocol.wire.codec import Reader, max_message_bytes
from protocol.wire.messages import FURTHEST, HEAD_BYTES, NONCE_BYTES, Halt, Hello, Reason, Release
from scripts.lab.common import local_session
from scripts.lab.common.ports import reserve
from tests.support.local_sessions import Play, assert_undisturbed, options, play
from tests.support.process_control import Brake, kill, until_told
from tests.support.relay_client import key_file, recording, speaking
from tests.support.wait import LIMIT, until

pytestmark = pytest.mark.timeout(900)

ATTACK_SECONDS = float(os.environ.get("SOTTO_ATTACK_SECONDS", "5"))
GROWTH_BYTES = 50 << 20
HALTS = 5_000
SUBSCRIBED_BYTES = 4 << 20
PARTS_BYTES = 50 << 20

LIAR = "party3"


def keys(session: Play, name: str = LIAR) -> Identity:
    return identity.load(key_file(session, name))


@contextmanager
def socket(
    kind: int, public: bytes, secret: bytes, *, server_key: str = ""
) -> Iterator[zmq.Socket[bytes]]:
    """A socket of somebody who has keys: a client of `server_key`, or a server without one."""
    with zmq.Context() as context, context.socket(kind) as made:
        made.linger, made.sndhwm, made.rcvhwm = 0, 0, 0
        made.curve_publickey, made.curve_secretkey = public, secret
        if server_key:
            made.curve_serverkey = server_key.encode()
        else:
            made.curve_server = True
        yield made


@contextmanager
def client(session: Play, kind: int, server_key: str, place: str) -> Iterator[zmq.Socket[bytes]]:
    """A socket that the liar has connected to an open port."""
    who = keys(session)
    with socket(kind, who.transport_key, who.transport_secret, server_key=server_key) as made:
        made.connect(place)
        yield made


class Peaks:
    """The highest memory that processes have had since this was made."""

    def __init__(self, session: Play, *names: str) -> None:
        self._running = {name: session.cast.processes[name] for name in names}
        self._before = {name: self._peak(name) for name in names}

    def _peak(self, name: str) -> int:
        process = self._running[name]
        assert process.poll() is None, f"{name} ended with {process.returncode}"
        status = Path(f"/proc/{process.pid}/status").read_text()
        [kilobytes] = [line.split()[1] for line in status.splitlines() if "VmHWM" in line]
        return int(kilobytes) << 10

    def check(self) -> None:
        """All of them run, and have not grown much."""
        for name, before in self._before.items():
            growth = self._peak(name) - before
            assert growth < GROWTH_BYTES, f"{name} grew by {growth >> 20} MB"


def lasting(attack: Callable[[], Any]) -> None:
    """Do it again and again, for as long as an attack lasts."""
    end = time.monotonic() + ATTACK_SECONDS
    while time.monotonic() < end:
        attack()
        time.sleep(0.05)


def subscribe_much(mouth: zmq.Socket[bytes], length: int) -> None:
    """Different subscriptions, as long as they can be, and 4 MB in all."""
    for number in range(SUBSCRIBED_BYTES // length):
        mouth.send(b"\1" + number.to_bytes(4, "big") + bytes(length - 60))


def send_parts(mouth: zmq.Socket[bytes], length: int) -> None:
    """One message of 50 MB, of which no part is too long."""
    part = bytes(length - 60)
    for _ in range(PARTS_BYTES // length):
        mouth.send(part, zmq.SNDMORE)
    mouth.send(b"")


def held_session(
    stack: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topology: str
) -> tuple[Play, Brake]:
    """A session in which the first party stays at a round until it is let go."""
    chosen = options("--topology", topology, rounds=20)
    session = stack.enter_context(play(tmp_path / "s", chosen))
    brake = Brake(session, monkeypatch, name="party1", furthest=5)
    session.cast.start()
    brake.reached()
    return session, brake


def goes_on(session: Play, brake: Brake, topology: str) -> None:
    """Let the session go on to its end, which is as if nothing had happened."""
    brake.let_go()
    session.cast.wait(LIMIT)
    assert_undisturbed(session, "--topology", topology)
    for name in (*session.cast.names, "coordinator"):
        assert "Traceback" not in session.cast.complained(name)


def listens_at(session: Play, name: str) -> str:
    """Where the coordinator of a mesh has heard that a member listens."""
    lines = session.cast.complained("coordinator").splitlines()
    return next(line.split()[3] for line in lines if line.startswith(f"{name} listens at"))


@pytest.mark.parametrize("topology", ["relay", "mesh"])
def test_long_subscriptions_take_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topology: str
) -> None:
    """Whoever is sent megabytes of subscriptions by a member stays small, and so do the others."""
    with ExitStack() as stack:
        session, brake = held_session(stack, tmp_path, monkeypatch, topology)
        transport = session.agreement.transport
        peaks = Peaks(session, "coordinator", "party1", "party2")
        place, key = address(transport.coordinator, 1), transport.coordinator_key
        if topology == "mesh":
            place = listens_at(session, "party2")
            key = session.agreement.members[1].transport_key
        length = max_message_bytes(session.agreement)
        for size in (length, 500):
            mouth = stack.enter_context(client(session, zmq.XSUB, key, place))
            subscribe_much(mouth, size)
            lasting(lambda: None)
        peaks.check()
        goes_on(session, brake, topology)


def test_many_parts_take_little_memory_at_the_coordinator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message of very many parts fills neither the relay nor anybody behind it."""
    with ExitStack() as stack:
        session, brake = held_session(stack, tmp_path, monkeypatch, "relay")
        peaks = Peaks(session, "coordinator", "party1", "party2")
        mouth = stack.enter_context(speaking(session, LIAR))
        mouth.sndhwm = 0
        send_parts(mouth, max_message_bytes(session.agreement))
        lasting(lambda: None)
        send_parts(mouth, 100)
        lasting(lambda: None)
        peaks.check()
        goes_on(session, brake, "relay")


def test_many_parts_take_little_memory_at_the_desk_of_a_mesh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor do they fill the coordinator that introduces the members of a mesh."""
    with ExitStack() as stack:
        session, brake = held_session(stack, tmp_path, monkeypatch, "mesh")
        transport = session.agreement.transport
        peaks = Peaks(session, "coordinator")
        desk = client(session, zmq.DEALER, transport.coordinator_key, transport.coordinator)
        mouth = stack.enter_context(desk)
        send_parts(mouth, max_message_bytes(session.agreement))
        lasting(lambda: None)
        peaks.check()
        goes_on(session, brake, "mesh")


def test_many_parts_take_little_memory_in_a_mesh(tmp_path: Path) -> None:
    """A member of a mesh that sends very many parts to the others fills none of them."""
    with ExitStack() as stack:
        session = stack.enter_context(play(tmp_path / "s", options("--topology", "mesh")))
        cast, who = session.cast, keys(session)
        cast.start_coordinator()
        mouth = stack.enter_context(socket(zmq.XPUB, who.transport_key, who.transport_secret))
        place = f"tcp://127.0.0.1:{reserve(1)}"
        mouth.xpub_verbose = True
        mouth.bind(place)
        transport = session.agreement.transport
        desk = client(session, zmq.DEALER, transport.coordinator_key, transport.coordinator)
        stack.enter_context(desk).send(msgpack.packb(place))
        for name in ("party1", "party2"):
            cast.start_party(name)
        for _ in ("party1", "party2"):
            assert mouth.poll(int(LIMIT * 1000.0)), "nobody subscribes to the liar"
            mouth.recv()
        peaks = Peaks(session, "party1", "party2")
        send_parts(mouth, max_message_bytes(session.agreement))
        lasting(lambda: mouth.send(b"and on"))
        peaks.check()
        mouth.close()
        cast.start_party(LIAR)
        cast.wait(LIMIT)
        assert_undisturbed(session, "--topology", "mesh")


def test_a_coordinator_that_does_its_worst_fills_no_party(tmp_path: Path) -> None:
    """Neither subscriptions nor parts from the coordinator itself take much memory."""
    with ExitStack() as stack:
        session = stack.enter_context(play(tmp_path / "s", options()))
        cast, agreement = session.cast, session.agreement
        secret = (cast.folder / "coordinator.key").read_text().strip().encode()
        public = agreement.transport.coordinator_key.encode()
        ear, mouth = (
            stack.enter_context(socket(kind, public, secret)) for kind in (zmq.XSUB, zmq.XPUB)
        )
        for offset, made in enumerate((ear, mouth)):
            made.bind(address(agreement.transport.coordinator, offset))
        ear.send(b"\1")
        for name in cast.names:
            cast.start_party(name)
        heard: set[bytes] = set()

        def all_heard() -> bool:
            if ear.poll(10):
                heard.add(ear.recv()[5:37])
            return len(heard) == len(cast.names)

        until(all_heard, "all parties speak")
        mouth.poll(2_000)
        peaks = Peaks(session, *cast.names)
        length = max_message_bytes(agreement)
        send_parts(mouth, length)
        subscribe_much(ear, length)
        lasting(lambda: (mouth.send(b"and on"), ear.poll(0)))
        peaks.check()
        ear.close()
        mouth.close()
        cast.start_coordinator()
        cast.wait(LIMIT)
        assert_undisturbed(session)


def halts(session: Play) -> Iterator[bytes]:
    """Valid Halts, all different, each as long as it can be."""
    who, agreement = keys(session), session.agreement
    shown = [
        who.pack(
            Release(
                sender=LIAR,
                agreement=agreement.digest,
                round=1_000 + number,
                chain_hash=bytes(32),
                values=(0,) * agreement.width,
            )
        ).data
        for number in range(len(agreement.members) + 1)
    ]
    for number in range(HALTS):
        yield who.pack(
            Halt(
                sender=LIAR,
                agreement=agreement.digest,
                round=1_000 + number,
                chain_hash=bytes(32),
                reason=Reason.HEADS_DIFFER,
                evidence=tuple(shown),
            )
        ).data


def test_a_flood_of_halts_aborts_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of valid Halts, while a party thinks for long, end no process by a signal."""
    with ExitStack() as stack:
        session, brake = held_session(stack, tmp_path, monkeypatch, "relay")
        peaks = Peaks(session, "coordinator", "party1")
        mouth = stack.enter_context(speaking(session, LIAR))
        for _ in range(3):
            for data in halts(session):
                mouth.send(data)
            time.sleep(ATTACK_SECONDS)  # so long that a connection that is not read is given up
        peaks.check()
        brake.let_go()
        lasting(lambda: None)  # now all is read, whatever it leads to
        for name in session.cast.names:
            session.cast.processes[name].terminate()
            code = session.cast.processes[name].wait(LIMIT)
            assert code >= 0, f"{name} was ended by signal {-code}"
            assert "Assertion" not in session.error(name)


def stands(session: Play, heard: list[bytes]) -> tuple[int, bytes]:
    """Where the session stands by the newest release that has passed the relay."""
    reader, opening = Reader(session.agreement), RoundEngine(session.agreement).opening
    said = [reader.unpack(data).message for data in heard]
    releases = [message for message in said if isinstance(message, Release)]
    newest = max(releases, key=lambda message: message.round, default=opening)
    return newest.round, newest.chain_hash


def unproven(session: Play, round: int, chain_hash: bytes, shown: list[bytes]) -> Iterator[bytes]:  # noqa: A002
    """Halts and Hellos of the liar's that accuse others, or claim much, and prove nothing.

    What it shows was said, or is no message at all. Where it stands itself it must not lie, or it
    would be convicted by its own release.
    """
    who, agreement, draw = keys(session), session.agreement, random.Random(1)
    common: dict[str, Any] = {"sender": LIAR, "agreement": agreement.digest}
    for number in itertools.count():
        at: dict[str, Any] = {"round": round, "chain_hash": chain_hash}
        if draw.random() < 0.5:
            at = {"round": 10**6 + number, "chain_hash": bytes(32)}
        evidence = draw.sample([*shown, b"", b"nothing"], draw.randrange(3))
        yield who.pack(
            Halt(**common, **at, reason=draw.choice(list(Reason)), evidence=tuple(evidence))
        ).data
        yield who.pack(
            Hello(
                **common,
                **at,
                nonce=draw.randbytes(NONCE_BYTES),
                wants_reply=draw.random() < 0.5,
                recorded=draw.choice((0, round + 1, 10**6)),
                nonce_digest=draw.randbytes(HEAD_BYTES),
                echo=draw.randbytes(NONCE_BYTES),
                known_ahead=bytes([draw.randint(1, FURTHEST)]) * len(agreement.members),
            )
        ).data


def test_lies_without_proof_stop_nobody_and_blame_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Halts that show nothing and Hellos that claim much: all go on, also who is started again."""
    with ExitStack() as stack:
        session, brake = held_session(stack, tmp_path, monkeypatch, "relay")
        with recording(session) as heard:
            until(lambda: len(heard) > 10, "something is said")
        peaks = Peaks(session, "coordinator", "party1", "party2")
        mouth = stack.enter_context(speaking(session, LIAR))
        lies = unproven(session, *stands(session, heard), heard[-5:])

        def lie() -> None:
            for data in itertools.islice(lies, 20):
                mouth.send(data)

        lasting(lie)
        peaks.check()
        kill(session, "party2")
        session.cast.start_party("party2")
        since = len(session.cast.events["party2"])
        until_told(session, "party2", "waiting", since=since)
        lasting(lie)
        goes_on(session, brake, "relay")
        for name in session.cast.names:
            assert "'party" not in session.error(name), "somebody is named"
            path = key_file(session, name).with_suffix(".ledger")
            with closing(Ledger(path, session.agreement, name)) as ledger:
                assert ledger.fault is None


def test_a_hello_that_claims_a_million_releases_makes_no_ledger_old(tmp_path: Path) -> None:
    """A party that starts beside a boaster waits for its true answer, and nothing else happens."""
    with play(tmp_path / "s", options(rounds=10)) as session, ExitStack() as stack:
        cast, agreement = session.cast, session.agreement
        cast.start_coordinator()
        mouth = stack.enter_context(speaking(session, LIAR))
        cast.start_party("party1")
        with recording(session) as heard:
            until(lambda: heard, "party1 greets")
        hello = Reader(agreement).unpack(heard[0]).message
        assert isinstance(hello, Hello)
        opening, who = RoundEngine(agreement).opening, keys(session)
        for claim in (10**6, 1, agreement.rounds):
            boast = Hello(
                sender=LIAR,
                agreement=agreement.digest,
                round=claim - 1,
                chain_hash=opening.chain_hash,
                nonce=bytes([claim % 256]) * NONCE_BYTES,
                wants_reply=True,
                recorded=0,
                nonce_digest=bytes(HEAD_BYTES),
                echo=hello.nonce,
                known_ahead=bytes([1]) * len(agreement.members),
            )
            mouth.send(who.pack(boast).data)
        until_told(session, "party1", "says that it knows 1 releases of 'party1'")
        for name in ("party2", LIAR):
            cast.start_party(name)
        cast.wait(LIMIT)
        assert_undisturbed(session)


UNREACHABLE = ["tcp://*:5555", "tcp://0.0.0.0:5555", "tcp://a b:5", "tcp://x:0", "tcp://x:99999"]


@pytest.mark.parametrize("place", [*UNREACHABLE, "tcp://[::1]:5", "tcp://no.such.host:5555"])
def test_a_place_that_cannot_be_reached_concerns_its_owner_alone(
    tmp_path: Path, place: str
) -> None:
    """Whatever a member of a mesh says of where it listens, the others go on, now and later."""
    with play(tmp_path / "s", options("--topology", "mesh", rounds=10)) as session:
        cast, transport = session.cast, session.agreement.transport
        cast.start_coordinator()
        for name in ("party1", "party2"):
            cast.start_party(name)
        until(lambda: "2 of 3 known" in cast.complained("coordinator"), "two are introduced")
        key = transport.coordinator_key
        with client(session, zmq.DEALER, key, transport.coordinator) as desk:
            desk.send(msgpack.packb(place))
            until(lambda: cast.complained("coordinator").count(LIAR), "the coordinator has heard")
            cast.start_party(LIAR)
            cast.wait(LIMIT)
        assert_undisturbed(session, "--topology", "mesh")


def test_a_member_that_moves_all_the_time_fills_no_log(tmp_path: Path) -> None:
    """With a new address in every message it is told to the others a few times, and named."""
    with play(tmp_path / "s", options("--topology", "mesh", rounds=10)) as session:
        cast, transport = session.cast, session.agreement.transport
        cast.start_coordinator()
        with client(session, zmq.DEALER, transport.coordinator_key, transport.coordinator) as desk:
            for port in range(1, 3_000):
                desk.send(msgpack.packb(f"tcp://127.0.0.1:{port}"))
            told = f"{LIAR}: its connection sent "
            until(lambda: told in cast.complained("coordinator"), "the coordinator names it")
        log = cast.complained("coordinator")
        assert 1 <= log.count(f"{LIAR} listens at") < 20
        for name in cast.names:
            cast.start_party(name)
        cast.wait(LIMIT)
        assert_undisturbed(session, "--topology", "mesh")


def test_a_ledger_that_knows_a_wrong_place_is_no_trap(tmp_path: Path) -> None:
    """What an earlier version wrote down of where others listen does not stop a party."""
    with play(tmp_path / "s", options("--topology", "mesh", rounds=10)) as session:
        path = key_file(session, "party1").with_suffix(".ledger")
        with closing(Ledger(path, session.agreement, "party1")) as ledger:
            ledger.record_addresses({"party2": "tcp://*:5555", LIAR: "tcp://x:99999"})
        session.cast.start()
        session.cast.wait(LIMIT)
        assert_undisturbed(session, "--topology", "mesh")


@pytest.mark.parametrize("place", UNREACHABLE)
def test_an_agreement_with_such_a_place_is_refused(tmp_path: Path, place: str) -> None:
    """Member and coordinator addresses are checked when the agreement is read."""
    with play(tmp_path / "s", options("--topology", "mesh")) as session:
        text = (session.cast.folder / "agreement.toml").read_text()
        with pytest.raises(BadAgreement, match=r"member\[0\]"):
            parse(text.replace("signing_key", f'address = "{place}"\nsigning_key', 1))
        with pytest.raises(BadAgreement, match="coordinator"):
            parse(text.replace(session.agreement.transport.coordinator, place))


@pytest.mark.parametrize(("topology", "taken"), [("relay", False), ("mesh", True)])
def test_the_last_port_has_none_above_it(tmp_path: Path, topology: str, taken: bool) -> None:
    """A relay needs two ports, so that its first cannot be the last there is."""
    with play(tmp_path / "s", options("--topology", topology)) as session:
        text = (session.cast.folder / "agreement.toml").read_text()
        text = text.replace(session.agreement.transport.coordinator, "tcp://x:65535")
        if taken:
            assert parse(text).transport.coordinator == "tcp://x:65535"
        else:
            with pytest.raises(BadAgreement, match="1 above it"):
                parse(text)


def test_listening_everywhere_needs_a_name_for_others(tmp_path: Path) -> None:
    """`--listen tcp://*:PORT` asks for an address, and with one in the agreement it is enough."""
    with play(tmp_path / "s", options("--topology", "mesh", rounds=10)) as session:
        folder, port = session.cast.folder, reserve(1)
        command = local_session.party_command(folder, "party1", session.options)
        command[command.index("--listen") + 1] = f"tcp://*:{port}"
        refused = subprocess.run(
            command,
            env=local_session.environment(),
            capture_output=True,
            timeout=LIMIT,
            check=False,
        )
        assert refused.returncode == BadCommand.exit_code
        assert b"Name the host" in refused.stderr
        path, key = folder / "agreement.toml", session.agreement.members[0].signing_key.hex()
        stated = f'signing_key = "{key}"\naddress = "tcp://127.0.0.1:{port}"'
        path.write_text(path.read_text().replace(f'signing_key = "{key}"', stated))
        session.cast.start_coordinator()
        session.cast.launch("party1", command)
        for name in session.cast.names[1:]:
            session.cast.start_party(name)
        session.cast.wait(LIMIT)
        assert_undisturbed(session, "--topology", "mesh")


def test_a_place_that_libzmq_refuses_is_told(tmp_path: Path) -> None:
    """A party says which place it cannot connect to, instead of ending with a traceback."""
    with play(tmp_path / "s", options("--topology", "mesh", rounds=10)) as session:
        path, key = session.cast.folder / "agreement.toml", session.agreement.members[1]
        line = f'signing_key = "{key.signing_key.hex()}"'
        stated = f'{line}\naddress = "tcp://[1.2:3]:5555"'
        path.write_text(path.read_text().replace(line, stated))
        session.cast.start_party("party1")
        told = "cannot reach 'party2' at tcp://[1.2:3]:5555"
        until(lambda: told in str(session.cast.events["party1"]), "the trouble is told")
