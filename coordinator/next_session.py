"""Writes the next agreement of a series for `coordinator next`; parties that follow it join.

Everything but the session's name, capacities and prices stays as it is. Never here: another term.
"""

import argparse
import csv
import io
import math
from pathlib import Path

from coordinator.draft import checked, earlier_outcome
from protocol.agreement.model import Agreement
from protocol.errors import BadCommand
from protocol.runtime import files
from protocol.runtime.approvals import read_approvals
from protocol.wire.approval import MOST_NUMBER, in_series, numbered


def write_next(options: argparse.Namespace) -> None:
    """Write the next agreement, and say what is new and who approved it beforehand."""
    from protocol.agreement.differences import differences, in_words
    from protocol.outcome.continuation import next_agreement

    old = files.read_agreement(options.agreement)
    session = options.session or _counted_up(old.session)
    if session == old.session:
        raise BadCommand(f"--session {session!r} is the last session; choose a new name")
    out = options.out or options.agreement.parent / f"{session}.toml"
    files.require_new(out)
    capacities = _capacities(options, old)
    last = old if options.earlier is None else earlier_outcome(options.earlier, old)
    text, agreement = checked(next_agreement(last, session=session, capacities=capacities))
    approved = options.approvals and read_approvals(options.approvals, agreement)
    files.write_new(out, text)
    print(f"{out}: announce it to all members; its digest is {agreement.digest.hex()}")
    print(*in_words(differences(old, agreement)), sep="\n")
    if approved:
        print(*approved.lines(), sep="\n")


def _counted_up(session: str) -> str:
    number = numbered(session)[1]
    if number >= MOST_NUMBER:
        raise BadCommand(f"the number of {session!r} has no next one; choose --session")
    return in_series(session, number + 1)


def _capacities(options: argparse.Namespace, old: Agreement) -> dict[str, float]:
    """The capacities of the options and the file; the options count where both have one."""
    found = _from_file(options.capacities) if options.capacities is not None else {}
    for argument in options.capacity or []:
        name, _, number = argument.partition("=")
        found[name] = _amount(number, f"--capacity {argument!r}")
    names = [resource.name for resource in old.resources]
    for name in found:
        if name not in names:
            raise BadCommand(
                f"there is no resource {name!r} in {options.agreement}; the resources are "
                + ", ".join(names)
            )
    return found


def _from_file(path: Path) -> dict[str, float]:
    """The capacities in a CSV file with the columns `resource` and `capacity`."""
    text = files.read_text(path, files.AGREEMENT_BYTES, f"--capacities {str(path)!r}")
    rows = list(csv.reader(io.StringIO(text)))
    if not rows or [cell.strip().lower() for cell in rows[0]] != ["resource", "capacity"]:
        raise BadCommand(
            f"--capacities {str(path)!r}: the first line must be resource,capacity; separate with "
            "commas, and write decimals with a point"
        )
    found: dict[str, float] = {}
    for line, row in enumerate(rows[1:], start=2):
        if not any(cell.strip() for cell in row):
            continue
        where = f"--capacities {str(path)!r}, line {line}"
        if len(row) != 2 or row[0].strip() in found:
            raise BadCommand(
                f"{where}: it must be one resource and its capacity, each resource once; write "
                "decimals with a point"
            )
        found[row[0].strip()] = _amount(row[1], where)
    return found


def _amount(text: str, where: str) -> float:
    try:
        amount = float(text)
        if math.isfinite(amount):
            return amount
    except ValueError:
        pass
    raise BadCommand(f"{where}: it must be RESOURCE=NUMBER, with a point before decimals")
