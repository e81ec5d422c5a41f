"""Approvals: a member's signature under an agreement, made before the session, as a small file.

An approval names one agreement. A standing one also covers later sessions of a series whose terms
are the same, up to limits that the member signs. SPEC.md §23 has the format. Never here: files,
secret keys, or the choice of an agreement.
"""

import re
import struct
import tomllib
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from protocol.agreement.differences import Difference, differences
from protocol.agreement.fields import Fields
from protocol.agreement.model import Agreement
from protocol.agreement.schema import Form, Range
from protocol.errors import BadAgreement, BadApproval, BadMessage

CONTEXT = b"sotto approval 1\n"

MOST_NUMBER = 999_999_999
"""The largest number at the end of a session's name."""

_BODY = struct.Struct(">32sIId")
_SIGNATURE = Form(r"[0-9a-f]{128}", "a signature of 128 hexadecimal digits")
_DIGEST = Form(r"[0-9a-f]{64}", "a digest of 64 hexadecimal digits")
_WITHIN_RANGE = Range(0.0, 1.0)
_SAME_WORTH = 1e-9  # of a unit, relative: capacities of several weeks are multiplied

_VARIES = ("capacity", "worth")
"""What may change of a resource in the next session of a series."""

Sign = Callable[[bytes], bytes]


class Approval(Struct, frozen=True, kw_only=True):
    """What a member signs: these terms, and how far later sessions may differ from them."""

    #: The digest of the agreement.
    agreement: bytes
    #: Its session, for people: the digest covers it.
    session: str
    member: str
    #: The place of the member in the roster.
    place: int
    #: The number of the last session that it covers; 0 if it covers this agreement only.
    last: int = 0
    #: How far a capacity may be from the one in the agreement, as a fraction of it.
    within: float = 0.0
    signature: bytes = b""

    @property
    def text(self) -> bytes:
        """What the member signs."""
        return CONTEXT + _BODY.pack(self.agreement, self.place, self.last, self.within)

    @property
    def standing(self) -> bool:
        """Whether it also covers later sessions."""
        return self.last > 0


def approve(
    agreement: Agreement, member: str, sign: Sign, *, last: int = 0, within: float = 0.0
) -> Approval:
    """Make a member's approval of an agreement."""
    approval = Approval(
        agreement=agreement.digest,
        session=agreement.session,
        member=member,
        place=agreement.place(member),
        last=last,
        within=within,
    )
    return replace(approval, signature=sign(approval.text))


def written(approval: Approval) -> str:
    """The text of the file."""
    standing = ""
    if approval.standing:
        standing = (
            f"last = {approval.last}  # also covers the sessions up to this number\n"
            f"within = {approval.within!r}  # whose capacities differ by at most this fraction\n"
        )
    return (
        f"# {approval.member!r} agrees to the session {approval.session!r} with these terms.\n"
        "# Public: send it to the convener.\n"
        "[approval]\n"
        f'session = "{approval.session}"\n'
        f'member = "{approval.member}"\n'
        f"place = {approval.place}\n"
        f'agreement = "{approval.agreement.hex()}"  # the digest that `protocol plan` prints\n'
        f"{standing}"
        f'signature = "{approval.signature.hex()}"\n'
    )


def parse(text: str) -> Approval:
    """Read the text of an approval file. The signature is not verified. Raises `BadApproval`."""
    try:
        top = Fields(tomllib.loads(text), "")
        table = top.table("approval")
        approval = Approval(
            session=table.name("session"),
            member=table.name("member"),
            place=table.integer("place", 0, 2**32 - 1),
            agreement=bytes.fromhex(table.text("agreement", _DIGEST)),
            last=table.integer("last", 0, MOST_NUMBER, 0),
            within=table.number("within", _WITHIN_RANGE, 0.0),
            signature=bytes.fromhex(table.text("signature", _SIGNATURE)),
        )
        table.done()
        top.done()
    except (ValueError, RecursionError) as error:
        raise BadApproval(f"it is not valid TOML: {error}") from None
    except BadAgreement as error:
        raise BadApproval(f"it is no approval: {error}") from None
    if len(approval.agreement) != 32 or len(approval.signature) != 64:
        raise BadApproval("it is no approval: digest or signature is missing")
    return approval


def require_signed(approval: Approval, agreement: Agreement) -> None:
    """Raise `BadApproval` unless the member signed it, under this agreement.

    Guarantee: the key is the one in the agreement, whose digest covers names and keys. So neither
    another key nor an approval of another agreement, member or limit passes.
    """
    from protocol.wire.signatures import verify

    if approval.agreement != agreement.digest:
        raise BadApproval(
            f"it is for agreement {approval.agreement.hex()}, this is {agreement.digest.hex()}"
        )
    names = [member.name for member in agreement.members]
    if approval.place >= len(names) or names[approval.place] != approval.member:
        raise BadApproval(f"{approval.member!r} is not member {approval.place} of this agreement")
    key = agreement.members[approval.place].signing_key
    if not key:
        raise BadApproval(f"the agreement has no signing key of {approval.member!r}")
    try:
        verify(approval.signature + approval.text, key)
    except BadMessage:
        raise BadApproval(f"{approval.member!r} did not sign it") from None


def numbered(session: str) -> tuple[str, int, int]:
    """A session's name without the number at its end, the number, and the number's digits.

    A name without a number is the first of its series: `trucks` comes before `trucks-2`.
    """
    found = re.fullmatch(r"(.*?)([0-9]{1,9})", session)
    if found is None:
        return f"{session}-", 1, 0
    return found[1], int(found[2]), len(found[2])


def in_series(session: str, number: int) -> str:
    """The name of the session of this number, in the series of another one."""
    stem, own, digits = numbered(session)
    return session if number == own else f"{stem}{number:0{digits}}"


def number_in_series(first: str, session: str) -> int | None:
    """The number of a session in the series that begins with `first`; None if it is not in it."""
    number = numbered(session)[1]
    return number if in_series(first, number) == session else None


def beyond(approval: Approval, standing: Agreement, agreement: Agreement) -> list[str]:
    """Why a standing approval does not cover a later agreement, in words; empty if it does.

    First prices and earlier rounds may differ: they prove nothing. A party that follows computes
    them itself, and joins no session with others.
    """
    found = [d.words for d in differences(standing, agreement) if d.binding and not _varies(d)]
    number = number_in_series(standing.session, agreement.session)
    first = numbered(standing.session)[1]
    if number is None or not first < number <= approval.last:
        names = [in_series(standing.session, n) for n in (first + 1, approval.last)]
        found.append(
            f"session: {agreement.session!r} is not one of {names[0]!r} to {names[1]!r}, "
            "which were approved"
        )
    pairs = zip(standing.resources, agreement.resources, strict=False)
    for old, new in pairs if not found else ():
        if abs(new.capacity - old.capacity) > approval.within * old.measure:
            found.append(
                f"capacity of resource {new.name!r}: {new.capacity:g} is more than "
                f"{100.0 * approval.within:g} % from {old.capacity:g}, which was approved"
            )
        ours, theirs = ((r.worth or 0.0) / r.measure for r in (old, new))
        if abs(ours - theirs) > _SAME_WORTH * abs(ours):
            found.append(
                f"worth of resource {new.name!r}: a unit is worth {theirs:.12g}, not {ours:.12g}"
            )
    return found


def _varies(difference: Difference) -> bool:
    path = difference.path
    if path[0] == "resource":
        return path[-1] in _VARIES
    return path == ("session",) or path[:2] in (("prices", "start"), ("prices", "earlier"))
