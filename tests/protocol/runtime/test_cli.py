"""What a terminal shows: whole words, and columns that stay columns."""

import io

import pytest

from protocol.runtime.cli import fitted

TEXT = (
    "terms      4 members, 2 resources, 158 rounds, mode exact, only totals, step center\n"
    "\n"
    "error: there is no approval of 'dart' for 'trucks-42'. Ask for it: party sign --agreement FILE"
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_narrow_terminal_breaks_lines_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """No line is longer than the terminal, no word is cut, and columns stay in their place."""
    monkeypatch.setenv("COLUMNS", "60")
    lines = fitted(TEXT, Terminal()).split("\n")
    assert max(map(len, lines)) <= 60
    assert lines[1].startswith(" " * len("terms      ") + "only totals")
    assert lines[2] == ""
    assert "a" * 64 in fitted(f"digest {'a' * 64}", Terminal()), "it can be copied"
    assert " ".join(" ".join(lines).split()) == " ".join(TEXT.split())


def test_programs_get_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe or a file has the text as it is."""
    monkeypatch.setenv("COLUMNS", "60")
    assert fitted(TEXT, io.StringIO()) == TEXT
