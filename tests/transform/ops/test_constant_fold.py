"""constant_fold: what reads constants alone is computed when the schedule runs."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import tcpx
from tcpx.payload.constants import Constants
from tcpx.payload.diagnostics import ScheduleError
from tcpx.payload.ops.constant import Const

PRODUCT = """\
func @f(%x: tensor<[M]x70xf32>) -> tensor<[M]x37xf32> symbols [M] {
  %w = tcp.const {constant = "w"} : tensor<70x37xf32>
  %v = tcp.exp(%w) : tensor<70x37xf32>
  %mm = tcp.matmul(%x, %v) : tensor<[M]x37xf32>
  tcp.return(%mm)
}
"""
PACKED = "let n, k = tile(mm, [n: 16, k: 32])\nlet i = tile(mm, [m: 6], tail: pad)\nlet bp = pack(mm.rhs, [k, n])\n"


def module() -> tcpx.Module:
    return tcpx.parse(PRODUCT, constants=Constants({"w": np.random.default_rng(1).random((70, 37), dtype=np.float32)}))


def run(body: str) -> tcpx.Module:
    text = f"language 1\nschedule s(root: func) {{\nlet mm = match one matmul in root\n{body}\n}}"
    return tcpx.apply_schedule(module(), tcpx.parse_schedule(text)).module


@pytest.mark.parametrize(
    "body",
    [
        "constant_fold(producer(mm.rhs))",
        f"let v = producer(mm.rhs)\n{PACKED}fuse(v, into: bp)\nconstant_fold(bp)",
        f"{PACKED}constant_fold(bp)",
    ],
)
def test_the_result_is_a_constant(body: str) -> None:
    made, given = run(body), module()
    assert "tcp.exp" not in made.text()
    assert list(given.constants) == ["w"]
    x = np.random.default_rng(2).random((7, 70), dtype=np.float32)
    found, wanted = (np.asarray(tcpx.evaluate(m, x), dtype=np.float32) for m in (made, given))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize(("other", "count"), [("k: 32", 1), ("k: 35", 2)])
def test_versions_that_pack_alike_share_a_constant(other: str, count: int) -> None:
    """`w` itself is read by none of them."""
    versions = [PACKED.replace("k: 32", depth) + "constant_fold(bp)\n" for depth in ("k: 32", other)]
    first, second = versions
    fold = "constant_fold(producer(mm.rhs))\n"
    made = run(f"{fold}specialize mm when size(mm.m) <= 6 {{\n{first}}} else {{\n{second}}}")
    used = {op.attributes["constant"] for op in made.walk() if isinstance(op, Const) and "constant" in op.attributes}
    assert len(used) == count
    for rows in (3, 13):
        x = np.random.default_rng(2).random((rows, 70), dtype=np.float32)
        found, wanted = (np.asarray(tcpx.evaluate(m, x), dtype=np.float32) for m in (made, module()))
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_bytes_decide_what_is_alike() -> None:
    held = Constants({"a": np.array([[0.0, np.nan]], np.float32)})
    assert held.name_of(np.array([[0.0, np.nan]], np.float32)) == "a"
    others = [np.array([[-0.0, np.nan]], np.float32), np.array([0.0, np.nan], np.float32), np.array([[0, 1]], np.int32)]
    assert [held.name_of(other) for other in others] == [None] * 3
    assert Constants({"n": np.array(1.5, np.float32)}).name_of(np.array(1.5, np.float32)) == "n"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("constant_fold(mm)", "%mm cannot be a constant"),
        ("let i = tile(mm, [n: 8])\nconstant_fold(i)", "%mm/n1 cannot be a constant"),
        ("constant_fold(producer(producer(mm.rhs).operand))", "%w is a constant"),
        ("let a = pack(mm.lhs, [m, k])\nconstant_fold(a)", "the tile of %x has no bound in dim 0"),
        (
            "let i = tile(mm, [k: 7])\nlet v = producer(mm.rhs)\nfuse(v, into: i)\nconstant_fold(v)",
            "%v depends on %mm/k1, which is known only when the kernel runs",
        ),
    ],
)
def test_refused(body: str, message: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        run(body)
    assert caught.value.diagnostic.message == message


def test_what_is_known_only_in_the_call_is_named() -> None:
    text = PRODUCT.replace("[M]", "5").replace(" symbols 5", "")
    static = tcpx.parse(text, constants=Constants({"w": np.zeros((70, 37), np.float32)}))
    schedule = "language 1\nschedule s(root: func) { constant_fold(match one matmul in root) }"
    with pytest.raises(ScheduleError) as caught:
        tcpx.apply_schedule(static, tcpx.parse_schedule(schedule))
    assert caught.value.diagnostic.found == "%x: tensor<5x70xf32>"


def test_packing_needs_little_more_than_what_it_makes() -> None:
    """Tiles of tiles are filled where they lie: a weight may be most of a model."""
    weight = np.random.default_rng(0).standard_normal((1024, 2048), np.float32)
    text = PRODUCT.replace("70", "1024").replace("37", "2048").replace("tcp.exp(%w)", "tcp.transpose(%u)")
    text = text.replace("  %v =", "  %u = tcp.transpose(%w) {permutation = [1, 0]} : tensor<2048x1024xf32>\n  %v =", 1)
    text = text.replace("tcp.transpose(%u)", "tcp.transpose(%u) {permutation = [1, 0]}")
    module = tcpx.parse(text, constants=Constants({"w": weight}))
    body = """let mm = match one contract in root
      tile(mm, [n: 1024])
      tile(mm, [k: 512])
      tile(mm, [n: 32])
      let b = pack(mm.rhs, [k, n])
      constant_fold(b)"""
    schedule = tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n{body}\n}}")
    tracemalloc.start()
    try:
        constants = tcpx.apply_schedule(module, schedule).module.constants
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    made = [array for name in constants if (array := constants.get(name)) is not None]
    packed = [array for array in made if array.shape != weight.shape]
    assert sum(array.nbytes for array in packed) == weight.nbytes
    assert peak < 1.3 * weight.nbytes + 2**21
