"""A real party with a timer around each of its components: CPU per round.

`python -m scripts.lab.bench.measure.profile FILE join …` is `party join …`, and writes the figures
to FILE at the end. The product is not changed: calls are wrapped before the party starts. A
component counts the CPU of its own code, without the components that it calls. `rest` is the
remainder of the main thread; `ZeroMQ thread` is all other threads, with encryption. The wall time
of a component shows where it waited for a disk or for peers. The cost of the timers is measured
first and subtracted.
"""

import functools
import importlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

SKIPPED_ROUNDS = 5
"""The first rounds do not count: caches fill, and late parties still connect."""

COMPONENT_CALLS: dict[str, tuple[str, ...]] = {
    "solve": ("party.model.best_response:Subproblem.answer",),
    "noise": (
        "party.release.noise:DiscreteGaussian.add",
        "party.release.noise:DiscreteGaussian.prefetch",
    ),
    "masks": ("party.release.masks:Masks.masked",),
    "sign": ("party.keys:Identity.sign",),
    "verify": ("protocol.wire.signatures:verify",),
    "ledger": (
        "party.ledger.session_ledger:Ledger.release",
        "party.ledger.session_ledger:Ledger.record_release",
        "party.ledger.session_ledger:Ledger.record_round",
        "party.ledger.session_ledger:Ledger.commit",
    ),
    "prices, hash": ("protocol.rounds:RoundEngine.advance",),
    "messages": ("protocol.wire.codec:Reader.unpack", "party.keys:Identity.pack"),
    "session": (
        "protocol.session.machine:Session.receive",
        "protocol.session.machine:Session.submit",
        "protocol.session.machine:Session.tick",
        "protocol.session.machine:Session.holds",
    ),
    "gate": ("party.release.gate:Gate.release", "party.release.gate:Gate.prepare"),
    "wire": (
        "party.network.link:Link.publish",
        "party.network.relay_link:RelayLink.receive",
        "party.network.mesh_link:MeshLink.receive",
    ),
    "log": ("party.ui.console:JsonView.round",),
}
"""The calls of each component. A missing call is an error, not a zero."""

PARTS = (*COMPONENT_CALLS, "rest", "ZeroMQ thread")


class Part(Struct):
    """CPU, wall time and calls of one component so far."""

    cpu: float = 0.0
    wall: float = 0.0
    calls: int = 0

    def __sub__(self, other: "Part") -> "Part":
        return Part(self.cpu - other.cpu, self.wall - other.wall, self.calls - other.calls)


