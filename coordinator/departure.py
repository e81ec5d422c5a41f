"""The terms of the next session without some members of the last one.

What a member brought to a capacity leaves with it: the others keep what they have, in units. Where
the agreement states no endowments, the capacities stay, and the others share them. Never here:
files or prices.
"""

from msgspec.structs import replace

from protocol.agreement.model import Agreement, Member
from protocol.errors import BadCommand


def without(agreement: Agreement, names: list[str]) -> Agreement:
    """These terms without the members of these names. Raises `BadCommand` if that has no meaning.

    Guarantee: the endowments of the others are the same amounts as before, up to rounding.
    """
    for name in names:
        agreement.place(name)  # refuses a name that is not in the roster
    stays = [member for member in agreement.members if member.name not in names]
    if not stays or not agreement.members[0].endowment:
        return replace(agreement, members=tuple(stays))
    if agreement.banded:
        raise BadCommand(
            "--without cannot divide capacities where members have floors or resources a span; "
            "write the new agreement yourself"
        )
    left = [sum(member.endowment[j] for member in stays) for j in range(len(agreement.resources))]
    for resource, fraction in zip(agreement.resources, left, strict=True):
        if not fraction > 0.0:
            raise BadCommand(
                f"--without: no other member brings any {resource.name!r}; write the new agreement "
                "yourself, without this resource"
            )
    resources = tuple(
        resource.with_capacity(resource.capacity * fraction)
        for resource, fraction in zip(agreement.resources, left, strict=True)
    )
    return replace(agreement, resources=resources, members=tuple(_scaled(m, left) for m in stays))


def _scaled(member: Member, left: list[float]) -> Member:
    return replace(
        member,
        share=tuple(min(1.0, s / f) for s, f in zip(member.share, left, strict=True)),
        endowment=tuple(min(1.0, e / f) for e, f in zip(member.endowment, left, strict=True)),
    )
