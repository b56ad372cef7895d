"""Operations of the payload, added as ONNX needs them: with NumPy's rules of broadcasting, and with dims kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tcpx.frontends.onnx.broadcasting import Shape, broadcast_shape, same, shown
from tcpx.frontends.onnx.errors import BoundedSize, Equation, Unsupported
from tcpx.frontends.onnx.tidying import in_place
from tcpx.limits import INT64_MAX
from tcpx.payload.builder import Builder, tile
from tcpx.payload.diagnostics import Location
from tcpx.payload.evaluator import Array
from tcpx.payload.ir import Attribute, Block, Operation, Value, operation_class
from tcpx.payload.ops.assertion import Assert
from tcpx.payload.ops.composite import rounded
from tcpx.payload.ops.constant import Const
from tcpx.payload.ops.elementwise import Add, Cast
from tcpx.payload.ops.expand import Expand
from tcpx.payload.ops.generic import Generic, Yield
from tcpx.payload.ops.gml_st import Materialize
from tcpx.payload.ops.indexing import Iota
from tcpx.payload.ops.movement import Broadcast, Fill
from tcpx.payload.ops.normalization import Softmax
from tcpx.payload.ops.select import IsNan
from tcpx.payload.ops.views import Reshape, Slice, View
from tcpx.payload.sizes import Dim, Size, as_dim, as_symbol, is_less_equal, maximum, minimum
from tcpx.payload.sizes.context import EMPTY
from tcpx.payload.sizes.equations import reduced, sides, solutions
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.sizes.substitution import Rebuild
from tcpx.payload.types import ScalarType, TensorType, dtype_of, i1, scalar_of_numpy, shape_of
from tcpx.payload.value_ranges import value_range

Build = Callable[..., Value]
Append = Callable[[Value, Value, int], Value]
"""Of what is used of a cache, what is new, and a dim: both, one behind the other."""


def literal(value: Value) -> float | int | None:
    """The number that all elements of a value are, where it is written so."""
    op = value.defining_op
    return op.literal if isinstance(op, Fill) and isinstance(op.literal, int | float) else None


def counted(value: Value) -> Dim | None:
    """How far elements count that are 0, 1, .. or begin with another number; None for what else they are."""
    op = value.defining_op
    match op:
        case Iota():
            return shape_of(value.type)[op.dim]
        case Add():
            end, by = counted(op.operands[0]), op.operands[1].defining_op
            if end is None or not isinstance(by, Fill) or isinstance(by.literal, float):
                return None
            return end + by.literal
        case View() | Cast() | Broadcast() if len(op.operands) == 1 and not isinstance(op, Slice):
            return counted(op.operands[0])
        case _:
            return None


class Equations:
    """Sizes that nodes need to be equal: those that an import before has found, and those that this one finds."""

    def __init__(self, known: Sequence[Equation] = ()) -> None:
        self.new: list[Equation] = []
        self._texts = {equation.message for equation in known}

    def add(self, equation: Equation) -> bool:
        """Note an equation; False where that has been noted before, and did not help."""
        if equation.message in self._texts:
            return False
        self._texts.add(equation.message)
        self.new.append(equation)
        return True


class Writer:
    """Adds operations to the function of a builder. `place` and `prefix` are those of the node at hand."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.place: Location | None = None
        self.prefix = ""
        self.made: dict[Operation, None] = {}
        """The operations of the node at hand."""
        self.iterations = 0
        """Of loops that were unrolled."""
        self.is_certain = True
        """Whether what is written is computed whatever the arguments are: not in a branch."""
        self.caches: dict[tuple[str, str], Append] = {}
        """By the name of an operand and that of a result: what writes behind what is used of a cache."""
        self.ranges: dict[Value, tuple[Dim, Dim]] = {}
        """Between what the elements of arguments have to lie that are indices."""
        self._counts: dict[str, int] = {}
        """By the name of constants, the number behind the last one."""
        self.facts = EMPTY
        """What holds of sizes, beside the ranges of their symbols: the function asserts it."""
        self.node = ""
        """The operator and the name of the node at hand."""
        self.equations = Equations()
        self.quotients: Mapping[str, Dim] = {}
        """What quotients equal where the function runs, by their texts: no size is written by these quotients."""

    # ------------------------------------------------------------ one operation

    def insert(self, op: Operation) -> Value:
        """Add a detached operation and hand out its first result. Raises Unsupported for a dim below 0."""
        for result in op.results:
            if any(isinstance(extent, int) and extent < 0 for extent in shape_of(result.type)):
                raise Unsupported(f"a result of the shape {shown(shape_of(result.type))}")
        op.location = self.place
        word = op.opcode.rpartition(".")[2]
        self.builder.insert(op, *([f"{self.prefix}.{word}" if self.prefix else word] * len(op.results)))
        self.made[op] = None
        in_place(self.builder, op, self.made)
        return op.results[0]

    def op(
        self,
        name: str,
        *operands: Value,
        dtype: ScalarType | None = None,
        shape: Shape | None = None,
        **attributes: Attribute,
    ) -> Value:
        """An operation `tcp.NAME`, of the shape and dtype of its first operand where none is given."""
        return self.several(name, operands, [(shape, dtype)], **attributes)[0]

    def several(
        self,
        name: str,
        operands: Sequence[Value],
        results: Sequence[tuple[Shape | None, ScalarType | None]],
        **attributes: Attribute,
    ) -> Sequence[Value]:
        """An operation with several results."""
        like = operands[0].type if operands else None
        results = [(self.rewritten(shape) if shape is not None else None, dtype) for shape, dtype in results]
        types = [
            TensorType(
                shape if shape is not None else shape_of(like) if like is not None else (),
                dtype if dtype is not None else dtype_of(like) if like is not None else i1,
            )
            for shape, dtype in results
        ]
        made = _class(name)(list(operands), types, attributes)
        self.insert(made)
        return made.results

    def on_scalars(self, name: str, *operands: Value) -> Value:
        """An elementwise operation of scalars of one dtype."""
        return self.insert(_class(name)(list(operands), [operands[0].type]))

    def unary(self, name: str, a: Value, **attributes: Attribute) -> Value:
        """An elementwise operation of one operand."""
        return self.several(name, [a], [(None, None)], **attributes)[0]

    def binary(self, name: str, a: Value, b: Value, dtype: ScalarType | None = None) -> Value:
        """An elementwise operation of operands that are broadcast to one shape."""
        shape = self.broadcast_shape(shape_of(a.type), shape_of(b.type))
        return self.op(name, self.expand(a, shape), self.expand(b, shape), dtype=dtype)

    def compare(self, name: str, a: Value, b: Value) -> Value:
        """A comparison of operands that are broadcast."""
        numbers = literal(a), literal(b)
        if None not in numbers:
            shape = self.broadcast_shape(shape_of(a.type), shape_of(b.type))
            return self.fill(int(getattr(np, name)(*numbers)), shape, i1)
        return self.binary(name, a, b, i1)

    def with_number(
        self, name: str, a: Value, number: float | Dim, *, first: bool = False, dtype: ScalarType | None = None
    ) -> Value:
        """A binary operation of a value and a number, or a size, of its dtype; `first`: of that and the value."""
        other = self.fill(number, shape_of(a.type), dtype_of(a.type))
        return self.op(name, *((other, a) if first else (a, other)), dtype=dtype)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """`a` where the condition holds, else `b`, broadcast."""
        shape = self.broadcast_shape(shape_of(condition.type), shape_of(a.type), shape_of(b.type))
        holds = literal(condition)
        if holds is not None:
            return self.expand(a if holds else b, shape)
        test, made = condition.defining_op, b.defining_op
        if isinstance(test, IsNan) and isinstance(made, Softmax) and test.operands[0] is b and literal(a) == 0:
            return self.op("softmax", made.operand, dim=made.attributes["dim"], safe=True)
        parts = [self.expand(value, shape) for value in (condition, a, b)]
        return self.op("select", *parts, dtype=dtype_of(a.type))

    def fill(self, number: float | Dim, shape: Shape, dtype: ScalarType) -> Value:
        """A number, or a size, repeated."""
        held = number if isinstance(number, Size) else _number(number, dtype)
        return self.op("fill", shape=shape, dtype=dtype, value=held)

    def cast(self, a: Value, dtype: ScalarType) -> Value:
        """Converted, where it has another dtype."""
        number, own = literal(a), dtype_of(a.type)
        if own == dtype:
            return a
        if number is not None and own.is_float and dtype.is_float:
            (exact,) = rounded(number, own)
            return self.fill(float(exact), shape_of(a.type), dtype)
        return self.op("cast", a, dtype=dtype)

    def constant(self, name: str, array: Array) -> Value:
        """A stored array."""
        name = self._free(name)
        self.builder.module.constants.keep(name, array)
        dtype = dtype_of_array(array)
        op = Const([], [TensorType(tuple(array.shape), dtype)], {"constant": name})
        op.location = self.place
        return self.builder.insert(op, name).result

    def _free(self, base: str) -> str:
        """A name that no stored array has."""
        constants, count, name = self.builder.module.constants, self._counts.get(base, 0), base
        while name in constants:
            count += 1
            name = f"{base}.{count}"
        self._counts[base] = count
        return name

    # ------------------------------------------------------------ sizes that have to be equal

    def rewritten(self, shape: Shape) -> Shape:
        """A shape without the quotients that equal other sizes."""
        return tuple(map(Rebuild(self.quotients).of, shape)) if self.quotients else shape

    def equal(self, a: Dim, b: Dim) -> bool:
        """Whether two sizes are equal, which the node at hand needs; what is not known of sizes that a call decides is
        an equation, which the next import solves or asserts. False where they differ, and in branches."""
        gap = reduced(a - b)
        held = Predicate.of("==", *sides(gap))
        if same(a, b) or self.facts.decide(held):
            return True
        if isinstance(gap, int) or not self.is_certain or self.place is None or not self.facts.allows(held):
            return False
        if not self.equations.add(Equation(a, b, self.node, self.place)):
            return False
        self.demand(held, self.equations.new[-1].message)
        self.facts = self.facts.and_also(held)
        return True

    def as_equal(self, a: Value, shape: Shape) -> Value:
        """A value of which each dim is equal to that of a shape, which facts may say, as one of this shape."""
        own = shape_of(a.type)
        if all(same(x, y) for x, y in zip(own, shape, strict=True)):
            return a
        return self.insert(Materialize.of(a, tile([0] * len(own), shape)))

    def with_dim(self, a: Value, axis: int, size: Dim) -> Value:
        """A value of which one dim is equal to a size, as one that has this size there."""
        return self.as_equal(a, tuple(size if k == axis else n for k, n in enumerate(shape_of(a.type))))

    def broadcast_shape(self, *shapes: Sequence[Dim]) -> Shape:
        """The shape that NumPy broadcasts these to; dims that are never 1 are equal."""
        return broadcast_shape(*shapes, equal=self.equal)

    # ------------------------------------------------------------ shapes

    def reshape(self, a: Value, shape: Sequence[Dim]) -> Value:
        """The same elements under another shape."""
        if isinstance(a.defining_op, Reshape):
            a = a.defining_op.operand
        old, new = shape_of(a.type), self.rewritten(tuple(shape))
        number = literal(a)
        if number is not None and old != new:
            return self.fill(number, new, dtype_of(a.type))
        if len(old) == len(new) and all(same(x, y) for x, y in zip(old, new, strict=True)):
            return a
        return self.op("reshape", a, shape=new)

    def expand(self, a: Value, shape: Sequence[Dim]) -> Value:
        """Broadcast to a shape, from the last dim on, as NumPy does."""
        own, wide = shape_of(a.type), self.rewritten(tuple(shape))
        if len(own) == len(wide) and all(same(x, y) for x, y in zip(own, wide, strict=True)):
            return a
        lead = len(wide) - len(own)
        if lead < 0:
            raise Unsupported(f"{shown(own)} broadcast to {shown(wide)}, which has fewer dims")
        if isinstance(a.defining_op, Fill):
            return self.fill(a.defining_op.literal, wide, dtype_of(a.type))
        for k, n in enumerate(own):
            whole = wide[lead + k]
            if same(n, whole) or n == 1:
                continue
            is_never_one = is_less_equal(n, 0) is True or is_less_equal(2, n) is True
            if (is_never_one or self._varies_as(n, whole)) and self.equal(n, whole):
                a = self.with_dim(a, k, whole)
            elif is_never_one:
                raise Unsupported(f"{shown(own)} broadcast to {shown(wide)}", equal=(n, whole))
        own = shape_of(a.type)
        if any(n != 1 and not same(n, wide[lead + k]) for k, n in enumerate(own)):
            return self._open(a, wide, lead)
        kept = [k for k, n in enumerate(own) if same(n, wide[lead + k])]
        narrow = self.reshape(a, [own[k] for k in kept])
        return self.op("broadcast", narrow, shape=wide, dims=tuple(lead + k for k in kept))

    def _varies_as(self, n: Dim, whole: Dim) -> bool:
        """Whether two computed dims are equal for any number of sizes of a call, by what both are of one symbol: then
        they are meant to be, and neither is meant to be 1 where the other is not."""
        found = solutions(n - whole) if as_symbol(n) is None and as_symbol(whole) is None else None
        return (found is not None and bool(found.remainders)) or self.facts.decide(Predicate.of("==", n, whole)) is True

    def _open(self, a: Value, wide: Shape, lead: int) -> Value:
        """Broadcast along dims of which only a call says whether they are 1."""
        places = range(lead, len(wide))
        expand = Expand.of(a, places, TensorType(wide, dtype_of(a.type)))
        made = self.builder.values(expand, f"{self.prefix}.expand", place=self.place)[0]
        if made.defining_op is not None:
            self.made[made.defining_op] = None
        return made

    def transpose(self, a: Value, permutation: Sequence[int]) -> Value:
        """Dims in another order."""
        if list(permutation) == list(range(len(permutation))):
            return a
        own = shape_of(a.type)
        return self.op("transpose", a, shape=tuple(own[p] for p in permutation), permutation=tuple(permutation))

    def slice(self, a: Value, offsets: Sequence[Dim], sizes: Sequence[Dim], strides: Sequence[int] = ()) -> Value:
        """A part of a tensor."""
        own, steps, sizes = shape_of(a.type), strides or (1,) * len(sizes), self.rewritten(tuple(sizes))
        if all(same(x, y) for x, y in zip(own, sizes, strict=True)):
            return a
        ends = [(o + (size - 1) * step + 1, n) for o, size, step, n in zip(offsets, sizes, steps, own, strict=True)]
        open_ = [Predicate.of("<=", end, n) for end, n in ends if is_less_equal(end, n) is not True]
        if open_ and all(self.facts.decide(held) for held in open_):  # a slice has to end inside by its type alone
            return self.insert(Materialize.of(a, tile(offsets, sizes, steps)))
        attributes: dict[str, Attribute] = {"offsets": tuple(offsets)}
        if any(step != 1 for step in steps):
            attributes["strides"] = tuple(steps)
        return self.several("slice", [a], [(tuple(sizes), None)], **attributes)[0]

    def used(self, a: Value, shape: Shape, name: str) -> Value:
        """What is in use of a value: its first elements along each dim, that many of which a function asserts."""
        op = Materialize.of(a, tile([0] * len(shape), shape))
        op.location = self.place
        self.made[op] = None
        return self.builder.insert(op, name).result

    def demand(self, condition: Predicate, message: str, place: Location | None = None) -> None:
        """Assert something of sizes, once, at the start of the function."""
        body = next(iter(self.builder.module.funcs.values())).body
        op, known = Assert.of([condition], message), [op for op in body.ops if isinstance(op, Assert)]
        op.location = place or self.place
        if all(op.attributes != other.attributes for other in known):
            body.insert(len(known), op)

    def part(self, a: Value, axis: int, offset: Dim, size: Dim) -> Value:
        """A part along one dim."""
        own = shape_of(a.type)
        offsets = [offset if k == axis else 0 for k in range(len(own))]
        return self.slice(a, offsets, [size if k == axis else n for k, n in enumerate(own)])

    def concat(self, parts: Sequence[Value], axis: int) -> Value:
        """One behind another."""
        if len(parts) == 1:
            return parts[0]
        shapes = [shape_of(p.type) for p in parts]
        extent: Dim = 0
        for shape in shapes:
            extent = extent + shape[axis]
        whole = tuple(extent if k == axis else n for k, n in enumerate(shapes[0]))
        return self.op("concat", *parts, shape=whole, dim=axis)

    def pad(
        self, a: Value, low: Sequence[Dim], high: Sequence[Dim], value: float, interior: Sequence[int] = ()
    ) -> Value:
        """A tensor with padding round it, and `interior` elements between two of it."""
        own = shape_of(a.type)
        between = tuple(interior) or (0,) * len(own)
        if all(same(n, 0) for n in (*low, *high)) and not any(between):
            return a
        extents = [spread(n, gap) for n, gap in zip(own, between, strict=True)]
        sizes = tuple(lo + n + hi for lo, n, hi in zip(low, extents, high, strict=True))
        attributes: dict[str, Attribute] = {"low": tuple(low)}
        if any(between):
            attributes["interior"] = between
        return self.several("pad", [a], [(sizes, None)], value=_number(value, dtype_of(a.type)), **attributes)[0]

    def reduce(
        self,
        name: str,
        a: Value,
        axes: Sequence[int],
        keep: bool = False,
        dtype: ScalarType | None = None,
        **attributes: Attribute,
    ) -> Value:
        """A reduction over axes; with `keep` they stay as dims of 1."""
        own, axes = shape_of(a.type), sorted(axes)
        rest = tuple(n for k, n in enumerate(own) if k not in axes)
        number = literal(a) if name in ("reduce_max", "reduce_min") else None
        if number is not None and all(is_less_equal(1, own[k]) is True for k in axes):
            made = self.fill(number, rest, dtype_of(a.type))
        else:
            made = self.op(name, a, shape=rest, dtype=dtype, dims=tuple(axes), **attributes)
        return self.reshape(made, [1 if k in axes else n for k, n in enumerate(own)]) if keep else made

    def contract(
        self,
        a: Value,
        b: Value,
        lhs: Sequence[str],
        rhs: Sequence[str],
        out: Sequence[str],
        dtype: ScalarType | None = None,
    ) -> Value:
        """A contraction over named dims."""
        extents = dict(zip((*lhs, *rhs), (*shape_of(a.type), *shape_of(b.type)), strict=True))
        return self.op(
            "contract",
            a,
            b,
            shape=tuple(extents[n] for n in out),
            dtype=dtype,
            lhs=tuple(lhs),
            rhs=tuple(rhs),
            out=tuple(out),
        )

    def take(self, table: Value, indices: Value, axis: int) -> Value:
        """Elements along an axis by indices, which are counted from the end where they are negative."""
        own, rest = shape_of(table.type), shape_of(indices.type)
        if not rest:
            made = self.take(table, self.reshape(indices, (1,)), axis)
            return self.reshape(made, (*own[:axis], *own[axis + 1 :]))
        shape = (*own[:axis], *rest, *own[axis + 1 :])
        places = self.from_start(indices, own[axis])
        known = value_range(places)
        is_inside = known is not None and is_less_equal(0, known[0]) and is_less_equal(known[1], own[axis])
        outside = "error" if is_inside is True else "fill"
        return self.op("gather", table, places, shape=shape, dim=axis, out_of_range=outside)

    def along(self, table: Value, places: Value, axis: int) -> Value:
        """Elements along an axis by computed indices, which are inside."""
        own = shape_of(table.type)
        shape = (*own[:axis], *shape_of(places.type), *own[axis + 1 :])
        return self.op("gather", table, places, shape=shape, dim=axis, out_of_range="fill")

    def from_start(self, indices: Value, extent: Dim, *, others: bool = False) -> Value:
        """Indices of which negative ones count from the end, as indices from the start; `others` may be among them."""
        if not others:
            self._index(indices, extent)
        known = value_range(indices)
        if not dtype_of(indices.type).minimum or (known is not None and is_less_equal(0, known[0]) is True):
            return indices
        behind = self.op("add", indices, self.fill(extent, shape_of(indices.type), dtype_of(indices.type)))
        return self.op(
            "select", self.with_number("less", indices, 0, dtype=i1), behind, indices, dtype=dtype_of(indices.type)
        )

    def _index(self, indices: Value, extent: Dim) -> None:
        """Note of an argument whose elements are indices, all of them, between what they have to lie.

        Raises BoundedSize for positions, as of the words of a sentence, of which a call may have more than there are.
        """
        end = counted(indices)
        if self.is_certain and isinstance(end, Size) and isinstance(extent, int):
            is_inside = self.facts.decide(Predicate.of("<=", end, extent))
            if not is_inside:
                raise BoundedSize(end, extent)
        self.confine(indices, 0 - extent, extent)

    def confine(self, value: Value, first: Dim, end: Dim) -> None:
        """Note of an argument, under views and casts, that its elements have to lie from `first` to `end - 1`."""
        while isinstance(op := value.defining_op, View | Cast) and len(op.operands) == 1 and not isinstance(op, Slice):
            value = op.operands[0]
        dtype = dtype_of(value.type)
        if not self.is_certain or value.defining_op is not None or not dtype.is_integer or dtype.maximum > INT64_MAX:
            return
        known = self.ranges.get(value, (first, end))
        self.ranges[value] = maximum(known[0], first), minimum(known[1], end)

    def generic(
        self,
        operands: Sequence[Value],
        iterators: Sequence[tuple[str, str] | tuple[str, str, Dim]],
        maps: Sequence[Sequence[Dim]],
        result: tuple[Shape, ScalarType],
        body: Callable[[Build, Sequence[Value]], Value],
        combiner: str | None = None,
        has_init: bool = False,
        **attributes: Attribute,
    ) -> Value:
        """A loop nest. `body` is given a function that adds an operation of scalars, and the elements; the last of them
        is the accumulator where there is a `combiner`, or what was there where the last operand is an init."""
        shape, dtype = result
        read = operands[:-1] if has_init else operands
        names = [(f"e{k}", dtype_of(v.type)) for k, v in enumerate(read)]
        block = Block([*names, *([("acc", dtype)] if combiner or has_init else [])])

        def build(word: str, *args: Value, to: ScalarType | None = None, **own: Attribute) -> Value:
            kind = to if to is not None else dtype_of(args[0].type)
            op = _class(word)(list(args), [kind], own)
            op.results[0].name = f"v{len(block.ops)}"
            return block.append(op).result

        block.append(Yield([body(build, tuple(block.args))]))
        held: dict[str, Attribute] = {
            "iterators": tuple(iterators),
            "maps": tuple(tuple(as_dim(e) for e in entry) for entry in maps),
            **attributes,
        }
        if combiner:
            held["combiner"] = f"tcp.{combiner}"
        return self.insert(Generic(list(operands), [TensorType(shape, dtype)], held, [block]))


def spread(count: Dim, gap: int) -> Dim:
    """How long elements with `gap` others between two are; none are 0 long."""
    length = count + (count - 1) * gap
    return length if gap == 0 or is_less_equal(1, count) is True else maximum(0, length)


def _number(number: float, dtype: ScalarType) -> float:
    """A number as one of a dtype. Raises Unsupported for a fraction, NaN and infinities among integers."""
    if dtype.is_float:
        return float(number)
    if not float(number).is_integer():
        raise Unsupported(f"the number {number} among elements of {dtype}")
    return int(number)


def _class(name: str) -> type[Operation]:
    found = operation_class(f"tcp.{name}")
    if found is None:
        raise AssertionError(f"there is no operation tcp.{name}")
    return found


def dtype_of_array(array: Array) -> ScalarType:
    """The dtype of an array, which payloads have."""
    found = scalar_of_numpy(array.dtype)
    if found is None:
        raise Unsupported(f"arrays of {array.dtype}")
    return found
