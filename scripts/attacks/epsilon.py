"""The empirical audit: how much of the agreed ε an adversary can prove from releases alone.

Two data sets, as different as can be: one always asks for nothing, one for everything that it may.
The adversary knows both, all that is public, and what everybody else does; where only totals are
read it is also one of the members, and subtracts its own release. From all releases of a session it
makes the likelihood ratio, which no other test beats, and says which data set it was. How often it
is right, with the bounds of Clopper and Pearson, proves an ε that the gate cannot be below.

The gate itself, with its ledger and its noise, plays thousands of sessions: too few for the rare
ones that ε is about, so its bounds take the trade-off between both kinds of mistakes for that of a
Gaussian of whatever μ, or its noise for a Gaussian of whatever size. Its twin, the same arithmetic
with repeatable noise and many sessions at once, plays hundreds of thousands, and its bound assumes
nothing.
"""

import argparse
import math
import os
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product, zip_longest
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from scipy.special import betaincinv

from party.dataset import dense
from party.gate import Gate, clamped, truncated
from party.ledger import Ledger
from party.noise import DiscreteGaussian, Noise
from party.subproblem import Subproblem, subproblem
from protocol.agreement import ACCOUNTANTS, SHAPES, Agreement
from protocol.arrays import Floats, Ticks
from protocol.caps import adaptive_caps, first_caps
from protocol.course import Course, mask_keys, numbers
from protocol.messages import Message, Signed
from protocol.privacy import Calibration, gaussian_epsilon
from protocol.toml import from_table
from protocol.wire import SIGNATURE_BYTES, pack
from scripts.agreements import players, table
from scripts.attacks import page
from scripts.studies.workers import local

EPSILONS = (1.0, 4.0)
DELTA = 0.01
"""So large that the sessions which tell most are not too rare to be counted."""

KINDS = (("private", "each"), ("clipped", "each"), ("private", "totals"))
"""Modes with a guarantee, and who can read what in them."""

ROUNDS = {"private": 1, "clipped": 2}
"""As few as there can be: caps follow releases from the second round on."""

CONFIDENCE = 0.95
TWINS, QUICK_TWINS = 400_000, 100_000
SESSIONS, QUICK_SESSIONS = 30_000, 100

_FEWER = 8
"""With the paper's accountant bounds need not be sharp to show how far below ε it stays."""

_PARTS = (1.0, 0.8, 0.5)
_TWINS_AT_ONCE, _SESSIONS_AT_ONCE = 50_000, 250
_CAPACITY = np.array([10.0, 40.0])
_SHARE = np.array([[1.0, 0.4]] * 3)
_VICTIM, _COLLUDER = 0, 2
_NORMAL = NormalDist()


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--sessions", type=int, metavar="N",
        help=f"of the gate in each row ({SESSIONS:,})")  # fmt: skip
    add("--twins", type=int, metavar="N", help=f"sessions of the twin in each row ({TWINS:,})")
    add("--processes", type=int, default=os.cpu_count() or 1, help="(%(default)s)")
    add("--page", type=Path, metavar="FILE", help="write the table into this page, as its section")


