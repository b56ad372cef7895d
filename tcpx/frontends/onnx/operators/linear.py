"""Products: of matrices, with their transposes and offsets, and sums over named dims."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tcpx.frontends.onnx.broadcasting import same, shown
from tcpx.frontends.onnx.errors import Unsupported
from tcpx.frontends.onnx.node import Node
from tcpx.frontends.onnx.table import Result, rule
from tcpx.payload.ir import Value
from tcpx.payload.sizes import Dim
from tcpx.payload.types import ScalarType, dtype_of, shape_of, si32


@rule("MatMul")
def matmul(n: Node) -> Result:
    """NumPy's matmul: of vectors, of matrices, and of each pair of matrices of a batch."""
    return multiplied(n, n.value(0), n.value(1), n.dtype())


def multiplied(n: Node, a: Value, b: Value, dtype: ScalarType) -> Value:
    """The product of two values, the batch dims broadcast; those that only one of them has stay there alone."""
    lhs, rhs = shape_of(a.type), shape_of(b.type)
    if len(lhs) < 1 or len(rhs) < 1:
        raise n.error("a product of matrices or vectors", "1 dim or more", f"{shown(lhs)} and {shown(rhs)}")
    inner = lhs[-1], rhs[-2] if len(rhs) > 1 else rhs[0]
    if not n.equal(*inner):
        raise n.error("the summed dims differ", shown([inner[0]]), shown([inner[1]]), equal=inner)
    b = n.w.with_dim(b, max(len(rhs) - 2, 0), inner[0])
    if len(lhs) == 2 and len(rhs) == 2:
        return n.w.op("matmul", a, b, shape=(lhs[0], rhs[1]), dtype=dtype)
    batch = n.w.broadcast_shape(lhs[:-2], rhs[:-2])
    # A batch of 1 stays beside heads: attention is then what it is of any batch.
    shared = [lhs[:-2], rhs[:-2]] if len(lhs) == len(rhs) and any(not same(d, 1) for d in batch) else [(), ()]
    ones = [
        k for k, (d, e) in enumerate(zip(*shared, strict=True)) if same(d, 1) and same(e, 1)
    ]  # heads lie beside them
    left, right = _batch(n, a, batch, 2, ones), _batch(n, b, batch, 2, ones)
    rows, columns = (["m"] if len(lhs) > 1 else []), (["n"] if len(rhs) > 1 else [])
    names = [f"b{k}" for k in range(len(batch))]
    made = n.w.contract(
        left[0], right[0], [*left[1], *rows, "k"], [*right[1], "k", *columns],
        [name for name in names if name in (*left[1], *right[1])] + rows + columns, dtype,
    )  # fmt: skip
    return n.w.reshape(made, [*batch, *(lhs[-2:-1] if rows else ()), *(rhs[-1:] if columns else ())])


def _batch(
    n: Node, value: Value, batch: Sequence[Dim], matrix: int, ones: Sequence[int] = ()
) -> tuple[Value, list[str]]:
    """A value without the batch dims along which it is repeated, and the names of those it has: `ones` stay, of 1."""
    own = shape_of(value.type)
    lead = own[:-matrix]
    if any(d != 1 and not same(d, batch[k - len(lead)]) for k, d in enumerate(lead)):
        value = n.w.expand(value, [*batch, *own[len(lead) :]])  # dims of which only a call says whether they are 1
        own, lead = shape_of(value.type), tuple(batch)
    first = len(batch) - len(lead)
    kept = [k for k, extent in enumerate(lead) if k in ones or not same(extent, 1)]
    return n.w.reshape(value, [*(lead[k] for k in kept), *own[len(lead) :]]), [f"b{first + k}" for k in kept]


@rule("Gemm")
def gemm(n: Node) -> Result:
    """alpha A' B' + beta C."""
    a, b, w = n.value(0), n.value(1), n.w
    for k in range(2):
        n.ranked(k, 2, 2)
    lhs, rhs = (["k", "m"] if n.int("transA", 0) else ["m", "k"]), (["n", "k"] if n.int("transB", 0) else ["k", "n"])
    inner = n.shape(0)[lhs.index("k")], n.shape(1)[rhs.index("k")]
    if not n.equal(*inner):
        raise n.error("the summed dims differ", shown([inner[0]]), shown([inner[1]]), equal=inner)
    b = w.with_dim(b, rhs.index("k"), inner[0])
    made = w.contract(a, b, lhs, rhs, ["m", "n"])
    alpha, beta = n.float("alpha", 1.0), n.float("beta", 1.0)
    made = made if alpha == 1 else w.with_number("mul", made, alpha)
    if not n.has(2) or beta == 0:
        return made
    c = n.value(2) if beta == 1 else w.with_number("mul", n.value(2), beta)
    return w.op("add", made, w.expand(c, shape_of(made.type)))


