"""`lib/attention.tcps`: attention over blocks of keys as people write it, beside NumPy in f64."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.installed import LIBRARY as INSTALLED
from tcpx.payload.sizes import evaluate
from tests.structural.test_attention import reference

Array = npt.NDArray[Any]
LIBRARY = """language 1
import "lib/attention.tcps" as attention
schedule s(root: func) { attention.attention(root) }
"""
Q, K, V, Y = "[B]x{h}x[T]x{d}x{t}", "[B]x{g}x[U]x{d}x{t}", "[B]x{g}x[U]x{e}x{t}", "[B]x{h}x[T]x{e}x{t}"
COMPOSITE = """
func @f(%q: tensor<{Q}>, %k: tensor<{K}>, %v: tensor<{V}>{argument}) -> tensor<{Y}> symbols [{symbols}] {{
  %o = tcp.attention(%q, %k, %v{mask}) {given} : tensor<{Y}>
  tcp.return(%o)
}}
"""
WRITTEN = """
func @f(%q: tensor<[B]x3x[T]x48xf32>, %k: tensor<[B]x3x[U]x48xf32>, %v: tensor<[B]x3x[U]x48xf32>,
    %m: tensor<[B]x[U]xf32>) -> tensor<[B]x3x[T]x48xf32> symbols [B, T, U: 1..] {
  %s = tcp.contract(%q, %k) {lhs = ["b", "h", "t", "d"], rhs = ["b", "h", "u", "d"], out = ["b", "h", "t", "u"]}
    : tensor<[B]x3x[T]x[U]xf32>
  %c = tcp.mul(%s, 0.125) : tensor<[B]x3x[T]x[U]xf32>
  %mm = tcp.broadcast(%m) {dims = [0, 3]} : tensor<[B]x3x[T]x[U]xf32>
  %a = tcp.add(%c, %mm) : tensor<[B]x3x[T]x[U]xf32>
  %p = tcp.softmax(%a) {dim = 3} : tensor<[B]x3x[T]x[U]xf32>
  %o = tcp.contract(%p, %v) {lhs = ["b", "h", "t", "u"], rhs = ["b", "h", "u", "d"], out = ["b", "h", "t", "d"]}
    : tensor<[B]x3x[T]x48xf32>
  tcp.return(%o)
}
"""

EXPORTED = """
func @f(%q: tensor<[B]x3x[T]x48xf32>, %k: tensor<[B]x3x[U]x48xf32>, %v: tensor<[B]x3x[U]x48xf32>)
    -> tensor<[B]x3x[T]x48xf32> symbols [B, T, U: 1..] {
  %r = tcp.transpose(%k) {permutation = [0, 1, 3, 2]} : tensor<[B]x3x48x[U]xf32>
  %a = tcp.mul(%q, 0.5) : tensor<[B]x3x[T]x48xf32>
  %b = tcp.mul(%r, 0.25) : tensor<[B]x3x48x[U]xf32>
  %s = tcp.contract(%a, %b) {lhs = ["b", "h", "t", "d"], rhs = ["b", "h", "d", "u"], out = ["b", "h", "t", "u"]}
    : tensor<[B]x3x[T]x[U]xf32>
  %p = tcp.softmax(%s) {dim = 3} : tensor<[B]x3x[T]x[U]xf32>
  %o = tcp.contract(%p, %v) {lhs = ["b", "h", "t", "u"], rhs = ["b", "h", "u", "d"], out = ["b", "h", "t", "d"]}
    : tensor<[B]x3x[T]x48xf32>
  tcp.return(%o)
}
"""
"""The scale stands in both factors, of which one was transposed before: so PyTorch writes it."""
SIDE_BY_SIDE = """
func @f(%x: tensor<[B]x[T]x3x48xf32>, %y: tensor<[B]x[U]x3x48xf32>, %z: tensor<[B]x[U]x3x48xf32>)
    -> tensor<[B]x3x[T]x48xf32> symbols [B, T, U: 1..] {
  %q = tcp.transpose(%x) {permutation = [0, 2, 1, 3]} : tensor<[B]x3x[T]x48xf32>
  %r = tcp.transpose(%y) {permutation = [0, 2, 3, 1]} : tensor<[B]x3x48x[U]xf32>
  %v = tcp.transpose(%z) {permutation = [0, 2, 1, 3]} : tensor<[B]x3x[U]x48xf32>
""" + EXPORTED[EXPORTED.index("  %a = ") :]
"""Heads that lie side by side in a row, as products leave them."""
STORED_SIDE_BY_SIDE = SIDE_BY_SIDE.replace("-> tensor<[B]x3x[T]x48xf32>", "-> tensor<[B]x[T]x3x48xf32>").replace(
    "  tcp.return(%o)",
    "  %d = tcp.mul(%o, 2.0) : tensor<[B]x3x[T]x48xf32>\n  %e = tcp.mul(%d, 0.5) : tensor<[B]x3x[T]x48xf32>\n"
    "  %y2 = tcp.transpose(%e) {permutation = [0, 2, 1, 3]} : tensor<[B]x[T]x3x48xf32>\n  tcp.return(%y2)",
)
"""The result too, as the next product reads it."""
FILLED = (
    WRITTEN.replace("%m: tensor<[B]x[U]xf32>", "%m: tensor<[B]x[U]xi1>")
    .replace("  %mm = tcp.broadcast(%m)", "  %n = tcp.not(%m) : tensor<[B]x[U]xi1>\n  %mm = tcp.broadcast(%n)")
    .replace("[0, 3]} : tensor<[B]x3x[T]x[U]xf32>", "[0, 3]} : tensor<[B]x3x[T]x[U]xi1>")
    .replace("tcp.add(%c, %mm)", "tcp.select(%mm, -inf, %c)")
)
"""A mask that says which scores are replaced: `masked_fill` of PyTorch."""


def composite(
    h: int | str, g: int | str, d: int | str, e: int | str, t: str = "f32", given: str = "", mask: str = ""
) -> str:
    types = {key: held.format(h=h, g=g, d=d, e=e, t=t) for key, held in (("Q", Q), ("K", K), ("V", V), ("Y", Y))}
    used = dict.fromkeys(re.findall(r"\[(\w)\]", " ".join(types.values())))
    symbols = ", ".join(f"{name}: 1.." if name in "UD" else name for name in used)
    named = (f", %m: tensor<{mask}>", ", mask = %m") if mask else ("", "")
    return COMPOSITE.format(**types, argument=named[0], mask=named[1], given=given, symbols=symbols)


SIZES = ((2, 5, 7), (1, 1, 1), (1, 37, 100), (0, 3, 2), (1, 64, 64), (1, 4, 33))
"""Batches, queries and keys: below, at and beyond blocks of 16 and 32."""


def check(
    payload: str,
    heads: tuple[int, int, int, int],
    kind: str = "",
    target: str = "native",
    threads: int = 2,
    is_side_by_side: bool = False,
    **known: Any,
) -> tcpx.Kernel:
    h, g, d, e = heads
    params = {"ti": 16, "tj": 32}
    schedule = tcpx.parse_schedule(LIBRARY)
    kernel = tcpx.compile(tcpx.parse(payload), schedule, target=target, threads=threads, params=params)
    assert not [remark for remark in kernel.remarks if "left as it is" in remark.message]
    draw = np.random.default_rng(0)
    for b, t, u in SIZES:
        shapes = ((b, h, t, d), (b, g, u, d), (b, g, u, e))
        args: list[Array] = [draw.standard_normal(shape, np.float32) for shape in shapes]
        mask = None
        if kind == "numbers":
            mask = draw.standard_normal((b, u), np.float32)
        elif kind == "truth":
            mask = draw.random((b, u)) < 0.7
        if mask is not None:
            args.append(mask)
        (wanted,) = reference(args[:3], mask[:, None, None, :] if mask is not None else None, **known)
        if is_side_by_side:
            args = [np.ascontiguousarray(x.swapaxes(1, 2)) for x in args]
        found = np.asarray(kernel(*args), np.float64)
        if found.shape != wanted.shape:
            found = found.swapaxes(1, 2)
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)
    return kernel


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("target", ["generic", "native"])
def test_causal_with_shared_heads(target: str) -> None:
    """Of the first queries, blocks of keys are left out whole."""
    check(composite(4, 2, 48, 40, given="{causal = true}"), (4, 2, 48, 40), target=target, causal=True)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_sizes_that_are_symbols_and_a_mask_of_truth() -> None:
    """A row for which all keys are left out is NaN, as it is defined."""
    payload = composite("[H]", "[H]", "[D]", "[E]", given="{mask_dims = [0, 3]}", mask="[B]x[U]xi1")
    check(payload, (3, 3, 20, 70), "truth")


def test_register_tiles_are_no_wider_than_values() -> None:
    """Tiles of 32 and of 80 columns, in two and in three vectors of 16, and no columns beyond them."""
    for e, row in ((32, 32), (80, 48)):
        text = composite(2, 2, 32, e).replace("[B, T, U: 1..]", "[B, T: 8.., U: 1..]")
        source = tcpx.emit(tcpx.parse(text), tcpx.parse_schedule(LIBRARY), target="x86_avx512").c_source
        (last,) = set(re.findall(r"e1 \+= (\d+)|o/contract\.1/e1, (once)", source))
        assert last == (("", "once") if e == row else (str(row), ""))
    check(composite(2, 2, 32, 80), (2, 2, 32, 80))


def test_a_product_of_a_softmax_with_values() -> None:
    check(WRITTEN, (3, 3, 48, 48), "numbers", scale=0.125)


@pytest.mark.parametrize(("payload", "threads"), [(EXPORTED, 1), (SIDE_BY_SIDE, 1), (SIDE_BY_SIDE, 2)])
def test_keys_that_lie_otherwise(payload: str, threads: int) -> None:
    """Rows of one head at a time are put one behind the other; of all heads where threads share them. There is never a
    matrix of all scores."""
    kernel = check(payload, (3, 3, 48, 48), threads=threads, is_side_by_side=payload == SIDE_BY_SIDE, scale=0.125)
    size = kernel.signature.workspace_bytes
    short, long = (evaluate(size, {"B": 2, "T": n, "U": n}) for n in (512, 4096))
    assert long <= 8 * short


@pytest.mark.parametrize("threads", [1, 2])
def test_a_result_is_stored_where_its_transpose_is_read(threads: int) -> None:
    """Nothing of the result is in memory of the kernel: its size does not depend on how many queries there are."""
    kernel = check(STORED_SIDE_BY_SIDE, (3, 3, 48, 48), threads=threads, is_side_by_side=True, scale=0.125)
    size = kernel.signature.workspace_bytes
    assert len({evaluate(size, {"B": 2, "T": n, "U": 64}) for n in (64, 512, 4096)}) == 1


def test_many_heads_are_shared_whole() -> None:
    """Each of two threads packs keys and values of its own heads: of two heads at a time, however many there are."""
    sizes = []
    for h in (8, 32):
        kernel = check(composite(h, h, 16, 16), (h, h, 16, 16))
        sizes.append(evaluate(kernel.signature.workspace_bytes, {"B": 1, "T": 64, "U": 256}))
    assert sizes[1] - sizes[0] < (32 - 8) * 256 * 16 * 4  # the keys of the other heads


READERS = {
    "summed": ("tensor<2x[T]xf32>", "%r = tcp.reduce_sum(%o) {dims = [2]} : tensor<2x[T]xf32>", "%r"),
    "normed": ("tensor<2x[T]x16xf32>", "%r = tcp.softmax(%o) {dim = 2} : tensor<2x[T]x16xf32>", "%r"),
    "columns": (
        "tensor<2x16x[T]xf32>",
        "%r = tcp.transpose(%o) {permutation = [0, 2, 1]} : tensor<2x16x[T]xf32>",
        "%r",
    ),
    "returned too": (
        "(tensor<[T]x2x16xf32>, tensor<2x[T]x16xf32>)",
        "%r = tcp.transpose(%o) {permutation = [1, 0, 2]} : tensor<[T]x2x16xf32>",
        "%r, %o",
    ),
}


@pytest.mark.parametrize("is_composite", [False, True])
@pytest.mark.parametrize("reader", READERS)
def test_what_reads_a_result_does_not_matter(reader: str, is_composite: bool) -> None:
    """It is computed by blocks, whatever reads it, and in how many ways."""
    result, text, returned = READERS[reader]
    written = """%s = tcp.contract(%q, %k) {lhs = ["h", "t", "d"], rhs = ["h", "u", "d"], out = ["h", "t", "u"]}
    : tensor<2x[T]x[T]xf32>
  %p = tcp.softmax(%s) {dim = 2} : tensor<2x[T]x[T]xf32>
  %o = tcp.contract(%p, %v) {lhs = ["h", "t", "u"], rhs = ["h", "u", "e"], out = ["h", "t", "e"]}"""
    types = ", ".join(f"%{name}: tensor<2x[T]x16xf32>" for name in "qkv")
    computed = "%o = tcp.attention(%q, %k, %v)" if is_composite else written
    module = tcpx.parse(
        f"func @f({types}) -> {result} symbols [T] {{\n  {computed} : tensor<2x[T]x16xf32>\n  {text}\n"
        f"  tcp.return({returned})\n}}\n"
    )
    kernel = tcpx.compile(module, threads=2)
    assert not [remark for remark in kernel.remarks if not remark.factor]
    draw = np.random.default_rng(1)
    for t in (1, 65):
        args = [draw.standard_normal((2, t, 16), np.float32) for _ in range(3)]
        found, wanted = (y if isinstance(y, tuple) else (y,) for y in (kernel(*args), tcpx.evaluate(module, *args)))
        for x, y in zip(found, wanted, strict=True):
            np.testing.assert_allclose(np.asarray(x, np.float64), np.asarray(y, np.float64), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_mask_of_what_is_replaced() -> None:
    check(FILLED, (3, 3, 48, 48), "truth", scale=0.125)


def test_blocks_that_cannot_be_are_refused() -> None:
    """A block that was asked for and cannot be is an error."""
    with pytest.raises(tcpx.ScheduleError, match="48"):
        tcpx.emit(tcpx.parse(EXPORTED), params={"tj": 48})


@pytest.mark.parametrize("payload", [composite(3, 3, 64, 64, given="{causal = true}"), WRITTEN])
def test_memory_does_not_grow_with_the_keys(payload: str) -> None:
    text = payload.replace("[B, T, U: 1..]", "[B, T: 8.., U: 1..]")
    source = tcpx.emit(tcpx.parse(text), tcpx.parse_schedule(LIBRARY)).c_source
    _, _, body = source[: source.index("\n}", source.index("size_t f_workspace("))].rpartition("SIZE_MAX;")
    (grows,) = re.findall(r".*= (.*\bU\b.*);", body)
    assert re.fullmatch(r"tcpx_size_min\((64|128), U\)", grows)


@pytest.mark.parametrize("payload", [WRITTEN, composite(4, 2, 48, 48, given="{causal = true}")])
def test_few_queries_are_computed_in_vectors_too(payload: str) -> None:
    """A step of decoding where the number of queries is not known before."""
    schedule = tcpx.load_schedule(INSTALLED / "default.tcps")
    found = tcpx.check(schedule, tcpx.parse(payload), target="x86_avx512")
    assert [d.message for d in found if "one element at a time" in d.message] == []


@pytest.mark.parametrize("is_composite", [False, True])
def test_no_keys_are_nothing_to_add_up(is_composite: bool) -> None:
    """A result is 0 there, whether the division is before the product or behind it."""
    types = "%q: tensor<2x[T]x5xf32>, %k: tensor<2x[U]x5xf32>, %v: tensor<2x[U]x5xf32>"
    products = """
  %s = tcp.contract(%q, %k) {lhs = ["h", "t", "d"], rhs = ["h", "u", "d"], out = ["h", "t", "u"]}
    : tensor<2x[T]x[U]xf32>
  %p = tcp.softmax(%s) {dim = 2} : tensor<2x[T]x[U]xf32>
  %o = tcp.contract(%p, %v) {lhs = ["h", "t", "u"], rhs = ["h", "u", "e"], out = ["h", "t", "e"]}"""
    written = "\n  %o = tcp.attention(%q, %k, %v)" if is_composite else products
    payload = f"""func @f({types}) -> tensor<2x[T]x5xf32> symbols [T: 0.., U: 0..] {{{written} : tensor<2x[T]x5xf32>
  tcp.return(%o)
}}
"""
    module = tcpx.parse(payload)
    kernel = tcpx.compile(module)
    assert not [remark for remark in kernel.remarks if not remark.factor]
    drawn = np.random.default_rng(3)
    for t, u in ((3, 0), (9, 0), (0, 5), (1, 7), (20, 33)):
        q = drawn.standard_normal((2, t, 5), dtype=np.float32)
        k, v = drawn.standard_normal((2, 2, u, 5), dtype=np.float32)
        found, wanted = (np.asarray(y, np.float64) for y in (kernel(q, k, v), tcpx.evaluate(module, q, k, v)))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
