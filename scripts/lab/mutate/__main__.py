"""`scripts/mutate`: change the code in small ways, and list the changes that no test notices."""

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from scripts.lab.common.local_session import ROOT
from scripts.lab.mutate.operators import Mutant, mutants, placebo
from scripts.lab.mutate.runner import Baseline, baseline, end, preload, start

EXPLAINED = ROOT / "scripts" / "lab" / "mutate" / "explained.txt"
"""Changes that no test can notice, each with its reason."""

MOST = 0.05
"""The part of all mutants that may survive without an explanation."""

_SLOW = 20.0  # a mutant may take this many times as long as its tests, and a minute

GROUPS: dict[str, tuple[list[str], list[str]]] = {
    "gate": (["party/release/gate.py"], ["tests/party/release/test_gate.py",
        "tests/party/release/test_ball_gate.py", "tests/party/release/test_commitments.py",
        "tests/party/release/test_masks.py",
        "tests/party/release/test_pacing.py::test_a_release_is_recorded_before_its_time_comes"]),
    "ledger": (["party/ledger"], ["tests/party/ledger", "tests/party/test_backup.py",
        "tests/party/test_abandon.py", "tests/party/test_claim_file.py",
        "tests/party/release/test_masks.py", "tests/party/release/test_commitments.py"]),
    "session": (["protocol/session"], ["tests/protocol/session"]),
    "privacy": (["protocol/privacy"], ["tests/protocol/privacy",
        "tests/party/release/test_ball_gate.py"]),
    "quota": (["protocol/outcome/public_quota.py", "protocol/outcome/private_quota.py",
        "protocol/outcome/ball_quota.py", "protocol/outcome/margin.py",
        "protocol/outcome/allocation_rule.py"], ["tests/protocol/outcome"]),
    "payments": (["protocol/outcome/payments.py"], ["tests/protocol/outcome"]),
    "masks": (["party/release/masks.py"], ["tests/party/release/test_masks.py",
        "tests/party/release/test_mask_collusion.py", "tests/party/release/test_commitments.py",
        "tests/protocol/commitment"]),
    "commitments": (["party/release/commitments.py", "protocol/commitment"],
        ["tests/protocol/commitment", "tests/party/release/test_commitments.py"]),
}  # fmt: skip
"""By name: what is changed, and the tests that decide."""


def files(places: list[str]) -> list[Path]:
    """The modules in these places."""
    found = []
    for place in places:
        path = ROOT / place
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return [path.relative_to(ROOT) for path in found if path.name != "__init__.py"]


def explanations(text: str) -> dict[tuple[str, str, str, str], str]:
    """Reasons by file, function and change. A line for the change, an indented one for why."""
    found = {}
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    for change, reason in zip(lines[::2], lines[1::2], strict=True):
        place, _, rest = change.partition(" ")
        function, _, change = rest.partition(": ")
        before, _, after = change.partition(" -> ")
        found[place, function, before, after] = reason.strip()
    return found


def identity(mutant: Mutant) -> tuple[str, str, str, str]:
    """How a mutant is named where it is explained: without its line, which moves."""
    return str(mutant.path), mutant.function or "module", mutant.before, mutant.after


def run(
    chosen: list[Mutant], known: Baseline, jobs: int, folder: Path
) -> Iterator[tuple[Mutant, str]]:
    """Each mutant and what became of it: killed, slow, survived or unreached."""
    waiting, running = list(reversed(chosen)), dict[int, tuple[Mutant, float]]()
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant = waiting.pop()
            tests = known.reaching(mutant)
            if not tests:
                yield mutant, "unreached"
                continue
            number = start(ROOT, mutant, tests, folder / f"{len(waiting)}.log")
            limit = 60.0 + _SLOW * sum(known.seconds[test] for test in tests)
            running[number] = mutant, time.monotonic() + limit
        time.sleep(0.02)
        for number, (mutant, until) in list(running.items()):
            late = time.monotonic() > until
            if late:
                end(number)
            done, status = os.waitpid(number, 0 if late else os.WNOHANG)
            if done:
                del running[number]
                code = os.waitstatus_to_exitcode(status)
                yield mutant, "slow" if late else "survived" if code == 0 else "killed"


def _require_placebo(paths: list[Path], known: Baseline) -> None:
    """Without a change the tests must pass in a child: else every mutant would count as killed."""
    with tempfile.TemporaryDirectory() as folder:
        same = [placebo(path, ROOT) for path in paths]
        for mutant, result in run(same, known, 1, Path(folder)):
            if result != "survived":
                log = next(Path(folder).iterdir()).read_text()
                raise SystemExit(f"the tests fail with {mutant.path} unchanged:\n{log[-2000:]}")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="scripts/mutate",
        description="Change the code in small ways, one at a time, and run the tests that reach "
        "the change. A change that no test notices is listed. Exit code 1 if more than "
        f"{MOST:.0%} survive without an explanation in {EXPLAINED.relative_to(ROOT)}.",
    )
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, []], help="which modules (all)")
    parser.add_argument("--sample", type=int, metavar="N", help="changes drawn per group (all)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the draw (%(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="parallel test runs (%(default)s)")
    options = parser.parse_args()
    os.chdir(ROOT)
    reasons, survived, total = explanations(EXPLAINED.read_text()), 0, 0
    for name in options.groups or GROUPS:
        places, tests = GROUPS[name]
        every = [mutant for path in files(places) for mutant in mutants(path, ROOT)]
        chosen = every
        if options.sample is not None and options.sample < len(every):
            chance = random.Random(f"{options.seed} {name}")
            chosen = [every[i] for i in sorted(chance.sample(range(len(every)), options.sample))]
        known = baseline(ROOT, files(places), tests)
        preload(known.libraries)
        _require_placebo(files(places), known)
        counts = dict.fromkeys(("killed", "slow", "survived", "unreached", "explained"), 0)
        with tempfile.TemporaryDirectory() as folder:
            for mutant, result in run(chosen, known, options.jobs, Path(folder)):
                if result in ("survived", "unreached") and identity(mutant) in reasons:
                    result = "explained"
                counts[result] += 1
                if result in ("survived", "unreached"):
                    print(f"{result}: {mutant}", flush=True)
        survived += counts["survived"] + counts["unreached"]
        total += len(chosen)
        figures = ", ".join(f"{count} {what}" for what, count in counts.items())
        print(f"{name}: {len(chosen)} of {len(every)} mutants: {figures}", flush=True)
    print(f"{survived} of {total} survive without an explanation")
    sys.exit(survived > MOST * total)


if __name__ == "__main__":
    main()
