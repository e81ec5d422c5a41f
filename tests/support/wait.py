"""How tests wait: for what happens, with one limit that a busy machine meets.

Nothing here says how long anything takes: the limit is there so that a test that waits for what
never comes ends with a word about it.
"""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LIMIT = 240.0
"""Seconds after which a test gives up on what it waits for."""


def until(happened: Callable[[], T], what: str) -> T:
    """Wait until this is true of something, and return that."""
    give_up_at = time.monotonic() + LIMIT
    while not (result := happened()):
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"this did not happen: {what}")
        time.sleep(0.01)
    return result
