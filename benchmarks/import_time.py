"""How long `import tcpx` takes, in fresh processes, without the start of Python."""

from __future__ import annotations

import subprocess
import sys
from statistics import median
from typing import Final

from benchmarks.bars import Bar, Verdict

IMPORTS: Final = 7
MOST_SECONDS: Final = 0.3
CODE: Final = "import time; t = time.perf_counter(); import tcpx; print(time.perf_counter() - t)"


def import_bar() -> Verdict:
    """The median of several processes beside its bar."""
    command = [sys.executable, "-c", CODE]
    done = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(IMPORTS)]
    return Verdict("import tcpx", 1, Bar("seconds", MOST_SECONDS), median(map(float, done)))
