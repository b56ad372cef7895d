"""Ending with the process that started this one, however that ends, also while this one is stopped."""

import ctypes
import signal
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def end_with_parent() -> None:
    """From now on, this process is killed when the thread that started it ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
