"""Data movement on the operation tree: broadcast, transpose, fill. No arithmetic."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tcpx.payload.broadcasting import broadcast_dims, may_be_one
from tcpx.payload.diagnostics import Direction
from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import ElementsAttribute, NumberOrSizeAttribute, Operand
from tcpx.payload.indexing_maps import IndexingMap, map_dims
from tcpx.payload.interfaces import Build, Iterator, Position, Structured
from tcpx.payload.ir import Attribute, Operation, Range, Value, register
from tcpx.payload.ops.constant import Const, check_literal
from tcpx.payload.ops.elementwise import cast_to, converted
from tcpx.payload.pieces import Piece
from tcpx.payload.sizes import Dim, Size, to_text
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.positions import positions_read
from tcpx.payload.types import Type, dtype_of, like, shape_of, si64


class Movement(Structured):
    """An element of the result is an element of the operand, unchanged."""

    __slots__ = ()
    class_name = "movement"
    has_numbered_dims = True

    @property
    def is_movement(self) -> bool:
        return True

    def iterators(self) -> tuple[Iterator, ...]:
        return self._numbered(len(shape_of(self.result.type)))

    def result_map(self) -> IndexingMap:
        return self._numbered_map(len(shape_of(self.result.type)))

    def domain(self) -> tuple[Dim, ...]:
        return shape_of(self.result.type)

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        del build, acc
        return args[0]

    @staticmethod
    def places(op: Structured) -> tuple[int, ...] | None:
        """Where each dim of the only operand of `op` stands in its result."""
        source, result = (map_dims(op.maps()[0]) if len(op.maps()) == 1 else None), map_dims(op.result_map())
        if source is None or result is None or not set(source) <= set(result):
            return None
        return tuple(result.index(name) for name in source)

    def verify(self) -> None:
        if self.operands and dtype_of(self.operands[0].type) != dtype_of(self.result.type):
            raise self.error(
                "operand and result have one dtype",
                required=dtype_of(self.result.type).name,
                found=dtype_of(self.operands[0].type).name,
            )
        super().verify()


@register
class Broadcast(Movement):
    """Repeat the operand along new dims: dim k of the operand is dim `dims[k]` of the result."""

    __slots__ = ()
    opcode = "tcp.broadcast"
    class_name = "broadcast"
    operand = Operand()
    places_of_dims = ElementsAttribute(int, "a list of ints", key="dims")
    """The dim of the result that each dim of the operand is."""

    @classmethod
    def of(cls, operand: Value, dims_: Sequence[int], type_: Type) -> Operation:
        """A detached broadcast to `type_`."""
        return cls([operand], [type_], {"dims": tuple(dims_)})

    @classmethod
    def attributes_for(cls, op: Structured) -> Mapping[str, Attribute] | None:
        places = cls.places(op)
        return {"dims": places} if places is not None else None

    def maps(self) -> tuple[IndexingMap, ...]:
        own = self.result_map()
        return (tuple(own[k] for k in self.places_of_dims),)

    def usual_attribute(self, key: str) -> str:
        """The dims by which NumPy would broadcast, or else the last ones."""
        own, shape = shape_of(self.operand.type), shape_of(self.result.type)
        return str(broadcast_dims(own, shape) or list(range(max(0, len(shape) - len(own)), len(shape))))

    def _correction(self) -> str | None:
        places = broadcast_dims(shape_of(self.operands[0].type), shape_of(self.result.type))
        if places is None:
            return None
        is_in_place = self.location is not None and self.location.span.startswith("broadcast(")
        return f"broadcast(%{self.operand.name}, {list(places)})" if is_in_place else f"{{dims = {places}}}"

    def verify(self) -> None:
        places, rank = self.places_of_dims, len(shape_of(self.result.type))
        if list(places) != sorted(set(places)) or any(not 0 <= d < rank for d in places):
            raise self.error(
                "`dims` places each operand dim in the result",
                required=f"increasing dims below {rank}",
                found=str(list(places)),
            )
        own, shape = shape_of(self.operand.type), shape_of(self.result.type)
        for k, d in enumerate(places if len(own) == len(places) else ()):
            if may_be_one(own[k], shape[d]) and not self._holds("==", own[k], shape[d]):
                name = self.operand.name
                raise self.error(
                    f"dim {k} of %{name} is not known to be as long as what it becomes",
                    required=to_text(shape[d]),
                    found=f"%{name}: {self.operand.type}",
                    fix=Direction(
                        f"if it may be 1: tcp.expand(%{name}) {{dims = {list(places)}}} : {self.result.type}"
                    ),
                    unproven=True,
                )
        super().verify()

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        shape = evaluation.shape(self.result.type)
        spread = [1] * len(shape)
        for k, d in enumerate(self.places_of_dims):
            spread[d] = args[0].shape[k]
        return (np.broadcast_to(args[0].reshape(spread), shape).copy(),)


def inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes this one."""
    return tuple(permutation.index(k) for k in range(len(permutation)))


