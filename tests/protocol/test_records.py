"""Records that must not be printed."""

import io

import rich.pretty
from rich.console import Console

from protocol.records import Opaque


class Secret(Opaque, frozen=True):
    number: int


def test_an_opaque_record_shows_no_field() -> None:
    """Neither its text nor what `rich` makes of it has a number of it, alone or in a list."""
    screen = io.StringIO()
    Console(file=screen).print(rich.pretty.Pretty([Secret(4711)]))
    assert "4711" not in f"{Secret(4711)!r} {[Secret(4711)]} {screen.getvalue()}"


def test_an_opaque_record_equals_only_itself() -> None:
    """Comparing two of them says nothing about what they hold."""
    one = Secret(4711)
    assert one == one
    assert one != Secret(4711)
