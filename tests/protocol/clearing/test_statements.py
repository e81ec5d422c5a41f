"""Claims after sessions with noise: what is checked, what is not, and the levy by endowment."""

import random
from argparse import Namespace
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from party.release.allocation import own_allocation
from party.release.commitments import committed_numbers
from party.release.noise import SeededGaussian
from protocol.agreement.endowment import endowment
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.clearing.claims import NO_RECIPIENT, Claim, recipient_of, verified
from protocol.clearing.settle import from_claims, from_transcript
from protocol.clearing.statements import limits, money_grain
from protocol.commitment.layout import PAYMENT_OFFSET
from protocol.errors import BadClaim, BadCommand
from protocol.outcome.outcome import Outcome, outcome
from protocol.outcome.private_quota import Allocation
from protocol.report.allocation import LEVY_WARNING
from protocol.report.settlement import (
    payments_csv,
    problems,
    settlement_figures,
    settlement_page,
)
from protocol.settle_command import cleared, settle
from tests.support.builders import make_agreement, play, public_key, signing_key
from tests.support.committed_sessions import play_until_over

NAMES = ("ada", "ben", "cyd", "dan", "eve")
PARTS = (0.1, 0.3, 0.2, 0.2, 0.2)


def agree(resources: int = 2, **fields: Any) -> Agreement:
    """A session with noise and totals of five members that bring different parts."""
    members = [
        {"name": name, "signing_key": public_key(name).hex(), "share": 0.7, "endowment": part}
        for name, part in zip(NAMES, PARTS, strict=True)
    ]
    return make_agreement(
        **{
            "mode": "private",
            "reveal": "totals",
            "rehearsal": True,
            "rounds": 6,
            "prices": {},
            "currency": "EUR",
            "member": members,
            "resource": [
                {"name": f"r{j}", "capacity": 100.0, "worth": 1000.0} for j in range(resources)
            ],
            "privacy": {"epsilon": 40.0, "delta": 0.001},
            **fields,
        }
    )


TICK = 1 << 9
"""Grains of money that one tick of a resource is worth at most."""

BALL = agree()
PAPER = agree(prices={"step": "worth"})
STILL = agree(privacy={"epsilon": 0.5, "delta": 0.001})  # too much noise to trade anything
BANDS = agree(
    member=[
        {"name": name, "signing_key": public_key(name).hex(), "floor": -0.2, "share": 0.7}
        | {"endowment": part}
        for name, part in zip(NAMES, PARTS, strict=True)
    ]
)


def session(
    agreement: Agreement, seed: int, wanted: Callable[[], float] | None = None
) -> tuple[Outcome, list[Allocation]]:
    """The outcome of a session with seeded noise, and what each member may use and pays."""
    played = play_until_over(agreement, seed, noise=SeededGaussian(seed), wanted=wanted)
    known = played.sealed()
    own = [own_allocation(known, n, s) for n, s in zip(NAMES, played.ledgers, strict=True)]
    return known, [one for one in own if one is not None]


def stated(known: Outcome, own: list[Allocation], place: int, index: int) -> Claim:
    """The true claim of a member."""
    numbers = committed_numbers(known, replace(own[place], uncut=None))
    return Claim(
        agreement=known.agreement.digest,
        chain_hash=known.state.chain_hash,
        place=place,
        index=index,
        recipient=recipient_of(known.agreement, index),
        number=numbers[index],
        blinding=0,
    )


def signed(claim: Claim) -> bytes:
    return claim.text + signing_key(NAMES[claim.place]).sign(claim.text).signature


def extremes(seed: int) -> Callable[[], float]:
    """Answers of companies that want all of a capacity, or nothing."""
    chance = random.Random(seed)
    return lambda: float(chance.random() < 0.5)


@pytest.mark.parametrize(
    "agreement", [BALL, PAPER, STILL, BANDS], ids=["ball", "paper", "nothing traded", "bands"]
)
@pytest.mark.parametrize("seed", range(4))
def test_true_claims_of_all_members_settle_to_the_cent(agreement: Agreement, seed: int) -> None:
    """No honest member is above a limit, and payments with the levy add up to zero exactly."""
    known, own = session(agreement, seed, extremes(seed))
    claims = [
        verified(known, signed(stated(known, own, place, index)))
        for place in range(len(NAMES))
        for index in range(3)
    ]
    clearing = from_claims(known, claims, {})
    assert sum(clearing.payments.values()) == 0
    assert clearing.levy == -sum(clearing.stated.values())
    for name, allocation in zip(NAMES, own, strict=True):
        assert abs(clearing.stated[name] - allocation.payment * 100) < 2
    *_, paid = clearing.sums
    assert paid.fits


