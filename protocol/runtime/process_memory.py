"""Keeps other processes from reading the memory of this one.

Called before anything private is read. Most of it works on Linux only: on macOS it forbids core
files, on Windows it does nothing. Never here: private data.
"""

import ctypes
import sys
from contextlib import suppress

_PR_SET_DUMPABLE = 4


def keep_private() -> None:
    """Forbid core files, and reading this process's memory by others of the same user.

    Debuggers and profilers are refused too. The superuser is not.
    """
    with suppress(ImportError):  # Windows has no such limits, and writes no core files
        from resource import RLIMIT_CORE, getrlimit, setrlimit

        setrlimit(RLIMIT_CORE, (0, getrlimit(RLIMIT_CORE)[1]))
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # a C library without prctl
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
