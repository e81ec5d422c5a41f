"""The figures and the table of `party budget`. Public numbers only."""

import math
from collections.abc import Iterable
from typing import Any

from party.ledger.budget import Account, Limit, colluding, finite, room, spent, statement


def figures(
    accounts: Iterable[Account], data_set: str, limit: Limit | None, *, delta: float
) -> dict[str, Any]:
    """The figures of `party budget` for one data set. An ε of None is no guarantee at all."""

    mine = [a for a in accounts if a.data_set == data_set]
    total = spent(mine, data_set)
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
            for a in mine
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
            colluders=colluding(mine, data_set),
        ),
    }


def show_budget(figures: dict[str, Any]) -> None:
    """What `party budget` says of one data set, as a table."""
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
        who = "member tells" if count == 1 else "members tell"
        console.print(
            f"*{count}: only totals could be read; it holds as long as at most {count} other {who} "
            "what they know, the rest add their noise, and nobody breaks the ciphers",
            highlight=False,
        )
    limit = figures["limit"]
    if limit is None:
        way = "" if figures["spent_epsilon"] is None else ": say --max-epsilon E to set one"
        console.print(f"no limit is set{way}", highlight=False)
    else:
        console.print(
            f"limit ε = {limit['epsilon']:g} at δ = {limit['delta']:g}; room for one more session "
            f"of ε = {limit['room_epsilon']:.4g} at that δ",
            highlight=False,
        )
    console.print(f"{figures['statement']}\n", highlight=False, markup=False)


def _epsilon(value: float | None) -> str:
    return "no guarantee" if value is None else f"{value:.4g}"
