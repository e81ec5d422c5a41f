"""The figures and the table of `party budget`. Public numbers only."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from party.ledger import accounts as lifetime
from party.ledger.budget import Account, Limit, colluding, room, spent, statement
from protocol.errors import BadCommand
from protocol.privacy.accountant import finite


def ledger_figures(ledger: Path, data_set: str | None, *, delta: float) -> list[dict[str, Any]]:
    """The figures of one data set of a ledger, or of all."""
    accounts, limits = lifetime.accounts(ledger)
    names = dict.fromkeys([*(a.data_set for a in accounts), *limits])
    chosen = [name for name in names if data_set in (None, name)]
    if data_set and not chosen:
        raise BadCommand(
            f"there is no data set {data_set!r} in {str(ledger)!r}; it has "
            + (", ".join(map(repr, names)) or "none yet")
        )
    return [figures(accounts, name, limits.get(name), delta=delta) for name in chosen]


def figures(
    accounts: Iterable[Account], data_set: str, limit: Limit | None, *, delta: float
) -> dict[str, Any]:
    """The figures of one data set. An ε of None means that there is no guarantee."""
    sessions = [a for a in accounts if a.data_set == data_set]
    total = spent(sessions, data_set)
    return {
        "data_set": data_set,
        "delta": delta,
        "sessions": [
            {
                "session": a.session,
                "agreement": a.agreement.hex(),
                "epsilon": a.epsilon,
                "delta": a.delta,
                "rounds": a.rounds,
                "releases": a.releases,
                "spent_epsilon": finite(a.spent.epsilon(delta)),
                "colluders": a.colluders,
            }
            for a in sessions
        ],
        "spent_epsilon": finite(total.epsilon(delta)),
        "limit": limit
        and {
            "epsilon": limit.epsilon,
            "delta": limit.delta,
            "asked": limit.asked,
            "accountant": limit.accountant,
            "room_epsilon": room(total, limit),
        },
        "covered_by": limit
        and limit.fixed
        and {"epsilon": limit.fixed[0], "delta": limit.fixed[1]},
        "statement": statement(
            data_set,
            limit,
            everything=math.isinf(total.mu_squared),
            colluders=colluding(sessions, data_set),
        ),
    }


def show_budget(figures: dict[str, Any]) -> None:
    """Print the figures of one data set as a table."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    delta, name = figures["delta"], escape(figures["data_set"])
    table = Table(title=f"data set {name}: what its sessions have spent", title_justify="left")
    for column in ("session", "agreed", "releases", f"spent: ε at δ = {delta:g}"):
        table.add_column(column, justify="left" if column == "session" else "right")
    for row in figures["sessions"]:
        agreed = f"ε = {row['epsilon']:g}, δ = {row['delta']:g}" if row["epsilon"] else "no privacy"
        if row["colluders"]:
            agreed += f"*{row['colluders']}"
        released = f"{row['releases']} of {row['rounds']}"
        table.add_row(row["session"], agreed, released, _epsilon(row["spent_epsilon"]))
    table.add_section()
    table.add_row("all together", "", "", _epsilon(figures["spent_epsilon"]))
    console = Console()
    console.print(table)
    for count in sorted({row["colluders"] for row in figures["sessions"] if row["colluders"]}):
        members = "member shares what it knows" if count == 1 else "members share what they know"
        console.print(
            f"*{count}: only totals were public; this holds if at most {count} other {members}, "
            "the rest add their noise, and no one breaks the encryption",
            highlight=False,
        )
    limit = figures["limit"]
    if limit is None:
        hint = "" if figures["spent_epsilon"] is None else "; set one with --max-epsilon E"
        console.print(f"no limit is set{hint}", highlight=False)
    else:
        console.print(
            f"limit ε = {limit['epsilon']:g} at δ = {limit['delta']:g}; left for one more session: "
            f"ε = {limit['room_epsilon']:.4g} at that δ",
            highlight=False,
        )
    console.print(f"{figures['statement']}\n", highlight=False, markup=False)


def _epsilon(value: float | None) -> str:
    return "no guarantee" if value is None else f"{value:.4g}"