def epsilon(chosen: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Audit every shape, accountant and mode, and show how much of ε was proved.

    All rows grow together: Ctrl-C ends it early, with what was played until then.
    """
    sessions = chosen.sessions or (QUICK_SESSIONS if chosen.quick else SESSIONS)
    twins = chosen.twins or (QUICK_TWINS if chosen.quick else TWINS)
    work = [
        unit
        for case in cases()
        for unit in units(case, sessions=sessions, twins=twins, seed=chosen.seed)
    ]
    work.sort(key=lambda unit: unit.after)
    found: dict[tuple[Case, bool], Seen] = defaultdict(Seen)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("sessions", total=len(work))
        with suppress(KeyboardInterrupt):
            for unit, part in local(work, play, chosen.processes):
                found[unit.case, unit.twin] += part
                progress.advance(task)
    rows = [figures(case, gate=found[case, False], twin=found[case, True]) for case in cases()]
    console.print(_shown(rows))
    console.print(_WHAT, highlight=False)
    if chosen.page:
        page.put(chosen.page, _HEADING, _written(rows))
    return rows


@dataclass(frozen=True)
class Case:
    """What is audited."""

    epsilon: float
    mode: str
    reveal: str
    noise: str
    accountant: str

    def agreement(self) -> Agreement:
        """Three members, two resources of which they may claim different parts, and few rounds."""
        clipped = {"alpha": 1.5, "tau": 0.1} if self.mode == "clipped" else {}
        return from_table(
            table(
                session="audit",
                mode=self.mode,
                reveal=self.reveal,
                rounds=ROUNDS[self.mode],
                capacity=_CAPACITY,
                share=_SHARE,
                members=players(len(_SHARE)),
                privacy={
                    "epsilon": self.epsilon,
                    "delta": DELTA,
                    "noise": self.noise,
                    "accountant": self.accountant,
                    **clipped,
                },
                prices={"step": "constant", "step_size": 0.1},
            )
        )


def cases() -> list[Case]:
    """All that is audited, in the order in which it is shown."""
    return [
        Case(epsilon, *kind, noise, accountant)
        for accountant, epsilon, kind, noise in product(ACCOUNTANTS, EPSILONS, KINDS, SHAPES)
    ]


@dataclass(frozen=True)
class Seen:
    """How many sessions of each data set there were, and how many were taken for `everything`.

    These are counted for each of the thresholds that were tried. `far` are those whose ratio was
    more than μ away from where it is without noise, with the noise that there should be.
    """

    nothing: int = 0
    everything: int = 0
    false: tuple[int, ...] = ()
    true: tuple[int, ...] = ()
    far: int = 0

    def __add__(self, other: "Seen") -> "Seen":
        def added(ours: tuple[int, ...], theirs: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(map(sum, zip_longest(ours, theirs, fillvalue=0)))

        return Seen(
            self.nothing + other.nothing,
            self.everything + other.everything,
            added(self.false, other.false),
            added(self.true, other.true),
            self.far + other.far,
        )

    def bounds(self) -> Iterator[tuple[float, float]]:
        """How often `everything` is recognised, at least, and `nothing` mistaken, at most.

        All of these hold at once with the confidence that is asked for.
        """
        alpha = (1.0 - CONFIDENCE) / 2.0 / max(1, len(self.true))
        for false, true in zip(self.false, self.true, strict=True):
            right, missed = self.nothing - false, self.everything - true
            least = float(betaincinv(true, missed + 1, alpha)) if true else 0.0
            most = float(betaincinv(false + 1, right, 1.0 - alpha)) if right else 1.0
            yield least, most

    def epsilon(self, delta: float) -> float:
        """An ε that no (ε, δ)-LDP mechanism is below, with nothing assumed."""
        proved = (
            math.log((least - delta) / most) for least, most in self.bounds() if least > delta
        )
        return max(0.0, *proved, 0.0)

    def gaussian_epsilon(self, delta: float) -> float:
        """The same for a mechanism whose trade-off curve is that of a Gaussian."""
        proved = (
            gaussian_epsilon(mu=_NORMAL.inv_cdf(least) - _NORMAL.inv_cdf(most), delta=delta)
            for least, most in self.bounds()
            if 0.0 < most < least < 1.0
        )
        return max(0.0, *proved, 0.0)

    def noise_epsilon(self, mu: float, delta: float) -> float:
        """The same for a gate that adds Gaussian noise to the demand, of whatever size.

        μ is that of the noise that there should be. It takes fewer sessions to know how large
        noise is than how often it deceives. All rows hold at once.
        """
        count = self.nothing + self.everything
        if not 0 < self.far < count:
            return 0.0
        sure = 1.0 - (1.0 - CONFIDENCE) / len(cases())
        most = float(betaincinv(self.far + 1, count - self.far, sure))
        largest = 1.0 / _NORMAL.inv_cdf(1.0 - most / 2.0)  # noise, as a part of what it should be
        return gaussian_epsilon(mu=mu / largest, delta=delta)


@dataclass(frozen=True)
class Unit:
    """A part of the work: so many sessions of the gate or of its twin, half with each data set."""

    case: Case
    twin: bool
    sessions: int
    thresholds: tuple[float, ...]
    after: float
    seed: int


def units(case: Case, *, sessions: int, twins: int, seed: int) -> Iterator[Unit]:
    """The work for one row. The thresholds are fixed before anything is seen."""
    mu = Calibration(case.agreement()).mu
    fewer = _FEWER if case.accountant == "paper" else 1
    for twin, count, size, tried in (
        (False, sessions // fewer, _SESSIONS_AT_ONCE, (0.0,)),
        (True, twins // fewer, _TWINS_AT_ONCE, thresholds(mu, twins // fewer // 2)),
    ):
        for begin in range(0, count, size):
            part = min(size, count - begin)
            yield Unit(case, twin, part, tried, after=begin / count, seed=seed + begin)


@cache
def thresholds(mu: float, sessions: int) -> tuple[float, ...]:
    """Likelihood ratios from which on it pays best to say `everything`, in so many of each.

    One for noise as it should be, others for noise that is a part of that: with less of it the
    ratios of extreme sessions are smaller, and a gate that draws too little would not be found.
    """
    return tuple(part**2 * _best_threshold(mu / part, sessions) for part in _PARTS)


def _best_threshold(mu: float, sessions: int) -> float:
    def promised(threshold: float) -> float:
        false, true = (1.0 - _NORMAL.cdf(threshold / mu + s * mu / 2.0) for s in (1.0, -1.0))
        taken = (round(sessions * false),), (round(sessions * true),)
        return Seen(sessions, sessions, *taken).epsilon(DELTA)

    tried: list[float] = np.linspace(-2.0 * mu, 6.0 * mu, 161).tolist()
    return max(tried, key=promised)


def play(unit: Unit) -> Seen:
    """Play sessions and say which data set each was of."""
    count, agreement = unit.sessions // 2, unit.case.agreement()
    ratios: list[Floats]
    if unit.twin:
        rng = np.random.default_rng([unit.seed, *repr(unit.case).encode()])
        ratios = [twin_ratios(agreement, rng, count, everything=asked) for asked in (False, True)]
    else:
        audit = Audit(agreement)
        ratios = [
            np.array([audit.ratio(everything=asked) for _ in range(count)])
            for asked in (False, True)
        ]
    return seen(ratios[0], ratios[1], unit.thresholds, Calibration(agreement).mu)


def seen(nothing: Floats, everything: Floats, tried: Sequence[float], mu: float) -> Seen:
    """How often each of both data sets is taken for `everything`, at every threshold."""
    false, true = (
        tuple(int((ratios > threshold).sum()) for threshold in tried)
        for ratios in (nothing, everything)
    )
    off = np.concatenate([nothing + mu**2 / 2.0, everything - mu**2 / 2.0])
    return Seen(len(nothing), len(everything), false, true, int((np.abs(off) > mu).sum()))


class Audit:
    """Real sessions: the gate with its noise, its ledger (in memory) and a solver."""

    def __init__(self, agreement: Agreement, noise: Noise | None = None) -> None:
        self._agreement = agreement
        self._course = Course(agreement)
        self._calibration = Calibration(agreement)
        self._noise = noise or DiscreteGaussian()
        self._names = [member.name for member in agreement.members]
        self._nothing, self._everything = (
            subproblem(
                dense(
                    A=np.eye(2),
                    B=np.zeros((0, 2)),
                    u=np.full(2, worth),
                    row_lower=np.zeros(0),
                    row_upper=np.zeros(0),
                    lower=np.zeros(2),
                    upper=np.full(2, np.inf),
                ),
                agreement,
                self._names[_VICTIM],
            )
            for worth in (-1e3, 1e6)
        )

    def ratio(self, *, everything: bool) -> float:
        """Play a session. The logarithm of how much likelier its releases are with `everything`."""
        agreement, position = self._agreement, self._course.opening
        honest = _honest(agreement)
        with ExitStack() as stack:
            gated = self._names if agreement.masked else self._names[: _VICTIM + 1]
            ledgers = [
                stack.enter_context(closing(Ledger(":memory:", agreement, name))) for name in gated
            ]
            wanted = self._everything if everything else self._nothing
            problems = [wanted, *(self._nothing for _ in gated[1:])]
            gates = [
                self._gate(name, problem, ledger)
                for name, problem, ledger in zip(gated, problems, ledgers, strict=True)
            ]
            if position.unpaired:
                keys = tuple(gate.release(position) for gate in gates)
                for ledger in ledgers:
                    ledger.record_mask_keys(keys)
                position = self._course.pair(position, mask_keys(keys))
            total = 0.0
            while not position.over:
                gates[_VICTIM].prepare()
                values = np.zeros((len(self._names), agreement.width), dtype=np.int64)
                values[: len(gates)] = numbers(tuple(gate.release(position) for gate in gates))
                read = values[_VICTIM]
                if agreement.masked:  # the sum of all, less what the colluder knows it has said
                    read = values.sum(axis=0) - ledgers[_COLLUDER].demands()[1][-1]
                variance = (self._calibration.scales(position.caps)[honest] ** 2).sum(axis=0)
                total += float(_log_ratio(read, position.caps[_VICTIM], variance))
                position = self._course.advance(position, values)
        return total

    def _gate(self, name: str, problem: Subproblem, ledger: Ledger) -> Gate:
        key = self._agreement.members[self._agreement.place(name)].signing_key

        def unsigned(message: Message) -> Signed:
            return pack(message, key=key, sign=lambda _: bytes(SIGNATURE_BYTES))

        return Gate(
            self._agreement,
            name,
            subproblem=problem,
            noise=self._noise,
            ledger=ledger,
            pack=unsigned,
        )


def twin_ratios(
    agreement: Agreement,
    rng: np.random.Generator,
    sessions: int,
    *,
    everything: bool,
    scale: float = 1.0,
) -> Floats:
    """What `Audit.ratio` gives, for many sessions at once with noise that can be repeated.

    A `scale` below 1 is a gate that draws less noise than it should: the audit must find it.
    """
    calibration, m = Calibration(agreement), len(agreement.resources)
    honest = _honest(agreement)
    caps = np.broadcast_to(first_caps(agreement), (sessions, *agreement.share.shape))
    wanted = np.full(m, np.inf if everything else 0.0)
    demand = np.zeros(caps.shape)
    demand[:, _VICTIM] = wanted
    total = np.zeros(sessions)
    for _ in range(agreement.rounds):
        # Parts of a noise for all are the same in every session.
        scales = calibration.scales(caps[0] if agreement.masked else caps)
        noise = rng.standard_normal(caps.shape) * (scales * scale)
        asked = clamped(agreement, demand, np.zeros(caps.shape[:-1]), caps)
        released = truncated(agreement, asked + np.rint(noise).astype(np.int64))
        if not agreement.masked:
            released[:, _VICTIM + 1 :] = 0
        variance = np.broadcast_to(scales**2, caps.shape)[:, honest].sum(axis=1)
        total += _log_ratio(released[:, honest].sum(axis=1), caps[:, _VICTIM], variance)
        if agreement.mode == "clipped":
            # Every session is one more resource, for the caps of each are worked out alone.
            side = np.moveaxis(released, 0, 1).reshape(len(_SHARE), -1)
            following = adaptive_caps(agreement, side).reshape(len(_SHARE), sessions, m)
            caps = np.minimum(np.moveaxis(following, 1, 0), agreement.share_ticks)
    return total


def _honest(agreement: Agreement) -> list[int]:
    """Whose noise hides the victim: its own, or that of all but the colluder."""
    return [k for k in range(len(_SHARE)) if k != _COLLUDER] if agreement.masked else [_VICTIM]


def _log_ratio(read: Ticks, cap: Ticks, variance: Floats) -> Any:
    """ln of the likelihood of what was read with `cap` beneath the noise, over that with 0."""
    return (cap * (read - cap / 2.0) / variance).sum(axis=-1)


def figures(case: Case, *, gate: Seen, twin: Seen) -> dict[str, Any]:
    """How much of ε was proved, of the gate and of its twin."""
    mu = Calibration(case.agreement()).mu
    proved = {
        "gate_by_noise": gate.noise_epsilon(mu, DELTA),
        "gate_by_guesses": gate.gaussian_epsilon(DELTA),
        "twin": twin.epsilon(DELTA),
    }
    return {
        **asdict(case),
        "delta": DELTA,
        "gate_sessions": gate.nothing + gate.everything,
        "twin_sessions": twin.nothing + twin.everything,
        **{name: proved_here / case.epsilon for name, proved_here in proved.items()},
    }


_WHAT = (
    "The figures are ε proved / ε: the gate cannot be (ε, δ)-LDP for any ε below the one proved. "
    "Above 1 the promise would be broken; far below 1 there is more noise than it takes, or there "
    "were too few sessions to tell. Of the gate, by its noise: if that is Gaussian, of whatever "
    "size (with 95 % confidence in all rows at once); by guesses: if its trade-off curve is that "
    "of a Gaussian, which takes many more sessions (95 % in each row). Of the twin, by guesses, "
    "whatever its noise is (95 % in each row)."
)
_HEADING = "What releases tell of ε"
_STORY = (
    "`scripts/attack epsilon --page FILE` plays short sessions with three members and two "
    "resources: one round or, in `clipped` mode, two. "
    f"δ is {DELTA:g}. One member always asks for nothing, or always for everything that it may; "
    "the adversary knows these two data sets and all that the others do, and has to say which it "
    "was. It takes the likelihood ratio of all releases of the session, which no other test beats. "
    "Where only totals are read it is itself a member (`colluders` is 1) and subtracts its own "
    "release. In `clipped` mode the noise follows the caps, and the ratio of each round is taken "
    "with the noise that it had."
)
_COLUMNS = (
    *("accountant", "ε", "mode", "reveal", "noise"),
    *("gate: sessions", "by noise", "by guesses", "twin: sessions", "by guesses"),
)
_WORDS = 5


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["accountant"], f"{row['epsilon']:g}", row["mode"], row["reveal"], row["noise"],
        f"{row['gate_sessions']:,}", f"{row['gate_by_noise']:.3f}",
        f"{row['gate_by_guesses']:.3f}", f"{row['twin_sessions']:,}", f"{row['twin']:.3f}",
    ]  # fmt: skip


def _written(rows: list[dict[str, Any]]) -> list[str]:
    """The same for the page."""
    words = [[*textwrap.wrap(text, 100), ""] for text in (_STORY, _WHAT)]
    return [*words[0], *words[1], *page.grid(_COLUMNS, [_cells(row) for row in rows], _WORDS)]


def _shown(rows: list[dict[str, Any]]) -> Table:
    shown = Table(title=f"what releases prove of ε; δ = {DELTA:g}")
    for place, name in enumerate(_COLUMNS):
        shown.add_column(name, justify="left" if place < _WORDS else "right")
    for row in rows:
        shown.add_row(*_cells(row))
    return shown
