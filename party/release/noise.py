"""Where noise comes from: OpenDP's exact discrete Gaussian, and its seeded twin.

Only the gate draws. The twin gives no privacy at all; it exists so that a run can be
repeated, and the gate refuses it in any session that is not a rehearsal.
"""

import hashlib
import os
from collections import defaultdict
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from opendp.domains import atom_domain, vector_domain  # not opendp.prelude, which loads
from opendp.measurements import make_gaussian  # adapters for libraries that a party never uses
from opendp.metrics import l2_distance
from opendp.mod import enable_features

from protocol.numeric import Floats, Ticks

enable_features("contrib")

DRAWN_AHEAD = 16
"""Releases for which noise is drawn at once: most of the cost of a draw is the call."""


class Noise(Protocol):
    """A source of noise."""

    private: bool

    def add(self, values: Ticks, scales: Floats, *, member: str, round: int) -> Ticks:  # noqa: A002
        """Each value plus an independent draw with the σ of the same place."""
        ...

    def prefetch(self, scales: Floats) -> None:  # noqa: ARG002
        """Draw now what the next `add` with the same σ will need. A source need not do so."""
        return


@lru_cache(maxsize=256)
def _mechanism(scale: float) -> Any:
    space = vector_domain(atom_domain(T="i64")), l2_distance(T="f64")
    return make_gaussian(*space, scale=scale)


class DiscreteGaussian(Noise):
    """Noise for real sessions.

    Guarantee: each number is perturbed by an exact draw from the discrete Gaussian N_Z(0, σ²)
    made by OpenDP. Its random bits come from a cryptographic generator inside the library, which
    the operating system has seeded; it is not asked again for each draw. The time it takes is
    not constant. What is drawn ahead is used by the process that drew it, and not
    again by a child that was forked from it.
    """

    private = True

    def __init__(self) -> None:
        self._scales = b""
        self._drawn: list[Ticks] = []
        self._process = os.getpid()

    def add(self, values: Ticks, scales: Floats, *, member: str, round: int) -> Ticks:  # noqa: A002, ARG002
        self._forget_others()
        if self._drawn and self._scales == scales.tobytes():
            # Taken out before it is used: no two values can ever meet the same noise.
            return values + self._drawn.pop()
        drawn: Ticks = _draw(scales, 1)[0]
        return values + drawn

    def prefetch(self, scales: Floats) -> None:
        self._forget_others()
        if not self._drawn or self._scales != scales.tobytes():
            self._scales, self._drawn = scales.tobytes(), list(_draw(scales, DRAWN_AHEAD))

    def _forget_others(self) -> None:
        """Draw anew after a fork: the parent has the same noise, and uses it."""
        if self._process != os.getpid():
            self._process, self._drawn = os.getpid(), []


def _draw(scales: Floats, count: int) -> Ticks:
    """So many rows of one draw for each place, 0 where σ is 0."""
    places = defaultdict(list)
    for place, scale in enumerate(scales.tolist()):
        places[scale].append(place)
    drawn = np.zeros((count, len(scales)), dtype=np.int64)
    for scale, where in places.items():
        if scale > 0.0:
            draws = _mechanism(scale)([0] * (count * len(where)))
            drawn[:, where] = np.array(draws, dtype=np.int64).reshape(count, -1)
    return drawn


class SeededGaussian(Noise):
    """Noise that can be repeated, keyed by (seed, member, round), for rehearsals only.

    Guarantee: none. Whoever knows the seed can subtract the noise.
    """

    private = False

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def add(self, values: Ticks, scales: Floats, *, member: str, round: int) -> Ticks:  # noqa: A002
        text = f"sotto noise\n{self._seed}\n{member}\n{round}"
        key = int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")
        draws = np.random.Generator(np.random.Philox(key=key)).standard_normal(len(values))
        return values + np.rint(draws * scales).astype(np.int64)
