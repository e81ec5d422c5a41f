"""Plays agreements drawn by chance with the program and with its second reading, side by side.

`scripts/environment python -m tests.reference.compare 1000` plays a thousand, and says at the end
how many of each kind there were. Whatever differs, in one bit, stops it and is named.
"""

import json
import random
import sys
import tomllib
from collections import Counter
from contextlib import suppress
from typing import Any

import numpy as np

from protocol.agreement.model import Agreement
from protocol.agreement.parse import from_table
from protocol.agreement.render import written
from protocol.errors import BadAgreement
from protocol.outcome.outcome import Outcome
from protocol.rounds import RoundEngine
from tests.reference import agreement as reading_terms
from tests.reference import codec as reading
from tests.reference import rounds as reading_course
from tests.reference.random_agreements import Crowd, Table, drawn, spoiled


def seen(seed: int) -> str:
    """Play one agreement to some round; which kind it was.

    Raises `AssertionError` where program and reading differ.
    """
    chance = random.Random(seed)
    table = drawn(chance)
    where = f"seed {seed}: {json.dumps(table)}"
    agreement, terms = both(table, where)
    if agreement is None or terms is None:
        raise AssertionError(f"it is an agreement, and refused: {where}")
    for _ in range(3):
        other = spoiled(chance, table)
        both(other, f"seed {seed}, spoiled: {other!r}")
    both(tomllib.loads(written(agreement)), f"seed {seed}, written")
    if agreement.masked:
        return "totals, whose terms alone are read here"
    played = opened(agreement, terms, where)
    if played is None:
        return "refused for its noise"
    engine, read = played
    state, path, rows = engine.opening, [], []
    crowd = Crowd(chance, len(agreement.members), agreement.width)
    until = 0 if chance.random() < 0.05 else agreement.rounds
    while True:
        path.append(state.prices.current)
        now = f"round {state.round}, {where}"
        equal("prices", bits(state.prices.current), bits(read.market.now), now)
        equal("caps", state.caps.tolist(), read.caps, now)
        equal("head", state.chain_hash.hex(), read.chain_hash.hex(), now)
        equal("over", state.over, read.over, now)
        compare_certificates(state.certificate, read.certificate, now)
        if state.over or state.round >= until:
            break
        money = [p * c for p, c in zip(read.market.now, terms.capacity, strict=True)]
        rows.append(crowd.released(terms.ticks, read.caps, money))
        state = engine.advance(state, np.array(rows[-1], dtype=np.int64))
        read.close(rows[-1])
    numbers = np.array(rows, dtype=np.int64)
    known = Outcome(
        agreement=agreement,
        state=state,
        released=numbers.reshape(-1, len(agreement.members), agreement.width),
        path=np.array(path),
        sealed=False,
    )
    compare_outcomes(known, read, where)
    turned = any(resource.opposite for resource in agreement.resources)
    bands = ", exactly" if turned else ", in bands" if agreement.banded else ""
    return f"{agreement.mode} {agreement.pricing.step}{bands}"


def both(table: Table, where: str) -> tuple[Agreement | None, reading_terms.Terms | None]:
    """An agreement as both read it, if they do, with one digest."""
    agreement, terms, refused = None, None, ("", "")
    try:
        agreement = from_table(table)
    except BadAgreement as error:
        refused = (str(error), "")
    try:
        terms = reading_terms.terms(table)
    except reading_terms.Refused as error:
        refused = (refused[0], f"{error}")
    if (agreement is None) != (terms is None):
        raise AssertionError(f"only one of both refuses it, {refused}: {where}")
    if agreement is not None and terms is not None:
        digest = reading.agreement_digest(reading.canonical(terms))
        equal("digest", agreement.digest.hex(), digest.hex(), where)
        equal("ticks", agreement.ticks, terms.ticks, where)
    return agreement, terms


def opened(
    agreement: Agreement, terms: reading_terms.Terms, where: str
) -> tuple[RoundEngine, reading_course.RoundEngine] | None:
    """Both at the opening, or neither where the noise is more than can be carried."""
    engine = read = None
    with suppress(BadAgreement):
        engine = RoundEngine(agreement)
    with suppress(reading_terms.Refused):
        read = reading_course.RoundEngine(terms)
    if (engine is None) != (read is None):
        raise AssertionError(f"only one of both can play it: {where}")
    return None if engine is None or read is None else (engine, read)


def compare_certificates(ours: Any, theirs: Any, where: str) -> None:
    equal("certificate", ours is None, theirs is None, where)
    if ours is None:
        return
    equal("weights", list(ours.weights), theirs.weights, where)
    equal("average prices", bits(ours.prices), bits(theirs.prices), where)
    equal("bound", ours.bound.hex(), theirs.bound.hex(), where)
    equal("gap", ours.gap.hex(), theirs.gap.hex(), where)
    equal("fits", ours.fits, theirs.fits, where)


def compare_outcomes(known: Outcome, read: reading_course.RoundEngine, where: str) -> None:
    if known.certificate is None:
        y, s = known.average
        equal("averages", [bits(row) for row in y], [bits(row) for row in read.average[0]], where)
        equal("their noise", [bits(row) for row in s], [bits(r) for r in read.average[1]], where)
    equal("prices of the outcome", bits(known.prices), bits(read.prices), where)
    equal("quota", known.quota.tolist(), read.quota, where)
    equal("prorata", known.prorata.tolist(), read.prorata, where)
    equal("endowment", known.endowment.tolist(), read.endowment, where)
    equal("payments", bits(known.payments), bits(read.payments), where)


def bits(values: Any) -> list[str]:
    """Floats written so that two are the same only if every bit is."""
    return [float(value).hex() for value in values]


def equal(what: str, ours: Any, theirs: Any, where: str) -> None:
    if ours != theirs:
        raise AssertionError(f"{what}: {ours} by the program, {theirs} by the reading; {where}")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    kinds = Counter(seen(seed) for seed in range(count))
    for kind, number in sorted(kinds.items()):
        print(f"{number:6} {kind}")
    print(f"{count:6} agreements: program and second reading agree in every bit")


if __name__ == "__main__":
    main()
