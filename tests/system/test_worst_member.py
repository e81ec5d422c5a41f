"""A malicious member or coordinator: honest processes keep running, with little memory.

Loopback only. The attacker has real keys, signs anything, uses ZeroMQ correctly, and attacks for
SOTTO_ATTACK_SECONDS. The tests measure the peak memory of honest processes before and after. No
honest member may be named.
"""

import itertools
import os
import random
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
from tests.support.commands import run_command
from tests.support.local_sessions import RunningSession, assert_undisturbed, options
from tests.support.process_control import Brake, kill, until_reported
from tests.support.relay_client import key_file, recording, speaking
from tests.support.wait import LIMIT, until

pytestmark = pytest.mark.timeout(900)

ATTACK_SECONDS = float(os.environ.get("SOTTO_ATTACK_SECONDS", "2"))
GROWTH_BYTES = 50 << 20
HALTS = 5_000
SUBSCRIBED_BYTES = 4 << 20
FRAMES_BYTES = 50 << 20

LIAR = "party3"


def keys(session: RunningSession, name: str = LIAR) -> Identity:
    return identity.load(key_file(session, name))


@contextmanager
def socket(
    kind: int, public: bytes, secret: bytes, *, server_key: str = ""
) -> Iterator[zmq.Socket[bytes]]:
    """A socket with these keys: a client of `server_key`, or a server without one."""
    with zmq.Context() as context, context.socket(kind) as opened:
        opened.linger, opened.sndhwm, opened.rcvhwm = 0, 0, 0
        opened.curve_publickey, opened.curve_secretkey = public, secret
        if server_key:
            opened.curve_serverkey = server_key.encode()
        else:
            opened.curve_server = True
        yield opened


@contextmanager
def client(
    session: RunningSession, kind: int, server_key: str, endpoint: str
) -> Iterator[zmq.Socket[bytes]]:
    """A socket of the liar, connected to an open port."""
    who = keys(session)
    with socket(kind, who.transport_key, who.transport_secret, server_key=server_key) as opened:
        opened.connect(endpoint)
        yield opened


class Peaks:
    """The growth of the peak memory of processes since this was opened."""

    def __init__(self, session: RunningSession, *names: str) -> None:
        self._running = {name: session.processes[name] for name in names}
        self._before = {name: self._peak(name) for name in names}

    def _peak(self, name: str) -> int:
        process = self._running[name]
        assert process.poll() is None, f"{name} ended with {process.returncode}"
        status = Path(f"/proc/{process.pid}/status").read_text()
        [kilobytes] = [line.split()[1] for line in status.splitlines() if "VmHWM" in line]
        return int(kilobytes) << 10

    def check(self, most: int = GROWTH_BYTES) -> None:
        """All processes run, and have not grown much."""
        for name, before in self._before.items():
            growth = self._peak(name) - before
            assert growth < most, f"{name} grew by {growth >> 20} MB"


def keep_up(attack: Callable[[], Any]) -> None:
    """Repeat the attack for its duration."""
    end = time.monotonic() + ATTACK_SECONDS
    while time.monotonic() < end:
        attack()
        time.sleep(0.05)


