"""What two threads cost where another program uses the second core: the time of a product over that of one thread.

A thread that waits in circles keeps the core from the one that it waits for (docs/adr/0018-threads-wait-briefly.md).
`python -m benchmarks.busy_core` prints it for several policies.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

from benchmarks.bars import Bar, Verdict
from tcpx.measure.pinned_threads import available_cpus

SIZES: Final = (64, 192, 1024)
JUDGED: Final = 192
MOST: Final = 2.0
POLICIES: Final[Mapping[str, Mapping[str, str]]] = {
    "tcpx": {},
    "libgomp's own": {"GOMP_SPINCOUNT": "300000"},
    "active": {"OMP_WAIT_POLICY": "active"},
    "passive": {"OMP_WAIT_POLICY": "passive"},
}
VARIABLES: Final = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_NUM_THREADS")
CODE: Final = """
import os, subprocess, sys, time
from statistics import median
import numpy as np
import tcpx

first, second, size, is_busy = map(int, sys.argv[1:])
os.sched_setaffinity(0, [first, second])
module = tcpx.parse(f'''
func @product(%x: tensor<{size}x{size}xf32>, %w: tensor<{size}x{size}xf32>) -> tensor<{size}x{size}xf32> {{
  %y = tcp.matmul(%x, %w) : tensor<{size}x{size}xf32>
  tcp.return(%y)
}}''')
x = np.ones((size, size), np.float32)
calls = [tcpx.compile(module, threads=threads).bind(x, x) for threads in (1, 2)]
def sample(call, count):
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count
counts = [max(1, round(2e-3 / min(sample(call, 1) for _ in range(5)))) for call in calls]
other = None
if is_busy:
    code = f"import os; os.sched_setaffinity(0, [{second}])\\nwhile True: pass"
    other = subprocess.Popen([sys.executable, "-c", code])
try:
    time.sleep(0.2)
    samples = [[sample(call, count) for call, count in zip(calls, counts)] for _ in range(31)]
finally:
    if other is not None:
        other.kill()
print(*(median(times) for times in zip(*samples)))
"""


def busy_core_bar() -> Verdict:
    """The time of two threads over that of one, beside a program that uses the second core."""
    name, bar = f"{JUDGED} cubed beside a busy core", Bar("over_one_thread", MOST)
    if len(available_cpus()) < 2:
        return Verdict(name, 2, bar, None, "needs two CPUs")
    one, two = seconds(JUDGED, is_busy=True, policy={})
    return Verdict(name, 2, bar, two / one, f"{two * 1e6:.0f} us, one thread {one * 1e6:.0f}")


def seconds(size: int, is_busy: bool, policy: Mapping[str, str]) -> tuple[float, float]:
    """Medians of calls in turn, on one thread and on two."""
    first, second = available_cpus()[:2]
    given = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    command = [sys.executable, "-c", CODE, str(first), str(second), str(size), str(int(is_busy))]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**given, **policy})
    one, two = map(float, done.stdout.split())
    return one, two


def main() -> None:
    """A line for each policy, size, and machine, quiet or not."""
    for is_busy in (False, True):
        for size in SIZES:
            for name, policy in POLICIES.items():
                one, two = seconds(size, is_busy, policy)
                print(
                    f"{'busy' if is_busy else 'quiet'} {size:5} {name:14} one {one * 1e6:9.1f} us, two {two * 1e6:9.1f}"
                )


if __name__ == "__main__":
    main()
