"""What the machine can do at most, measured: arithmetic, and the bandwidth of every level of memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np
import numpy.typing as npt

import tcpx
from tcpx.machine import SYSTEM, read_caches
from tcpx.measure.calibration import Calibration
from tcpx.measure.instruction_loops import ARITHMETIC, COPY, READ, Loop, instruction_loops, source_of
from tcpx.measure.pinned_threads import PinnedThreads
from tcpx.records import frozen

SAMPLE_SECONDS: Final = 4e-3
SAMPLES: Final = 7
MOST_SAMPLES: Final = 200
MOST_SECONDS: Final = 3.0
"""For one rate, on a machine that is never quiet."""
PROBE_SECONDS: Final = 2e-4
PROBE: Final = "fma_f32"
LOAD_SECONDS: Final = 5e-3
LOAD: Final = "product_f32"
IN_MEMORY: Final = 4
"""An array of so many times the last cache is in memory."""
LEAST_IN_MEMORY: Final = 1 << 28


@frozen
class Limits:
    """The limits for one number of threads.

    `rates` are operations a second (`fma_f32`, `fma_f64`, `dot_bf16`, `dot_ui8_si8`, `add_min_f32`; those that the
    target has instructions for) and bytes a second (`read_l1`, `read_l2`, `read_l3`, `read_memory`, `copy`,
    `stream_copy`; a copy counts what is read and what is written). `caches` are the bytes of each level that these
    threads have together.
    """

    threads: int
    rates: Mapping[str, float]
    caches: Mapping[str, int]

    def with_best(self, other: Limits) -> Limits:
        """The higher rate of each, where both were measured for the same threads at different times."""
        names = {**self.rates, **other.rates}
        best = {name: max(self.rates.get(name, 0.0), other.rates.get(name, 0.0)) for name in names}
        return Limits(self.threads, best, self.caches)

    def level(self, size: float) -> str:
        """The smallest level that holds so many bytes: `l1`, `l2`, `l3` or `memory`."""
        return next((name for name, capacity in self.caches.items() if size <= capacity), "memory")


@dataclass(slots=True)
class Machine:
    """Runs the loops of a target on pinned threads; at most `patience` seconds go into one rate. Raises TargetError
    where this CPU cannot run code for the target."""

    target: tcpx.Target
    threads: PinnedThreads
    patience: float = MOST_SECONDS
    calibration: Calibration = field(init=False)
    library_path: Path = field(init=False)
    _loops: dict[str, Loop] = field(init=False)
    _library: ctypes.CDLL = field(init=False)
    _probe_rounds: int = 0
    _load_rounds: int = 0

    def __post_init__(self) -> None:
        self.target.require_cpu()
        loops = instruction_loops(self.target)
        self._loops = {loop.name: loop for loop in loops}
        self.library_path = tcpx.build_library(source_of(self.target, loops), self.target, 1, "instruction_loops")
        self._library = ctypes.CDLL(str(self.library_path))
        self.calibration = Calibration(self.probe, self.load)
        self.calibration.warm_up()

    def limits(self, only: Collection[str] | None = None) -> Limits:
        """Measure all of it: some seconds, half a minute on a machine that is never quiet; or the rates in `only`."""
        caches = cache_sizes(self.target)
        count = len(self.threads.cpus)
        held = self.caches()
        sizes = {name: size // 2 // count for name, size in held.items()}
        sizes["memory"] = max(LEAST_IN_MEMORY, IN_MEMORY * max(caches.values())) // count
        rates: dict[str, Callable[[], float]] = {}
        for name, loop in self._loops.items():
            if loop.kind == ARITHMETIC:
                rates[name] = partial(self._arithmetic_rate, name)
            elif loop.kind == READ:
                rates |= {f"read_{level}": partial(self._memory_rate, loop, size) for level, size in sizes.items()}
            elif loop.kind == COPY:
                rates[name] = partial(self._memory_rate, loop, sizes["memory"] // 2)
        return Limits(count, {name: rate() for name, rate in rates.items() if only is None or name in only}, held)

    def caches(self) -> dict[str, int]:
        """The bytes of each level that these threads have together."""
        count = len(self.threads.cpus)
        return {name: size if name == "l3" else size * count for name, size in cache_sizes(self.target).items()}

    def probe(self) -> float:
        """Operations a second of a short FMA loop on all threads now: those of the slowest, times their number."""
        if not self._probe_rounds:
            self._probe_rounds = self._rounds(PROBE, PROBE_SECONDS)
        return self._rate(PROBE, self._probe_rounds)

    def load(self) -> None:
        """Keep the vector units of all threads busy as a product does, for some milliseconds."""
        if not self._load_rounds:
            self._load_rounds = self._rounds(LOAD, LOAD_SECONDS)
        self._rate(LOAD, self._load_rounds)

    def _function(self, name: str) -> Callable[..., float]:
        found = self._library[f"loop_{name}"]
        found.restype = ctypes.c_double
        return found

    def _rate(self, name: str, rounds: int) -> float:
        function = self._function(name)
        slowest = max(self.threads.run(lambda _: function(ctypes.c_int64(rounds))))
        return len(self.threads.cpus) * rounds * self._loops[name].per_round / slowest

    def _rounds(self, name: str, seconds: float) -> int:
        function, rounds = self._function(name), 1 << 12
        taken = min(function(ctypes.c_int64(rounds)) for _ in range(SAMPLES))
        return max(1, round(rounds * seconds / taken))

    def _arithmetic_rate(self, name: str) -> float:
        rounds = self._rounds(name, SAMPLE_SECONDS)
        return self._best(lambda: self._rate(name, rounds))

    def _best(self, sample: Callable[[], float]) -> float:
        """The highest rate of samples, until `SAMPLES` of them count, or `MOST_SAMPLES` or `patience` seconds are over.

        One that does not count is not too high.
        """
        rates: list[float] = []
        counted = 0
        end = perf_counter() + self.patience
        while not rates or (counted < SAMPLES and len(rates) < MOST_SAMPLES and perf_counter() < end):
            before = self.calibration.rate()
            rates.append(sample())
            counted += self.calibration.is_steady(before, self.calibration.rate())
        return max(rates)

    def _memory_rate(self, loop: Loop, size: int) -> float:
        """Bytes a second where every thread goes over arrays of `size` bytes of its own."""
        passes = 1 if loop.kind == READ else 2
        rounds = max(1, size * passes // loop.per_round)
        length = rounds * loop.per_round // passes
        arrays = self.threads.run(lambda _: (_aligned(length), _aligned(length if passes == 2 else 0)))
        function = self._function(loop.name)

        def call(k: int, repeats: int) -> float:
            p, q = (ctypes.c_void_p(array.ctypes.data) for array in arrays[k])
            return function(p, q, ctypes.c_int64(rounds), ctypes.c_int64(repeats))

        once = min(max(self.threads.run(lambda k: call(k, 1))) for _ in range(2))
        repeats = max(1, round(SAMPLE_SECONDS / max(once, 1e-9)))
        moved = len(self.threads.cpus) * repeats * rounds * loop.per_round
        return self._best(lambda: moved / max(self.threads.run(lambda k: call(k, repeats))))


def cache_sizes(target: tcpx.Target, root: Path = SYSTEM) -> dict[str, int]:
    """Bytes of `l1` and `l2` of one core and of `l3`: what the system says, else what the target's table does."""
    return {"l1": target.l1, "l2": target.l2, "l3": target.l3, **read_caches(root)}


def _aligned(length: int) -> npt.NDArray[np.uint8]:
    """Bytes, touched, from a multiple of 4096 on."""
    held = np.ones(length + 4096, np.uint8)
    start = -held.ctypes.data % 4096
    return held[start : start + length]
