"""Plays random agreements with the product and with the reference implementation.

`scripts/environment python -m tests.reference.compare 1000` plays 1,000 agreements and prints how
many of each kind there were. It stops at the first bit that differs and names it.
"""

import json
import random
import sys
import tomllib
from collections import Counter
from contextlib import suppress
from typing import Any

import numpy as np

from protocol.agreement.endowment import prorata
from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.agreement.quantities import quantities
from protocol.agreement.render import written
from protocol.errors import BadAgreement, ImpossibleTotal
from protocol.outcome.member_allocation import member_allocation
from protocol.outcome.outcome import Outcome
from protocol.outcome.public_quota import weighted_quota
from protocol.privacy.ball import ball, clip
from protocol.rounds import RoundEngine, RoundState
from tests.reference import codec as reference
from tests.reference import rounds as reference_rounds
from tests.reference.agreement import Refused, Terms
from tests.reference.agreement import terms as parse_terms
from tests.reference.ball import Ball
from tests.reference.random_agreements import Crowd, Table, drawn, spoiled


def compare_one(seed: int) -> str:
    """Play one random agreement to some round, and return its kind.

    Raises `AssertionError` if product and reference differ.
    """
    chance = random.Random(seed)
    table = drawn(chance)
    where = f"seed {seed}: {json.dumps(table)}"
    agreement, terms = parse_both(table, where)
    if agreement is None or terms is None:
        raise AssertionError(f"both refuse a valid agreement: {where}")
    for _ in range(3):
        other = spoiled(chance, table)
        parse_both(other, f"seed {seed}, spoiled: {other!r}")
    parse_both(tomllib.loads(written(agreement)), f"seed {seed}, written")
    if agreement.masked and not agreement.ball:
        return "totals (terms only)"
    played = open_both(agreement, terms, where)
    if played is None:
        return "refused for its noise"
    engine, ref = played
    state, path, rows = engine.opening, [], []
    crowd = Crowd(chance, len(agreement.members), agreement.width)
    until = 0 if chance.random() < 0.05 else agreement.rounds
    while True:
        path.append(state.prices.current)
        now = f"round {state.round}, {where}"
        equal("prices", bits(state.prices.current), bits(ref.market.now), now)
        equal("caps", state.caps.tolist(), ref.caps, now)
        equal("head", state.chain_hash.hex(), ref.chain_hash.hex(), now)
        equal("over", state.over, ref.over, now)
        compare_certificates(state.certificate, ref.certificate, now)
        if state.over or state.round >= until:
            break
        money = [p * c for p, c in zip(ref.market.now, terms.capacity, strict=True)]
        row = crowd.released(terms.ticks, ref.caps, money)
        if ref.ball is not None and not both_close(engine, state, ref.ball, row, now):
            row = [ref.ball.demand(k, asked) for k, asked in enumerate(row)]
        rows.append(row)
        state = engine.advance(state, np.array(rows[-1], dtype=np.int64))
        ref.close(rows[-1])
    numbers = np.array(rows, dtype=np.int64)
    outcome = Outcome(
        agreement=agreement,
        state=state,
        released=numbers.reshape(-1, len(agreement.members), agreement.width),
        path=np.array(path),
        sealed=False,
    )
    if agreement.ball:
        compare_balls(outcome, ref, where)
        traded = "" if ref.ball is not None and any(map(any, ref.ball.A)) else ", nothing traded"
        return f"private ball{traded}"
    compare_outcomes(outcome, ref, where)
    turned = any(resource.opposite for resource in agreement.resources)
    bands = ", opposite" if turned else ", bands" if agreement.banded else ""
    return f"{agreement.mode} {agreement.pricing.step}{bands}"


def parse_both(table: Table, where: str) -> tuple[Agreement | None, Terms | None]:
    """The agreement as both read it, with one digest; None from each that refuses it."""
    agreement, terms, refused = None, None, ("", "")
    try:
        agreement = from_table(table)
    except BadAgreement as error:
        refused = (str(error), "")
    try:
        terms = parse_terms(table)
    except Refused as error:
        refused = (refused[0], f"{error}")
    if (agreement is None) != (terms is None):
        raise AssertionError(f"only one refuses it, {refused}: {where}")
    if agreement is not None and terms is not None:
        digest = reference.agreement_digest(reference.canonical(terms))
        equal("digest", agreement.digest.hex(), digest.hex(), where)
        equal("ticks", agreement.ticks, terms.ticks, where)
    return agreement, terms


def open_both(
    agreement: Agreement, terms: Terms, where: str
) -> tuple[RoundEngine, reference_rounds.RoundEngine] | None:
    """Both engines at the opening; None if both refuse the noise."""
    engine = ref = None
    with suppress(BadAgreement):
        engine = RoundEngine(agreement)
    with suppress(Refused):
        ref = reference_rounds.RoundEngine(terms)
    if (engine is None) != (ref is None):
        raise AssertionError(f"only one can play it: {where}")
    return None if engine is None or ref is None else (engine, ref)


