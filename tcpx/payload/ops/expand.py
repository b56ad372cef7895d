"""Broadcasts along dims that are known to be 1, or not, when the kernel is called."""

from collections.abc import Collection, Sequence
from typing import Final

from tcpx.payload.contexts import are_equal_at, is_less_equal_at
from tcpx.payload.diagnostics import Direction
from tcpx.payload.fields import ElementsAttribute
from tcpx.payload.ir import Block, Operation, Value, register
from tcpx.payload.ops.assertion import Assert
from tcpx.payload.ops.generic import Yield
from tcpx.payload.ops.gml_st import If, Materialize
from tcpx.payload.ops.movement import Broadcast
from tcpx.payload.ops.shorthand import Shorthand
from tcpx.payload.sizes import Dim, is_less, to_text, variables
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.subsets import Tile
from tcpx.payload.types import TensorType, Type, dtype_of, like, shape_of

MOST_OPEN: Final = 6
"""Dims of an operand of which only a call says whether they are 1: each doubles the branches."""


@register
class Expand(Shorthand):
    """The operand repeated along new dims and along dims that are 1: its dim k is dim `dims[k]` of the result, and 1 or
    of the same size. If that is a symbol, it may differ between calls; any other size is refused. Shorthand for
    branches on sizes, and a `tcp.assert`."""

    __slots__ = ()
    opcode = "tcp.expand"
    places_of_dims = ElementsAttribute(int, "a list of ints", key="dims")
    """The dim of the result that each dim of the operand is."""

    @classmethod
    def of(cls, operand: Value, places: Sequence[int], type_: Type) -> Operation:
        """A detached one, expanded to `type_`."""
        return cls([operand], [type_], {"dims": tuple(places)})

    def usual_attribute(self, key: str) -> str:
        rank = len(shape_of(self.result.type))
        return str(list(range(max(0, rank - len(shape_of(self.operand.type))), rank)))

    def written_for(self) -> Sequence[Value]:
        self._check_dims()
        ones = [k for k, (own, _) in enumerate(self._extents()) if own == 1]
        block = Block()
        value = self._shown(block, self._open_dims(), ones)
        for op in list(block.ops):
            block.remove(op)
        return [value]

    def demands(self) -> Sequence[Operation]:
        """One assertion for each dim that may be 1 or not."""
        found: list[Operation] = []
        extents = self._extents()
        for k in self._open_dims():
            own, whole = extents[k]
            either = dict.fromkeys((Predicate.of("==", own, whole), Predicate.of("==", own, 1)))
            found.append(
                Assert.of(tuple(either), f"dim {k} of %{self.operand.name} is 1, or as long as what it becomes")
            )
        return found

    def _extents(self) -> list[tuple[Dim, Dim]]:
        """The extent of each dim of the operand, and of the dim that it becomes."""
        shape = shape_of(self.result.type)
        return [(own, shape[d]) for own, d in zip(shape_of(self.operand.type), self.places_of_dims, strict=True)]

    def _open_dims(self) -> list[int]:
        """The dims of the operand that are not known to be 1, nor to be as long as what they become."""
        extents = enumerate(self._extents())
        return [k for k, (own, whole) in extents if own != 1 and not are_equal_at(self, own, whole)]

    def _check_dims(self) -> None:
        places, rank, shape = self.places_of_dims, len(shape_of(self.result.type)), shape_of(self.operand.type)
        if not isinstance(self.operand.type, TensorType) or not isinstance(self.result.type, TensorType):
            raise self.error("tensors are expanded", "a tensor", f"%{self.operand.name}: {self.operand.type}")
        if len(places) != len(shape) or list(places) != sorted({*places}) or any(not 0 <= d < rank for d in places):
            raise self.error(
                "`dims` places each operand dim in the result",
                required=f"{len(shape)} increasing dims below {rank}",
                found=str(list(places)),
            )
        if dtype_of(self.operand.type) != dtype_of(self.result.type):
            right = like(self.result.type, shape_of(self.result.type), dtype_of(self.operand.type))
            raise self.error(
                "operand and result have one dtype", str(right), str(self.result.type), fix=f"write `: {right}`"
            )
        extents, open_dims = self._extents(), self._open_dims()
        held = f"%{self.operand.name}: {self.operand.type}, %{self.result.name}: {self.result.type}"
        for k in open_dims:
            own, whole = extents[k]
            if is_less(1, own) is True or is_less_equal_at(self, own, 0) or isinstance(own, int):
                raise self.error(
                    f"dim {k} of %{self.operand.name} is never 1, and not known to be as long as dim {places[k]}",
                    required=f"1, {to_text(whole)}, or a symbol that may be 1",
                    found=held,
                )
            if variables(own) or variables(whole):
                raise self.error(
                    f"whether dim {k} of %{self.operand.name} is 1 changes while the kernel runs",
                    required="sizes that are known when the kernel is called",
                    found=held,
                    fix=Direction("expand it outside of the loop"),
                )
        if len(open_dims) > MOST_OPEN:
            raise self.error(
                f"%{self.operand.name} has more dims that may be 1 than there are branches for",
                required=f"at most {MOST_OPEN}",
                found=str(len(open_dims)),
            )

    def _shown(self, block: Block, open_dims: Sequence[int], ones: Collection[int]) -> Value:
        """The result, at the end of a block: by a branch on the first dim of which only a call says whether it is 1."""
        if not open_dims:
            return self._broadcast(block, ones)
        first, *rest = open_dims
        own, whole = self._extents()[first]
        branch = If([], [self.result.type], {"predicate": Predicate.of("==", own, whole)}, [Block(), Block()])
        branch.result.name = branch.name = "wide"
        for region, more in zip(branch.regions, ((), (first,)), strict=True):
            region.append(Yield([self._shown(region, rest, (*ones, *more))]))
        return block.append(branch).result

    def _broadcast(self, block: Block, ones: Collection[int]) -> Value:
        """The operand, of which these dims are 1 and the others as long as those they become."""
        sizes = tuple(1 if k in ones else whole for k, (_, whole) in enumerate(self._extents()))
        value, rank = self.operand, len(sizes)
        if ones or sizes != shape_of(value.type):
            read = Materialize.of(value, Tile((0,) * rank, sizes, (1,) * rank, tuple(sorted(ones))))
            read.result.name = read.name = f"{self.operand.name}.t"
            value = block.append(read).result
        if value.type == self.result.type and value is not self.operand:
            return value
        spread = Broadcast.of(value, [d for k, d in enumerate(self.places_of_dims) if k not in ones], self.result.type)
        spread.result.name = spread.name = "wide"
        return block.append(spread).result
