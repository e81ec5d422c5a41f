"""Units do not matter: in litres or barrels, companies get equal quotas for equal money."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from msgspec import Struct
from msgspec.structs import replace

from party.model.scaling import rescaled
from party.rehearsal.in_process import players, run
from protocol.agreement.parse import from_table
from protocol.agreement.quantities import quantities
from protocol.numeric import Floats
from protocol.outcome.outcome import Outcome, outcome
from scripts.lab.common.agreements import players as roster
from scripts.lab.common.agreements import table
from scripts.lab.common.instances import Instance, central, draw
from scripts.lab.simulate import settled

WORTH = np.array([900.0, 300.0, 500.0])
FACTORS = [
    pytest.param([1e-3, 1e-3, 1e-3], id="kilo"),
    pytest.param([1e6, 1e6, 1e6], id="micro"),
    pytest.param([1e-3, 7.0, 1e6], id="mixed"),
]


def in_units(instance: Instance, factors: Floats) -> Instance:
    """These companies with each resource in another unit."""
    return replace(
        instance,
        capacity=instance.capacity * factors,
        data=tuple(rescaled(data, factors) for data in instance.data),
    )


class SettledSession(Struct, frozen=True):
    """A session and the companies' settlements."""

    result: Outcome
    figures: dict[str, Any]

    @property
    def money(self) -> Floats:
        """The prices of the outcome for each whole capacity."""
        return self.result.prices * quantities(self.result.agreement).capacity

    @property
    def parts(self) -> Floats:
        return self.result.quota / self.result.agreement.ticks


def play(instance: Instance, mode: str, **prices: Any) -> SettledSession:
    """Run a session of this mode with its defaults, and with seeded noise if there is any."""
    count = len(instance.data)
    privacy = {} if mode == "exact" else {"epsilon": 64.0, "delta": 1e-3}
    agreement = from_table(
        table(
            session="units",
            mode=mode,
            rounds=60,
            capacity=instance.capacity,
            share=instance.share,
            members=roster(count),
            worth=WORTH,
            privacy=privacy,
            prices=prices,
            rehearsal=True,
        )
    )
    with players(agreement, instance.subproblems(), 3) as members:
        run(members)
        result = outcome(agreement, members[0].ledger.transcript())
    return SettledSession(result, settled(result, instance, central(instance).utility))


@cache
def usual(seed: int, mode: str) -> SettledSession:
    """The session in its own units, played once."""
    return play(draw(seed, parties=8, resources=3, demands=False), mode)


@pytest.mark.parametrize("factors", FACTORS)
@pytest.mark.parametrize(("mode", "step"), [("exact", "center"), ("private", "worth")])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_outcome_is_the_same_in_other_units(
    seed: int, mode: str, step: str, factors: list[float]
) -> None:
    """With default rules, prices in money, quotas in fractions, payments and utilities agree."""
    instance = draw(seed, parties=8, resources=3, demands=False)
    one, other = usual(seed, mode), play(in_units(instance, np.array(factors)), mode)
    assert one.result.agreement.pricing.step == step
    assert one.result.rounds == other.result.rounds
    worth = one.money.sum()
    assert worth > 0.0
    assert other.money == pytest.approx(one.money, abs=1e-6 * worth)
    assert other.parts == pytest.approx(one.parts, abs=1e-6)
    assert other.result.payments == pytest.approx(one.result.payments, abs=1e-6 * worth)
    for name in ("quota_utility", "prorata_utility"):
        assert other.figures[name] == pytest.approx(one.figures[name], rel=1e-6)


def test_the_step_of_the_paper_depends_on_units() -> None:
    """The test above would fail with the step `theorem`, as the paper defines it."""
    instance = draw(1, parties=8, resources=3, demands=False)
    one = play(instance, "private", step="theorem")
    other = play(in_units(instance, np.array([1e-3, 7.0, 1e6])), "private", step="theorem")
    assert not np.allclose(other.money, one.money, rtol=0.1)
