"""The check of all members' commitments together: proofs of each, and the sum of all.

Everyone computes the same result from the same messages. Never here: an opening or a number of
a single member.
"""

import hashlib
from collections.abc import Sequence

from msgspec import Struct

from protocol.agreement.model import Agreement
from protocol.commitment.group import IDENTITY, VALUE_BASE, add, multiply, subtract, total
from protocol.commitment.layout import PAYMENT_OFFSET, grain_ticks, widths
from protocol.commitment.range_proof import Statement, invalid, parse


class Committed(Struct, frozen=True):
    """The commitments of all members, after their exchange. Public."""

    #: The chain hash after the last round, which every proof names.
    head: bytes
    #: Members by numbers: a quota of each resource, then the payment.
    points: tuple[tuple[bytes, ...], ...]
    #: Whether all numbers add up as they must. If not, claims prove nothing.
    adds_up: bool


def statement(
    agreement: Agreement, head: bytes, place: int, points: tuple[bytes, ...]
) -> Statement:
    """What the member at this place of the roster proves about its points.

    Guarantee: the proof is valid for this agreement, session, member and order of resources only.
    """
    context = agreement.digest + head + place.to_bytes(4, "big")
    sizes = widths(len(agreement.resources))
    return Statement(context=context, points=points, widths=sizes)


def without_proof(
    agreement: Agreement, head: bytes, commitments: Sequence[tuple[tuple[bytes, ...], bytes]]
) -> list[int]:
    """The places of members whose proof does not hold. Each gives its points and its proof."""
    claims = [
        (statement(agreement, head, place, points), parse(proof))
        for place, (points, proof) in enumerate(commitments)
    ]
    return invalid(claims)


def committed_hash(head: bytes, commitments: Sequence[tuple[tuple[bytes, ...], bytes]]) -> bytes:
    """The chain hash after the exchange, which seals are under.

    Each member gives its points and the hash of its proof.
    """
    content = b"".join(b"".join(points) + proof_hash for points, proof_hash in commitments)
    return hashlib.sha256(b"sotto committed 1\n" + head + content).digest()


def adds_up(agreement: Agreement, points: Sequence[tuple[bytes, ...]]) -> bool:
    """Whether the quotas of each resource fill the capacity, and all payments add up to zero.

    Exact quotas add up to the capacity. Each is rounded down to grains, so the sum is up to one
    grain per member less. Exact payments add up to zero. Each is rounded to units of money and then
    to grains, so the sum is off by half a grain per member, and a little more. The blindings of all
    members add up to zero. So the sum of their points is a multiple of the value base, and only a
    few multiples are possible.

    Guarantee: a member that alone commits to other numbers than it should gains at most one grain
    per member of each resource. In money it gains at most one grain per member, and four more.
    """
    count = len(agreement.members)
    columns = list(zip(*points, strict=True))
    capacity = agreement.ticks // grain_ticks(agreement)
    slack, resources = count // 2 + 2, len(agreement.resources)
    lowest = [capacity - count] * resources + [count * PAYMENT_OFFSET - slack]
    ranges = [count] * resources + [2 * slack]
    multiples, point = {IDENTITY: 0}, IDENTITY
    for multiple in range(1, max(ranges) + 1):
        point = add(point, VALUE_BASE)
        multiples[point] = multiple
    above = (
        multiples.get(subtract(total(column), multiply(least, VALUE_BASE)))
        for column, least in zip(columns, lowest, strict=True)
    )
    return all(
        found is not None and found <= most for found, most in zip(above, ranges, strict=True)
    )
