"""The base of records that must not be printed.

A record is a class that only holds fields: a `Struct` of msgspec. Python's own dataclasses generate
and compile code while they are imported: half of the time in which a party's own modules loaded.
Imports nothing of ours.
"""

from typing import Any

from msgspec import Struct


class Opaque(Struct, frozen=True, eq=False):
    """A record that shows no field where it is printed, and equals only itself."""

    __repr__ = object.__repr__

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Hide the fields from `rich` too."""
        return []
