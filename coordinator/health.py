"""`coordinator health`: asks a coordinator on this machine whether it works.

Never here: anything that changes the session. The coordinator does not count the question.
"""

import argparse

from coordinator.keys import own_secret
from protocol.agreement.address import listening, needs_ipv6
from protocol.errors import Unavailable
from protocol.runtime.files import read_agreement


def check_health(options: argparse.Namespace) -> None:
    """Raise `Unavailable` unless the coordinator with this key answers.

    A relay answers a publisher with its subscription, a rendezvous a query with addresses. Both
    answer only while their loop runs.
    """
    import zmq

    from coordinator.rendezvous import QUERY
    from protocol.runtime.sockets import require_network, socket_options

    agreement = read_agreement(options.agreement)
    secret = own_secret(options, agreement)
    require_network(agreement)
    mesh = agreement.transport.topology == "mesh"
    base = listening(options.listen or agreement.transport.coordinator)
    host, port = base.removeprefix("tcp://").rsplit(":", 1)
    if not options.listen or host in ("*", "[::]"):
        host = "127.0.0.1"
    milliseconds = int(options.seconds * 1000.0)
    with zmq.Context() as context, context.socket(zmq.DEALER if mesh else zmq.XPUB) as client:
        for name, value in socket_options(agreement).items():
            setattr(client, name, value)
        client.curve_publickey, client.curve_secretkey = zmq.curve_public(secret), secret
        client.curve_serverkey = agreement.transport.coordinator_key.encode()
        client.sndtimeo = milliseconds
        client.ipv6 = needs_ipv6(f"tcp://{host}:{port}")
        client.connect(f"tcp://{host}:{port}")
        try:
            if mesh:
                client.send(QUERY)
            answered = client.poll(milliseconds)
        except zmq.Again:
            answered = 0
    if not answered:
        raise Unavailable(
            f"no coordinator answers at tcp://{host}:{port} within {options.seconds:g} s; start "
            "`coordinator serve`, or give the same --listen as there"
        )
    print("the coordinator answers")
