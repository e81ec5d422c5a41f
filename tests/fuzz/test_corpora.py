"""The corpora of all fuzzing targets, replayed without a fuzzer."""

import resource
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from types import FrameType

import pytest

from tests.fuzz.__main__ import INPUT_SECONDS, MEMORY_MIB, inputs, lines, statistics
from tests.fuzz.target import CORPUS, edit, edited
from tests.fuzz.targets import TARGETS

BUSY = 6
"""A busy machine may need this many times as long."""


@contextmanager
def at_most(seconds: int, what: str) -> Iterator[None]:
    """Fail if the code inside does not end in time."""

    def late(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"{what} takes more than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    left = signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(left)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_of_a_corpus_finds_a_defect(name: str) -> None:
    """Every seed and every input that fuzzing kept is read or refused, within time and memory."""
    with closing(TARGETS[name]()) as target:
        every = list(inputs(name, target))
        for which, data in every:
            with at_most(BUSY * INPUT_SECONDS, f"{name}, {which}"):
                target.feed(data)
    assert len(every) >= 5 + len(list((CORPUS / name).glob("*")))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10 < 2 * MEMORY_MIB


@pytest.mark.parametrize("name", ["claims", "page"])
def test_a_corpus_reaches_most_of_its_modules(name: str) -> None:
    """A target that no longer reaches the code behind the first check would find nothing."""
    reached, possible = (sum(counts) for counts in zip(*lines(name).values(), strict=True))
    assert reached > 0.45 * possible


def test_edits_overwrite_insert_and_delete() -> None:
    """A script of edits does to its base what it says, whatever bytes it has."""
    base = b"0123456789"
    assert edited(base, edit(3, b"xy")) == b"012xy56789"
    assert edited(base, b"\0\0\2\1\2ab" + b"\0\0\0\2\1") == b"1ab23456789"
    assert edited(base, b"\xff\xff\xff\0") == base
    assert edited(b"", edit(9, b"z")) == b"z"


def test_figures_of_a_run_are_read_from_its_output() -> None:
    """The last line of coverage counts, and executions of all processes together."""
    log = "#2 INITED cov: 5 ft: 6 corp: 1/1b\n#9 NEW    cov: 7 ft: 9 corp: 3/20b lim: 4\n"
    log += "stat::number_of_executed_units: 12\nstat::number_of_executed_units: 30\n"
    assert statistics(log) == {"executions": 42, "branches": 7, "features": 9, "corpus": 3}
