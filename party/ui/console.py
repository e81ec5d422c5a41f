"""What an operator sees of a session and of her budget. Public numbers only, in every format.

`TextView` is for people, `JsonView` for machines: one JSON object a line.
"""

import json
import sys
import time
from decimal import ROUND_DOWN, Context
from pathlib import Path
from typing import Any, Protocol, TextIO

from protocol.agreement.model import Agreement
from protocol.report.certificate import certified
from protocol.report.format import money, per
from protocol.rounds import RoundState, numbers, overrun
from protocol.session.machine import Phase
from protocol.wire.messages import Signed

DROPPED_TOLD = 100
"""Messages of strangers that are told one by one. After that nobody can fill a disk with them."""

QUIET_SECONDS = 2.0
"""How long people are not told that somebody is missing between two rounds."""


class JsonView:
    """One event a line."""

    def __init__(self, agreement: Agreement, out: TextIO | None = None) -> None:
        self._agreement = agreement
        self._out = sys.stdout if out is None else out
        self._last: Any = None
        self._dropped = 0

    def event(self, kind: str, **content: Any) -> None:
        at, pace = time.time(), self._agreement.pace_seconds
        if pace is not None:  # a log may be shown to others: it says no more than the clock does
            at -= at % pace
        self._out.write(json.dumps({"event": kind, "at": at, **content}) + "\n")
        self._out.flush()

    def waiting(self, phase: Phase, missing: tuple[str, ...]) -> None:
        if (phase, missing) != self._last:
            self._last = (phase, missing)
            self.event("waiting", phase=phase.name.lower(), missing=missing)

    def round(self, state: RoundState, releases: tuple[Signed, ...]) -> None:
        self._last = None
        self.event(
            "round",
            round=state.round,
            prices=state.prices.current.tolist(),
            overrun=overrun(self._agreement, numbers(releases)).tolist(),
        )

    def warn(self, text: str) -> None:
        self.event("warning", text=text)

    def note(self, text: str) -> None:
        self.event("note", text=text)

    def dropped(self, why: str) -> None:
        self._dropped += 1
        if self._dropped <= DROPPED_TOLD:
            self.event("dropped", why=why)

    def finished(self, public: dict[str, Any], folder: Path | None) -> None:  # noqa: ARG002
        self.event("finished" if public["sealed"] else "unsealed", **public)


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
        greeting = phase is Phase.HANDSHAKE
        quiet = not greeting and time.monotonic() < self._round_at + QUIET_SECONDS
        if not missing or quiet or (phase, missing) == self._told:
            return
        self._told = (phase, missing)
        names = [m.name for m in self._agreement.members if m.name not in missing]
        here = f" (here: {', '.join(names)})" if greeting else ""
        self._say(f"waiting for {', '.join(missing)}{here}")

    def round(self, state: RoundState, releases: tuple[Signed, ...]) -> None:
        now = self._round_at = time.monotonic()
        self._told = None
        last = state.over
        every = 0.1 if self._console.is_terminal else 5.0
        if now < self._shown_at + every and not last:
            return
        self._shown_at = now
        prices = " ".join(f"{p:.4g}" for p in state.prices.current[:6])
        far = max(map(abs, overrun(self._agreement, numbers(releases)).tolist()))
        total = "total" if self._agreement.privacy is None else "noisy total"
        text = f"prices {prices}  {total} {far:.0%} off the capacity"
        self._progress.update(self._task, completed=state.round, prices=text)
        if not self._console.is_terminal:
            self._say(f"round {state.round} of {self._agreement.rounds}: {text}")

    def warn(self, text: str) -> None:
        self._say(f"warning: {text}")

    def note(self, text: str) -> None:
        self._say(text)

    def dropped(self, why: str) -> None:  # noqa: ARG002 - counted, not shown: strangers can be many
        self._dropped += 1

    def finished(self, public: dict[str, Any], folder: Path | None) -> None:
        """The outcome, and where the files about it are."""
        agreement = self._agreement
        early = ", ended by itself" if public["ended_by_itself"] else ""
        if public["sealed"]:
            print(
                f"finished: {public['rounds']} rounds{early}, all members at head {public['head']}"
            )
        else:
            missing = ", ".join(public["unsealed"])
            print(f"not sealed: {public['rounds']} rounds{early}, at head {public['head']};")
            print(f"the seals of {missing} are missing, and what follows is this company's word")
        for j, (resource, price) in enumerate(
            zip(agreement.resources, public["prices"], strict=True)
        ):
            cost = f"{money(agreement, f'{price:.6g}')} {per(resource)}"
            unit, use = resource.unit or "units", ""
            if not agreement.masked:
                own = public["quota"][public["member"]]
                use = f"you may use {_at_most(own[j])} {unit}; "
            print(f"  {resource.name}: {use}price {cost}")
        if agreement.masked:
            print("your quota and what you pay are known to you alone: report.html says them")
        else:
            payment = public["payments"][public["member"]]
            paid = money(agreement, f"{abs(payment):.6g}")
            gets = "get" if payment < 0.0 else "pay"
            print(f"you {gets} {paid} for your quota beside what you bring")
        print(certified(agreement, public["certificate"]))
        if folder is None:
            quota = "quota, " if agreement.masked else ""
            print(f"give the same command with --out DIR for your {quota}plan and a report")
        else:
            print(f"written to {folder}: report.html, plan.csv, result.json (all three PRIVATE),")
            print("and session.transcript and public.csv, which anybody may see")

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


