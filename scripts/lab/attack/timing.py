"""The attack on timing: does the moment of a release reveal whether the answer is a new one?

Two members. One is a real party process with a drawn model. The other answers last, and so sets
every price. Half of its price moves leave the party's answer unchanged. The other half go far and
change it, so that the solver has as much work as possible. The attacker times each release and
guesses which case it was. The guess is a threshold, chosen on every second round and tested on the
others, and vice versa. A coin is right half of the time.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from party import keys
from party.ledger.session_ledger import Ledger
from party.model.best_response import Subproblem, subproblem
from party.model.company_model import CompanyModel, dense
from party.network.link import Link
from party.network.mesh_link import MeshLink
from party.network.relay_link import RelayLink
from protocol.agreement.model import Agreement
from protocol.agreement.quantities import quantities
from protocol.agreement.schema import TOPOLOGIES
from protocol.errors import BadMessage
from protocol.numeric import Floats, Ticks
from protocol.rounds import RoundState
from protocol.session.effects import Effect, Fail, Leave, Respond, Send
from protocol.session.machine import Session
from protocol.wire.codec import Reader
from protocol.wire.messages import NONCE_BYTES, Release, Signed
from scripts.lab.attack import page
from scripts.lab.common.agreements import table
from scripts.lab.common.local_session import Processes, coordinator_command, party_command
from scripts.lab.common.workspace import equip

COLUMNS = (20, 60, 150, 300)
RESOURCES = 5
ROUNDS, QUICK_ROUNDS = 1_000, 60
PACE = 0.1
PARTY, ATTACKER = "party", "attacker"
FARTHEST = 10.0
"""The highest price that the attacker sets."""

_COLUMNS = ("topology", "columns", "rounds", "same answer", "new answer", "accuracy")
_MEANING = (
    "Accuracy: how often one round's time shows whether the answer is new or repeated, with the "
    "best threshold of the other half of the rounds. 0.5 is pure chance, and by chance alone it is "
    "off by less than 1.25 over the root of the rounds in 95 of 100 cells. The times are medians."
)
_NEAR = 0.1  # fraction of the way that a near move goes at first
_TRIES = 60
_PATIENCE = 600.0


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--pace", default=f"{PACE:g}", metavar="SECONDS",
        help="pace of the session; off: releases leave when ready (%(default)s)")  # fmt: skip
    add("--columns", type=int, nargs="+", metavar="N", help=f"columns of the model {COLUMNS}")
    add("--topology", choices=TOPOLOGIES, nargs="+", help="topologies (both)")
    add("--rounds", type=int, metavar="T", help=f"rounds to time ({ROUNDS})")
    add("--page", type=Path, metavar="FILE", help="write the table into its section of this page")


def timing(chosen: argparse.Namespace, console: Console) -> list[dict[str, Any]]:
    """Attack each size over each topology, and show what the times reveal."""
    try:
        pace = None if chosen.pace == "off" else float(chosen.pace)
    except ValueError:
        raise SystemExit("--pace is a number of seconds, or off") from None
    sizes = chosen.columns or ((COLUMNS[0], COLUMNS[-1]) if chosen.quick else COLUMNS)
    topologies = chosen.topology or (TOPOLOGIES[:1] if chosen.quick else TOPOLOGIES)
    rounds = chosen.rounds or (QUICK_ROUNDS if chosen.quick else ROUNDS)
    rows = []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("rounds", total=rounds * len(sizes) * len(topologies))
        for topology in topologies:
            for columns in sizes:
                timed = attacked(
                    columns,
                    topology,
                    pace=pace,
                    rounds=rounds,
                    seed=chosen.seed,
                    on_round=lambda: progress.advance(task),
                )
                rows.append(figures(timed, columns=columns, topology=topology, pace=pace))
    console.print(_shown(rows, pace))
    console.print(_MEANING, highlight=False)
    if chosen.page:
        heading = "without a pace" if pace is None else f"at a pace of {pace:g} s"
        lines = page.grid(_COLUMNS, [*map(_cells, rows)], 1)
        page.put(chosen.page, f"Timing, {heading}", [_MEANING, "", *lines])
    return rows


class Timed(Struct, frozen=True):
    """What the attacker saw: a time for each round, and whether the answer was a new one."""

    seconds: Floats
    new: np.ndarray[Any, np.dtype[np.bool_]]


def figures(timed: Timed, **about: Any) -> dict[str, Any]:
    """How well the times distinguish answers, and the median times."""
    return {
        **about,
        "rounds": len(timed.seconds),
        "accuracy": accuracy(timed),
        "new_answers": float(timed.new.mean()),
        "same_milliseconds": 1e3 * float(np.median(timed.seconds[~timed.new])),
        "new_milliseconds": 1e3 * float(np.median(timed.seconds[timed.new])),
    }


def accuracy(timed: Timed) -> float:
    """How often the threshold of one half of the rounds is right in the other; both halves."""
    right = 0
    for half in (0, 1):
        threshold, above = _learned(timed.seconds[1 - half :: 2], timed.new[1 - half :: 2])
        guess = (timed.seconds[half::2] > threshold) == above
        right += int((guess == timed.new[half::2]).sum())
    return right / len(timed.seconds)


def _learned(seconds: Floats, new: np.ndarray[Any, np.dtype[np.bool_]]) -> tuple[float, bool]:
    """The threshold that is right most often, and whether answers above it are new."""
    order = np.argsort(seconds)
    ranked = new[order]
    # How many are right if the first i count as old answers, and the others as new ones.
    right = np.concatenate([[0], np.cumsum(~ranked)]) + (
        ranked.sum() - np.concatenate([[0], np.cumsum(ranked)])
    )
    best, worst = int(right.argmax()), int(right.argmin())
    above = bool(right[best] >= len(new) - right[worst])
    place = best if above else worst
    return (float(seconds[order[place - 1]]) if place else -1.0), above


def attacked(
    columns: int,
    topology: str,
    *,
    pace: float | None,
    rounds: int,
    seed: int,
    on_round: Callable[[], None] = lambda: None,
) -> Timed:
    """Run a session with a party of this many columns, and time it."""
    rng = np.random.default_rng([seed, columns])
    data = company(rng, columns)
    terms = table(
        session=f"timing-{columns}",
        mode="private",
        rounds=rounds + 1,
        capacity=np.full(RESOURCES, 10.0),
        members=[{"name": PARTY}, {"name": ATTACKER}],
        privacy={"epsilon": 100.0, "delta": 0.1},
        # The rise of a price if the total demand is twice the capacity.
        prices={"step": "constant", "step_size": FARTHEST / 10.0},
        rehearsal=pace is None,
        pace=pace,
    )
    home = argparse.Namespace(
        topology=topology, patience=_PATIENCE, rehearsal=pace is None, seed=seed
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sotto-")))
        agreement = equip(folder, terms, [data, data], home)
        problem = subproblem(data, agreement, PARTY)
        path = walk(problem, agreement, rng, rounds)
        processes = stack.enter_context(Processes(folder))
        processes.launch("coordinator", coordinator_command(folder))
        processes.launch(PARTY, party_command(folder, PARTY, home))
        member = stack.enter_context(_member(folder, agreement))
        seconds, asked = member.play(path, on_round)
        processes.done(PARTY)
    answers = [_answer(problem, agreement, prices) for prices in asked]
    new = [not np.array_equal(*pair) for pair in pairwise(answers)]
    return Timed(np.array(seconds), np.array(new))


def company(rng: np.random.Generator, columns: int) -> CompanyModel:
    """A company with half as many private limits as columns, most of them binding."""
    rows = columns // 2
    A = rng.uniform(0.0, 1.0, (RESOURCES, columns))
    B = rng.uniform(0.0, 1.0, (rows, columns)) * (rng.random((rows, columns)) < 0.3)
    return dense(
        A=A,
        B=B,
        u=rng.uniform(0.5, 1.5, columns) * A.sum(axis=0) * FARTHEST / 2.0,
        row_lower=np.full(rows, -np.inf),
        row_upper=B.sum(axis=1) * rng.uniform(0.02, 0.1, rows) + 0.01,
        lower=np.zeros(columns),
        upper=np.full(columns, 20.0 / columns),
    )


def walk(
    problem: Subproblem, agreement: Agreement, rng: np.random.Generator, rounds: int
) -> list[Floats]:
    """Prices for all rounds but the first: half are near with the same answer, half are far."""
    prices, path = np.zeros(RESOURCES), []
    answer = _answer(problem, agreement, prices)
    for number in range(rounds):
        far = bool(rng.integers(2)) if number else True
        reach = _NEAR
        for _ in range(_TRIES):
            drawn = rng.uniform(0.0, FARTHEST, RESOURCES)
            move = drawn if far else np.clip(prices + reach * (drawn - prices), 0.0, FARTHEST)
            found = _answer(problem, agreement, move)
            if (not np.array_equal(found, answer)) == far:
                break
            reach /= 2.0
        prices, answer = move, found
        path.append(prices)
    return path


def _answer(problem: Subproblem, agreement: Agreement, prices: Floats) -> Ticks:
    """The party's answer in ticks, where less than a thousand ticks are no difference."""
    found = problem.answer(prices)
    demand = np.zeros(RESOURCES) if found is None else found.demand
    whole: Ticks = np.rint(demand / quantities(agreement).capacity * agreement.ticks / 1e3).astype(
        np.int64
    )
    return whole


