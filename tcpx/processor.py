"""Which instruction set extensions the running CPU has."""

from functools import lru_cache
from pathlib import Path

CPU_INFORMATION = Path("/proc/cpuinfo")


@lru_cache(maxsize=1)
def cpu_flags() -> frozenset[str]:
    """The kernel's names of the CPU's extensions (`avx2`, `avx512f`, ...); empty where they cannot be read."""
    if not CPU_INFORMATION.is_file():
        return frozenset()
    return parse_cpu_information(CPU_INFORMATION.read_text(encoding="utf-8", errors="replace"))


def parse_cpu_information(text: str) -> frozenset[str]:
    """The flags that every CPU listed in the text of /proc/cpuinfo has."""
    common: frozenset[str] | None = None
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "flags":
            flags = frozenset(value.split())
            common = flags if common is None else common & flags
    return common or frozenset()
