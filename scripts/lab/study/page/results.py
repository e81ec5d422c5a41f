"""`results.md`: the findings in a dozen lines, how to read them, and every table with its meaning.

Every number and every verdict is computed from the tables of the run: other results give other
verdicts. Gaps are percentages of the optimum.
"""

import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path

from scripts.lab.study.grid import DELTA, EXPERIMENTS, MOMENTUM_PRIVATE, TAU, WORTH
from scripts.lab.study.page import ball, convergence, parties, privacy, quota, totals
from scripts.lab.study.tables import Results

FINDINGS: tuple[tuple[str, Callable[[Results], Iterable[str]]], ...] = (
    ("convergence", convergence.findings),
    ("privacy", privacy.findings),
    ("parties", parties.findings),
    ("quota", quota.findings),
    ("privacy", quota.findings_with_demands),
    ("totals", totals.findings),
    ("ball", ball.findings),
)
SECTIONS: tuple[tuple[str, Callable[[Results], str]], ...] = (
    ("convergence", convergence.rounds_needed),
    ("privacy", privacy.markets),
    ("privacy", privacy.paper_measure),
    ("privacy", privacy.known_measure),
    ("privacy", privacy.iterates),
    ("parties", parties.information),
    ("parties", parties.overruns),
    ("quota", quota.quotas),
    ("privacy", quota.quotas_with_demands),
    ("totals", totals.gained),
    ("ball", ball.gained),
)
"""The sections of each experiment, in the order of the page."""


def write(out: Path) -> None:
    """Write `results.md`."""
    (out / "results.md").write_text(text(Results(out)), newline="\n")


def text(results: Results) -> str:
    """The page, without experiments that did not run."""
    found = [line for name, lines in FINDINGS if results.has(name) for line in lines(results)]
    sections = [section(results) for name, section in SECTIONS if results.has(name)]
    heading = "# What the study found\n\n" + "\n".join(f"- {line}" for line in found) + "\n"
    return "\n".join([heading, reading(results), *sections])


def reading(results: Results) -> str:
    """How the results were made, and what their terms mean."""
    facts = results.manifest
    rounds = next(e.rounds for e in EXPERIMENTS if e.name == "privacy")
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    later = "".join(
        f" Not all of it in that run: {', '.join(run['variants'])} were played at commit "
        f"{run['commit'][:7]} ({run['why']})."
        for run in facts.get("played_later", ())
    )
    origin = textwrap.fill(
        f"Made by `{facts['command']}`: {facts['replications']} replications of every cell, "
        f"seeds {facts['seeds']}, {versions}; {facts['cpu_seconds'] / 60:.0f} minutes of CPU and "
        f"{facts['seconds'] / 60:.0f} by the clock on {facts['cores']} cores." + later,
        98,
        break_on_hyphens=False,
    )
    return f"""{origin}

How to read it. The *gap* is the dual gap c·λ + Σ g(λ) − Z*, in percent of the optimum Z* that
only an owner of all data could find. *Average* prices are those that a session ends with: with
noise the mean over the last half of the rounds, without it the weighted mean of the centre rule;
*last* are those after the last round. Both can be known. *Best* is the best round in hindsight, an
**oracle**: no member can know which round it was. The *placebo* of a session has the same
agreement, capacities, shares and noise, but other companies' data sets, drawn anew; its prices are
judged on the true data. Where the placebo is as good, the result holds no information about the
companies. ± is the standard error of a mean. δ = {DELTA:g} and T = {rounds} where there is noise.

- *standard*, *momentum* (γ = {MOMENTUM_PRIVATE:g}) and *clipped* (momentum with adaptive caps, α
  the buffer, τ = {TAU:g}, truncated releases) are the paper's: its accountant, a whole capacity as
  the sensitivity, start at 0, and the step of its theorem with M from a public worth of {WORTH:g}
  for each resource; *tuned* is standard with that step K^1.5 times as long, the factor in the
  paper's code.
- *recommended* is this project's: exact accountant, agreed shares as the sensitivity, start at
  the public worth, and the default step, which is the theorem's for money for a whole capacity
  instead of a unit, with M from the same worth; without noise the default is the centre rule,
  which ends by itself.
- *only totals* is recommended with masked releases: each member adds a fraction of the noise that
  hides a member from one colluder and everyone outside, and only the member knows its quota. It
  has the step *worth* in §8 to §10. The step *ball*, the default for only totals, is in §11.
- No private number chooses a parameter anywhere. The paper's code takes M from the optimal prices,
  which no member knows; here it is public.
"""
