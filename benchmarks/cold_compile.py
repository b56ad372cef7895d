"""How long compilation takes in fresh processes, without `import tcpx`: of a product with an empty cache, of a network
that another process has compiled."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.bars import Bar, Verdict

RUNS: Final = 3
MOST_SECONDS: Final = 2.0
CODE: Final = """
import time, tcpx
module = tcpx.parse('''
func @matmul(%x: tensor<1024x1024xf32>, %w: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {{
  %mm = tcp.matmul(%x, %w) : tensor<1024x1024xf32>
  tcp.return(%mm)
}}''')
start = time.perf_counter()
tcpx.{step}(module)
print(time.perf_counter() - start)
"""
WARM_RUNS: Final = 7
MOST_WARM: Final = 0.3
DIGITS: Final = Path(__file__).parents[1] / "examples" / "digits" / "digits.tcp"
WARM: Final = """
import time, tcpx
module, compile = tcpx.load("{path}"), tcpx.compile
start = time.perf_counter()
compile(module)
print(time.perf_counter() - start)
"""


def cold_compile_bar() -> Verdict:
    """The median beside its bar; what `tcpx.compile` takes beyond `tcpx.emit` is the share of the C compiler."""
    whole, ours = (median(_seconds(step) for _ in range(RUNS)) for step in ("compile", "emit"))
    share = f"{max(0.0, 1 - ours / whole):.0%} of it the C compiler"
    return Verdict("compile 1024 cubed, cold", 1, Bar("seconds", MOST_SECONDS), whole, share)


def warm_compile_bar() -> Verdict:
    """The median of the processes after the first, which compiles the network of the digits."""
    with tempfile.TemporaryDirectory(prefix="tcpx-bench-") as cache:
        _, *warm = [_printed(WARM.format(path=DIGITS), cache) for _ in range(1 + WARM_RUNS)]
    return Verdict("compile the digits, known", 1, Bar("seconds", MOST_WARM), median(warm))


def _seconds(step: str) -> float:
    with tempfile.TemporaryDirectory(prefix="tcpx-bench-") as cache:
        return _printed(CODE.format(step=step), cache)


def _printed(program: str, cache: str) -> float:
    """The number that a program prints, in a process with this cache."""
    environment = {**os.environ, "TCPX_CACHE_DIR": cache}
    command = [sys.executable, "-c", program]
    return float(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)
