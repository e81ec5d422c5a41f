"""The coordinator: carries bytes between the members, or tells them where to find each other.

Members need not trust it. It reads what every member reads, which without noise can tell much of
a company, and cannot alter what they signed. It can be silent, or slow; then the members say so. It
verifies what it passes on, so that one member cannot flood the others; they verify it again.
"""

import math
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgpack
import zmq
from zmq.auth.thread import ThreadAuthenticator

from coordinator.batching import Batching
from coordinator.journal import Journal
from coordinator.progress import Say, SessionProgress
from protocol.agreement.address import listening, needs_ipv6, numeric_address
from protocol.agreement.model import Agreement
from protocol.errors import BadCommand, BadMessage, Unavailable
from protocol.runtime.admission import Admission
from protocol.runtime.backlog_guard import BacklogGuard, BacklogLimit
from protocol.runtime.backoff import Backoff
from protocol.runtime.file_limits import coordinator_files, require_files
from protocol.runtime.sockets import (
    QUEUE,
    SUBSCRIPTION_BYTES,
    Roster,
    backlog_bytes,
    cannot_listen,
    publisher_options,
    require_network,
    socket_options,
    wire_bytes,
)
from protocol.wire.codec import peek_header
from protocol.wire.framing import Batches
from protocol.wire.messages import Signed

if TYPE_CHECKING:  # a coordinator without a page needs no server for one
    from coordinator.live_page import LivePage

TURN_SECONDS = 0.005
"""After this time what has come in is passed on, even if more is waiting."""

MOVE_SECONDS = (1.0, 60.0)
"""A member of a mesh can change its address again after this time: it doubles with each change, up
to the second figure. Each change is logged, and told to all members."""

_LOOK_UP_MILLISECONDS = 1_000  # for a signal that came just before the wait
_ASKING = bytes(msgpack.packb(None))  # where are the others? Says nothing of where we are


