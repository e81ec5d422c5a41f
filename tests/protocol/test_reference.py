"""The second reading of SPEC.md against the program, on agreements drawn by chance."""

import ast
import random
import sys

import numpy as np
import pytest

from protocol.outcome.quota import average_release
from tests.reference import agreement as reading_terms
from tests.reference import codec as reading
from tests.reference.compare import seen
from tests.reference.random_agreements import STEPS, drawn, spoiled
from tests.support import ROOT
from tests.support.builders import make_agreement

REFERENCE = ROOT / "tests" / "reference"
COUNT = 1000
READERS = ("agreement", "center", "codec", "margin", "masks", "rounds")
"""The modules written from the text of the specification alone."""


@pytest.mark.parametrize("hundred", range(COUNT // 100))
def test_a_reader_of_the_specification_gets_what_the_program_gets(hundred: int) -> None:
    """Digest, prices, caps, heads, certificate, quota and payments are the same to the bit."""
    for seed in range(100 * hundred, 100 * hundred + 100):
        seen(seed)


def test_the_agreements_say_all_that_agreements_can_say() -> None:
    """Every mode, step, accountant, shape of noise and kind of share is among them."""
    tables = [drawn(random.Random(seed)) for seed in range(COUNT)]
    terms = [reading_terms.terms(table) for table in tables]
    steps = {(t.mode, t.pricing.step) for t in terms}
    assert steps == {(m, s) for m in ("private", "clipped") for s in STEPS[1:]} | {
        ("exact", s) for s in STEPS
    }
    noises = {(t.privacy.accountant, t.privacy.noise) for t in terms if t.privacy is not None}
    assert noises == {(a, n) for a in ("exact", "paper") for n in ("component", "norm")}
    for wanted in ("truncate", "rehearsal", "currency", "objective_limit"):
        assert {bool(getattr(t, wanted)) for t in terms} == {True, False}
    assert {bool(t.members[0].endowment) for t in terms} == {True, False}
    assert {len(set(map(tuple, t.shares))) > 1 for t in terms} == {True, False}


def test_what_is_no_agreement_is_refused_by_the_reader() -> None:
    """Of agreements with one thing changed most are refused, and some are agreements still."""
    chance = random.Random(7)
    refused = 0
    for _ in range(COUNT):
        try:
            reading_terms.terms(spoiled(chance, drawn(chance)))
        except reading_terms.Refused:
            refused += 1
    assert COUNT / 2 < refused < COUNT


@pytest.mark.parametrize("name", [f"{name}.py" for name in (*READERS, "member")])
def test_the_reading_uses_nothing_of_the_program(name: str) -> None:
    """It imports the standard library and itself; a member also sockets and signatures."""
    others = {"zmq", "nacl"} if name == "member.py" else set()
    for node in ast.walk(ast.parse((REFERENCE / name).read_text())):
        if isinstance(node, ast.Import):
            used = {alias.name.split(".")[0] for alias in node.names}
            assert used <= sys.stdlib_module_names | others
        elif isinstance(node, ast.ImportFrom):
            module = f"{node.module}.{node.names[0].name}"
            known = module.split(".")[0] in sys.stdlib_module_names | others
            name_of = module.removeprefix("tests.reference.").split(".")[0]
            assert known or (module.startswith("tests.reference.") and name_of in READERS)


@pytest.mark.parametrize("total", [2**63 - 1, 2**63, 2**63 + 2**47, -(2**63), -(2**63) - 1])
def test_sums_of_releases_wrap_around(total: int) -> None:
    """What a million rounds could add up to is taken modulo 2⁶⁴, with a sign."""
    agreement = make_agreement(members=2, rounds=14, resources=1)
    last = 2**48 if total > 0 else -(2**48)
    released = np.zeros((14, 2, 1), dtype=np.int64)
    released[7], released[13] = total - last, last
    expected = float((total + 2**63) % 2**64 - 2**63) / 7
    assert average_release(agreement, released)[0].tolist() == [[expected], [expected]]


def test_characters_that_json_need_not_escape_are_escaped() -> None:
    """The digest is of printable ASCII: what is not is written by its number."""
    table = drawn(random.Random(3))
    table["resource"][0]["unit"] = '\x7f"\\é🚚~'
    text = reading.canonical(reading_terms.terms(table))
    assert r'"\u007f\"\\\u00e9\ud83d\ude9a~"' in text
