"""Sums over windows by fewer multiplications: transforms of windows and filters, their products, and sums of these."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from tcpx.payload.contraction import note_rounding
from tcpx.payload.diagnostics import Direction
from tcpx.payload.indexing_maps import dim_symbol, dims, map_coefficients, map_dim, map_dims
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.sizes import Dim, Size, ceildiv, floordiv, is_equal, mod, to_text
from tcpx.payload.traits.masked import Masked
from tcpx.payload.types import ScalarType, TensorType, dtype_of, f32, f64, shape_of
from tcpx.records import frozen
from tcpx.transform import new
from tcpx.transform.constant_folding import stored_name
from tcpx.transform.cook_toom import MOST_PRODUCTS, Filtering, Matrix, filtering
from tcpx.transform.declaration import TransformContext
from tcpx.transform.editing import rename_inside, source_name
from tcpx.transform.tiling import check_on_tensors
from tcpx.transform.vectors.probes import sums_products

Names = tuple[str, ...]


@frozen
class Windows:
    """The windows along one dim of the result: `dim` + `tap` is the index of the elements."""

    dim: str
    tap: str
    count: int
    """How many sums are computed together: `m`, or 1 where there is one tap."""
    element: str
    """The name of the dim of the elements that these sums read."""
    matrices: Filtering


@frozen
class Filtered:
    """A sum of products over windows: which operand is read by them, and the dims of both and of the result. A window
    is one entry of `read`, its dim in the result."""

    elements: Value
    filter: Value
    read: Names
    own: Names
    out: Names
    windows: tuple[Windows, ...]


class Winograd:
    """The rewrite of one operation. What it makes goes before it."""

    def __init__(self, ctx: TransformContext, op: Structured, found: Filtered) -> None:
        self.ctx, self.op, self.found = ctx, op, found
        self.dtype = op.acc_type if op.acc_type.bits >= f32.bits else f32
        self.extents = {name: op.size_of(name) for name in (*found.out, *found.own)}
        self.tiles = {w.dim: ceildiv(self.extents[w.dim], w.count) for w in found.windows}

    def apply(self) -> tuple[Operation, Operation, Operation, Operation, Operation]:
        """Replace the operation; the first and last transform of its elements, the product, the first and last one of
        the sums."""
        elements = self._elements()
        product = self._product(elements[-1].results[0], self._filter())
        sums = self._sums(product.results[0])
        value, rewriter = sums[-1].results[0], self.ctx.rewriter
        for init in self.op.inits:
            value = self._insert(new.add(self._cast(init, "sum"), value), "sum").results[0]
        if self.dtype != self.op.acc_type:
            value = self._insert(new.cast(value, self.op.acc_type), "rounded").results[0]
        rewriter.rename(product, self.op.name)
        rewriter.continue_as(self.op, product)
        rewriter.replace_op(self.op, [value])
        note_rounding(rewriter, f"winograd(m: {max(w.count for w in self.found.windows)})")
        return elements[0], elements[-1], product, sums[0], sums[-1]

    # -- the three parts -------------------------------------------------------------------------------------------

    def _elements(self) -> list[Operation]:
        """What is multiplied of the elements: [taps.., dims of the elements..]; a window is one tile of sums."""
        found, value, made = self.found, self._cast(self._in_whole_tiles(), "wide"), list[Operation]()
        names: Names = found.read
        for window in found.windows:
            entry = window.count * dim_symbol(window.dim).size() + dim_symbol(window.element).size()
            read = tuple(entry if name == window.dim else dim_symbol(name).size() for name in names)
            done = tuple(w.tap for w in found.windows[: found.windows.index(window) + 1])
            result = (*done, *found.read)
            kept = dict(zip(names, shape_of(value.type), strict=True)) | {window.dim: self.tiles[window.dim]}
            row = dim_symbol(window.tap).size(), window.element
            made.append(self._transformed(value, read, result, kept, (row, window.matrices.element), "elements"))
            value, names = made[-1].results[0], result
        return made

    def _in_whole_tiles(self) -> Value:
        """The elements with zeros for those that only sums beyond the result read."""
        value, shape = self.found.elements, list(shape_of(self.found.elements.type))
        for window in self.found.windows:
            place = self.found.read.index(window.dim)
            shape[place] = shape[place] + window.count * self.tiles[window.dim] - self.extents[window.dim]
        if all(is_equal(a, b) is True for a, b in zip(shape, shape_of(value.type), strict=True)):
            return value
        return self._insert(new.pad(value, shape, 0), "whole").results[0]

    def _filter(self) -> Value:
        """What is multiplied of the filter: [taps.., its other dims..], computed in f64 and rounded once. The dims that
        products read side by side are innermost."""
        found, value = self.found, self.found.filter
        if self.dtype != f64:
            value = self._insert(new.cast(value, f64), "filter").results[0]
        names: Names = found.own
        for window in found.windows:
            read = tuple(dim_symbol(window.element if name == window.tap else name).size() for name in names)
            is_last = window is found.windows[-1]
            result = (*(w.tap for w in found.windows), *self._order_of_filter()) if is_last else names
            kept = dict(zip(names, shape_of(value.type), strict=True))
            row = dim_symbol(window.tap).size(), window.element
            made = self._transformed(value, read, result, kept, (row, window.matrices.weight), "filter")
            value, names = made.results[0], result
        return value if self.dtype == f64 else self._insert(new.cast(value, self.dtype), "filter").results[0]

    def _order_of_filter(self) -> Names:
        """The dims of the filter that are not taps: those of each product outside, then the rows of a right factor, or
        of a left one where the innermost dim of the result is one of the elements."""
        found, taps = self.found, {w.tap for w in self.found.windows}
        shared = [name for name in found.own if name in found.out and name in found.read]
        summed = [name for name in found.own if name not in found.out and name not in taps]
        kept = [name for name in found.out if name in found.own and name not in found.read]
        inner = (*summed, *kept) if found.out[-1] in kept else (*kept, *summed)
        return (*shared, *inner)

    def _product(self, elements: Value, weights: Value) -> Operation:
        """For each combination of taps, the products of elements and weights, summed over channels."""
        found, taps = self.found, tuple(w.tap for w in self.found.windows)
        shape = (*(len(w.matrices.element) for w in found.windows), *self._shape_of_tiles())
        names = (*taps, *found.read), (*taps, *self._order_of_filter()), (*taps, *found.out)
        return self._insert(new.contract(elements, weights, TensorType(shape, self.dtype), *names), "product")

    def _sums(self, value: Value) -> list[Operation]:
        """The sums: of windows along each dim, in place of its tiles, the last dim first."""
        found, made = self.found, list[Operation]()
        names: Names = (*(w.tap for w in found.windows), *found.out)
        for window in reversed(found.windows):
            dim, result = dim_symbol(window.dim).size(), tuple(name for name in names if name != window.tap)
            read = tuple(
                floordiv(dim, window.count) if name == window.dim else dim_symbol(name).size() for name in names
            )
            kept = dict(zip(names, shape_of(value.type), strict=True)) | {window.dim: self.extents[window.dim]}
            row = mod(dim, window.count), window.tap
            made.append(self._transformed(value, read, result, kept, (row, window.matrices.sums), "sums"))
            value, names = made[-1].results[0], result
        return made

    def _shape_of_tiles(self) -> tuple[Dim, ...]:
        """The shape of the result, of tiles in place of sums."""
        return tuple(self.tiles.get(name, self.extents[name]) for name in self.found.out)

    def _cast(self, value: Value, name: str) -> Value:
        """A value in the dtype of the transforms."""
        return (
            value if dtype_of(value.type) == self.dtype else self._insert(new.cast(value, self.dtype), name).results[0]
        )

    # -- making ----------------------------------------------------------------------------------------------------

    def _transformed(
        self,
        value: Value,
        read: Sequence[Dim],
        result: Names,
        extents: Mapping[str, Dim],
        by: tuple[tuple[Dim, str], Matrix],
        name: str,
    ) -> Operation:
        """The sums of the products of rows of a matrix with a value: `by` are which row it is, the dim of its columns,
        and the matrix. A coefficient of 0 adds nothing, so that an infinity does not become NaN there."""
        (row, column), matrix = by
        dtype, own = dtype_of(value.type), map_dim(row)
        sizes = {**extents, own: len(matrix)} if own is not None else extents
        attributes = {
            "iterators": (*((n, "parallel") for n in result), (column, "reduction")),
            "maps": ((row, dim_symbol(column).size()), tuple(read), dims(*result)),
            "combiner": "tcp.add",
        }
        operands, type_ = [self._matrix(matrix, dtype, name), value], TensorType(tuple(sizes[n] for n in result), dtype)
        body = _products_with_others_than_zero(dtype)
        return self._insert(new.generic(operands, [type_], attributes, [body]), name)

    def _matrix(self, matrix: Matrix, dtype: ScalarType, name: str) -> Value:
        array = np.array([[float(entry) for entry in row] for row in matrix]).astype(dtype.numpy)
        stored = stored_name(self.ctx, array, f"winograd.{name}")
        return self._insert(new.stored(stored, TensorType(array.shape, dtype)), name).results[0]

    def _insert(self, made: Operation, name: str) -> Operation:
        made.stand_for(self.op)
        rename_inside(self.ctx.rewriter, made, self.op)
        return self.ctx.rewriter.insert(made, InsertPoint.before(self.op), f"{source_name(self.op)}/{name}")


def _products_with_others_than_zero(dtype: ScalarType) -> Block:
    """The body of a sum of products with coefficients, in which one of 0 has no product."""
    block = Block([("c", dtype), ("e", dtype), ("acc", dtype)])
    coefficient, element, acc = block.args

    def build(op: Operation) -> Value:
        op.name = op.results[0].name = f"v{len(block.ops)}"
        return block.append(op).results[0]

    product = build(new.multiply(coefficient, element))
    counts = build(new.not_equal(coefficient, build(new.literal(0.0, dtype))))
    term = build(new.select(counts, product, build(new.literal(-0.0, dtype))))
    block.append(new.yielded([build(new.add(acc, term))]))
    return block


# -- what can be rewritten -------------------------------------------------------------------------------------------


def filtered(ctx: TransformContext, op: Operation, m: int) -> tuple[Structured, Filtered]:
    """What `winograd` needs to know of an operation. Raises ScheduleError, located, of one that it cannot rewrite."""
    if m < 2:
        raise ctx.fail("one sum at a time saves no multiplications", op=op, required="m: 2 or more", found=f"m: {m}")
    if not isinstance(op, Structured):
        raise _refused(ctx, op, op.opcode)
    check_on_tensors(ctx, op)
    out, maps = map_dims(op.result_map()) if len(op.results) == 1 else None, op.maps()
    if out is None or len(maps) != 2 or not sums_products(op) or Masked(op).valid:
        raise _refused(ctx, op, f"{op.opcode} with {len(maps)} operands")
    dtypes = {dtype_of(value.type) for value in (*op.inputs, op.result)}
    if not all(dtype.is_float for dtype in dtypes):
        raise ctx.fail(
            f"%{op.name} has no floats to transform",
            op=op,
            required="a float dtype of both operands and of the result",
            found=", ".join(sorted(map(str, dtypes))),
            fix=Direction("leave it as it is: its sums are exact"),
        )
    own = map_dims(maps[1])
    index = 0 if own is not None else 1
    own = own if own is not None else map_dims(maps[0])
    if own is None:
        raise _refused(ctx, op, "windows in both operands")
    pairs = [_pair(ctx, op, entry, own, out) for entry in maps[index]]
    taken = {it.name for it in op.iterators()}
    windows = [Windows(*pair, *_counts(ctx, op, pair, m, taken)) for pair in pairs if len(pair) == 2]
    read = tuple(pair[0] for pair in pairs)
    taps = {window.tap for window in windows}
    summed = [it.name for it in op.iterators() if it.is_reduction and it.name not in taps]
    _check_dims(ctx, op, windows, summed, (read, own, out))
    return op, Filtered(op.inputs[index], op.inputs[1 - index], read, own, out, tuple(windows))


def _refused(ctx: TransformContext, op: Operation, found: str) -> Exception:
    written, why = op.written_as or ("", "")
    return ctx.fail(
        f"%{op.name} does not sum products over windows",
        op=op,
        required="a sum of products of two operands, one of which is read by windows, and the other by single dims",
        found=found,
        notes=(f"%{op.name} is written as a {written}: {why}",) if why else (),
    )


def _pair(ctx: TransformContext, op: Structured, entry: Dim, own: Names, out: Names) -> Names:
    """The dim of an entry of the map of the elements; of windows the dim of the result, and that of the taps."""
    name, factors = map_dim(entry), map_coefficients(entry) or {}
    if name is not None:
        return (name,)
    pair = tuple(sorted(factors, key=lambda n: n not in out))
    fits = len(pair) == 2 and pair[0] in out and pair[0] not in own and pair[1] in own and pair[1] not in out
    if not fits or {*factors.values()} != {1} or not isinstance(entry, Size) or entry.constant:
        raise ctx.fail(
            f"windows of %{op.name} have other distances than 1",
            op=op,
            required="windows `h + p` of stride 1 and dilation 1, with `h` in the result and `p` in the filter alone",
            found=to_text(entry),
        )
    return pair


def _counts(
    ctx: TransformContext, op: Structured, pair: Names, m: int, taken: Collection[str]
) -> tuple[int, str, Filtering]:
    """How many sums along a dim of windows are computed together, a name for their elements, and the matrices."""
    taps = op.size_of(pair[1])
    if not isinstance(taps, int) or taps < 1 or (taps > 1 and m + taps - 1 > MOST_PRODUCTS):
        raise ctx.fail(
            f"there are no matrices for {m} sums of {to_text(taps)} taps of `{pair[1]}`",
            op=op,
            required=f"taps of known number, and at most {MOST_PRODUCTS} elements, m + taps - 1",
            found=f"m = {m}, {pair[1]} = {to_text(taps)}",
            fix=f"m: {MOST_PRODUCTS + 1 - taps}" if isinstance(taps, int) and 1 < taps < MOST_PRODUCTS else None,
        )
    count = m if taps > 1 else 1
    element = next(name for k in range(len(taken) + 1) if (name := f"{pair[1]}_{k}") not in taken)
    return count, element, filtering(count, taps)


def _check_dims(
    ctx: TransformContext, op: Structured, windows: Sequence[Windows], summed: Sequence[str], names: Sequence[Names]
) -> None:
    """There are windows of several taps and channels that are summed, and each dim is in two operands, or in all."""
    read, own, out = names
    if all(len(w.matrices.weight[0]) == 1 for w in windows):
        raise _refused(ctx, op, "windows of one tap" if windows else "no windows")
    if not summed or not all(name in read and name in own for name in summed):
        raise ctx.fail(
            f"%{op.name} sums no channels, or not of both operands",
            op=op,
            required="a dim beside the taps that is summed, of the elements and of the filter",
            found=", ".join(summed) or "none",
            fix=Direction("leave it as it is: its multiplications are no product of matrices"),
        )
    wrong = [name for name in out if name not in (*read, *own)]
    if wrong or any(len({*n}) < len(n) for n in names):
        raise _refused(ctx, op, ", ".join(f"[{', '.join(n)}]" for n in names))
