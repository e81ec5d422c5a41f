"""Members that copy mask keys, against real processes: they are refused and read nothing.

The attack succeeds against parties without the defences, so these tests can fail.
"""

from typing import Any

import pytest

from scripts.lab.attack.masks import CASES, Case, attacked

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]

ONE, TWO, DIFFERENCE = CASES[0], CASES[5], CASES[6]


def named(cases: tuple[Case, ...]) -> list[Any]:
    return [pytest.param(case, id=case.name.replace(" ", "-").replace(",", "")) for case in cases]


@pytest.mark.parametrize("case", named(CASES))
def test_a_copied_key_is_refused_and_nothing_is_released(case: Case) -> None:
    """Every honest member drops and reports the key, even if the relay passes it on."""
    figures = attacked(case, "relay", "nothing", seed=1)
    honest = [name for name in case.roster if name not in case.copies]
    assert figures["refused"] == sorted(honest)
    assert figures["numbers"] == figures["read"] == 0


def test_a_copied_key_is_refused_in_a_mesh_too() -> None:
    """Each member checks for itself, without a relay."""
    figures = attacked(ONE, "mesh", "nothing", seed=1)
    assert figures["refused"] == ["o", "v"]
    assert figures["numbers"] == 0


@pytest.mark.parametrize("case", named((ONE, TWO, DIFFERENCE)))
def test_without_proofs_the_names_of_pairs_still_hide_every_number(case: Case) -> None:
    """The session ends, and the attackers' sums reveal no number of a victim."""
    figures = attacked(case, "relay", "proof", seed=1)
    assert figures["numbers"] == 12
    assert figures["read"] == 0


@pytest.mark.parametrize("case", named((ONE, TWO, DIFFERENCE)))
def test_without_both_defences_the_attack_reads_every_number(case: Case) -> None:
    """The control: the attack succeeds where pair hashes have no names."""
    figures = attacked(case, "relay", "both", seed=1)
    assert figures["numbers"] == figures["read"] == 12
