"""The machine that `native` is for: its processor and caches as the system says, and what `tcpx calibrate` measured.

A target by name has the numbers of its table on every machine. `native` has those of the machine, where the system says
something plausible: a virtual machine may say nothing, or what no processor has.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from itertools import islice, pairwise
from mmap import PAGESIZE
from pathlib import Path
from typing import Final

from tcpx.payload.diagnostics import ArgumentError, CompileError, Diagnostic
from tcpx.processor import UNKNOWN, Processor, this_processor
from tcpx.records import frozen
from tcpx.store.place import cache_directory

SYSTEM: Final = Path("/sys/devices/system/cpu")
VARIABLE: Final = "TCPX_MACHINE"
"""The environment variable that, as `table`, gives `native` the numbers of its table: the same C on every machine."""
TABLE: Final = "table"
FOLDER: Final = "machines"
"""Where in the directory of the cache calibrations are."""
CACHES: Final = ("l1", "l2", "l3")
_PLAUSIBLE: Final = {"l1": (8 << 10, 256 << 10), "l2": (128 << 10, 3 << 20), "l3": (1 << 20, 2 << 30)}
"""Bytes: of L1 and L2 for each core, of L3 in all."""
_MOST_FOR_EACH: Final = 48 << 20
"""Bytes of L3 for each CPU that shares it: no processor has more (two cores of an EPYC 9184X share 96 MiB). A small
virtual machine on a large one sees all, and has a part: one with two CPUs of a Granite Rapids sees 480 MiB, and reads
what has more than 64 MiB as fast as memory."""
_MOST_READ: Final = 64
"""CPUs: processors with cores of several kinds have fewer, and to read one takes 0.1 ms."""
_UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@frozen
class Machine:
    """The processor; the bytes of those caches of which the system says something plausible; where calibrations are
    kept, None for nowhere."""

    processor: Processor = UNKNOWN
    caches: tuple[tuple[str, int], ...] = ()
    folder: Path | None = None
    page: int = 0
    """Bytes of a page of memory; 0 where it is not known."""

    def calibration(self, table: str) -> Path | None:
        """Where the calibration of a table is kept, whether there is one or not."""
        if self.folder is None:
            return None
        about = sha256(repr((self.processor, self.caches)).encode()).hexdigest()[:12]
        return self.folder / f"{table}-{about}.yaml"


def this_machine() -> Machine:
    """The one that runs; one of which nothing is known where the environment says so. Raises ArgumentError for
    another value of $TCPX_MACHINE."""
    said = os.environ.get(VARIABLE, "")
    if said == TABLE:
        return Machine(this_processor())
    if said:
        fix = f"{VARIABLE}={TABLE}, or unset it"
        raise ArgumentError(Diagnostic(f"{VARIABLE} says nothing", required=TABLE, found=said, fix=fix))
    try:
        folder = cache_directory() / FOLDER
    except CompileError:  # no home: nothing is kept
        folder = None
    return Machine(this_processor(), tuple(read_caches(SYSTEM).items()), folder, PAGESIZE)


@lru_cache(maxsize=4)
def read_caches(root: Path) -> Mapping[str, int]:
    """Bytes of L1 for data and of L2, for each core, and of L3, from the system's folder of CPUs: the smallest of each,
    where it is plausible; nothing where they do not grow."""
    found: dict[str, int] = {}
    cpus = sorted(root.glob("cpu[0-9]*"), key=lambda path: (len(path.name), path.name))
    for cpu in islice(cpus, _MOST_READ):
        threads = max(1, _count(_text(cpu / "topology" / "thread_siblings_list")))
        for entry in (cpu / "cache").glob("index[0-9]*"):
            name, size = f"l{_text(entry / 'level')}", _size(_text(entry / "size"))
            if name not in CACHES or _text(entry / "type") == "Instruction":
                continue
            sharing = max(1, _count(_text(entry / "shared_cpu_list")))
            size = size if name == "l3" else size // max(1, sharing // threads)
            least, most = _PLAUSIBLE[name]
            if name == "l3":
                most = min(most, _MOST_FOR_EACH * sharing)
            found[name] = min(found.get(name, size), size) if least <= size <= most else -1
    known = {name: found[name] for name in CACHES if found.get(name, -1) > 0}
    return known if all(inner < outer for inner, outer in pairwise(known.values())) else {}


def _text(path: Path) -> str:
    """What a file of the system says; empty where it is not there, or cannot be read."""
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _size(text: str) -> int:
    """Bytes of a text such as `48K`; 0 for what is none."""
    digits = text[:-1] if text[-1:] in _UNITS else text
    return int(digits) * _UNITS.get(text[-1:], 1) if digits.isdecimal() else 0


def _count(text: str) -> int:
    """How many numbers a list such as `0-3,8` has; 0 for what is none."""
    count = 0
    for word in text.split(","):
        first, _, last = word.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            return 0
        count += max(0, int(last or first) - int(first) + 1)
    return count
