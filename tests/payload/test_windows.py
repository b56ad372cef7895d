"""Convolutions and poolings as operations: values, what they are short for, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.payload.constants import Constants
from tcpx.payload.diagnostics import VerifyError
from tests.window_cases import drawn

NAMES = {
    "NCHW": "",
    "NHWC": 'input = ["b", "h+p", "w+q", "c"], filter = ["p", "q", "c", "f"], out = ["b", "h", "w", "f"], ',
}
NUMBERS = "strides = [2, 1], low = [1, 0], high = [1, 2]"


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
        np.testing.assert_array_equal(tcpx.evaluate(module, *given), case.expected(arguments), err_msg=case.text)


PADDED = {
    "argument": text(
        "tcp.convolution(%x, %w) {low = [1, 1], high = [1, 1]}", {"x": "1x2x4x5", "w": "3x2x3x3"}, "1x3x4x5"
    ),
    "in groups": text(
        "tcp.convolution(%x, %w) {groups = 2, low = [1, 1], high = [1, 1]}", {"x": "1x2x4x5", "w": "4x1x3x3"}, "1x4x4x5"
    ),
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
    source = text("tcp.convolution(%x, %w) {low = [1, 1], high = [1, 1]}", {"x": "1x2x4x5"}, "1x3x4x5")
    source = source.replace("  %y", '  %w = tcp.const {constant = "w"} : tensor<3x2x3x3xf32>\n  %y')
    schedule = tcpx.parse_schedule("language 2\nschedule s(root: func) { print(root) }\n")
    weights = np.ones((3, 2, 3, 3), np.float32)

    def made(held: np.ndarray) -> str:
        return tcpx.apply_schedule(tcpx.parse(source, constants=Constants({"w": held})), schedule).module.text()

    assert "%y/pad = tcp.pad(%x) {value = 0.0, low = [0, 0, 1, 1]} : tensor<1x2x6x7xf32>\n" in made(weights)
    assert '%y/convolution = tcp.convolution(%y/pad, %w) : tensor<1x3x4x5xf32> name "y"\n' in made(weights)
    weights[0] = np.inf
    assert "tcp.select" in made(weights)


X, W = {"x": "1x2x4x5"}, {"x": "1x2x4x5", "w": "3x2x3x3"}
REFUSED = {
    "result": (
        text("tcp.convolution(%x, %w)", W, "1x3x4x5"),
        "the operands give the result another shape than its type",
        "tensor<1x3x2x3xf32>",
        "write `: tensor<1x3x2x3xf32>`",
    ),
    "result of padding": (
        text("tcp.convolution(%x, %w) {low = [1, 1], high = [1, 1], strides = [2, 2]}", W, "1x3x4x5"),
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
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    source, message, required, fix = REFUSED[name]
    with pytest.raises(VerifyError) as caught:
        tcpx.parse(source)
    found = caught.value.diagnostic
    assert (found.message.partition(": ")[2], found.required, found.fix) == (message, required, fix)
