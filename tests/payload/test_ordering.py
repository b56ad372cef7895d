"""sort, argsort and topk: by the reference evaluator and by what they are made of, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.payload.diagnostics import TcpxError
from tcpx.payload.types import SCALARS
from tests.transform.payloads import run

Array = npt.NDArray[Any]
DTYPES = [name for name in SCALARS if name != "index"]

ALL = """
func @f(%x: tensor<[A]x[N]x[B]xDTYPE>) -> (%up: tensor<[A]x[N]x[B]xDTYPE>, %down: tensor<[A]x[N]x[B]xDTYPE>,
    %places: tensor<[A]x[N]x[B]xsi64>, %most: tensor<[A]xKx[B]xDTYPE>, %at: tensor<[A]xKx[B]xsi32>)
    symbols [A, N: K..1000, B] {
  %up = tcp.sort(%x) {dim = 1} : tensor<[A]x[N]x[B]xDTYPE>
  %down = tcp.sort(%x) {dim = 1, descending = true, nan_last = true} : tensor<[A]x[N]x[B]xDTYPE>
  %places = tcp.argsort(%x) {dim = 1, descending = true} : tensor<[A]x[N]x[B]xsi64>
  %most, %at = tcp.topk(%x) {dim = 1, smallest = true} : tensor<[A]xKx[B]xDTYPE>, tensor<[A]xKx[B]xsi32>
  tcp.return(%up, %down, %places, %most, %at)
}
"""


def drawn(dtype: str, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Elements of which many are equal; of floats also NaN of both signs, infinities and both zeros."""
    rng, kind = np.random.default_rng(seed), SCALARS[dtype].numpy
    if dtype == "i1":
        return rng.integers(0, 2, shape).astype(bool)
    if not SCALARS[dtype].is_float:
        wide = rng.integers(0, 256, (*shape, kind.itemsize), np.uint8).view(kind)[..., 0]
        return np.where(rng.random(shape) < 0.5, wide, rng.integers(0, 3, shape).astype(kind))
    special = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0]).astype(kind)
    return np.where(rng.random(shape) < 0.4, rng.choice(special, shape), rng.standard_normal(shape).astype(kind))


def order(x: Array, axis: int, descending: bool = False, nan_last: bool = False) -> Array:
    """The indices of elements in their order, by a sort of Python's tuples."""

    def along(row: Array) -> Array:
        def key(k: int) -> tuple[bool, Any]:
            element = row[k].item()
            is_nan = element != element
            rank = is_nan if nan_last or not descending else not is_nan
            return rank, 0 if is_nan else -element if descending else element

        return np.array(sorted(range(len(row)), key=key), np.int64)

    return np.apply_along_axis(along, axis, x) if x.size else np.zeros(x.shape, np.int64)


def same(a: Array, b: Array) -> bool:
    """Whether arrays are equal bit for bit."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_come_in_order(dtype: str) -> None:
    """By the reference, and by what the operations are made of: counts in rows of 7, digits in rows of 140."""
    text = ALL.replace("DTYPE", dtype).replace("K", "5")
    module = tcpx.parse(text)
    parts = run(text, "".join(f'decompose(match one "{name}" in root)\n' for name in ("up", "down", "places", "most")))
    for shape in ((2, 7, 3), (1, 140, 1), (0, 5, 2)):
        x = drawn(dtype, shape)
        wanted = [
            np.take_along_axis(x, order(x, 1), 1),
            np.take_along_axis(x, order(x, 1, True, True), 1),
            order(x, 1, True),
            np.take_along_axis(x, order(x, 1), 1)[:, :5],
            order(x, 1)[:, :5].astype(np.int32),
        ]
        for found in (tcpx.evaluate(module, x), tcpx.evaluate(parts.module, x)):
            assert all(same(a, b) for a, b in zip(found, wanted, strict=True)), shape


def test_the_largest_elements_with_nan_first_or_last() -> None:
    text = """
