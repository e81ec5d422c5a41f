"""How tests wait: for a condition, with one time limit that a busy machine meets.

The limit says nothing about speed. It ends a test that waits for something that never happens.
"""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LIMIT = 240.0
"""Seconds after which a test stops waiting."""


def until(happened: Callable[[], T], what: str) -> T:
    """Wait until `happened()` is true, and return its result."""
    give_up_at = time.monotonic() + LIMIT
    while not (result := happened()):
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"did not happen in {LIMIT:g} s: {what}")
        time.sleep(0.01)
    return result
