"""Which terms of two agreements differ: all of them, in words, and nothing else."""

import random
from pathlib import Path

import pytest
from msgspec.structs import replace

from protocol.agreement.differences import differences, in_words
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.agreement.render import COMMENTS, written
from protocol.errors import BadAgreement
from tests.reference.random_agreements import drawn, spoiled
from tests.support.builders import make_agreement
from tests.support.commands import run_module


def words(first: Agreement, second: Agreement) -> list[str]:
    return [difference.words for difference in differences(first, second)]


def test_the_same_terms_do_not_differ() -> None:
    """An agreement equals what its own file says, for all that the format allows."""
    for seed in range(200):
        agreement = from_table(drawn(random.Random(seed)))
        assert differences(agreement, from_table(drawn(random.Random(seed)))) == []


def test_digests_differ_exactly_if_a_binding_term_does() -> None:
    """No change of a term is left out, and none is invented."""
    chance, changed, compared = random.Random(11), 0, 0
    while compared < 200:
        table = drawn(chance)
        try:
            other = from_table(spoiled(chance, table))
        except BadAgreement:
            continue
        first, compared = from_table(table), compared + 1
        binding = any(difference.binding for difference in differences(first, other))
        assert binding == (first.digest != other.digest)
        changed += binding
    assert 20 < changed <= compared


def test_each_difference_names_the_term_and_both_values() -> None:
    """People read what was changed, for whom, and what the term means."""
    first = make_agreement(rounds=3)
    member = replace(first.members[1], share=(0.5, 1.0), signing_key=b"\1" * 32)
    second = replace(
        first,
        rounds=5,
        members=(first.members[0], member, first.members[2]),
        resources=(replace(first.resources[0], capacity=12.0), first.resources[1]),
    )
    assert words(first, second) == [
        "rounds: 3 -> 5 (each member releases at most this many times)",
        "capacity of resource 'r0': 10 -> 12",
        f"share of member 'ben' in 'r0': 1 -> 0.5 ({COMMENTS['share']})",
        f"signing_key of member 'ben': {first.members[1].signing_key.hex()} -> {'01' * 32}",
    ]


def test_no_first_price_is_shown_where_none_is_stated() -> None:
    """The rule center does not begin at zeros, so the difference does not say that it did."""
    exact = make_agreement(prices={"step": "center"})
    later = replace(exact, pricing=replace(exact.pricing, start=(3.0, 4.0)))
    assert words(exact, later) == [
        "first price of resource 'r0': not stated -> 3",
        "first price of resource 'r1': not stated -> 4",
    ]
    assert "with the rule center: as the worths suggest" in COMMENTS["start"]


def test_another_member_is_one_difference() -> None:
    """A member that only one agreement has is left out or new, beside the new order."""
    first = make_agreement(members=3)
    found = words(first, make_agreement(members=2))
    assert found == [
        "the members, in this order: ada, ben, cyd -> ada, ben",
        "member 'cyd' is left out",
    ]
    assert words(make_agreement(members=2), first)[-1] == "member 'cyd' is new"


def test_addresses_do_not_count() -> None:
    """The digest leaves out addresses and patience, and so they bind no one."""
    first = make_agreement()
    second = replace(first, transport=replace(first.transport, patience_seconds=9.0))
    (difference,) = differences(first, second)
    assert not difference.binding
    assert first.digest == second.digest
    assert difference.words.startswith("transport.patience_seconds: 120 -> 9 ")


def test_long_lists_are_cut() -> None:
    """Of very many differences the first are shown, and how many more there are."""
    first = make_agreement(resources=60)
    second = replace(first, resources=tuple(replace(r, capacity=1.0) for r in first.resources))
    assert len(in_words(differences(first, second))) == 41
    assert in_words(differences(first, second))[-1] == "and 20 more"


@pytest.mark.parametrize(
    ("rounds", "code", "shown"),
    [
        (3, 0, ["the terms are the same"]),
        (7, 12, ["rounds: 3 -> 7", "1 term differs; agree on one file"]),
    ],
)
def test_the_command_says_it_and_ends_with_a_code(
    tmp_path: Path, rounds: int, code: int, shown: list[str]
) -> None:
    """`protocol diff` ends with 0 for the same terms and with 12 for others."""
    agreement = make_agreement(rounds=3)
    for name, one in (("a.toml", agreement), ("b.toml", replace(agreement, rounds=rounds))):
        (tmp_path / name).write_text(written(one))
    done = run_module("protocol", "diff", tmp_path / "a.toml", tmp_path / "b.toml")
    assert done.returncode == code
    assert all(text in done.stdout + done.stderr for text in shown)
    assert agreement.digest.hex() in done.stdout
