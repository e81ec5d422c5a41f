"""Which terms of two agreements differ, and how to say it in words.

Every field of an agreement is compared, so that no difference is left out. Never here: which
differences matter to whom.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from protocol.agreement.model import Agreement, Member, Role
from protocol.agreement.render import COMMENTS

_UNBOUND = ("transport", "address")
"""Terms that are not part of the digest."""

_FRACTIONS = ("share", "endowment", "floor")
"""Terms of a member with one number for each resource."""

Path = tuple[str, ...]
"""Where a term is: `("rounds",)`, `("resource", "hours", "capacity")`."""


class Difference(Struct, frozen=True):
    """One term that two agreements have differently."""

    path: Path
    #: The values, as text; empty if an agreement does not have the term.
    first: str
    second: str

    @property
    def binding(self) -> bool:
        """Whether it is part of the digest. Addresses and patience are not."""
        return not any(part in _UNBOUND for part in (self.path[0], self.path[-1]))

    @property
    def words(self) -> str:
        """The difference as a line for people."""
        if self.path[2:] == ("name",):
            return f"{_name(self.path)} is {'left out' if self.first else 'new'}"
        comment = COMMENTS.get(_field(self.path))
        meaning = f" ({comment})" if comment else ""
        values = f"{self.first or 'not stated'} -> {self.second or 'not stated'}"
        return f"{_name(self.path)}: {values}{meaning}"


def differences(first: Agreement, second: Agreement) -> list[Difference]:
    """The terms that differ, in the order of the file.

    Guarantee: the digests are equal if no difference is `binding`.
    """
    ours, theirs = dict(_terms(first)), dict(_terms(second))
    # A member or resource that only one agreement has is one difference, not one for each field.
    whole = {path[:2] for path in ours.keys() ^ theirs.keys() if path[2:] == ("name",)}
    found = [
        Difference(path, _shown(ours.get(path)), _shown(theirs.get(path)))
        for path in [*ours, *(path for path in theirs if path not in ours)]
        if ours.get(path) != theirs.get(path) and (path[:2] not in whole or path[2:] == ("name",))
    ]
    return [d for d in found if d.first != d.second or d.path[-1] == "earlier"]


def in_words(found: list[Difference], most: int = 40) -> list[str]:
    """Differences as lines, at most this many, and how many more there are."""
    more = len(found) - most
    return [d.words for d in found[:most]] + ([f"and {more} more"] if more > 0 else [])


def _terms(agreement: Agreement) -> Iterator[tuple[Path, Any]]:
    """Every term of an agreement with its path, in the order of the file."""
    names = [resource.name for resource in agreement.resources]
    for name, value in _fields(agreement):
        if name == "pricing":
            for field, part in _fields(value):
                start = field == "start"
                # Zeros are no prices to the rule center: it begins as the worths suggest.
                stated = () if start and value.step == "center" and not any(part) else part
                for path, term in _spread(field, stated, names, when=start):
                    yield ("prices", *path), term
        elif name in ("privacy", "transport"):
            yield from (((name, field), part) for field, part in _fields(value))
        elif name not in ("resources", "members"):
            yield (name,), value
    yield ("resource", "order"), names
    for resource in agreement.resources:
        yield from ((("resource", resource.name, f), part) for f, part in _fields(resource))
    yield ("member", "order"), [member.name for member in agreement.members]
    for member in agreement.members:
        yield from _member_terms(member, names)


def _member_terms(member: Member, resources: list[str]) -> Iterator[tuple[Path, Any]]:
    for field, value in _fields(member):
        for path, term in _spread(field, value, resources, when=field in _FRACTIONS):
            yield ("member", member.name, *path), term


def _spread(
    field: str, values: Any, resources: list[str], *, when: bool
) -> Iterator[tuple[Path, Any]]:
    """A term with one number for each resource as one term for each."""
    if not when:
        yield (field,), values
        return
    for resource, value in zip(resources, values or [None] * len(resources), strict=True):
        yield (field, resource), value


def _fields(record: Any) -> Iterable[tuple[str, Any]]:
    """The fields of a record, and no other attributes; none if there is no record."""
    return asdict(record).items() if record is not None else ()


def _field(path: Path) -> str:
    """The name of a term in the file, by which its comment is found."""
    if path[0] in ("resource", "member"):
        return path[2] if len(path) > 2 else ""
    if path[:2] == ("prices", "start"):
        return ""  # its name says all
    return path[1] if len(path) > 1 else path[0]


def _name(path: Path) -> str:
    """How people call a term."""
    if path[1:] == ("order",):
        return f"the {path[0]}s, in this order"
    if path[0] in ("resource", "member"):
        _, name, field, *resource = path
        whom = f"{path[0]} {name!r}"
        if field == "name":
            return whom
        return f"{field} of {whom}" + (f" in {resource[0]!r}" if resource else "")
    if path[:2] == ("prices", "start"):
        return f"first price of resource {path[2]!r}"
    return ".".join(path)


def _shown(value: Any) -> str:
    """A value in words; empty if there is none."""
    if value is None or value in ("", ()):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Role):
        return f"{value.name} ({value.key.hex()})"
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, tuple):  # rounds of an earlier session: too many numbers to show
        return f"{len(value)} rounds"
    return str(value)
