"""A bare lock-step loop with only the work that every session needs.

`scripts/bench rounds` compares the real session with it. Each party does in each round:

- one warm solve in HiGHS (change the costs, run, read), and one draw of OpenDP's discrete Gaussian,
- one Ed25519 signature, and one message to all peers over CURVE,
- one durable append: the K releases of the previous round and its own new release, one write, one
  fdatasync,
- K−1 verifications, the sum and the next prices.

Messages are as long as those of a session, and prices move by the same step. The noise of the next
round is drawn after the message has left. Left out: state machine, hash chain, agreement checks,
unknown keys, logs, recovery. With a relay all bytes pass one more process, `relay`, which forwards
from one socket to the other. (libzmq's own proxy polls both sockets for each message, and is
slower.)
"""

import json
import math
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import zmq
from nacl.bindings import crypto_sign, crypto_sign_open
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian
from opendp.metrics import l2_distance
from opendp.mod import enable_features

from party import keys as identity
from party.model import company_model
from party.model.best_response import loaded
from party.model.highs_program import model
from protocol.agreement.address import address
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.agreement.schema import TICKS
from protocol.numeric import Floats, Ticks
from protocol.pricing.rule import PriceRule
from protocol.privacy.calibration import Calibration
from protocol.runtime.files import read_agreement
from protocol.runtime.sockets import socket_options
from protocol.wire.codec import SIGNATURE_BYTES, release_bytes

enable_features("contrib")

HANDSHAKE = -1
"""The round before the first. When it closes, all parties are connected."""

Messages = dict[int, bytes]
"""The signed messages of one round, by their sender's index in the roster."""


def demand_solver(folder: Path, name: str, agreement: Agreement) -> Callable[[Floats], Ticks]:
    """Returns the demand at given prices, in ticks: change the costs, run, read."""
    data = company_model.read(folder / name / "model.npz", agreement)
    limit = quantities(agreement).share[agreement.place(name)] * quantities(agreement).capacity
    solver = loaded(model(data, limit))
    solver.run()
    solver.setOptionValue("simplex_strategy", 4)  # primal, as in a party
    n, m = data.columns, data.resources
    price_columns = np.arange(n, n + m, dtype=np.int32)
    capacity = quantities(agreement).capacity

    def demand(prices: Floats) -> Ticks:
        solver.changeColsCost(m, price_columns, -prices)
        solver.run()
        values = np.array(solver.allVariableValues())[n:]
        ticks: Ticks = np.rint(values / capacity * TICKS).astype(np.int64)
        return ticks

    return demand


def noise_source(agreement: Agreement, index: int) -> Callable[[], Ticks]:
    """Returns one draw for each number of a release, with the σ of the agreement."""
    scales = Calibration(agreement).scales(quantities(agreement).share_ticks)[index]
    space = vector_domain(atom_domain(T="i64")), l2_distance(T="f64")
    draws = {s: make_gaussian(*space, scale=s) for s in scales.tolist()}
    counts = [(draws[s], int((scales == s).sum())) for s in draws]
    return lambda: np.concatenate([draw([0] * count) for draw, count in counts])


class Network:
    """CURVE sockets to all peers: to the relay, or in a mesh to each peer."""

    def __init__(self, agreement: Agreement, keys: identity.Identity, ports: list[int]) -> None:
        self._context: zmq.Context[Any] = zmq.Context()
        self._keys, self._options = keys, socket_options(agreement)
        self._poller = zmq.Poller()
        self._at_once = 1 if ports else 1_000  # messages from each socket
        if ports:
            self._out = self._socket(zmq.PUB)
            self._out.bind(f"tcp://127.0.0.1:{ports[agreement.place(keys.name)]}")
            for member, port in zip(agreement.members, ports, strict=True):
                if member.name != keys.name:
                    self._listen(member.transport_key, f"tcp://127.0.0.1:{port}")
        else:
            transport = agreement.transport
            self._out = self._socket(zmq.PUB, transport.coordinator_key)
            self._out.connect(address(transport.coordinator))
            self._listen(transport.coordinator_key, address(transport.coordinator, 1))
        self.send = self._out.send

    def _socket(self, kind: int, server_key: str = "") -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = self._context.socket(kind)
        for option, value in self._options.items():
            setattr(socket, option, value)
        socket.curve_secretkey = self._keys.transport_secret
        socket.curve_publickey = self._keys.transport_key
        if server_key:
            socket.curve_serverkey = server_key.encode()
        else:
            socket.curve_server = True
        return socket

    def _listen(self, server_key: str, place: str) -> None:
        subscriber = self._socket(zmq.SUB, server_key)
        subscriber.subscribe(b"")
        subscriber.connect(place)
        self._poller.register(subscriber, zmq.POLLIN)

    def receive(self, seconds: float) -> list[bytes]:
        """All waiting messages; waits at most `seconds` for the first one."""
        messages = []
        ready = self._poller.poll(max(0, math.ceil(seconds * 1e3)))
        os.sched_yield()  # as a party does
        for subscriber, _ in ready:
            try:
                for _ in range(self._at_once):
                    messages.append(subscriber.recv(zmq.NOBLOCK))
            except zmq.Again:
                continue
        return messages

    def close(self) -> None:
        self._context.destroy(linger=200)


