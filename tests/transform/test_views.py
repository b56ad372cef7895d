"""Views in schedules: read through by tiles, tiled, fused, vectorized, compiled; one is from outside of the package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

import tcpx
from tcpx.payload.evaluator import evaluate_func
from tcpx.payload.fields import IntAttribute, Operand
from tcpx.payload.interfaces import Tileable
from tcpx.payload.ir import register
from tcpx.payload.ops.gml_st import Materialize
from tcpx.payload.ops.views import View
from tcpx.payload.pieces import Piece, cut
from tcpx.payload.sizes import maximum
from tcpx.payload.subsets import Tile
from tcpx.payload.text.parser import parse
from tcpx.payload.types import shape_of
from tests.transform.payloads import Array, Sizes, arguments, check, refusal, run


@register
class Roll(View):
    """The first `by` elements along the first dim behind all the others."""

    __slots__ = ()
    opcode = "test.roll"
    operand = Operand()
    by = IntAttribute()

    def pieces(self, tile: Tile) -> Sequence[Piece] | None:
        if not tile.has_unit_strides or tile.dropped:
            return None
        offset, size = tile.offsets[0], tile.sizes[0]
        seam = shape_of(self.operand.type)[0] - self.by
        middle = cut(seam, offset, size)
        front = Tile((offset + self.by, *tile.offsets[1:]), (middle, *tile.sizes[1:]))
        back = Tile((maximum(0, offset - seam), *tile.offsets[1:]), (size - middle, *tile.sizes[1:]))
        return [Piece.of(0, front), Piece.of(0, back, (middle, *(0 for _ in tile.sizes[1:])))]


def payload(body: str, result: str, head: str = "%x: tensor<[N]x[M]xf32>") -> str:
    return f"func @f({head}) -> tensor<{result}> symbols [N: 2.., M: 0..] {{\n{body}\n  tcp.return(%y)\n}}\n"


def read(view: str, shape: str, dtype: str = "f32") -> str:
    """A view of something computed, read by something that computes."""
    shape = f"{shape}x{dtype}"
    return payload(
        f"  %e = tcp.mul(%x, %x) : tensor<[N]x[M]x{dtype}>\n  %p = {view} : tensor<{shape}>\n"
        f"  %y = tcp.add(%p, %p) : tensor<{shape}>",
        shape,
        f"%x: tensor<[N]x[M]x{dtype}>, %z: tensor<3x[M]x{dtype}>",
    )


VIEWS: Mapping[str, str] = {
    "behind": read("tcp.pad(%e) {value = 1.0}", "[N + 3]x[M + 1]"),
    "before": read("tcp.pad(%e) {value = -inf, low = [5, 1]}", "[N + 7]x[M + 3]"),
    "between": read("tcp.pad(%e) {value = 3, low = [1, 0], interior = [2, 1]}", "[3*N]x[2*M]", "si32"),
    "not a number": read("tcp.pad(%e) {value = nan, low = [0, 2]}", "[N]x[M + 2]", "f64"),
    "reversed": read("tcp.reverse(%e) {dims = [0, 1]}", "[N]x[M]"),
    "joined": read("tcp.concat(%z, %e, %z) {dim = 0}", "[N + 6]x[M]"),
    "joined to itself": read("tcp.concat(%e, %z, %e) {dim = 0}", "[2*N + 3]x[M]", "ui8"),
    "expanded": read("tcp.reshape(%e)", "[N]x[M]x1"),
    "from outside": read("test.roll(%e) {by = 2}", "[N]x[M]"),
    "nested": payload(
        """  %e = tcp.mul(%x, %x) : tensor<[N]x[M]xf32>
  %a = tcp.pad(%e) {value = nan, low = [0, 1]} : tensor<[N]x[M + 2]xf32>
  %b = tcp.transpose(%a) {permutation = [1, 0]} : tensor<[M + 2]x[N]xf32>
  %c = tcp.reverse(%b) {dims = [0]} : tensor<[M + 2]x[N]xf32>
  %p = tcp.pad(%c) {value = -0.5, low = [2, 1]} : tensor<[M + 5]x[N + 1]xf32>
  %y = tcp.add(%p, %p) : tensor<[M + 5]x[N + 1]xf32>""",
        "[M + 5]x[N + 1]xf32",
    ),
    "nested between": payload(
        """  %e = tcp.mul(%x, %x) : tensor<[N]x[M]xf32>
  %a = tcp.pad(%e) {value = 1.0, low = [1, 0], interior = [2, 1]} : tensor<[3*N]x[2*M]xf32>
  %b = tcp.pad(%a) {value = 2.0, low = [1, 3]} : tensor<[3*N + 1]x[2*M + 3]xf32>
  %p = tcp.reverse(%b) {dims = [1]} : tensor<[3*N + 1]x[2*M + 3]xf32>
  %y = tcp.add(%p, %p) : tensor<[3*N + 1]x[2*M + 3]xf32>""",
        "[3*N + 1]x[2*M + 3]xf32",
    ),
}
HEAD = 'let e = match one "e" in root\nlet p = match one "p" in root\nlet y = match one "y" in root\n'
SCHEDULES: Mapping[str, str] = {
    "read by tiles": "let i, j = tile(y, [d0: 4, d1: 3])",
    "read by peeled tiles": "let i = tile(y, [d0: 4], tail: peel)",
    "what it shows fused": "let i = tile(y, [d0: 4])\noptional fuse(p, into: i)\nfuse(e, into: i, recompute: true)",
    "tiled": "let i, j = tile(p, [d0: 4, d1: 3])",
    "in parallel": "let i = tile(p, [d0: 3], parallel: true)",
    "vectorized reader": "let i, j = tile(y, [d0: 2, d1: 8], tail: pad)\nvectorize(i)",
    "vectorized": "let i, j = tile(p, [d0: 2, d1: 8], tail: pad)\nvectorize(i)",
}
SIZES: tuple[Sizes, ...] = tuple({"N": n, "M": m} for n in (2, 3, 4, 9) for m in (0, 1, 2, 8, 17))


def cases(view: str) -> dict[str, str]:
    """The schedules of a view; a third dim is of 1."""
    found = dict(SCHEDULES)
    if view == "from outside":  # a tile of it is none of its kind
        del found["tiled"], found["in parallel"], found["vectorized"]
    if view == "expanded":
        for name in ("vectorized reader", "vectorized"):
            found[name] = found[name].replace("i, j", "i, j, k").replace("d1: 8", "d1: 8, d2: 1")
    return {name: HEAD + body for name, body in found.items()}


def same(left: Array, right: Array) -> bool:
    a, b = np.asarray(left), np.asarray(right)
    return a.dtype == b.dtype and bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))


@pytest.mark.parametrize("view", VIEWS)
def test_numbers_stay(view: str) -> None:
    text = VIEWS[view]
    original = parse(text)
    for name, body in cases(view).items():
        module = run(text, body).module
        again = parse(module.text(), constants=module.constants)
        assert again.text() == module.text()
        for sizes in SIZES:
            given = arguments(original, sizes)
            wanted, found = (evaluate_func(m, m.main, given)[0] for m in (original, again))
            assert same(found, wanted), (name, sizes)


@pytest.mark.parametrize("view", VIEWS)
def test_compiles(view: str) -> None:
    text = VIEWS[view]
    original = parse(text)
    bodies = {"by default": None} | cases(view)
    requests = [
        tcpx.CompileRequest(
            original,
            None if body is None else tcpx.parse_schedule(f"language 1\nschedule main(root: func) {{\n{body}\n}}"),
            name=f"view_{k}",
        )
        for k, body in enumerate(bodies.values())
    ]
    for name, kernel in zip(bodies, tcpx.compile_many(requests, target="generic", threads=2), strict=True):
        for sizes in SIZES:
            given = arguments(original, sizes)
            wanted = evaluate_func(original, original.main, given)[0]
            assert same(np.asarray(kernel(*given)), wanted), (name, sizes)


def test_what_is_shown_is_fused_and_the_view_is_gone() -> None:
    done = run(VIEWS["before"], HEAD + "let i = tile(y, [d0: 4])\nfuse(e, into: i)")
    assert [op.opcode for op in done.module.main.body.ops] == ["tcp.empty", "gml_st.for", "tcp.return"]


def test_a_tile_inside_the_operand_has_no_padding() -> None:
    static = read("tcp.pad(%e) {value = 0.0, low = [4, 0]}", "16x[M]").replace("[N]", "8").replace("N: 2.., ", "")
    done = run(static, HEAD + 'let i = tile(y, [d0: 4])\nsplit(i, at: 4)\nsplit(i.copy("high"), at: 12)')
    loops = [op for op in done.module.main.body.ops if op.opcode == "gml_st.for"]
    assert [any(op.opcode == "tcp.pad" for op in loop.walk()) for loop in loops] == [True, False, True]


def test_what_is_read_backwards_is_a_subset() -> None:
    done = run(VIEWS["reversed"], HEAD + "let i = tile(y, [d0: 4])")
    assert "tcp.reverse" not in done.module.text()
    strides = [op.subset.strides for op in done.module.walk() if isinstance(op, Materialize)]
    assert (-1, -1) in strides


POOL = """\
func @pool(%x: tensor<[N]x[K]x[M]xf32>) -> tensor<[N]x[floordiv(K, 2) + 1]x[M]xf32> symbols [N: 0.., K: 0.., M: 0..] {
  %p = tcp.pad(%x) {value = -inf, low = [0, 1, 0]} : tensor<[N]x[2*floordiv(K, 2) + 3]x[M]xf32>
  %y = tcp.generic(%p) {iterators = [["n", "parallel"], ["oh", "parallel"], ["c", "parallel"], ["kh", "reduction", 3]],
      maps = [[n, 2*oh + kh, c], [n, oh, c]], combiner = "tcp.max"} ({ (%e: f32, %acc: f32):
    %next = tcp.max(%acc, %e) : f32
    tcp.yield(%next)
  }) : tensor<[N]x[floordiv(K, 2) + 1]x[M]xf32>
  tcp.return(%y)
}
"""
PRODUCT = """\
func @product(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>, %v: tensor<[K]x3xf32>) -> tensor<[M + 2]x[N + 3]xf32>
    symbols [M: 0.., K: 0.., N: 0..] {
  %a = tcp.pad(%x) {value = 0.0, low = [1, 2]} : tensor<[M + 2]x[K + 4]xf32>
  %j = tcp.concat(%v, %w) {dim = 1} : tensor<[K]x[N + 3]xf32>
  %b = tcp.pad(%j) {value = 0.0, low = [2, 0]} : tensor<[K + 4]x[N + 3]xf32>
  %y = tcp.matmul(%a, %b) : tensor<[M + 2]x[N + 3]xf32>
  tcp.return(%y)
}
"""
WINDOWS: Mapping[str, tuple[str, Sequence[str | None]]] = {
    "pooling": (
        POOL,
        (
            None,
            "let y = match one \"y\" in root\nlet n, i, c = tile(y, [n: 1, oh: 3, c: 8])\nlet k = tile(y, [kh: 1])",
            "let y = match one \"y\" in root\nlet n, i, c = tile(y, [n: 1, oh: 4, c: 8], tail: pad)\n"
            "let k = tile(y, [kh: 1])\nvectorize(n)",
        ),
    ),
    "product": (
        PRODUCT,
        (
            None,
            "let y = match one \"y\" in root\nlet i, j = tile(y, [m: 4, n: 8], tail: pad)\nlet k = tile(y, [k: 1])\n"
            "vectorize(i)\nhoist_accumulator(y, out_of: k)",
            "let y = match one \"y\" in root\nlet p = tile(y, [k: 4])\nlet i = tile(y, [m: 8], parallel: true)\n"
            "let jr, ir = tile(y, [n: 16, m: 4], tail: pad)\nlet b = pack(y.rhs, [k, n], at: i)\n"
            "let a = pack(y.lhs, [k, m], at: i)\nfuse(y.start, into: ir)\nlet k = tile(y, [k: 1])\n"
            "vectorize(ir)\nhoist_accumulator(y, out_of: k)",
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", WINDOWS)
def test_padded_operands(name: str, threads: int) -> None:
    text, bodies = WINDOWS[name]
    original = parse(text)
    for body in bodies:
        schedule = None
        if body is not None:
            schedule = tcpx.parse_schedule(f"language 1\nschedule main(root: func) {{\n{body}\n}}")
        kernel = tcpx.compile(original, schedule, target="x86_avx2", threads=threads)
        for sizes in ({"N": n, "M": m, "K": k} for n in (0, 1, 19) for m in (0, 1, 9, 33) for k in (0, 1, 2, 7)):
            given = arguments(original, sizes)
            wanted = evaluate_func(original, original.main, given)[0]
            assert same(np.asarray(kernel(*given)), wanted), (body, sizes)


def test_a_consumer_behind_a_reshape_is_fused() -> None:
    text = """\