@register
class Transpose(Movement):
    """Permute dims: dim k of the result is dim `permutation[k]` of the operand."""

    __slots__ = ()
    opcode = "tcp.transpose"
    class_name = "transpose"
    operand = Operand()
    permutation = ElementsAttribute(int, "a list of ints")
    """The operand's dim that is dim k of the result."""

    @classmethod
    def of(cls, operand: Value, permutation: Sequence[int]) -> Operation:
        """A detached transpose."""
        shape = shape_of(operand.type)
        type_ = like(operand.type, tuple(shape[p] for p in permutation), dtype_of(operand.type))
        return cls([operand], [type_], {"permutation": tuple(permutation)})

    def usual_attribute(self, key: str) -> str:
        """The dims in reverse."""
        return str(list(reversed(range(len(shape_of(self.result.type))))))

    @classmethod
    def attributes_for(cls, op: Structured) -> Mapping[str, Attribute] | None:
        places = cls.places(op)
        if places is None or sorted(places) != list(range(len(op.result_map()))):
            return None
        return {"permutation": inverse(places)}

    def maps(self) -> tuple[IndexingMap, ...]:
        own = self.result_map()
        return (tuple(own[k] for k in inverse(self.permutation)),)

    def pieces(self, tile: Tile) -> Sequence[Piece] | None:
        if tile.dropped:
            return None
        turned = inverse(self.permutation)
        offsets, sizes, strides = (tuple(part[k] for k in turned) for part in (tile.offsets, tile.sizes, tile.strides))
        return [Piece.of(0, Tile(offsets, sizes, strides), permutation=self.permutation)]

    def verify(self) -> None:
        permutation = self.permutation
        if sorted(permutation) != list(range(len(shape_of(self.result.type)))):
            raise self.error(
                "`permutation` names each dim once",
                required=f"a permutation of 0..{len(shape_of(self.result.type)) - 1}",
                found=str(list(permutation)),
            )
        super().verify()

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (np.array(args[0].transpose(self.permutation), order="C"),)


@register
class Fill(Movement):
    """Every element of the result is `value`: a number, or a size, as `{value = N}`, cast to the dtype."""

    __slots__ = ()
    opcode = "tcp.fill"
    class_name = "fill"
    literal = NumberOrSizeAttribute(key="value", example="0.0")
    """The number each element has, or the size."""

    @classmethod
    def of(cls, value: float | Dim, type_: Type) -> Operation:
        """A detached fill."""
        if not isinstance(value, Size):
            value = float(value) if dtype_of(type_).is_float else int(value)
        return cls([], [type_], {"value": value})

    @classmethod
    def attributes_for(cls, op: Structured) -> Mapping[str, Attribute] | None:
        if op.maps() or positions_read(op):
            return None
        built: list[Operation] = []

        def build(made: Operation) -> Value:
            built.append(made)
            return made.result

        literal = op.scalar_body(build, (), None).defining_op
        held = literal.attributes.get("value") if isinstance(literal, Const) else None
        return {"value": held} if isinstance(held, int | float) else None

    def maps(self) -> tuple[IndexingMap, ...]:
        return ()

    def positions(self) -> tuple[Position, ...]:
        value = self.literal
        return (Position(0, si64, value),) if isinstance(value, Size) else ()

    def counting_from(self, origins: Sequence[Dim]) -> Mapping[str, Attribute]:
        return {"value": origins[0]}

    def verify(self) -> None:
        if not isinstance(self.literal, Size):
            check_literal(self, self.literal, self.acc_type)
        super().verify()

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        value = self.literal
        return (
            cast_to(build, args[0], self.acc_type)
            if isinstance(value, Size)
            else build(Const.literal(value, self.acc_type))
        )

    def result_range(self, number: int, of: Callable[[Value], Range | None]) -> Range | None:
        value = self.literal
        may_wrap = not isinstance(value, int) and self.acc_type.bits < 64
        return None if isinstance(value, float) or may_wrap else (value, value + 1)

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        value, shape = self.literal, evaluation.shape(self.result.type)
        if isinstance(value, Size):
            return (converted(np.full(shape, evaluation.size(value)), si64, self.acc_type),)
        return (np.full(shape, value).astype(self.acc_type.numpy),)
