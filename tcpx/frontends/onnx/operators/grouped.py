"""Attention of which several heads of queries read one of keys, with a cache: GroupQueryAttention of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence

from tcpx.frontends.onnx.broadcasting import same, shown
from tcpx.frontends.onnx.errors import Unsupported
from tcpx.frontends.onnx.node import Node
from tcpx.frontends.onnx.operators.attention import added_to, causal, heads, past_room, weighted, with_past, without
from tcpx.frontends.onnx.operators.rotary import turned
from tcpx.frontends.onnx.table import Result, contributed, grows
from tcpx.payload.ir import Value
from tcpx.payload.sizes import Dim, floordiv, maximum
from tcpx.payload.types import i1, shape_of, si64


@contributed(
    "com.microsoft.GroupQueryAttention",
    "query [key] [value] [past_key] [past_value] seqlens_k total_sequence_length [cos_cache] [sin_cache] "
    "[position_ids] [attention_bias] [head_sink] [k_scale] [v_scale] [q_norm_weight] [k_norm_weight] [query_seqlens]",
    "output [present_key] [present_value] [output_qk]",
    num_heads=int, kv_num_heads=int, causal=1, do_rotary=0, k_norm_epsilon=1e-6, k_quant_type="NONE",
    kv_cache_bit_width=0, local_window_size=-1, q_norm_epsilon=1e-6, qk_norm_epsilon=1e-6, qk_output=0,
    rotary_interleaved=0, scale=0.0, sliding_window_cache=0, smooth_softmax=0, softcap=0.0, v_quant_type="NONE",
)  # fmt: skip
def group_query_attention(n: Node) -> Sequence[Result]:
    """Each sequence of the batch has as many keys as it has by now; those that are new stand behind the others. Where
    all have as many, as they do of one sequence, positions alone say which keys a query reads."""
    without(n, position_ids=9, head_sink=11, k_scale=12, v_scale=13, q_norm_weight=14, k_norm_weight=15)
    without(n, query_seqlens=16)
    q, k, v = _parts(n)
    w, (batch, _, length, _) = n.w, shape_of(q.type)
    past, total = past_room(n, 3), _total(n)
    room: Dim = 0 if past is None else past
    is_even = same(total, room + length) and (past is None or same(batch, 1))
    if past is None and not is_even:
        reason = f"{total} keys without those of steps before, beside {length} new ones"
        raise Unsupported(reason, equal=(total, length))
    first = None if is_even else _first(n, length)
    if n.int("do_rotary"):
        places = w.op("iota", shape=(length,), dtype=si64, dim=0)
        places = w.with_number("add", places, room) if first is None else _plus_each(n, first, length)
        tables, columns = [n.value_of(n.ranked(index, 2, 2)) for index in (7, 8)], n.shape(7)[1] * 2
        q, k = (turned(n, x, 1, places, tables, bool(n.int("rotary_interleaved")), columns) for x in (q, k))
    if first is None:
        _, k, v = with_past(n, k, v, 3)
    elif any(n.in_place(3 + at, 1 + at) for at in range(2)):
        reason = "a cache that is state, of several sequences: keys behind the end of each would have to be 0"
        raise Unsupported(f"{reason}, and they are what the memory holds", equal=(batch, 1))
    else:
        k, v = (_placed(n, n.value(3 + at), new, first, maximum(room, total)) for at, new in enumerate((k, v)))
    keys, window = shape_of(k.type)[2], n.int("local_window_size")
    if not window:
        raise n.error("the keys that a query reads", "1 or more, or -1: all", "0")
    if not n.int("causal") and first is not None:
        raise Unsupported("attention that is not causal over a cache")
    if not n.int("causal"):
        keep = None
    elif first is None:
        keep = causal(n, length, keys, room, window)
    else:
        keep = _before(n, _plus_each(n, first, length), keys, window)
    return [weighted(n, q, k, v, added_to(n, 10), keep, n.float("softcap")), k, v]


grows("com.microsoft.GroupQueryAttention", 2, {1: 3, 2: 4})


def _parts(n: Node) -> tuple[Value, Value, Value]:
    """The heads of queries, keys and values, which may be packed."""
    counts = n.int("num_heads"), n.int("kv_num_heads"), n.int("kv_num_heads")
    if min(counts) < 1 or counts[0] % counts[1]:
        raise n.error("heads of queries in groups", f"a multiple of {counts[1]}", str(counts[0]))
    hidden = n.ranked(0, 3, 3).shape[2]
    if n.has(1) != n.has(2):
        raise n.error("keys and values", "both, or none", "one of them")
    if n.has(1):
        q, k, v = (heads(n, n.value(index), count) for index, count in enumerate(counts))
        return q, k, v
    size = floordiv(hidden, sum(counts))
    if not same(size * sum(counts), hidden):
        raise n.error("the columns of all heads", f"a multiple of {sum(counts)}", shown([hidden]))
    found: list[Value] = []
    offset: Dim = 0
    for count in counts:
        found.append(heads(n, n.w.part(n.value(0), 2, offset, size * count), count))
        offset = offset + size * count
    return found[0], found[1], found[2]


def _total(n: Node) -> Dim:
    """The number of keys of the longest sequence, which sizes say."""
    found = n.dims(6)
    if len(found) != 1:
        raise n.error("the number of all keys", "one number", shown(n.shape(6)))
    return found[0]


def _first(n: Node, length: Dim) -> Value:
    """The position of the first query of each sequence: as many keys as there are, less those that are new."""
    last = n.w.cast(n.value(5), si64)
    last = n.w.reshape(last, (shape_of(n.value(0).type)[0],))
    return n.w.with_number("max", n.w.with_number("add", last, 1 - length), 0)


def _plus_each(n: Node, first: Value, length: Dim) -> Value:
    """The positions of queries, [batch, length]."""
    batch = shape_of(first.type)[0]
    at = n.w.op("iota", shape=(batch, length), dtype=si64, dim=1)
    return n.w.op("add", at, n.w.op("broadcast", first, shape=(batch, length), dims=(0,)))


def _before(n: Node, places: Value, keys: Dim, window: int) -> Value:
    """Where a key does not stand behind the query at a place; of the last ones a window."""
    batch, length = shape_of(places.type)
    shape = (batch, length, keys)
    column = n.w.op("iota", shape=shape, dtype=si64, dim=2)
    row = n.w.op("broadcast", places, shape=shape, dims=(0, 1))
    keep = n.w.op("greater_equal", row, column, dtype=i1)
    if window > 0:
        keep = n.w.op("and", keep, n.w.op("less", row, n.w.with_number("add", column, window), dtype=i1))
    return n.w.reshape(keep, (batch, 1, length, keys))


def _placed(n: Node, old: Value, new: Value, first: Value, keys: Dim) -> Value:
    """What is new behind the keys that each sequence has, and 0 behind."""
    w, (batch, count, room, size) = n.w, shape_of(old.type)
    table = w.transpose(w.concat([old, new], 2), [0, 2, 1, 3])
    at = w.op("iota", shape=(batch, keys), dtype=si64, dim=1)
    start = w.op("broadcast", first, shape=(batch, keys), dims=(0,))
    behind = w.with_number("add", w.op("sub", at, start), room)
    places = w.op("select", w.op("less", at, start, dtype=i1), at, behind, dtype=si64)
    which = w.op("iota", shape=(batch, keys), dtype=si64, dim=0)
    held = w.op("gather_nd", table, which, places, shape=(batch, keys, count, size), dim=0, out_of_range="fill")
    return w.transpose(held, [0, 2, 1, 3])
