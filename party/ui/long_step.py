"""Tells the operator of a large model that a step goes on.

Only a terminal shows it. The text has no number, and no message, log or page depends on it: how
long a private problem takes is secret.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FIRST_SECONDS = 3.0
"""After this long the operator is told for the first time, then after twice as long each time."""


@contextmanager
def long_step(tell: Callable[[str], None], what: str) -> Iterator[None]:
    """Tell what goes on, if it takes long, until the step is over."""
    over = threading.Event()

    def run() -> None:
        seconds, text = FIRST_SECONDS, what
        while not over.wait(seconds):
            tell(f"{text} ...")
            seconds, text = 2.0 * seconds, f"still {what}"

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
