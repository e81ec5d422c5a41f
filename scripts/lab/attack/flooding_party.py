"""A party that takes part in a session and floods its peers over its own connection on command.

For attacks and tests only: `python -m scripts.lab.attack.flooding_party ORDER join ...` is `party
join`. The file ORDER says what to send and how often. Without the file it only takes part.
"""

import itertools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import zmq

from party import __main__
from party.keys import Identity
from party.network import loop
from party.network.inbox import Incoming
from party.network.link import Link
from party.network.mesh_link import MeshLink
from party.network.relay_link import RelayLink
from protocol.agreement.model import Agreement
from protocol.wire.codec import REMEMBERED, claimed_key, max_message_bytes, pack
from protocol.wire.messages import HEAD_BYTES, NONCE_BYTES, Hello, Release

SLICE_SECONDS = 0.002
LOOK_SECONDS = 0.05


class Flood:
    """What one party sends besides its regular messages."""

    def __init__(self, order: Path, agreement: Agreement, identity: Identity) -> None:
        self._order = order
        self._agreement = agreement
        self._identity = identity
        self._own_key = agreement.members[agreement.place(identity.name)].signing_key
        self._remembered: list[bytes] = []
        self._messages: Iterator[list[bytes]] = iter(())
        self._rate = 0.0
        self._kind = ""
        self._look_at = self._sent_at = 0.0

    def remember(self, received: list[Incoming]) -> None:
        """Remember some valid messages of peers, to send them again.

        Its own messages, which a relay returns, are left out: they would use up its limit, and the
        session would wait for it as for a silent member.
        """
        others = [data for _, data in received if claimed_key(data) != self._own_key]
        self._remembered = (self._remembered + others)[-50:]

    def send(self, out: "zmq.Socket[bytes]") -> None:
        """Send what is due."""
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            self._obey(now)
        due = int(self._rate * (now - self._sent_at))
        if due < 1:
            return
        self._sent_at = now
        for parts in itertools.islice(self._messages, min(due, 2_000)):
            out.send_multipart(parts)

    def _obey(self, now: float) -> None:
        try:
            order: dict[str, Any] = json.loads(self._order.read_text())
        except (OSError, ValueError):
            self._rate, self._kind = 0.0, ""
            return
        if order["kind"] != self._kind:
            self._kind, self._sent_at = order["kind"], now
            self._messages = KINDS[self._kind](self)
        self._rate = float(order["rate"])

    def forged(self) -> Iterator[list[bytes]]:
        """Releases in the names of the peers, all different."""
        unsigned = [
            pack(
                Release(
                    sender=member.name,
                    agreement=self._agreement.digest,
                    round=number,
                    chain_hash=bytes(HEAD_BYTES),
                    values=(0,) * self._agreement.width,
                ),
                key=member.signing_key,
                sign=lambda _: b"",
            ).data
            for member in self._agreement.members
            if member.name != self._identity.name
            for number in range(self._agreement.rounds)[:50]
        ]
        for data in itertools.cycle(unsigned):
            yield [data + os.urandom(64)]

    def hellos(self) -> Iterator[list[bytes]]:
        """Its own signed Hellos that ask for an answer: more than any reader remembers.

        They are signed in advance, so that the flooder does not delay its own rounds.
        """
        hellos = [
            Hello(
                sender=self._identity.name,
                agreement=self._agreement.digest,
                round=0,
                chain_hash=bytes(HEAD_BYTES),
                nonce=os.urandom(NONCE_BYTES),
                wants_reply=True,
                recorded=0,
                nonce_digest=os.urandom(HEAD_BYTES),
            )
            for _ in range(10 * REMEMBERED)
        ]
        yield from itertools.cycle([self._identity.pack(hello).data] for hello in hellos)

    def again(self) -> Iterator[list[bytes]]:
        """Valid messages of peers, repeatedly."""
        for number in itertools.count():
            yield [self._remembered[number % len(self._remembered)] if self._remembered else b""]

    def mixed(self) -> Iterator[list[bytes]]:
        """Valid messages of peers and forgeries, alternately."""
        for one, other in zip(self.again(), self.forged(), strict=False):
            yield one
            yield other

    def huge(self) -> Iterator[list[bytes]]:
        """Invalid messages of the greatest length."""
        length = max_message_bytes(self._agreement) - 60
        for parts in self.forged():
            yield [parts[0] + bytes(length - len(parts[0]))]

    def empty(self) -> Iterator[list[bytes]]:
        while True:
            yield [b""]

    def parts(self) -> Iterator[list[bytes]]:
        """Messages of three frames."""
        while True:
            yield [b"part"] * 3


KINDS: dict[str, Callable[[Flood], Iterator[list[bytes]]]] = {
    "forged": Flood.forged,
    "hellos": Flood.hellos,
    "again": Flood.again,
    "mixed": Flood.mixed,
    "huge": Flood.huge,
    "empty": Flood.empty,
    "parts": Flood.parts,
}


def main() -> None:
    order = Path(sys.argv.pop(1))
    plain: Callable[..., Link] = loop._link

    def link(agreement: Agreement, identity: Identity, *more: Any) -> Link:
        connection = plain(agreement, identity, *more)
        if not isinstance(connection, RelayLink | MeshLink):
            raise TypeError("a link of another kind")
        flood, quiet, out = Flood(order, agreement, identity), connection.receive, connection._out

        def receive(seconds: float) -> list[Incoming]:
            end = time.monotonic() + seconds
            while True:
                flood.send(out)
                left = end - time.monotonic()
                received = quiet(max(0.0, min(SLICE_SECONDS, left)))
                flood.remember(received)
                if received or left <= 0.0:
                    return received

        connection.receive = receive  # type: ignore[method-assign]
        return connection

    loop._link = link  # type: ignore[assignment]
    __main__.main()


if __name__ == "__main__":
    main()
