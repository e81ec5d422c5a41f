"""The lines of an MPS file: headings, fields of the fixed format, and what comments say.

Never here: what the fields mean. No error contains a number from the text.
"""

import re

from protocol.errors import BadData

_MAXIMISE = re.compile(
    r"^\*.*\bSENSE\W+MAX|^NAME\s+\S+\s+(.*\s)?\(?MAX(IMI[SZ]E)?\)?\s*$",
    re.IGNORECASE | re.MULTILINE,
)
"""A comment or a name that says maximise, which no program reads."""

_GLPK = re.compile(r"^\* Format: +(Fixed|Free) MPS\s*$", re.MULTILINE)
"""What GLPK writes in place of the sense."""

_FIELDS = (slice(1, 3), slice(4, 12), slice(14, 22), slice(24, 36), slice(39, 47), slice(49, 61))
_GAPS = (0, 3, 12, 13, 22, 23, 36, 37, 38, 47, 48)
"""Where the fields of the fixed format are, and the columns between them, which stay blank."""


def heading_word(words: list[str]) -> str:
    """The first word of a heading; some programs write a colon after it."""
    word = words[0].upper().removesuffix(":")
    return "OBJSENSE" if word == "OBJSEN" else word


def fixed_fields(line: str) -> list[str]:
    """The fields of a line; nothing if a word is not within one field and would be cut."""
    line = line.rstrip().expandtabs()
    if line[_FIELDS[-1].stop :] or any(line[at : at + 1].strip() for at in _GAPS):
        return []
    return [field for part in _FIELDS if (field := line[part].strip())]


def require_sense(name: str, text: str, maximise: bool | None) -> None:
    """Refuse a file whose author may want to maximise although no section says so."""
    if not maximise and _MAXIMISE.search(text):
        raise BadData(
            f"{name!r} says maximise only in a comment or in its name, and would be read as "
            "minimise. Write OBJSENSE on one line and MAX on the next (in PuLP: "
            "with_objsense=True), or LP"
        )
    if maximise is None and _GLPK.search(text):
        raise BadData(
            f"{name!r} does not say whether to maximise: GLPK writes that into no MPS file. Write "
            "OBJSENSE on one line and MAX or MIN on the next, after NAME; or let GLPK write LP"
        )
