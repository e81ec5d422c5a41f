"""Asks a coordinator on this machine whether it works.

Never here: anything that changes the session. The coordinator does not count the question.
"""

import zmq

from coordinator.rendezvous import QUERY
from protocol.agreement.address import listening, needs_ipv6
from protocol.agreement.model import Agreement
from protocol.errors import Unavailable
from protocol.runtime.sockets import require_network, socket_options


def check_health(
    agreement: Agreement, secret: bytes, *, listen: str | None, seconds: float
) -> None:
    """Raise `Unavailable` unless the coordinator with this key answers on this machine.

    A relay answers a publisher with its subscription, a rendezvous a query with addresses. Both
    answer only while their loop runs.
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
                client.send(QUERY)
            answered = client.poll(int(seconds * 1000.0))
        except zmq.Again:
            answered = 0
    if not answered:
        raise Unavailable(f"no coordinator answers at tcp://{host}:{port} within {seconds:g} s")
