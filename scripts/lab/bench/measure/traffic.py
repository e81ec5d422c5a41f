"""Counts the bytes between the parties and the relay, with a forwarder before the coordinator.

`python -m scripts.lab.bench.measure.traffic PORT TARGET` forwards the two ports from PORT on to
those from TARGET on. On SIGTERM it prints the bytes in each direction, with encryption and framing,
and how many messages of which length the relay sent.
"""

import argparse
import asyncio
import json
import math
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from protocol.runtime.files import read_agreement
from protocol.wire.codec import release_bytes
from scripts.lab.bench.measure.sessions import prepared
from scripts.lab.common.instances import Instance
from scripts.lab.common.local_session import coordinator_command, party_command
from scripts.lab.common.ports import reserve

COUNTED = {"up": 0, "down": 0}
MESSAGES: Counter[int] = Counter()

_CONNECTION_BYTES = 64  # the greeting of a connection (ZMTP 3)
_LONG, _COMMAND = 0x02, 0x04
_SEALED_BYTES = 33  # added to a message by CURVE


class Frames:
    """Counts the messages in one direction of a connection by length, without reading them."""

    def __init__(self) -> None:
        self._waiting = bytearray()
        self._skip = _CONNECTION_BYTES

    def count(self, data: bytes) -> None:
        self._waiting += data
        while True:
            skipped = min(self._skip, len(self._waiting))
            del self._waiting[:skipped]
            self._skip -= skipped
            header = 9 if self._waiting and self._waiting[0] & _LONG else 2
            if self._skip or len(self._waiting) < header:
                return
            self._skip = header + int.from_bytes(self._waiting[1:header], "big")
            if not self._waiting[0] & _COMMAND:
                MESSAGES[self._skip - header - _SEALED_BYTES] += 1


async def _copy(
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
            down = _copy(below, back, "down", Frames() if publishes else None)
            await asyncio.gather(_copy(above, forth, "up"), down)
        except OSError:  # the coordinator does not listen: the party will connect again
            back.close()

    async with await asyncio.start_server(connected, "127.0.0.1", port):
        await stopped.wait()


async def _serve(port: int, target: int) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await asyncio.gather(
        *(_forward(port + k, target + k, stopped, publishes=k == 1) for k in (0, 1))
    )


def earned(result: dict[str, Any]) -> float:
    """What a company earns within its quota; NaN if it has no plan."""
    utility = result["private"]["utility_within_quota"]
    return math.nan if utility is None else float(utility)


def relayed(options: argparse.Namespace, instance: Instance | None = None) -> dict[str, Any]:
    """A session over the relay: its bytes, its messages by length, seconds from launch to end,
    and what all companies earn."""
    with tempfile.TemporaryDirectory(prefix="sotto-bench-") as name:
        folder = Path(name)
        with prepared(folder, options, instance) as running:
            agreement = read_agreement(folder / "agreement.toml")
            port, target = agreement.transport.coordinator.rpartition(":")[2], str(reserve(2))
            counting = ["-m", "scripts.lab.bench.measure.traffic", port, target]
            running.launch("counter", [sys.executable, *counting])
            launched = time.monotonic()
            listen = ["--listen", f"tcp://127.0.0.1:{target}"]
            running.launch("coordinator", [*coordinator_command(folder), *listen])
            for party in running.names:
                running.launch(party, party_command(folder, party, options, log="text"))
            running.done(*running.names)
            seconds = time.monotonic() - launched
            running.stop("coordinator")
            running.stop("counter")
            counts: dict[str, Any] = json.loads(running.stdout("counter"))
            lengths = {int(length): count for length, count in counts["messages"].items()}
            return counts | {
                "messages": lengths,
                "release_bytes": release_bytes(agreement),
                "seconds": seconds,
                "utility": sum(earned(running.result(party)) for party in running.names),
            }


if __name__ == "__main__":
    try:
        asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2])))
    finally:
        print(json.dumps({**COUNTED, "messages": MESSAGES}))
