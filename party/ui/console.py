"""Shows a session to its operator: text for people, JSON lines for programs.

Public numbers only, in every format.
"""

import json
import sys
import time
from decimal import ROUND_DOWN, Context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO

from protocol.agreement.model import Agreement
from protocol.outcome.outcome import Outcome
from protocol.rounds import RoundState, numbers, overrun
from protocol.session.phases import Phase
from protocol.wire.messages import Signed

if TYPE_CHECKING:  # a report is made when the session is over
    from xml.etree.ElementTree import Element

MOST_DROPPED_EVENTS = 100
"""Dropped messages that are logged one by one. After that, unknown senders cannot fill a disk."""

QUIET_SECONDS = 2.0
"""For this long after a round, the view shows no missing members."""


class View:
    """What a party shows of its session. This one shows nothing; the others override."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """The session has ended, with or without an error."""

    def waiting(self, phase: Phase, missing: tuple[str, ...]) -> None:
        """The session waits for these members."""

    def round(self, state: RoundState, releases: tuple[Signed, ...]) -> None:
        """A round is closed, and led to this state."""

    def warn(self, text: str) -> None:
        """Something that the operator should act on."""

    def note(self, text: str) -> None:
        """Something that the operator may want to know."""

    def dropped(self, why: str) -> None:
        """A message was not of this session."""

    def outcome(self, outcome: Outcome) -> None:
        """All rounds are closed."""

    def report(self, contents: "list[Element]") -> None:
        """The private report is made. Its contents are secret."""

    def finished(self, public: dict[str, Any], folder: Path | None) -> None:
        """The files are written to this folder, if any. `public` is that part of result.json."""


class JsonView(View):
    """One JSON object a line."""

    def __init__(self, agreement: Agreement, out: TextIO | None = None) -> None:
        self._agreement = agreement
        self._out = sys.stdout if out is None else out
        #: What the last `waiting` event showed, until a round closes.
        self._waiting: tuple[Phase, tuple[str, ...]] | None = None
        self._dropped = 0

    def waiting(self, phase: Phase, missing: tuple[str, ...]) -> None:
        if (phase, missing) != self._waiting:
            self._waiting = (phase, missing)
            self._event("waiting", phase=phase.name.lower(), missing=missing)

    def round(self, state: RoundState, releases: tuple[Signed, ...]) -> None:
        self._waiting = None
        self._event(
            "round",
            round=state.round,
            prices=state.prices.current.tolist(),
            overrun=overrun(self._agreement, numbers(releases)).tolist(),
        )

    def warn(self, text: str) -> None:
        self._event("warning", text=text)

    def note(self, text: str) -> None:
        self._event("note", text=text)

    def dropped(self, why: str) -> None:
        self._dropped += 1
        if self._dropped <= MOST_DROPPED_EVENTS:
            self._event("dropped", why=why)

    def finished(self, public: dict[str, Any], folder: Path | None) -> None:  # noqa: ARG002
        self._event("finished" if public["sealed"] else "unsealed", **public)

    def _event(self, kind: str, **content: Any) -> None:
        at, pace = time.time(), self._agreement.pace_seconds
        if pace is not None:  # others may see a log: its times are no finer than the pace
            at -= at % pace
        self._out.write(json.dumps({"event": kind, "at": at, **content}) + "\n")
        self._out.flush()


class ProgressView(View):
    """Rounds and warnings on standard error: a progress bar on a terminal, else a line at times."""

    def __init__(self, agreement: Agreement) -> None:
        self._agreement = agreement
        self._bar = _ProgressBar(agreement.rounds) if sys.stderr.isatty() else None
        self._waiting: tuple[Phase, tuple[str, ...]] | None = None
        #: When the last round closed, and when one was last shown.
        self._round_at = 0.0
        self._shown_at = 0.0
        self._dropped = 0

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.progress.stop()
        if self._dropped:
            self._print(f"dropped {self._dropped} messages that were not of this session")

    def waiting(self, phase: Phase, missing: tuple[str, ...]) -> None:
        handshake = phase is Phase.HANDSHAKE
        quiet = not handshake and time.monotonic() < self._round_at + QUIET_SECONDS
        if not missing or quiet or (phase, missing) == self._waiting:
            return
        self._waiting = (phase, missing)
        names = [m.name for m in self._agreement.members if m.name not in missing]
        present = f" (here: {', '.join(names)})" if handshake else ""
        self._print(f"waiting for {', '.join(missing)}{present}")

    def round(self, state: RoundState, releases: tuple[Signed, ...]) -> None:
        now = self._round_at = time.monotonic()
        self._waiting = None
        interval = 5.0 if self._bar is None else 0.1
        if now < self._shown_at + interval and not state.over:
            return
        self._shown_at = now
        prices = " ".join(f"{p:.4g}" for p in state.prices.current[:6])
        distance = max(map(abs, overrun(self._agreement, numbers(releases)).tolist()))
        total = "total" if self._agreement.privacy is None else "noisy total"
        which = "prices" if state.over else "next prices"
        text = f"{total} {distance:.0%} off the capacity  {which} {prices}"
        if self._bar is None:
            self._print(f"round {state.round} of {self._agreement.rounds}: {text}")
        else:
            self._bar.update(state.round, text)

    def warn(self, text: str) -> None:
        self._print(f"warning: {text}")

    def note(self, text: str) -> None:
        self._print(text)

    def dropped(self, why: str) -> None:  # noqa: ARG002 - counted, not shown: there can be many
        self._dropped += 1

    def _print(self, text: str) -> None:
        if self._bar is None:
            print(text, file=sys.stderr)
        else:
            self._bar.console.print(text, highlight=False, markup=False, soft_wrap=True)


class _ProgressBar:
    """The rounds of a session on a terminal."""

    def __init__(self, rounds: int) -> None:
        from rich.console import Console  # only a terminal needs it, and it takes time to load
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self.console = Console(stderr=True)
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[prices]}"),
            console=self.console,
            transient=True,
        )
        self._task = self.progress.add_task("rounds", total=rounds, prices="")

    def update(self, completed: int, prices: str) -> None:
        self.progress.update(self._task, completed=completed, prices=prices)


class TextView(ProgressView):
    """Also prints the outcome, to standard output."""

    def finished(self, public: dict[str, Any], folder: Path | None) -> None:
        from protocol.report.format import money, per

        agreement = self._agreement
        early = ", ended by itself" if public["ended_by_itself"] else ""
        if public["sealed"]:
            print(
                f"finished: {public['rounds']} rounds{early}, all members agree on chain hash "
                f"{public['head']}"
            )
        else:
            missing = ", ".join(public["unsealed"])
            print(f"not sealed: {public['rounds']} rounds{early}, chain hash {public['head']};")
            print(f"the seals of {missing} are missing: what follows is not confirmed by them")
        for j, (resource, price) in enumerate(
            zip(agreement.resources, public["prices"], strict=True)
        ):
            cost = f"{money(agreement, f'{price:.6g}')} {per(resource)}"
            unit, use = resource.unit or "units", ""
            if not agreement.masked:
                quota = public["quota"][public["member"]]
                use = f"you may use {_rounded_down(quota[j])} {unit}; "
            print(f"  {resource.name}: {use}price {cost}")
        if agreement.masked:
            print("only you know your quota and your payment: they are in report.html")
        else:
            payment = public["payments"][public["member"]]
            amount = money(agreement, f"{abs(payment):.6g}")
            verb = "get" if payment < 0.0 else "pay"
            print(f"you {verb} {amount} for your quota, net of what you bring")
        for text in _proved(agreement, public):
            print(text)
        if folder is None:
            quota_too = "quota, " if agreement.masked else ""
            print(f"run the same command with --out DIR for your {quota_too}plan and a report")
        else:
            print(f"written to {folder}: report.html, plan.csv, result.json (all three PRIVATE),")
            print("and session.transcript and public.csv, which are public")


def _proved(agreement: Agreement, public: dict[str, Any]) -> list[str]:
    """What the rounds prove, or why there is no trade, and contradictions between answers."""
    from protocol.report.certificate import MIXTURES, certified
    from protocol.report.trade import contradictions, why_no_trade

    texts = why_no_trade(agreement, public)
    if not texts:
        texts = [certified(agreement, public["certificate"])]
        texts += [MIXTURES] if public["certificate"] else []
    return [*texts, *contradictions(agreement, public["contradictions"])]


def _rounded_down(amount: float) -> str:
    """Six digits of an amount, never more than it: a rounded quota must not allow more."""
    digits = Context(prec=6, rounding=ROUND_DOWN).create_decimal_from_float(amount)
    return f"{float(digits):.6g}"
