"""Attention as ONNX Runtime's optimizer writes it, in the domain com.microsoft, by its docs/ContribOperators.md: a
product, masks, a softmax, a product, which schedules find as they find those of exporters."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from tcpx.frontends.onnx.broadcasting import same, shown
from tcpx.frontends.onnx.errors import Unsupported
from tcpx.frontends.onnx.node import Node, identifier
from tcpx.frontends.onnx.operators.linear import multiplied
from tcpx.frontends.onnx.table import Result, contributed, grows
from tcpx.payload.ir import Value
from tcpx.payload.sizes import Dim, floordiv
from tcpx.payload.types import dtype_of, i1, shape_of, si64

# ------------------------------------------------------------ heads


def heads(n: Node, x: Value, count: int) -> Value:
    """[batch, length, hidden] as [batch, heads, length, size of a head]."""
    own = shape_of(x.type)
    if len(own) != 3 or count < 1 or not same(floordiv(own[2], count) * count, own[2]):
        required = f"[batch, length, hidden], hidden a multiple of {count}, the number of heads"
        raise n.error("the columns of all heads", required, shown(own))
    batch, length, hidden = own
    size = floordiv(hidden, count)
    return n.w.transpose(n.w.reshape(x, [batch, length, count, size]), [0, 2, 1, 3])


def weighted(
    n: Node, q: Value, k: Value, v: Value, masked: Sequence[Value], keep: Value | None, cap: float = 0.0
) -> Value:
    """softmax(scale q k' + what is added, where a condition holds) v, of heads [batch, heads, length, size], and as
    [batch, length, hidden]; several heads of q read one of k and v. `cap` bounds scores before."""
    w, (batch, count, rows, size), groups = n.w, shape_of(q.type), shape_of(k.type)[1]
    if not dtype_of(q.type).is_float:
        raise n.error("attention is of numbers", "floats", str(dtype_of(q.type)))
    factor = n.float("scale")
    if not factor:
        if not isinstance(size, int):
            raise Unsupported(f"heads of a size that is known when called: {shown([size])}", [size])
        factor = max(size, 1) ** -0.5
    shared = not same(count, groups)
    names = ["b", "h", "g"] if shared else ["b", "h"]
    if shared:
        q = w.reshape(q, [batch, groups, floordiv(count, groups), rows, size])
    scores = w.contract(q, k, [*names, "m", "k"], ["b", "h", "n", "k"], [*names, "m", "n"])
    scores = w.with_number("mul", scores, factor)
    if cap:
        scores = w.with_number("mul", w.unary("tanh", w.with_number("div", scores, cap)), cap)
    shape = shape_of(scores.type)
    for added in masked:
        scores = w.op("add", scores, w.expand(_grouped(n, added, groups) if shared else added, shape))
    if keep is not None:
        keep = _grouped(n, keep, groups) if shared else keep
        scores = w.select(w.expand(keep, shape), scores, w.fill(-inf, shape, dtype_of(scores.type)))
    weights = w.op("softmax", scores, dim=len(shape) - 1)
    made = w.contract(weights, v, [*names, "m", "n"], ["b", "h", "n", "v"], [*names, "m", "v"])
    columns = shape_of(v.type)[3]
    made = w.transpose(w.reshape(made, [batch, count, rows, columns]), [0, 2, 1, 3])
    return w.reshape(made, [batch, rows, count * columns])


def _grouped(n: Node, added: Value, groups: Dim) -> Value:
    """What goes along scores of heads, by groups of heads."""
    own = shape_of(added.type)
    if len(own) != 4:
        return added
    wide = [1, 1] if same(own[1], 1) else [groups, floordiv(own[1], groups)]
    return n.w.reshape(added, [own[0], *wide, *own[2:]])


def causal(n: Node, rows: Dim, keys: Dim, past: Dim, window: int = -1) -> Value:
    """Where a key does not stand behind a query, `past` keys before the first one; of the last ones a window."""
    if not same(past + rows, keys):
        raise Unsupported(
            f"causal attention of {rows} queries behind {past} others over {keys} keys", [rows, past, keys]
        )
    row, column = (n.w.op("iota", shape=(rows, keys), dtype=si64, dim=k) for k in (0, 1))
    row = row if same(past, 0) else n.w.with_number("add", row, past)
    keep = n.w.op("greater_equal", row, column, dtype=i1)
    if window <= 0:
        return keep
    return n.w.op("and", keep, n.w.op("less", row, n.w.with_number("add", column, window), dtype=i1))


def _mask(n: Node, index: int, batch: Dim, rows: Dim, keys: Dim) -> list[Value]:
    """What a mask adds to scores: nothing, or a number below 0 to those of keys that it leaves out. It says so of each
    key, or of each query and key, or where keys end, or also where they begin."""
    if not n.has(index):
        return []
    w, x, own = n.w, n.value(index), n.shape(index)
    if len(own) == 2 and _are(own, (batch, keys)):
        kept = w.reshape(w.with_number("greater", x, 0, dtype=i1), [own[0], 1, 1, keys])
    elif len(own) == 3 and _are(own, (batch, rows, keys)):
        kept = w.reshape(w.with_number("greater", x, 0, dtype=i1), [own[0], 1, rows, keys])
    elif len(own) == 1 and any(same(own[0], extent) for extent in (batch, batch * 2, batch * 3 + 2)):
        at = w.op("iota", shape=(batch, keys), dtype=dtype_of(x.type), dim=1)
        end = w.part(x, 0, 0, batch)
        kept = w.op("less", at, w.expand(w.reshape(end, [batch, 1]), (batch, keys)), dtype=i1)
        if same(own[0], batch * 2) and not same(own[0], batch):
            first = w.expand(w.reshape(w.part(x, 0, batch, batch), [batch, 1]), (batch, keys))
            kept = w.op("and", kept, w.op("greater_equal", at, first, dtype=i1))
        kept = w.reshape(kept, [batch, 1, 1, keys])
    else:
        what = f"{shown([batch])} sequences, {shown([rows])} queries and {shown([keys])} keys"
        raise Unsupported(f"a mask {shown(own)} of {what}", [*own, batch, rows, keys])
    shape = shape_of(kept.type)
    zero, below = (w.fill(number, shape, n.dtype()) for number in (0, n.float("mask_filter_value")))
    return [w.op("select", kept, zero, below, dtype=n.dtype())]


def added_to(n: Node, index: int) -> list[Value]:
    """What is added to scores, of each query and key."""
    return [n.value_of(n.ranked(index, 4, 4))] if n.has(index) else []


def _are(own: Sequence[Dim], wanted: Sequence[Dim]) -> bool:
    """Whether these are the dims, where the first one may also be 1."""
    return (same(own[0], wanted[0]) or same(own[0], 1)) and all(map(same, own[1:], wanted[1:]))


def without(n: Node, **operands: int) -> None:
    """Raise Unsupported for operands that are there."""
    for name, index in operands.items():
        if n.has(index):
            raise Unsupported(f"the operand `{name}`")


# ------------------------------------------------------------ operators


@contributed(
    "com.microsoft.MultiHeadAttention",
    "query [key] [value] [bias] [key_padding_mask] [attention_bias] [past_key] [past_value] [past_sequence_length] "
    "[cache_indirection]",
    "output [present_key] [present_value] [qk]",
    num_heads=int, mask_filter_value=-10000.0, scale=0.0, unidirectional=0,
)  # fmt: skip
def multi_head_attention(n: Node) -> Sequence[Result]:
    """Of queries, keys and values that stand by themselves or packed, or of keys and values that are heads."""
    without(n, past_sequence_length=8, cache_indirection=9)
    count = n.int("num_heads")
    parts, are_heads = _parts(n)
    if n.has(3):
        parts = _with_bias(n, parts, are_heads)
    q = heads(n, parts[0], count)
    k, v = parts[1:] if are_heads else (heads(n, part, count) for part in parts[1:])
    if not all(same(shape_of(part.type)[1], count) for part in (k, v)):
        raise n.error("heads of keys and values", f"{count}, as of queries", shown(shape_of(k.type)))
    before, k, v = with_past(n, k, v, 6)
    return [_attended(n, q, k, v, before, mask=4, added=5), k, v]


grows("com.microsoft.MultiHeadAttention", 2, {1: 6, 2: 7})


def _parts(n: Node) -> tuple[list[Value], bool]:
    """Queries, keys and values, each [batch, length, hidden]; whether keys and values are heads."""
    own = n.ranked(0, 3, 5).shape
    if len(own) == 5 and not n.has(1) and not n.has(2):
        return _unpacked(n, n.value(0), 3), False
    if len(own) == 3 and n.has(1) and n.input(1).rank == 5 and not n.has(2):
        return [n.value(0), *_unpacked(n, n.value(1), 2)], False
    if len(own) == 3 and n.has(1) and n.has(2) and n.input(1).rank == n.input(2).rank:
        if n.ranked(1, 3, 4).rank == 4:
            return [n.value(k) for k in range(3)], True
        return [n.value(k) for k in range(3)], False
    found = ", ".join(str(n.input(k)) for k in range(3) if n.has(k))
    raise n.error(
        "queries, keys and values",
        "[batch, length, hidden] of each; keys and values packed, or heads; all packed, [.., heads, 3, size]",
        found,
    )


def _unpacked(n: Node, x: Value, count: int) -> list[Value]:
    """The parts of [batch, length, heads, count, size], each [batch, length, hidden]."""
    own = shape_of(x.type)
    if not same(own[3], count):
        raise n.error("dim 3 of what is packed", str(count), shown(own))
    parts = [n.w.part(x, 3, k, 1) for k in range(count)]
    return [n.w.reshape(part, [own[0], own[1], own[2] * own[4]]) for part in parts]


def _with_bias(n: Node, parts: Sequence[Value], are_heads: bool) -> list[Value]:
    """Queries, keys and values with their part of one list of numbers."""
    if are_heads:
        raise Unsupported("a bias beside keys and values that are heads")
    found: list[Value] = []
    offset: Dim = 0
    for part in parts:
        columns = shape_of(part.type)[2]
        found.append(n.w.binary("add", part, _columns(n, 3, offset, columns)))
        offset = offset + columns
    if not same(offset, n.ranked(3, 1, 1).shape[0]):
        raise n.error("the bias of queries, keys and values", shown([offset]), shown(n.shape(3)))
    return found


def _columns(n: Node, index: int, offset: Dim, size: Dim) -> Value:
    """A part of the last dim of an operand, one of its own where it is stored: weights are read as they lie."""
    tensor = n.input(index)
    if tensor.array is None or not isinstance(offset, int) or not isinstance(size, int):
        return n.w.part(n.value(index), tensor.rank - 1, offset, size)
    return n.w.constant(f"{identifier(tensor.name)}.{offset}", tensor.array[..., offset : offset + size])


def with_past(n: Node, k: Value, v: Value, index: int) -> tuple[Dim, Value, Value]:
    """How many keys there are of steps before, and keys and values with these: operands from this one on, results 1
    and 2."""
    room = past_room(n, index)
    if room is None:
        return 0, k, v
    return room, n.joined(index, [k], 2, 1), n.joined(index + 1, [v], 2, 2)


def past_room(n: Node, index: int) -> Dim | None:
    """How many keys operands from this one on have of steps before; None without these."""
    if n.has(index) != n.has(index + 1):
        raise n.error("keys and values of steps before", "both, or none", "one of them")
    rooms = [n.ranked(k, 4, 4).shape[2] for k in (index, index + 1) if n.has(k)]
    return rooms[0] if rooms else None


def _attended(n: Node, q: Value, k: Value, v: Value, before: Dim, mask: int, added: int) -> Value:
    """The result, of keys of which so many are of steps before."""
    batch, rows, keys = shape_of(q.type)[0], shape_of(q.type)[2], shape_of(k.type)[2]
    masked = [*_mask(n, mask, batch, rows, keys), *added_to(n, added)]
    keep = causal(n, rows, keys, before) if n.int("unidirectional") else None
    return weighted(n, q, k, v, masked, keep)


@contributed(
    "com.microsoft.Attention", "input weights [bias] [mask_index] [past] [attention_bias] [past_sequence_length]",
    "output [present]",
    num_heads=int, do_rotary=0, mask_filter_value=-10000.0, past_present_share_buffer=0, qkv_hidden_sizes=(),
    rotary_embedding_dim=0, scale=0.0, unidirectional=0,
)  # fmt: skip
def attention(n: Node) -> Sequence[Result]:
    """Of queries, keys and values that are products with parts of one matrix."""
    without(n, past_sequence_length=6)
    count, all_columns = n.int("num_heads"), n.ranked(1, 2, 2).shape[1]
    given = n.ints("qkv_hidden_sizes")
    sizes: list[Dim] = [*given] if given else [floordiv(all_columns, 3)] * 3
    if len(sizes) != 3 or min(given, default=1) < 1 or not same(sizes[0] + sizes[1] + sizes[2], all_columns):
        raise n.error("columns of queries, keys and values", shown([all_columns]), shown(sizes))
    n.ranked(0, 3, 3)
    parts: list[Value] = []
    offset: Dim = 0
    for size in sizes:
        made = multiplied(n, n.value(0), _columns(n, 1, offset, size), n.dtype())
        if n.has(2) and n.ranked(2, 1, 1):
            made = n.w.binary("add", made, _columns(n, 2, offset, size))
        parts.append(heads(n, made, count))
        offset = offset + size
    q, k, v = parts
    if not n.has(4) and not n.wants(1):
        return [_attended(n, q, k, v, 0, mask=3, added=5)]
    before = n.ranked(4, 5, 5).shape[3] if n.has(4) else 0
    both = n.w.concat([n.w.reshape(part, [1, *shape_of(part.type)]) for part in (k, v)], 0)
    both = n.joined(4, [both], 3, 1) if n.has(4) else both
    k, v = (n.w.reshape(n.w.part(both, 0, at, 1), shape_of(both.type)[1:]) for at in range(2))
    return [_attended(n, q, k, v, before, mask=3, added=5), both]


grows("com.microsoft.Attention", 3, {1: 4})
