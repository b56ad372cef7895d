"""Reduction dims that nothing can be padded with are computed under a mask: beyond `valid`, nothing changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.payload.evaluator import evaluate_func
from tcpx.target import load_target
from tests.optional_tools import require_cpu_of
from tests.outside import operations  # noqa: F401  (registers them)
from tests.transform.payloads import check

Array = npt.NDArray[Any]

POOL = """\
func @f(%x: tensor<[H]x[W]xf32>) -> tensor<[floordiv(H, 2) + 1]x[floordiv(W, 2) + 1]xf32>
    symbols [H: 0..1000, W: 0..1000] {
  %p = tcp.pad(%x) {value = -inf, low = [1, 1]} : tensor<[2*floordiv(H, 2) + 3]x[2*floordiv(W, 2) + 3]xf32>
  %v = tcp.generic(%p) {iterators = [["i", "parallel"], ["j", "parallel"], ["a", "reduction", 3],
      ["b", "reduction", 3]], maps = [[2*i + a, 2*j + b], [i, j]], combiner = "tcp.max"} ({ (%e: f32, %acc: f32):
    %m = tcp.max(%acc, %e) : f32
    tcp.yield(%m)
  }) : tensor<[floordiv(H, 2) + 1]x[floordiv(W, 2) + 1]xf32>
  tcp.return(%v)
}
"""
LARGEST_PRODUCT = """\
func @f(%x: tensor<[M]x[K]xf32>, %y: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M: 0.., K: 0.., N: 0..] {
  %v = tcp.generic(%x, %y) {iterators = [["m", "parallel"], ["n", "parallel"], ["k", "reduction"]],
      maps = [[m, k], [k, n], [m, n]], combiner = "tcp.max"} ({ (%a: f32, %b: f32, %acc: f32):
    %p = tcp.mul(%a, %b) : f32
    %m = tcp.max(%acc, %p) : f32
    tcp.yield(%m)
  }) : tensor<[M]x[N]xf32>
  tcp.return(%v)
}
"""
LAST = """\
func @f(%x: tensor<[M]x[N]xf32>) -> (tensor<[M]xf32>, tensor<[M]xsi64>) symbols [M: 0.., N: 0..] {
  %v, %k = tcp.generic(%x) {iterators = [["i", "parallel"], ["j", "reduction"]], maps = [[i, j], [i], [i]],
      positions = [2*j + 1], neutral = [0.0, -1]} ({ (%e: f32, %at: si64):
    tcp.yield(%e, %at)
  }, { (%a: f32, %ka: si64, %b: f32, %kb: si64):
    %zero = tcp.const {value = 0} : si64
    %none = tcp.less(%kb, %zero) : i1
    %c = tcp.select(%none, %a, %b) : f32
    %kc = tcp.select(%none, %ka, %kb) : si64
    tcp.yield(%c, %kc)
  }) : tensor<[M]xf32>, tensor<[M]xsi64>
  tcp.return(%v, %k)
}
"""


def compiled(payload: str, steps: str, threads: int = 1, target: str = "native") -> tcpx.Kernel:
    text = f'language 1\nschedule s(root: func) {{\nlet v = match one "v" in root\n{steps}\n}}'
    return tcpx.compile(tcpx.parse(payload), schedule=tcpx.parse_schedule(text), threads=threads, target=target)


def pooled(x: Array) -> Array:
    rows, columns = (n // 2 + 1 for n in x.shape)
    wide = np.full((2 * rows + 1, 2 * columns + 1), -np.inf, np.float32)
    wide[1 : 1 + x.shape[0], 1 : 1 + x.shape[1]] = x
    parts = [wide[a : a + 2 * rows : 2, b : b + 2 * columns : 2] for a in range(3) for b in range(3)]
    return np.maximum.reduce(parts)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "steps",
    [
        "let a, b = tile(v, [a: 2, b: 2], tail: pad)",
        "let i, j, a, b = tile(v, [i: 3, j: 5, a: 2, b: 2], tail: pad)",
        "let i, j = tile(v, [i: 3, j: 16], parallel: true, tail: pad)\nlet a, b = tile(v, [a: 2, b: 2], tail: pad)\n"
        "vectorize(j)",
        "let i, j = tile(v, [i: 3, j: 16], parallel: true, tail: pad)\nlet a = tile(v, [a: 1])\nvectorize(j)",
        "let i, j, a, b = tile(v, [i: 3, j: 16, a: 2, b: 2], tail: pad)\nlet c = tile(v, [b: 1])\nvectorize(j)",
        "let r, z = split_reduction(v, dim: a, parts: 2, parallel: true)\n"
        "let i, j, a, b = tile(v, [i: 2, j: 16, a: 3, b: 2], tail: pad)\nvectorize(j)",
    ],
)
def test_a_window_is_cut_where_its_taps_end(steps: str, threads: int) -> None:
    kernel = compiled(POOL, steps, threads)
    for shape in ((7, 33), (1, 1), (0, 4), (16, 64), (2, 31)):
        x = np.random.default_rng(shape[0]).standard_normal(shape).astype(np.float32) - 3
        x.reshape(-1)[: x.size // 9] = np.nan
        assert np.array_equal(kernel(x), pooled(x), equal_nan=True), shape


@pytest.mark.parametrize("target", ["native", "x86_avx2", "generic"])
@pytest.mark.parametrize(
    "steps",
    [
        "let i, j, k = tile(v, [m: 3, n: 5, k: 7], tail: pad)",
        "let i, j, k = tile(v, [m: 3, n: 16, k: 7], tail: pad)\nvectorize(j)\nhoist_accumulator(v, out_of: k)",
        "let i, j, k = tile(v, [m: 3, n: 1, k: 24], tail: pad)\nvectorize(j)\nhoist_accumulator(v, out_of: k)",
        "let i, j, k = tile(v, [m: 3, n: 16, k: 8], tail: pad)\nlet b = pack(v.rhs, [k, n], at: i)\n"
        "let l = tile(v, [k: 3], tail: pad)\nvectorize(j)",
    ],
)
def test_the_largest_product_has_no_neutral_factors(steps: str, target: str) -> None:
    """Of negative products, one of zeros would be the largest; of infinite ones, times zero is NaN."""
    require_cpu_of(load_target(target))
    kernel = compiled(LARGEST_PRODUCT, steps, target=target)
    for m, k, n in ((4, 9, 17), (1, 1, 1), (3, 0, 5), (0, 3, 4), (5, 24, 33)):
        random = np.random.default_rng(k)
        x, y = (-random.random((m, k)) - 1).astype(np.float32), (random.random((k, n)) + 1).astype(np.float32)
        if y.size:
            y[-1] = np.inf
        wanted = np.max(x[:, :, None] * y[None], 1, initial=-np.inf)
        assert np.array_equal(kernel(x, y), wanted.astype(np.float32)), (m, k, n)


@pytest.mark.parametrize(
    "steps",
    [
        "let a, b = tile(v, [i: 3, j: 5], tail: pad)",
        "let a, b = tile(v, [i: 16, j: 5], tail: pad)\nlet c = tile(v, [j: 2], tail: pad)\nvectorize(a)",
        "let a, b = tile(v, [i: 3, j: 8], tail: pad)\nvectorize(a)",
    ],
)
def test_what_is_not_commutative_keeps_its_order(steps: str) -> None:
    kernel = compiled(LAST, steps)
    for m, n in ((4, 9), (17, 1), (3, 0), (0, 3), (16, 24)):
        x = np.random.default_rng(n).standard_normal((m, n)).astype(np.float32)
        value, place = kernel(x)
        assert np.array_equal(value, x[:, -1] if n else np.zeros(m, np.float32))
        assert np.array_equal(place, np.full(m, 2 * n - 1 if n else -1))


MASKED = """\
func @f(%x: tensor<[N]x8xf32>) -> tensor<[N]xf32> symbols [N] {
  %v = tcp.reduce_sum(%x) {dims = [1], valid = [["d1", COUNT]]} : tensor<[N]xf32>
  tcp.return(%v)
}
"""


@pytest.mark.parametrize("count", ["0", "5", "min(8, N)", "min(8, max(0, N - 2))"])
def test_a_payload_says_what_is_no_padding(count: str) -> None:
    payload = MASKED.replace("COUNT", count)
    module = tcpx.parse(payload)
    assert module.text() == tcpx.parse(module.text()).text()
    assert count in module.text()
    kernels = [
        compiled(payload, steps)
        for steps in (
            "",
            "let g = generalize(v)",
            "let b = tile(v, [d1: 3])",
            "let b = tile(v, [d1: 3], tail: pad)",
            "let a = tile(v, [d0: 4], tail: pad)\nvectorize(a)",
            "let r, z = split_reduction(v, dim: d1, parts: 3)",
        )
    ]
    for n in (0, 1, 3, 5, 20):
        x = np.random.default_rng(n).integers(-5, 5, (n, 8)).astype(np.float32)
        kept = eval(count, {"N": n})  # noqa: S307  (one of the texts above)
        wanted = x[:, :kept].sum(1)
        (found,) = evaluate_func(module, module.main, [x])
        assert np.array_equal(found, wanted)
        for kernel in kernels:
            assert np.array_equal(kernel(x), wanted)


@pytest.mark.parametrize(
    ("count", "message"),
    [
        ('["d0", 5]', "not all of `d0` can be computed under a mask"),
        ('["d1", 9]', "not all of `d1` can be computed under a mask"),
        ('["d1", N]', "not all of `d1` can be computed under a mask"),
        ('["d1"]', "the attribute `valid` is of another kind"),
    ],
)
def test_refused(count: str, message: str) -> None:
    with pytest.raises(tcpx.TcpxError) as raised:
        tcpx.parse(MASKED.replace('["d1", COUNT]', count))
    assert raised.value.diagnostic.message == f"%v (tcp.reduce_sum): {message}"


def test_accumulators_side_by_side_are_not_masked() -> None:
    with pytest.raises(tcpx.TcpxError) as raised:
        compiled(MASKED.replace("COUNT", "5"), "let r, z = split_reduction(v, dim: d1, factor: 4)")
    assert raised.value.diagnostic.message == "elements of `d1` of %v cannot be combined side by side"


NEUTRAL = {
    "outside.argmax": ("f32", "si64"),
    "outside.logsumexp": ("f32", "f32"),
    "outside.moments": ("f32", "f32", "f32"),
}
PARTIAL = {
    "outside.argmax": [(np.nan, 3), (-np.inf, 4), (2.5, 0), (-np.inf, np.iinfo(np.int64).max)],
    "outside.logsumexp": [(2.5, 3.0), (-np.inf, 2.0), (-np.inf, 0.0)],
    "outside.moments": [(3.0, 1.5, 2.0), (1.0, -2.0, 0.0), (0.0, 0.0, 0.0)],
}


@pytest.mark.parametrize("opcode", NEUTRAL)
def test_a_neutral_element_adds_nothing(opcode: str) -> None:
    """An empty dim hands on what accumulators start with; joined with a neutral element, they stay."""
    kinds: Sequence[str] = NEUTRAL[opcode]
    names = [f"%s{k}" for k in range(len(kinds))]
    types = [f"tensor<1x{kind}>" for kind in kinds]
    arguments = ", ".join(f"{name}: {type_}" for name, type_ in zip(names, types, strict=True))
    results = ", ".join(f"%v{k}" for k in range(len(kinds)))
    payload = f"""\
