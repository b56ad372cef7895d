"""The limits of a machine, kept in a file."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tcpx.measure.kept_limits import kept_limits, raised_limits
from tcpx.measure.limits import Limits


class Machine(SimpleNamespace):
    """Stands for a machine whose limits rise with every measurement."""

    def __init__(self, path: Path) -> None:
        super().__init__(library_path=path, threads=SimpleNamespace(cpus=(0,)), measured=0)

    def limits(self) -> Limits:
        self.measured += 1
        return Limits(1, {"fma_f32": 10.0 * self.measured}, {"l1": 5})


def test_they_are_measured_once(tmp_path: Path) -> None:
    machine: Any = Machine(tmp_path / "loops.so")
    first = kept_limits(machine)
    assert kept_limits(machine) == first
    assert machine.measured == 1
    assert raised_limits(machine, Limits(1, {"fma_f32": 15.0, "copy": 1.0}, {})).rates == {"fma_f32": 20.0, "copy": 1.0}
    assert kept_limits(machine).rates == {"fma_f32": 20.0, "copy": 1.0}


def test_a_file_that_was_cut_short_is_no_file(tmp_path: Path) -> None:
    machine: Any = Machine(tmp_path / "loops.so")
    kept_limits(machine)
    (file,) = tmp_path.glob("*.json")
    file.write_text(file.read_text()[:20])
    assert kept_limits(machine).rates == {"fma_f32": 20.0}
