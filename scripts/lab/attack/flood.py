"""The flood attack: can one member that sends much slow down the rounds of the others?

A session of real processes with an agreed pace. One member takes part, and floods its peers over
the same connection for some seconds. Rounds per second meanwhile are compared with those before and
after, in the same session; and the logs are searched for the members that they name.
"""

import argparse
import json
import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from protocol.agreement.schema import TOPOLOGIES
from scripts.lab.attack import page
from scripts.lab.attack.flooding_party import KINDS
from scripts.lab.bench.measure.sessions import prepared, session
from scripts.lab.common.local_session import LocalSession, party_command

RATE = 8_000.0
SECONDS, QUICK_SECONDS = 20.0, 5.0
PARTIES = 5
PACE = 0.05
ROUNDS = 100_000  # more than any run closes

ROLE = ("-m", "scripts.lab.attack.flooding_party")
"""Interpreter arguments that run the flooder."""

_COLUMNS = ("topology", "flood", "a second", "rounds/s without", "with", "with ÷ without",
            "flooder named after", "others named")  # fmt: skip
_MEANING = (
    "Named: by the coordinator's log with a relay, by the first party in a mesh. Others named: "
    "lines about honest members in any log during the flood, and for 2 s after it."
)
_LIMIT = 120.0


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--kind",
        choices=KINDS,
        nargs="+",
        default=["forged"],
        help="messages to send (forged)",
    )
    add("--topology", choices=TOPOLOGIES, nargs="+", default=list(TOPOLOGIES), help="(both)")
    add("--rate", type=float, default=RATE, help="messages per second (%(default)g)")
    add("--seconds", type=float, help=f"length of the flood ({SECONDS:g})")
    add("--parties", type=int, default=PARTIES, help="(%(default)s)")
    add("--pace", type=float, default=PACE, help="agreed pace in seconds (%(default)s)")
    add("--page", type=Path, metavar="FILE", help="write the table into its section of this page")


def flood(chosen: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Flood a session of each topology with each kind, and show the figures."""
    seconds = chosen.seconds or (QUICK_SECONDS if chosen.quick else SECONDS)
    rows = []
    for topology in chosen.topology:
        for kind in chosen.kind:
            with console.status(f"{topology}, {kind}: {2 * seconds:g} seconds of rounds"):
                rows.append(flooded(chosen, topology, kind, seconds))
    shown = Table(title=f"{chosen.parties} parties at a pace of {chosen.pace:g} s, one floods")
    for name in _COLUMNS:
        shown.add_column(name, justify="left" if name in _COLUMNS[:2] else "right")
    for row in rows:
        shown.add_row(*_cells(row))
    console.print(shown)
    console.print(_MEANING, highlight=False)
    for line in (line for row in rows for line in row["others_named"][:5]):
        console.print(line, highlight=False, markup=False)
    if chosen.page:
        kinds = " ".join(chosen.kind)
        command = f"`scripts/attack flood --kind {kinds} --seconds {seconds:g}`."
        lines = page.grid(_COLUMNS, [*map(_cells, rows)], 2)
        page.put(chosen.page, "A flood", [command, "", _MEANING, "", *lines])
    return rows


def _cells(row: dict[str, Any]) -> list[str]:
    after = row["named_after_seconds"]
    return [
        row["topology"],
        row["kind"],
        f"{row['rate']:,.0f}",
        f"{row['without']:.1f}",
        f"{row['with']:.1f}",
        f"{row['ratio']:.2f}",
        "never" if after is None else f"{after:.1f} s",
        str(len(row["others_named"])),
    ]


class Flooded:
    """A session whose last member floods on command."""

    def __init__(self, running: LocalSession) -> None:
        self.running = running
        self.flooder = running.names[-1]
        self.order = running.folder / "order.json"

    def start(self) -> None:
        *honest, flooder = self.running.names
        self.running.start_coordinator()
        for name in honest:
            self.running.start_party(name)
        command = party_command(self.running.folder, flooder, self.running.options, role=ROLE)
        command.insert(command.index(ROLE[1]) + 1, str(self.order))
        self.running.launch(flooder, command)

    def begin(self, kind: str, rate: float) -> None:
        draft = self.order.with_suffix(".new")
        draft.write_text(json.dumps({"kind": kind, "rate": rate}))
        draft.replace(self.order)

    def end(self) -> None:
        self.order.unlink()

    def complaints(self) -> list[str]:
        """Log lines that may name a member, without arrivals and addresses."""
        ordinary = re.compile(r"\S+ (is here|listens at) ")
        lines = [
            line
            for line in self.running.stderr("coordinator").splitlines()
            if not ordinary.match(line)
        ]
        for name in self.running.names[:-1]:
            lines += self.running.stderr(name).splitlines()
            lines += [
                f"{name}: {event['event']} {event.get('text', event.get('why', ''))}"
                for event in self.running.events[name]
                if event["event"] in ("warning", "dropped")
            ]
        return lines

    def names_flooder(self) -> list[str]:
        """The complaints about what the flooder's connection has sent."""
        about = f"{self.flooder}: its connection sent "
        return [line for line in self.complaints() if about in line]

    def names_others(self, earlier: Sequence[str] = ()) -> list[str]:
        """The complaints that name an honest member, except as the one that complains."""
        named = []
        for line in self.complaints():
            text = re.sub(r"^(\S+): (warning|dropped) ", "", line)
            honest = any(re.search(rf"\b{name}\b", text) for name in self.running.names[:-1])
            if honest and line not in earlier:
                named.append(line)
        return named


def flooded(chosen: argparse.Namespace, topology: str, kind: str, seconds: float) -> dict[str, Any]:
    """The figures of one session."""
    with tempfile.TemporaryDirectory(prefix="sotto-flood-") as name:
        pace = ("--pace", str(chosen.pace), "--patience", "600")
        home = session(chosen.parties, ROUNDS, topology, chosen.seed, *pace)
        attacked = Flooded(prepared(Path(name) / "session", home))
        try:
            attacked.start()
            _until_round(attacked.running, 20)
            before, earlier = _pace(attacked.running, seconds / 2.0), attacked.names_others()
            began = time.monotonic()
            attacked.begin(kind, chosen.rate)
            during, after = _watched(attacked, began, seconds)
            attacked.end()
            time.sleep(2.0)
            others = attacked.names_others(earlier)
            without = (before + _pace(attacked.running, seconds / 2.0)) / 2.0
        finally:
            attacked.running.stop()
    return {
        "topology": topology,
        "kind": kind,
        "rate": chosen.rate,
        "without": without,
        "with": during,
        "ratio": during / without,
        "named_after_seconds": after,
        "others_named": others,
    }


def _watched(attacked: Flooded, began: float, seconds: float) -> tuple[float, float | None]:
    """Rounds per second during the flood, and the seconds until the flooder was named."""
    first, named = attacked.running.progress(), None
    while time.monotonic() < began + seconds:
        if named is None and attacked.names_flooder():
            named = time.monotonic() - began
        time.sleep(0.1)
    return (attacked.running.progress() - first) / (time.monotonic() - began), named


def _pace(running: LocalSession, seconds: float) -> float:
    began, first = time.monotonic(), running.progress()
    time.sleep(seconds)
    return (running.progress() - first) / (time.monotonic() - began)


def _until_round(running: LocalSession, number: int) -> None:
    give_up_at = time.monotonic() + _LIMIT
    while running.progress() < number:
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"the session is at round {running.progress()} after {_LIMIT:g} s")
        time.sleep(0.1)
