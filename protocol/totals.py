"""What can be read where releases are masked: the totals of all members, and nothing else.

Here is what everybody needs to read them: the head that the mask keys lead to, and whether a
total can be one. The masks are made in `party.masks`; no key and no secret comes here. What
members make of the totals is in `parts`. SPEC.md §18.
"""

import hashlib
from collections.abc import Sequence

from protocol.agreement import Agreement
from protocol.arrays import Ticks
from protocol.errors import ImpossibleTotal
from protocol.messages import VALUE_LIMIT, MaskKey


def session_id(head: bytes, keys: Sequence[MaskKey]) -> bytes:
    """The chain hash after the exchange of mask keys, which are in roster order.

    `head` is the hash before it, which covers the agreement and the first prices. All later hashes
    and all masks depend on the session id. So parties that hold different keys, or different
    proofs, find out in the first round.
    """
    said = b"".join(k.key + k.proof for k in keys)
    return hashlib.sha256(b"sotto session 2\n" + head + said).digest()


class Possible:
    """What the members of an agreement can say together, in ticks of each resource."""

    def __init__(self, agreement: Agreement) -> None:
        self._members = len(agreement.members)
        self._least, self._most = _range(agreement)

    def require(self, totals: Ticks, round: int) -> None:  # noqa: A002
        """Refuse totals that so many members cannot have said together.

        Where masks do not cancel, a total is any of 2^64 numbers, all alike; hardly any passes
        here. Nobody can be named for it: that is what masks are for.
        """
        said = zip(totals.tolist(), self._least, self._most, strict=True)
        if not all(low <= total <= high for total, low, high in said):
            raise ImpossibleTotal(
                f"the releases of round {round} add up to what {self._members} members "
                "cannot have said: at least one was not masked as agreed, and nobody can tell "
                "which. The round is not closed"
            )


def _range(agreement: Agreement) -> tuple[list[int], list[int]]:
    """The least and the largest total of each resource."""
    if agreement.privacy is None:
        most = agreement.share_ticks.sum(axis=0).tolist()
        return [0] * len(most), most
    limit = len(agreement.members) * VALUE_LIMIT
    return [-limit] * len(agreement.resources), [limit] * len(agreement.resources)
