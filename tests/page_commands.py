"""Running the commands of a page of the documentation, as a reader would."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path


def run_commands(commands: Iterable[Sequence[str]], folder: Path) -> None:
    """Run each in the folder, in order, with the `tcpx` of this environment and a cache of its own in the folder.
    Raises AssertionError with the output of one that fails."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment["TCPX_CACHE_DIR"] = str(folder / "cache")
    for words in commands:
        done = subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}\n{done.stderr}"