func @f(%x: tensor<[N]x4x6xf32>) -> tensor<[4*N]x6xf32> symbols [N: 0..] {
  %e = tcp.mul(%x, %x) : tensor<[N]x4x6xf32>
  %p = tcp.reshape(%e) : tensor<[4*N]x6xf32>
  %y = tcp.add(%p, %p) : tensor<[4*N]x6xf32>
  tcp.return(%y)
}
"""
    sizes: tuple[Sizes, ...] = tuple({"N": n} for n in (0, 1, 3, 8))
    for body in (
        'let i = tile(match one "e" in root, [d0: 2])\nfuse(match one "y" in root, into: i)',
        'let i = tile(match one "y" in root, [d0: 8])\nfuse(match one "e" in root, into: i)',
    ):
        done = check(text, body, sizes)
        assert len(done.module.main.body.ops) == 3


def test_a_sum_backwards_starts_in_its_loop() -> None:
    text = """\
func @f(%x: tensor<[N]xf32>) -> tensor<f32> symbols [N: 0..] {
  %p = tcp.reverse(%x) {dims = [0]} : tensor<[N]xf32>
  %y = tcp.reduce_sum(%p) {dims = [0]} : tensor<f32>
  tcp.return(%y)
}
"""
    sizes: tuple[Sizes, ...] = tuple({"N": n} for n in (0, 1, 3, 4, 12, 13))
    check(text, 'let y = match one "y" in root\nlet i = tile(y, [d0: 4])\nfuse(y.start, into: i)', sizes)


def test_a_reshape_of_ones_is_peeled() -> None:
    text = """\