class Coordinator:
    """Listens where the agreement says, or at `listen` where that is another name for it.

    With `stay` it goes on when the session is over; otherwise it ends then.
    """

    def __init__(
        self,
        agreement: Agreement,
        secret: bytes,
        *,
        listen: str | None,
        say: Say,
        stay: bool = False,
        archive: Journal | None = None,
        watching: "LivePage | None" = None,
    ) -> None:
        require_network(agreement)
        require_files(coordinator_files(agreement), "the coordinator")
        self._agreement = agreement
        self._secret = secret
        self._say = say
        self._stay = stay
        self._archive = archive
        self._watching = watching
        self._standing = SessionProgress(agreement, say, time.monotonic())
        self._checking = Admission(agreement, say)
        self._owners = {m.transport_key: m.name for m in agreement.members}
        self._gathering = Batching(agreement)
        self._places: dict[str, str] = {}
        self._routes: dict[str, bytes] = {}
        self._moves = Backoff(*MOVE_SECONDS)
        self._wrong: set[str] = set()
        self._batches = Batches(agreement)
        self._context: zmq.Context[Any] = zmq.Context()
        agreed = agreement.transport.coordinator
        everywhere = "[::]" if needs_ipv6(agreed) else "*"
        self._base = listening(listen or f"tcp://{everywhere}:{agreed.rpartition(':')[2]}")
        if self._base.endswith(":*"):
            raise BadCommand(f"--listen {self._base}: members look for the coordinator at one port")
        self._port = int(self._base.rpartition(":")[2])
        self._incoming = BacklogLimit(backlog_bytes(agreement))
        self._meter = BacklogGuard(self._line)
        self._guard = ThreadAuthenticator(self._context)
        self._guard.start()
        # Its own key as well, for the health check.
        own = agreement.transport.coordinator_key
        self._guard.configure_curve_callback("*", Roster(agreement, say, also=own))

    def serve(self) -> None:
        """Serve until interrupted, or until the session is over."""
        try:
            if self._agreement.transport.topology == "mesh":
                self._introduce()
            else:
                self._relay()
        finally:
            self._meter.stop()
            self._guard.stop()
            self._context.destroy(linger=0)
            if self._watching is not None:
                self._watching.look(self._standing)
            if self._archive is not None:
                self._archive.close()

    def _line(self, own_port: int, peer_port: int) -> BacklogLimit | None:  # noqa: ARG002
        """What a connection between these ports may bring in: asked by the meter."""
        return self._incoming if own_port == self._port else BacklogLimit(SUBSCRIPTION_BYTES)

    def _listening(self, kind: int, offset: int) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = self._context.socket(kind)
        options = publisher_options if kind == zmq.XPUB else socket_options
        for name, value in options(self._agreement).items():
            setattr(socket, name, value)
        socket.curve_server = True
        socket.curve_secretkey = self._secret
        place = listening(self._base, offset)
        socket.ipv6 = needs_ipv6(place)
        try:
            socket.bind(place)
        except zmq.ZMQError as error:
            raise cannot_listen(place, zmq.strerror(error.errno or 0)) from None
        return socket

    def _goes_on(self) -> bool:
        """Look around, about once a second."""
        now = time.monotonic()
        self._standing.look(now)
        if self._watching is not None:
            self._watching.look(self._standing)
        return self._stay or not self._standing.left(now)

    def _relay(self) -> None:
        """Pass on each member's valid messages to all members."""
        incoming, outgoing = self._listening(zmq.XSUB, 0), self._listening(zmq.XPUB, 1)
        incoming.send(b"\1")  # all of it: what members subscribe to is not passed on
        self._say(f"relaying {self._agreement.session!r} at {self._base} and the port above")
        self._meter.start()
        poller = zmq.Poller()
        poller.register(incoming, zmq.POLLIN)
        poller.register(outgoing, zmq.POLLIN)
        look_at = time.monotonic()
        while True:  # not zmq.proxy, which misses signals while it is busy
            pause = self._pause_milliseconds()
            ready = dict(poller.poll(pause))
            self._checking.looked(time.monotonic(), meant=pause / 1000.0)
            if incoming in ready:
                self._carry(incoming, outgoing)
            if outgoing in ready:
                _discard(outgoing)
            now = time.monotonic()
            self._pass_on(self._gathering.due(now), outgoing)
            if now >= look_at:
                look_at = now + 1.0
                if not self._goes_on():
                    return

    def _pause_milliseconds(self) -> int:
        """Until something that is kept back is due."""
        due = self._gathering.deadline
        if due is None:
            return _LOOK_UP_MILLISECONDS
        wait = math.ceil(max(0.0, due - time.monotonic()) * 1000.0)
        return min(_LOOK_UP_MILLISECONDS, wait)

    def _pass_on(self, messages: list[bytes], sink: zmq.Socket[bytes]) -> None:
        for frame in self._batches.frames(messages):
            sink.send(frame)

    def _carry(self, source: zmq.Socket[bytes], sink: zmq.Socket[bytes]) -> None:
        """Take in what waits now, and pass on what is valid, except what is gathered.

        ZeroMQ gives each connection its turn. The time that this takes is bounded, so that a
        flood from one connection does not hold up what came from others.
        """
        now, taken = time.monotonic(), 0
        end = now + TURN_SECONDS
        released: list[bytes] = []
        try:
            while time.monotonic() < end:
                frame = source.recv(zmq.NOBLOCK, copy=False)
                taken += wire_bytes(len(frame.buffer))
                if frame.more:
                    taken += _rest(source)
                owner = self._owners.get(str(frame.get("User-Id")))
                if owner is None:
                    continue  # our own health check
                for signed in self._valid(frame, owner, now):
                    released += self._gathering.hear(signed, owner, now)
                    if self._archive is not None:
                        self._archive.keep(signed)
                    if self._watching is not None:
                        self._watching.hear(signed)
        except zmq.Again:
            pass
        self._incoming.taken += taken
        self._pass_on(released, sink)
        if self._archive is not None:
            # What members do not send again, which is all but their newest two, is safe by then.
            self._archive.flush()

    def _valid(self, frame: zmq.Frame, owner: str, now: float) -> list[Signed]:
        """The verified messages in a frame, charged to the member whose connection brought it.

        No message of a session has parts.
        """
        valid: list[Signed] = []
        data = frame.bytes
        messages = [] if frame.more else self._batches.messages(data)
        if not messages and self._checking.admits(owner, data, now):
            self._checking.invalid(owner, data, now)
        for message in messages:
            if not self._checking.admits(owner, message, now):
                continue
            with suppress(BadMessage):
                valid.append(self._checking.read(owner, message, now))
                self._standing.hear(valid[-1].message, owner, now)
                self._checking.rounds = self._standing.closed
        return valid

    def _introduce(self) -> None:
        """Tell every member where the others listen."""
        desk = self._listening(zmq.ROUTER, 0)
        self._say(f"introducing the members of {self._agreement.session!r} at {self._base}")
        self._meter.start()
        look_at = time.monotonic()
        while True:
            now = time.monotonic()
            if now >= look_at:
                look_at = now + 1.0
                if not self._goes_on():
                    return
            if not desk.poll(_LOOK_UP_MILLISECONDS):
                continue
            route = desk.recv()
            frame = desk.recv(copy=False)
            self._incoming.taken += wire_bytes(len(frame.buffer))
            if frame.more:
                self._incoming.taken += _rest(desk)
            for known, answer in self._answers(route, frame, now):
                desk.send_multipart([known, answer])

    def _answers(self, route: bytes, frame: zmq.Frame, now: float) -> list[tuple[bytes, bytes]]:
        """What to send to whom, now that a member, or our own health check, has said this."""
        user, data = str(frame.get("User-Id")), frame.bytes
        owner = self._owners.get(user)
        if owner is None:
            own = user == self._agreement.transport.coordinator_key and data == _ASKING
            return [(route, msgpack.packb(self._places))] if own and not frame.more else []
        if not self._checking.admits(owner, data, now):
            return []
        if frame.more:
            self._checking.invalid(owner, data, now)
            return []
        if peek_header(data) is not None:
            with suppress(BadMessage):
                message = self._checking.read(owner, data, now).message
                self._standing.hear(message, owner, now)
            return []
        try:
            place = msgpack.unpackb(data, max_array_len=0, max_map_len=0)
            place = None if data == _ASKING else numeric_address(place)
        except Exception as error:  # what a member says wrong concerns that member alone
            if owner not in self._wrong:
                self._wrong.add(owner)
                text = f"{error}"[:200]
                self._say(f"{owner} does not say where it can be reached: {text}")
            return []
        self._standing.met(owner)
        self._routes[owner] = route
        if place is None:  # its address is in the agreement, and it only asks
            return [(route, msgpack.packb(self._places))]
        news = self._places.get(owner) != place and self._moves.due(owner, now)
        if news:
            self._places[owner] = place
            count = f"{len(self._places)} of {len(self._owners)} known"
            self._say(f"{owner} listens at {place} ({count})")
        told = self._routes.values() if news else (route,)
        return [(known, msgpack.packb(self._places)) for known in told]


