"""Which processor runs, and its instruction set extensions, less those that the environment hides."""

import os
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Final

from tcpx.records import frozen

CPU_INFORMATION = Path("/proc/cpuinfo")
HIDDEN: Final = "TCPX_HIDE_CPU_FLAGS"
"""The environment variable that hides extensions: their names, `*` for any text, with commas or spaces between."""


@frozen
class Processor:
    """Which one it is, as /proc/cpuinfo says: vendor, family and model by number, and its name; unknown without."""

    vendor: str = ""
    family: int = -1
    model: int = -1
    name: str = ""


UNKNOWN: Final = Processor()


def cpu_flags() -> frozenset[str]:
    """The kernel's names of the CPU's extensions (`avx2`, `avx512f`, ...) that are not hidden; empty where they cannot
    be read."""
    return frozenset(flag for flag in _detected() if not _is_hidden(flag))


def missing_flags(needed: Iterable[str]) -> tuple[str, ...]:
    """Those of these extensions that the CPU lacks or that are hidden. Where the CPU's cannot be read, it has all."""
    detected = _detected()
    return tuple(flag for flag in needed if _is_hidden(flag) or (detected and flag not in detected))


def hidden_note() -> str:
    """What a message about missing extensions adds where the environment hides some."""
    return f" ({HIDDEN} hides {os.environ[HIDDEN]})" if os.environ.get(HIDDEN) else ""


def _is_hidden(flag: str) -> bool:
    patterns = os.environ.get(HIDDEN, "").replace(",", " ").split()
    return any(fnmatchcase(flag, pattern) for pattern in patterns)


def this_processor() -> Processor:
    """The one that runs."""
    return parse_processor(_information())


@lru_cache(maxsize=1)
def _detected() -> frozenset[str]:
    return parse_cpu_information(_information())


@lru_cache(maxsize=1)
def _information() -> str:
    if not CPU_INFORMATION.is_file():
        return ""
    return CPU_INFORMATION.read_text(encoding="utf-8", errors="replace")


@lru_cache(maxsize=4)
def parse_processor(text: str) -> Processor:
    """The first that the text of /proc/cpuinfo lists."""
    first = text.partition("\n\n")[0]
    said = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}
    family, model = (int(word) if (word := said.get(key, "")).isdecimal() else -1 for key in ("cpu family", "model"))
    return Processor(said.get("vendor_id", ""), family, model, said.get("model name", ""))


def parse_cpu_information(text: str) -> frozenset[str]:
    """The flags that every CPU listed in the text of /proc/cpuinfo has."""
    common: frozenset[str] | None = None
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "flags":
            flags = frozenset(value.split())
            common = flags if common is None else common & flags
    return common or frozenset()
