"""Convolutions and poolings as operations: values, what they are short for, and what is refused."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tcpx
from tcpx.payload.constants import Constants
from tcpx.payload.diagnostics import VerifyError
from tcpx.payload.ops.windows import Window
from tests.window_cases import NUMPY, drawn

LAYER = "tcp.convolution(%x, %w) {low = [1, 1], high = [1, 1]}"
X, W = {"x": "1x2x4x5"}, {"x": "1x2x4x5", "w": "3x2x3x3"}


def text(operation: str, shapes: dict[str, str], result: str, dtype: str = "f32") -> str:
    given = ", ".join(f"%{name}: tensor<{shape}x{dtype}>" for name, shape in shapes.items())
    return (
        f"func @f({given}) -> tensor<{result}x{dtype}> {{\n  %y = {operation} : tensor<{result}x{dtype}>\n"
        f"  tcp.return(%y)\n}}\n"
    )


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_values(first: int) -> None:
    """Of any rank, order of dims, stride, dilation, padding, groups and dtype; printed and parsed again."""
    for seed in range(first, first + 50):
        case = drawn(seed)
        arguments = case.arguments()
        stored = Constants({"w": arguments[1]} if case.is_stored else {})
        given = [arguments[0], *arguments[2:]] if case.is_stored else arguments
        module = tcpx.parse(case.text, constants=stored)
        assert tcpx.parse(module.text(), constants=stored).text() == module.text()
        found = tcpx.evaluate(module, *given)
        values, indices = found if isinstance(found, tuple) else (found, None)
        np.testing.assert_array_equal(values, case.expected(arguments), err_msg=case.text)
        if case.has_indices:
            np.testing.assert_array_equal(indices, case.indices(arguments), err_msg=case.text)


PADDED = {
    "argument": text(LAYER, W, "1x3x4x5"),
    "in groups": text(LAYER.replace("{", "{groups = 2, "), X | {"w": "4x1x3x3"}, "1x4x4x5"),
}


@pytest.mark.parametrize("name", PADDED)
def test_taps_in_the_padding_are_none(name: str) -> None:
    """Weights that are infinite, or NaN, there leave the sum as it is; elements of the input do not."""
    module = tcpx.parse(PADDED[name])
    shapes = [tuple(map(int, str(arg.type)[7:-5].split("x"))) for arg in module.main.args]
    x, w = (np.random.default_rng(k).integers(1, 4, shape).astype(np.float32) for k, shape in enumerate(shapes))
    w[0, :, 0, :] = np.inf
    w[1, :, :, 2] = np.nan
    for made in (tcpx.evaluate(module, x, w), tcpx.compile(module, target="x86_avx2")(x, w)):
        y = np.asarray(made)
        assert np.isfinite(y[0, 0, 0]).all()
        assert np.isinf(y[0, 0, 1:]).all()
        assert np.isfinite(y[0, 1, :, -1]).all()
        assert np.isnan(y[0, 1, :, :-1]).all()
        assert np.isfinite(y[0, 2]).all()


def test_padding_is_a_pad_where_weights_are_finite() -> None:
    source = text(LAYER, X, "1x3x4x5").replace("  %y", '  %w = tcp.const {constant = "w"} : tensor<3x2x3x3xf32>\n  %y')
    schedule = tcpx.parse_schedule("language 2\nschedule s(root: func) { print(root) }\n")
    weights = np.ones((3, 2, 3, 3), np.float32)

    def made(held: np.ndarray) -> str:
        return tcpx.apply_schedule(tcpx.parse(source, constants=Constants({"w": held})), schedule).module.text()

    assert "%y/pad = tcp.pad(%x) {value = 0.0, low = [0, 0, 1, 1]} : tensor<1x2x6x7xf32>\n" in made(weights)
    assert '%y/convolution = tcp.convolution(%y/pad, %w) : tensor<1x3x4x5xf32> name "y"\n' in made(weights)
    weights[0] = np.inf
    assert "tcp.select" in made(weights)


INDEXED = """\
func @f(%x: tensor<[N]x[H]x[V]x5xDTYPE>) -> (tensor<OUTxDTYPE>, tensor<OUTxINDEX>) symbols [N: 0.., H: 0.., V: 1..] {
  %y, %i = tcp.pooling_argmax(%x) {dims = [1, 2], window = [2, 3], strides = [2, 1], low = [1, 2], high = [0, 1]} :
      tensor<OUTxDTYPE>, tensor<OUTxINDEX>
  tcp.return(%y, %i)
}
""".replace("OUT", "[N]x[floordiv(H + 1, 2)]x[V + 1]x5")


@pytest.mark.parametrize("dtype", ["f32", "f16", "si8", "si64"])
def test_first_indices(dtype: str) -> None:
    """Of NaN, infinities and the least numbers, which padding equals; of sizes that are 0, 1 and odd."""
    index = "si32" if dtype == "f16" else "si64"
    module = tcpx.parse(INDEXED.replace("DTYPE", dtype).replace("INDEX", index))
    kernel, type_ = tcpx.compile(module, target="x86_avx2"), NUMPY[dtype]
    is_float = np.issubdtype(type_, np.floating)
    numbers = [-np.inf, -1, 0, 0, 2, np.nan] if is_float else [np.iinfo(type_).min, 0, 1, 3]
    for shape in ((2, 5, 7, 5), (1, 1, 1, 5), (3, 0, 4, 5), (0, 3, 2, 5), (1, 4, 33, 5)):
        x = np.random.default_rng(shape[2]).choice(np.array(numbers, type_), shape)
        for part in (x, np.full_like(x, numbers[0])):
            values, wanted = first_indices(part, np.dtype(np.int32 if index == "si32" else np.int64))
            for found in (tcpx.evaluate(module, part), kernel(part)):
                assert isinstance(found, tuple)
                np.testing.assert_array_equal(found[0], values)
                np.testing.assert_array_equal(found[1], wanted)


def first_indices(x: np.ndarray, index: np.dtype[np.generic]) -> tuple[np.ndarray, np.ndarray]:
    """What `INDEXED` computes, element by element."""
    n, h, v, c = x.shape
    values, first = (np.zeros((n, (h + 1) // 2, v + 1, c), t) for t in (x.dtype, index))
    for at in np.ndindex(*values.shape):
        rows, columns = range(max(0, 2 * at[1] - 1), min(h, 2 * at[1] + 1)), range(max(0, at[2] - 2), min(v, at[2] + 1))
        places = [(r, q) for r in rows for q in columns]
        elements = [x[at[0], r, q, at[3]] for r, q in places]
        is_nan = [bool(e != e) for e in elements]
        k = is_nan.index(True) if any(is_nan) else int(np.argmax(elements))
        values[at], first[at] = elements[k], places[k][0] * v + places[k][1]
    return values, first


MULTIPLIED = """\
func @f(%x: tensor<1x14x14x16xf32>GIVEN) -> tensor<1x14x14x32xf32> {
STORED  %p = tcp.pad(%x) {value = 0.0, low = [0, 1, 1, 0]} : tensor<1x16x16x16xf32>
  %y = tcp.convolution(%p, %w) {input = ["n", "h+p", "v+q", "c"], filter = ["p", "q", "c", "f"],
      out = ["n", "h", "v", "f"]} : tensor<1x14x14x32xf32>
  tcp.return(%y)
}
"""
FILTER = "tensor<3x3x16x32xf32>"


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_pad_before_a_convolution_is_multiplied(is_stored: bool) -> None:
    """An infinite weight times a zero of the padding is NaN; taps are dropped where all weights are finite alone."""
    stored = f'  %w = tcp.const {{constant = "w"}} : {FILTER}\n' if is_stored else ""
    source = MULTIPLIED.replace("GIVEN", "" if is_stored else f", %w: {FILTER}").replace("STORED", stored)
    x, w = np.ones((1, 14, 14, 16), np.float32), np.ones((3, 3, 16, 32), np.float32)
    w[0, :, 3, 5] = np.inf
    module = tcpx.parse(source, constants=Constants({"w": w} if is_stored else {}))
    given = [x] if is_stored else [x, w]
    for made in (tcpx.evaluate(module, *given), tcpx.compile(module, target="x86_avx2")(*given)):
        y = np.asarray(made, np.float32)[0]
        assert np.isnan(y[0, :, 5]).all()
        assert np.isnan(y[:, (0, -1), 5]).all()
        assert np.isposinf(y[1:, 1:-1, 5]).all()
        assert np.isfinite(np.delete(y, 5, axis=2)).all()


def test_groups_are_no_copies() -> None:
    """With channels innermost, a dim for the groups is another view of the operands and of the result."""
    source = """\