func @f(%x: tensor<1x[N]xf32>, {arguments}) -> ({", ".join(types)}) symbols [N: 0..] {{
  {results} = {opcode}(%x, init = ({", ".join(names)})) {{dim = 1}} : {", ".join(types)}
  tcp.return({results})
}}
"""
    for steps in ("let g = generalize(v)", "let b = tile(v, [d1: 4], tail: pad)\nvectorize(b)"):
        kernel = compiled(payload.replace("%v0", "%v"), steps)
        for start in PARTIAL[opcode]:
            dtypes = [np.int64 if kind == "si64" else np.float32 for kind in kinds]
            given = [np.array([n], dtype) for n, dtype in zip(start, dtypes, strict=True)]
            found = kernel(np.zeros((1, 0), np.float32), *given)
            assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(found, given, strict=True)), (steps, start)


PADDED = """\
func @f(%x: tensor<[M + 1]x5xf32>, %y: tensor<[M]x5xf32>) -> tensor<[M + 1]xf32> symbols [M] {
  %p = tcp.pad(%y) {value = 0.0} : tensor<[M + 1]x5xf32>
  %r = tcp.generic(%x, %p) {iterators = [["k", "reduction"], ["h", "parallel"]], maps = [[h, k], [h, k], [h]],
      combiner = "tcp.min"} ({ (%e0: f32, %e1: f32, %acc: f32):
    %m = tcp.max(%e0, %e1) : f32
    %s = tcp.min(%acc, %m) : f32
    tcp.yield(%s)
  }) : tensor<[M + 1]xf32>
  tcp.return(%r)
}
"""


def test_what_another_number_pads_already_is_masked() -> None:
    """Rows of zeros keep their numbers, so that columns of infinities would be a second padding."""
    body = "let r = match one contract in root\nlet i = tile(r, [h: 8], tail: pad)\ntile(r, [k: 4], tail: pad)\n"
    assert "valid" in check(PADDED, body + "vectorize(i)").module.text()
