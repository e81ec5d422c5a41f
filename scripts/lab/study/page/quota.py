"""What the quota earns, without minimum demands and with those of the paper."""

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from scripts.lab.study.grid import EPSILONS, HIDDEN
from scripts.lab.study.page.layout import budget, grid, meaning, section
from scripts.lab.study.tables import (
    EXCEEDED,
    SURE,
    Columns,
    Results,
    error,
    mean,
    percent,
    rate,
    where,
)


def played(results: Results, experiment: str, epsilon: float, **more: int) -> Columns:
    """The recommended sessions of an experiment at this ε, over all its settings."""
    variant = "exact" if epsilon == HIDDEN else "recommended"
    return where(results.sessions, experiment=experiment, epsilon=epsilon, variant=variant, **more)


class Worth(Struct, frozen=True):
    """What quota, pro rata split and placebo's quota earn, in percent of the optimum."""

    whole: float
    equal: float
    placebo: float
    loud: float
    """The quota at the largest ε."""

    ahead: str
    """The smallest ε from which the quota beats the pro rata split beyond chance."""

    behind: float
    """The largest loss to the pro rata split, in percentage points."""


def worth(results: Results) -> Worth:
    ahead: list[float] = []
    least = 0.0
    for epsilon in (*EPSILONS, HIDDEN):
        table = played(results, "quota", epsilon)
        gain = table["quota"] - table["prorata"]
        ahead = [*ahead, epsilon] if mean(gain) > SURE * error(gain) else []
        least = min(least, 100 * mean(gain))
    quiet, loud = played(results, "quota", HIDDEN), played(results, "quota", EPSILONS[-1])
    whole, equal, placebo = (100 * mean(quiet[c]) for c in ("quota", "prorata", "placebo_quota"))
    return Worth(
        whole,
        equal,
        placebo,
        100 * mean(loud["quota"]),
        f"from ε = {budget(ahead[0])} on" if ahead else "at no ε here",
        abs(least),
    )


def lacking(results: Results) -> tuple[float, float, float]:
    """Percent of parties without a plan: pro rata split, quota without noise and at ε = 4."""
    quiet, loud = played(results, "privacy", HIDDEN), played(results, "privacy", 4.0)
    found = quiet["prorata_lacking"], quiet["quota_lacking"], loud["quota_lacking"]
    equal, best, noisy = (100 * mean(values) for values in found)
    return equal, best, noisy


def findings(results: Results) -> Iterator[str]:
    found = worth(results)
    yield (
        f"Ten parties without minimum demands earn {found.whole:.1f} % of the optimum within the "
        f"quota without noise, {found.loud:.1f} % at ε = {EPSILONS[-1]:g}, and {found.equal:.1f} % "
        f"split pro rata; the quota is better {found.ahead} and at worst {found.behind:.2f} "
        f"points below (§8)."
    )


def findings_with_demands(results: Results) -> Iterator[str]:
    equal, best, noisy = lacking(results)
    yield (
        f"With the paper's minimum demands a pro rata split leaves {equal:.0f} % of the parties "
        f"without a plan, the quota {best:.1f} % without noise and {noisy:.0f} % at ε = 4 (§9)."
    )


def quotas(results: Results) -> str:
    rows = []
    for epsilon in (*EPSILONS, HIDDEN):
        table = played(results, "quota", epsilon)
        columns = [table[c] for c in ("quota", "prorata", "placebo_quota")]
        columns.append(table["quota"] - table["prorata"])
        totals = where(results.sessions, experiment="quota", epsilon=epsilon, variant="totals")
        over = rate(totals["quota_over"] > EXCEEDED)
        rows.append([budget(epsilon), *map(percent, columns), percent(totals["quota"]), over])
    header = [
        "ε", "quota", "pro rata", "placebo's quota", "quota above pro rata",
        "only totals: quota", "sessions over a capacity",
    ]  # fmt: skip
    found = worth(results)
    return section(
        "8. What the quota is worth: total utility in percent of the optimum",
        "K = 10, equal shares of 2/K, no minimum demands; every plan is feasible for certain, but "
        "where only totals can be read, with an agreed risk of 5 % a session.",
        grid(header, rows),
        meaning(
            f"Without noise the quota earns {found.whole:.1f} % of the optimum, and a pro rata "
            f"split earns {found.equal:.1f} %.",
            f"With noise it is better than that split by more than two standard errors "
            f"{found.ahead}, and at worst {found.behind:.2f} percentage points below it, since it "
            f"tends to that split when noise swamps the demands.",
            f"Quotas learned from other companies earn {found.placebo:.1f} % without noise, "
            + (
                "less than the split that ignores demands: what quotas gain is information."
                if found.placebo < found.equal
                else "no less than the split that ignores demands."
            ),
        ),
        ("quota",),
    )


def quotas_with_demands(results: Results) -> str:
    rows = []
    for parties in (5, 10):
        for epsilon in (*EPSILONS, HIDDEN):
            table = played(results, "privacy", epsilon, parties=parties)
            rows.append(
                [
                    f"K = {parties}",
                    budget(epsilon),
                    percent(table["quota_lacking"]),
                    percent(table["prorata_lacking"]),
                    rate(~np.isnan(table["quota"])),
                    percent(table["quota"]),
                ]
            )
    header = [
        "parties", "ε", "parties without a plan: quota", "pro rata",
        "sessions in which all have one", "utility there, % of the optimum",
    ]  # fmt: skip
    equal, best, noisy = lacking(results)
    return section(
        "9. Quotas where every party has minimum demands",
        "The paper's markets, all four together; in percent.",
        grid(header, rows),
        meaning(
            f"The paper's demands are 75 to 100 % of an optimum that knew everything. A pro rata "
            f"split leaves {equal:.0f} % of the parties without any plan.",
            f"Without noise the quota leaves {best:.1f} % without one, and at ε = 4 it leaves "
            f"{noisy:.0f} %.",
            "Companies with such demands should agree on shares that cover them, and not rely on a "
            "split that must be learned through this much noise."
            if noisy > 5.0
            else "Through this much noise the split is still learned well enough for them.",
        ),
    )
