"""The fingerprint of a model: it finds another model, and tells a reader of it almost nothing."""

import numpy as np
from msgspec.structs import replace

from party.model.fingerprint import BYTES, fingerprint
from scripts.lab.common.agreements import drawn
from tests.support.local_sessions import options

KEY = b"k" * 16
MODEL = drawn(options()).data[0]


def test_one_model_has_one_fingerprint() -> None:
    """Under one key it is always the same, however the arrays lie in memory."""
    copy = replace(MODEL, value=np.repeat(MODEL.value, 2)[::2])
    assert fingerprint(copy, KEY) == fingerprint(MODEL, KEY)


def test_every_change_of_a_number_is_found() -> None:
    """Up to the chance of 1 in 65,536 that 16 bits leave, which these seeds do not meet."""
    for name in ("utility", "lower", "upper", "row_lower", "row_upper", "value"):
        for at in range(len(getattr(MODEL, name))):
            values = getattr(MODEL, name).copy()
            values[at] = 0.125 if values[at] == 0.0 else 1.0000001 * values[at] + 1e-9
            if not np.array_equal(values, getattr(MODEL, name)):
                changed = replace(MODEL, **{name: values})
                assert fingerprint(changed, KEY) != fingerprint(MODEL, KEY), (name, at)
    names = ("another", *MODEL.names[1:])
    assert fingerprint(replace(MODEL, names=names), KEY) != fingerprint(MODEL, KEY)


def test_a_thief_of_the_ledger_cannot_find_a_number_by_trying() -> None:
    """Who knows all but one number, and has the key, is left with many guesses that fit.

    16 bits leave one guess in 65,536. Of a number with six digits that is 15, of one with nine
    15,000. The test compares the first 8 bits, which leave one in 256, to need fewer guesses.
    """
    assert BYTES == 2
    true, numbers = fingerprint(MODEL, KEY)[:1], MODEL.utility.copy()
    fitting = 0
    for guess in range(3_000):
        numbers[0] = guess / 1000.0
        fitting += fingerprint(replace(MODEL, utility=numbers), KEY)[:1] == true
    assert 3 <= fitting <= 30


def test_ledgers_cannot_be_compared() -> None:
    """Two ledgers have two keys, so equal models look different."""
    marks = {fingerprint(MODEL, bytes([number]) * 16) for number in range(50)}
    assert len(marks) > 45