class Loop:
    """One party of the bare loop."""

    def __init__(self, folder: Path, name: str, ports: list[int]) -> None:
        agreement = read_agreement(folder / "agreement.toml")
        keys = identity.load(folder / name / f"{name}.key")
        self._index, self._K = agreement.place(name), len(agreement.members)
        self._publics = [m.signing_key for m in agreement.members]
        self._secret = keys.signing_secret
        self._demand = demand_solver(folder, name, agreement)
        self._draw = noise_source(agreement, self._index)
        self._step = PriceRule(agreement).step_size(0) * quantities(agreement).capacity
        self._m = len(agreement.resources)
        self._network = Network(agreement, keys, ports)
        self._log = os.open(
            folder / name / "bare.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
        )
        self._padding = bytes(release_bytes(agreement) - SIGNATURE_BYTES - 8 - 8 * self._m)
        self._received: dict[int, Messages] = {}
        self._last: Messages = {}
        self._sent: list[bytes] = []
        self._prices = np.zeros(self._m)
        self._noise = self._draw()

    def round(self, t: int) -> None:
        numbers = self._demand(self._prices) + self._noise
        payload = (t + 1).to_bytes(4, "big") + self._index.to_bytes(4, "big") + numbers.tobytes()
        signed = crypto_sign(payload + self._padding, self._secret)
        os.write(self._log, b"".join([*self._last.values(), signed]))
        os.fdatasync(self._log)
        self._sent = [*self._sent[-1:], signed]
        self._network.send(signed)
        self._noise = self._draw()
        received = self._received.setdefault(t, {})
        received[self._index] = signed
        wait = 0.2 if t > 0 else 0.02
        due = time.monotonic() + wait
        while len(received) < self._K:
            messages = self._network.receive(due - time.monotonic())
            if sum(self._keep(message, t) for message in messages):
                due = time.monotonic() + wait
            elif time.monotonic() >= due:
                self.repeat()
                due = time.monotonic() + wait
        self._last = self._received.pop(t)
        total = np.zeros(self._m, dtype=np.int64)
        for message in self._last.values():
            total += np.frombuffer(message, np.int64, self._m, SIGNATURE_BYTES + 8)
        if t != HANDSHAKE:
            excess = (total - TICKS) / TICKS
            self._prices = np.maximum(0.0, self._prices + self._step * excess)

    def _keep(self, message: bytes, t: int) -> bool:
        """Verify and store a message if it is new; return whether it was."""
        start = SIGNATURE_BYTES
        when = int.from_bytes(message[start : start + 4], "big") - 1
        who = int.from_bytes(message[start + 4 : start + 8], "big")
        received = self._received.setdefault(when, {}) if when >= t else None
        if received is None or who in received:
            return False
        crypto_sign_open(message, self._publics[who])
        received[who] = message
        return True

    def repeat(self) -> None:
        for message in self._sent:
            self._network.send(message)

    def leave(self, seconds: float) -> None:
        """Repeat the last messages for a while, so that late peers receive them."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._network.receive(0.05)
            self.repeat()
        self._network.close()


def party(folder: Path, name: str, rounds: int, ports: list[int]) -> None:
    """Run `rounds` rounds; `ports` has the members' ports in a mesh, and is empty with a relay."""
    loop = Loop(folder, name, ports)
    loop.round(HANDSHAKE)
    loop.round(0)
    began, spent = time.perf_counter(), _cpu_seconds()
    for t in range(1, rounds):
        loop.round(t)
    seconds, spent = time.perf_counter() - began, _cpu_seconds() - spent
    count = rounds - 1
    figures = {"rounds_per_second": count / seconds, "cpu_seconds_per_round": spent / count}
    print(json.dumps(figures), flush=True)
    loop.leave(1.0)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def relay(folder: Path) -> None:
    """Forward all messages to all parties."""
    agreement = read_agreement(folder / "agreement.toml")
    context: zmq.Context[Any] = zmq.Context()
    poller, sockets = zmq.Poller(), []
    for offset, kind in enumerate((zmq.XSUB, zmq.XPUB)):
        socket: zmq.Socket[bytes] = context.socket(kind)
        for option, value in socket_options(agreement).items():
            setattr(socket, option, value)
        socket.curve_server = True
        socket.curve_secretkey = (folder / "coordinator.key").read_text().strip().encode()
        socket.bind(address(agreement.transport.coordinator, offset))
        poller.register(socket, zmq.POLLIN)
        sockets.append(socket)
    while True:
        poller.poll()
        for source, sink in (sockets, sockets[::-1]):
            try:
                while True:
                    sink.send(source.recv(zmq.NOBLOCK))
            except zmq.Again:
                continue


if __name__ == "__main__":
    if sys.argv[1] == "relay":
        relay(Path(sys.argv[2]))
    else:
        party(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), json.loads(sys.argv[5]))
