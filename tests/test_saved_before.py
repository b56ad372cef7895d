"""What an earlier version saved is read: pickles, folders of kernels, records of the tuner.

The files were written at c69db44d, before the modules of sizes moved. None is written again.
"""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

import tcpx

FILES = Path(__file__).parent / "saved_before"


def check(kernel: tcpx.Kernel) -> None:
    rng = np.random.default_rng(7)
    x, w = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((5, 16), (16, 8)))
    np.testing.assert_array_equal(kernel(x, w), np.maximum(x @ w, 0))


def test_a_pickled_module() -> None:
    module = pickle.loads((FILES / "module.pickle").read_bytes())
    assert str(module) == str(tcpx.load(FILES / "row.tcp"))
    check(tcpx.compile(module, target="generic"))


def test_a_pickled_kernel() -> None:
    check(pickle.loads((FILES / "kernel.pickle").read_bytes()))


def test_a_folder(tmp_path: Path) -> None:
    shutil.copytree(FILES / "kernel", tmp_path / "kernel")
    check(tcpx.load_kernel(tmp_path / "kernel"))


@pytest.mark.parametrize("rows", [2, 4])
def test_a_record(tmp_path: Path, rows: int) -> None:
    """It is of this payload and schedule, which imports nothing: another library is another schedule. Its values are
    taken, whether or not they are the defaults."""
    text = (FILES / "row.tuned.yaml").read_text(encoding="utf-8")
    record = tmp_path / "row.tuned.yaml"
    record.write_text(text.replace("s.rows: 4", f"s.rows: {rows}"), encoding="utf-8")
    kernel = tcpx.compile(
        tcpx.load(FILES / "row.tcp"), tcpx.load_schedule(FILES / "row.tcps"), target="generic", tuned=record
    )
    assert isinstance(kernel.tuned, tcpx.TunedRecord)
    assert kernel.tuned.params["s.rows"] == rows
    check(kernel)
