"""Operators of the domain com.microsoft that ONNX Runtime's optimizer writes for several of ONNX's: activations with
what is added before, norms with what is added before, embeddings, products. Their meaning is that of ONNX Runtime's
docs/ContribOperators.md. Some norms it writes in the default domain."""

from __future__ import annotations

from collections.abc import Sequence

from tcpx.frontends.onnx.broadcasting import least, same, shown
from tcpx.frontends.onnx.node import Node
from tcpx.frontends.onnx.operators.linear import multiplied
from tcpx.frontends.onnx.operators.normalization import layer_normalization
from tcpx.frontends.onnx.table import Result, contributed
from tcpx.payload.ir import Value
from tcpx.payload.sizes import floordiv
from tcpx.payload.types import ScalarType, dtype_of, f32, f64, i1, shape_of, si32


@contributed("com.microsoft.Gelu", "X", "Y")
def gelu(n: Node) -> Result:
    """With the error function."""
    return n.w.unary("gelu", n.value(0))


@contributed("com.microsoft.FastGelu", "X [bias]", "Y")
def fast_gelu(n: Node) -> Result:
    """With tanh, of a sum."""
    return n.w.unary("gelu", _plus(n, n.value(0), n.optional(1)), approximate="tanh")


@contributed("com.microsoft.BiasGelu", "A B", "C")
def bias_gelu(n: Node) -> Result:
    """With the error function, of a sum."""
    return n.w.unary("gelu", n.w.binary("add", n.value(0), n.value(1)))


@contributed("com.microsoft.QuickGelu", "X", "Y", alpha=1.702)
def quick_gelu(n: Node) -> Result:
    """x sigmoid(alpha x)."""
    x = n.value(0)
    return n.w.binary("mul", x, n.w.unary("sigmoid", n.w.with_number("mul", x, n.float("alpha"))))


@contributed("com.microsoft.BiasSplitGelu", "X bias", "Y")
def bias_split_gelu(n: Node) -> Result:
    """The first half of the columns of a sum, times the GELU of the second half."""
    x = n.w.binary("add", n.value(0), n.value(1))
    last, own = n.ranked(0, 1).rank - 1, shape_of(x.type)
    half = floordiv(own[last], 2)
    if not same(half * 2, own[last]):
        raise n.error("two halves of columns", "a multiple of 2", shown(own))
    left, right = (n.w.part(x, last, offset, half) for offset in (0, half))
    return n.w.op("mul", left, n.w.unary("gelu", right))


@contributed("com.microsoft.BiasAdd", "X bias skip", "Y")
def bias_add(n: Node) -> Result:
    """The sum of three."""
    return n.w.binary("add", n.w.binary("add", n.value(0), n.value(1)), n.value(2))


def _plus(n: Node, x: Value, other: Value | None) -> Value:
    return x if other is None else n.w.binary("add", x, other)


# ------------------------------------------------------------ norms

# of opset 17; in models of older ones it is what ONNX Runtime writes
contributed(
    "LayerNormalization", "X Scale [B]", "Y [Mean] [InvStdDev]", axis=-1, epsilon=1e-5, stash_type=1
)(layer_normalization)  # fmt: skip


@contributed("SimplifiedLayerNormalization", "X scale", "Y [inv_std_var]", axis=-1, epsilon=1e-5, stash_type=1)
def simplified_layer_normalization(n: Node) -> Sequence[Result]:
    """By the root of the mean of squares, over the dims from an axis on."""
    rank = n.ranked(0, 1).rank
    along, epsilon = range(n.axis(rank, default=-1), rank), n.float("epsilon", 1e-5)
    made = _normalized(n, n.value(0), "rms_norm", along, epsilon, n.value(1), None)
    return [made, *([_reciprocal(n, n.value(0), "rms_norm", along, epsilon)] if n.wants(1) else [])]


def _normalized(
    n: Node, x: Value, word: str, along: Sequence[int], epsilon: float, gamma: Value, beta: Value | None
) -> Value:
    """A value normalized along dims, scaled and moved."""
    made = n.w.op(word, x, dims=tuple(along), epsilon=epsilon)
    return _plus(n, n.w.op("mul", made, n.w.expand(gamma, shape_of(x.type))), beta)


def _reciprocal(n: Node, x: Value, word: str, along: Sequence[int], epsilon: float) -> Value:
    """1 over the deviation, or over the root of the mean of squares, as f32, of f64 as that."""
    wide = _wide(x)
    if word == "layer_norm":
        mean = n.w.reduce("reduce_variance", x, along, keep=True, dtype=wide)
    else:
        held = n.w.cast(x, wide)
        mean = n.w.reduce("reduce_mean", n.w.op("mul", held, held), along, keep=True)
    return n.w.unary("rsqrt", n.w.with_number("add", mean, epsilon))


