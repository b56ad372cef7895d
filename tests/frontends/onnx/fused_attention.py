"""Attention and rotary embeddings as ONNX Runtime's optimizer writes them: models of one node, and what each means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.frontends.onnx.fused import RNG, SIZES, Array, B, Case, S, draw, f32, int32, wide

# ------------------------------------------------------------ what it means


def heads(x: Array, count: int) -> Array:
    """[batch, length, hidden] as [batch, heads, length, size]."""
    return wide(x).reshape(*x.shape[:2], count, -1).transpose(0, 2, 1, 3)


def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    scale: float | None = None,
    added: Array | float = 0.0,
    keep: Array | bool = True,
    cap: float = 0.0,
) -> Array:
    """softmax(scale q k' + added, where it is kept) v, of heads, as [batch, length, hidden]."""
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    scores = (scale or q.shape[3] ** -0.5) * (q @ k.swapaxes(2, 3))
    scores = cap * np.tanh(scores / cap) if cap else scores
    scores = np.where(keep, scores + added, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    made = powers / powers.sum(-1, keepdims=True) @ v
    return f32(made.transpose(0, 2, 1, 3).reshape(made.shape[0], made.shape[2], -1))


def below(mask: Array, number: float = -10000.0) -> Array:
    """What a mask of ones and zeros adds."""
    return np.where(mask > 0, 0.0, number)


def causal(rows: int, keys: int, past: int = 0, window: int = 1 << 30) -> Array:
    row, column = np.arange(rows)[:, None] + past, np.arange(keys)
    return (column <= row) & (column > row - window)


def turned(x: Array, places: Array, cos: Array, sin: Array, interleaved: bool, columns: int | None = None) -> Array:
    """Heads [batch, heads, length, size] turned by the angles of positions [batch, length]."""
    x = wide(x)
    columns = columns or x.shape[3]
    own, rest = x[..., :columns], x[..., columns:]
    a, b = (own[..., ::2], own[..., 1::2]) if interleaved else np.split(own, 2, -1)
    c, s = wide(cos)[places][:, None], wide(sin)[places][:, None]
    parts = a * c - b * s, a * s + b * c
    made = np.stack(parts, -1).reshape(own.shape) if interleaved else np.concatenate(parts, -1)
    return np.concatenate([made, rest], -1)


# ------------------------------------------------------------ nodes

N, D, L, P = 2, 6, 7, 4
"""Heads, their size, keys, and keys of steps before."""
SYMBOLS = {B: "batch", S: "length", L: "keys", P: "past", P + S: "past + length"}


def multi_head() -> list[Case]:
    wider = 8
    q, k, v = draw(B, S, N * D), draw(B, L, N * D), draw(B, L, N * wider)
    own = draw(B, S, N * D), draw(B, S, N * D)
    bias = draw(N * D * 2 + N * wider)
    parts = np.split(bias, [N * D, 2 * N * D])
    mask = (RNG.random((B, L)) > 0.3).astype(np.int32)
    mask[:, 0] = 1
    each = (RNG.random((B, S, L)) > 0.3).astype(np.int32)
    of_all = (RNG.random((B, P + S)) > 0.3).astype(np.int32)
    each[:, :, 0] = of_all[:, 0] = 1
    lengths = int32(3, 7, 1)
    past = draw(B, N, P, D), draw(B, N, P, D)
    joined = [np.concatenate([old, heads(new, N)], 2) for old, new in zip(past, own, strict=True)]
    present = [f32(x) for x in joined]
    packed, pair = draw(B, S, N, 3, D), draw(B, L, N, 2, D)
    added = [draw(B, N, S, L), draw(1, N, S, L), draw(B, 1, S, L)]
    three = [heads(q, N), heads(k, N), heads(v, N)]

    def of(
        name: str,
        operands: Sequence[Array | None],
        *wanted: Array,
        runtime: bool = True,
        symbols: Mapping[int, str] = SYMBOLS,
        **given: Any,
    ) -> Case:
        attributes = {"num_heads": N, **given}
        return Case(name, "MultiHeadAttention", operands, wanted, attributes, symbols=symbols, runtime=runtime)

    by_end = np.arange(L) < lengths[:, None]
    triple = [heads(x + part, N) for x, part in zip((q, k, v), parts, strict=True)]
    row = (slice(None), None, None)
    biased = [x + part for x, part in zip((q, *own), np.split(bias[: 3 * N * D], 3), strict=True)]
    late = [np.concatenate([old, heads(new, N)], 2) for old, new in zip(past, biased[1:], strict=True)]
    keep = causal(S, P + S, P)
    few = of_all[:, :S].copy()
    return [
        of("keys of another length", [q, k, v], attention(*three)),
        of("a bias", [q, k, v, bias], attention(*triple, scale=0.3), scale=0.3),
        of("a mask of keys", [q, k, v, None, mask], attention(*three, added=below(mask)[row])),
        of(
            "another number", [q, k, v, None, mask], attention(*three, added=below(mask, -3)[row]),
            mask_filter_value=-3.0,
        ),
        of(
            "nothing is left", [q * 0, k, v, None, mask * 0], attention(three[0] * 0, *three[1:]),
        ),
        of("a mask of queries and keys", [q, k, v, None, each], attention(*three, added=below(each)[:, None])),
        of("lengths", [q, k, v, None, lengths], attention(*three, added=below(by_end)[row])),
        *(
            of(f"numbers {x.shape[:2]}", [q, k, v, None, mask, x], attention(*three, added=below(mask)[row] + x))
            for x in added
        ),
        of("causal", [q, *own], attention(*(heads(x, N) for x in (q, *own)), keep=causal(S, S)), unidirectional=1),
        of(
            "causal with a mask", [q, *own, None, few],
            attention(*(heads(x, N) for x in (q, *own)), added=below(few)[row], keep=causal(S, S)), unidirectional=1,
        ),
        of("results of keys and values", [q, k, v], attention(*three), f32(three[1]), f32(three[2])),
        of(
            "steps before", [q, *own, bias[: 3 * N * D], None, None, *past],
            attention(heads(biased[0], N), *late), *map(f32, late),
        ),
        of(
            "steps before, causal", [q, *own, None, of_all, None, *past],
            attention(heads(q, N), *joined, added=below(of_all)[row], keep=keep), *present, unidirectional=1,
        ),
        of("heads", [q, *past], attention(heads(q, N), *map(wide, past))),
        of(
            "all packed", [packed], attention(*(wide(packed[:, :, :, k]).swapaxes(1, 2) for k in range(3))),
            symbols={}, runtime=False,
        ),
        of(
            "keys and values packed", [q, pair],
            attention(heads(q, N), *(wide(pair[:, :, :, k]).swapaxes(1, 2) for k in range(2))), runtime=False,
        ),
    ]  # fmt: skip


def packed_weights() -> list[Case]:
    x, weights, bias = draw(B, S, 10), draw(10, 3 * N * D), draw(3 * N * D)
    sizes = [N * D, N * D, N * 4]
    other, its = draw(10, sum(sizes)), draw(sum(sizes))
    mask, each = (RNG.random((B, S)) > 0.3).astype(np.int32), (RNG.random((B, S, S)) > 0.3).astype(np.int32)
    mask[:, 0] = each[:, :, 0] = 1
    ends, starts = int32(3, 5, 4), int32(1, 0, 2)
    past = draw(2, B, N, P, D)
    at, row = np.arange(S), (slice(None), None, None)
    both = (at < ends[:, None]) & (at >= starts[:, None])
    added = draw(1, N, S, S)

    def parts(matrix: Array, numbers: Array | float, cuts: Sequence[int] | int = 3) -> list[Array]:
        return [heads(part, N) for part in np.split(wide(x) @ matrix + numbers, cuts, -1)]

    q, k, v = parts(weights, bias)
    joined = [np.concatenate([old, new], 2) for old, new in zip(past, (k, v), strict=True)]

    def of(
        name: str, operands: Sequence[Array | None], *wanted: Array, stored: Sequence[int] = (), **given: Any
    ) -> Case:
        symbols = {} if name == "where keys end and begin" else SYMBOLS  # a length of twice the batch is no symbol
        return Case(name, "Attention", [x, *operands], wanted, {"num_heads": N, **given}, stored, symbols)

    masked = {
        "a mask of keys": (mask, below(mask)[row]),
        "a mask of queries and keys": (each, below(each)[:, None]),
        "where keys end": (ends, below(at < ends[:, None])[row]),
        "where keys end and begin": (np.concatenate([ends, starts]), below(both)[row]),
    }
    return [
        of("inputs", [weights, bias], attention(q, k, v)),
        of("weights", [weights, bias], attention(q, k, v), stored=(1, 2)),
        of("no bias", [weights], attention(*parts(weights, 0.0)), stored=(1,)),
        of(
            "other sizes", [other, its], attention(*parts(other, its, [N * D, 2 * N * D]), scale=0.7),
            stored=(1, 2), scale=0.7, qkv_hidden_sizes=sizes,
        ),
        *(of(name, [weights, bias, m], attention(q, k, v, added=a), stored=(1, 2)) for name, (m, a) in masked.items()),
        of(
            "causal with a mask", [weights, bias, mask], attention(q, k, v, added=below(mask)[row], keep=causal(S, S)),
            stored=(1, 2), unidirectional=1,
        ),
        of("numbers", [weights, bias, None, None, added], attention(q, k, v, added=added), stored=(1, 2)),
        of(
            "steps before", [weights, bias, None, past], attention(q, *joined, keep=causal(S, P + S, P)),
            f32(np.stack(joined)), stored=(1, 2), unidirectional=1,
        ),
    ]  # fmt: skip


def grouped() -> list[Case]:
    """Six heads of queries, two of keys; ONNX Runtime wants heads of a multiple of 16 for rotary embeddings."""
    wide_heads, groups, size = 6, 2, 16
    cos, sin = draw(20, size // 2), draw(20, size // 2)

    def of(
        name: str,
        batch: int,
        rows: int,
        before: int | None,
        last: Sequence[int],
        rotary: str = "",
        packed: bool = False,
        added: Array | None = None,
        cap: float = 0.0,
        window: int = 1 << 30,
        **given: Any,
    ) -> Case:
        q = draw(batch, rows, wide_heads * size)
        k, v = (draw(batch, rows, groups * size) for _ in range(2))
        total = (before or 0) + rows
        past = [draw(batch, groups, before or 0, size) for _ in range(2)]
        first = np.maximum(np.array(last) + 1 - rows, 0)
        places = first[:, None] + np.arange(rows)
        queries, new = heads(q, wide_heads), [heads(k, groups), heads(v, groups)]
        if rotary:
            queries, new[0] = (turned(x, places, cos, sin, rotary == "interleaved") for x in (queries, new[0]))
        present = [np.zeros((batch, groups, total, size)) for _ in range(2)]
        for held, old, fresh in zip(present, past, new, strict=True):
            for b, start in enumerate(first):
                held[b, :, :start], held[b, :, start : start + rows] = old[b, :, :start], fresh[b]
        keep = np.stack([causal(rows, total, int(start), window) for start in first])[:, None]
        if not given.get("causal", 1):
            keep = np.ones_like(keep)
        numbers = 0.0 if added is None else added
        made = attention(queries, *present, scale=given.get("scale"), added=numbers, keep=keep, cap=cap)
        operands: list[Array | None] = [np.concatenate([q, k, v], 2), None, None] if packed else [q, k, v]
        operands += [*(past if before is not None else [None, None]), int32(*last), int32(total)]
        operands += [cos, sin] if rotary else [None, None]
        operands += [None, added] if added is not None else []
        attributes = {"num_heads": wide_heads, "kv_num_heads": groups, **given}
        if rotary:
            attributes |= {"do_rotary": 1, "rotary_interleaved": int(rotary == "interleaved")}
        if cap:
            attributes["softcap"] = cap
        if window < 1 << 30:
            attributes["local_window_size"] = window
        wanted = [made, *map(f32, present)]
        return Case(name, "GroupQueryAttention", operands, wanted, attributes, (6,))

    return [
        of("a prompt", 2, 5, None, [4, 4]),
        of("a prompt, turned", 2, 5, None, [4, 4], "halves"),
        of("a prompt, packed and turned", 2, 5, None, [4, 4], "interleaved", packed=True),
        of("a prompt, not causal", 2, 5, None, [4, 4], causal=0),
        of("a prompt, a window", 2, 5, None, [4, 4], window=2),
        of("a token", 2, 1, 6, [6, 6], "halves"),
        of("a token of sequences of other lengths", 2, 1, 6, [6, 3], "halves"),
        of("a window of sequences of other lengths", 2, 1, 6, [6, 3], window=3),
        of("one sequence", 1, 3, 6, [8], "interleaved"),
        of("one sequence, a window", 1, 3, 6, [8], window=3, scale=0.7),
        of("bounded scores", 1, 3, 6, [8], cap=2.0, added=draw(1, 1, 3, 9)),
        of("numbers of heads", 2, 1, 6, [6, 2], added=draw(1, 6, 1, 7)),
    ]


def rotary() -> list[Case]:
    cos, sin = draw(20, 4), draw(20, 4)
    at = RNG.integers(0, 20, (B, S))
    x, four, part = draw(B, S, 24), draw(B, 2, S, 8), draw(B, S, 36)
    found: list[Case] = []

    def back(y: Array) -> Array:
        return f32(y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1))

    for interleaved in (False, True):
        given = {"interleaved": int(interleaved)}
        few = {**given, "num_heads": 3, "rotary_embedding_dim": 8}
        first = np.tile(np.arange(S) + 3, (B, 1))
        for form, operands, wanted, own in (
            ("three dims", (x, at), back(turned(heads(x, 3), at, cos, sin, interleaved)), given),
            ("four dims", (four, at), f32(turned(four, at, cos, sin, interleaved)), given),
            ("a first place", (four, np.array([3])), f32(turned(four, first, cos, sin, interleaved)), given),
            ("some columns", (part, at), back(turned(heads(part, 3), at, cos, sin, interleaved, 8)), few),
        ):
            name = f"{form}, {'pairs' if interleaved else 'halves'}"
            found.append(Case(name, "RotaryEmbedding", [*operands, cos, sin], [wanted], own, (2, 3), SIZES))
    return found


CASES = [case for family in (multi_head, packed_weights, grouped, rotary) for case in family()]
