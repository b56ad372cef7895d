"""`contraction = false`: kernels of every target round as the evaluator does, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.cli import main
from tests.optional_tools import require_cpu_of

Array = npt.NDArray[Any]
PAYLOAD = """
func @f(%x: tensor<[N]x37xT>, %y: tensor<[N]x37xT>, %z: tensor<[N]x37xT>)
    -> (tensor<[N]x37xT>, tensor<[N]x37xT>, tensor<[N]x37xT>, tensor<[N]x37xT>, tensor<[N]x37xT>, tensor<[N]x37xT>)
    symbols [N] {
  %xy = tcp.mul(%x, %y) : tensor<[N]x37xT>
  %sum = tcp.add(%z, %xy) : tensor<[N]x37xT>
  %yz = tcp.mul(%y, %z) : tensor<[N]x37xT>
  %less = tcp.sub(%x, %yz) : tensor<[N]x37xT>
  %root = tcp.sqrt(%less) : tensor<[N]x37xT>
  %cube = tcp.mul(%yz, %sum) : tensor<[N]x37xT>
  %more = tcp.add(%cube, %less) : tensor<[N]x37xT>
  %ratio = tcp.div(%more, %sum) : tensor<[N]x37xT>
  %once = tcp.fma(%x, %y, %z) : tensor<[N]x37xT>
  %maybe = tcp.multiply_add(%x, %y, %z) : tensor<[N]x37xT>
  %body = tcp.generic(%x, %y) {iterators = [["i", "parallel"], ["j", "parallel"]], maps = [[i, j], [i, j], [i, j]]} ({
    (%e: T, %g: T):
      %p = tcp.mul(%e, %g) : T
      %q = tcp.add(%p, %e) : T
      tcp.yield(%q)
  }) : tensor<[N]x37xT>
  %run, %total = tcp.cumsum(%xy) {dim = 1} : tensor<[N]x37xT>, tensor<[N]xT>
  tcp.return(%ratio, %root, %once, %maybe, %body, %run)
}
"""
DTYPES: dict[str, Any] = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16}
AXPY = """
func @axpy(%x: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<64xf32> ATTRIBUTES{
  %p = tcp.mul(%x, %x) : tensor<64xf32>
  %s = tcp.add(%p, %y) : tensor<64xf32>
  tcp.return(%s)
}
"""
CALLER = """
func @main(%x: tensor<64xf32>) -> tensor<64xf32> ATTRIBUTES{
  %y = tcp.call @axpy(%x, %x) : tensor<64xf32>
  tcp.return(%y)
}
"""
UNCONTRACTED = tcpx.parse(AXPY.replace("ATTRIBUTES", "{contraction = false} "))
CONTRACTED = tcpx.parse(AXPY.replace("ATTRIBUTES", ""))


def arguments(dtype: str) -> list[Array]:
    random = np.random.default_rng(5)
    made = [random.normal(size=(29, 37)) for _ in range(3)]
    made[0][0, :6] = [0.0, -0.0, np.inf, np.nan, 1e30, 1e-30]
    with np.errstate(over="ignore"):
        return [array.astype(DTYPES[dtype]) for array in made]


def different(found: Any, wanted: Any) -> list[int]:
    """How many elements of each result have other bits; NaN is NaN."""
    counts: list[int] = []
    for f, w in zip(found, wanted, strict=True):
        bits = f"u{w.dtype.itemsize}"
        is_nan = np.isnan(f.astype(np.float64)) & np.isnan(w.astype(np.float64))
        counts.append(int(np.count_nonzero((f.view(bits) != w.view(bits)) & ~is_nan)))
    return counts


CASES = [
    *((t, d) for t in ("generic", "x86_avx2", "x86_avx512") for d in ("f32", "f64")),
    ("x86_avx2", "bf16"),
]


@pytest.mark.parametrize(("target", "dtype"), CASES)
def test_every_target_is_the_evaluator(target: str, dtype: str) -> None:
    machine = tcpx.load_target(target)
    require_cpu_of(machine)
    text = PAYLOAD.replace("T>", f"{dtype}>").replace("T)", f"{dtype})").replace(": T", f": {dtype}")
    module, given = tcpx.parse(text), arguments(dtype)
    with np.errstate(all="ignore"):
        wanted = tcpx.evaluate(module, *given)
    assert different(tcpx.compile(module, target=machine, contract=False)(*given), wanted) == [0] * 6


def test_products_and_sums_are_rounded_once_where_nothing_is_said() -> None:
    """Or those numbers would tell nothing."""
    machine = tcpx.load_target("x86_avx2")
    require_cpu_of(machine)
    given = [array[0] for array in arguments("f32")[:2]]
    module = tcpx.parse(AXPY.replace("ATTRIBUTES", "").replace("64", "37"))
    wanted, found = tcpx.evaluate(module, *given), tcpx.compile(module, target=machine)(*given)
    assert different([found], [wanted])[0] > 0


def test_the_attribute_is_text(tmp_path: Path) -> None:
    assert "-> tensor<64xf32> {contraction = false} {" in UNCONTRACTED.text()
    assert tcpx.fingerprint(UNCONTRACTED) != tcpx.fingerprint(CONTRACTED)
    for fused, source in (
        (True, tcpx.emit(CONTRACTED, target="x86_avx2")),
        (False, tcpx.emit(UNCONTRACTED, target="x86_avx2")),
        (False, tcpx.emit(CONTRACTED, target="x86_avx2", contract=False)),
    ):
        assert ("_mm256_fmadd_ps(" in source.c_source) == fused
    (tmp_path / "axpy.tcp").write_text(CONTRACTED.text(), encoding="utf-8")
    for words in ([], ["--no-contract"]):
        out = tmp_path / f"out{len(words)}"
        assert main(["emit", str(tmp_path / "axpy.tcp"), "--target", "x86_avx2", "-o", str(out), *words]) == 0
        assert ("_mm256_fmadd_ps(" in (out / "axpy.c").read_text(encoding="utf-8")) == (not words)


def test_kernels_of_both_are_cached_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPX_CACHE_DIR", str(tmp_path))
    for _ in range(2):
        for contract in (True, False):
            kernel = tcpx.compile(CONTRACTED, target="x86_avx2", contract=contract, cache=True)
            assert ("_mm256_fmadd_ps(" in kernel.c_source) == contract


def test_functions_that_are_called_do_the_same() -> None:
    for attributes, contracts in (("", True), ("{contraction = false} ", False)):
        main_of = CALLER.replace("ATTRIBUTES", attributes)
        files = tcpx.emit(tcpx.parse(CONTRACTED.text() + main_of), target="x86_avx2").files
        assert any(b"_mm256_fmadd_ps(" in content for content in files.values()) == contracts


def test_a_schedule_that_contracts_is_refused() -> None:
    schedule = tcpx.parse_schedule("language 1\nschedule s(root: func) { canonicalize(root, fma: true) }")
    assert "tcp.fma" in tcpx.apply_schedule(CONTRACTED, schedule).module.text()
    with pytest.raises(tcpx.ScheduleError, match="rounded once, which the payload forbids"):
        tcpx.apply_schedule(UNCONTRACTED, schedule)


def test_where_it_says_nothing() -> None:
    with pytest.raises(tcpx.VerifyError, match=r"`contraction` is true or false\n(.*\n)*  found: 0"):
        tcpx.parse(AXPY.replace("ATTRIBUTES", "{contraction = 0} "))
    with pytest.raises(tcpx.VerifyError, match=r"required: the attribute at @main, for it and all that it calls"):
        tcpx.parse(UNCONTRACTED.text() + CALLER.replace("ATTRIBUTES", ""))
