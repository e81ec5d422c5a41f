"""Colluding members and the relay learn only the sum of the two honest members' demands.

They have every message, and the ledgers of all colluders, so they can remove each mask that a
colluder shares. What is left of the two honest members must reveal nothing but their sum.
"""

import hashlib
import random
from collections.abc import Iterator
from functools import cache
from typing import cast

import numpy as np
import pytest
from msgspec import Struct

from party.model.best_response import Subproblem
from party.release.gate import Gate
from party.release.masks import MaskSecret, pair_secret, stream
from protocol.agreement.quantities import quantities
from protocol.numeric import Ticks
from protocol.rounds import RoundEngine, RoundState, mask_keys, numbers
from protocol.wire.messages import Signed
from tests.support.builders import make_agreement, signer
from tests.support.gates import Problem, Shift
from tests.support.ledgers import in_memory
from tests.support.simulated_party import SeededMasks

SESSIONS = 250
ROUNDS = 2
HONEST = ("ada", "cyd")
AGREEMENTS = {
    reveal: make_agreement(members=4, rounds=ROUNDS, reveal=reveal) for reveal in ("totals", "each")
}
CAPACITY = quantities(AGREEMENTS["totals"]).capacity


class Observed(Struct, frozen=True):
    """One session: all messages, the states of its rounds, and the colluders' secrets."""

    keys: tuple[Signed, ...]
    rounds: list[tuple[RoundState, Ticks]]
    colluding: dict[str, bytes]


def session(
    case: str, seed: int, reveal: str = "totals", honest: tuple[str, ...] = HONEST
) -> Observed:
    """A session of real gates. In both cases the honest members want the same amount together."""
    agreement, shift = AGREEMENTS[reveal], 0.25 if case == "one" else 0.0
    wanted = {"ada": 0.125 + shift, "cyd": 0.5 - shift, "ben": 0.125, "dan": 0.0625}
    ledgers = {name: in_memory(agreement, name) for name in wanted}
    gates = []
    for member in agreement.members:
        name = member.name
        gate = Gate(
            agreement,
            name,
            subproblem=cast(Subproblem, Problem(*(wanted[name] * CAPACITY))),
            noise=Shift(0, 0),
            ledger=ledgers[name],
            pack=signer(name),
        )
        if agreement.masked:
            masks = SeededMasks(agreement, name, ledgers[name], signer(name))
            masks.chance = random.Random(f"{case} {seed} {name}")
            gate._masks = masks
        gates.append(gate)
    engine = RoundEngine(agreement)
    state = engine.opening
    keys: tuple[Signed, ...] = ()
    if agreement.masked:
        keys = tuple(gate.release(state) for gate in gates)
        for ledger in ledgers.values():
            ledger.record_mask_keys(keys)
        state = engine.pair(state, mask_keys(keys))
    rounds = []
    for _ in range(ROUNDS):
        values = numbers(tuple(gate.release(state) for gate in gates))
        rounds.append((state, values))
        state = engine.advance(state, values)
    colluders = [name for name in ledgers if agreement.masked and name not in honest]
    return Observed(keys, rounds, {name: ledgers[name].mask_secret() for name in colluders})


def stripped(observed: Observed, name: str) -> list[Ticks]:
    """A member's releases without the masks that colluders know."""
    names = [m.name for m in AGREEMENTS["totals"].members]
    keys, me = [k.key for k in mask_keys(observed.keys)], names.index(name)
    left = []
    for state, values in observed.rounds:
        numbers_left = values[me].copy()
        for other, secret in observed.colluding.items():
            row = names.index(other)
            pair = pair_secret(MaskSecret(secret), keys, row, me, observed.rounds[0][0].chain_hash)
            mask = np.frombuffer(stream(pair, state, 2), dtype=">i8").astype(np.int64)
            numbers_left -= mask if row > me else -mask
        left.append(numbers_left)
    return left


@cache
def sessions(case: str) -> list[Observed]:
    return [session(case, seed) for seed in range(SESSIONS)]


def unmasked(case: str) -> Iterator[Ticks]:
    for observed in sessions(case):
        yield from stripped(observed, "ada")


