"""Which row of a model is which shared resource.

A row has the name of its resource, unless the company says otherwise in a `RowMap`. Names of rows
are the company's own: they appear only in errors on its own terminal.
"""

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from party.model.linear_program import LinearProgram, column_wise
from protocol.agreement.model import Agreement
from protocol.errors import BadCommand, BadData

_LISTED = 30
"""The most row names that an error lists."""

_CLOSE = 0.75
"""How similar a row's name must be to be suggested, from 0 to 1."""


class RowMap(Struct, frozen=True):
    """The rows of resources that have other names in the model, in the order they were given.

    A resource may have `*` in its name, and its row as many: `hours-*` is `hours[*]` for every
    resource that begins with `hours-`. An empty row says that the company does not use a resource.
    """

    entries: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for resource, row in self.entries:
            if row and resource.count("*") != row.count("*"):
                raise BadCommand(
                    f"the row {row!r} of {resource!r} must have as many * as the resource"
                )

    def row_of(self, resource: str) -> str | None:
        """The row that is given for a resource; empty if it is not used, None if none is given."""
        for name, row in self.entries:
            parts = re.fullmatch("(.+)".join(map(re.escape, name.split("*"))), resource)
            if parts is not None:
                between = row.split("*")
                return between[0] + "".join(
                    word + text for word, text in zip(parts.groups(), between[1:], strict=False)
                )
        return None

    def require_used(self, agreement: Agreement) -> None:
        """Refuse an entry for a resource that is not in the agreement."""
        names = [resource.name for resource in agreement.resources]
        for name, row in self.entries:
            if not any(RowMap(((name, row),)).row_of(resource) is not None for resource in names):
                listed = ", ".join(map(repr, names[:_LISTED]))
                raise BadCommand(
                    f"a row is given for {name!r}, but no shared resource has that name; they are "
                    f"{listed}"
                )


OWN_NAMES = RowMap()
"""Every row has the name of its resource."""


def row_map(
    rows: Mapping[str, str | None] | Iterable[str] | None = None, file: Path | None = None
) -> RowMap:
    """A map from `RESOURCE=ROW` texts or a mapping, and from the table `rows` of a TOML file."""
    entries = list[tuple[str, str]]()
    if isinstance(rows, Mapping):
        entries += [(resource, row or "") for resource, row in rows.items()]
    else:
        for text in rows or ():
            resource, equals, row = text.partition("=")
            if not equals or not resource.strip():
                raise BadCommand(f"--row {text!r}: it must be RESOURCE=ROW, or RESOURCE= if unused")
            entries.append((resource.strip(), row.strip()))
    return RowMap((*entries, *(() if file is None else _from_file(file))))


def _from_file(path: Path) -> list[tuple[str, str]]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadCommand(f"--rows {str(path)!r} cannot be read: {error}") from None
    table = content.get("rows")
    if set(content) != {"rows"} or not isinstance(table, dict):
        raise BadCommand(f"--rows {str(path)!r} must have one table, [rows]")
    for resource, row in table.items():
        if not isinstance(row, str):
            raise BadCommand(
                f'--rows {str(path)!r}: the row of {resource!r} must be a text, or "" if unused'
            )
    return list(table.items())


def locate(
    program: LinearProgram, agreement: Agreement, rows: RowMap = OWN_NAMES
) -> tuple[LinearProgram, list[int]]:
    """The row of each resource, in the order of the agreement.

    The program gets an empty row for a resource that the company does not use. A resource that is
    the opposite of another gets the negative of that row, if it has no row of its own.
    """
    rows.require_used(agreement)
    found = dict[str, int]()
    missing = list[str]()
    for resource in sorted(agreement.resources, key=lambda r: bool(r.opposite)):
        name, given = resource.name, rows.row_of(resource.name)
        if given == "":
            program, found[name] = _with_row(program, name, None)
            continue
        matching = _rows_named(given or name, program.rows)
        # A family of rows such as hours-*=hours[*] is about the resources, not their opposites.
        named = name in dict(rows.entries)
        if not matching and not named and resource.opposite in found:
            program, found[name] = _with_row(program, name, found[resource.opposite])
        elif len(matching) == 1:
            found[name] = matching[0]
        elif matching:
            raise BadData(
                f"the model has {len(matching)} rows named {given or name!r}; it needs exactly one "
                "for each shared resource, whose left-hand side is what the company consumes"
            )
        else:
            missing.append(name)
    if missing:
        raise _no_rows(missing, program.rows, rows, len(agreement.resources))
    order = [found[resource.name] for resource in agreement.resources]
    if len(set(order)) < len(order):
        twice = next(row for row in order if order.count(row) > 1)
        raise BadData(
            f"the row {program.rows[twice]!r} is given for two shared resources; each needs its own"
        )
    return program, order


def _no_rows(missing: list[str], own: list[str], rows: RowMap, resources: int) -> BadData:
    """One error for all resources without a row, with the rows that may be meant."""
    lines = []
    for name in missing:
        given = rows.row_of(name)
        near = _near(given or name, own)
        lines.append(
            f"  {name!r}"
            + (f": there is no row {given!r}" if given else "")
            + (f"; perhaps {near!r}" if near else "")
        )
    listed = ", ".join(map(repr, own[:_LISTED])) or "none"
    more = f" and {len(own) - _LISTED:,} more" if len(own) > _LISTED else ""
    what = "shared resource" if resources == 1 else "shared resources"
    return BadData(
        f"the model has no row for {len(missing)} of {resources} {what}:\n"
        + "\n".join(lines[:_LISTED])
        + f"\nIts rows are {listed}{more}. A row must have the name of its resource. Or say which "
        "row it is: --row RESOURCE=ROW, for many at once --row 'hours-*=hours[*]', and --row "
        "RESOURCE= for a resource that you do not use"
    )


def _near(name: str, own: list[str]) -> str:
    """The row that is most like this name, or an empty text."""
    plain = {_letters(row): row for row in reversed(own)}
    if _letters(name) in plain:
        return plain[_letters(name)]
    import difflib  # only an error needs it

    close = difflib.get_close_matches(_letters(name), plain, n=1, cutoff=_CLOSE)
    return plain[close[0]] if close else ""


def _letters(name: str) -> str:
    """A name without the signs in which tools differ: `hours[mon,north]` is `hours mon north`."""
    return " ".join(re.findall(r"[^\W_]+", name.lower()))


def _rows_named(name: str, rows: list[str]) -> list[int]:
    """The rows with a name, or with that name as a tool writes it.

    Pyomo writes `c_u_NAME_` or `c_l_NAME_`, linopy `NAME#` with a number.
    """
    exact = [i for i, row in enumerate(rows) if row == name]
    spelling = re.compile(rf"c_[ul]_{re.escape(name)}_|{re.escape(name)}#\d+")
    return exact or [i for i, row in enumerate(rows) if spelling.fullmatch(row)]


def _with_row(program: LinearProgram, name: str, negated: int | None) -> tuple[LinearProgram, int]:
    """The program with one more row: empty, or the negative of another row."""
    column = np.repeat(np.arange(len(program.columns)), np.diff(program.start))
    own = program.index == (-1 if negated is None else negated)
    added = len(program.rows)
    return replace(
        program,
        rows=[*program.rows, name],
        row_lower=np.append(program.row_lower, -math.inf),
        row_upper=np.append(program.row_upper, 0.0),
        **column_wise(
            len(program.columns),
            np.append(column, column[own]),
            np.append(program.index, np.full(own.sum(), added)),
            np.append(program.value, -program.value[own]),
        ),
    ), added
