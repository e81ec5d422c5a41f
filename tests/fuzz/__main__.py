"""`scripts/fuzz`: one target for a time, its findings, and the lines that its corpus reaches."""

import argparse
import importlib
import importlib.util
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from math import ceil
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tests.fuzz.target import CORPUS, Target
from tests.fuzz.targets import TARGETS
from tests.support import ROOT

INPUT_SECONDS = 10
"""An input that takes longer is a hang."""

MEMORY_MIB = 1024
"""A process that needs more is a defect."""

_MISSING = """atheris is not installed here. It has wheels for some versions of Python. Try:
  scripts/environment pip install -c constraints.txt atheris"""


def inputs(name: str, target: Target, *folders: Path) -> Iterator[tuple[str, bytes]]:
    """Every seed, every file of the corpus and every file in these folders, with its name."""
    for number, seed in enumerate(target.seeds()):
        yield f"seed {number}", seed
    for folder in (CORPUS / name, *folders):
        for path in sorted(folder.glob("*")):
            yield path.name, path.read_bytes()


def fuzz(name: str, seconds: int, folder: Path) -> int:
    """Run libFuzzer for this much processor time. Whatever it finds is a file in the folder.

    On a busy machine one run by the clock is too little; then more runs follow, with what the
    earlier ones found. Returns the exit code.
    """
    target = TARGETS[name]()
    seeds, found = folder / "seeds", folder / "new"
    for place in (seeds, found, CORPUS / name):
        place.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (seeds / f"seed-{number}").write_bytes(seed)
    words = folder / "words"
    words.write_text("".join(f"{_quoted(word)}\n" for word in target.words))
    dictionary = [f"-dict={words}"] if target.words else []
    target.close()
    start, code = processor_seconds(), 0
    while not code and (left := seconds - processor_seconds() + start) > 0.0:
        code = _run(
            name, folder / "log", found, seeds, CORPUS / name, f"-max_total_time={ceil(left)}",
            f"-max_len={target.longest}", f"-artifact_prefix={folder}/", *dictionary,
        )  # fmt: skip
    return code


def processor_seconds() -> float:
    """What all ended processes of this one have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run(name: str, log: Path, *arguments: Any) -> int:
    limits = f"-timeout={INPUT_SECONDS}", f"-rss_limit_mb={MEMORY_MIB}", "-print_final_stats=1"
    command = [sys.executable, "-m", "tests.fuzz.instrumented", name, *limits, *arguments]
    with log.open("ab") as output:
        done = subprocess.run(list(map(str, command)), cwd=ROOT, stderr=output, stdout=output)
    return done.returncode


def _quoted(word: str) -> str:
    escaped = "".join(c if c.isalnum() or c in " []<>=,:./{" else f"\\x{ord(c):02x}" for c in word)
    return f'"{escaped}"'


def statistics(log: str) -> dict[str, int]:
    """Executions, and what libFuzzer counted as covered, from its output."""
    executed = re.findall(r"stat::number_of_executed_units:\s*(\d+)", log)
    covered = re.findall(r"cov: (\d+) ft: (\d+) corp: (\d+)", log)
    branches, features, corpus = map(int, covered[-1]) if covered else (0, 0, 0)
    return {
        "executions": sum(map(int, executed)),
        "branches": branches,
        "features": features,
        "corpus": corpus,
    }


def lines(name: str, *folders: Path) -> dict[str, tuple[int, int]]:
    """By module of the target: lines that its inputs reach, and all that can be reached."""
    with closing(TARGETS[name]()) as target:
        reached = [found for _, data in inputs(name, target, *folders)
                   for found in reached_by(target, data)]  # fmt: skip
        possible = {module: _lines(module) for module in target.modules}
    every = set(reached)
    return {
        module: (sum((module, line) in every for line in found), len(found))
        for module, found in possible.items()
    }


def reached_by(target: Target, data: bytes) -> set[tuple[str, int]]:
    """The lines of the target's modules that one input reaches, by module."""
    files = {str(importlib.import_module(m).__file__): m for m in target.modules}
    reached: set[tuple[str, int]] = set()

    def trace(frame: FrameType, _event: str, _argument: Any) -> Any:
        module = files.get(frame.f_code.co_filename)
        if module is None:
            return None
        reached.add((module, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        target.feed(data)
    finally:
        sys.settrace(before)
    return reached


def _lines(module: str) -> set[int]:
    """The lines inside functions: those of a module itself run when it is imported."""
    path = Path(str(importlib.import_module(module).__file__))
    found: set[int] = set()
    codes = [c for c in _codes(compile(path.read_text(), str(path), "exec")) if c.co_flags & 2]
    for code in codes:
        found |= {line for _, _, line in code.co_lines() if line and line > code.co_firstlineno}
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="scripts/fuzz",
        description="Test a reader of bytes from others with inputs that coverage chooses. Only "
        f"our own errors may come out, each input within {INPUT_SECONDS} s, all within "
        f"{MEMORY_MIB} MiB. A finding is written to --dir, and the exit code is 1.",
    )
    parser.add_argument("target", choices=[*TARGETS, "all"])
    parser.add_argument("--seconds", type=int, default=60,
        help="processor time for each target (60)")  # fmt: skip
    parser.add_argument("--dir", type=Path, help="where inputs and findings go (a new folder)")
    parser.add_argument("--lines", action="store_true",
        help="do not fuzz: say how many of the lines the corpus in the tree reaches")  # fmt: skip
    parser.add_argument("--keep", action="store_true",
        help="afterwards add to the corpus in the tree what reaches new lines")  # fmt: skip
    options = parser.parse_args()
    if not options.lines and importlib.util.find_spec("atheris") is None:
        parser.exit(2, f"{_MISSING}\n")
    failed = False
    for name in TARGETS if options.target == "all" else [options.target]:
        folder = (options.dir or Path(tempfile.mkdtemp(prefix="sotto-fuzz-"))) / name
        if not options.lines:
            folder.mkdir(parents=True, exist_ok=True)
            before, code = processor_seconds(), fuzz(name, options.seconds, folder)
            print(f"{name}: {processor_seconds() - before:.0f} s of processor time")
            failed |= _report(name, code, folder)
            if options.keep and not failed:
                keep(name, folder / "new")
        reached = lines(name, folder / "new").values()
        hit, all_lines = (sum(counts) for counts in zip(*reached, strict=True))
        print(f"{name}: reaches {hit} of {all_lines} lines of its modules", flush=True)
    sys.exit(failed)


def _report(name: str, code: int, folder: Path) -> bool:
    """Print what one run did. Returns whether it found something."""
    log = (folder / "log").read_text(errors="replace")
    figures = ", ".join(f"{count:,} {what}" for what, count in statistics(log).items())
    print(f"{name}: {figures}", flush=True)
    if code:
        print(f"{name}: FOUND a defect (exit code {code}); see {folder / 'log'}", flush=True)
    return code != 0


def keep(name: str, found: Path) -> None:
    """Add to the corpus in the tree the shortest inputs that reach a line no other reaches."""
    corpus = CORPUS / name
    with closing(TARGETS[name]()) as target:
        known: set[tuple[str, int]] = set()
        for _, data in inputs(name, target):
            known |= reached_by(target, data)
        for path in sorted(found.iterdir(), key=lambda path: (path.stat().st_size, path.name)):
            reached = reached_by(target, path.read_bytes())
            if not reached <= known:
                known |= reached
                (corpus / path.name[:12]).write_bytes(path.read_bytes())


if __name__ == "__main__":
    main()
