"""Convergence without noise: the paper's steps compared with the centre rule."""

from collections.abc import Iterator

from scripts.lab.common.convergence import first_below
from scripts.lab.study.grid import CONVERGENCE_VARIANTS, MOMENTUM_HIDDEN, VARIANTS
from scripts.lab.study.page.layout import grid, meaning, section
from scripts.lab.study.replicate import LEVELS, MARKS
from scripts.lab.study.tables import Results, mean, percent, where

PARTIES = (5, 10)
SHOWN = (30, 100, 1000)
"""Rounds whose gap is in the table."""

LAST = MARKS[-1]
WANTED = 0.01
"""The default tolerance, in percent."""


def at(results: Results, parties: int, variant: str, mark: int) -> float:
    """The mean gap at one round, in percent."""
    ends = where(results.convergence, parties=parties, variant=variant)
    return 100 * mean(ends[f"gap_{mark}"])


def both(results: Results, variant: str, mark: int) -> str:
    return " and ".join(f"{at(results, k, variant, mark):.1f} %" for k in PARTIES)


def better(results: Results, variant: str, than: str, mark: int) -> bool:
    """Whether one rule is nearer to the optimum than another, with few and with more parties."""
    return all(at(results, k, variant, mark) < at(results, k, than, mark) for k in PARTIES)


def ended(results: Results, variant: str) -> str:
    """After how many rounds the sessions of a rule ended, on average and at most."""
    parts = []
    for k in PARTIES:
        rounds = where(results.convergence, parties=k, variant=variant)["rounds_played"]
        parts.append(f"{mean(rounds):.0f} (K = {k}, at most {rounds.max():.0f})")
    return " and ".join(parts)


def ends(results: Results, variant: str) -> str:
    """The mean gap at the end of a rule's sessions."""
    return " and ".join(f"{at(results, k, variant, LAST):.2g} %" for k in PARTIES)


def findings(results: Results) -> Iterator[str]:
    helped = better(results, "paper-momentum", "paper", 284)
    long = "depends on the number of parties"
    if better(results, "paper-long-momentum", "paper-long", LAST):
        long = "is better too"
    elif better(results, "paper-long", "paper-long-momentum", LAST):
        long = "is worse"
    yield (
        f"Without noise the default, the centre rule, ends by itself after "
        f"{ended(results, 'default')} rounds, {ends(results, 'default')} from the optimum; the "
        f"rule in the paper's code is {both(results, 'paper', 790)} away after 790 (§1)."
    )
    yield (
        f"Momentum {'helps' if helped else 'does not help'} the paper's short steps; with steps "
        f"‖c‖ times as long the result at round {LAST} {long} (§1)."
    )


def rounds_needed(results: Results) -> str:
    rows = []
    header = [
        "rule", *(f"{level:g} %" for level in LEVELS), *(f"gap at {mark}" for mark in SHOWN),
        "rounds played",
    ]  # fmt: skip
    for parties in PARTIES:
        for variant in CONVERGENCE_VARIANTS:
            curve = where(results.curves, parties=parties, variant=variant)["mean"]
            kept = where(results.convergence, parties=parties, variant=variant)
            needed = [first_below(curve, level / 100.0) for level in LEVELS]
            rows.append(
                [f"K = {parties}, {VARIANTS[variant].label}"]
                + ["–" if n is None else n for n in needed]
                + [percent(kept[f"gap_{mark}"]) for mark in SHOWN]
                + [f"{mean(kept['rounds_played']):.0f}"]
            )
    rows.append(["*the paper's text*", 790, *["–"] * (len(header) - 2)])
    rows.append(["*the paper's text, with momentum*", "–", 284, *["–"] * (len(header) - 3)])
    plain = " and ".join(f"{at(results, k, 'paper', 790):.1f} % (K = {k})" for k in PARTIES)
    reached = max(at(results, k, "default", LAST) for k in PARTIES)
    shaken, calm = (
        max(at(results, k, variant, LAST) for k in PARTIES)
        for variant in ("paper-long-momentum", "paper-long")
    )
    return section(
        "1. Convergence without noise: rounds until the mean gap is this small",
        "At the prices of each round; of the centre rule at those it would have ended with there. "
        "A session that has ended keeps its last gap.",
        grid(header, rows),
        meaning(
            f"The rule of the paper's code, 1/√t on data divided by ‖c‖, has a mean gap of {plain} "
            f"after 790 rounds and, with steps ‖c‖ times as long, "
            f"{both(results, 'paper-long', 790)}, where the paper's text says 25 % and does not "
            f"give the step of its figure.",
            f"At round 284 the first has {both(results, 'paper', 284)}, and with momentum of "
            f"{MOMENTUM_HIDDEN:g} {both(results, 'paper-momentum', 284)}, where the text says "
            f"15 %; the long steps end at up to {shaken:.2f} % with it at round {LAST}, without it "
            f"at {calm:.2f} %.",
            f"The centre rule knows nothing but the public worth and ends by itself after "
            f"{ended(results, 'default')} rounds with a mean gap of {ends(results, 'default')}, "
            f"{'within' if reached <= WANTED else 'not within'} the {WANTED:g} % that its "
            f"tolerance asks for; without any worth after {ended(results, 'default-blind')}, with "
            f"{ends(results, 'default-blind')}.",
        ),
        ("convergence", "momentum"),
    )
