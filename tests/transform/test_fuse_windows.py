"""Operations on windows are fused as consumers into the loops of what they read, where no window lies across tiles."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import tcpx
from tcpx.payload.evaluator import evaluate_func
from tcpx.payload.text.parser import parse
from tests.outside import operations  # noqa: F401  (registers them)
from tests.transform.payloads import arguments, refusal, run

POOL = """\
func @f(%x: tensor<[N]x[M]xf32>) -> tensor<ROWSxCOLUMNSxf32> symbols [N: SIZE.., M: SIZE..] {
  %p = tcp.mul(%x, %x) : tensor<[N]x[M]xf32>
  %y = outside.max_pool(%p) {stride = STRIDE, size = [SIZE, SIZE]} : tensor<ROWSxCOLUMNSxf32>
  %c = tcp.add(%y, %y) : tensor<ROWSxCOLUMNSxf32>
  tcp.return(%c)
}
"""
CONVOLUTION = """\
func @f(%x: tensor<[N]x[M]x3xf32>, %w: tensor<5x2x2x3xf32>) -> tensor<[floordiv(N, 2)]x[floordiv(M, 2)]x5xf32>
    symbols [N: 2.., M: 2..] {
  %p = tcp.mul(%x, %x) : tensor<[N]x[M]x3xf32>
  %y = tcp.generic(%p, %w) {iterators = [["h", "parallel"], ["v", "parallel"], ["o", "parallel"], ["a", "reduction"],
      ["b", "reduction"], ["c", "reduction"]], maps = [[2*h + a, 2*v + b, c], [o, a, b, c], [h, v, o]],
      combiner = "tcp.add"} ({ (%e: f32, %f: f32, %acc: f32):
    %next = tcp.fma(%e, %f, %acc) : f32
    tcp.yield(%next)
  }) : tensor<[floordiv(N, 2)]x[floordiv(M, 2)]x5xf32>
  %c = tcp.add(%y, %y) : tensor<[floordiv(N, 2)]x[floordiv(M, 2)]x5xf32>
  tcp.return(%c)
}
"""
SUBSAMPLED = """\
func @f(%x: tensor<[N]x[M]xf32>) -> tensor<[ceildiv(N, 3)]x[M]xf32> symbols [N: 2.., M: 2..] {
  %p = tcp.mul(%x, %x) : tensor<[N]x[M]xf32>
  %y = tcp.generic(%p) {iterators = [["i", "parallel"], ["j", "parallel"]], maps = [[3*i, j], [i, j]]} ({ (%e: f32):
    tcp.yield(%e)
  }) : tensor<[ceildiv(N, 3)]x[M]xf32>
  %c = tcp.add(%y, %y) : tensor<[ceildiv(N, 3)]x[M]xf32>
  tcp.return(%c)
}
"""


def pool(stride: int, size: int) -> str:
    rows, columns = (f"[floordiv({n} - {size}, {stride}) + 1]" for n in "NM")
    words = {"ROWS": rows, "COLUMNS": columns, "STRIDE": str(stride), "SIZE": str(size)}
    text = POOL
    for word, value in words.items():
        text = text.replace(word, value)
    return text


NAMES = 'let p = match one "p" in root\nlet y = match one "y" in root\nlet c = match one "c" in root\n'
CASES: Mapping[str, tuple[str, str]] = {
    "rows of windows": (pool(2, 2), "let i = tile(p, [d0: 4])\nfuse(y, into: i)"),
    "rows, any windows along them": (pool(1, 2).replace("[2, 2]", "[1, 2]").replace("N - 2", "N - 1"),
                                     "let i = tile(p, [d0: 3])\nfuse(y, into: i)"),
    "windows and what reads them": (pool(2, 2), "let i, j = tile(p, [d0: 4, d1: 6])\nfuse(c, into: j)"),
    "threads": (pool(3, 3), "let i, j = tile(p, [d0: 6, d1: 3], parallel: true)\nfuse(c, into: j)"),
    "gaps between windows": (pool(4, 3), "let i, j = tile(p, [d0: 4, d1: 8])\nfuse(c, into: j)"),
    "padded": (pool(2, 2), "let i, j = tile(p, [d0: 2, d1: 16], tail: pad)\nfuse(c, into: j)"),
    "peeled after": (pool(2, 2), "let i, j = tile(p, [d0: 4, d1: 16])\nfuse(c, into: j)\npeel(i)\npeel(j)"),
    "more than windows read": (
        pool(2, 2).replace("floordiv(N - 2, 2) + 1", "floordiv(N, 4)"),
        "let i = tile(p, [d0: 4])\nfuse(c, into: i)",
    ),
    "vectorized": (
        pool(2, 2),
        'let i, j = tile(p, [d0: 2, d1: 32])\nfuse(c, into: j)\npeel(j)\npeel(i)\nlet m = j.copy("main")\n'
        'vectorize(m.copy("main"))',
    ),
    "convolution": (CONVOLUTION, "let i, j = tile(p, [d0: 4, d1: 2])\nfuse(y, into: j)\nfuse(c, into: j)"),
    "every third row": (SUBSAMPLED, "let i, j = tile(p, [d0: 6, d1: 5])\nfuse(c, into: j)"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_windows_in_tiles_are_fused(name: str) -> None:
    text, body = CASES[name]
    original, module = parse(text), run(text, NAMES + body).module
    outside = [op.opcode for op in module.main.body.ops]
    assert not {"outside.max_pool", "tcp.generic"} & set(outside)
    again = parse(module.text())
    assert again.text() == module.text()
    program = tcpx.parse_schedule(f"language 1\nschedule main(root: func) {{\n{NAMES}{body}\n}}")
    kernel = tcpx.compile(parse(text), program, target="x86_avx2", threads=2)
    for n, m in ((4, 4), (5, 7), (6, 4), (7, 5), (12, 33), (13, 18), (17, 9)):
        given = arguments(original, {"N": n, "M": m})
        (wanted,), (found,) = (evaluate_func(each, each.main, given) for each in (original, again))
        assert np.array_equal(found, wanted), (n, m)
        assert np.array_equal(np.asarray(kernel(*given)), wanted), (n, m)


@pytest.mark.parametrize(
    ("text", "body", "message", "found"),
    [
        (pool(1, 2), "let i = tile(p, [d0: 4])\nfuse(y, into: i)", "%y reads `a + i` of %p across its tiles",
         "min(4, N - %p/d01) elements from %p/d01 on"),
        (pool(2, 3), "let i = tile(p, [d0: 4])\nfuse(y, into: i)", "%y reads `a + 2*i` of %p across its tiles",
         "min(4, N - %p/d01) elements from %p/d01 on"),
        (pool(2, 2), "let i, j = tile(p, [d0: 4, d1: 5])\nfuse(c, into: j)",
         "%y reads `b + 2*j` of %p across its tiles",
         "min(5, M - %p/d11) elements from %p/d11 on"),
    ],
)  # fmt: skip
def test_windows_across_tiles_are_refused(text: str, body: str, message: str, found: str) -> None:
    error = refusal(text, NAMES + body)
    assert (error.message, error.found) == (message, found)
    assert error.required == "windows without an offset, a stride no less than them, and tiles by a multiple of it"
    last = "c" if "fuse(c" in body else "y"
    assert error.fix == f"in place of the loop round p: `let t = tile({last}, [...])`, `fuse(p, into: t)`"


def test_the_fix_for_windows_across_tiles_is_right() -> None:
    module = run(pool(1, 2), NAMES + "let t = tile(y, [i: 3])\nfuse(p, into: t)").module
    assert not any(op.opcode == "tcp.mul" for op in module.main.body.ops)


def test_a_convolution_does_not_start_before_its_channels_are_there() -> None:
    error = refusal(CONVOLUTION, NAMES + "let i = tile(p, [d2: 1])\nfuse(y, into: i)")
    assert error.message == "%y reduces `c`, which the loops step in tiles"
