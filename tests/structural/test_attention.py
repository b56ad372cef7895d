"""Attention with its masks and shared heads, rotary positions, gated units, beside NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tcpx
from tcpx.payload.diagnostics import TcpxError
from tests.structural.cases import Array, Case, check_columns, check_evaluation, numbers

FEW = ("default",)


def _attention(
    given: str = "", heads: str = "4", shared: str = "2", dtype: str = "f32", mask: str = "", d: str = "8"
) -> str:
    q, k = f"tensor<[B]x{heads}x[T]x{d}x{dtype}>", f"tensor<[B]x{shared}x[U]x{d}x{dtype}>"
    v, y = f"tensor<[B]x{shared}x[U]x[E]x{dtype}>", f"tensor<[B]x{heads}x[T]x[E]x{dtype}>"
    named = (f", %m: tensor<{mask}>", ", mask = %m") if mask else ("", "")
    symbols = "B, T, U, E" + "".join(f", {name}" for name in "DH" if name in d + heads)
    return (
        f"func @f(%q: {q}, %k: {k}, %w: {v}{named[0]}) -> {y} symbols [{symbols}] {{\n  %p = tcp.add(%q, %q) : {q}\n"
        f"  %v = tcp.attention(%p, %k, %w{named[1]}) {given} : {y}\n  %c = tcp.max(%v, %v) : {y}\n"
        "  tcp.return(%c)\n}\n"
    )


def reference(
    x: Sequence[Array], mask: Array | None = None, causal: bool = False, offset: int = 0, scale: float | None = None
) -> list[Any]:
    """In f64: [batch, head, query, element]."""
    q, k, v = (a.astype(np.float64) for a in x)
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(a, group, 1) for a in (k, v))
    scores = np.einsum("bhtd,bhud->bhtu", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == np.bool_ else scores + mask
    if causal:
        t, u = scores.shape[2:]
        scores = np.where(np.arange(u) <= np.arange(t)[:, None] + offset, scores, -np.inf)
    powers = np.exp(scores - np.max(scores, -1, keepdims=True, initial=-np.inf))
    return [np.einsum("bhtu,bhue->bhte", powers / np.sum(powers, -1, keepdims=True), v)]


def _reference(x: Sequence[Array], mask: Array | None = None, **known: Any) -> list[Any]:
    """Of the payloads here, which add the queries to themselves."""
    return reference([x[0].astype(np.float64) * 2, *x[1:]], mask, **known)


def _calls(
    sizes: Sequence[tuple[int, ...]], heads: int = 4, shared: int = 2, dtype: str = "float32", d: int = 8
) -> list[list[Array]]:
    return [
        [
            numbers(b, heads, t, d, dtype=dtype),
            numbers(b, shared, u, d, dtype=dtype, seed=1),
            numbers(b, shared, u, e, dtype=dtype, seed=2),
        ]
        for b, t, u, e in sizes
    ]


def _with(calls: list[list[Array]], mask: Any) -> list[list[Array]]:
    return [[*call, mask(call[0].shape[2], call[1].shape[2])] for call in calls]


def _angles(x: Array, dims: tuple[int, ...]) -> list[Array]:
    shape = (*(x.shape[k] for k in dims), x.shape[-1] // 2)
    return [numbers(*shape, dtype=str(x.dtype), seed=3), numbers(*shape, dtype=str(x.dtype), seed=4)]


def _rope(given: str, table: str, dtype: str = "f32") -> str:
    x, t = f"tensor<[B]x[T]x3x8x{dtype}>", f"tensor<{table}x{dtype}>"
    return (
        f"func @f(%x: {x}, %s: {t}, %t: {t}) -> {x} symbols [B, T] {{\n  %p = tcp.add(%x, %x) : {x}\n"
        f"  %v = tcp.rope(%p, %s, %t) {given} : {x}\n  %c = tcp.max(%v, %v) : {x}\n  tcp.return(%c)\n}}\n"
    )


def _turned(x: Array, cos: Array, sin: Array, interleaved: bool) -> list[Any]:
    """As complex numbers."""
    x, cos, sin = ((a + a).astype(np.float64) if a is x else a.astype(np.float64) for a in (x, cos, sin))
    turn = (cos + 1j * sin)[..., None, :]
    if interleaved:
        made = (x[..., ::2] + 1j * x[..., 1::2]) * turn
        return [np.stack([made.real, made.imag], -1).reshape(x.shape)]
    made = (x[..., :4] + 1j * x[..., 4:]) * turn
    return [np.concatenate([made.real, made.imag], -1)]


SIZES = ((2, 5, 7, 6), (1, 3, 3, 1), (1, 0, 2, 3), (2, 1, 9, 4))
ROWS = [numbers(2, 5, 3, 8), numbers(1, 1, 3, 8), numbers(0, 2, 3, 8)]
CASES = {
    "shared heads, causal": Case(
        _attention("{causal = true}"),
        lambda *x: _reference(x, causal=True),
        _calls(SIZES),
        2e-6,
        columns=("tiled", *FEW),
    ),
    "causal from an offset": Case(
        _attention("{causal = true, offset = U - T, scale = 0.25}", shared="4"),
        lambda *x: _reference(x, causal=True, offset=x[1].shape[2] - x[0].shape[2], scale=0.25),
        _calls(SIZES[:3], shared=4),
        2e-6,
        columns=("default", "tiled"),
    ),
    "mask of numbers": Case(
        _attention("", mask="4x[T]x[U]xf32"),
        lambda *x: _reference(x[:3], x[3][None]),
        _with(_calls(SIZES), lambda t, u: numbers(4, t, u, seed=5)),
        2e-6,
        columns=FEW,
    ),
    "mask of truth, one row left out whole": Case(
        _attention("{mask_dims = [0, 3]}", mask="[B]x[U]xi1", heads="[H]", shared="[H]", d="[D]"),
        lambda *x: _reference(x[:3], x[3][:, None, None, :]),
        [[*call, np.arange(2 * 7).reshape(2, 7) % 3 < 2 if n else np.zeros((2, 7), np.bool_)]
         for n, call in enumerate(_calls([SIZES[0]] * 2, 3, 3, d=5))],
        2e-6,
        columns=FEW,
    ),
    "attention of bf16": Case(
        _attention("", dtype="bf16"), lambda *x: _reference(x), _calls(SIZES[:2], dtype="bfloat16"), 2e-2, columns=FEW
    ),
    "rope of halves": Case(
        _rope("{dims = [1]}", "[T]x4"),
        lambda x, cos, sin: _turned(x, cos, sin, False),
        [[x, *_angles(x, (1,))] for x in ROWS],
        1e-6,
        columns=("producer fused", "consumer fused", *FEW),
    ),
    "rope of neighbours": Case(
        _rope("{dims = [0, 1], interleaved = true}", "[B]x[T]x4"),
        lambda x, cos, sin: _turned(x, cos, sin, True),
        [[x, *_angles(x, (0, 1))] for x in ROWS],
        1e-6,
        columns=("tiled", *FEW),
    ),
    "rope of f16": Case(
        _rope("{dims = [1]}", "[T]x4", "f16"),
        lambda x, cos, sin: _turned(x, cos, sin, False),
        [[x.astype(np.float16), *_angles(x.astype(np.float16), (1,))] for x in ROWS[:2]],
        2e-3,
        columns=FEW,
    ),
    "swiglu": Case(
        "func @f(%x: tensor<[M]x[N]xf32>, %u: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, N] {\n"
        "  %p = tcp.add(%x, %x) : tensor<[M]x[N]xf32>\n  %v = tcp.swiglu(%p, %u) : tensor<[M]x[N]xf32>\n"
        "  %c = tcp.max(%v, %v) : tensor<[M]x[N]xf32>\n  tcp.return(%c)\n}\n",
        lambda x, u: [(x + x) / (1 + np.exp(-(x + x).astype(np.float64))) * u],
        [[numbers(*shape), numbers(*shape, seed=1)] for shape in ((7, 33), (1, 1), (0, 4))],
        1e-6,
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", CASES)
def test_evaluates(name: str) -> None:
    check_evaluation(CASES[name])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_columns() -> None:
    check_columns(CASES)


BASE = "func @f(%q: tensor<4x5x8xf32>, %k: tensor<2x7x8xf32>, %t: tensor<5x3xf32>) -> tensor<4x5x8xf32> {\n"
REFUSED = [
    ("tcp.attention(%q, %k, %t)", "tcp.attention", "queries, keys, values and result have one rank"),
    ("tcp.attention(%q, %k, %k, mask = %t)", "tcp.attention",
     "`mask` has another shape than the dims it goes along"),
    ("tcp.attention(%q, %k, %k, mask = %t) {mask_dims = [2, 1]}", "tcp.attention",
     "`mask_dims` places the dims of the mask"),
    ("tcp.rope(%q, %t, %t) {dims = [1]}", "tcp.rope", "the last dim of the tables is half of that of the operand"),
    ("tcp.rope(%q, %t, %t) {dims = [2]}", "tcp.rope", "`dims` places the dims of the tables"),
    ("tcp.swiglu(%q, %k)", "tcp.swiglu", "`up` has another shape than the dims it goes along"),
]  # fmt: skip


@pytest.mark.parametrize(("operation", "opcode", "message"), REFUSED)
def test_what_is_refused(operation: str, opcode: str, message: str) -> None:
    with pytest.raises(TcpxError) as caught:
        tcpx.parse(f"{BASE}  %v = {operation} : tensor<4x5x8xf32>\n  tcp.return(%v)\n}}\n")
    assert caught.value.diagnostic.message == f"%v ({opcode}): {message}"


def test_heads_that_share_keys_are_not_cut() -> None:
    module = tcpx.parse(CASES["shared heads, causal"].payload)
    text = 'language 1\nschedule s(root: func) {\n  tile(match one "v" in root, [d1: 2])\n}\n'
    with pytest.raises(TcpxError, match="d1"):
        tcpx.apply_schedule(module, tcpx.parse_schedule(text))
