"""Rules across the fields of an agreement: each is a function that refuses one contradiction.

They need no numpy. Whether the noise of an agreement can be carried needs it; that is
`protocol.rounds`.
"""

import math
import re

from protocol.agreement.model import Agreement, Resource
from protocol.agreement.schema import CAPACITY_RANGE, ENDOWMENT_TOLERANCE
from protocol.errors import BadAgreement

_SAME_LOOK = str.maketrans("I1Oo-.", "ll00__")
_SAME_PAIR = (("rn", "m"), ("vv", "w"))


def require_consistent(agreement: Agreement) -> None:
    """Refuse an agreement whose fields contradict each other."""
    require_distinct_names("member", [m.name for m in agreement.members])
    _require_distinct_keys(agreement)
    _require_no_resource_named_payment(agreement)
    _require_matching_opposites(agreement.resources)
    _require_worth_for_step(agreement)
    _require_ball_terms(agreement)
    for j in range(len(agreement.resources)):
        _require_floors_below_shares(agreement, j)
        _require_capacity_above_floors(agreement, j)
        _require_shares_cover_capacity(agreement, j)
    if _all_have_endowments(agreement):
        for j in range(len(agreement.resources)):
            _require_endowments_add_up(agreement, j)
            _require_endowments_within_bands(agreement, j)


def require_distinct_names(kind: str, names: list[str]) -> None:
    """Refuse equal names, and names that people would confuse."""
    _require_unique(kind, names)
    seen: dict[tuple[int, str], str] = {}
    for name in names:
        for number, form in enumerate(_lookalike_forms(name)):
            other = seen.setdefault((number, form), name)
            if other != name:
                raise BadAgreement(
                    f"the {kind}s {other!r} and {name!r} look alike, and people would confuse "
                    "them; choose another name for one of them"
                )


def _lookalike_forms(name: str) -> tuple[str, str]:
    """Two forms of a name. People confuse names that share either form.

    The first ignores the case of letters. The second ignores what looks alike in many fonts: I, l
    and 1; O, o and 0; rn and m; vv and w. In both `-`, `.` and `_` are equal.
    """
    look = name.translate(_SAME_LOOK)
    for pair, letter in _SAME_PAIR:
        look = look.replace(pair, letter)
    return re.sub("[-.]", "_", name.lower()), look


def _require_distinct_keys(agreement: Agreement) -> None:
    members = agreement.members
    _require_unique("member signing_key", [m.signing_key.hex() for m in members if m.signing_key])
    _require_unique("member transport_key", [m.transport_key for m in members if m.transport_key])


def _require_no_resource_named_payment(agreement: Agreement) -> None:
    """Refuse a resource whose claims would be taken for claims to payments."""
    for resource in agreement.resources if agreement.masked else ():
        if resource.name.lower() == "payment":
            raise BadAgreement(
                f"resource {resource.name!r} has the name of the claims to payments; choose "
                "another name"
            )


def _require_matching_opposites(resources: tuple[Resource, ...]) -> None:
    """Refuse an opposite of a resource that does not exist, is an opposite itself, or has two."""
    plain = [r.name for r in resources if not r.opposite]
    for resource in resources:
        if resource.opposite and resource.opposite not in plain:
            raise BadAgreement(
                f"resource {resource.name!r} is the opposite of {resource.opposite!r}, which must "
                "be another resource that is no opposite itself"
            )
    _require_unique("opposite", [r.opposite for r in resources if r.opposite])


def _require_worth_for_step(agreement: Agreement) -> None:
    step = agreement.pricing.step
    for resource in agreement.resources:
        if step in ("ball", "worth", "theorem") and not resource.worth:
            raise BadAgreement(
                f"prices.step is {step!r}, but resource {resource.name!r} has no positive worth: "
                "estimate the value of its whole capacity, or choose another step"
            )


def _require_ball_terms(agreement: Agreement) -> None:
    """Refuse the step `ball` without noisy totals, and terms that contradict or need it."""
    spare = [r.name for r in agreement.resources if r.spare is not None]
    if not agreement.ball:
        if spare:
            raise BadAgreement(
                f"resource {spare[0]!r} has a spare fraction, which only the step 'ball' uses; "
                "leave it out, or choose mode 'private' with reveal = 'totals'"
            )
        return
    if agreement.privacy is None or agreement.mode != "private" or not agreement.masked:
        raise BadAgreement(
            "prices.step is 'ball', which is for mode 'private' with reveal = 'totals'; change "
            "these, or choose another step"
        )
    if agreement.privacy.noise != "component":
        raise BadAgreement(
            f"privacy.noise is {agreement.privacy.noise!r}, but the step 'ball' has noise of its "
            "own shape; leave it out"
        )
    if not any(agreement.pricing.start):
        raise BadAgreement(
            "prices.start is zero, but the step 'ball' changes prices by factors; choose 'worth'"
        )


def _require_floors_below_shares(agreement: Agreement, j: int) -> None:
    for member in agreement.members:
        if member.floor and member.floor[j] > member.share[j]:
            raise BadAgreement(
                f"member {member.name!r} has the floor {member.floor[j]:g} in resource "
                f"{agreement.resources[j].name!r}, above its share of {member.share[j]:g}; lower "
                "the floor or raise the share"
            )


def _require_capacity_above_floors(agreement: Agreement, j: int) -> None:
    above, (least, most) = agreement.above_floors(j), CAPACITY_RANGE
    if not least <= above <= most:
        raise BadAgreement(
            f"the floors in resource {agreement.resources[j].name!r} leave {above:g} of it to "
            f"share, which must be from {least:g} to {most:g}; change the floor of some member"
        )


def _require_shares_cover_capacity(agreement: Agreement, j: int) -> None:
    if sum(agreement.share_ticks_of(m, j) for m in agreement.members) < agreement.ticks:
        raise BadAgreement(
            f"the shares in resource {agreement.resources[j].name!r} add up to less than 1, so "
            "some of it could never be used; raise the share of some member"
        )


def _all_have_endowments(agreement: Agreement) -> bool:
    """Whether endowments are stated. Refuses them for some members only."""
    with_one = [m.name for m in agreement.members if m.endowment]
    without = [m.name for m in agreement.members if not m.endowment]
    if with_one and without:
        raise BadAgreement(
            f"member {with_one[0]!r} has an endowment and {without[0]!r} has none; give one to "
            "every member, or to none: then endowments are in proportion to the shares"
        )
    return bool(with_one)


def _require_endowments_add_up(agreement: Agreement, j: int) -> None:
    resource = agreement.resources[j]
    total = math.fsum(m.endowment[j] for m in agreement.members)
    expected = resource.capacity / resource.measure
    if abs(total - expected) > ENDOWMENT_TOLERANCE:
        raise BadAgreement(
            f"the endowments in resource {resource.name!r} add up to {total:.12g}: they are what "
            f"the members bring of it, and must add up to {expected:.12g}"
        )


def _require_endowments_within_bands(agreement: Agreement, j: int) -> None:
    name = agreement.resources[j].name
    for member in agreement.members:
        brings = member.endowment[j]
        if member.floor and brings < member.floor[j]:
            raise BadAgreement(
                f"member {member.name!r} brings {brings:g} of resource {name!r}, below its floor "
                f"of {member.floor[j]:g}; lower the floor"
            )
        if brings > member.share[j]:
            raise BadAgreement(
                f"member {member.name!r} brings {brings:g} of resource {name!r} and may claim "
                f"only {member.share[j]:g}; raise its share"
            )


def _require_unique(kind: str, values: list[str]) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise BadAgreement(f"{kind} {value!r} appears more than once; each must be different")
        seen.add(value)
