"""Subsets as they are written: `full`, `point`, `filter`, and yields that `combine`."""

from collections.abc import Mapping, Sequence

from tcpx.payload.ir import Attribute, Operation, Value
from tcpx.payload.ops.gml_st import Materialize, StYield
from tcpx.payload.ops.subset_forms import COMBINERS, combined, of_filter, point, to_filter
from tcpx.payload.subsets import Tile
from tcpx.payload.text.scope import Scope
from tcpx.payload.text.short_forms import ShortFormReader
from tcpx.payload.text.syntax import Node, child, nodes, tokens
from tcpx.payload.types import Type, shape_of
from tcpx.plurals import counted

FILTER_READ = "gml_st.materialize(%source, %indices) filter [DIM]"
FILTER_WRITTEN = "gml_st.yield(%value, %indices, %destination) filter [DIM]"
COMBINED = "gml_st.yield(%value, %destination) SUBSET combine OPERATION"


class SubsetReader(ShortFormReader):
    """Reads subsets, and the operations that some of them are short for."""

    def subset(self, node: Node, operands: Sequence[Value], scope: Scope) -> Tile:
        """A tile, a point, or all of the last operand."""
        if node.data == "tile":
            return self.tile(node, scope)
        if node.data == "point":
            return point(self.dims(nodes(node)[0], scope))
        return Tile.full(shape_of(operands[-1].type) if operands else ())

    def written_for(
        self,
        node: Node,
        cls: type[Operation],
        operands: Sequence[Value],
        types: Sequence[Type],
        attributes: Mapping[str, Attribute],
        scope: Scope,
    ) -> Operation:
        """What an operation with a `filter` or `combine` is short for; operations that make its operands stand nowhere
        yet."""
        filtered, word = child(node, "filter"), child(node, "combine")
        combiner = COMBINERS.get(str(tokens(word)[0])) if word is not None else None
        if word is not None and combiner is None:
            raise self.source.error(
                word, "a yield combines by one of a few operations", required=" or ".join(COMBINERS)
            )
        is_read, is_yield, others = cls is Materialize, cls is StYield, dict(attributes)
        subset = others.pop("subset", None)
        match operands:
            case [source, indices] if is_read and filtered is not None and combiner is None and len(types) == 1:
                made = of_filter(source, indices, self._dim(filtered, source, scope), types[0])
                made.attributes |= others
            case [value, indices, destination] if is_yield and filtered is not None:
                made = to_filter(value, indices, destination, self._dim(filtered, destination, scope), combiner)
                written = made.operands[0].defining_op or made
                written.attributes |= others
            case [value, destination] if is_yield and isinstance(subset, Tile) and combiner is not None:
                made = combined(value, destination, subset, combiner)
                made.attributes |= others
            case _:
                raise self.source.error(
                    node,
                    "this operation has no such subset",
                    required=f"`{COMBINED}`" if filtered is None else f"`{FILTER_READ}` or `{FILTER_WRITTEN}`",
                    found=f"{cls.opcode} with {counted(len(operands), 'operand')}",
                )
        self.finish(made, self.source.location(node), f"{operands[-1].name}.t")
        return made

    def _dim(self, node: Node, value: Value, scope: Scope) -> int:
        """The dim along which indices are given."""
        given = [self.integer(n, scope, "the dim of a filter") for n in nodes(nodes(node)[0])]
        rank = len(shape_of(value.type))
        if len(given) != 1 or not 0 <= given[0] < rank:
            raise self.source.error(
                node,
                "a filter has indices along one dim",
                required=f"one dim of %{value.name}: {value.type}, 0 or more",
                found=str(given),
            )
        return given[0]
