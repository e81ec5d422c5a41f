"""A bare lock-step loop that does the work no session can avoid, with nothing around it.

CURVE sockets, one warm solve, one noise draw, one signature, K−1 verifications and one
durable append a round: no state machine, no ledger, no agreement checks, no recovery. It is
the floor that `scripts/bench rounds` compares the real session with.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import zmq
from nacl.bindings import crypto_sign, crypto_sign_open

from party import dataset, identity
from party.noise import DiscreteGaussian
from party.subproblem import Subproblem
from protocol.agreement import TICKS
from protocol.command import read_agreement
from protocol.transport import address, socket_options


def main(folder: Path, name: str, rounds: int, ports: list[int]) -> None:
    """Play `rounds` rounds; `ports` are the members' own in a mesh, else empty."""
    agreement = read_agreement(folder / "agreement.toml")
    keys = identity.load(folder / name / f"{name}.key")
    data = dataset.read(folder / name / "model.npz", agreement)
    index, K = agreement.position(name), len(agreement.members)
    problem = Subproblem(data, agreement.share[index] * agreement.capacity)
    noise = DiscreteGaussian()
    publics = [m.signing_key for m in agreement.members]
    context: zmq.Context[Any] = zmq.Context()
    options = socket_options(agreement)

    def socket(kind: int, server_key: str = "") -> zmq.Socket[bytes]:
        made: zmq.Socket[bytes] = context.socket(kind)
        for option, value in options.items():
            setattr(made, option, value)
        made.curve_secretkey, made.curve_publickey = keys.transport_secret, keys.transport_key
        if server_key:
            made.curve_serverkey = server_key.encode()
        else:
            made.curve_server = True
        return made

    if ports:
        out = socket(zmq.PUB)
        out.bind(f"tcp://127.0.0.1:{ports[index]}")
        ears = [
            (socket(zmq.SUB, m.transport_key), f"tcp://127.0.0.1:{port}")
            for m, port in zip(agreement.members, ports, strict=True)
            if m.name != name
        ]
    else:
        transport = agreement.transport
        out = socket(zmq.PUB, transport.coordinator_key)
        out.connect(address(transport.coordinator))
        ears = [(socket(zmq.SUB, transport.coordinator_key), address(transport.coordinator, 1))]
    poller = zmq.Poller()
    for ear, place in ears:
        ear.subscribe(b"")
        ear.connect(place)
        poller.register(ear, zmq.POLLIN)

    log = os.open(folder / name / "bare.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    padding = bytes(150)  # the payload of a release is about as long
    scales = np.full(len(agreement.resources), 8.0 * TICKS)
    inbox: dict[int, dict[int, bytes]] = {}
    sent: list[bytes] = []
    prices = np.zeros(len(agreement.resources))
    began = 0.0
    for t in range(-1, rounds):  # round -1 is the greeting: everybody connects and is heard
        if t == 1:
            began = time.perf_counter()
        answer = problem.answer(prices)
        demand = np.zeros_like(prices) if answer is None else answer.demand
        ticks = np.rint(demand / agreement.capacity * TICKS).astype(np.int64)
        noisy = noise.add(ticks, scales, member=name, round=t)
        payload = (t + 1).to_bytes(4, "big") + index.to_bytes(4, "big") + noisy.tobytes() + padding
        signed = crypto_sign(payload, keys.signing_secret)
        os.write(log, signed)
        os.fdatasync(log)
        sent = [*sent[-1:], signed]
        out.send(signed)
        box = inbox.setdefault(t, {})
        box[index] = noisy.tobytes()
        while len(box) < K:
            ready = poller.poll(100 if t > 0 else 20)
            if not ready:
                for message in sent:
                    out.send(message)
            for ear, _ in ready:
                while True:
                    try:
                        message = ear.recv(zmq.NOBLOCK)
                    except zmq.Again:
                        break
                    when = int.from_bytes(message[64:68], "big") - 1
                    who = int.from_bytes(message[68:72], "big")
                    if when < t or who in inbox.setdefault(when, {}):
                        continue
                    crypto_sign_open(message, publics[who])
                    inbox[when][who] = message[72 : 72 + 8 * len(prices)]
        total = np.zeros(len(prices), dtype=np.int64)
        for numbers in inbox.pop(t).values():
            total += np.frombuffer(numbers, dtype=np.int64)
        excess = (total - TICKS) / TICKS
        prices = np.maximum(0.0, prices + 0.001 * np.clip(excess, -100, 100))
    seconds = time.perf_counter() - began
    print(json.dumps({"rounds_per_second": (rounds - 1) / seconds}), flush=True)
    deadline = time.monotonic() + 1.0  # the last messages must leave, and late ones be answered
    while time.monotonic() < deadline:
        if poller.poll(50):
            for ear, _ in ears:
                while ear.poll(0):
                    ear.recv()
        for message in sent:
            out.send(message)
    context.destroy(linger=200)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4]))
