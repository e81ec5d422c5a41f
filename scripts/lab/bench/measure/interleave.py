"""Measuring in turns: contestants one after the other, again and again, and what came of it.

No machine is the same for two minutes, so that a figure means something only beside another
one of the same turn. A `Spread` never hides how far its values lie apart.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Spread:
    """One figure, measured several times."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        return min(self.values)

    @property
    def high(self) -> float:
        return max(self.values)

    def figures(self) -> dict[str, Any]:
        """For a JSON file: nothing is left out."""
        return {
            "median": self.median,
            "low": self.low,
            "high": self.high,
            "values": list(self.values),
        }

    def shown(self, form: str = ".2f", unit: str = "") -> str:
        """The median, and below it how far the values lie apart."""
        text = f"{self.median:{form}}{unit}"
        if len(self.values) == 1:
            return text
        return f"{text}\n[dim]{self.low:{form}}–{self.high:{form}}[/dim]"


def spread(values: Iterable[float]) -> Spread:
    return Spread(tuple(float(value) for value in values))


def ratio(over: Sequence[float], under: Sequence[float]) -> Spread:
    """Turn by turn, so that what slows the whole machine for a while slows both."""
    return spread(a / b for a, b in zip(over, under, strict=True))


def in_turns(ways: Mapping[str, Callable[[], T]], turns: int) -> dict[str, list[T]]:
    """What each way gives, once a turn. Each turn begins with another one of them."""
    results: dict[str, list[T]] = {name: [] for name in ways}
    names = list(ways)
    for turn in range(turns):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            results[name].append(ways[name]())
    return results


def plain(figures: Any) -> Any:
    """The same figures with every spread as numbers, for a JSON file."""
    if isinstance(figures, Spread):
        return figures.figures()
    if isinstance(figures, dict):
        return {key: plain(value) for key, value in figures.items()}
    if isinstance(figures, list):
        return [plain(value) for value in figures]
    return figures
