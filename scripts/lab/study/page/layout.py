"""How a section of the page looks: a table in Markdown, three remarks, and figures."""

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from scripts.lab.study.grid import HIDDEN


def grid(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table in Markdown; all columns but the first are numbers."""
    lines = [header, [":--", *["--:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def meaning(first: str, second: str, third: str) -> str:
    """Three remarks about a table."""
    return textwrap.fill(f"{first} {second} {third}", 98)


def section(title: str, lead: str, table: str, remarks: str, figures: Sequence[str] = ()) -> str:
    """One section of the page: a table, and its meaning."""
    parts = [f"## {title}", lead, table.rstrip(), remarks]
    parts += ["\n".join(f"![{name}]({name}.png)" for name in figures)]
    return "\n\n".join(part for part in parts if part) + "\n"


def budget(epsilon: float) -> str:
    return "no noise" if epsilon == HIDDEN else f"{epsilon:g}"


def market(setting: Any) -> str:
    """A market in the terms of the paper."""
    return f"K = {setting.parties}, s₁ ≤ {setting.share_first:g}c, buffer {setting.buffer:g}c"
