"""Constants whose elements are lists in the text: read, printed as they were, refused where they do not fit."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.limits import MOST_WRITTEN_ELEMENTS


def payload(type_: str, value: str) -> str:
    return (
        f"func @f(%x: {type_}) -> {type_} {{\n  %w = tcp.const {{value = {value}}} : {type_}\n"
        f"  %y = tcp.max(%x, %w) : {type_}\n  tcp.return(%y)\n}}\n"
    )


@pytest.mark.parametrize(
    ("type_", "value", "wanted"),
    [
        ("tensor<2x2xf32>", "[[1.0, 2.0], [3.0, 4.5]]", np.array([[1, 2], [3, 4.5]], np.float32)),
        ("tensor<3xf64>", "[0.1, -1e-06, inf]", np.array([0.1, -1e-6, np.inf])),
        ("tensor<2x1x2xsi8>", "[[[-128, 127]], [[0, 1]]]", np.array([[[-128, 127]], [[0, 1]]], np.int8)),
        ("tensor<2xui64>", "[18446744073709551615, 0]", np.array([2**64 - 1, 0], np.uint64)),
        ("tensor<2xi1>", "[true, false]", np.array([True, False])),
        ("tensor<2xf16>", "[0.1, 2.0]", np.array([0.1, 2], np.float16)),
        ("tensor<0xf32>", "[]", np.zeros(0, np.float32)),
        ("tensor<2x0xf32>", "[[], []]", np.zeros((2, 0), np.float32)),
    ],
)
def test_what_is_written_is_read_and_printed(type_: str, value: str, wanted: np.ndarray) -> None:
    text = payload(type_, value)
    module = tcpx.parse(text)
    assert module.text() == text
    assert tcpx.parse(module.text(), constants=module.constants).text() == text
    lowest = np.full(wanted.shape, False if wanted.dtype == bool else -np.inf if wanted.dtype.kind == "f" else 0)
    lowest = lowest.astype(wanted.dtype) if wanted.dtype.kind != "i" else np.full(wanted.shape, -128, wanted.dtype)
    assert np.array_equal(tcpx.evaluate(module, lowest), wanted)


def test_kernels_have_them_after_a_schedule_too() -> None:
    module = tcpx.parse(payload("tensor<3x2xf32>", "[[1.0, 2.0], [3.0, 4.0], [5.0, 0.25]]"))
    x = np.array([[0, 9], [3.5, 1], [-1, -2]], np.float32)
    assert np.array_equal(tcpx.compile(module, target="generic")(x), tcpx.evaluate(module, x))
    program = tcpx.parse_schedule(
        "language 1\nschedule s(root: func) { let y = match one max in root; tile(y, [d0: 2]) }"
    )
    done = tcpx.apply_schedule(module, program).module
    assert "value = [[1.0, 2.0], [3.0, 4.0], [5.0, 0.25]]" in done.text()
    assert np.array_equal(tcpx.evaluate(tcpx.parse(done.text()), x), tcpx.evaluate(module, x))


@pytest.mark.parametrize(
    ("type_", "value", "message", "required", "found"),
    [
        ("tensor<2x2xf32>", "[[1.0, 2.0], [3.0]]", "element [1] does not have the shape of the type",
         "a list of 2: tensor<2x2xf32>", "a list of 1"),
        ("tensor<2xf32>", "[[1.0], [2.0]]", "element [0] is a list", "a number: tensor<2xf32>", "a list of 1"),
        ("tensor<2xf32>", "[1.0, 2.0, 3.0]", "the value does not have the shape of the type",
         "a list of 2: tensor<2xf32>", "a list of 3"),
        ("tensor<2xsi8>", "[1, 300]", "the value of a constant is one of its type si8",
         "an integer from -128 to 127", "300"),
        ("tensor<2xsi8>", "[1, 1.5]", "the value of a constant is one of its type si8",
         "an integer from -128 to 127", "1.5"),
        (f"tensor<{MOST_WRITTEN_ELEMENTS + 1}xi1>", f"[{', '.join(['true'] * (MOST_WRITTEN_ELEMENTS + 1))}]",
         "the constant has too many elements to be written in the text", "at most 4096 elements", "4097"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(type_: str, value: str, message: str, required: str, found: str) -> None:
    with pytest.raises(tcpx.VerifyError) as caught:
        tcpx.parse(payload(type_, value))
    diagnostic = caught.value.diagnostic
    assert (diagnostic.message, diagnostic.required, diagnostic.found) == (
        f"%w (tcp.const): {message}",
        required,
        found,
    )
    assert diagnostic.payload is not None
    assert diagnostic.payload.line == 2
