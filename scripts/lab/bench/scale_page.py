"""SCALE.md: the words of `scale_page.md`, filled in with what `scripts/bench scale` measured.

Here are the numbers and how they are written, there is all that is said about them. A line
there whose numbers were not measured is left out.
"""

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from protocol.runtime.sockets import QUEUE
from protocol.wire.codec import HARD_LIMIT
from scripts.lab.bench.measure.extrapolate import GIGABIT, OPEN_FILES, Case, Network, cases
from scripts.lab.bench.measure.fit import Power
from scripts.lab.bench.measure.growth import curves

WORDS = Path(__file__).with_suffix(".md")
SOCKETS, SOCKETS_PER_PEER = 1_023, 3
"""libzmq's limit for a process, and what a peer of a mesh takes: to hear, and to see trouble."""

ROUNDS = 150


def page(figures: dict[str, Any]) -> str:
    """The whole page; of sizes beyond this machine only if some were measured."""
    beyond = cases(figures)
    words = WORDS.read_text()
    if not beyond:
        words = words.partition("\n## ")[0]
    told = {**growth(figures), **lasting(figures["long"]), **crowded(figures["crowds"])}
    return filled(words, {**told, **far(figures, beyond)})


def filled(words: str, values: Mapping[str, str]) -> str:
    """The words with the values in their places: one line of words is one paragraph or item."""
    lines, item = [], 0
    for line in words.strip().splitlines():
        try:
            text = line.format_map(values)
        except KeyError:
            continue
        marker = re.match(r"(?:1\.|-) |", text)
        if text.startswith("1. "):
            item += 1
            text = f"{item}{text[1:]}"
        if not text.startswith(("|", "!", "#")):
            indent = " " * len(marker[0] if marker else "")
            text = textwrap.fill(text, 100, subsequent_indent=indent, break_on_hyphens=False)
        lines.append(text)
    return "\n".join(lines) + "\n"


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


def table(chain_hash: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [chain_hash, ["---"] + ["---:"] * (len(chain_hash) - 1), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def growth(figures: dict[str, Any]) -> dict[str, str]:
    rows = []
    for title, x, _ in curves(figures):
        fit = figures["exponents"].get(title)
        if fit:
            exponents = (Power(**fit[points]).shown() for points in ("all", "upper"))
            rows.append([title, f"{x[0]:,.0f} to {x[-1]:,.0f}", *exponents])
    return {"growth": table(["what", "range", "exponent", "of the upper half"], rows)}


def lasting(long: dict[str, Any]) -> dict[str, str]:
    """Late rounds beside early ones."""
    windows = long["windows"]
    first, last = (windows[k]["median_round_microseconds"] for k in (0, -1))
    told = {"long_rounds": f"{long['rounds']:,}", "slower": f"{last / first:.2f}"}
    memory = [w["memory_bytes"] for w in windows if w["memory_bytes"] is not None]
    if len(memory) >= 4:
        places = {"early": 0, "middle": len(memory) // 2, "late": -1}
        told |= {f"{name}_memory": size(memory[place]) for name, place in places.items()}
    return told


def crowded(crowds: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The largest session that was played."""
    if not crowds:
        return {}
    most = max(crowds, key=lambda figures: int(figures["parties"]))
    heads = int(most["heads"])
    return {
        "crowd_parties": f"{most['parties']:,}",
        "crowd_finished": "All" if most["finished"] == most["parties"] else f"{most['finished']:,}",
        "crowd_rounds": f"{most['rounds']:,}",
        "crowd_heads": "one head" if heads == 1 else f"{heads} heads",
        "crowd_seconds": seconds(most["seconds"]),
        "crowd_start": seconds(most["start_seconds"]),
        "crowd_memory": size(most["memory_bytes"]),
        "crowd_each": size(most["memory_bytes"] / (most["parties"] + 1)),
    }


def far(figures: dict[str, Any], beyond: Sequence[Case]) -> dict[str, str]:
    """What is said about sizes beyond this machine."""
    if not beyond:
        return {}
    first, most = beyond[0], max(beyond, key=lambda c: c.parties)
    many = max(beyond, key=lambda c: int(c.alone["resources"]))
    return {
        "beyond": compared(beyond),
        "first": first.name,
        "most": most.name,
        "many": many.name,
        "hello": size(first.alone["hello_bytes"]),
        "greeting": size(first.greeting_bytes),
        "most_greeting": size(most.greeting_bytes),
        "fan_out": size(first.fan_out),
        "message": size(first.message),
        "down": size(first.down),
        "tree_fan_out": size(first.message * first.parties),
        "relaying": seconds(first.relaying),
        "link": seconds(first.fan_out / GIGABIT),
        "party": seconds(first.computing + first.hearing),
        "queue": f"{QUEUE:,}",
        "verify_part": f"{first.part('verify'):.0%}",
        "most_verify": seconds(most.alone["parts"]["verify"] * 1e-6),
        "noise_part": f"{many.part('noise'):.0%}",
        "largest": size(HARD_LIMIT),
        "resources": f"{many.alone['resources']:,}",
        "evidence": f"{many.parties_in_evidence:,.0f}",
        **files(Network(figures)),
    }


def files(network: Network) -> dict[str, str]:
    """When a process has too many files open, if that was looked at."""
    relay = network.parties_for_files("processes", "coordinator_open_files")
    mesh = network.parties_for_files("meshes", "party_open_files")
    if relay is None or mesh is None:
        return {}
    return {
        "files": f"{OPEN_FILES:,}",
        "relay_parties": f"{relay:,.0f}",
        "mesh_parties": f"{mesh:,.0f}",
        "sockets": f"{SOCKETS:,}",
        "sockets_per_peer": str(SOCKETS_PER_PEER),
    }


def compared(beyond: Sequence[Case]) -> str:
    """All sizes side by side."""

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
    return table(["", *(case.name for case in beyond)], rows)
