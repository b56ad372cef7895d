"""Operations that compute an element of each result from elements at one place: as one operation, and which of them can
be one."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeGuard

from tcpx.payload.indexing_maps import IndexingMap, dim_symbol, dims, index_operands, map_dim, map_text
from tcpx.payload.interfaces import IteratorKind, Position, Structured
from tcpx.payload.ir import Attribute, Block, Operation, Value
from tcpx.payload.sizes import Dim, Symbol, substitute
from tcpx.payload.traits.constant import Constant
from tcpx.payload.traits.positions import positions_read
from tcpx.payload.traits.ragged import ragged_dims
from tcpx.payload.traits.scatter import Scatter
from tcpx.payload.types import dtype_of, shape_of
from tcpx.transform import new
from tcpx.transform.editing import source_name

Counted = Callable[[Value, IndexingMap, IndexingMap], Position | None]
"""Of a value, an index and the dims that it is in: the element there, if that is a position."""


def is_pointwise(op: Operation | None) -> TypeGuard[Structured]:
    """Whether every iteration of an operation computes one element of each result, at one place of all of them."""
    return (
        isinstance(op, Structured)
        and all(it.kind is IteratorKind.PARALLEL for it in op.iterators())
        and not (op.inits or ragged_dims(op) or Scatter.of(op) is not None or index_operands(op.maps()))
        and len(set(op.result_maps())) == 1
    )


def repeats(op: Operation | None) -> TypeGuard[Structured]:
    """Whether an operation only repeats its operand along further dims."""
    if not isinstance(op, Structured) or not op.is_movement or not is_pointwise(op) or len(op.inputs) != 1:
        return False
    places = [op.result_maps()[0].index(e) for e in op.maps()[0] if e in op.result_maps()[0]]
    return places == sorted(set(places)) and len(places) == len(op.maps()[0])


def fills(op: Operation | None) -> TypeGuard[Structured]:
    """Whether every element of the result of an operation is one number."""
    return isinstance(op, Structured) and op.is_movement and is_pointwise(op) and not (op.inputs or positions_read(op))


def _places(op: Structured, index: IndexingMap) -> Mapping[Symbol, Dim]:
    """The iteration that computes the element of the results with this index."""
    return {dim_symbol(map_dim(entry) or ""): at for entry, at in zip(op.result_maps()[0], index, strict=True)}


def _read_at(indexing_map: IndexingMap, index: Mapping[Symbol, Dim]) -> IndexingMap:
    """Where an operand is read in an iteration."""
    return tuple(substitute(e, {**index}) for e in indexing_map)


def merged(
    ops: Sequence[Structured], used: Sequence[Value], counted: Counted = lambda value, index, dims: None
) -> Operation:
    """A detached operation that computes the results `used` of pointwise operations of one shape, given in an order in
    which they can be computed. Elements that are `counted` are positions in it, and not read. Raises VerifyError where
    one reads the result of another at other places."""
    return _Merged(shape_of(used[0].type), counted).of(ops, used)


class _Merged:
    """The body of the one operation, and what it reads."""

    def __init__(self, shape: Sequence[Dim], counted: Counted) -> None:
        self.counted = counted
        self.dims = dims(*(f"d{k}" for k in range(len(shape))))
        self.block = Block([])
        self.elements: dict[Value, Value] = {}
        """By result: its element in the body."""
        self.arguments: dict[tuple[Value, IndexingMap], Value] = {}
        self.literals: dict[Value, Value] = {}
        self.positions: dict[Position, Value] = {}

    def of(self, ops: Sequence[Structured], used: Sequence[Value]) -> Operation:
        for op in ops:
            self._add(op)
        self.block.append(new.yielded([self.elements[value] for value in used]))
        self.block.args += [*self.arguments.values(), *self.positions.values()]
        attributes: dict[str, Attribute] = {
            "iterators": tuple((name, IteratorKind.PARALLEL.value) for name in map(map_dim, self.dims) if name),
            "maps": (*(indexing_map for _, indexing_map in self.arguments), *(self.dims for _ in used)),
        }
        if self.positions:
            attributes["positions"] = tuple(p.expression for p in self.positions)
            attributes["origins"] = tuple(p.origin for p in self.positions)
        inputs = [value for value, _ in self.arguments]
        return new.generic(inputs, [value.type for value in used], attributes, [self.block])

    def _add(self, op: Structured) -> None:
        """Compute what an operation does in the body."""
        index = _places(op, self.dims)
        whole = {op.result_maps()[0]: self.dims}
        reads = [whole.get(m) or _read_at(m, index) for m in op.maps()]
        elements = [self._element(value, at, op) for value, at in zip(op.inputs, reads, strict=True)]
        elements += [self._position(p, index) for p in positions_read(op)]
        made = op.elements(lambda inner: self._build(inner, op), elements, [])
        self.elements |= dict(zip(op.results, made, strict=True))

    def _build(self, inner: Operation, source: Operation) -> Value:
        """Append a part of an operation to the body, with its name and its place in the payload."""
        self.block.append(inner)
        inner.result.name = inner.name = source_name(source)
        inner.location = inner.location or source.location
        return inner.result

    def _element(self, value: Value, indexing_map: IndexingMap, reader: Structured) -> Value:
        """The element of a value that an iteration reads, through what only moves it."""
        if value in self.elements and indexing_map == self.dims:
            return self.elements[value]
        if value in self.elements:
            raise reader.error(
                f"%{reader.name} reads %{value.name} at other places than those that it computes",
                required="elementwise operations, which read one another element by element",
                found=f"element {map_text(self.dims)} is computed, element {map_text(indexing_map)} is read",
            )
        made = value.defining_op
        if made is not None and (Constant(made).number is not None or fills(made)):
            if value not in self.literals:
                self.literals[value] = self._literal(made)
            return self.literals[value]
        if repeats(made):
            return self._element(made.inputs[0], _read_at(made.maps()[0], _places(made, indexing_map)), reader)
        position = self.counted(value, indexing_map, self.dims)
        if position is not None:
            return self._counting(position)
        key = value, indexing_map
        if key not in self.arguments:
            self.arguments[key] = Value(value.name.split(".")[0], dtype_of(value.type), self.block)
        return self.arguments[key]

    def _literal(self, made: Operation) -> Value:
        """The number that every element of a result is."""
        if fills(made):
            return made.elements(lambda op: self._build(op, made), [], [])[0]
        return self._build(new.literal(Constant(made).number or 0, dtype_of(made.result.type)), made)

    def _position(self, position: Position, index: Mapping[Symbol, Dim]) -> Value:
        return self._counting(Position(substitute(position.expression, {**index}), position.dtype, position.origin))

    def _counting(self, at: Position) -> Value:
        if at not in self.positions:
            self.positions[at] = Value(f"at{len(self.positions)}", at.dtype, self.block)
        return self.positions[at]
