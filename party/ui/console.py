"""Shows a session to its operator: text for people, JSON lines for programs.

Public numbers only, in every format.
"""

import json
import sys
import time
from decimal import ROUND_DOWN, Context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO

import numpy as np

from protocol.agreement.model import Agreement
from protocol.agreement.quantities import pair_prices, quantities
from protocol.rounds import RoundState, excess_demand, numbers
from protocol.runtime.backoff import Backoff
from protocol.runtime.presence import REPORT_SECONDS, Away, absences, state_text
from protocol.session.phases import Phase
from protocol.wire.messages import Signed

if TYPE_CHECKING:  # a report is made when the session is over
    from xml.etree.ElementTree import Element

    from protocol.outcome.outcome import Outcome

MOST_DROPPED_EVENTS = 100
"""Dropped messages that are logged one by one. After that, unknown senders cannot fill a disk."""

QUIET_SECONDS = 2.0
"""For this long after a round, the view shows no missing members."""


class _LastWait:
    """For whom the session waits and who is away, as it was last shown."""

    def __init__(self) -> None:
        self._shown: tuple[Phase, tuple[str, ...], frozenset[tuple[str, bool]]] | None = None
        #: How often the coming and going of one member is shown.
        self._changes = Backoff(*REPORT_SECONDS)

    def forget(self) -> None:
        """A round is closed."""
        self._shown = None

    def changed(self, phase: Phase, missing: tuple[str, ...], away: Away) -> bool:
        """Whether to show this wait: it is new, or a member came or went and may be shown again."""
        before, now = self._shown, (phase, missing, absences(away))
        if before is not None and before[:2] == now[:2]:
            moved = {name for name, _ in before[2] ^ now[2]}
            if not [name for name in moved if self._changes.due(name, time.monotonic())]:
                return False
        self._shown = now
        return True


