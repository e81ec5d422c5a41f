"""Somebody tries to read: the relay, and all members but two, who put together what they know.

They have every message, and the ledgers of all who collude, so that they can take away each mask
that one of them shares. What is left of the two others must say nothing but what their sum says.
"""

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import cast

import numpy as np
import pytest

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


@dataclass(frozen=True)
class Heard:
    """One session: all that was said, where all stood, and the secrets of those who collude."""

    keys: tuple[Signed, ...]
    rounds: list[tuple[RoundState, Ticks]]
    colluding: dict[str, bytes]


def session(
    world: str, seed: int, reveal: str = "totals", honest: tuple[str, ...] = HONEST
) -> Heard:
    """Played by the real gates. In both worlds the two honest members want as much together."""
    agreement, shift = AGREEMENTS[reveal], 0.25 if world == "one" else 0.0
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
            masks.chance = random.Random(f"{world} {seed} {name}")
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
        said = numbers(tuple(gate.release(state) for gate in gates))
        rounds.append((state, said))
        state = engine.advance(state, said)
    colluders = [name for name in ledgers if agreement.masked and name not in honest]
    return Heard(keys, rounds, {name: ledgers[name].mask_secret() for name in colluders})


def stripped(heard: Heard, name: str) -> list[Ticks]:
    """What is left of a member's releases when all masks are taken off that somebody knows."""
    names = [m.name for m in AGREEMENTS["totals"].members]
    keys, me = [k.key for k in mask_keys(heard.keys)], names.index(name)
    left = []
    for state, said in heard.rounds:
        numbers_left = said[me].copy()
        for other, secret in heard.colluding.items():
            place = names.index(other)
            pair = pair_secret(MaskSecret(secret), keys, place, me, heard.rounds[0][0].chain_hash)
            known = np.frombuffer(stream(pair, state, 2), dtype=">i8").astype(np.int64)
            numbers_left -= known if place > me else -known
        left.append(numbers_left)
    return left


@cache
def sessions(world: str) -> list[Heard]:
    return [session(world, seed) for seed in range(SESSIONS)]


def seen(world: str) -> Iterator[Ticks]:
    for heard in sessions(world):
        yield from stripped(heard, "ada")


def chi_squared(counts: Ticks) -> float:
    expected = counts.sum() / counts.size
    return float(((counts - expected) ** 2 / expected).sum())


def two_sample(one: Ticks, other: Ticks) -> float:
    """χ² of two rows of counts that have as many entries together."""
    both = (one + other) / 2.0
    kept = both > 0
    return float((((one - both) ** 2 + (other - both) ** 2)[kept] / both[kept]).sum())


@pytest.mark.parametrize("name", ["ada", "ben", "cyd", "dan"])
def test_every_byte_of_a_masked_number_is_uniform(name: str) -> None:
    """The bytes on the wire, of every member, are as likely as each other."""
    row = ("ada", "ben", "cyd", "dan").index(name)
    said = [s[row] for world in ("one", "other") for h in sessions(world) for _, s in h.rounds]
    data = np.frombuffer(np.array(said).astype(">i8").tobytes(), dtype=np.uint8)
    counts = np.bincount(data, minlength=256)
    assert counts.sum() == 2 * SESSIONS * ROUNDS * 2 * 8
    assert chi_squared(counts) < 400.0  # 255 degrees of freedom: above in one of 10^8


def test_what_colluders_cannot_take_away_is_uniform_too() -> None:
    """With all masks off that anybody else knows, the bytes still are as likely as each other."""
    data = np.array([*seen("one"), *seen("other")]).astype(">i8").tobytes()
    assert chi_squared(np.bincount(np.frombuffer(data, dtype=np.uint8), minlength=256)) < 400.0


@pytest.mark.parametrize("place", range(8))
def test_two_worlds_with_the_same_totals_look_the_same(place: int) -> None:
    """No byte of what is left tells in which world it was, though one wants three times as much."""
    rows = []
    for world in ("one", "other"):
        data = np.array(list(seen(world))).astype(">i8").view(np.uint8).reshape(-1, 8)
        rows.append(np.bincount(data[:, place] >> 4, minlength=16))
    assert two_sample(*rows) < 60.0  # 15 degrees of freedom: above in one of 10^6


def test_where_releases_can_be_read_the_worlds_are_told_apart() -> None:
    """The same look at sessions without masks tells the worlds apart at once: it is sharp."""
    rows = []
    for world in ("one", "other"):
        said = [s[0] for seed in range(5) for _, s in session(world, seed, "each").rounds]
        data = np.array(said).astype(">i8").view(np.uint8).reshape(-1, 8)
        rows.append(np.bincount(data[:, 5] & 15, minlength=16))
    assert two_sample(*rows) > 15.0


def test_the_sum_of_the_two_is_all_that_is_left() -> None:
    """What is left of both adds up to what they want together, in either world."""
    for world in ("one", "other"):
        for heard in sessions(world)[:20]:
            pairs = zip(*(stripped(heard, name) for name in HONEST), strict=True)
            for ada, cyd in pairs:
                assert (ada + cyd).tolist() == [5 << 17, 5 << 17]


def test_all_the_others_together_read_the_last_one() -> None:
    """Masks hide two from the others, never one: that is what the agreement says of colluders."""
    heard = session("one", 7, honest=("ada",))
    assert [row.tolist() for row in stripped(heard, "ada")] == [[3 << 17, 3 << 17]] * ROUNDS


def test_no_number_on_the_wire_comes_twice() -> None:
    """Though everybody asks for the same in every round, no two masked numbers are alike."""
    values = [v for w in ("one", "other") for h in sessions(w) for _, s in h.rounds for v in s.flat]
    assert len(set(map(int, values))) == len(values)


def test_masks_do_not_follow_from_public_keys() -> None:
    """A relay that takes public keys for secret ones finds nothing that cancels."""
    heard = sessions("one")[0]
    keys = [k.key for k in mask_keys(heard.keys)]
    state, said = heard.rounds[0]
    guess = pair_secret(MaskSecret(hashlib.sha256(keys[0]).digest()), keys, 0, 2, state.chain_hash)
    known = np.frombuffer(stream(guess, state, 2), dtype=">i8").astype(np.int64)
    left = stripped(heard, "ada")[0] - known
    assert not set(left.tolist()) & {3 << 17, 1 << 17}
    assert said[0].tolist() != left.tolist()