def _rest(source: zmq.Socket[bytes]) -> int:
    """Let go of the other parts of a message, and say how much that was."""
    taken = 0
    while source.getsockopt(zmq.RCVMORE):
        taken += wire_bytes(len(source.recv()))
    return taken


def _discard(source: zmq.Socket[bytes]) -> None:
    try:
        for _ in range(QUEUE):
            source.recv(zmq.NOBLOCK)
    except zmq.Again:
        return


def health(agreement: Agreement, secret: bytes, *, listen: str | None, seconds: float) -> None:
    """Raise `Unavailable` unless the coordinator that has this key answers on this machine.

    A relay answers a publisher with what it subscribes to, a desk with where the members are;
    both only while its loop turns.
    """
    require_network(agreement)
    mesh = agreement.transport.topology == "mesh"
    base = listening(listen or agreement.transport.coordinator)
    host, port = base.removeprefix("tcp://").rsplit(":", 1)
    if not listen or host in ("*", "[::]"):
        host = "127.0.0.1"
    with zmq.Context() as context, context.socket(zmq.DEALER if mesh else zmq.XPUB) as client:
        for name, value in socket_options(agreement).items():
            setattr(client, name, value)
        client.curve_publickey, client.curve_secretkey = zmq.curve_public(secret), secret
        client.curve_serverkey = agreement.transport.coordinator_key.encode()
        client.sndtimeo = int(seconds * 1000.0)
        client.ipv6 = needs_ipv6(f"tcp://{host}:{port}")
        client.connect(f"tcp://{host}:{port}")
        try:
            if mesh:
                client.send(_ASKING)
            answered = client.poll(int(seconds * 1000.0))
        except zmq.Again:
            answered = 0
    if not answered:
        raise Unavailable(f"no coordinator answers at tcp://{host}:{port} within {seconds:g} s")
