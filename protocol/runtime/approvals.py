"""Reads a folder of approvals, and says which members agreed to an agreement beforehand.

The folder may hold approvals of other sessions too, and the standing agreement that an approval
names. Never here: what an approval must have (`protocol.wire.approval`).
"""

from contextlib import suppress
from functools import cached_property
from pathlib import Path

from msgspec import Struct, field

from protocol.agreement.model import Agreement
from protocol.errors import BadAgreement, BadApproval, BadCommand, MissingApprovals
from protocol.runtime.files import KEY_BYTES, read_agreement, read_text
from protocol.wire.approval import Approval, beyond, in_series, parse, require_signed

ENDING = ".approval.toml"
"""How the name of an approval file ends."""


class Approvals(Struct):
    """The approvals of one agreement that a folder holds."""

    agreement: Agreement
    #: How each member approved, in words.
    given: dict[str, str] = field(default_factory=dict)
    #: Why a file does not count, in words.
    refused: list[str] = field(default_factory=list)

    @property
    def missing(self) -> list[str]:
        """The members without an approval that counts, in roster order."""
        return [m.name for m in self.agreement.members if m.name not in self.given]

    def lines(self) -> list[str]:
        """One line for each member, and one for each file that does not count."""
        lines = [
            f"approved   {m.name}: {self.given[m.name]}"
            if m.name in self.given
            else f"missing    {m.name}: no approval that counts"
            for m in self.agreement.members
        ]
        return lines + [f"refused    {text}" for text in self.refused]

    def require_all(self) -> None:
        """Raise unless every member has approved."""
        if self.missing:
            names = ", ".join(map(repr, self.missing))
            reasons = "".join(f"; {text}" for text in self.refused)
            raise MissingApprovals(
                f"there is no approval of {names} for {self.agreement.session!r}{reasons}. Ask "
                "for it: party sign --agreement FILE --key NAME.key"
            )


def read_approval(path: Path) -> Approval:
    """Return the approval in a file; its signature is not verified."""
    text = read_text(path, KEY_BYTES, f"the approval {str(path)!r}", BadApproval)
    try:
        return parse(text)
    except BadApproval as error:
        raise BadApproval(f"{path}: {error}") from None


def read_approvals(folder: Path, agreement: Agreement) -> Approvals:
    """The approvals in a folder that count for this agreement, and why others do not.

    Files of other agreements are ignored.
    """
    if not folder.is_dir():
        raise BadCommand(f"--approvals {str(folder)!r} is not a folder; collect the files in one")
    found = Approvals(agreement)
    standing = _Standing(folder)
    for path in sorted(folder.glob(f"*{ENDING}")):
        try:
            approval = read_approval(path)
            if words := _counts(approval, agreement, standing):
                found.given.setdefault(approval.member, words)
        except BadApproval as error:
            text = str(error)
            found.refused.append(text if text.startswith(str(path)) else f"{path}: {text}")
    return found


def _counts(approval: Approval, agreement: Agreement, standing: "_Standing") -> str:
    """How an approval covers an agreement, in words; empty if it is of another session.

    Raises `BadApproval` if it is of this session and does not cover it.
    """
    if approval.agreement == agreement.digest:
        require_signed(approval, agreement)
        return "signed these terms"
    base = standing.by_digest.get(approval.agreement) if approval.standing else None
    if base is None:
        if approval.session != agreement.session:
            return ""
        raise BadApproval(
            f"it is for other terms of {agreement.session!r}, with the digest "
            f"{approval.agreement.hex()}; the terms here have {agreement.digest.hex()}"
        )
    require_signed(approval, base)
    if reasons := beyond(approval, base, agreement):
        raise BadApproval(f"it does not cover {agreement.session!r}: {'; '.join(reasons)}")
    last = in_series(base.session, approval.last)
    return (
        f"signed the standing agreement {base.session!r}, which covers sessions up to {last!r} "
        f"with capacities within {100.0 * approval.within:g} %"
    )


class _Standing:
    """The agreements in a folder by digest, read when one is asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def by_digest(self) -> dict[bytes, Agreement]:
        found = {}
        for path in self._folder.glob("*.toml"):
            with suppress(BadAgreement):  # a member file, an approval, or half a file
                agreement = read_agreement(path)
                found[agreement.digest] = agreement
        return found
