"""The relay: passes each member's valid messages on to all members.

Members need not trust it. It reads what every member reads, and cannot alter what they signed.
It can be silent or slow; then the members report it. It verifies every message, so that one
member cannot flood the others. They verify again. Never here: what a message means.
"""

import math
import time

import zmq

from coordinator.batching import Batching
from coordinator.collector import Collected
from coordinator.listener import Listener
from coordinator.observer import LOOK_SECONDS, SessionObserver
from coordinator.progress import Say
from protocol.agreement.model import Agreement
from protocol.runtime.sockets import QUEUE
from protocol.wire.framing import Batches
from protocol.wire.messages import Signed

TURN_SECONDS = 0.005
"""After this time the relay passes messages on, even if more are waiting."""

TELL_SECONDS = (0.5, 5.0)
"""Least and longest time between two frames that tell parties who is here."""


class Relay:
    """Receives on one port, and publishes to all members on the port above."""

    def __init__(
        self, agreement: Agreement, listener: Listener, observer: SessionObserver, say: Say
    ) -> None:
        self._listener = listener
        self._observer = observer
        self._admission = observer.admission
        #: Which messages wait for others of their exchange, and how to pack them into one frame.
        self._batching = Batching(agreement)
        self._frames = Batches(agreement)
        #: When parties were last told who is here, and what they were told.
        self._told_at = float("-inf")
        self._told: tuple[tuple[str, ...], ...] = ()
        self._incoming = listener.socket(zmq.XSUB)
        self._outgoing = listener.socket(zmq.XPUB, 1)
        self._incoming.send(b"\1")  # subscribe to everything; members' subscriptions end here
        _, _, port = listener.address.rpartition(":")
        say(f"relaying {agreement.session!r} at {listener.address} and at port {int(port) + 1}")

    def run(self) -> None:
        """Pass messages on until interrupted, or until the session is over."""
        self._listener.start()
        poller = zmq.Poller()
        self._listener.register(poller, self._incoming, self._outgoing)
        while True:  # not zmq.proxy, which misses signals while it is busy
            pause = self._pause_milliseconds()
            ready = dict(poller.poll(pause))
            self._admission.looked(time.monotonic(), meant=pause / 1000.0)
            if self._incoming in ready:
                self._take_turn()
            if self._outgoing in ready:
                self._discard_subscriptions()
            now = time.monotonic()
            self._observer.lost(self._listener.gone(), now)
            self._publish(self._batching.due(now))
            self._tell_presence(now)
            if not self._observer.continues(now):
                return

    def _pause_milliseconds(self) -> int:
        """How long to wait for messages, at most until held messages are due."""
        seconds = LOOK_SECONDS
        if self._batching.deadline is not None:
            seconds = min(seconds, max(0.0, self._batching.deadline - time.monotonic()))
        return math.ceil(seconds * 1000.0)

    def _take_turn(self) -> None:
        """Read what is waiting, and pass on what is valid and need not wait for its batch.

        ZeroMQ gives each connection its turn. The time is bounded, so that a flood from one
        connection does not delay messages from others.
        """
        now = time.monotonic()
        passing: list[bytes] = []
        try:
            while time.monotonic() < now + TURN_SECONDS:
                frame = self._listener.receive(self._incoming)
                owner = self._listener.owner(frame)
                if owner is None:
                    continue  # our own health check
                for signed, collected in self._read(frame, owner, now):
                    passing += self._batching.add(signed, owner, collected, now)
        except zmq.Again:
            pass
        self._publish(passing)

    def _read(self, frame: zmq.Frame, owner: str, now: float) -> list[tuple[Signed, Collected]]:
        """Return the verified messages in a frame from the connection of `owner`.

        No message of a session has several frames.
        """
        data = frame.bytes
        messages = [] if frame.more else self._frames.messages(data)
        if not messages and self._admission.admits(owner, data, now):
            self._admission.invalid(owner, data, now)
        admitted = (data for data in messages if self._admission.admits(owner, data, now))
        read = (self._observer.read(owner, data, now) for data in admitted)
        return [received for received in read if received is not None]

    def _publish(self, messages: list[bytes]) -> None:
        for frame in self._frames.frames(messages):
            self._outgoing.send(frame)

    def _tell_presence(self, now: float) -> None:
        """Tell parties who is here: soon after a change, and from time to time.

        It is for their operators. It has no signature, and parties decide nothing by it.
        """
        presence, (soon, often) = self._observer.progress.presence, TELL_SECONDS
        if now >= self._told_at + (often if presence.snapshot == self._told else soon):
            self._told_at, self._told = now, presence.snapshot
            self._outgoing.send(presence.packed(now))

    def _discard_subscriptions(self) -> None:
        try:
            for _ in range(QUEUE):
                self._outgoing.recv(zmq.NOBLOCK)
        except zmq.Again:
            return
