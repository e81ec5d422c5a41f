"""Prices and chain hashes of a session, its transcript file, and the faults that an audit finds."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from msgspec.structs import replace

from protocol.agreement.model import Agreement, canonical
from protocol.agreement.parse import from_table
from protocol.agreement.schema import TICKS
from protocol.errors import BadTranscript
from protocol.numeric import Floats
from protocol.rounds import RoundEngine, RoundState
from protocol.wire.messages import Release, Seal, Signed
from protocol.wire.transcript import MAGIC, Transcript, load
from tests.reference import codec as reading
from tests.support import ROOT
from tests.support.builders import dump, make_agreement, play, release_at, sign
from tests.support.outcomes import outcome_of, replay
from tests.support.session_harness import ending_early
from tests.support.wait import LIMIT

CASES = json.loads((ROOT / "tests" / "reference" / "vectors" / "prices.json").read_text())["cases"]
every_case = pytest.mark.parametrize(
    "case", [pytest.param(c, id=c["name"].replace(" ", "-")) for c in CASES]
)


def bits(prices: Floats) -> list[str]:
    """Prices written so that two are the same only if every bit is."""
    return [float(price).hex() for price in prices.tolist()]


def course_of(case: dict[str, Any]) -> tuple[RoundEngine, list[RoundState]]:
    engine = RoundEngine(from_table(case["agreement"]))
    positions = [engine.opening]
    for rows in case["releases"]:
        positions.append(engine.advance(positions[-1], np.array(rows, dtype=np.int64)))
    return engine, positions


# Vectors


@every_case
def test_prices_are_those_of_the_vectors(case: dict[str, Any]) -> None:
    """The releases give the prices and chain hashes of the vectors, bit for bit."""
    _, positions = course_of(case)
    assert [bits(p.prices.current) for p in positions] == case["prices"]
    assert [p.chain_hash.hex() for p in positions] == case["heads"]
    assert [p.round for p in positions] == list(range(len(case["releases"]) + 1))
    outcome = outcome_of(from_table(case["agreement"]), case["releases"])
    best = outcome.best_dual
    assert bits(outcome.last_prices if best is None else best[1]) == case["final"]
    assert bits(outcome.average_prices) == case["average"]


@every_case
def test_caps_are_those_of_the_vectors(case: dict[str, Any]) -> None:
    """In clipped mode caps follow the releases; otherwise they are the shares."""
    _, positions = course_of(case)
    caps = [p.caps.tolist() for p in positions]
    shares = positions[0].caps.tolist()
    assert caps == (case["caps"] or [shares] * len(caps))


@every_case
def test_the_reference_gives_the_same_prices(case: dict[str, Any]) -> None:
    """The independent implementation, without numpy, gives the same prices, hashes and caps."""
    table = case["agreement"]
    capacity = [float(r["capacity"]) for r in table["resource"]]
    worth = [r["worth"] for r in table["resource"] if "worth" in r]
    market = reading.Market(
        capacity=capacity,
        start=[float.fromhex(p) for p in case["prices"][0]],
        rule=table["prices"]["step"],
        size=float.fromhex(case["step"]),
        momentum=table["prices"]["momentum"],
        nonnegative=table["prices"]["nonnegative"],
        worth=worth or None,
    )
    digest = reading.agreement_digest(case["canonical"])
    heads = [reading.first_head(digest, market.now)]
    for number, rows in enumerate(case["releases"]):
        market.move(rows)
        heads.append(reading.next_head(heads[-1], number, rows, market.now))
        assert [p.hex() for p in market.now] == case["prices"][number + 1]
        if case["caps"]:
            caps = reading.clipped_caps(
                rows,
                shares=[list(m["share"].values()) for m in table["member"]],
                alpha=table["privacy"]["alpha"],
                tau=table["privacy"]["tau"],
            )
            assert caps == case["caps"][number + 1]
    assert [chain_hash.hex() for chain_hash in heads] == case["heads"]


@every_case
def test_the_agreements_of_the_vectors_have_one_canonical_text(case: dict[str, Any]) -> None:
    """With defaults filled in there is one canonical text and one digest."""
    agreement = from_table(case["agreement"])
    assert canonical(agreement) == case["canonical"]
    assert agreement.digest.hex() == case["digest"]


@pytest.mark.parametrize("step", ["constant", "sqrt"])
@pytest.mark.parametrize(
    ("excess", "nonnegative", "expected"),
    [(4, True, 1e15), (4, False, 1e15), (-1, False, -1e15), (-1, True, 0.0)],
)
def test_prices_stay_within_what_solvers_accept(
    step: str, excess: int, nonnegative: bool, expected: float
) -> None:
    """For any step and momentum prices stay within ±10¹⁵, and can return from there."""
    prices = {"step": step, "step_size": 1e15, "momentum": 0.9, "nonnegative": nonnegative}
    engine = RoundEngine(make_agreement(members=2, resources=1, rounds=4, prices=prices))
    state = engine.opening
    rows = np.array([[TICKS], [excess * TICKS]], dtype=np.int64)
    for _ in range(3):
        state = engine.advance(state, rows)
        assert state.prices.current.tolist() == [expected]
    back = engine.advance(state, np.array([[TICKS], [-excess * TICKS]], dtype=np.int64))
    assert (back.prices.current[0] - expected) * excess < 0.0


# The chain


def test_a_chain_hash_covers_every_number_and_its_row() -> None:
    """Another number, order of members or earlier round gives another chain hash."""
    agreement = make_agreement(members=3, resources=2)
    engine = RoundEngine(agreement)
    rows = np.array([[1, 2], [3, 4], [5, 6]], dtype=np.int64)
    swapped = rows[[1, 0, 2]]
    changed = rows.copy()
    changed[2, 1] += 1
    heads = [
        engine.advance(engine.opening, values).chain_hash for values in (rows, swapped, changed)
    ]
    again = engine.advance(engine.advance(engine.opening, rows), rows).chain_hash
    assert len({engine.opening.chain_hash, again, *heads}) == 5


def test_a_chain_hash_covers_the_agreement() -> None:
    """Sessions of different agreements never share a chain hash."""
    first, second = (RoundEngine(make_agreement(rounds=n)).opening for n in (3, 4))
    assert bits(first.prices.current) == bits(second.prices.current)
    assert first.chain_hash != second.chain_hash


def test_a_chain_hash_covers_the_prices() -> None:
    """Another price from the same numbers gives another chain hash."""
    rows = [[1, 2], [3, 4], [5, 6]]
    agreement = make_agreement(members=3, resources=2)
    engine = RoundEngine(agreement)
    after = engine.advance(engine.opening, np.array(rows, dtype=np.int64))
    prices = after.prices.current.tolist()
    assert after.chain_hash == reading.next_head(engine.opening.chain_hash, 0, rows, prices)
    nudged = [np.nextafter(prices[0], 1.0).item(), prices[1]]
    assert after.chain_hash != reading.next_head(engine.opening.chain_hash, 0, rows, nudged)


# Which prices


@pytest.mark.parametrize(
    ("rounds", "averaged"), [(1, [1]), (2, [2]), (3, [2, 3]), (4, [3, 4]), (5, [3, 4, 5])]
)
def test_the_average_is_over_the_last_half_of_the_rounds(rounds: int, averaged: list[int]) -> None:
    """Half of the prices after the start, rounded up, count towards the average."""
    agreement = make_agreement(
        members=2, rounds=rounds, resources=1, prices={"step": "constant", "step_size": 0.1}
    )
    # Each round demands twice the capacity of 10: the price rises by 0.1 · 10 = 1.
    outcome = outcome_of(agreement, np.full((rounds, 2, 1), 1 << 20))
    assert outcome.average_prices.tolist() == [sum(averaged) / len(averaged)]
    assert outcome.last_prices.tolist() == [float(rounds)]


def test_before_the_last_half_the_average_is_the_present_price() -> None:
    """While there is nothing to average, the average is where the prices stand."""
    agreement = make_agreement(members=2, rounds=9, resources=1)
    outcome = outcome_of(agreement, np.full((1, 2, 1), 1 << 20))
    assert outcome.average_prices.tolist() == outcome.last_prices.tolist()


def test_with_shared_objectives_the_best_noisy_prices_are_kept() -> None:
    """Among the prices that were answered, the one with the lowest noisy dual value is chosen."""
    agreement = make_agreement(
        members=2,
        rounds=3,
        resources=1,
        mode="private",
        prices={"step": "constant", "step_size": 0.1},
        privacy={
            "epsilon": 1.0,
            "delta": 1e-3,
            "share_objective": True,
            "objective_limit": 2.0**20,
        },
    )
    # λ = 0, 1, 2, worth 0, 10, 20 for the capacity of 10; the released objectives are added.
    outcome = outcome_of(agreement, [[[1 << 20, g], [1 << 20, 0]] for g in (100, 40, 39)])
    assert outcome.last_prices.tolist() == [3.0]
    assert outcome.best_dual is not None
    assert outcome.best_dual[0] == 50.0
    assert outcome.best_dual[1].tolist() == [1.0]


# Files


@pytest.fixture(scope="module")
def agreement() -> Agreement:
    return make_agreement(members=2, rounds=2, resources=2)


@pytest.fixture(scope="module")
def whole(agreement: Agreement) -> Transcript:
    return play(agreement)[0]


def test_a_transcript_reads_back_equal(agreement: Agreement, whole: Transcript) -> None:
    """A file gives the same transcript: complete, without seals, and empty."""
    for transcript in (whole, replace(whole, seals=()), Transcript(rounds=())):
        assert load(agreement, dump(agreement, transcript)) == transcript


def test_the_reference_writes_the_same_file(agreement: Agreement, whole: Transcript) -> None:
    """The file is a magic line and one array: digest, rounds, seals."""
    rounds = [reading.array([reading.binary(r.data) for r in row]) for row in whole.rounds]
    seals = reading.array([reading.binary(s.data) for s in whole.seals])
    content = [reading.binary(agreement.digest), reading.array(rounds), seals]
    assert dump(agreement, whole) == b"sotto transcript 1\n" + reading.array(content)


def test_replay_gives_the_prices_of_the_reference(agreement: Agreement, whole: Transcript) -> None:
    """The file gives the prices and chain hash of the independent implementation, bit for bit."""
    market = reading.Market([10.0, 20.0], [0.0, 0.0], "constant", 0.25)
    chain_hash = reading.first_head(agreement.digest, market.now)
    for number, releases in enumerate(whole.rounds):
        messages = [r.message for r in releases]
        rows = [list(m.values) for m in messages if isinstance(m, Release)]
        market.move(rows)
        chain_hash = reading.next_head(chain_hash, number, rows, market.now)
    state = replay(agreement, load(agreement, dump(agreement, whole)))
    assert bits(state.prices.current) == [p.hex() for p in market.now]
    assert state.chain_hash == chain_hash


@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "unsealed"])
def test_one_changed_byte_anywhere_is_found_and_located(
    agreement: Agreement, whole: Transcript, sealed: bool
) -> None:
    """Any changed byte is found; inside a message, the error names round and member."""
    transcript = whole if sealed else replace(whole, seals=())
    data = dump(agreement, transcript)
    place = where(data, agreement, transcript)
    chance = random.Random(4)
    for at, byte in enumerate(data):
        inside = place[at]
        others = [byte ^ 1, byte ^ 0x80, chance.randrange(256)] if inside else range(256)
        for other in {*others} - {byte}:
            with pytest.raises(BadTranscript) as found:
                replay(agreement, load(agreement, data[:at] + bytes([other]) + data[at + 1 :]))
            assert inside in str(found.value), f"byte {at} of {len(data)} to {other}"


def where(data: bytes, agreement: Agreement, transcript: Transcript) -> list[str]:
    """For each byte of a file, how an error must locate it; empty outside the messages."""
    place = [""] * len(data)
    rows = [(f"round {t}", row) for t, row in enumerate(transcript.rounds, start=1)]
    for label, row in [*rows, ("the seals", transcript.seals)]:
        for member, signed in zip(agreement.members, row, strict=False):
            start = data.index(signed.data)
            located = [f"{label}, member {member.name!r}"] * len(signed.data)
            place[start : start + len(signed.data)] = located
    return place


def test_a_cut_or_extended_file_is_refused(agreement: Agreement, whole: Transcript) -> None:
    """A file that ends early, or has more bytes, is damaged."""
    data = dump(agreement, whole)
    for end in range(len(data)):
        with pytest.raises(BadTranscript):
            load(agreement, data[:end])
    with pytest.raises(BadTranscript, match="its frame cannot be read"):
        load(agreement, data + b"\0")


@pytest.mark.parametrize(
    "content",
    [
        [5_000_000_000, [], []],
        ["text", [], []],
        [[1, 2], [], []],
        [None, [], []],
        [b"", {}, []],
        [b"", "", ""],
        [b"", b"", b""],
        [b"", [b"ab"], []],
        [b"", [["text"]], []],
        [b"", [[[b""]]], []],
        [b"", [], [1]],
        [b"", 7, []],
        [b"", []],
        [b"", [], [], []],
        7,
        None,
    ],
    ids=repr,
)
def test_a_file_of_another_form_is_refused(agreement: Agreement, content: Any) -> None:
    """Any other msgpack content is refused as damaged."""
    if isinstance(content, list) and content[0] == b"":
        content = [agreement.digest, *content[1:]]
    with pytest.raises(BadTranscript, match="damaged: its frame"):
        load(agreement, MAGIC + bytes(msgpack.packb(content)))


def test_announced_lengths_are_refused(agreement: Agreement) -> None:
    """A short file that announces gigabytes is refused."""
    for start in (b"\xdd\xff\xff\xff\xff", b"\x93\xc6\xff\xff\xff\xff", b"\x93" * 50):
        with pytest.raises(BadTranscript, match="its frame cannot be read"):
            load(agreement, MAGIC + start)


def test_another_file_or_agreement_is_named(agreement: Agreement, whole: Transcript) -> None:
    """The error says what the file is: no transcript, or one of another agreement."""
    with pytest.raises(BadTranscript, match="does not begin with 'sotto transcript 1'"):
        load(agreement, b"sotto ledger")
    other = make_agreement(members=2, rounds=3)
    with pytest.raises(BadTranscript, match=f"of agreement {agreement.digest.hex()}, this is"):
        load(other, dump(agreement, whole))


# What stands where


def refused(agreement: Agreement, transcript: Transcript) -> str:
    with pytest.raises(BadTranscript) as found:
        replay(agreement, load(agreement, dump(agreement, transcript)))
    return str(found.value)


def swap(rows: tuple[tuple[Signed, ...], ...], at: int, *row: Signed) -> Transcript:
    return Transcript((*rows[:at], row, *rows[at + 1 :]))


def test_a_message_in_the_wrong_round_or_row_is_named(
    agreement: Agreement, whole: Transcript
) -> None:
    """Messages with valid signatures in a wrong round or row are named by round and member."""
    (ada0, ben0), (ada1, ben1) = whole.rounds
    seal = whole.seals[0]
    rows = whole.rounds
    cases = {
        "round 1: the message of 'ada' is signed by 'ben'": swap(rows, 0, ben0, ada0),
        "round 2: 1 messages for 2 members": swap(rows, 1, ada1),
        "round 2: 3 messages for 2 members": swap(rows, 1, ada1, ben1, ben1),
        "round 2, member 'ada': the message is of another kind or round": swap(rows, 1, ada0, ben1),
        "round 2, member 'ada': the message is of another kind or": swap(rows, 1, seal, ben1),
        "the seals: 1 messages for 2 members": replace(whole, seals=(seal,)),
        "the seals, member 'ada': the message is of another kind": replace(
            whole, seals=(ada1, ben1)
        ),
        "sealed after 1 of 2 rounds": replace(whole, rounds=rows[:1]),
        "it has 3 rounds, but the session ended after 2": Transcript((*rows, rows[1])),
    }
    for text, transcript in cases.items():
        assert text in refused(agreement, transcript)


def test_rounds_after_an_early_end_are_refused() -> None:
    """A session that ended by itself has no more rounds, though more were agreed."""
    agreement = ending_early()
    whole, _ = play(agreement)
    assert replay(agreement, load(agreement, dump(agreement, whole))).over
    assert len(whole.rounds) == 3
    longer, _ = play(agreement, rounds=5)
    assert longer.rounds[:3] == whole.rounds
    text = refused(agreement, longer)
    assert text == "it has 5 rounds, but the session ended after 3"


def test_seals_before_an_early_end_are_refused() -> None:
    """Seals are valid only if the session is over, even with the right chain hash."""
    agreement = ending_early()
    whole, positions = play(agreement)
    early = tuple(
        sign(replace(signed.message, round=2, chain_hash=positions[2].chain_hash))
        for signed in whole.seals
    )
    assert "sealed after 2 of 9 rounds" in refused(agreement, Transcript(whole.rounds[:2], early))
    assert not replay(agreement, Transcript(whole.rounds[:2])).over


def test_a_replaced_release_breaks_the_chain_after_it(
    agreement: Agreement, whole: Transcript
) -> None:
    """A member cannot replace an old release: the next round has its chain hash."""
    engine = RoundEngine(agreement)
    other = release_at(agreement, "ada", engine.opening, values=(1, 2))
    transcript = swap(whole.rounds, 0, other, whole.rounds[0][1])
    text = "round 2, member 'ada': its chain hash is not that of the rounds before it"
    assert refused(agreement, transcript) == text


def test_a_seal_with_another_chain_hash_is_named(agreement: Agreement, whole: Transcript) -> None:
    """Seals must have the chain hash of the last round."""
    wrong = sign(
        Seal(
            sender="ben",
            agreement=agreement.digest,
            round=2,
            chain_hash=bytes(32),
            has_all_seals=True,
        )
    )
    text = refused(agreement, replace(whole, seals=(whole.seals[0], wrong)))
    assert text.startswith("the seals, member 'ben': its chain hash is not")


# Every run


def test_the_same_seed_gives_the_same_session_in_every_process(tmp_path: Path) -> None:
    """Two processes with different hash seeds end with the same chain hash and prices."""
    figures = []
    for run in (1, 2):
        path = tmp_path / f"{run}.json"
        environment = {**os.environ, "PYTHONHASHSEED": str(run), "PYTHONPATH": str(ROOT)}
        options = ["--parties", "3", "--rounds", "8", "--seed", "5", "--json", str(path)]
        subprocess.run(
            [sys.executable, "-m", "scripts.lab.simulate", *options],
            cwd=ROOT,
            env=environment,
            check=True,
            capture_output=True,
            timeout=LIMIT,
        )
        figures.append(json.loads(path.read_text()))
    first, second = figures
    assert len(first["head"]) == 64
    for name in ("head", "releases_digest", "prices"):
        assert first[name] == second[name]
