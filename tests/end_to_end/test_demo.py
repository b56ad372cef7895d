"""`make demo`: what it says of two functions does not depend on what else the machine does."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

DEMO = Path(__file__).parents[2] / "examples" / "digits" / "demo.py"


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(variable, "1")  # which the demo sets: put back afterwards
    spec = importlib.util.spec_from_file_location("demo", DEMO)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass
class Machine:
    """A clock of a machine that others use as well: after `turn` seconds it does something else for `away`."""

    turn: float
    away: float
    worked: float = 0.0

    def work(self, seconds: float) -> Callable[[object], None]:
        def run(_: object) -> None:
            self.worked += seconds

        return run

    def clock(self) -> float:
        return self.worked + self.worked // self.turn * self.away


@pytest.mark.parametrize("turn", [1e-3, 3e-3, 4e-3, 4.2e-3, 10e-3])
def test_a_busy_machine_does_not_decide(turn: float, demo: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(turn, away=8e-3)
    monkeypatch.setattr(demo.time, "perf_counter", machine.clock)
    forwards = {"tcpx": machine.work(4.2e-6), "numpy": machine.work(13.6e-6)}
    found = demo.median_times(forwards, np.zeros((1, 64), np.float32))
    assert found["tcpx"] == pytest.approx(4.2e-6, rel=0.02)
    assert found["numpy"] == pytest.approx(13.6e-6, rel=0.02)
