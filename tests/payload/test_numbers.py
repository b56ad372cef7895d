"""Python and NumPy numbers as arguments without dims: what a dtype represents is taken, the rest is refused."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tcpx
from tcpx.payload.numbers import number_as
from tcpx.payload.types import SCALARS

TAKEN = [
    ("f64", 1.5, 1.5),
    ("f64", 2, 2.0),
    ("f64", np.float32(1.5), 1.5),
    ("f64", np.array(2), 2.0),
    ("f64", ml_dtypes.bfloat16(1.5), 1.5),
    ("f64", float("inf"), float("inf")),
    ("f32", 0.1, np.float32(0.1)),
    ("f32", np.float64(0.5), 0.5),
    ("f32", -(2**24), -(2.0**24)),
    ("f16", 0.1, np.float16(0.1)),
    ("si8", -128, -128),
    ("si8", 2.0, 2),
    ("ui64", 2**64 - 1, 2**64 - 1),
    ("si64", np.int8(3), 3),
    ("i1", True, True),
    ("i1", np.False_, False),
]
REFUSED = [
    ("f64", 10**400, "a number of 1329 bits"),
    ("f64", 2**53 + 1, "9007199254740993"),
    ("f64", True, "True"),
    ("f32", 1e300, "1e+300"),
    ("f32", 2**24 + 1, "16777217"),
    ("f32", np.float64(0.1), "0.1 (float64)"),
    ("f16", 65536, "65536"),
    ("si8", 128, "128"),
    ("si8", np.int64(300), "300 (int64)"),
    ("si8", 1.5, "1.5"),
    ("si32", float("nan"), "nan"),
    ("ui8", -1, "-1"),
    ("i1", 1, "1"),
]


def one(dtype: str) -> tcpx.Module:
    text = f"func @f(%a: tensor<{dtype}>) -> tensor<3x{dtype}> {{\n"
    return tcpx.parse(f"{text}  %y = tcp.broadcast(%a) {{dims = []}} : tensor<3x{dtype}>\n  tcp.return(%y)\n}}\n")


@pytest.mark.parametrize(("dtype", "given", "wanted"), TAKEN)
def test_what_the_dtype_represents_is_taken(dtype: str, given: object, wanted: object) -> None:
    found = number_as(given, SCALARS[dtype])
    assert found is not None
    assert (found.shape, found.dtype) == ((), SCALARS[dtype].numpy)
    assert found == wanted


@pytest.mark.parametrize(("dtype", "given", "shown"), REFUSED)
def test_what_it_does_not_represent_is_refused(dtype: str, given: object, shown: str) -> None:
    module = one(dtype)
    with pytest.raises(tcpx.ArgumentError) as caught:
        tcpx.evaluate(module, given)  # pyright: ignore[reportArgumentType]
    found = caught.value.diagnostic
    assert (found.required, found.found) == (f"a number that {dtype} represents", shown)


def test_kernels_take_what_the_evaluator_takes() -> None:
    module = one("f32")
    kernel = tcpx.compile(module, target="generic")
    for given in (1.5, 2, 0.1, np.int64(-3), np.float64(0.25), np.array(7), np.float16(0.5)):
        assert np.array_equal(kernel(given), tcpx.evaluate(module, given))  # pyright: ignore[reportArgumentType]
    for given in (2**24 + 1, 1e300, np.float64(0.1), True):
        with pytest.raises(tcpx.ArgumentError, match="a number that f32 represents"):
            kernel(given)


STATE = """\
func @f(%a: {dtype}, %s: inout tensor<{dtype}>) -> (tensor<{dtype}>, %s: tensor<{dtype}>) {{
  %t = tcp.reshape(%a) : tensor<{dtype}>
  %y = tcp.{operation}(%t, %s) : tensor<{dtype}>
  tcp.return(%t, %y)
}}
"""


@pytest.fixture(scope="module")
def sums() -> tcpx.Kernel:
    return tcpx.compile(tcpx.parse(STATE.format(dtype="f32", operation="add")), target="generic")


def test_bound_calls_take_numbers(sums: tcpx.Kernel) -> None:
    for given in (1.5, 2, np.int64(-3), np.float64(0.25), np.float16(0.5), np.float32(7)):
        state = np.array(1, np.float32)
        bound = sums.bind(given, state)
        bound()
        assert bound()[0] == given
        assert state == 1 + 2 * float(given)
    for given in (2**24 + 1, 1e300, np.float64(0.1), True):
        with pytest.raises(tcpx.ArgumentError, match="a number that f32 represents"):
            sums.bind(given, np.array(1, np.float32))


def test_a_bound_call_follows_an_array_without_dims(sums: tcpx.Kernel) -> None:
    number, state = np.array(2, np.float32), np.array(0, np.float32)
    bound = sums.bind(number, state)
    bound()
    number[...] = 5
    bound()
    assert state == 7
    with pytest.raises(tcpx.ArgumentError, match="dtype float64"):
        sums.bind(np.array(2.0), state)  # a number that changes, which a copy would not follow


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i1", "si64"])
def test_state_and_out_are_arrays(dtype: str) -> None:
    operation = "or" if dtype == "i1" else "add"
    kernel = tcpx.compile(tcpx.parse(STATE.format(dtype=dtype, operation=operation)), target="generic")
    numpy = SCALARS[dtype].numpy
    number: Any = dtype == "i1" or 1
    for call, given, name in (
        (lambda s: kernel(number, s), number, "s"),
        (lambda s: kernel.bind(number, s), numpy.type(number), "s"),
        (lambda s: kernel(number, np.array(number, numpy), out=s), number, "out"),
        (lambda s: kernel.bind(number, np.array(number, numpy), out=s), numpy.type(number), "out"),
    ):
        with pytest.raises(tcpx.ArgumentError, match="an array without dims") as caught:
            call(given)
        fix = str(caught.value.diagnostic.fix).partition(", and pass")[0].replace("..", "number")
        names: dict[str, Any] = {"np": np, "ml_dtypes": ml_dtypes, "number": number}
        exec(fix, names)  # noqa: S102 - as the message says
        call(names[name])
        if dtype != "bf16":  # which the buffer protocol does not know
            call(memoryview(names[name]))


def test_a_number_for_an_array_with_dims() -> None:
    text = "func @f(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {\n  %y = tcp.neg(%x) : tensor<[N]xf32>\n"
    kernel = tcpx.compile(tcpx.parse(f"{text}  tcp.return(%y)\n}}\n"), target="generic")
    with pytest.raises(tcpx.ArgumentError, match="required: a NumPy array") as caught:
        kernel(1.5)
    found = caught.value.diagnostic
    assert (found.found, found.fix) == ("1.5", "np.full(shape, .., np.float32)")
