"""Python and NumPy numbers as arguments without dims: what a dtype represents is taken, the rest is refused."""

from __future__ import annotations

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
