"""Views: what they compute, what a tile of one shows, and what is none."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.payload.constants import Constants
from tcpx.payload.diagnostics import ArgumentError, Diagnostic, VerifyError
from tcpx.payload.evaluator import Evaluation, evaluate_func
from tcpx.payload.interfaces import Tileable
from tcpx.payload.ir import Operation
from tcpx.payload.subsets import Tile
from tcpx.payload.text.parser import parse
from tcpx.payload.traits.view import ViewLike
from tcpx.payload.types import shape_of

Array = npt.NDArray[np.generic]
X, Y = "tensor<4x6xf32>", "tensor<4x3xf32>"


def spaced(x: Array, low: int, interior: int, shape: Sequence[int], fill: float) -> Array:
    """Both dims padded alike."""
    made = np.full(shape, fill).astype(x.dtype)
    for place in np.ndindex(*x.shape):
        made[tuple(low + k * (interior + 1) for k in place)] = x[place]
    return made


CASES: dict[str, tuple[str, str, Callable[[Array, Array], Array]]] = {
    "behind": ("tcp.pad(%x) {value = 2.0}", "tensor<5x9xf32>", lambda x, y: spaced(x, 0, 0, (5, 9), 2)),
    "before": (
        "tcp.pad(%x) {value = -inf, low = [2, 2]}",
        "tensor<6x9xf32>",
        lambda x, y: spaced(x, 2, 0, (6, 9), -np.inf),
    ),
    "between": (
        "tcp.pad(%x) {value = nan, low = [1, 1], interior = [2, 2]}",
        "tensor<13x17xf32>",
        lambda x, y: spaced(x, 1, 2, (13, 17), np.nan),
    ),
    "reversed": ("tcp.reverse(%x) {dims = [1]}", X, lambda x, y: x[:, ::-1]),
    "reversed twice": ("tcp.reverse(%x) {dims = [0, 1]}", X, lambda x, y: x[::-1, ::-1]),
    "joined": (
        "tcp.concat(%x, %y, %x) {dim = 1}",
        "tensor<4x15xf32>",
        lambda x, y: np.concatenate([x, y, x], 1),
    ),
    "alone": ("tcp.concat(%x) {dim = 0}", X, lambda x, y: x),
    "turned": ("tcp.transpose(%x) {permutation = [1, 0]}", "tensor<6x4xf32>", lambda x, y: x.T),
    "expanded": ("tcp.reshape(%x)", "tensor<2x2x1x6xf32>", lambda x, y: x.reshape(2, 2, 1, 6)),
    "collapsed": ("tcp.reshape(%x)", "tensor<24xf32>", lambda x, y: x.reshape(24)),
}  # fmt: skip


def view_of(statement: str, result: str) -> tuple[Tileable, Callable[[Array, Array], Array]]:
    """The operation, and the function that computes it."""
    module = parse(f"func @f(%x: {X}, %y: {Y}) -> {result} {{\n  %r = {statement} : {result}\n  tcp.return(%r)\n}}")
    op: Operation = module.main.body.ops[0]
    assert isinstance(op, Tileable)
    return op, lambda x, y: np.asarray(evaluate_func(module, module.main, [x, y])[0])


@pytest.mark.parametrize("name", CASES)
def test_it_computes_what_numpy_does(name: str) -> None:
    statement, result, wanted = CASES[name]
    x, y = np.arange(24, dtype=np.float32).reshape(4, 6), -np.arange(12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_array_equal(view_of(statement, result)[1](x, y), wanted(x, y))


@pytest.mark.parametrize("name", CASES)
def test_a_tile_shows_its_pieces_and_the_rest(name: str) -> None:
    """Every tile: empty ones, and those that lie in the padding."""
    statement, result, wanted = CASES[name]
    op, _ = view_of(statement, result)
    x, y = np.arange(24, dtype=np.float32).reshape(4, 6), -np.arange(12, dtype=np.float32).reshape(4, 3)
    given = dict(zip(op.operands, (x, y, x), strict=False))
    whole = wanted(x, y)
    draw, evaluation, answered = random.Random(1), Evaluation(Constants(), {}), 0
    for _ in range(300):
        first = [draw.randint(0, n) for n in whole.shape]
        sizes = [draw.randint(0, n - o) for n, o in zip(whole.shape, first, strict=True)]
        tile = Tile(tuple(first), tuple(sizes))
        pieces = ViewLike(op).pieces(tile)
        if pieces is None:
            continue
        answered += 1
        made = np.full(sizes, -77.0 if ViewLike(op).rest is None else ViewLike(op).rest, np.float32)
        for piece in pieces:
            part = evaluation.select(given[op.operands[piece.operand]], piece.tile).transpose(piece.permutation)
            assert part.size == 0 or piece.place.sizes == piece.shape
            if part.size:
                made[evaluation.slices(made.shape, piece.place)] = part.reshape(
                    [evaluation.size(n) for n in piece.shape]
                )
        np.testing.assert_array_equal(made, evaluation.select(whole, tile), err_msg=tile.text())
    assert answered >= 30


def test_a_reshape_says_which_tiles_are_tiles() -> None:
    op, _ = view_of("tcp.reshape(%x)", "tensor<24xf32>")
    assert shape_of(op.result.type) == (24,)
    assert ViewLike(op).pieces(Tile((6,), (12,))) is not None
    assert ViewLike(op).pieces(Tile((3,), (3,))) is not None
    assert ViewLike(op).pieces(Tile((4,), (4,))) is None
    assert ViewLike(op).pieces(Tile((0,), (7,))) is None


@pytest.mark.parametrize(
    ("statement", "message", "required", "found", "fix"),
    [
        ("tcp.pad(%x) {value = 0.0, low = [1]} : tensor<5x9xf32>", "`low` has a number for each dim",
         "2 of them, each 0 or more", "[1]", None),
        ("tcp.pad(%x) {value = 0.0, low = [0, -1]} : tensor<5x9xf32>", "`low` has a number for each dim",
         "2 of them, each 0 or more", "[0, -1]", None),
        ("tcp.pad(%x) {value = 0.0, interior = [1, 1, 1]} : tensor<9x19xf32>", "`interior` has a number for each dim",
         "2 of them, each 0 or more", "[1, 1, 1]", None),
        ("tcp.pad(%x) {value = 0.0, low = [1, 0]} : tensor<4x6xf32>", "padding makes no dim smaller",
         "at least 5", "4 in tensor<4x6xf32>", None),
        ("tcp.pad(%x) {value = 0.0, interior = [0, 1]} : tensor<4x10xf32>", "padding makes no dim smaller",
         "at least 11", "10 in tensor<4x10xf32>", None),
        ("tcp.pad(%x) {value = 0.0, low = \"k\"} : tensor<5x9xf32>", "the attribute `low` is of another kind",
         "a list of sizes", 'low = "k"', None),
        ("tcp.reverse(%x) {dims = [-1]} : tensor<4x6xf32>", "`dims` lists dims of the operand",
         "rising dims below 2", "[-1]", "{dims = [1]}"),
        ("tcp.reverse(%x) {dims = [1, 0]} : tensor<4x6xf32>", "`dims` lists dims of the operand",
         "rising dims below 2", "[1, 0]", "{dims = [0, 1]}"),
        ("tcp.reverse(%x) : tensor<4x6xf32>", "the attribute `dims` is missing", "a list of ints", "no `dims`",
         "{dims = [1]}"),
        ("tcp.reverse(%x) {dims = [1]} : tensor<6x4xf32>", "what is reversed keeps its shape",
         "tensor<4x6xf32>", "tensor<6x4xf32>", "write `: tensor<4x6xf32>`"),
        ("tcp.concat(%x, %y) {dim = 1} : tensor<4x8xf32>", "the result is as long as what is joined",
         "tensor<4x9xf32>", "tensor<4x8xf32>", "write `: tensor<4x9xf32>`"),
        ("tcp.concat(%x, %y) {dim = 0} : tensor<8x6xf32>",
         "what is joined along dim 0 has the same extent along the others", "the other dims of %x: tensor<4x6xf32>",
         "%y: tensor<4x3xf32>", None),
        ("tcp.concat(%x, %y) {dim = 2} : tensor<4x9xf32>", "`dim` lists dims of the operand",
         "rising dims below 2", "[2]", None),
        ("tcp.concat(%x, %y) : tensor<4x9xf32>", "the attribute `dim` is missing", "an int", "no `dim`", "{dim = 1}"),
        ("tcp.concat {dim = 0} : tensor<4x9xf32>", "something is joined", "at least one operand", "no operands", None),
        ("tcp.concat(%x, %y) {dim = 1} : tensor<4x9xf64>", "operand and result have one dtype", "f64", "f32",
         "insert a tcp.cast"),
    ],
)  # fmt: skip
def test_what_is_no_view(statement: str, message: str, required: str, found: str, fix: str | None) -> None:
    with pytest.raises(VerifyError) as caught:
        view_of(*statement.rsplit(" : ", 1))
    error: Diagnostic = caught.value.diagnostic
    assert error.message.endswith(message)
    assert (error.required, error.found, error.fix) == (required, found, fix)


WINDOW = """\
func @window(%x: tensor<[N]x8xf32>, %n: index as [T]) -> tensor<4x8xf32> symbols [N: 64.., T: 0..60] {
  %s = tcp.slice(%x) {offsets = [T, 0]} : tensor<4x8xf32>
  %y = tcp.add(%s, 1.0) : tensor<4x8xf32>
  tcp.return(%y)
}
"""


def test_a_slice_begins_where_a_call_says() -> None:
    x = np.arange(70 * 8, dtype=np.float32).reshape(70, 8)
    module = tcpx.parse(WINDOW)
    kernel = tcpx.compile(module)
    for at in (0, 3, 60):
        np.testing.assert_array_equal(kernel(x, at), x[at : at + 4] + 1)
        np.testing.assert_array_equal(tcpx.evaluate(module, x, np.array(at)), x[at : at + 4] + 1)
    with pytest.raises(ArgumentError, match="the size `T` is out of its range"):
        kernel(x, 61)


def test_an_element_by_two_indices() -> None:
    text = """
    func @pick(%table: tensor<[V]x[W]x[D]xf32>, %i: tensor<[N]xsi64> in 0 to V, %j: tensor<[N]xsi32> in 0 to W)
        -> tensor<[N]x[D]xf32> symbols [V, W, D, N] {
      %y = tcp.generic(%table, %i, %j) {iterators = [["n", "parallel"], ["d", "parallel"]],
          maps = [[in1, in2, d], [n], [n], [n, d]]} ({ (%e: f32, %a: si64, %b: si32):
        tcp.yield(%e)
      }) : tensor<[N]x[D]xf32>
      tcp.return(%y)
    }
    """
    random = np.random.default_rng(5)
    table = random.standard_normal((5, 7, 9), dtype=np.float32)
    i, j = random.integers(0, 5, 23), random.integers(0, 7, 23, dtype=np.int32)
    np.testing.assert_array_equal(tcpx.compile(tcpx.parse(text))(table, i, j), table[i, j])
