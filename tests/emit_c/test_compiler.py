"""A compiler that is interrupted ends, with what it started."""

from __future__ import annotations

import os
import time
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from tcpx.emit_c import compiler


def test_an_interrupted_compiler_ends_with_its_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver of a compiler starts its passes, and tells here which process that is."""
    told = tmp_path / "child"

    class Interrupted(Popen[bytes]):
        def communicate(self, *_: Any, **__: Any) -> Any:
            while not told.is_file() or not told.read_text():
                time.sleep(0.01)
            raise KeyboardInterrupt

    monkeypatch.setattr(compiler.subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        compiler.output_of(["sh", "-c", f"sleep 60 & echo $! > {told}; wait"])
    child = int(told.read_text())
    for _ in range(500):
        if not Path(f"/proc/{child}/cmdline").is_file() or not Path(f"/proc/{child}/cmdline").read_bytes():
            return
        time.sleep(0.01)
    os.kill(child, 9)
    pytest.fail("the pass goes on without its driver")