func @f(%x: tensor<1x[N]x1xf32>) -> tensor<[N]x1x1xf32> symbols [N: 0..] {
  %y = tcp.reshape(%x) : tensor<[N]x1x1xf32>
  tcp.return(%y)
}
"""
    sizes: tuple[Sizes, ...] = tuple({"N": n} for n in (0, 1, 5))
    check(text, 'let i, j = tile(match one "y" in root, [d0: 1, d1: 4], tail: peel)', sizes)


@pytest.mark.parametrize(
    ("view", "body", "message", "fix"),
    [
        ("from outside", "let i = tile(p, [d0: 4])", "a tile of it shows 2 tiles of operand 0", "tile what reads it"),
        ("joined", "let i = tile(e, [d0: 4])\nfuse(p, into: i)",
         "%p does not use the tile as a box of its own iterations",
         "in place of the loop round e: `let t = tile(p, [...])`, `fuse(e, into: t)`"),
    ],
)  # fmt: skip
def test_refusals(view: str, body: str, message: str, fix: str | None) -> None:
    error = refusal(VIEWS[view], HEAD + body)
    assert error.message.endswith(message)
    assert error.fix == fix


def test_a_reshape_of_rows_is_tiled_by_rows() -> None:
    text = read("tcp.reshape(%e)", "[M*N]")
    error = refusal(text, HEAD + "let i = tile(p, [d0: 4])")
    assert error.message.endswith("this tile of it shows no tile of its operand")
    assert error.fix == "tile by a multiple of the dims behind, or tile what reads it"
    assert isinstance(parse(text).main.body.ops[1], Tileable)
