"""A lock-step loop of plain pyzmq: one message from each party to each party, and nothing else.

No keys, no work, no disk, no recovery. For context in `scripts/bench rounds`: what ZeroMQ alone
takes for the bytes of a round.
"""

import json
import sys
import time
from typing import Any

import zmq


def party(index: int, rounds: int, length: int, topology: str, ports: list[int]) -> None:
    """Run `rounds` rounds. `ports` has the parties' ports in a mesh, else the relay's two."""
    context: zmq.Context[Any] = zmq.Context()
    out, subscriber = context.socket(zmq.PUB), context.socket(zmq.SUB)
    subscriber.subscribe(b"")
    if topology == "mesh":
        out.bind(f"tcp://127.0.0.1:{ports[index]}")
        for port in ports[:index] + ports[index + 1 :]:
            subscriber.connect(f"tcp://127.0.0.1:{port}")
    else:
        out.connect(f"tcp://127.0.0.1:{ports[-2]}")
        subscriber.connect(f"tcp://127.0.0.1:{ports[-1]}")
    parties = len(ports) if topology == "mesh" else len(ports) - 2
    padding = bytes(length - 8)
    sent: list[bytes] = []
    received: dict[int, set[int]] = {}
    began = 0.0
    for t in range(rounds + 1):  # round 0 closes once all are connected
        if t == 1:
            began = time.perf_counter()
        sent = [*sent[-1:], t.to_bytes(4, "big") + index.to_bytes(4, "big") + padding]
        out.send(sent[-1])
        senders = received.setdefault(t, set())
        senders.add(index)
        wait = 0.2 if t > 1 else 0.02
        due = time.monotonic() + wait
        while len(senders) < parties:
            left = due - time.monotonic()
            if left <= 0.0:
                due = time.monotonic() + wait
                for message in sent:
                    out.send(message)
            if subscriber.poll(max(0.0, left * 1e3)):
                message = subscriber.recv()
                when = int.from_bytes(message[:4], "big")
                if when >= t:
                    received.setdefault(when, set()).add(int.from_bytes(message[4:8], "big"))
        del received[t]
    print(json.dumps({"rounds_per_second": rounds / (time.perf_counter() - began)}), flush=True)
    until = time.monotonic() + 0.5
    while time.monotonic() < until:  # a peer may still wait for our last two
        for message in sent:
            out.send(message)
        time.sleep(0.05)
    context.destroy(linger=200)


def relay(ports: list[int]) -> None:
    context: zmq.Context[Any] = zmq.Context()
    incoming, outgoing = context.socket(zmq.XSUB), context.socket(zmq.XPUB)
    incoming.bind(f"tcp://127.0.0.1:{ports[-2]}")
    outgoing.bind(f"tcp://127.0.0.1:{ports[-1]}")
    zmq.proxy(incoming, outgoing)


if __name__ == "__main__":
    if sys.argv[1] == "relay":
        relay(json.loads(sys.argv[2]))
    else:
        index, rounds, length = map(int, sys.argv[2:5])
        party(index, rounds, length, sys.argv[5], json.loads(sys.argv[6]))
