"""The tables of `scripts/bench scale`: measured points only, for the terminal and for SCALE.md."""

import os
import platform
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from rich.table import Table

from protocol import __version__

NOT_MEASURED = "–"


class Points(Struct, frozen=True):
    """One table: a title, a sentence about it, column titles and rows."""

    title: str
    text: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def printed(self) -> Table:
        """For the terminal."""
        table = Table(title=self.title, caption=self.text)
        for column in self.columns:
            table.add_column(column, justify="right")
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        lines = [self.columns, ["---:"] * len(self.columns), *self.rows]
        cells = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        return f"## {self.title}\n\n{self.text}\n\n{cells}\n"


def page(figures: dict[str, Any]) -> str:
    """SCALE.md of one run."""
    heading = (
        "# How cost grows\n\n"
        f"Measured by `scripts/bench scale`, sotto {__version__}, Python "
        f"{platform.python_version()}, {os.cpu_count()} cores. Every number was measured; "
        f"{NOT_MEASURED} means not measured.\n"
    )
    return "\n".join([heading, *(table.markdown() for table in tables(figures))])


def tables(figures: dict[str, Any]) -> list[Points]:
    """All tables that have rows."""
    found = [
        single_party(figures),
        sessions(figures["processes"], figures["meshes"], figures["crowds"]),
        traffic(figures["bytes"]),
        late_rounds(figures["long"]),
    ]
    return [table for table in found if table.rows]


def single_party(figures: dict[str, Any]) -> Points:
    """What one party computes and stores, by size."""
    settings: Iterable[dict[str, Any]] = (
        row for sweep in ("parties", "resources", "columns", "far") for row in figures[sweep]
    )
    return Points(
        "One party with simulated peers",
        "K parties, m resources, n columns. CPU, ledger and their components are for one round; "
        "the handshake is one hello from each peer.",
        ("K", "m", "n", "CPU", "verifying", "noise", "solving", "ledger", "memory", "agreement",
         "reading it", "a hello", "handshake"),
        tuple(
            (
                f"{row['parties']:,}",
                f"{row['resources']:,}",
                f"{row['columns']:,}",
                seconds(row["cpu_microseconds"] * 1e-6),
                *(seconds(row["parts"][name] * 1e-6) for name in ("verify", "noise", "solve")),
                size(row["ledger_bytes_per_round"]),
                size(row["memory_bytes"]),
                size(row["agreement_bytes"]),
                seconds(row["agreement_seconds"]),
                size(row["hello_bytes"]),
                seconds(row["greeting_seconds"]),
            )
            for row in settings
        ),
    )  # fmt: skip


def sessions(
    relayed: Sequence[dict[str, Any]],
    meshes: Sequence[dict[str, Any]],
    crowds: Sequence[dict[str, Any]],
) -> Points:
    """Sessions of real processes on this machine."""
    rows = [("relay", row) for row in relayed] + [("mesh", row) for row in meshes]
    return Points(
        "Sessions of real processes",
        "All processes on this machine, over loopback. CPU is for one round; memory and open "
        "files are the most that was seen."
        + "".join(
            f" {row['finished']:,} of {row['parties']:,} parties finished {row['rounds']:,} rounds "
            f"with {row['heads']:,} chain hash(es), {seconds(row['seconds'])} after the launch; "
            f"the first round closed after {seconds(row['start_seconds'])}; all processes "
            f"together held {size(row['memory_bytes'])}."
            for row in crowds
        ),
        ("topology", "K", "rounds a second", "CPU, a party", "CPU, coordinator", "memory, a party",
         "memory, coordinator", "files, a party", "files, coordinator"),
        tuple(
            (
                topology,
                f"{row['parties']:,}",
                f"{row['rounds_per_second']:.3g}",
                microseconds(row.get("party_cpu_microseconds")),
                microseconds(row.get("coordinator_cpu_microseconds")),
                size(row["party_memory_bytes"]),
                size(row["coordinator_memory_bytes"]),
                count(row["party_open_files"]),
                count(row["coordinator_open_files"]),
            )
            for topology, row in rows
        ),
    )  # fmt: skip


def traffic(rows: Sequence[dict[str, Any]]) -> Points:
    return Points(
        "Bytes between the parties and the relay",
        "Counted on the sockets, with encryption and framing, for one round. The handshake is "
        "all hellos that the relay sent in a session.",
        ("K", "sent by a party", "received by a party", "messages out of the relay", "handshake"),
        tuple(
            (
                f"{row['parties']:,}",
                size(row["up"]),
                size(row["down"]),
                f"{row['messages']:,.3g}",
                size(row["greeting_bytes"]),
            )
            for row in rows
        ),
    )


def late_rounds(long: dict[str, Any]) -> Points:
    return Points(
        f"Early and late rounds: {long['rounds']:,} rounds of {long['parties']} parties",
        "Real processes. Memory is that of one party at the end of each stretch.",
        ("rounds", "median time", "CPU, a party", "memory"),
        tuple(
            (
                f"{window['first_round']:,}–{window['last_round']:,}",
                microseconds(window["median_round_microseconds"]),
                microseconds(window["cpu_microseconds_per_round"]),
                size(window["memory_bytes"]),
            )
            for window in long["windows"]
        ),
    )


def microseconds(value: float | None) -> str:
    return seconds(None if value is None else value * 1e-6)


def seconds(value: float | None) -> str:
    if value is None:
        return NOT_MEASURED
    for limit, unit, name in ((1e-3, 1e-6, "µs"), (1.0, 1e-3, "ms"), (120.0, 1.0, "s")):
        if value < limit:
            return f"{value / unit:.3g} {name}"
    return f"{value / 60:.3g} min" if value < 7_200 else f"{value / 3_600:,.3g} h"


def size(value: float | None) -> str:
    if value is None:
        return NOT_MEASURED
    for unit, name in ((1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB")):
        if value < 1e3 * unit:
            return f"{value / unit:.3g} {name}"
    return f"{value / 1e12:,.3g} TB"


def count(value: int | None) -> str:
    return NOT_MEASURED if value is None else f"{value:,}"