@contextmanager
def _member(folder: Path, agreement: Agreement) -> Iterator["Last"]:
    who = keys.load(folder / ATTACKER / f"{ATTACKER}.key")
    with closing(Ledger(":memory:", agreement, ATTACKER)) as ledger:
        link: Link
        if agreement.transport.topology == "mesh":
            link = MeshLink(agreement, who, ledger, "tcp://127.0.0.1:*", lambda _: None)
        else:
            link = RelayLink(agreement, who)
        with closing(link):
            yield Last(agreement, who, link)


class Last:
    """A member that answers after it has seen the other's answer, and so sets the prices."""

    def __init__(self, agreement: Agreement, who: keys.Identity, link: Link) -> None:
        self._agreement, self._who, self._link = agreement, who, link
        self._reader = Reader(agreement)
        self._session = Session(
            agreement, ATTACKER, nonce=os.urandom(NONCE_BYTES), pack=who.pack, now=time.monotonic()
        )
        self._asked: RoundState | None = None
        self._left = False
        self._sent_at = 0.0
        self._seconds: list[float] = []

    def play(
        self, path: list[Floats], on_round: Callable[[], None]
    ) -> tuple[list[float], list[Floats]]:
        """Run to the end. Returns the time of every round but the first, and all prices."""
        asked: list[Floats] = []
        seen: Release | None = None
        self._carry(self._session.begin(time.monotonic()))
        while not self._left:
            for _, data in self._link.receive(min(1.0, self._session.deadline - time.monotonic())):
                arrived = time.perf_counter()
                try:
                    signed = self._reader.unpack(data)
                except BadMessage:
                    continue
                message = signed.message
                first = isinstance(message, Release) and (
                    seen is None or message.round > seen.round
                )
                if isinstance(message, Release) and message.sender == PARTY and first:
                    if seen is not None:
                        self._seconds.append(arrived - self._sent_at)
                        on_round()
                    seen = message
                self._carry(self._session.receive(signed, time.monotonic()))
            if time.monotonic() >= self._session.deadline:
                self._carry(self._session.tick(time.monotonic()))
            state = self._asked
            if state is not None and seen is not None and seen.round == state.round:
                self._asked = None
                now = state.prices.current
                asked.append(now)
                wish = path[state.round] if state.round < len(path) else now
                answer = self._answer(state, wish, seen)
                effects = self._session.submit(answer, time.monotonic())
                self._sent_at = time.perf_counter()
                self._carry(effects)
        return self._seconds, asked

    def _answer(self, state: RoundState, wish: Floats, seen: Release) -> Signed:
        """The release that leads to the wanted prices, for any release of the other member."""
        rise = (wish - state.prices.current) / FARTHEST
        own = np.rint((1.0 + rise) * self._agreement.ticks).astype(np.int64) - seen.values
        return self._who.pack(
            Release(
                sender=ATTACKER,
                agreement=self._agreement.digest,
                round=state.round,
                chain_hash=state.chain_hash,
                values=tuple(own.tolist()),
            )
        )

    def _carry(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self._link.publish(effect.signed.data)
            elif isinstance(effect, Respond):
                self._asked = effect.state
            elif isinstance(effect, Leave):
                self._left = True
            elif isinstance(effect, Fail):
                raise effect.error


def _shown(rows: list[dict[str, Any]], pace: float | None) -> Table:
    when = "as soon as they are ready" if pace is None else f"at a pace of {pace:g} s"
    shown = Table(title=f"what the time of a release tells; releases leave {when}")
    for name in _COLUMNS:
        shown.add_column(name, justify="left" if name == "topology" else "right")
    for row in rows:
        shown.add_row(*_cells(row))
    return shown


def _cells(row: dict[str, Any]) -> list[str]:
    times = [f"{row[f'{kind}_milliseconds']:.2f} ms" for kind in ("same", "new")]
    about = [row["topology"], f"{row['columns']}", f"{row['rounds']}"]
    return [*about, *times, f"{row['accuracy']:.3f}"]
