"""The page of a study: its tables, and three sentences under each on what it means.

Every number and every verdict is computed from the CSV files of the run, so that a run with
other results says other things. Gaps are percentages of the optimum.
"""

import csv
import json
import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from protocol.arrays import Floats
from scripts.studies.cells import (
    CONVERGENCE_VARIANTS,
    DELTA,
    EPSILONS,
    EXPERIMENTS,
    HIDDEN,
    MOMENTUM_HIDDEN,
    MOMENTUM_PRIVATE,
    PAPER_EPSILONS,
    PAPER_VARIANTS,
    TAU,
    VARIANTS,
    WORTH,
)
from scripts.studies.play import LEVELS, first_below

Columns = dict[str, Any]
"""A table by columns: numbers, with NaN for what is missing, or texts."""

BEST_PART = 0.9
"""The part of the replications that the paper reports on."""

EXCEEDED = 1e-6
"""An overrun below this part of a capacity is rounding: a tick is 1e-6."""

SURE = 2.0
"""Standard errors that a difference must have to be called one."""


def read(path: Path) -> Columns:
    """A CSV file by columns."""
    with path.open(newline="") as file:
        header, *lines = csv.reader(file)
    columns = zip(*lines, strict=True) if lines else ([] for _ in header)
    return {name: _numbers(list(cells)) for name, cells in zip(header, columns, strict=True)}


def _numbers(cells: list[str]) -> Any:
    try:
        return np.array([float(cell) if cell else math.nan for cell in cells])
    except ValueError:
        return np.array(cells)


def where(table: Columns, **wanted: Any) -> Columns:
    """The rows in which each of these columns has this value; None is what is missing."""
    chosen = np.ones(len(next(iter(table.values()))), dtype=bool)
    for name, value in wanted.items():
        chosen &= np.isnan(table[name]) if value is None else table[name] == value
    return {name: column[chosen] for name, column in table.items()}


def best_part(values: Floats) -> Floats:
    """The smallest 90 %."""
    return np.sort(values)[: math.ceil(BEST_PART * len(values))]


def part(chosen: Any) -> str:
    """How many of these are true, in percent."""
    return f"{100 * float(np.mean(chosen)):.0f} %" if len(chosen) else "–"


def mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else math.nan


def error(values: Floats) -> float:
    """The standard error of the mean."""
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def percent(values: Floats) -> str:
    """The mean in percent, with its standard error."""
    values = values[~np.isnan(values)]
    if not len(values):
        return "–"
    spread = "" if math.isnan(error(values)) else f" ± {100 * error(values):.2f}"
    return f"{100 * mean(values):.2f}{spread}"


def informed(rows: Columns, measure: str = "average") -> bool:
    """Whether the own prices are better than the placebo's by more than chance explains."""
    saved = rows[f"placebo_{measure}"] - rows[f"gap_{measure}"]
    return len(saved) > 1 and mean(saved) > SURE * error(saved)