func @f(%x: tensor<1x16x16x32xf32>, %w: tensor<3x3x8x64xf32>) -> tensor<1x14x14x64xf32> {
  %y = tcp.convolution(%x, %w) {input = ["n", "h+p", "v+q", "c"], filter = ["p", "q", "c", "f"],
      out = ["n", "h", "v", "f"], groups = 4} : tensor<1x14x14x64xf32>
  tcp.return(%y)
}
"""
    for target in ("x86_avx2", "x86_avx512"):
        assert "return (size_t)(0);" in tcpx.emit(tcpx.parse(source), target=target).c_source


REFUSED = {
    "result": (
        text("tcp.convolution(%x, %w)", W, "1x3x4x5"),
        "the operands give the result another shape than its type",
        "tensor<1x3x2x3xf32>",
        "write `: tensor<1x3x2x3xf32>`",
    ),
    "result of padding": (
        text(LAYER.replace("}", ", strides = [2, 2]}"), W, "1x3x4x5"),
        "the operands give the result another shape than its type",
        "tensor<1x3x2x3xf32>",
        "write `: tensor<1x3x2x3xf32>`",
    ),
    "strides": (
        text("tcp.convolution(%x, %w) {strides = [2]}", W, "1x3x2x3"),
        "`strides` has a number for each dim that is read by windows",
        "2 numbers, 1 or more",
        "{strides = [1, 1]}",
    ),
    "low": (
        text("tcp.convolution(%x, %w) {low = [1, -1]}", W, "1x3x2x3"),
        "`low` has a number for each dim that is read by windows",
        "2 numbers, 0 or more",
        None,
    ),
    "channels": (
        text("tcp.convolution(%x, %w)", {"x": "1x4x4x5", "w": "3x2x3x3"}, "1x3x2x3"),
        "dim 1 of `filter` does not agree with `c`",
        "4, the extent of `c`",
        None,
    ),
    "groups": (
        text("tcp.convolution(%x, %w) {groups = 2}", W, "1x3x2x3"),
        "each group has as many channels of the input, and as many of the result",
        "4 of `c` in %x, and of `f` a multiple of 2",
        None,
    ),
    "groups of dims": (
        text(
            'tcp.convolution(%x, %w) {input = ["c", "d", "h+p"], filter = ["c", "d", "p"], out = ["h"], groups = 2}',
            {"x": "2x2x4", "w": "2x2x3"},
            "2",
        ),
        "groups divide one dim that input and filter have alone, and one that filter and result have alone",
        "1 or more groups, and one dim of each kind",
        None,
    ),
    "names": (
        text('tcp.convolution(%x, %w) {input = ["b", "c", "h+p", "w+q"]}', W, "1x3x2x3"),
        "`filter` names the dims of an operand, or of the result",
        'names of dims, such as "c"',
        None,
    ),
    "no windows": (
        text('tcp.convolution(%x, %w) {input = ["b", "c"], filter = ["c", "f"], out = ["b", "f"]}', W, "1x3x2x3"),
        "`input` is read by windows, each along a dim of the result, with taps of the filter",
        '`input` with "h+p", where `h` is in `out`, and `p` in `filter` alone; each name once',
        "write it as a tcp.contract",
    ),
    "window": (
        text("tcp.pooling(%x) {window = [2, 2], dims = [2]}", X, "1x2x3x4"),
        "`window` has the taps along each of `dims`, dims of the operand",
        "numbers of taps, and as many different dims, 0 or more, and below 4",
        None,
    ),
    "result of a pooling": (
        text("tcp.pooling(%x) {window = [2, 2], strides = [2, 2]}", X, "1x2x3x4"),
        "the operands give the result another shape than its type",
        "tensor<1x2x2x2xf32>",
        "write `: tensor<1x2x2x2xf32>`",
    ),
    "average of integers": (
        text('tcp.pooling(%x) {window = [2, 2], kind = "average"}', X, "1x2x3x4", "si32"),
        '`kind = "average"` gives floats, and takes no `init`',
        "a result of floats, and one operand",
        None,
    ),
    "init of an average": (
        text('tcp.pooling(%x, init = %z) {window = [2, 2], kind = "average"}', X | {"z": "1x2x3x4"}, "1x2x3x4"),
        '`kind = "average"` gives floats, and takes no `init`',
        "a result of floats, and one operand",
        None,
    ),
    "indices that are no integers": (
        INDEXED.replace("DTYPE", "f32").replace("INDEX", "f32"),
        "the results are elements of the operand and their indices, of one shape",
        "f32, and integers",
        None,
    ),
    "power": (
        text('tcp.pooling(%x) {window = [2, 2], kind = "lp", power = 0}', X, "1x2x3x4"),
        "`power` is that of a norm",
        "1 or more",
        None,
    ),
}


def test_an_average_of_nothing_is_nan() -> None:
    source = text('tcp.pooling(%x) {window = [2, 2], kind = "average", low = [3, 0]}', X, "1x2x6x4")
    x = np.ones((1, 2, 4, 5), np.float32)
    for made in (tcpx.evaluate(tcpx.parse(source), x), tcpx.compile(tcpx.parse(source), target="x86_avx2")(x)):
        y = np.asarray(made, np.float32)
        assert np.isnan(y[:, :, :2]).all()
        np.testing.assert_array_equal(y[:, :, 2:], 1)


@pytest.mark.parametrize("kind", ["average", "max", "lp"])
def test_taps_that_no_window_has_are_left_out(kind: str) -> None:
    """Exporters write a mean over places as an average over windows that are larger than any image."""
    text = (
        "func @f(%x: tensor<2x7x5xf32>) -> tensor<2x1x2xf32> {\n"
        f'  %y = tcp.pooling(%x) {{kind = "{kind}", window = [64, 4], strides = [1, 3], low = [0, 1], '
        "high = [57, 1]} : tensor<2x1x2xf32>\n  tcp.return(%y)\n}\n"
    )
    module, x = tcpx.parse(text), np.random.default_rng(3).standard_normal((2, 7, 5)).astype(np.float32)
    long = tcpx.apply_schedule(module, tcpx.parse_schedule("language 2\nschedule s(root: func) {}\n")).module.text()
    assert "window = [7, 4]" in long
    assert "[64" not in long
    found, wanted = (
        np.asarray(y, np.float64) for y in (tcpx.compile(module, target="x86_avx2")(x), tcpx.evaluate(module, x))
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_clipped_windows_have_the_same_taps() -> None:
    draw, clipped = random.Random(0), 0
    for _ in range(4000):
        stride, dilation, taps, extent = (draw.randint(1, n) for n in (4, 3, 9, 6))
        window = Window(0, "o", "t", stride, dilation, draw.randint(0, 9), draw.randint(0, 9))
        count = window.count(extent, taps)
        found = window.clipped(extent, taps, count)
        if isinstance(count, int) and count > 0 and found is not None:
            assert _elements(found[0], found[1], count, extent) == _elements(window, taps, count, extent)
            assert found[0].count(extent, found[1]) == count
            clipped += 1
    assert clipped > 500


def _elements(window: Window, taps: int, count: int, extent: int) -> list[list[int]]:
    """Those of each window."""
    assert isinstance(window.low, int)
    places = [[window.stride * o + window.dilation * t - window.low for t in range(taps)] for o in range(count)]
    return [[place for place in row if 0 <= place < extent] for row in places]


def test_lp_of_a_power() -> None:
    source = text('tcp.pooling(%x) {window = [4, 5], kind = "lp", power = 3}', X, "1x2x1x1")
    x = np.random.default_rng(0).standard_normal((1, 2, 4, 5)).astype(np.float32)
    wanted = np.cbrt((np.abs(x) ** 3).sum((2, 3), keepdims=True))
    for made in (tcpx.evaluate(tcpx.parse(source), x), tcpx.compile(tcpx.parse(source), target="x86_avx2")(x)):
        np.testing.assert_allclose(np.asarray(made, np.float32), wanted, rtol=1e-6)


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    source, message, required, fix = REFUSED[name]
    with pytest.raises(VerifyError) as caught:
        tcpx.parse(source)
    found = caught.value.diagnostic
    assert (found.message.partition(": ")[2], found.required, found.fix) == (message, required, fix)


@pytest.mark.parametrize("name", ["e", "at", "most", "acc"])
def test_an_argument_has_the_name_of_an_element_of_a_body(name: str) -> None:
    """What an operation is short for takes names that are free."""
    module = tcpx.parse(
        f"func @f(%{name}: tensor<2x9x9xf32>) -> (tensor<2x4x4xf32>, tensor<2x4x4xsi64>) {{\n"
        f"  %v, %i = tcp.pooling_argmax(%{name}) {{window = [3, 3], strides = [2, 2]}} "
        ": tensor<2x4x4xf32>, tensor<2x4x4xsi64>\n  tcp.return(%v, %i)\n}\n"
    )
    x = np.random.default_rng(0).random((2, 9, 9), np.float32)
    for found, wanted in zip(tcpx.compile(module, target="x86_avx2")(x), tcpx.evaluate(module, x), strict=True):
        np.testing.assert_array_equal(found, wanted)