def test_levy_is_spread_in_proportion_to_endowments() -> None:
    """Members bear the levy in proportion to the worth of their endowments, to the cent."""
    known, own = session(BALL, 3)
    clearing = from_claims(known, [stated(known, own, k, 2) for k in range(len(NAMES))], {})
    assert abs(clearing.levy) > 100
    assert payments_csv(clearing).count("stated,") == len(NAMES)
    assert "its part of the levy" in settlement_page(clearing, [])
    money = (known.prices * quantities(BALL).capacity).tolist()
    worths = [sum(y * e for y, e in zip(money, row, strict=True)) for row in endowment(BALL)]
    for name, worth in zip(NAMES, worths, strict=True):
        part = clearing.payments[name] - clearing.stated[name]
        assert abs(part - clearing.levy * worth / sum(worths)) <= 2


@pytest.fixture(scope="module")
def greedy() -> tuple[Outcome, list[Allocation]]:
    """One resource, of which ada always asks for all, and the others for nothing."""
    turns: Iterator[float] = cycle([1.0, 0.0, 0.0, 0.0, 0.0])
    return session(agree(resources=1), 5, lambda: next(turns))


def test_limits_are_reached_and_no_higher(greedy: tuple[Outcome, list[Allocation]]) -> None:
    """A member that asks for all it can may claim no more than it has, except for rounding."""
    known, own = greedy
    quota, payment = (stated(known, own, 0, index).number for index in (0, 1))
    assert quota <= limits(known, 0, 0)[1] <= quota + 3
    highest = limits(known, 0, 1)[1]
    assert payment <= highest <= payment + TICK
    seller = stated(known, own, 1, 1).number
    lowest = limits(known, 1, 1)[0]
    assert seller - TICK <= lowest <= seller < PAYMENT_OFFSET


MORE, SESSION = "than its share", "another session"
LIES: dict[str, tuple[str, Callable[[Claim], Claim]]] = {
    "three grains more": (MORE, lambda c: replace(c, number=c.number + 3)),
    "a blinding": (MORE, lambda c: replace(c, blinding=1)),
    "another member": ("did not sign", lambda c: replace(c, place=1)),
    "another session": (SESSION, lambda c: replace(c, chain_hash=bytes(32))),
    "another agreement": (SESSION, lambda c: replace(c, agreement=bytes(32))),
    "another recipient": ("another recipient", lambda c: replace(c, recipient=b"r" * 32)),
    "no such resource": ("does not have", lambda c: replace(c, index=2)),
    "a payment beyond all": (MORE, lambda c: replace(c, index=1, number=(1 << 29) - 1)),
    "a payment far below": (MORE, lambda c: replace(c, index=1, number=0)),
}


@pytest.mark.parametrize(("why", "lie"), LIES.values(), ids=LIES.keys())
def test_claim_beyond_the_limits_or_of_elsewhere_is_refused(
    greedy: tuple[Outcome, list[Allocation]], why: str, lie: Callable[[Claim], Claim]
) -> None:
    """Above its limit, or for another session, member or recipient, no signature helps."""
    known, own = greedy
    false = lie(stated(known, own, 0, 0))
    data = false.text + signing_key("ada").sign(false.text).signature
    with pytest.raises(BadClaim, match=why):
        verified(known, data)


def test_false_claim_within_its_limits_is_not_seen_and_all_bear_it() -> None:
    """A member that states a lower payment passes; the levy takes it from all by endowment.

    This is what noise costs, and the sheet says so.
    """
    known, own = session(BALL, 4)
    claims = [stated(known, own, k, 2) for k in range(len(NAMES))]
    honest = from_claims(known, claims, {})
    grains = int(Fraction(5) / money_grain(known))
    claims[0] = replace(claims[0], number=claims[0].number - grains)
    verified(known, signed(claims[0]))
    lied = from_claims(known, claims, {})
    assert not problems(lied)
    assert sum(lied.payments.values()) == 0
    won = honest.payments["ada"] - lied.payments["ada"]
    assert won == pytest.approx(500 * (1 - PARTS[0]), abs=3)
    assert all(lied.payments[n] >= honest.payments[n] for n in NAMES[1:])
    assert "cannot be seen" in settlement_page(lied, [])


def test_sums_that_cannot_be_are_reported() -> None:
    """Members that all state their highest numbers are seen together, and none is named."""
    known, own = session(agree(privacy={"epsilon": 100.0, "delta": 0.001}), 4)
    claims = [
        replace(stated(known, own, k, index), number=limits(known, k, index)[1])
        for k in range(len(NAMES))
        for index in range(3)
    ]
    for claim in claims:
        verified(known, signed(claim))
    clearing = from_claims(known, claims, {})
    lines = problems(clearing)
    assert len(lines) == 3
    assert "quotas of r0 are above what is available" in lines[0]
    assert "states a false payment" in lines[-1]
    assert not any(name in line for name in NAMES for line in lines)
    figures = settlement_figures(clearing, [])
    assert [one["fits"] for one in figures["sums"]] == [False, False, False]
    assert figures["unchecked"]


