"""What an operator sees while a session runs. Public numbers only, whatever the format.

`TextView` is for people, `JsonView` for machines: one JSON object a line.
"""

import json
import sys
import time
from typing import Any, Protocol, TextIO

from protocol.agreement import TICKS, Agreement
from protocol.messages import Signed
from protocol.session import Phase
from protocol.transcript import Position, numbers


class View(Protocol):
    """What a node tells while it runs."""

    def waiting(self, phase: Phase, missing: tuple[str, ...]) -> None: ...
    def round(self, position: Position, releases: tuple[Signed, ...]) -> None: ...
    def warn(self, text: str) -> None: ...
    def dropped(self, why: str) -> None: ...


def overrun(agreement: Agreement, releases: tuple[Signed, ...]) -> list[float]:
    """How far the noisy total of a round is above (below) each capacity, as a part of it."""
    totals = numbers(releases)[:, : len(agreement.resources)].sum(axis=0)
    return [float(t) for t in (totals - TICKS) / TICKS]


DROPPED_TOLD = 100
"""Messages of strangers that are told one by one. After that nobody can fill a disk with them."""

QUIET_SECONDS = 2.0
"""How long people are not told that somebody is missing between two rounds."""


class JsonView:
    """One event a line."""

    def __init__(self, agreement: Agreement, out: TextIO = sys.stdout) -> None:
        self._agreement = agreement
        self._out = out
        self._last: Any = None
        self._dropped = 0

    def event(self, kind: str, **content: Any) -> None:
        self._out.write(json.dumps({"event": kind, "at": time.time(), **content}) + "\n")
        self._out.flush()

    def waiting(self, phase: Phase, missing: tuple[str, ...]) -> None:
        if (phase, missing) != self._last:
            self._last = (phase, missing)
            self.event("waiting", phase=phase.name.lower(), missing=missing)

    def round(self, position: Position, releases: tuple[Signed, ...]) -> None:
        self._last = None
        self.event(
            "round",
            round=position.round,
            prices=position.prices.current.tolist(),
            overrun=overrun(self._agreement, releases),
        )

    def warn(self, text: str) -> None:
        self.event("warning", text=text)

    def dropped(self, why: str) -> None:
        self._dropped += 1
        if self._dropped <= DROPPED_TOLD:
            self.event("dropped", why=why)


class TextView:
    """A progress bar on a terminal; a line now and then where there is none."""

    def __init__(self, agreement: Agreement) -> None:
        from rich.console import Console  # only people need it, and it takes time to load
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._agreement = agreement
        self._console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[prices]}"),
            console=self._console,
            disable=not self._console.is_terminal,
            transient=True,
        )
        self._task = self._progress.add_task("rounds", total=agreement.rounds, prices="")
        self._told: Any = None
        self._round_at = 0.0
        self._shown_at = 0.0
        self._dropped = 0

    def __enter__(self) -> "TextView":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
        if self._dropped:
            self._console.print(f"{self._dropped} messages that were not of this session dropped")

    def waiting(self, phase: Phase, missing: tuple[str, ...]) -> None:
        greeting = phase is Phase.GREETING
        quiet = not greeting and time.monotonic() < self._round_at + QUIET_SECONDS
        if not missing or quiet or (phase, missing) == self._told:
            return
        self._told = (phase, missing)
        names = [m.name for m in self._agreement.members if m.name not in missing]
        here = f" (here: {', '.join(names)})" if greeting else ""
        self._say(f"waiting for {', '.join(missing)}{here}")

    def round(self, position: Position, releases: tuple[Signed, ...]) -> None:
        now = self._round_at = time.monotonic()
        self._told = None
        last = position.round == self._agreement.rounds
        every = 0.1 if self._console.is_terminal else 5.0
        if now < self._shown_at + every and not last:
            return
        self._shown_at = now
        prices = " ".join(f"{p:.4g}" for p in position.prices.current[:6])
        far = max(map(abs, overrun(self._agreement, releases)))
        text = f"prices {prices}  noisy total {far:.0%} off the capacity"
        self._progress.update(self._task, completed=position.round, prices=text)
        if not self._console.is_terminal:
            self._say(f"round {position.round} of {self._agreement.rounds}: {text}")

    def warn(self, text: str) -> None:
        self._say(f"warning: {text}")

    def dropped(self, why: str) -> None:  # noqa: ARG002 - counted, not shown: strangers can be many
        self._dropped += 1

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)
