"""How long the first compilation of a product takes, in fresh processes with an empty cache, without `import tcpx`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
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


def cold_compile_bar() -> Verdict:
    """The median beside its bar; what `tcpx.compile` takes beyond `tcpx.emit` is the share of the C compiler."""
    whole, ours = (median(_seconds(step) for _ in range(RUNS)) for step in ("compile", "emit"))
    share = f"{max(0.0, 1 - ours / whole):.0%} of it the C compiler"
    return Verdict("compile 1024 cubed, cold", 1, Bar("seconds", MOST_SECONDS), whole, share)


def _seconds(step: str) -> float:
    with tempfile.TemporaryDirectory(prefix="tcpx-bench-") as cache:
        environment = {**os.environ, "TCPX_CACHE_DIR": cache}
        command = [sys.executable, "-c", CODE.format(step=step)]
        return float(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)
