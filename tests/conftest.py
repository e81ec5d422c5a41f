"""Settings that hold for every test: no property is drawn by chance, and ledgers are closed.

Which cases Hypothesis draws still depends on the files that are run together, because it also
draws from the literals of all modules that are loaded. So edges that a property guards are given
to it as examples.
"""

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.kit import ledgers

settings.register_profile("sotto", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("sotto")
ledgers.watch()


@pytest.fixture(autouse=True)
def _every_ledger_is_closed() -> Iterator[None]:
    """A ledger that is left open keeps its lock, and from Python 3.13 on it is an error."""
    yield
    assert not ledgers.left_open(), "a ledger was left open"
