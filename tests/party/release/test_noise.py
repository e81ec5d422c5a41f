"""Noise is never used twice, not even after a fork."""

from tests.support.ledgers import run_python

FORKED = """
import os, sys
import numpy as np
from party.release.noise import DiscreteGaussian

noise, scales = DiscreteGaussian(), np.full(8, 1e6)
noise.prefetch(scales)
child = os.fork()
print(noise.add(np.zeros(8, dtype=np.int64), scales, member="a", round=0).tolist(), flush=True)
if child:
    os.waitpid(child, 0)
"""


def test_a_forked_child_draws_its_own_noise() -> None:
    """Noise that the parent drew ahead is used by the parent only."""
    done = run_python(FORKED)
    parent, child = done.stdout.splitlines()
    assert parent != child