def _wide(x: Value) -> ScalarType:
    return f64 if dtype_of(x.type) == f64 else f32


def _of_a_sum(n: Node, word: str, beta: int | None, bias: int) -> Sequence[Result]:
    """The norm of a sum of two values and a bias; the mean, the reciprocal of the deviation, and the sum."""
    n.ranked(0, 2, 3)
    x = _plus(n, n.w.binary("add", n.value(0), n.value(1)), n.optional(bias))
    along, epsilon = [len(shape_of(x.type)) - 1], n.float("epsilon")
    made = _normalized(n, x, word, along, epsilon, n.value(2), None if beta is None else n.optional(beta))
    mean = n.w.reduce("reduce_mean", x, along, keep=True, dtype=_wide(x)) if n.wants(1) else made
    deviation = _reciprocal(n, x, word, along, epsilon) if n.wants(2) else made
    return [made, mean, deviation, x]  # what nothing asks for is any value


@contributed(
    "com.microsoft.SkipLayerNormalization", "input skip gamma [beta] [bias]",
    "output [mean] [inv_std_var] [input_skip_bias_sum]", epsilon=1e-12,
)  # fmt: skip
def skip_layer_normalization(n: Node) -> Sequence[Result]:
    """Of a sum, by mean and deviation."""
    return _of_a_sum(n, "layer_norm", beta=3, bias=4)


@contributed(
    "com.microsoft.SkipSimplifiedLayerNormalization", "input skip gamma [bias]",
    "output [mean] [inv_std_var] [input_skip_bias_sum]", epsilon=1e-12,
)  # fmt: skip
def skip_simplified_layer_normalization(n: Node) -> Sequence[Result]:
    """Of a sum, by the root of the mean of squares."""
    return _of_a_sum(n, "rms_norm", beta=None, bias=3)


@contributed(
    "com.microsoft.EmbedLayerNormalization",
    "input_ids [segment_ids] word_embedding position_embedding [segment_embedding] gamma beta [mask] [position_ids]",
    "output [mask_index] [embedding_sum]", epsilon=1e-12, mask_index_type=0,
)  # fmt: skip
def embed_layer_normalization(n: Node) -> Sequence[Result]:
    """The norm of the sum of embeddings of tokens, positions and segments; how many tokens the mask keeps; the sum."""
    w, (batch, length) = n.w, n.ranked(0, 2, 2).shape
    for index in (k for k in (1, 2, 3, 4, 7, 8) if n.has(k)):
        n.ranked(index, 2, 2)
    n.int("mask_index_type")  # whether the second result is asked for
    x = w.take(n.value(2), n.value(0), 0)
    if n.has(8):
        places = w.take(n.value(3), n.value(8), 0)
    else:
        places = w.part(n.value(3), 0, 0, least(n.shape(3)[0], length, w.facts))
    x = w.binary("add", x, places)
    if n.has(1) != n.has(4):
        raise n.error("segments have ids and a table", "both, or none", "one of them")
    if n.has(1):
        x = w.binary("add", x, w.take(n.value(4), n.value(1), 0))
    made = _normalized(n, x, "layer_norm", [2], n.float("epsilon"), n.value(5), n.value(6))
    if n.has(7):
        kept = w.cast(w.with_number("equal", n.value(7), 1, dtype=i1), si32)
        index = w.reduce("reduce_sum", kept, [1])
    else:
        index = w.fill(0, (batch,), si32)
    return [made, index, x]


# ------------------------------------------------------------ products


@contributed(
    "com.microsoft.FusedMatMul", "A B", "Y", alpha=1.0, transA=0, transB=0, transBatchA=0, transBatchB=0
)  # fmt: skip
def fused_matmul(n: Node) -> Result:
    """alpha times the product of two values, of which matrices, or the first dim and those of the batch, are
    transposed."""
    a, b = (_turned(n, k, "AB"[k]) for k in range(2))
    made, alpha = multiplied(n, a, b, n.dtype()), n.float("alpha")
    return made if alpha == 1 else n.w.with_number("mul", made, alpha)


def _turned(n: Node, index: int, letter: str) -> Value:
    """A factor as MatMul reads it."""
    rank = n.input(index).rank
    order = list(range(rank))
    matrix, batch = bool(n.int(f"trans{letter}")), bool(n.int(f"transBatch{letter}"))
    if batch and rank > 2:
        order = [*order[1:-1], 0, order[-1]]
    if matrix and rank > 1:
        order = [*order[:-2], order[-1], order[-2]]
    return n.w.transpose(n.value(index), order)
