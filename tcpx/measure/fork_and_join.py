"""What it takes to open a parallel region and to close it again: seconds, on this machine."""

import ctypes
from time import perf_counter
from typing import Final

import tcpx

ROUNDS: Final = 20
SAMPLES: Final = 100
PATIENCE: Final = 0.5
"""Seconds: where other programs run, a join waits for them, for milliseconds."""
SOURCE: Final = """\
#define _POSIX_C_SOURCE 199309L
#include <stdint.h>
#include <time.h>

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Seconds of a parallel region that does nothing, the mean of so many. */
double fork_and_join(int64_t rounds, int threads) {
  const double start = seconds();
  for (int64_t k = 0; k < rounds; k++) {
    #pragma omp parallel num_threads(threads)
    { __asm__ volatile("" ::: "memory"); }
  }
  return (seconds() - start) / (double)rounds;
}
"""


def fork_and_join_seconds(target: tcpx.Target, threads: int = 2) -> float:
    """The lower quartile of samples: what a kernel meets where nothing else runs, not the least it may. Raises
    CompileError."""
    path = tcpx.build_library(SOURCE, target, threads, "fork_and_join")
    function = ctypes.CDLL(str(path)).fork_and_join
    function.restype = ctypes.c_double
    samples: list[float] = []
    end = perf_counter() + PATIENCE
    while len(samples) < SAMPLES and (not samples or perf_counter() < end):
        samples.append(float(function(ctypes.c_int64(ROUNDS), ctypes.c_int(threads))))
    return sorted(samples)[len(samples) // 4]
