"""How each cost of `scripts/bench scale` grows: what is fitted, and its exponents."""

from typing import Any

from scripts.lab.bench.measure.fit import power, upper


def exponents(figures: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """How each cost grows, over all points and over the upper half of them."""
    fitted = {}
    for title, x, y in curves(figures):
        if len(x) >= 3 and min(y) > 0.0:
            fitted[title] = {"all": power(x, y).figures(), "upper": upper(x, y).figures()}
    return fitted


def curves(figures: dict[str, Any]) -> list[tuple[str, list[float], list[float]]]:
    """What is fitted: a title, where, and how much."""

    def of(rows: str, x: str, y: str, part: str = "") -> tuple[list[float], list[float]]:
        pairs = [(r[x], r[y][part] if part else r[y]) for r in figures[rows]]
        pairs = [(float(a), float(b)) for a, b in pairs if b is not None]
        return [a for a, _ in pairs], [b for _, b in pairs]

    spent = "cpu_microseconds"
    chosen = (
        ("K: what a party computes", of("parties", "parties", spent)),
        ("K: of that, verifying", of("parties", "parties", "parts", "verify")),
        ("K: a party process", of("processes", "parties", "party_cpu_microseconds")),
        ("K: the coordinator", of("processes", "parties", "coordinator_cpu_microseconds")),
        ("K: greeting, a party", of("parties", "parties", "greeting_seconds")),
        ("K: memory, a party", of("parties", "parties", "memory_bytes")),
        ("K: bytes down, a party", of("bytes", "parties", "down")),
        ("K: messages out of the relay", of("bytes", "parties", "messages")),
        ("K: bytes of the greeting, all", of("bytes", "parties", "greeting_bytes")),
        ("m: what a party computes", of("resources", "resources", spent)),
        ("m: of that, noise", of("resources", "resources", "parts", "noise")),
        ("m: of that, solving", of("resources", "resources", "parts", "solve")),
        ("n: what a party computes", of("columns", "columns", spent)),
        ("n: of that, solving", of("columns", "columns", "parts", "solve")),
        ("T: a round", _along(figures["long"], "median_round_microseconds")),
        ("T: CPU of a round", _along(figures["long"], "cpu_microseconds_per_round")),
        ("T: memory, a party", _along(figures["long"], "memory_bytes")),
    )
    return [(title, *points) for title, points in chosen]


def _along(long: dict[str, Any], key: str) -> tuple[list[float], list[float]]:
    windows = [w for w in long["windows"] if w[key] is not None]
    return [float(w["last_round"]) for w in windows], [float(w[key]) for w in windows]
