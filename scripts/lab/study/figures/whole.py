"""All figures of a study. The title of each figure asks its question.

They are drawn from the tables alone. The same tables give the same figures, byte for byte.
"""

from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from scripts.lab.study.figures import convergence, parties, privacy, quota, totals
from scripts.lab.study.figures.style import STYLE, save
from scripts.lab.study.tables import Results


def draw_all(out: Path) -> None:
    """Draw every figure for which the tables have rows."""
    with mpl.rc_context(STYLE):
        for name, figure in figures(Results(out)):
            save(figure, out / f"{name}.png")


def figures(results: Results) -> Iterator[tuple[str, Figure]]:
    sessions, curves = results.sessions, results.curves
    if results.has("convergence"):
        yield "convergence", convergence.convergence(curves)
        yield "momentum", convergence.momentum(curves)
    if results.has("privacy"):
        for count in (5, 10):
            yield f"shares-{count}", privacy.market_shares(results.shares, count)
            yield f"paper-{count}", privacy.paper_measure(sessions, count)
            yield f"privacy-{count}", privacy.privacy(sessions, count)
    if results.has("parties"):
        yield "information", parties.information(sessions)
        yield "overrun", parties.overrun(sessions)
    if results.has("quota"):
        yield "quota", quota.quota(sessions)
    if results.has("totals"):
        yield "totals", totals.totals(sessions)
