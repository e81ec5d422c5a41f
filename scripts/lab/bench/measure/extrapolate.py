"""Sizes beyond this machine: what one party was measured to compute, and the network on paper.

What the network would take is a line or a parabola through real sessions; nothing here is
measured, and nothing is worded.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from protocol.wire.codec import HARD_LIMIT
from scripts.lab.bench.measure.fit import Line, line

GIGABIT = 125e6
"""Bytes a second of the link that every machine is given on paper."""

OPEN_FILES = 1_024
"""What many systems allow a process unless told otherwise."""

SHOWN_BYTES = 28.0
"""Beside the release itself, a release takes so much more in the evidence of a halt."""

BATCHED_BYTES = 4.0
"""And so much more in a batch of the relay."""


@dataclass(frozen=True)
class Network:
    """What real sessions say about sending, receiving and relaying."""

    figures: dict[str, Any]

    @cached_property
    def party(self) -> Line:
        """CPU seconds of a party process that are not computing: a round, by messages heard."""
        computed = {row["parties"]: row["cpu_microseconds"] for row in self.figures["parties"]}
        pairs = [
            (row["parties"], (row["party_cpu_microseconds"] - computed[row["parties"]]) * 1e-6)
            for row in self.figures["processes"]
            if row["parties"] in computed
        ]
        kept = [(x, y) for x, y in pairs if y > 0.0]
        return _through(kept)

    @cached_property
    def relay(self) -> Line:
        """CPU seconds of the coordinator for each message it takes, by parties it goes to."""
        return _through(
            [
                (row["parties"], row["coordinator_cpu_microseconds"] * 1e-6 / row["parties"])
                for row in self.figures["processes"]
                if row["coordinator_cpu_microseconds"] > 0.0
            ]
        )

    @cached_property
    def byte_seconds(self) -> float:
        """CPU of one more byte in an encrypted message, at one end of it."""
        curve = {int(size): cost for size, cost in self.figures["curve_microseconds"].items()}
        small, large = min(curve), max(curve)
        return max(0.0, float(curve[large] - curve[small]) / (large - small) * 1e-6 / 2.0)

    @cached_property
    def framing(self) -> float:
        """Bytes that encryption and ZeroMQ put around a message, from the sockets."""
        ups = [row["up"] for row in self.figures["bytes"]]
        return float(sum(ups) / len(ups) - self.figures["parties"][0]["release_bytes"])

    def parties_for_files(self, rows: str, key: str) -> float | None:
        """With how many parties a process holds too many files open."""
        known = [(r["parties"], r[key]) for r in self.figures[rows] if r[key] is not None]
        if len(known) < 2:
            return None
        fit = line([x for x, _ in known], [y for _, y in known])
        return (OPEN_FILES - fit.fixed) / fit.each


def _through(points: list[tuple[float, float]]) -> Line:
    if not points:
        return Line(0.0, 0.0)
    if len(points) == 1:
        return Line(0.0, points[0][1] / points[0][0])
    return line([x for x, _ in points], [y for _, y in points])


@dataclass(frozen=True)
class Case:
    """One size beyond this machine: what one party was measured to compute, and the network."""

    alone: dict[str, Any]
    network: Network
    small_release: int

    @property
    def parties(self) -> int:
        return int(self.alone["parties"])

    @property
    def name(self) -> str:
        return f"K = {self.parties:,}, m = {self.alone['resources']:,}"

    @property
    def computing(self) -> float:
        return float(self.alone["cpu_microseconds"]) * 1e-6

    @property
    def _longer(self) -> float:
        more = int(self.alone["release_bytes"]) - self.small_release
        return more * self.network.byte_seconds

    @property
    def hearing(self) -> float:
        return self.network.party.at(self.parties) + self.parties * self._longer

    @property
    def message(self) -> float:
        """Bytes of a release on its way to the relay."""
        return float(self.alone["release_bytes"] + self.network.framing)

    @property
    def down(self) -> float:
        """Bytes of a round on their way to a party, as one message."""
        return self.network.framing + self.parties * float(
            self.alone["release_bytes"] + BATCHED_BYTES
        )

    @property
    def fan_out(self) -> float:
        return self.down * self.parties

    @property
    def relaying(self) -> float:
        each = self.network.relay.at(self.parties) + self.parties * self._longer
        return self.parties * each

    @property
    def bounds(self) -> dict[str, float]:
        """The least seconds of a round that each of these allows, on machines of their own."""
        return {
            "a party's CPU": self.computing + self.hearing,
            "a party's link": self.down / GIGABIT,
            "the relay's CPU": self.relaying,
            "the relay's link": self.fan_out / GIGABIT,
        }

    @property
    def slowest(self) -> tuple[str, float]:
        return max(self.bounds.items(), key=lambda item: item[1])

    @property
    def meshed(self) -> float:
        """The least seconds of a round in a mesh, where everybody encrypts for everybody."""
        sending = self.network.relay.at(self.parties) + self.parties * self._longer
        return max(self.computing + self.hearing + sending, self.down / GIGABIT)

    @property
    def parties_in_evidence(self) -> float:
        """With how many parties a whole round no longer fits into the largest message."""
        return HARD_LIMIT / (float(self.alone["release_bytes"]) + SHOWN_BYTES)

    def part(self, name: str) -> float:
        """How much of what a party computes one part of it is."""
        return float(self.alone["parts"][name] / self.alone["cpu_microseconds"])

    @property
    def greeting_bytes(self) -> float:
        """One hello of everybody to everybody, out of the relay."""
        return float(self.alone["hello_bytes"] + self.network.framing) * self.parties**2


def cases(figures: dict[str, Any]) -> list[Case]:
    """The sizes beyond this machine that one party was measured at."""
    network = Network(figures)
    rows = [
        *(row for row in figures["parties"] if row["parties"] >= 1_000),
        *(row for row in figures["far"] if row["resources"] < 1_000),
        *(row for row in figures["resources"] if row["resources"] >= 1_000),
        *(row for row in figures["far"] if row["resources"] >= 1_000),
    ]
    return [Case(row, network, figures["parties"][0]["release_bytes"]) for row in rows]
