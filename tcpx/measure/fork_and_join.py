"""What it takes to open a parallel region and to close it again: seconds, on this machine."""

import ctypes
from statistics import median
from typing import Final

import tcpx

ROUNDS: Final = 200
SAMPLES: Final = 25
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
    """The median of samples: what a kernel meets, not the least it may. Raises CompileError."""
    path = tcpx.build_library(SOURCE, target, threads, "fork_and_join")
    function = ctypes.CDLL(str(path)).fork_and_join
    function.restype = ctypes.c_double
    return median(float(function(ctypes.c_int64(ROUNDS), ctypes.c_int(threads))) for _ in range(SAMPLES))
