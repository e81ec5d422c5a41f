"""What the quota earns."""

from matplotlib.figure import Figure

from scripts.lab.study.figures.style import BLACK, LOOKS, ORANGE, PURPLE, Look, budgets, panels
from scripts.lab.study.grid import EPSILONS, HIDDEN
from scripts.lab.study.tables import Columns, mean, where


def quota(sessions: Columns) -> Figure:
    """The utility of a feasible split against ε."""
    figure, axes = panels(
        1, 1, "A split that is feasible for certain: what does the quota earn?", height=6.4
    )
    plot, x = axes[0, 0], [*EPSILONS, 256.0]
    cells = [
        where(
            sessions,
            experiment="quota",
            epsilon=e,
            variant="exact" if e == HIDDEN else "recommended",
        )
        for e in (*EPSILONS, HIDDEN)
    ]
    for name, look, label in (
        ("quota", LOOKS["recommended"], "quota"),
        ("prorata", Look(PURPLE, "s", ":"), "pro rata"),
        ("placebo_quota", Look(ORANGE, "o", "--"), "placebo's quota"),
    ):
        values = [100 * mean(c[name]) for c in cells]
        plot.plot(
            x, values, color=look.colour, marker=look.marker, linestyle=look.line, label=label
        )
        plot.annotate(
            label, (x[-1], values[-1]), (12, -14), textcoords="offset points", color=look.colour
        )
    totals = [where(sessions, experiment="quota", epsilon=e, variant="totals") for e in EPSILONS]
    look, values = LOOKS["totals"], [100 * mean(c["quota"]) for c in totals]
    plot.plot(EPSILONS, values, color=look.colour, marker=look.marker)
    plot.annotate(
        "private quota, only totals",
        (EPSILONS[-1], values[-1]),
        (-190, 12),
        textcoords="offset points",
        color=look.colour,
    )
    plot.axhline(100, color=BLACK, linewidth=1.5)
    plot.annotate("optimum", (0.1, 100), (0, 6), textcoords="offset points")
    budgets(plot, hidden=True)
    plot.set_xlim(0.08, 2000)
    plot.set_ylim(None, 106)
    plot.set_xlabel("privacy budget ε (∞: no noise)")
    plot.set_ylabel("total utility, % of the optimum")
    return figure
