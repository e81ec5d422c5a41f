"""Mutation: which changes there are, and how their tests are run."""

import subprocess
import sys
from pathlib import Path

from scripts.lab.mutate.__main__ import EXPLAINED, GROUPS, explanations, files, identity
from scripts.lab.mutate.operators import mutants, placebo
from tests.support import ROOT
from tests.support.wait import LIMIT

SOURCE = '''
def most(one: int, other: int) -> int:
    """The larger one."""
    if one < 0:
        raise ValueError(f"{one} is below {0}")
    pairs = list(zip([one], [other], strict=True))
    return one if one > other else other


def unused(number: int) -> int:
    return number + 1
'''
EXPECTED = {
    ("most", "0 -> 1"),
    ("most", "one < 0 -> one <= 0"),
    ("most", "one > other -> one >= other"),
    ("unused", "number + 1 -> number - 1"),
    ("unused", "1 -> 2"),
    ("unused", "return number + 1 -> return None"),
}


def test_changes_are_small_and_leave_texts_alone(tmp_path: Path) -> None:
    """Each change compiles, differs from the source, and is in no text, annotation or `strict`."""
    (tmp_path / "module.py").write_text(SOURCE)
    found = list(mutants(Path("module.py"), tmp_path))
    same = placebo(Path("module.py"), tmp_path).source
    assert len({mutant.source for mutant in found} | {same}) == len(found) + 1
    for mutant in found:
        compile(mutant.source, "module.py", "exec")
        assert "strict=True" in mutant.source
    assert {(m.function, f"{m.before} -> {m.after}") for m in found} >= EXPECTED
    assert all(m.lines.start in (4, 5, 6, 7, 11) for m in found)


def test_every_group_has_its_files_and_tests() -> None:
    """A name that is out of date would end a run of hours."""
    for places, tests in GROUPS.values():
        for name in (*places, *(test.partition("::")[0] for test in tests)):
            assert (ROOT / name).exists(), name


def test_explanations_belong_to_changes_that_exist() -> None:
    """A reason for a change that is no longer possible is out of date."""
    reasons = explanations(EXPLAINED.read_text())
    places = {path for names, _ in GROUPS.values() for path in files(names)}
    explained = {Path(path) for path, *_ in reasons}
    assert explained <= places
    possible = {identity(m) for path in explained for m in mutants(path, ROOT)}
    assert reasons.keys() <= possible
    assert all(reasons.values())


CHANGED = """
import sys
from pathlib import Path
from scripts.lab.mutate.__main__ import run
from scripts.lab.mutate.operators import mutants
from scripts.lab.mutate.runner import Baseline
root, path = Path.cwd(), Path("protocol/outcome/payments.py")
change = next(m for m in mutants(path, root) if m.before == "own + lacking * part")
for test in sys.argv[2:]:
    known = Baseline({test: 1.0}, {test: {str(path): list(change.lines)}}, [])
    print(*(result for _, result in run([change], known, 1, Path(sys.argv[1]))))
"""


def test_a_change_is_killed_only_if_a_test_notices_it(tmp_path: Path) -> None:
    """The tests run with the changed module: one that depends on the change fails, another not."""
    file = "tests/protocol/outcome/test_payments.py"
    tests = [f"{file}::{name}" for name in ("test_a_levy_by_hand", "test_payments_by_hand")]
    done = subprocess.run(
        [sys.executable, "-c", CHANGED, str(tmp_path), *tests],
        cwd=ROOT, capture_output=True, text=True, timeout=LIMIT,
    )  # fmt: skip
    assert done.stdout.split() == ["killed", "survived"], done.stderr
