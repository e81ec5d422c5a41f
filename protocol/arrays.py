"""The two kinds of arrays there are: whole numbers of ticks, and floats.

Apart from the agreement, so that whoever only carries messages need not load numpy.
"""

from typing import Any, TypeVar

import numpy as np

Ticks = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float64]]
_Array = TypeVar("_Array", bound=np.ndarray[Any, Any])


def frozen(array: _Array) -> _Array:
    """Make an array that many share safe to share."""
    array.flags.writeable = False
    return array