func @f(%x: tensor<6xf32>) -> (%v: tensor<3xf32>, %i: tensor<3xsi64>, %w: tensor<3xf32>, %j: tensor<3xsi64>) {
  %v, %i = tcp.topk(%x) {dim = 0} : tensor<3xf32>, tensor<3xsi64>
  %w, %j = tcp.topk(%x) {dim = 0, nan_last = true} : tensor<3xf32>, tensor<3xsi64>
  tcp.return(%v, %i, %w, %j)
}
"""
    x = np.array([1, np.nan, 2, np.inf, 2, np.nan], np.float32)
    v, i, w, j = tcpx.evaluate(tcpx.parse(text), x)
    assert i.tolist() == [1, 5, 3]
    assert np.isnan(v[:2]).all()
    assert v[2] == np.inf
    assert w.tolist() == [np.inf, 2, 2]
    assert j.tolist() == [3, 2, 4]


ONE = """
func @f(%x: tensor<[M]x8xf32>) -> TYPE
    symbols [M, K, N] {
  %v = OP : TYPE
  tcp.return(%v)
}
"""
TOP = """
func @f(%x: tensor<[M]x[N]xf32>, %n: tensor<[K]xf32>) -> (tensor<[M]xTAKENxf32>, tensor<[M]xTAKENxDTYPE>)
    symbols [M, K, N] {
  FACT
  %v, %i = tcp.topk(%x) {dim = 1} : tensor<[M]xTAKENxf32>, tensor<[M]xTAKENxDTYPE>
  tcp.return(%v, %i)
}
"""


def message(text: str) -> tuple[str | None, ...]:
    with pytest.raises(TcpxError) as caught:
        tcpx.parse(text)
    found = caught.value.diagnostic
    return found.message, found.required, found.found, found.fix


REFUSED = [
    (
        "tcp.sort(%x) {dim = 2}",
        "tensor<[M]x8xf32>",
        ("%v (tcp.sort): `dim` is a dim of the operand", "0 or more, and below 2", "2", None),
    ),
    (
        "tcp.sort(%x) {dim = -1}",
        "tensor<[M]x8xf32>",
        ("%v (tcp.sort): `dim` is a dim of the operand", "0 or more, and below 2", "-1", "{dim = 1}"),
    ),
    (
        "tcp.sort(%x) {dim = 1}",
        "tensor<[M]x8xf64>",
        ("%v (tcp.sort): the elements are those of the operand", "f32", "f64", "insert a tcp.cast"),
    ),
    (
        "tcp.argsort(%x) {dim = 1}",
        "tensor<[M]x8xf32>",
        (
            "%v (tcp.argsort): f32 does not hold every index along dim 1",
            "si64, or a type of integers that holds 7",
            "f32",
            "si64",
        ),
    ),
    (
        "tcp.argsort(%x) {dim = 0}",
        "tensor<[M]x8xsi32>",
        (
            "%v (tcp.argsort): si32 does not hold every index along dim 0",
            "si64, or a type of integers that holds M - 1",
            "si32",
            "si64",
        ),
    ),
    (
        "tcp.sort(%x) {dim = 1}",
        "tensor<[M]x7xf32>",
        (
            "%v (tcp.sort): `result` has another shape than the dims it goes along",
            "tensor<[M]x8xf32>",
            "%v: tensor<[M]x7xf32>",
            "write `: tensor<[M]x8xf32>`",
        ),
    ),
]


@pytest.mark.parametrize(("op", "type_", "wanted"), REFUSED)
def test_refused(op: str, type_: str, wanted: tuple[str | None, ...]) -> None:
    assert message(ONE.replace("OP", op).replace("TYPE", type_)) == wanted


def test_no_more_are_taken_than_there_are() -> None:
    taken = TOP.replace("TAKEN", "[K]").replace("DTYPE", "si64")
    found = message(taken.replace("FACT", ""))
    assert found[:3] == (
        "%v (tcp.topk): dim 1 of %x is not known to have as many elements as are taken",
        "at most N",
        "K",
    )
    assert found[3] is not None
    tcpx.parse(taken.replace("FACT", found[3]))
    flat = TOP.replace("[M]xTAKEN", "5").replace("DTYPE", "si64").replace("FACT", "")
    assert "has another shape" in str(message(flat)[0]) or "no operand has the dim" in str(message(flat)[0])
    static = taken.replace("FACT", "").replace("[N]", "4").replace("[K]", "5")
    assert message(static)[:3] == ("%v (tcp.topk): dim 1 of %x has fewer elements than are taken", "at most 4", "5")


@pytest.mark.parametrize(
    ("operation", "flag"),
    [("tcp.sort", "descending"), ("tcp.argsort", "descending"), ("tcp.topk", "smallest"), ("tcp.topk", "nan_last")],
)
def test_a_flag_that_is_false_is_as_left_out(operation: str, flag: str) -> None:
    results = {"tcp.sort": ["f32"], "tcp.argsort": ["si64"], "tcp.topk": ["f32", "si64"]}[operation]
    types = [f"tensor<4x{dtype}>" for dtype in results]
    names = ", ".join(f"%{name}" for name in "yz"[: len(types)])
    shown = types[0] if len(types) == 1 else f"({', '.join(types)})"

    def text(attributes: str) -> str:
        head = f"func @f(%x: tensor<4xf32>) -> {shown} {{"
        return f"{head} {names} = {operation}(%x) {{{attributes}}} : {', '.join(types)} tcp.return({names}) }}"

    given, left_out = tcpx.parse(text(f"dim = 0, {flag} = false")), tcpx.parse(text("dim = 0"))
    assert given.text() == left_out.text()
    assert given.text() != tcpx.parse(text(f"dim = 0, {flag} = true")).text()
    x = np.array([3.0, np.nan, -1.0, 2.0], np.float32)
    for found, wanted in zip(tcpx.evaluate(given, x), tcpx.evaluate(left_out, x), strict=True):
        np.testing.assert_array_equal(found, wanted)