def subscribe_much(out: zmq.Socket[bytes], length: int) -> None:
    """Send different subscriptions of the greatest length, 4 MB in total."""
    for number in range(SUBSCRIBED_BYTES // length):
        out.send(b"\1" + number.to_bytes(4, "big") + bytes(length - 60))


def send_frames(out: zmq.Socket[bytes], length: int) -> None:
    """Send one message of 50 MB, in frames of the allowed length."""
    frame = bytes(length - 60)
    for _ in range(FRAMES_BYTES // length):
        out.send(frame, zmq.SNDMORE)
    out.send(b"")


def held_session(
    stack: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topology: str
) -> tuple[RunningSession, Brake]:
    """A session in which the first party stays at a round until it is let go."""
    chosen = options("--topology", topology, rounds=20)
    session = stack.enter_context(RunningSession(tmp_path / "s", chosen))
    brake = Brake(session, monkeypatch, name="party1", furthest=5)
    session.start()
    brake.reached()
    return session, brake


def finish_undisturbed(session: RunningSession, brake: Brake, topology: str) -> None:
    """Let the session continue to its undisturbed end."""
    brake.let_go()
    session.wait(LIMIT)
    assert_undisturbed(session, "--topology", topology)
    for name in (*session.names, "coordinator"):
        assert "Traceback" not in session.stderr(name)


def listens_at(session: RunningSession, name: str) -> str:
    """The address of a member in the log of a mesh's coordinator."""
    lines = session.stderr("coordinator").splitlines()
    return next(line.split()[3] for line in lines if line.startswith(f"{name} listens at"))


@pytest.mark.parametrize("topology", ["relay", "mesh"])
def test_long_subscriptions_take_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, topology: str
) -> None:
    """Megabytes of subscriptions from a member fill neither their receiver nor its peers."""
    with ExitStack() as stack:
        session, brake = held_session(stack, tmp_path, monkeypatch, topology)
        transport = session.agreement.transport
        peaks = Peaks(session, "coordinator", "party1", "party2")
        endpoint, key = address(transport.coordinator, 1), transport.coordinator_key
        if topology == "mesh":
            endpoint = listens_at(session, "party2")
            key = session.agreement.members[1].transport_key
        length = max_message_bytes(session.agreement)
        for size in (length, 500):
            out = stack.enter_context(client(session, zmq.XSUB, key, endpoint))
            subscribe_much(out, size)
            keep_up(lambda: None)
        peaks.check(SUBSCRIBED_BYTES * 20)  # without a limit a process grows twice as much
        finish_undisturbed(session, brake, topology)


def test_many_frames_take_little_memory_at_the_relay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message of very many frames fills neither the relay nor the parties behind it."""
    with ExitStack() as stack:
        session, brake = held_session(stack, tmp_path, monkeypatch, "relay")
        peaks = Peaks(session, "coordinator", "party1", "party2")
        out = stack.enter_context(speaking(session, LIAR))
        out.sndhwm = 0
        send_frames(out, max_message_bytes(session.agreement))
        keep_up(lambda: None)
        send_frames(out, 100)
        keep_up(lambda: None)
        peaks.check()
        finish_undisturbed(session, brake, "relay")


def test_many_frames_take_little_memory_at_the_rendezvous(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message of very many frames does not fill the rendezvous of a mesh."""
    with ExitStack() as stack:
        session, brake = held_session(stack, tmp_path, monkeypatch, "mesh")
        transport = session.agreement.transport
        peaks = Peaks(session, "coordinator")
        rendezvous = client(session, zmq.DEALER, transport.coordinator_key, transport.coordinator)
        out = stack.enter_context(rendezvous)
        send_frames(out, max_message_bytes(session.agreement))
        keep_up(lambda: None)
        peaks.check()
        finish_undisturbed(session, brake, "mesh")


def test_many_frames_take_little_memory_in_a_mesh(tmp_path: Path) -> None:
    """A member of a mesh that sends very many frames fills none of its peers."""
    with ExitStack() as stack:
        session = stack.enter_context(RunningSession(tmp_path / "s", options("--topology", "mesh")))
        who = keys(session)
        session.start_coordinator()
        out = stack.enter_context(socket(zmq.XPUB, who.transport_key, who.transport_secret))
        endpoint = f"tcp://127.0.0.1:{reserve(1)}"
        out.xpub_verbose = True
        out.bind(endpoint)
        transport = session.agreement.transport
        rendezvous = client(session, zmq.DEALER, transport.coordinator_key, transport.coordinator)
        stack.enter_context(rendezvous).send(msgpack.packb(endpoint))
        for name in ("party1", "party2"):
            session.start_party(name)
        for _ in ("party1", "party2"):
            assert out.poll(int(LIMIT * 1000.0)), "no party subscribes to the liar"
            out.recv()
        peaks = Peaks(session, "party1", "party2")
        send_frames(out, max_message_bytes(session.agreement))
        keep_up(lambda: out.send(b"and on"))
        peaks.check()
        out.close()
        session.start_party(LIAR)
        session.wait(LIMIT)
        assert_undisturbed(session, "--topology", "mesh")


def test_a_malicious_coordinator_fills_no_party(tmp_path: Path) -> None:
    """Neither subscriptions nor frames from the coordinator itself take much memory."""
    with ExitStack() as stack:
        session = stack.enter_context(RunningSession(tmp_path / "s", options()))
        agreement = session.agreement
        secret = (session.folder / "coordinator.key").read_text().strip().encode()
        public = agreement.transport.coordinator_key.encode()
        incoming, out = (
            stack.enter_context(socket(kind, public, secret)) for kind in (zmq.XSUB, zmq.XPUB)
        )
        for offset, opened in enumerate((incoming, out)):
            opened.bind(address(agreement.transport.coordinator, offset))
        incoming.send(b"\1")
        for name in session.names:
            session.start_party(name)
        senders: set[bytes] = set()

        def all_heard() -> bool:
            if incoming.poll(10):
                senders.add(incoming.recv()[5:37])
            return len(senders) == len(session.names)

        until(all_heard, "all parties send")
        out.poll(2_000)
        peaks = Peaks(session, *session.names)
        length = max_message_bytes(agreement)
        send_frames(out, length)
        subscribe_much(incoming, length)
        keep_up(lambda: (out.send(b"and on"), incoming.poll(0)))
        peaks.check()
        incoming.close()
        out.close()
        session.start_coordinator()
        session.wait(LIMIT)
        assert_undisturbed(session)


def halts(session: RunningSession) -> Iterator[bytes]:
    """Valid Halts, all different, of the greatest length."""
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


def test_a_flood_of_halts_aborts_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of valid Halts, sent while a party is busy, end no process by a signal."""
    with ExitStack() as stack:
        session, brake = held_session(stack, tmp_path, monkeypatch, "relay")
        peaks = Peaks(session, "coordinator", "party1")
        out = stack.enter_context(speaking(session, LIAR))
        for _ in range(3):
            for data in halts(session):
                out.send(data)
            time.sleep(ATTACK_SECONDS)  # long enough that an unread connection is closed
        peaks.check()
        brake.let_go()
        keep_up(lambda: None)  # now all of it is read
        for name in session.names:
            session.processes[name].terminate()
            code = session.processes[name].wait(LIMIT)
            assert code >= 0, f"{name} was ended by signal {-code}"
            assert "Assertion" not in session.stderr(name)


def newest_state(session: RunningSession, recorded: list[bytes]) -> tuple[int, bytes]:
    """Round and chain hash of the newest release that has passed the relay."""
    reader, opening = Reader(session.agreement), RoundEngine(session.agreement).opening
    messages = [reader.unpack(data).message for data in recorded]
    releases = [message for message in messages if isinstance(message, Release)]
    newest = max(releases, key=lambda message: message.round, default=opening)
    return newest.round, newest.chain_hash


def unproven(
    session: RunningSession, current: int, chain_hash: bytes, shown: list[bytes]
) -> Iterator[bytes]:
    """The liar's Halts and Hellos that accuse peers or claim much, and prove nothing.

    Its evidence is real messages or no messages. Its own round must be true, or its own release
    would convict it.
    """
    who, agreement, draw = keys(session), session.agreement, random.Random(1)
    common: dict[str, Any] = {"sender": LIAR, "agreement": agreement.digest}
    for number in itertools.count():
        at: dict[str, Any] = {"round": current, "chain_hash": chain_hash}
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
                recorded=draw.choice((0, current + 1, 10**6)),
                nonce_digest=draw.randbytes(HEAD_BYTES),
                echo=draw.randbytes(NONCE_BYTES),
                known_ahead=bytes([draw.randint(1, FURTHEST)]) * len(agreement.members),
            )
        ).data


def test_accusations_without_proof_stop_and_blame_no_member(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Halts without proof and Hellos with large claims stop no party, not even a restarted one."""
    with ExitStack() as stack:
        session, brake = held_session(stack, tmp_path, monkeypatch, "relay")
        with recording(session) as recorded:
            until(lambda: len(recorded) > 10, "messages pass the relay")
        peaks = Peaks(session, "coordinator", "party1", "party2")
        out = stack.enter_context(speaking(session, LIAR))
        lies = unproven(session, *newest_state(session, recorded), recorded[-5:])

        def lie() -> None:
            for data in itertools.islice(lies, 20):
                out.send(data)

        keep_up(lie)
        peaks.check()
        kill(session, "party2")
        session.start_party("party2")
        since = len(session.events["party2"])
        until_reported(session, "party2", "waiting", since=since)
        keep_up(lie)
        finish_undisturbed(session, brake, "relay")
        for name in session.names:
            assert "'party" not in session.stderr(name), "a member is named"
            path = key_file(session, name).with_suffix(".ledger")
            with closing(Ledger(path, session.agreement, name)) as ledger:
                assert ledger.fault is None


def test_a_false_claim_of_releases_makes_no_ledger_stale(tmp_path: Path) -> None:
    """A party that starts beside a false claim waits for a true answer, and finishes."""
    with RunningSession(tmp_path / "s", options(rounds=10)) as session, ExitStack() as stack:
        agreement = session.agreement
        session.start_coordinator()
        out = stack.enter_context(speaking(session, LIAR))
        session.start_party("party1")
        with recording(session) as recorded:
            until(lambda: recorded, "party1 greets")
        hello = Reader(agreement).unpack(recorded[0]).message
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
            out.send(who.pack(boast).data)
        until_reported(session, "party1", "claims to know 1 releases of 'party1'")
        for name in ("party2", LIAR):
            session.start_party(name)
        session.wait(LIMIT)
        assert_undisturbed(session)


BAD_ADDRESSES = ["tcp://*:5555", "tcp://0.0.0.0:5555", "tcp://a b:5", "tcp://x:0", "tcp://x:99999"]


@pytest.mark.parametrize(
    "endpoint", ["tcp://*:5555", "tcp://x:99999", "tcp://[::1]:5", "tcp://no.such.host:5555"]
)
def test_an_unreachable_address_affects_only_its_owner(tmp_path: Path, endpoint: str) -> None:
    """A member of a mesh may announce any address; its peers continue, now and later."""
    with RunningSession(tmp_path / "s", options("--topology", "mesh", rounds=10)) as session:
        transport = session.agreement.transport
        session.start_coordinator()
        for name in ("party1", "party2"):
            session.start_party(name)
        until(lambda: "2 of 3 known" in session.stderr("coordinator"), "two are introduced")
        key = transport.coordinator_key
        with client(session, zmq.DEALER, key, transport.coordinator) as rendezvous:
            rendezvous.send(msgpack.packb(endpoint))
            until(
                lambda: session.stderr("coordinator").count(LIAR), "the coordinator has received it"
            )
            session.start_party(LIAR)
            session.wait(LIMIT)
        assert_undisturbed(session, "--topology", "mesh")


def test_a_member_that_changes_its_address_often_fills_no_log(tmp_path: Path) -> None:
    """A member with a new address in every message is announced a few times, and named."""
    with RunningSession(tmp_path / "s", options("--topology", "mesh", rounds=10)) as session:
        transport = session.agreement.transport
        session.start_coordinator()
        with client(
            session, zmq.DEALER, transport.coordinator_key, transport.coordinator
        ) as rendezvous:
            for port in range(1, 3_000):
                rendezvous.send(msgpack.packb(f"tcp://127.0.0.1:{port}"))
            expected = f"{LIAR}: its connection sent "
            until(lambda: expected in session.stderr("coordinator"), "the coordinator names it")
        log = session.stderr("coordinator")
        assert 1 <= log.count(f"{LIAR} listens at") < 20
        for name in session.names:
            session.start_party(name)
        session.wait(LIMIT)
        assert_undisturbed(session, "--topology", "mesh")


def test_wrong_addresses_in_a_ledger_do_not_stop_a_party(tmp_path: Path) -> None:
    """Wrong addresses of peers in a ledger do not stop a party."""
    with RunningSession(tmp_path / "s", options("--topology", "mesh", rounds=10)) as session:
        path = key_file(session, "party1").with_suffix(".ledger")
        with closing(Ledger(path, session.agreement, "party1")) as ledger:
            ledger.record_addresses({"party2": "tcp://*:5555", LIAR: "tcp://x:99999"})
        session.start()
        session.wait(LIMIT)
        assert_undisturbed(session, "--topology", "mesh")


@pytest.mark.parametrize("endpoint", BAD_ADDRESSES)
def test_an_agreement_with_a_bad_address_is_refused(tmp_path: Path, endpoint: str) -> None:
    """Member and coordinator addresses are checked when the agreement is read."""
    with RunningSession(tmp_path / "s", options("--topology", "mesh")) as session:
        text = (session.folder / "agreement.toml").read_text()
        with pytest.raises(BadAgreement, match=r"member\[0\]"):
            parse(text.replace("signing_key", f'address = "{endpoint}"\nsigning_key', 1))
        with pytest.raises(BadAgreement, match="coordinator"):
            parse(text.replace(session.agreement.transport.coordinator, endpoint))


@pytest.mark.parametrize(("topology", "taken"), [("relay", False), ("mesh", True)])
def test_a_relay_cannot_use_the_last_port(tmp_path: Path, topology: str, taken: bool) -> None:
    """A relay needs two ports, so its first cannot be the last port."""
    with RunningSession(tmp_path / "s", options("--topology", topology)) as session:
        text = (session.folder / "agreement.toml").read_text()
        text = text.replace(session.agreement.transport.coordinator, "tcp://x:65535")
        if taken:
            assert parse(text).transport.coordinator == "tcp://x:65535"
        else:
            with pytest.raises(BadAgreement, match="1 above it"):
                parse(text)


def test_listening_on_all_interfaces_needs_an_address_for_peers(tmp_path: Path) -> None:
    """`--listen tcp://*:PORT` needs an address for peers; one in the agreement is enough."""
    with RunningSession(tmp_path / "s", options("--topology", "mesh", rounds=10)) as session:
        folder, port = session.folder, reserve(1)
        command = local_session.party_command(folder, "party1", session.options)
        command[command.index("--listen") + 1] = f"tcp://*:{port}"
        refused = run_command(command)
        assert refused.returncode == BadCommand.exit_code
        assert "Name a host" in refused.stderr
        path, key = folder / "agreement.toml", session.agreement.members[0].signing_key.hex()
        stated = f'signing_key = "{key}"\naddress = "tcp://127.0.0.1:{port}"'
        path.write_text(path.read_text().replace(f'signing_key = "{key}"', stated))
        session.start_coordinator()
        session.launch("party1", command)
        for name in session.names[1:]:
            session.start_party(name)
        session.wait(LIMIT)
        assert_undisturbed(session, "--topology", "mesh")


def test_an_address_that_libzmq_refuses_is_named(tmp_path: Path) -> None:
    """A party names the address that it cannot connect to, without a traceback."""
    with RunningSession(tmp_path / "s", options("--topology", "mesh", rounds=10)) as session:
        path, key = session.folder / "agreement.toml", session.agreement.members[1]
        line = f'signing_key = "{key.signing_key.hex()}"'
        stated = f'{line}\naddress = "tcp://[1.2:3]:5555"'
        path.write_text(path.read_text().replace(line, stated))
        session.start_party("party1")
        expected = "cannot reach 'party2' at tcp://[1.2:3]:5555"
        until(lambda: expected in str(session.events["party1"]), "the party names the address")
