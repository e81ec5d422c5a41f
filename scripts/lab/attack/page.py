"""The page with the results of attacks. Each attack replaces its own section."""

from collections.abc import Sequence
from pathlib import Path

TITLE = "# What an adversary finds out"


def put(page: Path, heading: str, lines: Sequence[str]) -> None:
    """Replace the section with this heading, or add it; leave all others."""
    text = page.read_text() if page.exists() else f"{TITLE}\n"
    first, *sections = text.rstrip("\n").split("\n## ")
    whole = "\n".join([heading, "", *lines])
    places = [i for i, section in enumerate(sections) if section.split("\n")[0] == heading]
    for place in places or [len(sections)]:
        sections[place : place + 1] = [whole]
    page.write_text("\n\n## ".join(part.strip("\n") for part in [first, *sections]) + "\n")


def grid(columns: Sequence[str], rows: Sequence[Sequence[str]], words: int) -> list[str]:
    """A Markdown table. The first columns are text, the others numbers."""
    rules = ["---" if place < words else "---:" for place in range(len(columns))]
    return [f"| {' | '.join(row)} |" for row in (columns, rules, *rows)]
