"""Sizes that a branch has made known, written into the types: what is symbolic outside of it may be static inside."""

from collections.abc import Sequence

from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Operation, Value
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.sizes.context import Context
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.rebuilding import Rebuilding
from tcpx.payload.types import Type, shape_of, with_shape


def write_known_sizes(rewriter: Rewriter, ops: Sequence[Operation], facts: Context) -> None:
    """Let the tensors made by these operations, and by all inside them, have the sizes that the facts give them.

    The destinations of a loop follow its inits, which may come from outside.
    """
    for root in ops:
        for op in root.walk():
            subset = op.attributes.get("subset")
            if isinstance(subset, Tile):
                known = Tile(subset.offsets, tuple(map(facts.value, subset.sizes)), subset.strides, subset.dropped)
                if known != subset:
                    rewriter.set_attribute(op, "subset", known)
            if isinstance(op, Structured):
                declared = {it.name: facts.value(it.extent) for it in op.iterators() if it.extent is not None}
                for key, attribute in Rebuilding(op).declaring(declared).items() if declared else ():
                    if op.attributes[key] != attribute:
                        rewriter.set_attribute(op, key, attribute)
            if isinstance(op, Loop):
                for init, dest, result in zip(op.operands, op.destinations, op.results, strict=True):
                    _set_type(rewriter, dest, init.type)
                    _set_type(rewriter, result, init.type)
                continue
            for value in op.results:
                _set_type(rewriter, value, _known(value.type, facts))


def _known(type_: Type, facts: Context) -> Type:
    shape = shape_of(type_)
    known = tuple(map(facts.value, shape))
    return type_ if known == shape else with_shape(type_, known)


def _set_type(rewriter: Rewriter, value: Value, type_: Type) -> None:
    if value.type != type_:
        rewriter.set_type(value, type_)
