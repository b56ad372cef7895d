"""Windows that do not overlap as dims of their own: a convolution of such windows is a contraction of views."""

from __future__ import annotations

from collections.abc import Sequence

from tcpx.payload.contexts import are_equal_at
from tcpx.payload.indexing_maps import IndexingMap, dims, map_coefficients, map_dim
from tcpx.payload.interfaces import Build, Structured
from tcpx.payload.ir import Block, Value
from tcpx.payload.sizes import Dim, Size
from tcpx.payload.traits.masked import Masked
from tcpx.payload.types import dtype_of, like, shape_of
from tcpx.records import frozen
from tcpx.transform import new
from tcpx.transform.matching import general, stand_ins


@frozen
class Apart:
    """What an operand is read as: a slice of `sizes` with `strides`, under a `shape` whose dims are `entries`."""

    strides: tuple[int, ...]
    sizes: tuple[Dim, ...]
    shape: tuple[Dim, ...]
    entries: IndexingMap

    def of(self, value: Value, build: Build) -> Value:
        """The value under these views."""
        if self.sizes != shape_of(value.type):
            value = build(new.slice_(value, (0,) * len(self.sizes), self.sizes, self.strides))
        return build(new.reshape(value, self.shape)) if self.shape != self.sizes else value


def windows_apart(op: Structured) -> tuple[Structured, Sequence[Apart]] | None:
    """A detached generic that computes what an operation does, of its inputs under views, and these; None if it reads
    no windows, or some that overlap."""
    if Masked(op).valid or len(op.results) != 1:
        return None
    found = [_apart(op, value, entries) for value, entries in zip(op.inputs, op.maps(), strict=True)]
    views = [view for view in found if view is not None]
    if len(views) < len(found) or all(view.entries == own for view, own in zip(views, op.maps(), strict=True)):
        return None
    plain = general(op.on_tiles(stand_ins(op), shape_of(op.result.type)))
    types = [like(v.type, view.shape, dtype_of(v.type)) for v, view in zip(op.inputs, views, strict=True)]
    values = Block([("", type_) for type_ in (*types, *(init.type for init in op.inits))]).args
    maps = (*(view.entries for view in views), *plain.result_maps())
    return new.generic(values, [op.result.type], {**plain.attributes, "maps": maps}, plain.regions), views


def _apart(op: Structured, value: Value, entries: IndexingMap) -> Apart | None:
    """The views of one input: windows of one tap are a slice, those as long as their distance two dims."""
    strides, sizes, shape, names = list[int](), list[Dim](), list[Dim](), list[str]()
    for extent, entry in zip(shape_of(value.type), entries, strict=True):
        name, factors = map_dim(entry), dict(map_coefficients(entry) or {})
        window = next((dim for dim in factors if not op.iterator(dim).is_reduction), "")
        if name is not None:
            found = 1, extent, {name: extent}
        elif len(factors) != 2 or not window or not isinstance(entry, Size) or entry.constant:
            return None
        else:
            stride, count = factors.pop(window), op.size_of(window)
            ((tap, apart),) = factors.items()
            if are_equal_at(op, op.size_of(tap), 1):
                found = stride, count, {window: count}
            elif apart == 1 and are_equal_at(op, op.size_of(tap), stride):
                found = 1, stride * count, {window: count, tap: stride}
            else:
                return None
        strides.append(found[0])
        sizes.append(found[1])
        names += found[2]
        shape += found[2].values()
    return Apart(tuple(strides), tuple(sizes), tuple(shape), dims(*names))
