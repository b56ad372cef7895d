"""Operations without a schedule beside PyTorch: random shapes, dtypes and layouts. Of `make conformance`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tests.optional_tools import TORCH

Array = npt.NDArray[Any]
FLOATS = ("f32", "f64", "f16", "bf16")
INTEGERS = ("si8", "si16", "si32", "si64", "ui8")
NUMBERS = (*FLOATS, *INTEGERS)
NUMPY = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "ui8": np.uint8,
    **{f"si{n}": np.dtype(f"int{n}") for n in (8, 16, 32, 64)},
    "i1": np.bool_,
}
TOLERANCE = {"f64": 1e-12, "f32": 2e-5, "f16": 4e-3, "bf16": 3e-2}
"""Relative to the greatest element: both sum in orders of their own, and round."""
SIZES = ((5, 17), (1, 33), (16, 1), (7, 64), (3, 128))
X = "tensor<[M]x[N]x{t}>"


@dataclass(frozen=True)
class Case:
    """An operation on %x, %y, .. of M x N, unless `types` says otherwise, and the same in PyTorch."""

    statement: str
    run: Callable[..., Any]
    """Of the modules torch and torch.nn.functional, and the tensors."""
    dtypes: Sequence[str] = FLOATS
    types: Sequence[str] = (X,)
    result: str = X
    low: float = -4.0
    high: float = 4.0
    names: str = "%r"
    least: float = 1e-30
    """The scale of results that are nothing but rounding, as those of rows of one element that are normalized."""


def _unary(name: str, other: str = "", **more: Any) -> Case:
    return Case(f"tcp.{name}(%x)", lambda t, f, x: getattr(t, other or name)(x), **more)


def _binary(name: str, other: str = "", **more: Any) -> Case:
    return Case(f"tcp.{name}(%x, %y)", lambda t, f, x, y: getattr(t, other or name)(x, y), types=(X, X), **more)


ROW, TRUTH, POSITIVE = "tensor<[M]x{t}>", "tensor<[M]x[N]xi1>", 0.1
IX = "tensor<[M]x[N]xsi64> in 0 to N"
ROWS = "tensor<[M]xsi64> in 0 to M"
QUERY = "tensor<2x[M]x[N]x{t}>"
CASES = {
    **{name: _unary(name) for name in ("exp", "exp2", "expm1", "tanh", "erf", "sigmoid", "sin", "cos")},
    **{name: _unary(name, low=POSITIVE) for name in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal")},
    **{name: _unary(name, dtypes=NUMBERS) for name in ("neg", "abs", "sign")},
    **{name: _unary(name) for name in ("floor", "ceil", "trunc", "round")},
    **{name: _binary(name, dtypes=NUMBERS) for name in ("add", "sub", "mul")},
    "max": _binary("max", "maximum", dtypes=NUMBERS),
    "min": _binary("min", "minimum", dtypes=NUMBERS),
    "div": _binary("div", low=POSITIVE),
    "pow": _binary("pow", dtypes=("f32", "f64"), low=POSITIVE),
    "floordiv": _binary("floordiv", "floor_divide", dtypes=INTEGERS, low=1, high=30),
    "mod": _binary("mod", "remainder", dtypes=INTEGERS, low=1, high=30),
    "less": _binary("less", "less", dtypes=NUMBERS, result=TRUTH),
    "equal": _binary("equal", "eq", dtypes=NUMBERS, result=TRUTH),
    "and": _binary("and", "bitwise_and", dtypes=INTEGERS),
    "xor": _binary("xor", "bitwise_xor", dtypes=INTEGERS),
    "relu": Case("tcp.relu(%x)", lambda t, f, x: f.relu(x), NUMBERS[:-1]),
    "silu": Case("tcp.silu(%x)", lambda t, f, x: f.silu(x)),
    "gelu": Case("tcp.gelu(%x)", lambda t, f, x: f.gelu(x)),
    "gelu tanh": Case('tcp.gelu(%x) {approximate = "tanh"}', lambda t, f, x: f.gelu(x, approximate="tanh")),
    "softplus": Case("tcp.softplus(%x)", lambda t, f, x: f.softplus(x)),
    "hardswish": Case("tcp.hardswish(%x)", lambda t, f, x: f.hardswish(x)),
    "clamp": Case("tcp.clamp(%x, -1, 2)", lambda t, f, x: t.clamp(x, -1, 2), ("f32", "f64", "si32", "si8")),
    "select": Case(
        "tcp.select(%x, %y, %z)", lambda t, f, c, x, y: t.where(c, x, y), NUMBERS, ("tensor<[M]x[N]xi1>", X, X)
    ),
    "reduce_sum": Case("tcp.reduce_sum(%x) {dims = [1]}", lambda t, f, x: x.sum(1), ("f32", "f64"), result=ROW),
    "reduce_max": Case("tcp.reduce_max(%x) {dims = [1]}", lambda t, f, x: x.amax(1), NUMBERS, result=ROW),
    "reduce_min": Case(
        "tcp.reduce_min(%x) {dims = [0]}", lambda t, f, x: x.amin(0), NUMBERS, result="tensor<[N]x{t}>"
    ),
    "reduce_mean": Case("tcp.reduce_mean(%x) {dims = [1]}", lambda t, f, x: x.mean(1), result=ROW),
    "reduce_variance": Case(
        "tcp.reduce_variance(%x) {dims = [1]}", lambda t, f, x: x.var(1, correction=0), ("f32", "f64"), result=ROW
    ),
    "reduce_logsumexp": Case("tcp.reduce_logsumexp(%x) {dims = [1]}", lambda t, f, x: x.logsumexp(1), result=ROW),
    "reduce_argmax": Case(
        "tcp.reduce_argmax(%x) {dims = [1]}",
        lambda t, f, x: (x.amax(1), x.argmax(1)),
        ("f32", "f64"),
        result=f"{ROW}, tensor<[M]xsi64>",
        names="%r, %i",
    ),
    "cumsum": Case(
        "tcp.cumsum(%x) {dim = 1}",
        lambda t, f, x: (x.cumsum(1), x.sum(1)),
        ("f32", "f64", "si32", "si64"),
        result=f"{X}, {ROW}",
        names="%r, %i",
    ),
    "softmax": Case("tcp.softmax(%x) {dim = 1}", lambda t, f, x: f.softmax(x, 1)),
    "log_softmax": Case("tcp.log_softmax(%x) {dim = 0}", lambda t, f, x: f.log_softmax(x, 0)),
    "layer_norm": Case(  # in f64: torch's mean of a row of one element is not that element
        "tcp.layer_norm(%x) {dims = [1]}",
        lambda t, f, x: f.layer_norm(x.double(), x.shape[1:]).to(x.dtype),
        least=0.01,
    ),
    "rms_norm": Case("tcp.rms_norm(%x) {dims = [1]}", lambda t, f, x: f.rms_norm(x, x.shape[1:], eps=1e-5)),
    "attention": Case(
        "tcp.attention(%x, %y, %z)",
        lambda t, f, q, k, v: f.scaled_dot_product_attention(q, k, v),
        types=(QUERY, QUERY, QUERY),
        result=QUERY,
    ),
    "causal attention": Case(
        "tcp.attention(%x, %y, %z) {causal = true}",
        lambda t, f, q, k, v: f.scaled_dot_product_attention(q, k, v, is_causal=True),
        types=(QUERY, QUERY, QUERY),
        result=QUERY,
    ),
    "matmul": Case(
        "tcp.matmul(%x, %y)",
        lambda t, f, x, y: x @ y,
        types=(X, "tensor<[N]x[M]x{t}>"),
        result="tensor<[M]x[M]x{t}>",
    ),
    "transpose": Case(
        "tcp.transpose(%x) {permutation = [1, 0]}", lambda t, f, x: x.T, NUMBERS, result="tensor<[N]x[M]x{t}>"
    ),
    "concat": Case(
        "tcp.concat(%x, %y) {dim = 1}",
        lambda t, f, x, y: t.cat([x, y], 1),
        NUMBERS,
        (X, X),
        "tensor<[M]x[2*N]x{t}>",
    ),
    "reverse": Case("tcp.reverse(%x) {dims = [0, 1]}", lambda t, f, x: t.flip(x, [0, 1]), NUMBERS),
    "pad": Case(
        "tcp.pad(%x) {value = 1, low = [0, 2]}",
        lambda t, f, x: f.pad(x, (2, 3), value=1),
        ("f32", "si32", "si8"),
        result="tensor<[M]x[N + 5]x{t}>",
    ),
    "tile": Case(
        "tcp.tile(%x) {repeats = [2, 3]}", lambda t, f, x: t.tile(x, (2, 3)), NUMBERS, result="tensor<[2*M]x[3*N]x{t}>"
    ),
    "repeat": Case(
        "tcp.repeat(%x) {dim = 1, repeats = 3}",
        lambda t, f, x: t.repeat_interleave(x, 3, 1),
        NUMBERS,
        result="tensor<[M]x[3*N]x{t}>",
    ),
    "gather": Case(
        "tcp.gather(%x, %y) {dim = 0}", lambda t, f, x, i: x[i], NUMBERS, (X, ROWS), "tensor<[M]x[N]x{t}>"
    ),
    "gather_elements": Case(
        "tcp.gather_elements(%x, %y) {dim = 1}", lambda t, f, x, i: t.gather(x, 1, i), NUMBERS, (X, IX)
    ),
    "gather_nd": Case(
        "tcp.gather_nd(%x, %y, %z) {dim = 0}",
        lambda t, f, x, i, j: x[i, j],
        NUMBERS,
        (X, ROWS, "tensor<[M]xsi64> in 0 to N"),
        ROW,
    ),
    "scatter_add": Case(
        "tcp.scatter_add(%x, %y, init = %z) {dim = 0}",
        lambda t, f, x, i, z: t.index_add(z, 0, i, x),
        ("f32", "f64", "si32", "si64"),
        (X, ROWS, X),
    ),
    "one_hot": Case(
        "tcp.one_hot(%x) {dim = 2}",
        lambda t, f, i: f.one_hot(i, 300),
        ("si64",),
        (IX,),
        "tensor<[M]x[N]x300x{t}>",
    ),
}  # fmt: skip


def _argument(kind: str, sizes: dict[str, int], case: Case, random: np.random.Generator, layout: str) -> Array:
    """An array of a type; apart: rows that are part of longer ones, where there are rows."""
    type_, _, limit = kind.partition(" in 0 to ")
    *dims, dtype = type_.removeprefix("tensor<").rstrip(">").split("x")
    *outer, inner = (sizes.get(d.strip("[]")) or int(d.strip("[]")) for d in dims)
    made = np.zeros((*outer, inner + (3 if layout == "apart" and outer and not limit else 0)), NUMPY[dtype])
    view = made[..., :inner]
    if limit:
        view[...] = random.integers(0, sizes[limit], view.shape)
    elif dtype == "i1":
        view[...] = random.integers(0, 2, view.shape)
    elif dtype in INTEGERS:
        view[...] = random.integers(int(max(case.low, 0 if dtype[0] == "u" else -100)), int(case.high) + 90, view.shape)
    else:
        view[...] = random.uniform(case.low, case.high, view.shape)
    return view


def _close(found: Array, wanted: Array, dtype: str, least: float) -> None:
    assert found.shape == wanted.shape
    if dtype not in TOLERANCE or found.dtype.kind in "iub":
        np.testing.assert_array_equal(found, wanted)
        return
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_allclose(a, b, TOLERANCE[dtype], TOLERANCE[dtype] * float(np.max(np.abs(b), initial=least)))


@pytest.mark.slow
@TORCH.needed
@pytest.mark.parametrize("name", CASES)
def test_beside_torch(name: str) -> None:
    torch, functional = import_module("torch"), import_module("torch.nn.functional")
    case, random = CASES[name], np.random.default_rng(len(name))

    def tensor(array: Array) -> Any:
        if array.dtype == NUMPY["bf16"]:
            return torch.from_numpy(np.ascontiguousarray(array).view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)

    def back(value: Any) -> Array:
        return value.float().numpy() if value.dtype == torch.bfloat16 else value.numpy()

    for dtype in case.dtypes:
        types = [kind.format(t=dtype) for kind in case.types]
        arguments = ", ".join(f"%{letter}: {kind}" for letter, kind in zip("xyz", types, strict=False))
        result = case.result.format(t=dtype)
        text = f"func @f({arguments}) -> ({result}) symbols [M: 1.., N: 1..] {{\n"
        text += f"  {case.names} = {case.statement} : {result}\n  tcp.return({case.names})\n}}\n"
        for layout in ("side by side", "apart"):
            kernel = tcpx.compile(tcpx.parse(text), strided=layout == "apart")
            for m, n in SIZES:
                sizes = {"M": m, "N": n}
                arrays = [_argument(kind, sizes, case, random, layout) for kind in types]
                wanted, found = case.run(torch, functional, *map(tensor, arrays)), kernel(*arrays)
                pairs = (found, wanted) if isinstance(found, tuple) else ((found,), (wanted,))
                for a, b in zip(*pairs, strict=True):
                    _close(np.asarray(a), back(b), dtype, case.least)