def both_close(
    engine: RoundEngine, state: RoundState, theirs: Ball, rows: reference_rounds.Rows, where: str
) -> bool:
    """Whether a round with these releases closes, or its totals are impossible for both."""
    closes = True
    try:
        engine.advance(state, np.array(rows, dtype=np.int64))
    except ImpossibleTotal:
        closes = False
    totals = [sum(column) for column in zip(*rows, strict=True)]
    equal("possible", closes, theirs.possible(state.round, totals), where)
    return closes


def compare_certificates(ours: Any, theirs: Any, where: str) -> None:
    equal("certificate", ours is None, theirs is None, where)
    if ours is None:
        return
    equal("weights", list(ours.weights), theirs.weights, where)
    equal("average prices", bits(ours.prices), bits(theirs.prices), where)
    equal("bound", ours.bound.hex(), theirs.bound.hex(), where)
    equal("gap", ours.gap.hex(), theirs.gap.hex(), where)
    equal("fits", ours.fits, theirs.fits, where)


def compare_outcomes(outcome: Outcome, ref: reference_rounds.RoundEngine, where: str) -> None:
    if outcome.certificate is None:
        y, s = outcome.average
        equal(
            "averages",
            [bits(row) for row in y],
            [bits(row) for row in ref.average[0]],
            where,
        )
        equal(
            "their noise",
            [bits(row) for row in s],
            [bits(r) for r in ref.average[1]],
            where,
        )
    else:
        weights = outcome.certificate.weights
        ours = weighted_quota(outcome.agreement, outcome.released, weights)
        equal("quota by weights", ours.tolist(), ref.by_weights, where)
        compare_contradictions(outcome, ref.contradictions, where)
        obstacles = outcome.trade.obstacles if outcome.trade else ()
        equal("obstacles", list(map(str, obstacles)), ref.obstacles, where)
    equal("prices of the outcome", bits(outcome.prices), bits(ref.prices), where)
    equal("quota", outcome.quota.tolist(), ref.quota, where)
    equal("prorata", prorata(outcome.agreement).tolist(), ref.prorata, where)
    equal("endowment", outcome.endowment.tolist(), ref.endowment, where)
    equal("payments", bits(outcome.payments), bits(ref.payments), where)


def compare_balls(outcome: Outcome, ref: reference_rounds.RoundEngine, where: str) -> None:
    """Axes, centres, margins, clipped demands, quotas and payments of the step `ball`."""
    public, theirs = ball(outcome.agreement), ref.ball
    if theirs is None:
        raise AssertionError(f"the reference has no ball: {where}")
    equal("axes", public.axes.tolist(), theirs.A, where)
    equal("centers", public.center.tolist(), theirs.center, where)
    equal("margin", bits(public.margin), bits(theirs.M), where)
    equal("deviation", bits(public.deviation), bits(theirs.f), where)
    equal("prices of the outcome", bits(outcome.prices), bits(ref.prices), where)
    if not ref.rounds:
        return
    totals = [[sum(column) for column in zip(*rows, strict=True)] for rows in ref.rounds]
    equal("scale", list(outcome.rule.scale), theirs.theta(totals), where)
    caps = quantities(outcome.agreement).share_ticks
    for k in range(len(ref.terms.members)):
        asked = [rows[k] for rows in ref.rounds]
        own = [theirs.demand(k, row) for row in asked]
        inside = np.clip(np.array(asked, dtype=np.int64), 0, caps[k]).tolist()
        ours = [clip(row, theirs.center[k], theirs.A[k]) for row in inside]
        equal("demand", ours, own, where)
        demands = np.array(own, dtype=np.int64)
        made = member_allocation(outcome, k, demands=demands, unmasked=demands)
        equal("own quota", made.quota.tolist(), theirs.quota(k, own, totals), where)
        paid = theirs.payment(k, own, ref.path, ref.prices)
        equal("own payment", made.payment.hex(), paid.hex(), where)


def compare_contradictions(outcome: Outcome, theirs: list[float], where: str) -> None:
    """Another method finds the same amounts, up to rounding."""
    ours = {found.member: found.amount for found in outcome.inconsistencies}
    scale = float(np.abs(outcome.path * quantities(outcome.agreement).capacity).max()) or 1.0
    for member, amount in zip(outcome.agreement.members, theirs, strict=True):
        if abs(ours.get(member.name, 0.0) - amount) > 1e-9 * scale:
            equal("contradiction", ours.get(member.name, 0.0), amount, where)


def bits(values: Any) -> list[str]:
    """Floats in hexadecimal, so that equal texts mean equal bits."""
    return [float(value).hex() for value in values]


def equal(what: str, ours: Any, theirs: Any, where: str) -> None:
    if ours != theirs:
        raise AssertionError(f"{what}: product {ours}, reference {theirs}; {where}")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    kinds = Counter(compare_one(seed) for seed in range(count))
    for kind, number in sorted(kinds.items()):
        print(f"{number:6} {kind}")
    print(f"{count:6} agreements: product and reference agree in every bit")


if __name__ == "__main__":
    main()
