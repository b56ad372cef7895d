"""What the machine can do at most: throughput of vector instructions, from loops without memory."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

from tcpx.emit_c.driver import build_library
from tcpx.target import Target

ACCUMULATORS = 12
ROUNDS = 400_000
STEADY = 0.93
"""A sample counts if a short FMA loop right before and right after it runs at this part of the best one seen."""
PROBE_ROUNDS = 40_000

SOURCE = """\
#include <stdint.h>
typedef float vector __attribute__((vector_size({bytes})));
float loop_{name}(int64_t rounds) {{
{declare}
  for (int64_t k = 0; k < rounds; k++) {{
    __asm__ volatile({body}
      : {outputs} : "v"(b), "v"(c));
  }}
  return {total};
}}
"""
INSTRUCTIONS: dict[str, tuple[str, ...]] = {
    "fma": ("vfmadd231ps %[c], %[b], %[a{k}]",),
    "add_min": ("vaddps %[b], %[a{k}], %[a{k}]", "vminps %[c], %[a{k}], %[a{k}]"),
}


def loop_source(name: str, bytes_: int) -> str:
    """C with a loop that runs the instructions once per accumulator and round."""
    count = ACCUMULATORS
    lines = [f"  vector a{k} = {{{k}}};" for k in range(count)] + ["  vector b = {1.0f}, c = {0.5f};"]
    rows = [text.format(k=k) for text in INSTRUCTIONS[name] for k in range(count)]
    outputs = ", ".join(f'[a{k}] "+v"(a{k})' for k in range(count))
    filled = SOURCE.format(
        bytes=bytes_,
        name=name,
        declare="\n".join(lines),
        body=" ".join(f'"{row}\\n\\t"' for row in rows),
        outputs=outputs,
        total=" + ".join(f"a{k}[0]" for k in range(count)),
    )
    return filled.replace('"v"(b), "v"(c)', '[b] "v"(b), [c] "v"(c)')


@dataclass(slots=True)
class Machine:
    """Peaks of one core, in vector instructions and in floating-point operations a second; watches for slow phases."""

    target: Target
    best_probe: float = 0.0
    _loops: dict[str, Callable[[int], float]] = field(default_factory=dict[str, Callable[[int], float]])

    @property
    def lanes(self) -> int:
        """f32 lanes of a vector."""
        return self.target.lanes("f32")

    def rate(self, name: str, rounds: int = ROUNDS) -> float:
        """Vector instructions a second of a loop of these instructions."""
        if name not in self._loops:
            library = ctypes.CDLL(str(build_library(loop_source(name, 4 * self.lanes), self.target, 1, f"loop_{name}")))
            entry = library[f"loop_{name}"]
            entry.argtypes, entry.restype = [ctypes.c_int64], ctypes.c_float
            self._loops[name] = entry
        count = ACCUMULATORS * len(INSTRUCTIONS[name])
        start = time.perf_counter()
        self._loops[name](rounds)
        return count * rounds / (time.perf_counter() - start)

    def probe(self) -> float:
        """FMA rate now; remembers the best."""
        now = self.rate("fma", PROBE_ROUNDS)
        self.best_probe = max(self.best_probe, now)
        return now

    def peak(self, name: str = "fma") -> float:
        """The best of several loops."""
        return max(self.rate(name) for _ in range(7))

    @property
    def flops(self) -> float:
        """Floating-point operations a second at the FMA peak."""
        return self.best_probe * self.lanes * 2


def sample(
    machine: Machine, runs: dict[str, Callable[[], object]], wanted: int, limit: float
) -> dict[str, list[float]]:
    """Seconds of each of the runs, in turn, taken while the machine was steady; at most `limit` seconds of trying."""
    kept: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    end = time.perf_counter() + limit
    while time.perf_counter() < end and min(map(len, kept.values())) < wanted:
        for name, run in runs.items():
            before = machine.probe()
            start = time.perf_counter()
            run()
            seconds = time.perf_counter() - start
            after = machine.probe()
            if min(before, after) >= STEADY * machine.best_probe:
                kept[name].append(seconds)
    return kept


def typical(samples: list[float]) -> float:
    """The median; not a number where the machine never was steady."""
    return median(samples) if samples else float("nan")
