"""Counts the bytes between the parties and their relay: a forwarder in front of the coordinator.

`python -m scripts.lab.bench.measure.traffic PORT TARGET` forwards the two ports from PORT on to
those from TARGET on, and when told to end prints how many bytes went up to the relay and down
from it, encryption and framing included, and how many messages of which length came out of it.
"""

import asyncio
import json
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from protocol.runtime.files import read_agreement
from protocol.wire.codec import release_bytes
from scripts.lab.bench.measure.sessions import prepared, session
from scripts.lab.common.local_session import coordinator_command, party_command
from scripts.lab.common.ports import reserve

COUNTED = {"up": 0, "down": 0}
MESSAGES: Counter[int] = Counter()

_GREETING_BYTES = 64  # of a connection (ZMTP 3)
_LONG, _COMMAND = 0x02, 0x04
_SEALED_BYTES = 33  # CURVE puts so much around a message


class Frames:
    """The messages in one direction of a connection, by length, without a look inside."""

    def __init__(self) -> None:
        self._waiting = bytearray()
        self._skip = _GREETING_BYTES

    def count(self, data: bytes) -> None:
        self._waiting += data
        while True:
            skipped = min(self._skip, len(self._waiting))
            del self._waiting[:skipped]
            self._skip -= skipped
            chain_hash = 9 if self._waiting and self._waiting[0] & _LONG else 2
            if self._skip or len(self._waiting) < chain_hash:
                return
            self._skip = chain_hash + int.from_bytes(self._waiting[1:chain_hash], "big")
            if not self._waiting[0] & _COMMAND:
                MESSAGES[self._skip - chain_hash - _SEALED_BYTES] += 1


async def _pour(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, way: str, frames: Frames | None = None
) -> None:
    while data := await source.read(1 << 16):
        COUNTED[way] += len(data)
        if frames is not None:
            frames.count(data)
        sink.write(data)
        await sink.drain()
    sink.close()


async def _forward(port: int, target: int, stopped: asyncio.Event, *, publishes: bool) -> None:
    async def connected(above: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        try:
            below, forth = await asyncio.open_connection("127.0.0.1", target)
            down = _pour(below, back, "down", Frames() if publishes else None)
            await asyncio.gather(_pour(above, forth, "up"), down)
        except OSError:  # the coordinator is not there yet, or no longer: the party asks again
            back.close()

    async with await asyncio.start_server(connected, "127.0.0.1", port):
        await stopped.wait()


async def _serve(port: int, target: int) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await asyncio.gather(
        *(_forward(port + k, target + k, stopped, publishes=k == 1) for k in (0, 1))
    )


def relayed(parties: int, rounds: int, seed: int) -> dict[str, Any]:
    """The bytes of a whole session over the relay, and its messages by length."""
    options = session(parties, rounds, "relay", seed)
    with tempfile.TemporaryDirectory(prefix="sotto-bench-") as name:
        folder = Path(name)
        with prepared(folder, options) as cast:
            agreement = read_agreement(folder / "agreement.toml")
            port, target = agreement.transport.coordinator.rpartition(":")[2], str(reserve(2))
            counting = ["-m", "scripts.lab.bench.measure.traffic", port, target]
            cast.launch("counter", [sys.executable, *counting])
            listen = ["--listen", f"tcp://127.0.0.1:{target}"]
            cast.launch("coordinator", [*coordinator_command(folder), *listen])
            for party in cast.names:
                cast.launch(party, party_command(folder, party, options, log="text"))
            cast.done(*cast.names)
            cast.stop("coordinator")
            cast.stop("counter")
            counted: dict[str, Any] = json.loads(cast.said("counter"))
            lengths = {int(length): count for length, count in counted["messages"].items()}
            return counted | {"messages": lengths, "release_bytes": release_bytes(agreement)}


if __name__ == "__main__":
    try:
        asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2])))
    finally:
        print(json.dumps({**COUNTED, "messages": MESSAGES}))
