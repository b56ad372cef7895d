"""Operators that move elements: shapes, parts, joins, padding."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isfinite, prod
from typing import Any, Final

import numpy as np

from tcpx.frontends.onnx.broadcasting import learn_bounds, least, same, shown
from tcpx.frontends.onnx.errors import Unsupported, equality_of
from tcpx.frontends.onnx.node import Node, dtype_of_onnx, product
from tcpx.frontends.onnx.table import Result, grows, rule
from tcpx.frontends.onnx.values import MOST_ELEMENTS, Tensor, of_array
from tcpx.payload.ir import Value
from tcpx.payload.sizes import Dim, ceildiv, floordiv, is_less_equal, maximum, minimum
from tcpx.payload.sizes.context import EMPTY, Context
from tcpx.payload.sizes.expressions import total
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.types import i1, shape_of, si64
from tcpx.plurals import counted

MOST_PLACES: Final = 1 << 20
"""Of one axis, whose places are listed."""
_REPEATED = "constant reflect edge wrap".split()


@rule("Identity")
def identity(n: Node) -> Result:
    """The operand."""
    return n.input(0)


@rule("Dropout")
def dropout(n: Node) -> Sequence[Result]:
    """The operand, and a mask of what was kept: in a model that does not train, all of it."""
    training = n.version >= 12 and n.has(2) and bool(n.number(2))
    if training and n.number(1, 0.5) != 0:
        raise Unsupported("dropout with random numbers")
    mask = [n.w.fill(1, n.shape(), i1 if n.version >= 10 else n.dtype())] if n.wants(1) else []
    return [n.input(0), *mask]


@rule("Constant")
def constant(n: Node) -> Result:
    """A tensor that the node holds."""
    held: Any = n.raw("value")
    if held is not None:
        array = n.of_array(held)
    elif n.raw("value_float") is not None:
        array = np.array(n.float("value_float"), np.float32)
    elif n.raw("value_int") is not None:
        array = np.array(n.int("value_int"), np.int64)
    elif n.raw("value_floats") is not None:
        array = np.array(list(n.raw("value_floats")), np.float32)
    elif n.raw("value_ints") is not None:
        array = np.array(n.ints("value_ints"), np.int64)
    else:
        raise Unsupported(f"constants of the kind {', '.join(n.attributes) or 'none'}")
    made = of_array(n.outputs[0], array)
    if made is None:
        raise Unsupported(f"the dtype {array.dtype}")
    return made


@rule("ConstantOfShape")
def constant_of_shape(n: Node) -> Result:
    """One number in a shape."""
    held: Any = n.raw("value")
    array = n.of_array(held) if held is not None else np.zeros(1, np.float32)
    scalar = of_array(n.outputs[0], np.asarray(array))
    if scalar is None or array.size != 1:
        raise Unsupported(f"constants of {array.dtype}, {counted(array.size, 'element')}")
    shape = n.dims(0)
    number = array.ravel()[0]
    static = [d for d in shape if isinstance(d, int)]
    if len(static) == len(shape) and min(static, default=0) >= 0 and prod(static) <= MOST_ELEMENTS:
        wide = np.broadcast_to(number, static)
        return Tensor(n.outputs[0], tuple(static), scalar.dtype, array=wide, sources=n.input(0).sources)
    return n.w.fill(number.item(), tuple(shape), scalar.dtype)


@rule("EyeLike")
def eye_like(n: Node) -> Result:
    """Ones along a diagonal."""
    dtype = dtype_of_onnx(n.int("dtype")) if n.raw("dtype") is not None else n.dtype()
    shape = n.ranked(0, 2, 2).shape
    row, column = (n.w.op("iota", shape=shape, dtype=si64, dim=k) for k in (0, 1))
    row = n.w.with_number("add", row, n.int("k", 0))
    return n.w.cast(n.w.op("equal", row, column, dtype=i1), dtype)


@rule("Range")
def numbers(n: Node) -> Result:
    """Numbers from a start, a step apart."""
    dtype = n.dtype()
    if dtype.is_integer:
        (start,), (limit,), delta = n.dims(0), n.dims(1), n.integer(2)
        _check_step(n, delta)
        count = maximum(0, ceildiv(limit - start, delta) if delta > 0 else ceildiv(start - limit, -delta))
    else:
        start, limit, delta = (n.number(k) for k in range(3))
        _check_step(n, delta)
        steps = (limit - start) / delta
        if not isfinite(steps):
            raise n.error("the ends and the step of a range", "finite numbers", f"{start}, {limit}, {delta}")
        count = max(0, ceil(steps))
    at = n.w.cast(n.w.op("iota", shape=(count,), dtype=si64, dim=0), dtype)
    made = n.w.with_number("mul", at, delta) if delta != 1 else at
    return n.w.with_number("add", made, start) if isinstance(start, float) or not same(start, 0) else made


def _check_step(n: Node, delta: float) -> None:
    if delta == 0:
        raise n.error("the step of a range is 0", "another number", "0")


@rule("Reshape")
def reshape(n: Node) -> Result:
    """Another shape; 0 stands for the dim of the operand, -1 for what is left."""
    own = n.shape()
    wanted = n.dims(1) if n.version >= 5 else list(n.ints("shape"))
    zeros = [k for k, d in enumerate(wanted) if isinstance(d, int) and d == 0]
    if not n.int("allowzero", 0):
        if any(k >= len(own) for k in zeros):
            raise n.error(
                "0 stands for a dim of the operand", f"0 among the first {counted(len(own), 'dim')}", shown(wanted)
            )
        wanted = [own[k] if k in zeros else d for k, d in enumerate(wanted)]
    elif zeros and -1 in wanted:
        raise n.error("with `allowzero`, what -1 stands for is not known beside 0", "0 or -1", shown(wanted))
    if sum(isinstance(d, int) and d == -1 for d in wanted) > 1:
        raise n.error("more than one dim is left open", "one -1", shown(wanted))
    rest = [d for d in wanted if not (isinstance(d, int) and d == -1)]
    made = [quotient(n, own, rest) if isinstance(d, int) and d == -1 else d for d in wanted]
    before, after = product(n, own), product(n, made)
    if not same(before, after):
        learn_bounds([*own, *made])
    if not n.equal(before, after):
        raise n.error("a reshape keeps the number of elements", f"as many as {shown(own)}", shown(made), [*own, *made])
    return n.w.reshape(n.value(0), made)


def quotient(n: Node, dims: Sequence[Dim], divisors: Sequence[Dim]) -> Dim:
    """The product of dims over that of others, which divides it."""
    above, below = list(dims), list(divisors)
    for divisor in divisors:
        equal = next((k for k, d in enumerate(above) if not isinstance(d, int) and same(d, divisor)), None)
        if equal is not None:
            del above[equal]
            below.remove(divisor)
    over, under = product(n, above), product(n, below)
    if isinstance(under, int) and under == 0:
        return 0
    return floordiv(over, under)


@rule("Flatten")
def flatten(n: Node) -> Result:
    """Two dims: those before an axis, and the rest."""
    own = n.shape()
    axis = n.axis(len(own), default=1, most=len(own) + 1)
    return n.w.reshape(n.value(0), [product(n, own[:axis]), product(n, own[axis:])])


def given_axes(n: Node, index: int) -> list[int] | None:
    """Axes that are an operand, or an attribute of older opsets."""
    if n.has(index):
        return n.numbers(index)
    return n.ints("axes") if n.raw("axes") is not None else None


@rule("Squeeze")
def squeeze(n: Node) -> Result:
    """Without dims of 1."""
    own, axes = n.shape(), given_axes(n, 1)
    if axes is None:
        chosen = [k for k, d in enumerate(own) if same(d, 1)]
        for k in (k for k in range(len(own)) if k not in chosen):
            least = Predicate.of("<=", 2, own[k]) if is_less_equal(1, own[k]) else Predicate.of("!=", own[k], 1)
            message = f"without axes, dim {k} would be left out at size 1; then {equality_of(own[k], 1)} is needed"
            n.demand(least, message, [own[k]])
    else:
        chosen = n.axes(axes, len(own))
    wider = next((own[k] for k in chosen if not n.equal(own[k], 1)), None)
    if wider is not None:
        raise n.error("a dim that is left out is 1", "dims of 1", shown([own[k] for k in chosen]), equal=(wider, 1))
    x = n.w.as_equal(n.value(0), tuple(1 if k in chosen else d for k, d in enumerate(own)))
    return n.w.reshape(x, [d for k, d in enumerate(own) if k not in chosen])


@rule("Unsqueeze")
def unsqueeze(n: Node) -> Result:
    """With dims of 1."""
    own, axes = list(n.shape()), given_axes(n, 1)
    if axes is None:
        raise n.error("the axes are missing", "an operand or attribute `axes`", "none")
    for axis in sorted(n.axes(axes, len(own) + len(axes))):
        own.insert(axis, 1)
    return n.w.reshape(n.value(0), own)


@rule("Transpose")
def transpose(n: Node) -> Result:
    """Dims in another order, reversed if none is said."""
    rank = n.input(0).rank
    order = n.axes(n.ints("perm", list(range(rank))[::-1]), rank)
    if len(order) != rank:
        raise n.error("`perm` names every dim", f"{rank} axes", str(order))
    return n.w.transpose(n.value(0), order)


@rule("Expand")
def expand(n: Node) -> Result:
    """Broadcast with a shape, also where the operand is the larger one."""
    wanted = n.dims(1)
    if any(is_less_equal(d, -1) is True for d in wanted):
        raise n.error("sizes to broadcast to", "numbers of 0 or more", shown(wanted))
    return n.w.expand(n.value(0), n.w.broadcast_shape(n.shape(), wanted))


@rule("Tile")
def tile(n: Node) -> Result:
    """The operand several times along each dim."""
    own, counts = n.shape(), n.dims(1)
    if len(counts) != len(own):
        raise n.error("a count for each dim", f"{len(own)} counts", f"{len(counts)}")
    wide: list[Dim] = []
    places: list[int] = []
    for extent, count in zip(own, counts, strict=True):
        wide += [extent] if same(count, 1) else [count, extent]
        places.append(len(wide) - 1)
    spread = n.w.op("broadcast", n.value(0), shape=tuple(wide), dims=tuple(places))
    return n.w.reshape(spread, [a * b for a, b in zip(own, counts, strict=True)])


@rule("Concat")
def concat(n: Node) -> Result:
    """One behind another."""
    rank = n.input(0).rank
    axis = n.axis(rank, default=1 if n.version < 4 else None)
    first, others = n.shape(), list[Value]()
    for index in range(1, len(n.inputs)):
        other = n.ranked(index, rank, rank).shape
        for k, pair in enumerate(zip(first, other, strict=True)):
            if k != axis and not n.equal(*pair):
                raise n.error("dims beside the axis differ", shown(first), shown(other), equal=pair)
        whole = tuple(other[k] if k == axis else d for k, d in enumerate(first))
        others.append(n.w.as_equal(n.value(index), whole))
    return n.joined(0, others, axis) if len(n.inputs) > 1 else n.input(0)


grows("Concat", None, {0: 0})


@rule("Split")
def split(n: Node) -> Sequence[Result]:
    """Parts along an axis: of these sizes, or of one size."""
    own = n.shape()
    axis = n.axis(len(own), default=0)
    if n.has(1):
        sizes = n.dims(1)
    elif n.raw("split") is not None:
        sizes = list(n.ints("split"))
    else:
        count = n.int("num_outputs", len(n.outputs))
        step = ceildiv(own[axis], max(count, 1))
        sizes = [minimum(step, own[axis] - step * k) for k in range(count)]
    whole = total(sizes)
    if not n.equal(own[axis], whole):
        pair = own[axis], whole
        raise n.error("the parts are not as long as the dim", shown(pair[:1]), shown(pair[1:]), equal=pair)
    made: list[Result] = []
    offset: Dim = 0
    x = n.w.with_dim(n.value(0), axis, whole)
    for size in sizes:
        made.append(n.w.part(x, axis, offset, size))
        offset = offset + size
    return made


@rule("Slice")
def slice_(n: Node) -> Result:
    """A part of each axis, by steps that may go back."""
    own = n.shape()
    if n.version < 10:
        starts, ends = list(n.ints("starts")), list(n.ints("ends"))
        axes, steps = n.ints("axes", list(range(len(starts)))), [1] * len(starts)
    else:
        starts, ends = n.dims(1), n.dims(2)
        axes = n.numbers(3) if n.has(3) else list(range(len(starts)))
        steps = n.numbers(4) if n.has(4) else [1] * len(starts)
    axes = n.axes(axes, len(own))
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise n.error(
            "starts, ends, axes and steps", f"{len(starts)} of each", f"{len(ends)}, {len(axes)}, {len(steps)}"
        )
    sizes, strides = list(own), [1] * len(own)
    offsets: list[Dim] = [0] * len(own)
    parts: list[tuple[Dim, Dim]] = [(0, extent) for extent in own]
    back: list[int] = []
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        extent = own[axis]
        if step == 0:
            raise n.error("a step of a slice is 0", "another number", "0")
        if step > 0:
            low, high = (bounded(place, extent, 0, extent, n.w.facts) for place in (start, end))
            size = ceildiv(maximum(0, high - low), step)
            parts[axis] = low, maximum(low, high) - low
        else:
            first, last = bounded(start, extent, 0, extent - 1), bounded(end, extent, -1, extent - 1)
            size = ceildiv(maximum(0, first - last), -step)
            low = extent - 1 - first
            parts[axis] = last + 1, maximum(first, last) - last
            back.append(axis)
        offsets[axis], sizes[axis], strides[axis] = (0 if same(size, 0) else low), size, abs(step)
    x = n.value(0)
    ends = (o + (size - 1) * step + 1 for o, size, step in zip(offsets, sizes, strides, strict=True))
    known = [Predicate.of("<=", 0, o) & Predicate.of("<=", e, d) for o, e, d in zip(offsets, ends, own, strict=True)]
    if not all(map(n.w.facts.decide, known)):  # a part, and steps in it: of each of them the end is known to be inside
        x = n.w.slice(x, [offset for offset, _ in parts], [extent for _, extent in parts])
        offsets = [0] * len(own)
        sizes = [ceildiv(extent, step) for (_, extent), step in zip(parts, strides, strict=True)]
    turned = n.w.op("reverse", x, dims=tuple(sorted(back))) if back else x
    return n.w.slice(turned, offsets, sizes, strides)


def bounded(place: Dim, extent: Dim, low: Dim, high: Dim, facts: Context = EMPTY) -> Dim:
    """A place that counts from the end where it is negative, between two bounds."""
    if isinstance(place, int) and place >= 1 << 31:
        return high
    if isinstance(place, int) and place < -(1 << 31):
        return low
    if is_less_equal(place, -1) is True:
        place = place + extent
    elif is_less_equal(0, place) is not True:
        raise Unsupported(f"a slice from or to {place}, which may be negative", [place])
    return least(maximum(place, low), high, facts)


@rule("Pad")
def pad(n: Node) -> Result:
    """Elements before and behind each axis: a number, or elements of the operand."""
    own = n.shape()
    rank, mode = len(own), n.text("mode", "constant")
    pads = n.dims(1) if n.version >= 11 else list(n.ints("pads"))
    axes = n.axes(n.numbers(3), rank) if n.has(3) else list(range(rank))
    if len(pads) != 2 * len(axes):
        raise n.error("padding before and behind each axis", f"{2 * len(axes)} numbers", str(len(pads)))
    low: list[Dim] = [0] * rank
    high: list[Dim] = [0] * rank
    for k, axis in enumerate(axes):
        low[axis], high[axis] = pads[k], pads[k + len(axes)]
    x = n.value(0)
    cut_low, cut_high = ([minimum(0, p) for p in side] for side in (low, high))
    if any(not same(c, 0) for c in (*cut_low, *cut_high)):
        inner = [d + a + b for d, a, b in zip(own, cut_low, cut_high, strict=True)]
        x = n.w.slice(x, [0 - c for c in cut_low], inner)
        low, high = [maximum(0, p) for p in low], [maximum(0, p) for p in high]
    if mode == "constant":
        number = n.number(2) if n.version >= 11 else n.float("value", 0.0)
        return n.w.pad(x, low, high, number)
    if mode not in _REPEATED:
        raise Unsupported(f"the mode {mode}")
    for axis in range(rank):
        x = _repeated(n, x, axis, low[axis], high[axis], mode)
    return x


def _repeated(n: Node, x: Value, axis: int, low: Dim, high: Dim, mode: str) -> Value:
    """Padding by elements of the operand along one axis."""
    if same(low, 0) and same(high, 0):
        return x
    extent = shape_of(x.type)[axis]
    if not (isinstance(extent, int) and isinstance(low, int) and isinstance(high, int)):
        n.demand(Predicate.of("<=", 1, extent), "elements of an empty dim cannot be repeated", [extent])
        return n.w.along(x, _places(n, extent, low, high, mode), axis)
    if extent == 0:
        raise n.error("nothing can be repeated of an empty dim", "1 element or more", "0")
    if extent + low + high > MOST_PLACES:
        raise Unsupported(f"padding by {mode} to more than {MOST_PLACES} elements")
    at = np.arange(-low, extent + high, dtype=np.int64)
    period = max(1, 2 * (extent - 1))
    turned = at % period
    places = {
        "edge": np.clip(at, 0, extent - 1),
        "wrap": at % extent,
        "reflect": np.minimum(turned, period - turned) if extent > 1 else at * 0,
    }[mode]
    return n.w.take(x, n.w.constant(f"{n.w.prefix}.places", places), axis)


def _places(n: Node, extent: Dim, low: Dim, high: Dim, mode: str) -> Value:
    """The index along a dim of each element of its padding, and of those between."""
    w, shape = n.w, (extent + low + high,)
    at = w.with_number("sub", w.op("iota", shape=shape, dtype=si64, dim=0), low)
    if mode == "edge":
        return w.with_number("min", w.with_number("max", at, 0), extent - 1)
    if mode == "wrap":
        return w.with_number("mod", at, extent)
    period = maximum(1, 2 * (extent - 1))
    turned = w.with_number("mod", at, period)
    return w.op("min", turned, w.with_number("sub", turned, period, first=True))


@rule("Trilu")
def trilu(n: Node) -> Result:
    """What is above or below a diagonal, else 0."""
    x, shape = n.value(0), n.ranked(0, 2).shape
    k = n.dims(1)[0] if n.has(1) else 0
    row, column = (n.w.op("iota", shape=shape[-2:], dtype=si64, dim=d) for d in (0, 1))
    if not same(k, 0):
        row = n.w.with_number("add", row, k)
    kept = n.w.op("less_equal" if n.int("upper", 1) else "greater_equal", row, column, dtype=i1)
    return n.w.select(kept, x, n.w.fill(0, shape, n.dtype()))


@rule("DepthToSpace")
def depth_to_space(n: Node) -> Result:
    """Channels as blocks of pixels."""
    b, c, h, w = n.ranked(0, 4, 4).shape
    size = n.int("blocksize")
    if size < 1 or not same(floordiv(c, size * size) * (size * size), c):
        raise n.error("channels are blocks", f"a multiple of {size * size}", shown([c]))
    rest = floordiv(c, size * size)
    if n.text("mode", "DCR") == "DCR":
        wide, order = n.w.reshape(n.value(0), [b, size, size, rest, h, w]), (0, 3, 4, 1, 5, 2)
    else:
        wide, order = n.w.reshape(n.value(0), [b, rest, size, size, h, w]), (0, 1, 4, 2, 5, 3)
    return n.w.reshape(n.w.transpose(wide, order), [b, rest, h * size, w * size])


@rule("SpaceToDepth")
def space_to_depth(n: Node) -> Result:
    """Blocks of pixels as channels."""
    b, c, h, w = n.ranked(0, 4, 4).shape
    size = n.int("blocksize")
    if size < 1 or not all(same(floordiv(d, size) * size, d) for d in (h, w)):
        raise n.error("height and width are blocks", f"multiples of {size}", shown([h, w]))
    wide = n.w.reshape(n.value(0), [b, c, floordiv(h, size), size, floordiv(w, size), size])
    made = n.w.transpose(wide, (0, 3, 5, 1, 2, 4) if n.text("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4))
    return n.w.reshape(made, [b, c * (size * size), floordiv(h, size), floordiv(w, size)])


@rule("ReverseSequence")
def reverse_sequence(n: Node) -> Result:
    """The first elements of each sequence reversed, as many as it has."""
    x, shape = n.value(0), n.ranked(0, 2).shape
    time, batch = n.axis(2, "time_axis", 0), n.axis(2, "batch_axis", 1)
    pair = shape[:2]
    at = n.w.op("iota", shape=pair, dtype=si64, dim=time)
    counts = n.w.op("broadcast", n.w.cast(n.value(1), si64), shape=pair, dims=(batch,))
    other = n.w.op("sub", n.w.with_number("sub", counts, 1), at)
    places = n.w.op("select", n.w.op("less", at, counts, dtype=i1), other, at, dtype=si64)
    along = n.w.op("broadcast", places, shape=shape, dims=(0, 1))
    return n.w.op("gather_elements", x, along, dim=time, out_of_range="fill")


@rule("Compress")
def compress(n: Node) -> Result:
    """The elements for which a condition holds that is known."""
    places = np.flatnonzero(n.array(1)).astype(np.int64)
    if n.raw("axis") is None:
        x, axis = n.w.reshape(n.value(0), [product(n, n.shape())]), 0
    else:
        x, axis = n.value(0), n.axis(n.input(0).rank)
    return n.w.take(x, n.w.constant(f"{n.w.prefix}.places", places), axis)
