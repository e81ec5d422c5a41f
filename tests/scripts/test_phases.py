"""The page with the phases of a session."""

from pathlib import Path

from protocol.session.phases import TRANSITIONS, Phase
from scripts.lab.phases import mermaid, page

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_command_makes() -> None:
    """docs/phases.md is up to date: run `scripts/phases > docs/phases.md` if this fails."""
    assert (ROOT / "docs" / "phases.md").read_text(encoding="utf-8") == page()


def test_the_diagram_has_every_transition_once() -> None:
    """Each row of the table is one labelled arrow."""
    arrows = [
        line.strip() for line in mermaid().splitlines() if "-->" in line and "[*]" not in line
    ]
    assert len(arrows) == len(set(arrows)) == len(TRANSITIONS)
    assert "collecting --> sealing: last round closed" in arrows


def test_a_session_ends_only_in_phases_without_a_way_out() -> None:
    """The arrows to the end are those of the phases that the table never leaves."""
    ends = [line.split()[0] for line in mermaid().splitlines() if line.endswith("--> [*]")]
    assert ends == [Phase.FINISHED.name.lower(), Phase.HALTED.name.lower()]
