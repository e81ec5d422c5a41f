"""Sources of noise: OpenDP's exact discrete Gaussian, and a seeded one for rehearsals.

Only the gate draws. Seeded noise makes a run repeatable and gives no privacy: the gate refuses it
in a session that is not a rehearsal.
"""

import hashlib
import os
from collections import defaultdict
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from protocol.numeric import Floats, Ticks

DRAWN_AHEAD = 16
"""Releases whose noise is drawn in one call: most of the cost is the call itself."""


class Noise(Protocol):
    """A source of noise."""

    private: bool

    def add(self, values: Ticks, scales: Floats, *, member: str, round: int) -> Ticks:  # noqa: A002
        """Each value plus an independent draw with the σ at the same index."""
        ...

    def load(self) -> None:
        """Load what `add` needs, before a session whose releases have noise. May do nothing."""
        return

    def prefetch(self, scales: Floats, count: int = DRAWN_AHEAD) -> None:  # noqa: ARG002
        """Draw now what the next `count` calls of `add` with these σ need. May do nothing."""
        return


@lru_cache(maxsize=256)
def _mechanism(scale: float) -> Any:
    # A session without noise never loads OpenDP. Its `prelude` would load more than is needed.
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    space = vector_domain(atom_domain(T="i64")), l2_distance(T="f64")
    return make_gaussian(*space, scale=scale)


class DiscreteGaussian(Noise):
    """Noise for real sessions.

    Guarantee: each number is perturbed by an exact draw from the discrete Gaussian N_Z(0, σ²)
    made by OpenDP. Its random bits come from a cryptographic generator inside the library, seeded
    once by the operating system. The time of a draw is not constant. Prefetched noise is used
    only by the process that drew it, never again by a forked child.
    """

    private = True

    def __init__(self) -> None:
        #: Prefetched draws, and the σ and the process that they were drawn with.
        self._drawn: list[Ticks] = []
        self._scales = b""
        self._process = os.getpid()

    def load(self) -> None:
        _mechanism(1.0)

    def add(self, values: Ticks, scales: Floats, *, member: str, round: int) -> Ticks:  # noqa: A002, ARG002
        self._discard_after_fork()
        if self._drawn and self._scales == scales.tobytes():
            # Removed before it is used: no two values ever get the same noise.
            return values + self._drawn.pop()
        drawn: Ticks = _draw(scales, 1)[0]
        return values + drawn

    def prefetch(self, scales: Floats, count: int = DRAWN_AHEAD) -> None:
        self._discard_after_fork()
        if not self._drawn or self._scales != scales.tobytes():
            self._scales, self._drawn = scales.tobytes(), list(_draw(scales, count))

    def _discard_after_fork(self) -> None:
        """Discard prefetched noise after a fork: the parent uses it."""
        if self._process != os.getpid():
            self._process, self._drawn = os.getpid(), []


def _draw(scales: Floats, count: int) -> Ticks:
    """`count` rows of one draw for each σ, 0 where σ is 0."""
    columns = defaultdict(list)
    for index, scale in enumerate(scales.tolist()):
        columns[scale].append(index)
    drawn = np.zeros((count, len(scales)), dtype=np.int64)
    for scale, indices in columns.items():
        if scale > 0.0:
            draws = _mechanism(scale)([0] * (count * len(indices)))
            drawn[:, indices] = np.array(draws, dtype=np.int64).reshape(count, -1)
    return drawn


class SeededGaussian(Noise):
    """Repeatable noise from (seed, member, round), for rehearsals only.

    Guarantee: none. Anyone who knows the seed can subtract the noise.
    """

    private = False

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def add(self, values: Ticks, scales: Floats, *, member: str, round: int) -> Ticks:  # noqa: A002
        text = f"sotto noise\n{self._seed}\n{member}\n{round}"
        key = int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")
        draws = np.random.Generator(np.random.Philox(key=key)).standard_normal(len(values))
        return values + np.rint(draws * scales).astype(np.int64)