def chi_squared(counts: Ticks) -> float:
    expected = counts.sum() / counts.size
    return float(((counts - expected) ** 2 / expected).sum())


def two_sample(one: Ticks, other: Ticks) -> float:
    """χ² of two rows of counts with equal totals."""
    both = (one + other) / 2.0
    used = both > 0
    return float((((one - both) ** 2 + (other - both) ** 2)[used] / both[used]).sum())


@pytest.mark.parametrize("name", ["ada", "ben", "cyd", "dan"])
def test_every_byte_of_a_masked_number_is_uniform(name: str) -> None:
    """On the wire every byte value is equally likely, for every member."""
    row = ("ada", "ben", "cyd", "dan").index(name)
    values = [s[row] for case in ("one", "other") for h in sessions(case) for _, s in h.rounds]
    data = np.frombuffer(np.array(values).astype(">i8").tobytes(), dtype=np.uint8)
    counts = np.bincount(data, minlength=256)
    assert counts.sum() == 2 * SESSIONS * ROUNDS * 2 * 8
    assert chi_squared(counts) < 400.0  # 255 degrees of freedom: above in one of 10^8


def test_what_colluders_cannot_unmask_is_uniform() -> None:
    """Without the colluders' masks every byte value is still equally likely."""
    data = np.array([*unmasked("one"), *unmasked("other")]).astype(">i8").tobytes()
    assert chi_squared(np.bincount(np.frombuffer(data, dtype=np.uint8), minlength=256)) < 400.0


@pytest.mark.parametrize("byte", range(8))
def test_two_cases_with_equal_totals_look_the_same(byte: int) -> None:
    """No byte reveals the case, though in one a member wants three times as much."""
    rows = []
    for case in ("one", "other"):
        data = np.array(list(unmasked(case))).astype(">i8").view(np.uint8).reshape(-1, 8)
        rows.append(np.bincount(data[:, byte] >> 4, minlength=16))
    assert two_sample(*rows) < 60.0  # 15 degrees of freedom: above in one of 10^6


def test_without_masks_the_two_cases_can_be_distinguished() -> None:
    """Without masks this test does see the difference, so it is sharp enough."""
    rows = []
    for case in ("one", "other"):
        values = [s[0] for seed in range(5) for _, s in session(case, seed, "each").rounds]
        data = np.array(values).astype(">i8").view(np.uint8).reshape(-1, 8)
        rows.append(np.bincount(data[:, 5] & 15, minlength=16))
    assert two_sample(*rows) > 15.0


def test_the_sum_of_the_two_is_all_that_is_left() -> None:
    """In both cases the rest of both members adds up to what they want together."""
    for case in ("one", "other"):
        for observed in sessions(case)[:20]:
            pairs = zip(*(stripped(observed, name) for name in HONEST), strict=True)
            for ada, cyd in pairs:
                assert (ada + cyd).tolist() == [5 << 17, 5 << 17]


def test_all_the_others_together_read_the_last_one() -> None:
    """Masks protect two members from the others, but never one alone."""
    observed = session("one", 7, honest=("ada",))
    assert [row.tolist() for row in stripped(observed, "ada")] == [[3 << 17, 3 << 17]] * ROUNDS


def test_no_masked_number_repeats() -> None:
    """Demands are equal in every round, but no two masked numbers are."""
    values = [v for w in ("one", "other") for h in sessions(w) for _, s in h.rounds for v in s.flat]
    assert len(set(map(int, values))) == len(values)


def test_masks_cannot_be_computed_from_public_keys() -> None:
    """A relay that uses public keys as secrets finds no mask."""
    observed = sessions("one")[0]
    keys = [k.key for k in mask_keys(observed.keys)]
    state, values = observed.rounds[0]
    guess = pair_secret(MaskSecret(hashlib.sha256(keys[0]).digest()), keys, 0, 2, state.chain_hash)
    mask = np.frombuffer(stream(guess, state, 2), dtype=">i8").astype(np.int64)
    left = stripped(observed, "ada")[0] - mask
    assert not set(left.tolist()) & {3 << 17, 1 << 17}
    assert values[0].tolist() != left.tolist()