class Clock:
    """Times the main thread, by component."""

    def __init__(self, parts: tuple[str, ...], *, inside: float = 0.0, outside: float = 0.0):
        """A timer costs `inside` seconds of its component and `outside` of its caller."""
        self._inside, self._outside = inside, outside
        self._called: list[Part] = [Part()]
        self.parts = {name: Part() for name in parts}

    def reset(self) -> None:
        """Set all components to zero."""
        self.parts = {name: Part() for name in self.parts}

    def run(self, name: str, call: Callable[[], Any]) -> Any:
        """Call, and add what the call took by itself."""
        self._called.append(Part())
        wall, cpu = time.perf_counter(), time.thread_time()
        try:
            return call()
        finally:
            cpu, wall = time.thread_time() - cpu, time.perf_counter() - wall
            called, part = self._called.pop(), self.parts[name]
            part.cpu += cpu - called.cpu - self._inside
            part.wall += wall - called.wall - self._inside
            part.calls += 1
            self._called[-1].cpu += cpu + self._outside
            self._called[-1].wall += wall + self._outside

    @property
    def own_seconds(self) -> float:
        """What the timers themselves have taken."""
        calls = sum(part.calls for part in self.parts.values())
        return calls * (self._inside + self._outside)

    def wrapped(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            result = self.run(name, lambda: function(*args, **kwargs))
            return self._steps(name, result) if isinstance(result, Iterator) else result

        return timed

    def _steps(self, name: str, steps: Iterator[Any]) -> Iterator[Any]:
        """A generator does its work when the next item is requested."""
        end = object()
        while (step := self.run(name, lambda: next(steps, end))) is not end:
            yield step


def calibrated(parts: tuple[str, ...]) -> Clock:
    """A clock that knows its own cost, measured with calls that do nothing."""
    trial, count = Clock(("nothing",)), 20_000
    nothing = trial.wrapped("nothing", lambda: None)
    began = time.thread_time()
    for _ in range(count):
        nothing()
    total, inside = (time.thread_time() - began) / count, trial.parts["nothing"].cpu / count
    return Clock(parts, inside=inside, outside=total - inside)


class Moment(Struct, frozen=True):
    """All clocks at one moment."""

    parts: dict[str, Part]
    clocks: float
    thread: float
    process: float
    wall: float


class Account:
    """All components between two rounds of a session."""

    def __init__(self, clock: Clock, first: int, last: int) -> None:
        self._clock, self._first, self._last = clock, first, last
        self._begin = self._now()
        self.figures: dict[str, Any] = {}

    def _now(self) -> Moment:
        return Moment(
            parts={name: replace(part) for name, part in self._clock.parts.items()},
            clocks=self._clock.own_seconds,
            thread=time.thread_time(),
            process=time.process_time(),
            wall=time.perf_counter(),
        )

    def round(self, closed: int) -> None:
        """A round has closed."""
        if closed == self._first:
            self._begin = self._now()
        if closed == self._last:
            self.figures = self._between(self._begin, self._now())

    def _between(self, begin: Moment, end: Moment) -> dict[str, Any]:
        count = self._last - self._first
        took = {name: end.parts[name] - begin.parts[name] for name in COMPONENT_CALLS}
        clocks, thread = end.clocks - begin.clocks, end.thread - begin.thread
        cpu = {name: part.cpu for name, part in took.items()}
        cpu["rest"] = thread - clocks - sum(cpu.values())
        cpu["ZeroMQ thread"] = end.process - begin.process - thread
        return {
            "rounds": count,
            "cpu_microseconds": {name: cpu[name] / count * 1e6 for name in PARTS},
            "wall_microseconds": {name: part.wall / count * 1e6 for name, part in took.items()},
            "calls": {name: part.calls / count for name, part in took.items()},
            "clocks_cpu_microseconds": clocks / count * 1e6,
            "round_microseconds": (end.wall - begin.wall) / count * 1e6,
        }


def install(clock: Clock) -> None:
    """Wrap every call of COMPONENT_CALLS."""
    for name, calls_of in COMPONENT_CALLS.items():
        for call_name in calls_of:
            module, _, path = call_name.partition(":")
            owner, _, attribute = path.rpartition(".")
            holder = importlib.import_module(module)
            holder = getattr(holder, owner) if owner else holder
            setattr(holder, attribute, clock.wrapped(name, getattr(holder, attribute)))


def main(file: Path, arguments: list[str]) -> None:
    """Run a party, and write what its components took."""
    from party.__main__ import main as party
    from party.ui.console import JsonView
    from protocol.runtime.files import read_agreement

    rounds = read_agreement(Path(arguments[arguments.index("--agreement") + 1])).rounds
    clock = calibrated(tuple(COMPONENT_CALLS))
    install(clock)
    first = min(SKIPPED_ROUNDS, rounds - 1)
    # What follows the last round, such as commitments, is no part of a round.
    account = Account(clock, first, max(first + 1, rounds - 1))
    show: Callable[..., None] = JsonView.round

    def round(view: JsonView, state: Any, releases: Any) -> None:  # noqa: A001
        show(view, state, releases)
        account.round(state.round)

    JsonView.round = round  # type: ignore[assignment,method-assign]
    sys.argv = ["party", *arguments]
    try:
        party()
    finally:
        file.write_text(json.dumps(account.figures) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