@rule("Einsum")
def einsum(n: Node) -> Result:
    """Sums of products over named dims, two operands at a time."""
    equation = re.sub(r"\s", "", n.text("equation"))
    given, arrow, out = equation.partition("->")
    terms = given.split(",")
    if len(terms) != len(n.inputs) or not re.fullmatch(r"[A-Za-z.,]*", given) or not re.fullmatch(r"[A-Za-z.]*", out):
        raise n.error("the equation", f"{len(n.inputs)} lists of letters", equation)
    wild = max((n.input(k).rank - len(t.replace("...", "")) for k, t in enumerate(terms) if "..." in t), default=0)
    names = [_letters(n, t, n.input(k).rank, wild) for k, t in enumerate(terms)]
    if arrow:
        result = _letters(n, out, None, wild)
    else:
        every = [name for term in names for name in term]
        result = [
            *(f"e{k}" for k in range(wild)),
            *sorted(
                {x for x in every if every.count(x) == 1 and not x.startswith("e_")} - {f"e{k}" for k in range(wild)}
            ),
        ]
    return _summed(n, names, result)


def _letters(n: Node, term: str, rank: int | None, wild: int) -> list[str]:
    """The names of dims; those of an ellipsis are counted from the last one."""
    before, dots, behind = term.partition("...")
    count = wild if rank is None else rank - len(before) - len(behind)
    if (dots and count < 0) or (not dots and rank is not None and count != 0):
        raise n.error("a list of letters has a letter for each dim", f"{rank} letters", term)
    middle = [f"e{k}" for k in range(wild - count, wild)] if dots else []
    return [*(f"x{c}" for c in before), *middle, *(f"x{c}" for c in behind)]


def _summed(n: Node, names: Sequence[list[str]], result: list[str]) -> Value:
    if len(set(result)) != len(result):
        raise Unsupported("a dim that the result has twice")
    w = n.w
    factors = _broadcast(n, names)
    value, own = factors[0]
    for k, (factor, dims) in enumerate(factors[1:], 1):
        behind = {name for _, term in factors[k + 1 :] for name in term} | set(result)
        out = [x for x in dict.fromkeys([*own, *dims]) if x in behind]
        value, own = w.contract(value, factor, own, dims, out), out
    if len(names) == 1 and (len(set(own)) != len(own) or set(own) != set(result)):
        one = w.fill(1, (), dtype_of(value.type))
        kept = [x for x in dict.fromkeys(own) if x in result]
        value, own = w.contract(value, one, own, [], kept), kept
    if any(x not in own for x in result):
        raise n.error("the result has a dim that no operand has", ", ".join(own), ", ".join(result))
    return w.transpose(value, [own.index(x) for x in result])


def _broadcast(n: Node, names: Sequence[list[str]]) -> list[tuple[Value, list[str]]]:
    """Each operand with the names of its dims, where dims of one name have one size: a dim of 1 that others repeat is
    left out, and one that a call may make 1 is expanded."""
    sizes: dict[str, list[Dim]] = {}
    for k, term in enumerate(names):
        for name, size in zip(term, n.shape(k), strict=True):
            sizes.setdefault(name, []).append(size)
    whole = {name: n.w.broadcast_shape(*([size] for size in found))[0] for name, found in sizes.items()}
    factors: list[tuple[Value, list[str]]] = []
    for k, term in enumerate(names):
        value, kept = n.value(k), [not same(d, 1) or same(whole[x], 1) for x, d in zip(term, n.shape(k), strict=True)]
        own = [name for name, is_kept in zip(term, kept, strict=True) if is_kept]
        value = n.w.reshape(value, [d for d, is_kept in zip(n.shape(k), kept, strict=True) if is_kept])
        factors.append((n.w.expand(value, [whole[name] for name in own]), own))
    return factors


def shifted(n: Node, value: Value, zero: Value | None, axis: int | None = None) -> Value:
    """An integer factor less its zero point, as si32."""
    wide = n.w.cast(value, si32)
    if zero is None:
        return wide
    point = n.w.cast(zero, si32)
    return n.w.op("sub", wide, along(n, point, shape_of(value.type), axis))


def along(n: Node, value: Value, shape: Sequence[Dim], axis: int | None) -> Value:
    """One number, or a list of them along an axis, repeated."""
    own = shape_of(value.type)
    if len(own) == 1 and same(own[0], 1):
        value = n.w.reshape(value, ())
    elif len(own) == 1 and axis is not None:
        return n.w.op("broadcast", value, shape=tuple(shape), dims=(axis,))
    return n.w.expand(value, shape)


@rule("MatMulInteger")
def matmul_integer(n: Node) -> Result:
    """Products of integers less their zero points, in si32."""
    rank = n.input(0).rank
    a = shifted(n, n.value(0), n.optional(2), rank - 2)
    b = shifted(n, n.value(1), n.optional(3), n.input(1).rank - 1)
    return multiplied(n, a, b, si32)
