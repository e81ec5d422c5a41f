"""Keeps the memory of this process from others on the machine. Linux has most of what is used here.

Called before anything private is read. Must never look at what is private itself.
"""

import ctypes
import sys
from contextlib import suppress
from resource import RLIMIT_CORE, getrlimit, setrlimit

_PR_SET_DUMPABLE = 4


def keep_private() -> None:
    """Leave no core file, and let no process of the same user read the memory of this one.

    Debuggers and profilers are refused as well. The superuser is not.
    """
    setrlimit(RLIMIT_CORE, (0, getrlimit(RLIMIT_CORE)[1]))
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # a C library without it: as on other systems
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
