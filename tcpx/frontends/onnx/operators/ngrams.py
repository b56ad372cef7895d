"""Counts of short sequences of numbers, as words of a text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tcpx.frontends.onnx.errors import Unsupported
from tcpx.frontends.onnx.node import Node
from tcpx.frontends.onnx.table import Result, rule
from tcpx.payload.ir import Value
from tcpx.payload.types import f32, i1, shape_of

_MODES = ("TF", "IDF", "TFIDF")


@rule("TfIdfVectorizer")
def counted_ngrams(n: Node) -> Result:
    """How often each sequence of a pool is in each row, its elements up to `max_skip_count` others apart; with weights,
    or only whether it is there."""
    if n.raw("pool_strings") is not None:
        raise Unsupported("strings are no numbers")
    w, pool, mode = n.w, n.ints("pool_int64s"), n.text("mode")
    rank, length = n.ranked(0, 1, 2).rank, n.shape()[-1]
    starts, places, weights = n.ints("ngram_counts"), n.ints("ngram_indexes"), n.raw("weights")
    least, most = n.int("min_gram_length"), n.int("max_gram_length")
    if not isinstance(length, int):
        raise Unsupported("rows whose length is known when called", [length])
    ends = [*starts, len(pool)]
    is_pool = all(0 <= a <= b and (b - a) % size == 0 for size, (a, b) in enumerate(pairwise(ends), 1))
    count = sum((b - a) // size for size, (a, b) in enumerate(pairwise(ends), 1)) if is_pool else 0
    if not is_pool or count != len(places) or min(places, default=0) < 0 or mode not in _MODES:
        required = f"{count} places, {' or '.join(_MODES)}"
        raise n.error("a place for each sequence of the pool", required, f"{len(places)}, {mode}")
    x = n.value(0) if rank == 2 else w.reshape(n.value(0), (1, length))
    found: list[Value] = []
    chosen: list[int] = []
    first = 0
    for size, (a, b) in enumerate(pairwise(ends), 1):
        grams = [tuple(pool[k : k + size]) for k in range(a, b, size)]
        if least <= size <= most and grams:
            skips = 1 if size == 1 else n.int("max_skip_count") + 1
            found.append(_counts(n, x, grams, [s for s in range(1, skips + 1) if s * (size - 1) < length]))
            chosen += places[first : first + len(grams)]
        first += len(grams)
    width = max(places, default=-1) + 1
    rows = shape_of(x.type)[0]
    if found:
        table = np.zeros((len(chosen), width), np.float32)
        np.add.at(table, (np.arange(len(chosen)), np.array(chosen)), 1)
        matrix = w.constant(f"{w.prefix}.places", table)
        made = w.op("matmul", w.concat(found, 1), matrix, shape=(rows, width), dtype=f32)
    else:
        made = w.fill(0, (rows, width), f32)
    if mode == "IDF":
        made = w.cast(w.with_number("greater", made, 0, dtype=i1), f32)
    if mode != "TF" and weights:
        factors = w.constant(f"{w.prefix}.weights", np.array([*weights][:width], np.float32))
        made = w.op("mul", made, w.op("broadcast", factors, shape=(rows, width), dims=(1,)))
    return made if rank == 2 else w.reshape(made, (width,))


def _counts(n: Node, x: Value, grams: Sequence[tuple[int, ...]], skips: Sequence[int]) -> Value:
    """How often each sequence is in each row of x, its elements each of these numbers apart: [rows, sequences]."""
    w, (rows, length) = n.w, shape_of(x.type)
    dtype, total = n.dtype(), w.fill(0, (rows, len(grams)), f32)
    words = np.array(grams, dtype.numpy)
    for skip in skips:
        reach = length - skip * (words.shape[1] - 1)
        shape = (rows, len(grams), reach)
        here: Value | None = None
        for k in range(words.shape[1]):
            part = w.op("broadcast", w.part(x, 1, k * skip, reach), shape=shape, dims=(0, 2))
            word = w.op("broadcast", w.constant(f"{w.prefix}.words", words[:, k]), shape=shape, dims=(1,))
            equal = w.op("equal", part, word, dtype=i1)
            here = equal if here is None else w.op("and", here, equal, dtype=i1)
        if here is not None:
            total = w.op("add", total, w.reduce("reduce_sum", w.cast(here, f32), (2,)))
    return total
