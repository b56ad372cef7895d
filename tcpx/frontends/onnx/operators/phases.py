"""Transposed convolutions by phases: the results that are as far from a multiple of the stride read the same taps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as combinations

from tcpx.frontends.onnx.broadcasting import same
from tcpx.frontends.onnx.node import Node
from tcpx.payload.ir import Attribute, Value
from tcpx.payload.sizes import Dim, floordiv
from tcpx.payload.types import shape_of


def have_equal_phases(kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> bool:
    """Whether phases are simpler than the whole: some stride above 1, and as many taps in each phase."""
    taps = [k % s == 0 for k, s in zip(kernel, strides, strict=True)]
    return max(strides) > 1 and max(dilations) == 1 and all(taps)


def by_phases(
    n: Node, groups: int, strides: Sequence[int], before: Sequence[Dim], count: Sequence[Dim]
) -> Value | None:
    """The result [b, g, f, ..] of a transposed convolution with equal phases; each is a convolution of its own.

    `before` is what is cut off the start of each spatial dim, `count` the extents of the result. None where those are
    no multiples of the strides, or where the place of a phase is not known.
    """
    x, weight = n.value(0), n.value(1)
    shape, own, rank = shape_of(x.type), shape_of(weight.type), len(strides)
    cuts = [cut for cut in before if isinstance(cut, int) and cut >= 0]
    places = [floordiv(whole, s) for whole, s in zip(count, strides, strict=True)]
    if len(cuts) < rank or not all(same(q * s, whole) for q, s, whole in zip(places, strides, count, strict=True)):
        return None
    inner = floordiv(own[0], groups)
    read = n.w.reshape(x, [shape[0], groups, inner, *shape[2:]])
    turned = turned_weights(n, groups)
    parts = [
        _phase(n, read, turned, strides, [r + cut for r, cut in zip(phase, cuts, strict=True)], places)
        for phase in combinations(*map(range, strides))
    ]
    for dim in reversed(range(rank)):  # the phases along each dim lie behind its places
        axis, step = 4 + dim, strides[dim]
        opened = [n.w.reshape(p, [*shape_of(p.type)[:axis], 1, *shape_of(p.type)[axis:]]) for p in parts]
        parts = [n.w.concat(opened[k : k + step], axis) for k in range(0, len(opened), step)]
    return n.w.reshape(parts[0], [shape[0], groups, own[1], *count])


def turned_weights(n: Node, groups: int) -> Value:
    """The weights [g, f, c, ..] of the convolution that a transposed one is."""
    weight = n.value(1)
    own = shape_of(weight.type)
    turned = n.w.op("reverse", weight, dims=tuple(range(2, len(own))))
    turned = n.w.reshape(turned, [groups, floordiv(own[0], groups), *own[1:]])
    return n.w.transpose(turned, [0, 2, 1, *range(3, 1 + len(own))])


def _phase(
    n: Node, read: Value, turned: Value, strides: Sequence[int], starts: Sequence[int], places: Sequence[Dim]
) -> Value:
    """The results from `starts` on, a stride apart: windows of the input with every so many of the turned weights."""
    shape, own, rank = shape_of(read.type), shape_of(turned.type), len(strides)
    taps = [floordiv(k, s) for k, s in zip(own[3:], strides, strict=True)]
    first = [s - 1 - start % s for start, s in zip(starts, strides, strict=True)]
    weight = n.w.slice(turned, [0, 0, 0, *first], [*own[:3], *taps], [1, 1, 1, *strides])
    low = [t - 1 - start // s for t, start, s in zip(taps, starts, strides, strict=True)]
    high = [q + start // s - m for q, start, s, m in zip(places, starts, strides, shape[3:], strict=True)]
    read, low, high = cropped(n, read, low, high)
    names, taken = [f"o{k}" for k in range(rank)], [f"k{k}" for k in range(rank)]
    attributes: dict[str, Attribute] = {
        "input": ("b", "g", "c", *(f"{o}+{k}" for o, k in zip(names, taken, strict=True))),
        "filter": ("g", "f", "c", *taken),
        "out": ("b", "g", "f", *names),
    }
    return n.w.op(
        "convolution",
        read,
        weight,
        shape=(shape[0], shape[1], own[1], *places),
        dtype=n.dtype(),
        **attributes,
        low=low,
        high=high,
    )


def cropped(
    n: Node, x: Value, low: Sequence[Dim], high: Sequence[Dim]
) -> tuple[Value, tuple[Dim, ...], tuple[Dim, ...]]:
    """A value without the elements that a padding of less than 0 leaves out of its last dims, and what remains of the
    padding. One that is known when called is not below 0."""
    cuts = [[max(0, -p) if isinstance(p, int) else 0 for p in side] for side in (low, high)]
    shape, lead = shape_of(x.type), len(shape_of(x.type)) - len(low)
    kept = [m - a - b for m, a, b in zip(shape[lead:], *cuts, strict=True)]
    x = n.w.slice(x, [*[0] * lead, *cuts[0]], [*shape[:lead], *kept])
    before, behind = (
        tuple(p + cut for p, cut in zip(*each, strict=True)) for each in zip((low, high), cuts, strict=True)
    )
    return x, before, behind
