"""One company of a simulated session: its disk, clock, stand-ins for problem, noise and masks.

Driver, gate and session are the real ones. Never here: the network between companies.
"""

import random
from collections.abc import Callable

import numpy as np

from party.driver import Driver
from party.model.best_response import Answer
from party.release.gate import Gate
from party.release.masks import Masks
from party.release.noise import Noise
from protocol.errors import SottoError
from protocol.numeric import Floats, Ticks
from protocol.rounds import RoundState
from protocol.wire.messages import Message, Signed
from tests.support.simulated_disk import Disk, Stored


class Problem:
    """Replaces the private problem. It is cheap, and it depends on the prices."""

    def __init__(self, scale: float) -> None:
        self._scale = scale

    def answer(self, prices: Floats) -> Answer:
        demand = self._scale / (1.0 + prices)
        return Answer(objective=0.0, demand=demand, plan=demand)


class FreshProblem(Problem):
    """A problem whose answer never repeats, where noise would change what demands add up to."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(1.0)
        self._chance = chance

    def answer(self, prices: Floats) -> Answer:
        self._scale = self._chance.uniform(1.0, 9.0)
        return super().answer(prices)


class FreshNoise(Noise):
    """Noise that never repeats, so that a round answered twice is noticed."""

    private = True

    def __init__(self, chance: random.Random, most: int) -> None:
        self._chance = chance
        self._most = most

    def add(self, values: Ticks, scales: Floats, *, member: str, round: int) -> Ticks:  # noqa: A002, ARG002
        noise = [self._chance.randrange(self._most) for _ in values]
        return values + np.array(noise, dtype=np.int64)


class SeededMasks(Masks):
    """Masks whose keys are the same in every run."""

    chance: random.Random

    def _random(self) -> bytes:
        return self.chance.randbytes(32)


class WatchedGate(Gate):
    """The real gate, with a check of everything that it releases."""

    watch: Callable[[Message], None]

    def release(self, state: RoundState) -> Signed:
        release = super().release(state)
        self.watch(release.message)
        return release


class Party:
    """One company: its disk, which outlives the process, and the process while it runs."""

    def __init__(self, name: str, disk: Disk, chance: random.Random) -> None:
        self.name = name
        self.disk = disk
        #: How often the process has started.
        self.life = 0
        #: The process; None while it does not run.
        self.driver: Driver | None = None
        self.error: SottoError | None = None
        #: How many exchanges of each member this process has seen messages of.
        self.received: dict[str, int] = {}
        #: The newest content of the disk, while an old copy is in its place.
        self.newest: Stored | None = None
        #: The party whose old disk only this process can expose.
        self.witness_of: Party | None = None
        #: When `tick` is due.
        self.wake_at = 0.0
        #: The party's own clock: where it starts, and how fast it runs.
        self._offset = chance.uniform(0.0, 1000.0)
        self._rate = chance.uniform(0.9, 1.1)

    def clock(self, time: float) -> float:
        return self._offset + self._rate * time

    def time(self, clock: float) -> float:
        return (clock - self._offset) / self._rate
