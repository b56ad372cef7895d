"""Subsets that are no boxes, and yields that combine, as the operations that they are written for."""

from collections.abc import Sequence
from typing import Final

from tcpx.payload.indexing_maps import dims, element_of
from tcpx.payload.interfaces import Iterator, IteratorKind
from tcpx.payload.ir import Attribute, Block, Operation, Value
from tcpx.payload.ops.elementwise import Add, Binary, Max, Min, Mul
from tcpx.payload.ops.generic import Generic, Yield
from tcpx.payload.ops.gml_st import Materialize, StYield, full_like
from tcpx.payload.sizes import Dim
from tcpx.payload.subsets import Tile
from tcpx.payload.types import Type, dtype_of, shape_of

COMBINERS: Final[dict[str, type[Binary]]] = {cls.opcode: cls for cls in (Add, Mul, Max, Min)}
"""What a yield may combine with what is in its destination."""


def point(offsets: Sequence[Dim]) -> Tile:
    """The subset that is one element; its value has no dims."""
    rank = len(offsets)
    return Tile(tuple(offsets), (1,) * rank, dropped=tuple(range(rank)))


def of_filter(source: Value, indices: Value, dim: int, result: Type) -> Operation:
    """A detached operation: the elements of a tensor that indices say along a dim of it, in their order."""
    kinds = [IteratorKind.PARALLEL] * len(shape_of(source.type))
    block = _elements(source, indices)
    block.append(Yield(block.args[:1]))
    return Generic([source, indices], [result], _attributes(kinds, dim, to_result=False), [block])


def to_filter(value: Value, indices: Value, destination: Value, dim: int, combiner: type[Binary] | None) -> Operation:
    """A detached yield: write a value where indices say along a dim of a destination, the last of equal ones, or
    combine it with what is there."""
    whole = Materialize.of(destination, full_like(destination))
    kinds = [IteratorKind.PARALLEL] * len(shape_of(destination.type))
    kinds[dim] = IteratorKind.SEQUENTIAL if combiner is None else IteratorKind.REDUCTION
    attributes = _attributes(kinds, dim, to_result=True)
    block = _elements(value, indices)
    before = Value("before", dtype_of(destination.type), block)
    block.args.append(before)
    element = block.args[0]
    if combiner is None:
        attributes["neutral"] = (0,)
    else:
        attributes["combiner"] = combiner.opcode
        combined = block.append(combiner.of(before, element))
        combined.name = combined.result.name = "combined"
        element = combined.result
    block.append(Yield([element]))
    made = Generic([value, indices, whole.result], [destination.type], attributes, [block])
    return StYield.of(made.result, destination, full_like(destination))


def combined(value: Value, destination: Value, subset: Tile, combiner: type[Binary]) -> Operation:
    """A detached yield: write to a subset what it has, combined with a value."""
    before = Materialize.of(destination, subset)
    made = combiner.of(before.result, value)
    return StYield.of(made.result, destination, subset)


def _elements(value: Value, indices: Value) -> Block:
    return Block([("element", dtype_of(value.type)), ("at", dtype_of(indices.type))])


def _attributes(kinds: Sequence[IteratorKind], dim: int, to_result: bool) -> dict[str, Attribute]:
    """The iterators and maps of a generic in which input 1 says where along a dim of input 0, or of the result."""
    own = dims(*(f"d{k}" for k in range(len(kinds))))
    found = (*own[:dim], element_of(1), *own[dim + 1 :])
    source, result = (own, found) if to_result else (found, own)
    iterators = tuple(Iterator(f"d{k}", kind).entry for k, kind in enumerate(kinds))
    return {"iterators": iterators, "maps": (source, (own[dim],), result)}
