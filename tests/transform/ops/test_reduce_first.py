"""reduce_first: some dims of a reduction before the others."""

from __future__ import annotations

import pytest

from tests.transform.payloads import Sizes, check, refusal, run

Y = 'let y = match one "y" in root\n'
WINDOWS = """\
func @f(%x: tensor<[C]x[2*H + 7]x[W + 6]x{dtype}>, %of: tensor<[H]x[W]xf32>) -> tensor<[C]x[H]x[W]x{dtype}>
    symbols [C, H: 1.., W: 1..] {
  %y = tcp.pooling(%x) {window = [5, 3], strides = [2, 1], dilations = [2, 3], kind = "{kind}"}
      : tensor<[C]x[H]x[W]x{dtype}>
  tcp.return(%y)
}
"""
SQUARES = """\
func @f(%x: tensor<[M]x[N]x[K]xf32>, %c: tensor<[M]xf32>) -> tensor<[M]xf32> symbols [M: 0.., N: 0.., K: 0..] {
  %y = tcp.generic(%x, init = %c) {iterators = [["m", "parallel"], ["n", "reduction"], ["k", "reduction"]],
                                   maps = [[m, n, k], [m]], combiner = "tcp.add"} ({ (%a: f32, %acc: f32):
      %q = tcp.mul(%a, %a) : f32
      %s = tcp.add(%acc, %q) : f32
      tcp.yield(%s) }) : tensor<[M]xf32>
  tcp.return(%y)
}
"""
SHARED = """\
func @f(%x: tensor<20x9xf32>) -> tensor<8xf32> {
  %y = tcp.generic(%x) {iterators = [["i", "parallel"], ["a", "reduction", 3], ["b", "reduction", 4],
                                     ["k", "reduction"]], maps = [[2*i + a + b, k], [i]], combiner = "tcp.max"} ({
      (%e: f32, %acc: f32):
      %s = tcp.max(%acc, %e) : f32
      tcp.yield(%s) }) : tensor<8xf32>
  tcp.return(%y)
}
"""
LAST = """\
func @f(%x: tensor<7x5x3xf32>) -> tensor<7xf32> {
  %y = tcp.generic(%x) {iterators = [["m", "parallel"], ["n", "reduction"], ["k", "reduction"]],
                        maps = [[m, n, k], [m]], neutral = [0.0]} ({ (%a: f32): tcp.yield(%a) },
      { (%p: f32, %q: f32): tcp.yield(%q) }) : tensor<7xf32>
  tcp.return(%y)
}
"""
SIZES: tuple[Sizes, ...] = tuple({"C": c, "H": h, "W": w} for c, h, w in ((1, 1, 1), (2, 3, 17), (0, 2, 1), (3, 1, 33)))
IN_VECTORS = """\
tile(y, [d0: 1, d1: 2])
fuse(c, into: parent(y))
let _, a = tile(c, [d1: 1, d2: 16], tail: pad)
vectorize(a)
let _, b = tile(y, [d1: 1, d2: 16], tail: pad)
vectorize(b)
"""


@pytest.mark.parametrize("dim", ["k0", "k1"])
@pytest.mark.parametrize(("kind", "dtype"), [("max", "f32"), ("min", "f64"), ("sum", "f32"), ("sum", "si8")])
def test_windows_one_dim_before_the_other(kind: str, dtype: str, dim: str) -> None:
    done = check(WINDOWS.replace("{kind}", kind).replace("{dtype}", dtype), f"{Y}reduce_first(y, [{dim}])", SIZES)
    assert [op.opcode for op in done.module.walk()].count("tcp.pooling") == 2


def test_in_vectors() -> None:
    text = WINDOWS.replace("{kind}", "max").replace("{dtype}", "f32")
    check(text, f"{Y}let c = reduce_first(y, [k0])\n{IN_VECTORS}", SIZES)


@pytest.mark.parametrize("dims", ["n", "k"])
def test_elements_are_prepared_once_and_the_first_value_is_combined_once(dims: str) -> None:
    done = check(
        SQUARES,
        f"{Y}reduce_first(y, [{dims}])",
        [{"M": m, "N": n, "K": k} for m, n, k in ((3, 5, 7), (1, 0, 2), (2, 3, 0), (0, 1, 1), (1, 1, 1))],
    )
    assert [op.opcode for op in done.module.walk()].count("tcp.reduce_sum") == 1


@pytest.mark.parametrize("dims", ["k", "a, b"])
def test_dims_of_one_index_stay_together(dims: str) -> None:
    check(SHARED, f"{Y}reduce_first(y, [{dims}])", ({},))


def test_the_handle_denotes_what_gives_the_result() -> None:
    text = WINDOWS.replace("{kind}", "max").replace("{dtype}", "f32")
    done = run(text, f"{Y}let c = reduce_first(y, [k0])\ngeneralize(y)")
    made = [(op.name, op.opcode) for op in done.module.main.body.ops[:2]]
    assert made == [("y.first", "tcp.pooling"), ("y", "tcp.generic")]


def test_the_order_is_kept() -> None:
    check(LAST, f"{Y}reduce_first(y, [k])", ({},))
    error = refusal(LAST, f"{Y}reduce_first(y, [n])")
    assert error.message == "dims that are reduced first change the order in which %y reduces"
    assert (error.required, error.found, error.fix) == (
        "the innermost dims, or a combiner that is declared `commutative`",
        "n of n, k",
        "`reduce_first(y, [k])`",
    )


@pytest.mark.parametrize(
    ("dims", "message", "required", "found"),
    [
        ("[a]", "an index of %y depends on dims that are reduced first and on others",
         "all reduction dims of an index, or none of them", "`a + b + 2*i`, and first a"),
        ("[a, b, k]", "each dim of %y would be reduced first", "some of a, b, k, not all", "a, b, k"),
        ("[i]", "`i` is not a reduction dim of %y", "one of a, b, k",
         "i is parallel, a is reduction, b is reduction, k is reduction"),
    ],
)  # fmt: skip
def test_dims_that_are_refused(dims: str, message: str, required: str, found: str) -> None:
    error = refusal(SHARED, f"{Y}reduce_first(y, {dims})")
    assert (error.message, error.required, error.found) == (message, required, found)


def test_products_are_refused() -> None:
    text = """func @f(%x: tensor<7x5x3xf32>, %w: tensor<5x3xf32>) -> tensor<7xf32> {
  %y = tcp.contract(%x, %w) {lhs = ["m", "j", "k"], rhs = ["j", "k"], out = ["m"]} : tensor<7xf32>
  tcp.return(%y)
}
"""
    error = refusal(text, f"{Y}reduce_first(y, [k])")
    assert error.message == "dims of %y cannot be reduced one before the other"
    assert error.found == "2 operands"