class QuietView(JsonView):
    """For a program that joins: nothing is shown."""

    def event(self, kind: str, **content: Any) -> None:
        pass


class View(Protocol):
    """What a party tells of its session, whoever looks."""

    def waiting(self, phase: Phase, missing: tuple[str, ...]) -> None: ...

    def round(self, state: RoundState, releases: tuple[Signed, ...]) -> None: ...

    def warn(self, text: str) -> None: ...

    def note(self, text: str) -> None: ...

    def dropped(self, why: str) -> None: ...

    def finished(self, public: dict[str, Any], folder: Path | None) -> None: ...


def _at_most(amount: float) -> str:
    """Six digits of an amount, never more than it: nobody may use what a rounded quota adds."""
    digits = Context(prec=6, rounding=ROUND_DOWN).create_decimal_from_float(amount)
    return f"{float(digits):.6g}"


def show_budget(figures: dict[str, Any]) -> None:
    """What `party budget` says of one data set, as a table."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    delta, name = figures["delta"], escape(figures["data_set"])
    table = Table(title=f"data set {name}: what its sessions have spent", title_justify="left")
    for column in ("session", "agreed", "releases", f"spent: ε at δ = {delta:g}"):
        table.add_column(column, justify="left" if column == "session" else "right")
    for row in figures["sessions"]:
        agreed = f"ε = {row['epsilon']:g}, δ = {row['delta']:g}" if row["epsilon"] else "no privacy"
        if row["colluders"]:
            agreed += f"*{row['colluders']}"
        released = f"{row['releases']} of {row['rounds']}"
        table.add_row(row["session"], agreed, released, _epsilon(row["spent_epsilon"]))
    table.add_section()
    table.add_row("all together", "", "", _epsilon(figures["spent_epsilon"]))
    console = Console()
    console.print(table)
    for count in sorted({row["colluders"] for row in figures["sessions"] if row["colluders"]}):
        who = "member tells" if count == 1 else "members tell"
        console.print(
            f"*{count}: only totals could be read; it holds as long as at most {count} other {who} "
            "what they know, the rest add their noise, and nobody breaks the ciphers",
            highlight=False,
        )
    limit = figures["limit"]
    if limit is None:
        way = "" if figures["spent_epsilon"] is None else ": say --max-epsilon E to set one"
        console.print(f"no limit is set{way}", highlight=False)
    else:
        console.print(
            f"limit ε = {limit['epsilon']:g} at δ = {limit['delta']:g}; room for one more session "
            f"of ε = {limit['room_epsilon']:.4g} at that δ",
            highlight=False,
        )
    console.print(f"{figures['statement']}\n", highlight=False, markup=False)


def _epsilon(value: float | None) -> str:
    return "no guarantee" if value is None else f"{value:.4g}"
