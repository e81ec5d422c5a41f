"""From 5 to 100 parties: when prices have information, and how far plans exceed capacities."""

from collections.abc import Iterator

from scripts.lab.study.grid import EPSILONS, HIDDEN
from scripts.lab.study.page.layout import budget, grid, meaning, section
from scripts.lab.study.tables import (
    EXCEEDED,
    Columns,
    Results,
    informed,
    mean,
    percent,
    rate,
    settings,
    where,
)

SETTINGS = tuple(settings("parties"))


def removed(table: Columns) -> float:
    """How much of the placebo's gap the own data remove, in percent."""
    return 100 * (1.0 - mean(table["gap_average"]) / mean(table["placebo_average"]))


def removed_at(results: Results, epsilon: float) -> tuple[float, float]:
    """The least and the most that own data remove, over all numbers of parties."""
    parts = [removed(results.recommended(setting, epsilon, "parties")) for setting in SETTINGS]
    return min(parts), max(parts)


def _range(results: Results, epsilon: float) -> str:
    """The range of what own data remove where only totals can be read."""
    parts = [removed(results.cell(s, epsilon, "totals", "parties")) for s in SETTINGS]
    return f"{max(0.0, min(parts)):.0f} to {max(parts):.0f} %"


def over(results: Results, variant: str) -> Columns:
    """By how much plans at the last prices exceed capacities, with this variant."""
    overrun = where(results.sessions, experiment="parties", variant=variant)["overrun_last"]
    return {"all": overrun > EXCEEDED, "by": overrun[overrun > EXCEEDED]}


def findings(results: Results) -> Iterator[str]:
    least, most = removed_at(results, 64.0)
    noisy, quiet = over(results, "recommended"), over(results, "exact")
    yield (
        f"From 5 to 100 parties, own data remove at most {removed_at(results, 4.0)[1]:.0f} % of "
        f"the placebo's gap at ε = 4, and {least:.0f} to {most:.0f} % at ε = 64 (§6)."
    )
    yield (
        f"Plans at the last prices exceed some capacity in {rate(noisy['all'])} of the sessions "
        f"with noise and {rate(quiet['all'])} of those without (§7)."
    )


def information(results: Results) -> str:
    rows, beaten, compared = [], 0, 0
    first_informed: dict[int, str] = {}
    for setting in SETTINGS:
        for epsilon in (*EPSILONS, HIDDEN):
            table = results.recommended(setting, epsilon, "parties")
            own, placebo = table["gap_average"], table["placebo_average"]
            standard = results.cell(setting, epsilon, "standard", "parties")
            totals = results.cell(setting, epsilon, "totals", "parties")
            if informed(table):
                first_informed.setdefault(setting.parties, budget(epsilon))
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
                    f"{removed(table):.0f} %" if informed(table) else "none shown",
                    percent(totals["gap_average"]),
                    percent(totals["placebo_average"]),
                    f"{removed(totals):.0f} %" if informed(totals) else "–",
                    percent(standard["gap_average"]),
                ]
            )
    header = [
        "parties", "ε", "own", "placebo", "difference", "of the placebo's gap removed",
        "only totals: own", "placebo", "removed", "paper's standard",
    ]  # fmt: skip
    first = ", ".join(f"{e} (K = {k})" for k, e in first_informed.items())
    least, most = removed_at(results, 64.0)
    few, many = (
        100 * mean(results.recommended(setting, HIDDEN, "parties")["placebo_average"])
        for setting in (SETTINGS[0], SETTINGS[-1])
    )
    alike = (
        ", because any hundred companies drawn alike want much the same: a small gap there does "
        "not show that prices follow the data"
    )
    return section(
        "6. Information: own prices against the placebo's, equal shares of 2/K",
        "Recommended variant, average prices, all replications; differences pair by pair.",
        grid(header, rows),
        meaning(
            f"Own data and placebo differ beyond chance from ε = {first or 'none of these'} on. "
            f"Own data remove at most {removed_at(results, 4.0)[1]:.0f} % of the placebo's gap at "
            f"ε = 4 and {least:.0f} to {most:.0f} % at ε = 64.",
            f"The placebo itself is {few:.1f} % away without noise for K = 5 and {many:.2f} % for "
            f"K = 100{alike if 2 * many < few else ''}.",
            f"The recommendation is below the paper's standard variant in {beaten} of {compared} "
            f"cells; its noise falls with the shares, theirs does not. "
            f"Where only totals can be read, own data remove {_range(results, 4.0)} of the "
            f"placebo's gap at ε = 4 and {_range(results, 64.0)} at ε = 64, for the same ε and δ.",
        ),
        ("information",),
    )


def overruns(results: Results) -> str:
    rows = []
    for setting in SETTINGS:
        for epsilon in (*EPSILONS, HIDDEN):
            table = results.recommended(setting, epsilon, "parties")
            line = [f"K = {setting.parties}", budget(epsilon)]
            for measure in ("overrun_last", "overrun_average"):
                amount = table[measure]
                line += [rate(amount > EXCEEDED), percent(amount[amount > EXCEEDED])]
                line.append(f"{100 * amount.max():.0f}")
            rows.append(line)
    header = [
        "parties", "ε", "last: sessions over", "by, % of a capacity", "at worst",
        "average: sessions over", "by, % of a capacity", "at worst",
    ]  # fmt: skip
    noisy, quiet, paper = (over(results, v) for v in ("recommended", "exact", "standard"))
    return section(
        "7. How often the plans at the final prices exceed a capacity, and by how much",
        "Recommended variant, equal shares of 2/K; the resource that is exceeded most.",
        grid(header, rows),
        meaning(
            f"With noise, plans that answer the last prices exceed some capacity in "
            f"{rate(noisy['all'])} of the sessions, by {percent(noisy['by'])} % of it.",
            f"Without noise it is {rate(quiet['all'])} of them, by {percent(quiet['by'])} %, and "
            f"with the paper's standard variant {rate(paper['all'])}, by {percent(paper['by'])} %.",
            "Prices alone are no allocation, whatever their gap: a company that plans with them "
            "needs a buffer of that size, or a quota."
            if mean(noisy["all"]) > 0.5
            else "Nothing but a quota makes sure that no capacity is exceeded.",
        ),
        ("overrun",),
    )
