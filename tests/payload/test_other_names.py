"""Names that other systems give to operations: what is advised is payload text, and computes what the name says."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest

from tcpx.payload.diagnostics import Diagnostic, ParseError
from tcpx.payload.evaluator import evaluate_func
from tcpx.payload.interfaces import Elementwise
from tcpx.payload.ir import operation_classes
from tcpx.payload.ops.other_names import OTHER_NAMES, advice
from tcpx.payload.text.parser import parse
from tcpx.payload.types import dtype_of, i1

Floats = npt.NDArray[np.float32]
TRUTH = "tensor<4x64xi1>"
VECTOR, MATRIX, SQUARE = "tensor<64xf32>", "tensor<4x64xf32>", "tensor<4x4xf32>"
Case = tuple[tuple[str, ...], str, Callable[..., npt.ArrayLike]]


def _conv(x: Floats, w: Floats) -> npt.ArrayLike:
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    return np.einsum("ncijpq,fcpq->nfij", windows, w)


def _rms(x: Floats) -> Floats:
    return x / np.sqrt(np.mean(x * x, 1, keepdims=True) + np.float32(1e-5))


def _attention(q: Floats, k: Floats, v: Floats) -> Floats:
    powers = np.exp(q @ k.T / 2)
    return powers / np.sum(powers, 1, keepdims=True) @ v


def _turned(x: Floats, cos: Floats, sin: Floats) -> npt.ArrayLike:
    made = (x[:, :32] + 1j * x[:, 32:]) * (cos + 1j * sin)
    return np.concatenate([made.real, made.imag], 1)


def _elementwise(count: int, of: Callable[..., npt.ArrayLike]) -> Case:
    return ((MATRIX,) * count, MATRIX, of)


CASES: dict[str, Case] = {
    "addf": _elementwise(2, np.add),
    "subtract": _elementwise(2, np.subtract),
    "multiply": _elementwise(2, np.multiply),
    "divide": _elementwise(2, np.divide),
    "maximum": _elementwise(2, np.maximum),
    "minimum": _elementwise(2, np.minimum),
    "lt": ((MATRIX,) * 2, TRUTH, np.less),
    "gt": ((MATRIX,) * 2, TRUTH, np.greater),
    "le": ((MATRIX,) * 2, TRUTH, np.less_equal),
    "ge": ((MATRIX,) * 2, TRUTH, np.greater_equal),
    "eq": ((MATRIX,) * 2, TRUTH, np.equal),
    "ne": ((MATRIX,) * 2, TRUTH, np.not_equal),
    "is_nan": ((MATRIX,), TRUTH, np.isnan),
    "is_inf": ((MATRIX,), TRUTH, np.isinf),
    "signum": _elementwise(1, np.sign),
    "recip": _elementwise(1, np.reciprocal),
    "inverse_sqrt": _elementwise(1, lambda a: 1 / np.sqrt(a)),
    "ceiling": _elementwise(1, np.ceil),
    "truncate": _elementwise(1, np.trunc),
    "round_nearest_afz": _elementwise(1, lambda a: np.copysign(np.floor(np.abs(a) + 0.5), a)),
    "floor_divide": _elementwise(2, np.floor_divide),
    "modulo": _elementwise(2, np.mod),
    "remf": _elementwise(2, np.fmod),
    "powf": _elementwise(2, np.power),
    "clip": _elementwise(3, np.clip),
    "where": (("tensor<4x64xi1>", MATRIX, MATRIX), MATRIX, np.where),
    "mad": _elementwise(3, lambda a, b, c: a * b + c),
    "swish": _elementwise(1, lambda a: a / (1 + np.exp(-a))),
    "logistic": _elementwise(1, lambda a: 1 / (1 + np.exp(-a))),
    "rint": _elementwise(1, np.rint),
    "exponential": _elementwise(1, np.exp),
    "astype": ((MATRIX,), "tensor<4x64xsi32>", lambda a: a.astype(np.int32)),
    "view": ((MATRIX,), "tensor<256xf32>", np.ravel),
    "permute": ((MATRIX,), "tensor<64x4xf32>", np.transpose),
    "broadcast_to": ((VECTOR,), MATRIX, lambda a: np.broadcast_to(a, (4, 64))),
    "dynamic_broadcast_in_dim": ((VECTOR,), MATRIX, lambda a: np.broadcast_to(a, (4, 64))),
    "constant": ((), MATRIX, lambda: np.ones((4, 64))),
    "zeros": ((), MATRIX, lambda: np.zeros((4, 64))),
    "ones": ((), MATRIX, lambda: np.ones((4, 64))),
    "relu6": _elementwise(1, lambda a: np.clip(a, 0, 6)),
    "leaky_relu": _elementwise(1, lambda a: np.where(a > 0, a, 0.01 * a)),
    "square": _elementwise(1, np.square),
    "negate": _elementwise(1, np.negative),
    "absf": _elementwise(1, np.abs),
    "square_root": _elementwise(1, np.sqrt),
    "invert": (("tensor<4x64xsi32>",), "tensor<4x64xsi32>", np.invert),
    "andi": (("tensor<4x64xsi32>",) * 2, "tensor<4x64xsi32>", np.bitwise_and),
    "ori": (("tensor<4x64xsi32>",) * 2, "tensor<4x64xsi32>", np.bitwise_or),
    "xori": (("tensor<4x64xsi32>",) * 2, "tensor<4x64xsi32>", np.bitwise_xor),
    "shl": (("tensor<4x64xsi32>",) * 2, "tensor<4x64xsi32>", np.left_shift),
    "shr": (("tensor<4x64xsi32>",) * 2, "tensor<4x64xsi32>", np.right_shift),
    "bitcast_convert": ((MATRIX,), "tensor<4x64xsi32>", lambda a: a.view(np.int32)),
    "hard_swish": _elementwise(1, lambda a: a * np.clip(a + 3, 0, 6) / 6),
    "ln": _elementwise(1, np.log),
    "arctan": _elementwise(1, np.arctan),
    "arcsin": _elementwise(1, np.arcsin),
    "arccos": _elementwise(1, np.arccos),
    "arctan2": _elementwise(2, np.arctan2),
    "arcsinh": _elementwise(1, np.arcsinh),
    "arccosh": _elementwise(1, np.arccosh),
    "arctanh": _elementwise(1, np.arctanh),
    "sum": ((MATRIX,), "tensor<4xf32>", lambda a: np.sum(a, 1)),
    "argmax": ((MATRIX,), "tensor<4xsi64>", lambda a: np.argmax(a, 1)),
    "argmin": ((MATRIX,), "tensor<4xsi64>", lambda a: np.argmin(a, 1)),
    "amax": ((MATRIX,), "tensor<4xf32>", lambda a: np.max(a, 1)),
    "amin": ((MATRIX,), "tensor<4xf32>", lambda a: np.min(a, 1)),
    "prod": ((MATRIX,), "tensor<4xf32>", lambda a: np.prod(a, 1)),
    "any": ((MATRIX,), "tensor<4xi1>", lambda a: np.any(a, 1)),
    "all": ((MATRIX,), "tensor<4xi1>", lambda a: np.all(a, 1)),
    "mean": ((MATRIX,), "tensor<4xf32>", lambda a: np.mean(a, 1)),
    "var": ((MATRIX,), "tensor<4xf32>", lambda a: np.var(a.astype(np.float64), 1)),
    "std": ((MATRIX,), "tensor<4xf32>", lambda a: np.std(a.astype(np.float64), 1)),
    "norm": ((MATRIX,), "tensor<4xf32>", lambda a: np.sqrt(np.sum(a * a, 1))),
    "logsumexp": ((MATRIX,), "tensor<4xf32>", lambda a: np.log(np.sum(np.exp(a), 1))),
    "layernorm": ((MATRIX, VECTOR, VECTOR), MATRIX, lambda a, g, b: _rms(a - np.mean(a, 1, keepdims=True)) * g + b),
    "rmsnorm": ((MATRIX, VECTOR), MATRIX, lambda a, g: _rms(a) * g),
    "scaled_dot_product_attention": ((SQUARE, SQUARE, SQUARE), SQUARE, _attention),
    "rotary_embedding": ((MATRIX, "tensor<4x32xf32>", "tensor<4x32xf32>"), MATRIX, _turned),
    "silu_and_mul": ((MATRIX, MATRIX), MATRIX, lambda a, b: a / (1 + np.exp(-a)) * b),
    "mm": ((SQUARE, MATRIX), MATRIX, np.matmul),
    "gemm": ((SQUARE, MATRIX, MATRIX), MATRIX, lambda a, b, c: a @ b + c),
    "addmm": ((MATRIX, SQUARE, MATRIX), MATRIX, lambda a, b, c: b @ c + a),
    "linear": ((MATRIX, "tensor<5x64xf32>", "tensor<5xf32>"), "tensor<4x5xf32>", lambda x, w, b: x @ w.T + b),
    "dense": ((SQUARE, MATRIX, VECTOR), MATRIX, lambda x, w, b: x @ w + b),
    "bmm": (("tensor<3x4x5xf32>", "tensor<3x5x6xf32>"), "tensor<3x4x6xf32>", np.matmul),
    "einsum": ((SQUARE, MATRIX), MATRIX, np.matmul),
    "mv": ((MATRIX, VECTOR), "tensor<4xf32>", np.matmul),
    "vm": (("tensor<4xf32>", MATRIX), VECTOR, np.matmul),
    "vdot": ((VECTOR, VECTOR), "tensor<f32>", np.dot),
    "outer": (("tensor<4xf32>", VECTOR), MATRIX, np.outer),
    "conv2d": (("tensor<2x3x8x7xf32>", "tensor<4x3x3x2xf32>"), "tensor<2x4x6x6xf32>", _conv),
    "max_pool": (
        ("tensor<2x3x8x6xf32>",),
        "tensor<2x3x4x3xf32>",
        lambda a: a.reshape(2, 3, 4, 2, 3, 2).max((3, 5)),
    ),
    "sum_pool": (
        ("tensor<2x3x8x6xf32>",),
        "tensor<2x3x4x3xf32>",
        lambda a: a.reshape(2, 3, 4, 2, 3, 2).sum((3, 5)),
    ),
    "avg_pool": (
        ("tensor<2x3x8x6xf32>",),
        "tensor<2x3x4x3xf32>",
        lambda a: a.reshape(2, 3, 4, 2, 3, 2).mean((3, 5)),
    ),
    "global_average_pool": (("tensor<2x3x8x6xf32>",), "tensor<2x3xf32>", lambda a: a.mean((2, 3))),
    "depthwise_conv2d": (
        ("tensor<2x3x8x6xf32>", "tensor<3x3x2xf32>"),
        "tensor<2x3x6x5xf32>",
        lambda a, w: sum(a[:, :, p : p + 6, q : q + 5] * w[:, p, q, None, None] for p in range(3) for q in range(2)),
    ),
    "lp_pool": (
        ("tensor<2x3x8x6xf32>",),
        "tensor<2x3x4x3xf32>",
        lambda a: np.sqrt((a.reshape(2, 3, 4, 2, 3, 2) ** 2).sum((3, 5))),
    ),
    "cat": ((MATRIX, MATRIX), "tensor<8x64xf32>", lambda a, b: np.concatenate([a, b])),
    "flip": ((MATRIX,), MATRIX, lambda a: np.flip(a, 0)),
    "extract_slice": ((MATRIX,), "tensor<4x8xf32>", lambda a: a[:, :8]),
    "chunk": (("tensor<8x64xf32>",), MATRIX, lambda a: a[4:]),
    "repeat_interleave": (("tensor<2x64xf32>",), MATRIX, lambda a: np.repeat(a, 2, 0)),
    "arange": ((), "tensor<4xf32>", lambda: np.arange(4)),
}
"""For the first name of each entry with statements: types of operands and result, and what NumPy computes."""


def refused(statement: str, arguments: tuple[str, ...] = (MATRIX,), result: str = MATRIX) -> Diagnostic:
    head = ", ".join(f"%{name}: {type_}" for name, type_ in zip("xwb", arguments, strict=False))
    with pytest.raises(ParseError) as caught:
        parse(f"func @f({head}) -> {result} {{\n  {statement}\n  tcp.return(%y)\n}}")
    return caught.value.diagnostic


def advised(name: str, arguments: tuple[str, ...], result: str) -> str:
    """The statements of the fix for an operation that is not there."""
    operands = ", ".join(f"%{a}" for a, _ in zip("xwb", arguments, strict=False))
    fix = refused(f"%y = tcp.{name}({operands}) : {result}", arguments, result).fix
    assert fix is not None
    assert fix.startswith("write"), fix
    return fix.partition(":\n" if ":\n" in fix else ": ")[2]


@pytest.mark.parametrize("name", CASES)
def test_what_is_advised_computes_what_the_name_says(name: str) -> None:
    arguments, result, of = CASES[name]
    head = ", ".join(f"%{a}: {type_}" for a, type_ in zip("xwb", arguments, strict=False))
    module = parse(f"func @f({head}) -> {result} {{\n{advised(name, arguments, result)}\n  tcp.return(%y)\n}}")
    draw = np.random.default_rng(4)
    arrays: list[npt.NDArray[np.generic]] = []
    for value in module.main.args:
        shape = tuple(d for d in getattr(value.type, "shape", ()) if isinstance(d, int))
        drawn = draw.standard_normal(shape) * 4
        arrays.append(drawn > 0 if dtype_of(value.type) == i1 else drawn.astype(dtype_of(value.type).numpy))
    (found,) = evaluate_func(module, module.main, arrays)
    with np.errstate(invalid="ignore"):
        wanted = np.asarray(of(*arrays), np.float64)
    np.testing.assert_allclose(np.asarray(found, np.float64), wanted, rtol=1e-4, atol=1e-4)


def test_every_entry_with_statements_is_computed() -> None:
    assert {other.names[0] for other in OTHER_NAMES if other.write} - {"ret"} == CASES.keys()


def test_every_name_stands_once_and_is_no_operation() -> None:
    names = sorted(name for other in OTHER_NAMES for name in other.names)
    assert [a for a, b in pairwise(names) if a == b] == []
    assert [name for name in names if f"tcp.{name}" in operation_classes()] == []


ELEMENTWISE = ", ".join(
    opcode
    for opcode, cls in sorted(operation_classes().items())
    if issubclass(cls, Elementwise) and opcode.startswith("tcp.")
)


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("tcp.cbrt", f"tcp.sqrt is the only root; of its kind there are {ELEMENTWISE}"),
        (
            "tcp.take",
            "tcp.gather(%x, %indices) {dim = 0} reads rows by number; the argument %indices declares a range",
        ),
        ("tcp.ones", f"write: %y = tcp.fill {{value = 1}} : {MATRIX}"),
        ("tcp.multiply", f"write: %y = tcp.mul(%x, %b) : {MATRIX}"),
        ("arith.addf", f"write: %y = tcp.add(%x, %b) : {MATRIX}"),
        ("linalg.matmul", "write tcp.matmul"),
        ("matmul", "write tcp.matmul"),
        ("MatMul", "write tcp.matmul"),
        ("scf.execute_region", None),
        ("tcp.sotfmax", "did you mean tcp.softmax?"),
        ("tcp.brodcast", "did you mean tcp.broadcast?"),
        ("tcp.epx", "did you mean tcp.exp?"),
        ("vector.raed", "did you mean vector.read?"),
        ("tcp.frobnicate", None),
        ("tcp.mux", None),
    ],
)
def test_by_meaning_then_by_spelling_then_not_at_all(name: str, fix: str | None) -> None:
    error = refused(f"%y = {name}(%x) : {MATRIX}")
    assert (error.message, error.found) == (f"unknown operation `{name}`", f"`{name}`")
    assert error.fix == fix


def test_several_statements_stand_below_one_another() -> None:
    assert (
        refused(f"%y = tcp.relu6(%x) : {MATRIX}")
        .render()
        .endswith(
            "  required: an operation that `tcpx ops` lists\n"
            "  found: `tcp.relu6`\n"
            "  fix: write:\n"
            f"       %low = tcp.fill {{value = 0}} : {MATRIX}\n"
            f"       %high = tcp.fill {{value = 6}} : {MATRIX}\n"
            f"       %y = tcp.clamp(%x, %low, %high) : {MATRIX}"
        )
    )


def test_without_a_statement_to_name_there_are_placeholders() -> None:
    assert advice("clip") == "write: %y = tcp.clamp(%a, %b, %c) : TYPE"
