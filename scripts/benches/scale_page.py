"""SCALE.md: what `scripts/bench scale` measured, and what follows for a thousand parties and more.

Numbers come from the figures alone. What a party computes at those sizes is measured; what
the network would take is a line or a parabola through real sessions, and said to be.
"""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from protocol.transport import QUEUE
from protocol.wire import HARD_LIMIT
from scripts.benches.instruments.fit import Line, line
from scripts.benches.scale import curves

GIGABIT = 125e6
"""Bytes a second of the link that every machine is given on paper."""

OPEN_FILES = 1_024
"""What many systems allow a process unless told otherwise."""

SOCKETS, SOCKETS_PER_PEER = 1_023, 3
"""libzmq's limit for a process, and what a peer of a mesh takes: to hear, and to see trouble."""

ECHO_BYTES = 28.0
"""Beside the release itself, a release takes so much more in the evidence of a halt."""

ROUNDS = 150


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
        """Bytes of a release on the wire."""
        return float(self.alone["release_bytes"] + self.network.framing)

    @property
    def down(self) -> float:
        return self.message * self.parties

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


def seconds(value: float) -> str:
    for limit, unit, name in ((1e-3, 1e-6, "µs"), (1.0, 1e-3, "ms"), (120.0, 1.0, "s")):
        if value < limit:
            return f"{value / unit:.3g} {name}"
    return f"{value / 60:.3g} min" if value < 7_200 else f"{value / 3_600:,.3g} h"


