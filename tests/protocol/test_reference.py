"""The reference implementation of SPEC.md against the product, on random agreements."""

import ast
import random
import sys

import numpy as np
import pytest

from protocol.outcome.public_quota import average_release
from tests.reference import agreement as reference_agreement
from tests.reference import codec as reference
from tests.reference.compare import compare_one
from tests.reference.random_agreements import STEPS, drawn, spoiled
from tests.support import ROOT
from tests.support.builders import make_agreement

REFERENCE = ROOT / "tests" / "reference"
COUNT = 1000
READERS = (
    "agreement",
    "ball",
    "center",
    "codec",
    "commitments",
    "margin",
    "masked_session",
    "masks",
    "rounds",
)
"""The modules written from the text of the specification alone."""


@pytest.mark.parametrize("hundred", range(COUNT // 100))
def test_reference_and_product_agree(hundred: int) -> None:
    """Digest, prices, caps, chain hashes, certificate, quota and payments are the same bits."""
    for seed in range(100 * hundred, 100 * hundred + 100):
        compare_one(seed)


def test_random_agreements_cover_every_choice() -> None:
    """Every mode, step, accountant, shape of noise and kind of share occurs."""
    tables = [drawn(random.Random(seed)) for seed in range(COUNT)]
    terms = [reference_agreement.terms(table) for table in tables]
    steps = {(t.mode, t.pricing.step) for t in terms}
    noisy = {(m, s) for m in ("private", "clipped") for s in STEPS[2:]}
    exact = {("exact", s) for s in STEPS if s != "ball"}
    assert steps == noisy | exact | {("private", "ball")}
    noises = {(t.privacy.accountant, t.privacy.noise) for t in terms if t.privacy is not None}
    assert noises == {(a, n) for a in ("exact", "paper") for n in ("component", "norm")}
    for wanted in ("truncate", "rehearsal", "currency", "objective_limit"):
        assert {bool(getattr(t, wanted)) for t in terms} == {True, False}
    assert {bool(t.members[0].endowment) for t in terms} == {True, False}
    assert {len(set(map(tuple, t.shares))) > 1 for t in terms} == {True, False}


def test_the_reference_refuses_invalid_agreements() -> None:
    """Most agreements with one change are refused, and some stay valid."""
    chance = random.Random(7)
    refused = 0
    for _ in range(COUNT):
        try:
            reference_agreement.terms(spoiled(chance, drawn(chance)))
        except reference_agreement.Refused:
            refused += 1
    assert COUNT / 2 < refused < COUNT


@pytest.mark.parametrize("name", [f"{name}.py" for name in (*READERS, "member")])
def test_the_reference_uses_nothing_of_the_product(name: str) -> None:
    """It imports the standard library and itself; its member also sockets and signatures."""
    others = {"member.py": {"zmq", "nacl"}, "masked_session.py": {"nacl"}}.get(name, set())
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
    """Sums over many rounds are taken modulo 2⁶⁴, with a sign."""
    agreement = make_agreement(members=2, rounds=14, resources=1)
    last = 2**48 if total > 0 else -(2**48)
    released = np.zeros((14, 2, 1), dtype=np.int64)
    released[7], released[13] = total - last, last
    expected = float((total + 2**63) % 2**64 - 2**63) / 7
    assert average_release(agreement, released)[0].tolist() == [[expected], [expected]]


def test_canonical_text_is_printable_ascii() -> None:
    """All other characters are escaped by their numbers."""
    table = drawn(random.Random(3))
    table["resource"][0]["unit"] = '\u00a0"\\é🚚~'
    text = reference.canonical(reference_agreement.terms(table))
    assert r'"\u00a0\"\\\u00e9\ud83d\ude9a~"' in text
