"""What a member gained in trials by answering for another company, by number of members.

A public table that was measured beforehand, and the sentences of `protocol plan` and `party
rehearse` about it. Proofs and all measurements: docs/incentives.md. Never here: private numbers.
"""

from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities

FEW = 10
"""With fewer members than this, texts warn that a lie can pay."""

WIDE = 2.0
"""Texts warn of shares above this many equal parts, however many members there are."""


class Lies(Struct, frozen=True):
    """What lies brought among this many members without noise.

    Each figure is a percentage of what the liar earns honestly, after its payment.
    """

    members: int
    #: The best lie against the partners it met: half of the sessions, and the highest of all.
    hindsight_median: float
    hindsight_most: float
    #: The lie that was best against other partners. Below 0 it cost the liar money.
    beforehand_median: float
    beforehand_most: float


MEASURED = (
    Lies(3, 8.75, 68.5, 0.2, 43.0),
    Lies(5, 0.31, 46.9, -0.36, 30.1),
    Lies(8, 0.04, 33.0, 0.0, 12.9),
    Lies(10, 0.09, 52.6, -0.01, 8.6),
    Lies(20, 0.03, 30.9, -0.01, 30.9),
    Lies(50, 0.06, 186.4, 0.02, 98.5),
)
"""From `scripts/attack shading --only exact --liars 6 --sets 4`, to the digits of its table.

Every member may claim all of each capacity there.
"""


def lies_among(members: int) -> Lies:
    """The measured row for the most members that are not more than these; otherwise the first."""
    return next((row for row in reversed(MEASURED) if row.members <= members), MEASURED[0])


def incentives(agreement: Agreement) -> dict[str, Any]:
    """What to expect of lies among the members of an agreement: figures and sentences."""
    row = lies_among(len(agreement.members))
    return {**asdict(row), "text": expectation(row), "warning": warning(agreement)}


def expectation(row: Lies) -> str:
    """What lies brought in trials, in short sentences."""
    return (
        "A member can answer for another company, and no check can find that. "
        f"In trials without noise among {row.members} members, the best lie earned its member up "
        f"to {row.hindsight_most:g} % more than the truth, and "
        f"{_in_half(row.hindsight_median)}. "
        "To choose that lie, a member must know its partners. A member that chose its lie with "
        f"other partners earned up to {row.beforehand_most:g} % more, and "
        f"{_in_half(row.beforehand_median)}."
    )


def warning(agreement: Agreement) -> str | None:
    """A warning where a lie can pay well: few members, or wide shares. Otherwise None."""
    count = len(agreement.members)
    helps = "narrow shares, and endowments near what each member uses, make it pay less"
    if count < FEW:
        return f"with fewer than {FEW} members a lie can pay. More members, {helps}"
    if float(quantities(agreement).share.max()) * count > WIDE:
        return (
            f"a member may claim more than {WIDE:g} times an equal part of a capacity. A member "
            f"that trades so much can gain by a lie even among many: {helps}"
        )
    return None


def _in_half(median: float) -> str:
    less = f"lost {-median:g} % or more" if median < 0.0 else f"{median:g} % or less"
    return f"{less} in half of the sessions"