def size(value: float) -> str:
    for unit, name in ((1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB")):
        if value < 1e3 * unit:
            return f"{value / unit:.3g} {name}"
    return f"{value / 1e12:,.3g} TB"


def page(figures: dict[str, Any]) -> str:
    """The whole page."""
    beyond = cases(figures)
    parts = [_HEAD, _growth(figures), _PICTURE, _lasting(figures["long"])]
    if beyond:
        parts += [_BEYOND, _beyond(beyond), _breaks(figures, beyond), _REMEDIES]
    return "\n\n".join(part.strip() for part in parts) + "\n"


_HEAD = """
# How it scales

Written by `scripts/bench scale`; times are of the machine it ran on, exponents and ratios are
what to take away. What a party computes is measured with one real party (session, gate, solver,
noise, signatures, ledger) among peers that are only keys; whole processes, the coordinator
and memory are measured with real sessions over loopback.
"""

_PICTURE = "![what a round costs as each thing grows](scale/growth.png)"

_BEYOND = """
## Beyond this machine

What a party computes is measured at each of these sizes, too. *Hearing* is the rest of a party
process (ZeroMQ, decryption, the loop) along a line in K; the relay's CPU is a parabola in K
through real sessions; bytes are the size of a message on the sockets times the number of
messages. Both lines end far left of these columns: take them for the order of magnitude. Every
process is given a core and a link of 1 Gbit/s of its own.
"""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _growth(figures: dict[str, Any]) -> str:
    rows = []
    for title, x, _ in curves(figures):
        fit = figures["exponents"].get(title)
        if fit:
            whole, half = fit["all"], fit["upper"]
            rows.append(
                [
                    title,
                    f"{x[0]:,.0f} to {x[-1]:,.0f}",
                    f"{whole['exponent']:.2f} ({whole['low']:.2f} to {whole['high']:.2f})",
                    f"{half['exponent']:.2f} ({half['low']:.2f} to {half['high']:.2f})",
                ]
            )
    words = _wrapped(
        "An exponent of 0 does not grow, 1 grows in proportion, 2 with the square; in brackets "
        "the 95 % interval of the fit. The upper half of the points shows where it leads, once "
        "what does not grow no longer hides it."
    )
    return f"{words}\n\n" + _table(["what", "range", "exponent", "of the upper half"], rows)


def _lasting(long: dict[str, Any]) -> str:
    windows = long["windows"]
    first, last = windows[0], windows[-1]
    slower = last["median_round_microseconds"] / first["median_round_microseconds"]
    text = (
        f"**Late rounds.** In {long['rounds']:,} rounds of three parties a round of the last tenth "
        f"took {slower:.2f} times as long as one of the first"
    )
    memory = [w["memory_bytes"] for w in windows if w["memory_bytes"] is not None]
    if len(memory) >= 4:
        begin, middle, end = memory[0], memory[len(memory) // 2], memory[-1]
        text += (
            f"; a party held {size(begin)} after the first tenth, {size(middle)} half way (the "
            f"page cache of the ledger fills) and {size(end)} at the end"
        )
    return _wrapped(text + ".")


def _beyond(beyond: list[Case]) -> str:
    def row(title: str, told: Callable[[Case], str]) -> list[str]:
        return [title, *(told(case) for case in beyond)]

    def greeting(case: Case) -> str:
        taken = case.alone["greeting_seconds"]
        return "not measured" if taken is None else seconds(taken)

    rows = [
        row("a release on the wire", lambda c: size(c.message)),
        row("a party computes, a round", lambda c: seconds(c.computing)),
        row("and hears", lambda c: seconds(c.hearing)),
        row("a party receives, a round", lambda c: size(c.down)),
        row("the relay sends, a round", lambda c: size(c.fan_out)),
        row("the relay's CPU, a round", lambda c: seconds(c.relaying)),
        row("a round takes at least", lambda c: seconds(c.slowest[1])),
        row("because of", lambda c: c.slowest[0]),
        row(f"{ROUNDS} rounds", lambda c: seconds(ROUNDS * c.slowest[1])),
        row("a round in a mesh, were there sockets enough", lambda c: seconds(c.meshed)),
        row("the ledger grows, a round", lambda c: size(c.alone["ledger_bytes_per_round"])),
        row(f"and in {ROUNDS} rounds", lambda c: size(ROUNDS * c.alone["ledger_bytes_per_round"])),
        row("memory of a party", lambda c: size(c.alone["memory_bytes"] or 0.0)),
        row("the agreement's file", lambda c: size(c.alone["agreement_bytes"])),
        row("to read it", lambda c: seconds(c.alone["agreement_seconds"])),
        row("a hello", lambda c: size(c.alone["hello_bytes"])),
        row("reading one hello of everybody", greeting),
        row("one hello of everybody, out of the relay", lambda c: size(c.greeting_bytes)),
    ]
    return _table(["", *(case.name for case in beyond)], rows)


def _breaks(figures: dict[str, Any], beyond: list[Case]) -> str:
    first, most = beyond[0], max(beyond, key=lambda c: c.parties)
    many = max(beyond, key=lambda c: int(c.alone["resources"]))
    told = [
        _greeting(first, most),
        _relay(first),
        _files(Network(figures)),
        _queues(),
        _verification(first, most),
        _noise(many),
        _evidence(many),
    ]
    numbered = (f"{i}. {text}" for i, text in enumerate(filter(None, told), 1))
    return "## What breaks first\n\n" + "\n".join(_wrapped(text, "   ") for text in numbered)


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, width=100, subsequent_indent=indent, break_on_hyphens=False)


def _part(case: Case, part: str) -> str:
    return f"{case.alone['parts'][part] / case.alone['cpu_microseconds']:.0%}"


def _greeting(first: Case, most: Case) -> str:
    return (
        f"**The greeting.** A hello echoes every member, so that it is "
        f"{size(first.alone['hello_bytes'])} long at {first.name}, and everybody's must reach "
        f"everybody: {size(first.greeting_bytes)} out of the relay for one hello each, where a "
        f"round of releases is {size(first.fan_out)}. This grows with the cube of K, and at "
        f"{most.name} it is {size(most.greeting_bytes)}: such a session never begins."
    )


def _relay(first: Case) -> str:
    return (
        f"**The relay.** It encrypts every release anew for every party. At {first.name} a round "
        f"takes it {seconds(first.relaying)} of CPU and {seconds(first.fan_out / GIGABIT)} of a "
        f"gigabit link, while a party is done in {seconds(first.computing + first.hearing)}."
    )


def _queues() -> str:
    return (
        f"**Queues.** A socket holds {QUEUE:,} messages. With more parties than that, a round that "
        "comes in at once no longer fits; what is dropped is sent again after a wait, by everybody "
        "to everybody."
    )


def _verification(first: Case, most: Case) -> str:
    return (
        f"**Verification**: {_part(first, 'verify')} of what a party computes at {first.name}, in "
        f"proportion to K; {seconds(most.alone['parts']['verify'] * 1e-6)} a round at {most.name}."
    )


def _noise(many: Case) -> str:
    return (
        f"**Noise**, where resources are many: {_part(many, 'noise')} of what a party computes at "
        f"{many.name}. It is drawn while the others are awaited, so that it shows only where they "
        "are faster."
    )


def _evidence(many: Case) -> str:
    parties = HARD_LIMIT / (many.alone["release_bytes"] + ECHO_BYTES)
    return (
        f"**The largest message.** A halt shows a whole round as evidence and is cut off at "
        f"{size(HARD_LIMIT)}. At m = {many.alone['resources']:,} that is {parties:,.0f} parties: "
        "beyond, who lied can no longer be shown in one message."
    )


def _files(network: Network) -> str:
    relay = network.parties_for_files("processes", "coordinator_open_files")
    mesh = network.parties_for_files("meshes", "party_open_files")
    if relay is None or mesh is None:
        return ""
    return (
        f"**Open files.** With the usual {OPEN_FILES:,} the coordinator of a relay is full at "
        f"{relay:,.0f} parties and a party of a mesh at {mesh:,.0f}: sooner than all else here, "
        f"and the only limit that a setting (`ulimit -n`) moves. A party of a mesh then meets "
        f"libzmq's own: {SOCKETS:,} sockets in a process, {SOCKETS_PER_PEER} for each peer."
    )


_REMEDIES = """
## What to do about it

- **Echo a digest, not a list.** A hello that carries one hash over all nonces heard, and the list
  only for whom it does not match, makes the greeting as small as a round: K² instead of K³.
- **Batch at the relay.** The relay could wait for all K releases of a round and send them as one
  message: K messages out instead of K², the same bytes. A party still verifies every signature,
  so that nobody has to trust the relay more than now.
- **Relays in a tree.** With a fan-out of √K no relay sends more than K·√K messages a round; the
  messages are signed end to end, so that a relay needs no more trust for passing on another's.
- **Verify in parallel or in batches.** Signatures of one round are independent: a second core
  halves the time, and batch verification of Ed25519 about does so again. All must then use the
  same rule for odd keys, or parties could judge one signature differently.
- **Pooled releases.** Masked pairwise so that only the sum can be read, releases can be added up
  on the way, in a tree: a party then receives m numbers, not K·m, and the noise of the sum falls.
- **Fewer rounds.** The budget is shared by all rounds: with many parties, where the noise of the
  sum is small beside the capacity, fewer and better rounds cost less of everything on this page.
- **Groups.** A thousand companies rarely share the same five capacities. Sessions of those who do,
  side by side, need none of the above.
- Raise `ulimit -n` on the coordinator before anything else: it is free.
"""
