"""Who holds a candidate: a process of a machine since its boot."""

import os
import platform
from pathlib import Path
from time import time
from typing import Final

SILENT_SECONDS: Final = 900.0
"""A tuner on another machine that was not seen for so long is taken to be dead."""
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


def this_process() -> str:
    """`machine:boot:pid:start`."""
    return f"{_machine()}:{os.getpid()}:{_start_of(os.getpid())}"


def is_alive(owner: str, seen: float) -> bool:
    """Whether the process is still there; on another machine, whether it was seen lately."""
    machine, _, rest = owner.rpartition(":")[0].rpartition(":")
    start = owner.rpartition(":")[2]
    if machine != _machine():
        return time() - seen < SILENT_SECONDS
    return _start_of(int(rest)) == start


def _machine() -> str:
    boot = _BOOT.read_text(encoding="ascii").strip() if _BOOT.is_file() else ""
    return f"{platform.node()}:{boot}"


def _start_of(pid: int) -> str:
    """When a process started, in ticks since the boot; empty if there is none, or it has ended and nobody asked how."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] in ("Z", "X") else fields[19]