def test_spare_capacity_counts_in_the_sum_of_quotas() -> None:
    """Quotas above the capacity and within its spare fraction fit."""
    resource = {"name": "r0", "capacity": 100.0, "worth": 1000.0, "spare": 0.1}
    known, own = session(agree(resource=[resource]), 2)
    for share, fits in ((1.05, True), (1.15, False)):
        part = share / len(NAMES)
        claims = [
            replace(stated(known, own, k, 0), number=int(part * known.agreement.ticks))
            for k in range(len(NAMES))
        ]
        (one,) = from_claims(known, claims, {}).sums
        assert one.fits == fits


def test_with_the_papers_step_a_lone_false_payment_shows_in_the_sum() -> None:
    """There payments add up to zero, so that noise hides nothing of the sum."""
    known, own = session(PAPER, 1)
    claims = [stated(known, own, k, 2) for k in range(len(NAMES))]
    assert not problems(from_claims(known, claims, {}))
    claims[0] = replace(claims[0], number=claims[0].number - 2 * len(NAMES))
    assert problems(from_claims(known, claims, {}))


@pytest.mark.parametrize("seed", [0, 1])
def test_with_the_papers_step_a_cent_of_rounding_accuses_nobody(seed: int) -> None:
    """Also if noise would leave nothing to trade with the step `ball`."""
    noisy = agree(prices={"step": "worth"}, privacy={"epsilon": 0.5, "delta": 0.001})
    known, own = session(noisy, seed, extremes(seed))
    clearing = from_claims(known, [stated(known, own, k, 2) for k in range(len(NAMES))], {})
    assert abs(clearing.levy) == 1 - seed
    assert LEVY_WARNING not in settlement_page(clearing, [])


def test_public_releases_with_noise_need_no_claims() -> None:
    """With `each` everything follows from the transcript, and adds up to zero."""
    agreement = agree(reveal="each", rehearsal=False)
    clearing = from_transcript(outcome(agreement, play(agreement)[0]))
    assert sum(clearing.payments.values()) == 0
    assert set(clearing.quotas) == {"r0", "r1"}
    assert "follows from the signed releases" in settlement_page(clearing, [])


def test_missing_claims_leave_no_levy() -> None:
    """Without the payments of all members nothing is spread, and no transfer is written."""
    known, own = session(BALL, 1)
    clearing = from_claims(known, [stated(known, own, k, 2) for k in range(4)], {})
    assert clearing.missing == {"": ("eve",)}
    assert clearing.levy == 0
    assert clearing.transfers == ()
    assert clearing.payments == clearing.stated
    assert recipient_of(BALL, 2) == NO_RECIPIENT


def test_member_that_signs_two_numbers_is_named_and_neither_counts(tmp_path: Path) -> None:
    """The order of the files must not choose between two statements; copies count once."""
    known, own = session(BALL, 1)
    claims = [stated(known, own, k, 2) for k in range(len(NAMES))]
    files = [tmp_path / f"{place}.claim" for place in range(len(NAMES) + 2)]
    for file, claim in zip(files, claims, strict=False):
        file.write_bytes(signed(claim))
    files[-2].write_bytes(signed(replace(claims[0], number=claims[0].number - 1)))
    files[-1].write_bytes(files[1].read_bytes())
    for order in (files, files[::-1]):
        clearing = cleared(known, order, None)
        assert clearing.missing == {"": ("ada",)}
        different = [name for name, why in clearing.refused.items() if "different numbers" in why]
        assert sorted(different) == sorted([str(files[0]), str(files[-2])])
        assert sum("counts once" in why for why in clearing.refused.values()) == 1


def test_a_second_number_of_a_settled_member_is_reported(tmp_path: Path) -> None:
    """The settlement stays as it is, and the error says which member has signed two numbers."""
    known, own = session(BALL, 1)
    claims = [stated(known, own, k, 2) for k in range(len(NAMES))]
    files = [tmp_path / f"{place}.claim" for place in range(len(NAMES))]
    for file, claim in zip(files, claims, strict=True):
        file.write_bytes(signed(claim))
    options = Namespace(claims=files, key=None, used=None, out=tmp_path / "settled")
    settle(options, known)
    before = (tmp_path / "settled" / "settlement.json").read_bytes()
    second = tmp_path / "second.claim"
    second.write_bytes(signed(replace(claims[0], number=claims[0].number - 1)))
    with pytest.raises(BadCommand, match="'ada' has signed different numbers") as refused:
        settle(Namespace(**{**vars(options), "claims": [*files, second]}), known)
    assert "the payment of 'ada'" in str(refused.value)
    assert (tmp_path / "settled" / "settlement.json").read_bytes() == before