def grid(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table in Markdown; all columns but the first are numbers."""
    lines = [header, [":--", *["--:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def meaning(first: str, second: str, third: str) -> str:
    """What a table means: three sentences."""
    return textwrap.fill(f"{first} {second} {third}", 98)


def section(title: str, lead: str, table: str, said: str, figures: Sequence[str] = ()) -> str:
    """One part of the page: a table, and what it means."""
    parts = [f"## {title}", lead, table.rstrip(), said]
    parts += ["\n".join(f"![{name}]({name}.png)" for name in figures)]
    return "\n\n".join(part for part in parts if part) + "\n"


def budget(epsilon: float) -> str:
    return "no noise" if epsilon == HIDDEN else f"{epsilon:g}"


def settings(name: str) -> list[Any]:
    return list(next(e for e in EXPERIMENTS if e.name == name).settings)


def market(setting: Any) -> str:
    """A market in the words of the paper."""
    return f"K = {setting.parties}, s₁ ≤ {setting.share_first:g}c, buffer {setting.buffer:g}c"


def cell(table: Columns, setting: Any, epsilon: float, variant: str, experiment: str) -> Columns:
    """The replications of one cell."""
    return where(
        table,
        experiment=experiment,
        parties=setting.parties,
        share_first=setting.share_first,
        buffer=setting.buffer,
        epsilon=epsilon,
        variant=variant,
    )


class Page:
    """The results of one run, and the sections that can be made of them."""

    def __init__(self, out: Path) -> None:
        self.manifest = json.loads((out / "manifest.json").read_text())
        self.sessions, self.convergence, self.curves, self.shares = (
            read(out / f"{name}.csv") for name in ("sessions", "convergence", "curves", "shares")
        )

    def text(self) -> str:
        parts: list[Callable[[], str]] = [self.opening]
        if len(self.convergence["seed"]):
            parts.append(self.rounds_needed)
        if self._has("privacy"):
            parts += [self.markets, self.paper_measure, self.known_measure, self.iterates]
        if self._has("parties"):
            parts += [self.information, self.overruns]
        if self._has("quota"):
            parts.append(self.quotas)
        if self._has("privacy"):
            parts.append(self.quotas_with_demands)
        return "\n".join(part() for part in parts)

    def _has(self, experiment: str) -> bool:
        return experiment in self.sessions["experiment"]

    def _recommended(self, setting: Any, epsilon: float, experiment: str) -> Columns:
        """The recommended sessions at this ε, which without noise are those in hidden mode."""
        variant = "hidden" if epsilon == HIDDEN else "recommended"
        return cell(self.sessions, setting, epsilon, variant, experiment)

    def opening(self) -> str:
        made = self.manifest
        versions = ", ".join(f"{name} {number}" for name, number in made["versions"].items())
        origin = textwrap.fill(
            f"Made by `{made['command']}`: {made['replications']} replications of every cell, "
            f"seeds {made['seeds']}, {versions}; {made['cpu_seconds'] / 60:.0f} minutes of CPU and "
            f"{made['seconds'] / 60:.0f} by the clock on {made['cores']} cores.",
            98,
            break_on_hyphens=False,
        )
        return f"""# What the study found

{origin}

How to read it. The *gap* is the dual gap c·λ + Σ g(λ) − Z*, in percent of the optimum Z* that
only an owner of all data could find. *Average* is the mean of the prices over the last half of
the rounds, *last* the last prices; both can be known. *Best* is the best round in hindsight, an
**oracle**: nobody can tell which round it was. The *placebo* of a session has the same agreement,
capacities, shares and noise, but other companies' data sets, drawn anew; its prices are judged on
the true data. Where the placebo is as good, the result holds no information about the companies.
± is the standard error of a mean; δ = {DELTA:g} and T = 150 wherever there is noise.

- *standard*, *momentum* (γ = {MOMENTUM_PRIVATE:g}) and *clipped* (momentum with adaptive caps, α
  the buffer, τ = {TAU:g}, truncated releases) are the paper's: its accountant, a whole capacity as
  the sensitivity, start at 0, and the step of its theorem with M from a public worth of {WORTH:g}
  for each resource; *tuned* is standard with that step K^1.5 times as long, the factor in the
  paper's code.
- *recommended* is this project's: exact accountant, agreed shares as the sensitivity, start at
  the public worth, and the same rule for the step, with M half as large because it starts from
  a public guess instead of 0.
- No private number chooses a parameter anywhere. The paper's code takes M from the optimal prices,
  which nobody knows; here it is public.
"""

    def rounds_needed(self) -> str:
        rows = []
        for parties in (5, 10):
            for variant in CONVERGENCE_VARIANTS:
                curve = where(self.curves, parties=parties, variant=variant)["mean"]
                ends = where(self.convergence, parties=parties, variant=variant)
                needed = [first_below(curve, level / 100.0) for level in LEVELS]
                rows.append(
                    [f"K = {parties}, {VARIANTS[variant].label}"]
                    + ["–" if n is None else n for n in needed]
                    + [percent(ends[f"gap_{mark}"]) for mark in (100, 1000)]
                )
        rows.append(["*the paper's text*", 790, *["–"] * 6])
        rows.append(["*the paper's text, with momentum*", "–", 284, *["–"] * 5])
        header = ["rule", *(f"{level:g} %" for level in LEVELS), "gap at 100", "gap at 1000"]

        def at(parties: int, variant: str, mark: int) -> float:
            ends = where(self.convergence, parties=parties, variant=variant)
            return 100 * mean(ends[f"gap_{mark}"])

        plain = " and ".join(f"{at(k, 'paper', 790):.1f} % (K = {k})" for k in (5, 10))
        helped = " and ".join(f"{at(k, 'paper-momentum', 284):.1f} %" for k in (5, 10))
        longer = " and ".join(f"{at(k, 'paper-long', 790):.1f} %" for k in (5, 10))
        ours = [at(parties, "default", 100) for parties in (5, 10)]
        shaken, calm = (
            max(at(parties, variant, 1000) for parties in (5, 10))
            for variant in ("default-momentum", "default")
        )
        return section(
            "1. Convergence without noise: rounds until the mean gap is this small",
            "",
            grid(header, rows),
            meaning(
                f"The rule of the paper's code, 1/√t on data divided by ‖c‖, has a mean gap of "
                f"{plain} after 790 rounds and, with steps ‖c‖ times as long, {longer}, where the "
                f"paper's text says 25 % and does not give the step of its figure.",
                f"At round 284 momentum of {MOMENTUM_HIDDEN:g} brings the first to {helped}, where "
                f"the text says 15 %; it helps steps that are too short, and does harm to the "
                f"default step (up to {shaken:.2f} % at round 1000, without it {calm:.2f} %).",
                f"The default step knows nothing but the public worth and has a mean gap of "
                f"{ours[0]:.2f} % (K = 5) and {ours[1]:.2f} % (K = 10) at round 100, "
                f"{'within' if max(ours) <= 1.0 else 'not within'} the 1 % that it should reach.",
            ),
            ("convergence", "momentum"),
        )

    def markets(self) -> str:
        rows, largest = [], {}
        for setting in settings("privacy"):
            table = where(
                self.shares,
                parties=setting.parties,
                share_first=setting.share_first,
                buffer=setting.buffer,
            )
            others = table["share"][table["party"] > 1]
            largest[setting] = others.max()
            values = (setting.share_first, others.min(), others.mean(), others.max())
            rows.append([market(setting), *(f"{value:.2f}" for value in values)])
        small = [size for s, size in largest.items() if (s.parties, s.share_first) == (5, 0.15)]
        return section(
            "2. Market shares: the largest part of each capacity that a party may claim",
            "",
            grid(["market", "party 1", "others: least", "mean", "most"], rows),
            meaning(
                "The first party's share is given, and the others divide the rest of the buffer "
                "at random.",
                f"With s₁ ≤ 0.5c the first dominates most markets; with s₁ ≤ 0.15c and K = 5 it is "
                f"dominated by others that hold up to {max(small):.2f}.",
                "The shares are public, so that taking them as the sensitivity instead of a whole "
                "capacity lowers the noise and costs nothing.",
            ),
            ("shares-5", "shares-10"),
        )

    def paper_measure(self) -> str:
        rows, count, told, near, falls = [], 0, 0, 0, 0
        variants = (*PAPER_VARIANTS, "tuned")
        for setting in settings("privacy"):
            for epsilon in PAPER_EPSILONS:
                line = [market(setting), f"{epsilon:g}"]
                for variant in variants:
                    table = cell(self.sessions, setting, epsilon, variant, "privacy")
                    own, placebo = best_part(table["gap_best"]), best_part(table["placebo_best"])
                    line.append(f"{percent(own)} / {percent(placebo)}")
                    count += 1
                    told += informed(table, "best")
                    near += mean(placebo) - mean(own) <= 0.05 * mean(placebo)
                rows.append(line)
            for variant in variants:
                most, least = (
                    mean(cell(self.sessions, setting, e, variant, "privacy")["gap_best"])
                    for e in (PAPER_EPSILONS[0], PAPER_EPSILONS[-1])
                )
                falls += most > least
        header = ["market", "ε", *(VARIANTS[v].label for v in variants)]
        tuned = where(self.sessions, experiment="privacy", variant="tuned", epsilon=0.1)
        return section(
            "3. Privacy against utility, as the paper measures it",
            "Best round in hindsight (oracle) of the best 90 % of the replications: own data / "
            "placebo.",
            grid(header, rows),
            meaning(
                f"From ε = 0.1 to ε = 4 the gap falls in {falls} of {count // 4} markets and "
                f"variants, as in the paper's figures.",
                f"But the placebo's falls alike and is within a twentieth of the own data's in "
                f"{near} of these {count} cells, though paired draws can tell the two apart in "
                f"{told}: ε sets how far the prices wander, and hardly what they learn.",
                f"None of these numbers can be had in practice, as choosing rounds and "
                f"replications needs the optimum: with the step K^1.5 times as long, as in the "
                f"paper's code, the best round at ε = 0.1 is {percent(tuned['gap_best'])} % away, "
                f"the placebo's best {percent(tuned['placebo_best'])} %, and the average prices, "
                f"which can be known, {percent(tuned['gap_average'])} %.",
            ),
            ("paper-5", "paper-10"),
        )

    def known_measure(self) -> str:
        rows, lost, gains, better, told, total = [], [], [], 0, 0, 0
        variants = (*PAPER_VARIANTS, "recommended")
        for setting in settings("privacy"):
            for epsilon in EPSILONS:
                tables = {v: cell(self.sessions, setting, epsilon, v, "privacy") for v in variants}
                ours = tables["recommended"]
                rows.append(
                    [market(setting), f"{epsilon:g}"]
                    + [
                        f"{percent(t['gap_average'])} / {percent(t['placebo_average'])}"
                        for t in tables.values()
                    ]
                    + [percent(best_part(ours["gap_average"])), percent(ours["gap_start"])]
                )
                if epsilon not in PAPER_EPSILONS:
                    continue
                total += 1
                told += informed(ours)
                gains.append(mean(ours["placebo_average"] - ours["gap_average"]))
                better += mean(ours["gap_start"]) < mean(ours["gap_average"])
                for v in PAPER_VARIANTS:
                    above = ours["gap_average"] - tables[v]["gap_average"]
                    if mean(above) >= 0.0:
                        name = f"{market(setting)}, ε = {epsilon:g}, where {VARIANTS[v].label}"
                        lost.append(f"{name} is lower by {percent(above)}")
        header = [
            "market", "ε", *(VARIANTS[v].label for v in variants),
            "recommended, best 90 %", "its start prices alone",
        ]  # fmt: skip
        won, but = 3 * total - len(lost), f"; it is not for {'; '.join(lost)}" if lost else ""
        return section(
            "4. Privacy against utility, with what can be known",
            "Average prices of the last half, all replications: own data / placebo.",
            grid(header, rows),
            meaning(
                f"The mean gap of the recommendation is below that of each of the paper's three "
                f"variants in {won} of {3 * total} comparisons of the paper's grid{but}.",
                f"Little of that is information: its own data are better than the placebo's by "
                f"more than two standard errors in {told} of the {total} cells, yet by only "
                f"{100 * max(gains):.2f} percentage points at most and "
                f"{100 * mean(np.array(gains)):.2f} on average.",
                f"In {better} of the {total} cells the public start prices alone, without any "
                f"session, are better than the prices that it ends with: at these budgets most of "
                f"the gain over the paper's variants is public knowledge.",
            ),
            ("privacy-5", "privacy-10"),
        )

    def iterates(self) -> str:
        rows, nearer, worse, hindsight = [], 0, 0, []
        for parties in (5, 10):
            for variant in (*PAPER_VARIANTS, "tuned", "recommended"):
                for epsilon in (0.1, 4.0, 64.0):
                    table = where(
                        self.sessions,
                        experiment="privacy",
                        parties=parties,
                        epsilon=epsilon,
                        variant=variant,
                    )
                    columns = ("gap_start", "gap_last", "gap_average", "gap_best", "placebo_best")
                    rows.append(
                        [f"K = {parties}, {VARIANTS[variant].label}", f"{epsilon:g}"]
                        + [percent(table[column]) for column in columns]
                    )
                    nearer += mean(table["gap_average"]) < mean(table["gap_last"])
                    worse += mean(table["gap_start"]) < mean(table["gap_average"])
                    hindsight.append(mean(table["placebo_best"]) < mean(table["gap_average"]))
        header = ["variant", "ε", "start", "last", "average", "best (oracle)", "placebo's best"]
        count = len(rows)
        return section(
            "5. Start, last, average and best prices, over all four markets",
            "",
            grid(header, rows),
            meaning(
                f"The average of the last half is better than the last prices in {nearer} of these "
                f"{count} rows.",
                f"The best round looks better than either, but so does the best round of a session "
                f"among other companies ({sum(hindsight)} of {count} rows below the own average): "
                f"it measures how far the prices wander, not what they learn.",
                f"In {worse} of {count} rows the session ends worse than the public prices with "
                f"which it began.",
            ),
        )

    def information(self) -> str:
        rows, beaten, compared = [], 0, 0
        removed: dict[float, list[float]] = {epsilon: [] for epsilon in (*EPSILONS, HIDDEN)}
        heard: dict[int, str] = {}
        for setting in settings("parties"):
            for epsilon in (*EPSILONS, HIDDEN):
                table = self._recommended(setting, epsilon, "parties")
                own, placebo = table["gap_average"], table["placebo_average"]
                standard = cell(self.sessions, setting, epsilon, "standard", "parties")
                share = 100 * (1.0 - mean(own) / mean(placebo))
                removed[epsilon].append(share)
                if informed(table):
                    heard.setdefault(setting.parties, budget(epsilon))
                if epsilon != HIDDEN:
                    compared += 1
                    beaten += mean(own) < mean(standard["gap_average"])
                rows.append(
                    [
                        f"K = {setting.parties}",
                        budget(epsilon),
                        percent(own),
                        percent(placebo),
                        percent(placebo - own),
                        f"{share:.0f} %" if informed(table) else "none shown",
                        percent(standard["gap_average"]),
                    ]
                )
        header = [
            "parties", "ε", "own", "placebo", "difference", "of the placebo's gap removed",
            "paper's standard",
        ]  # fmt: skip
        first = ", ".join(f"{e} (K = {k})" for k, e in heard.items())
        quiet = [
            100 * mean(self._recommended(s, HIDDEN, "parties")["placebo_average"])
            for s in settings("parties")
        ]
        return section(
            "6. Information: own prices against the placebo's, equal shares of 2/K",
            "Recommended variant, average prices, all replications; differences pair by pair.",
            grid(header, rows),
            meaning(
                f"The own data can be told from a placebo from ε = {first or 'none of these'} on, "
                f"but remove at most {max(removed[4.0]):.0f} % of its gap at ε = 4 and "
                f"{min(removed[64.0]):.0f} to {max(removed[64.0]):.0f} % at ε = 64.",
                f"With many parties the placebo itself is good, {quiet[0]:.1f} % without noise for "
                f"K = 5 but {quiet[-1]:.2f} % for K = 100, because any hundred companies drawn "
                f"alike want much the same: a small gap there is no sign that anybody was heard.",
                f"The recommendation is below the paper's standard variant in {beaten} of "
                f"{compared} cells, as its noise falls with the shares while theirs does not.",
            ),
            ("information",),
        )

    def overruns(self) -> str:
        rows = []
        for setting in settings("parties"):
            for epsilon in (*EPSILONS, HIDDEN):
                table = self._recommended(setting, epsilon, "parties")
                line = [f"K = {setting.parties}", budget(epsilon)]
                for measure in ("overrun_last", "overrun_average"):
                    over = table[measure]
                    line += [part(over > EXCEEDED), percent(over[over > EXCEEDED])]
                    line.append(f"{100 * over.max():.0f}")
                rows.append(line)
        header = [
            "parties", "ε", "last: sessions over", "by, % of a capacity", "at worst",
            "average: sessions over", "by, % of a capacity", "at worst",
        ]  # fmt: skip
        noisy, quiet, paper = (
            where(self.sessions, experiment="parties", variant=v)["overrun_last"]
            for v in ("recommended", "hidden", "standard")
        )
        return section(
            "7. How often the plans at the final prices exceed a capacity, and by how much",
            "Recommended variant, equal shares of 2/K; the resource that is exceeded most.",
            grid(header, rows),
            meaning(
                f"With noise, plans that answer the last prices exceed some capacity in "
                f"{part(noisy > EXCEEDED)} of the sessions, by "
                f"{percent(noisy[noisy > EXCEEDED])} % of it.",
                f"Without noise it is {part(quiet > EXCEEDED)} of them, by "
                f"{percent(quiet[quiet > EXCEEDED])} %, and with the paper's standard variant "
                f"{part(paper > EXCEEDED)}, by {percent(paper[paper > EXCEEDED])} %.",
                "Prices alone are no allocation, whatever their gap: whoever plans with them needs "
                "a buffer of that size, or a quota.",
            ),
            ("overrun",),
        )

    def quotas(self) -> str:
        rows, least = [], []
        ahead: list[float] = []
        for epsilon in (*EPSILONS, HIDDEN):
            variant = "hidden" if epsilon == HIDDEN else "recommended"
            table = where(self.sessions, experiment="quota", epsilon=epsilon, variant=variant)
            gain = table["quota"] - table["prorata"]
            ahead = [*ahead, epsilon] if mean(gain) > SURE * error(gain) else []
            least.append(100 * mean(gain))
            columns = ("quota", "prorata", "placebo_quota")
            rows.append([budget(epsilon), *(percent(table[c]) for c in columns), percent(gain)])
        best = where(self.sessions, experiment="quota", variant="hidden")
        whole, equal, other = (100 * mean(best[c]) for c in ("quota", "prorata", "placebo_quota"))
        header = ["ε", "quota", "pro rata", "placebo's quota", "quota above pro rata"]
        begin = f"from ε = {budget(ahead[0])} on" if ahead else "at no ε here"
        return section(
            "8. What the quota is worth: total utility in percent of the optimum",
            "K = 10, equal shares of 2/K, no minimum demands; every plan is feasible for certain.",
            grid(header, rows),
            meaning(
                f"Without noise the quota earns {whole:.1f} % of the optimum, where a split in "
                f"proportion to the shares earns {equal:.1f} %.",
                f"With noise it is better than that split by more than two standard errors "
                f"{begin}, and at worst {abs(min(0.0, *least)):.2f} percentage points below it, "
                f"since it tends to that split when nothing can be heard.",
                f"Quotas learned from other companies earn {other:.1f} % without noise, "
                + (
                    "less than the split that listens to nobody: what quotas gain is information."
                    if other < equal
                    else "no less than the split that listens to nobody."
                ),
            ),
            ("quota",),
        )

    def quotas_with_demands(self) -> str:
        rows = []
        for parties in (5, 10):
            for epsilon in (*EPSILONS, HIDDEN):
                table = where(
                    self.sessions,
                    experiment="privacy",
                    parties=parties,
                    epsilon=epsilon,
                    variant="hidden" if epsilon == HIDDEN else "recommended",
                )
                rows.append(
                    [
                        f"K = {parties}",
                        budget(epsilon),
                        percent(table["quota_lacking"]),
                        percent(table["prorata_lacking"]),
                        part(~np.isnan(table["quota"])),
                        percent(table["quota"]),
                    ]
                )
        header = [
            "parties", "ε", "parties without a plan: quota", "pro rata",
            "sessions in which all have one", "utility there, % of the optimum",
        ]  # fmt: skip
        quiet = where(self.sessions, experiment="privacy", variant="hidden")
        loud = where(self.sessions, experiment="privacy", variant="recommended", epsilon=4.0)
        return section(
            "9. Quotas where every party has minimum demands",
            "The paper's markets, all four together; in percent.",
            grid(header, rows),
            meaning(
                f"The paper's demands are 75 to 100 % of an optimum that knew everything, so that "
                f"a split in proportion to the shares leaves "
                f"{100 * mean(quiet['prorata_lacking']):.0f} % of the parties without any plan.",
                f"Without noise the quota leaves {100 * mean(quiet['quota_lacking']):.1f} % "
                f"without one, and at ε = 4 it leaves {100 * mean(loud['quota_lacking']):.0f} %.",
                "Whoever has such demands should agree on shares that cover them, and not rely on "
                "a split that has to be learned through this much noise.",
            ),
        )


def write(out: Path) -> None:
    """Write `results.md`."""
    (out / "results.md").write_text(Page(out).text(), newline="\n")
