"""Measuring in turns: contestants run one after the other, in several turns.

The speed of a machine changes within minutes, so only figures of the same turn are compared. A
`Spread` keeps all its values.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Spread(Struct, frozen=True):
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
        """For a JSON file: all values."""
        return {
            "median": self.median,
            "low": self.low,
            "high": self.high,
            "values": list(self.values),
        }

    def shown(self, form: str = ".2f", unit: str = "") -> str:
        """The median, and below it the lowest and highest value."""
        text = f"{self.median:{form}}{unit}"
        if len(self.values) == 1:
            return text
        return f"{text}\n[dim]{self.low:{form}}–{self.high:{form}}[/dim]"


def spread(values: Iterable[float]) -> Spread:
    return Spread(tuple(float(value) for value in values))


def ratio(over: Sequence[float], under: Sequence[float]) -> Spread:
    """Turn by turn: a slow phase of the machine slows both values of a turn."""
    return spread(a / b for a, b in zip(over, under, strict=True))


def in_turns(contestants: Mapping[str, Callable[[], T]], turns: int) -> dict[str, list[T]]:
    """The results of each contestant, one for each turn. Each turn starts with another one."""
    results: dict[str, list[T]] = {name: [] for name in contestants}
    names = list(contestants)
    for turn in range(turns):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            results[name].append(contestants[name]())
    return results


def plain(figures: Any) -> Any:
    """Replace every spread by numbers, for a JSON file."""
    if isinstance(figures, Spread):
        return figures.figures()
    if isinstance(figures, dict):
        return {key: plain(value) for key, value in figures.items()}
    if isinstance(figures, list):
        return [plain(value) for value in figures]
    return figures