class View:
    """What a party shows of its session. This one shows nothing; the others override."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """The session has ended, with or without an error."""

    def waiting(self, phase: Phase, missing: tuple[str, ...], away: Away) -> None:
        """The session waits for `missing`; `away` are the members that are not here."""

    def unreached(self, text: str) -> None:
        """Why a peer cannot be reached at present; empty if all can be. Called repeatedly."""

    def resumed(self, state: RoundState) -> None:
        """The rounds up to this state were closed before this process began."""

    def round(self, state: RoundState, releases: tuple[Signed, ...]) -> None:
        """A round is closed, and led to this state."""

    def warn(self, text: str) -> None:
        """Something that the operator should act on."""

    def note(self, text: str) -> None:
        """Something that the operator may want to know."""

    def privately(self, text: str) -> None:
        """Something about this company or its machine. Only people are told, never a log."""

    def dropped(self, why: str) -> None:
        """A message was not of this session."""

    def outcome(self, outcome: "Outcome") -> None:
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
        self._wait = _LastWait()
        self._dropped = 0

    def waiting(self, phase: Phase, missing: tuple[str, ...], away: Away) -> None:
        if self._wait.changed(phase, missing, away):
            times = {name: None if at is None else self._coarse(at) for name, at in away.items()}
            self._event("waiting", phase=phase.name.lower(), missing=missing, away=times)

    def round(self, state: RoundState, releases: tuple[Signed, ...]) -> None:
        self._wait.forget()
        self._event(
            "round",
            round=state.round,
            prices=state.prices.current.tolist(),
            excess_demand=excess_demand(self._agreement, numbers(releases)).tolist(),
            certificate=_certified(state),
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
        at = self._coarse(time.time())
        self._out.write(json.dumps({"event": kind, "at": at, **content}) + "\n")
        self._out.flush()

    def _coarse(self, at: float) -> float:
        """A time no finer than the pace: others may see a log."""
        pace = self._agreement.pace_seconds
        return at if pace is None else at - at % pace


class ProgressView(View):
    """Rounds and warnings on standard error: a progress bar on a terminal, else a line at times."""

    def __init__(self, agreement: Agreement) -> None:
        self._agreement = agreement
        self._bar = _ProgressBar(agreement) if sys.stderr.isatty() else None
        self._wait = _LastWait()
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

    def waiting(self, phase: Phase, missing: tuple[str, ...], away: Away) -> None:
        handshake = phase is Phase.HANDSHAKE
        quiet = not handshake and time.monotonic() < self._round_at + QUIET_SECONDS
        if not missing or quiet or not self._wait.changed(phase, missing, away):
            return
        names = [m.name for m in self._agreement.members]
        gone = [n for n in names if n in away and n not in missing and away[n] is not None]
        waited = [f"{n} ({state_text(away, n)})" if n in away else n for n in (*missing, *gone)]
        here = [name for name in names if name not in missing and name not in away]
        present = f" (here: {', '.join(here)})" if handshake else ""
        self._print(f"waiting for {', '.join(waited)}{present}")

    def round(self, state: RoundState, releases: tuple[Signed, ...]) -> None:
        now = self._round_at = time.monotonic()
        self._wait.forget()
        if self._bar is not None:
            self._bar.add(state, now)
        interval = 5.0 if self._bar is None else 0.1
        if now < self._shown_at + interval and not state.over:
            return
        self._shown_at = now
        texts = _position(self._agreement, state, releases)
        if self._bar is None:
            self._print(f"{self._agreement.counted(state.round)}: {'; '.join(texts)}")
        else:
            self._bar.show(*texts)

    def warn(self, text: str) -> None:
        self._print(f"warning: {text}")

    def note(self, text: str) -> None:
        self._print(text)

    def privately(self, text: str) -> None:
        self._print(text)

    def dropped(self, why: str) -> None:  # noqa: ARG002 - counted, not shown: there can be many
        self._dropped += 1

    def _print(self, text: str) -> None:
        if self._bar is None:
            print(text, file=sys.stderr)
        else:
            self._bar.console.print(text, highlight=False, markup=False, soft_wrap=True)


def _certified(state: RoundState) -> dict[str, Any] | None:
    """What the rounds so far prove, in money; None without the rule that proves it."""
    found = state.certificate
    return None if found is None else {"money": found.bound, "fits": found.fits}


def _position(agreement: Agreement, state: RoundState, releases: tuple[Signed, ...]) -> list[str]:
    """How far the session is from its end: in money where that is proved, else by its totals.

    The next prices follow, unless this was the last round: those of the outcome differ from them.
    """
    from protocol.report.progress import distance_text

    text = distance_text(agreement, state)
    if not text and state.over:
        text = "all rounds are closed"
    elif not text:
        distance = max(map(abs, excess_demand(agreement, numbers(releases)).tolist()))
        total = "total" if agreement.privacy is None else "noisy total"
        text = f"{total} {distance:.0%} off the capacity"
        text += ", nothing is certified yet" if agreement.pricing.step == "center" else ""
    paired = pair_prices(state.prices.current, quantities(agreement).opposites).tolist()
    priced = [p for p, r in zip(paired, agreement.resources, strict=True) if not r.opposite]
    prices = " ".join(f"{p:.4g}" for p in priced[:6])
    return [text] if state.over else [text, f"next prices {prices}"]


class _ProgressBar:
    """The rounds of a session on a terminal. The bar is as long as the part that is done.

    Each update is one line of any terminal with at least 40 columns.
    """

    #: Columns of the bar, at least and at most.
    BAR = (8, 40)

    def __init__(self, agreement: Agreement) -> None:
        from rich.console import Console  # only a terminal needs it, and it takes time to load
        from rich.progress import BarColumn, Progress, TextColumn

        from protocol.report.progress import SessionPath

        self.console = Console(stderr=True)
        self._bar = BarColumn(self.BAR[0])
        self.progress = Progress(
            TextColumn("{task.description}"),
            self._bar,
            TextColumn("{task.percentage:.0f} %"),
            TextColumn("{task.fields[text]}"),
            console=self.console,
            transient=True,
        )
        self._agreement = agreement
        self._path = SessionPath(agreement)
        #: When the first round of this process closed, and how many were closed since.
        self._first_at, self._since_first = 0.0, -1
        self._closed = 0
        self._task = self.progress.add_task("rounds", total=1.0, text="")

    def add(self, state: RoundState, now: float) -> None:
        """A round is closed."""
        self._path.add(state)
        self._closed = state.round
        self._since_first += 1
        if not self._since_first:
            self._first_at = now
        self._seconds = (now - self._first_at) / max(1, self._since_first) * self._path.rounds_left

    def show(self, position: str, *others: str) -> None:
        """Show what fits: where the session is, how long it takes, and other texts."""
        left = _left(self._seconds) if self._path.rounds_left and self._since_first else ""
        counted = self._agreement.counted(self._closed)
        room = self.console.width - len("  100 % ") - self.BAR[0]
        if room < len(f"{counted}{position}; {left}"):
            counted = f"round {self._closed}"
        shown, room = "", room - len(counted)
        for text in filter(None, (position, left, *others)):
            longer = f"{shown}; {text}" if shown else text
            shown = longer if len(longer) <= room else shown
        self._bar.bar_width = min(self.BAR[1], self.BAR[0] + room - len(shown))
        self.progress.update(self._task, completed=self._path.done, description=counted, text=shown)


def _left(seconds: float) -> str:
    """About how long it takes until the end, in words."""
    if seconds < 90.0:
        return f"about {max(1, round(seconds))} s left"
    return f"about {round(seconds / 60.0)} min left"


class TextView(ProgressView):
    """Also prints the outcome, to standard output."""

    def finished(self, public: dict[str, Any], folder: Path | None) -> None:
        from protocol.report.format import coins, money, per, plain

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
        prices = pair_prices(np.array(public["prices"]), quantities(agreement).opposites).tolist()
        for j, (resource, price) in enumerate(zip(agreement.resources, prices, strict=True)):
            texts = []
            if not agreement.masked:
                quota = public["quota"][public["member"]]
                texts = [f"you may use {_rounded_down(quota[j])} {resource.unit or 'units'}"]
            if not resource.opposite:
                texts += [f"price {money(agreement, f'{price:.6g}')} {per(resource)}"]
            if texts:
                print(f"  {resource.name}: {'; '.join(texts)}")
        if agreement.masked:
            print("only you know your quota and your payment: they are in report.html")
            if public["claims"]:
                print("show them with `party claim`: the report says which claim goes to whom")
        else:
            payment = public["payments"][public["member"]]
            amount = plain(coins(agreement, abs(payment)))
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
