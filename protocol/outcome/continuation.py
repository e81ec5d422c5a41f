"""The next agreement of a series: the terms of the last session, its prices, other capacities.

A pure function of public numbers. The convener writes the next agreement with it, and every party
that follows the series computes it again and joins no other. Never here: files, or whether the
members approved.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from protocol.agreement.model import Agreement, Pricing
from protocol.outcome.outcome import Outcome
from protocol.pricing.rule import rounds_to_carry


def next_prices(outcome: Outcome, *, carries: bool) -> Pricing:
    """The price terms of a session that starts at the prices of an outcome.

    With `carries` it also takes the rounds along that an exact session can go on from.
    """
    old = outcome.agreement
    return replace(
        old.pricing,
        start=tuple(outcome.prices.tolist()),
        earlier=rounds_to_carry(old, outcome.state.prices) if carries else (),
    )


def next_agreement(
    last: Outcome | Agreement, *, session: str, capacities: Mapping[str, float]
) -> Agreement:
    """The agreement of the next session, after an outcome or from the prices of an agreement.

    A resource without a new capacity keeps its own. Worths follow capacities, so that a unit is
    worth the same. Rounds are carried along only if no capacity changes: they count in fractions
    of the old ones.
    """
    old = last if isinstance(last, Agreement) else last.agreement
    resources = tuple(
        resource.with_capacity(capacities.get(resource.name, resource.capacity))
        for resource in old.resources
    )
    same = resources == old.resources
    if isinstance(last, Agreement):
        pricing = old.pricing if same else replace(old.pricing, earlier=())
    else:
        pricing = next_prices(last, carries=same)
    return replace(old, session=session, resources=resources, pricing=pricing)
