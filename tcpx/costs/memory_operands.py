"""Which loads are operands of the instructions that use them, instead of instructions of their own."""

from collections.abc import Mapping, Sequence
from typing import Final

from tcpx.costs.row_uses import VALUES, RowUses
from tcpx.payload.ir import Operation, Value
from tcpx.payload.ops.gml_st import OnSubset, StYield
from tcpx.payload.types import BufferType
from tcpx.records import frozen
from tcpx.target import InstructionRow, Target

_LITERAL: Final = "literal"
_PLACES: Final = {"blend_lanes": -2}
"""Which operand of an instruction may lie in memory, where it is not the last one: that of `vblendvps` is a mask."""


Placed = Sequence[tuple[str, Value]]
"""The placeholders of a row that stand for values, and the values."""


@frozen
class MemoryOperands:
    """Those of a loop. `repeated` are vectors of one scalar that are loads, and the scalar."""

    target: Target
    uses: RowUses
    repeated: Mapping[Value, Value]

    def is_in_memory(self, op: Operation) -> bool:
        """Whether a load is an operand of its instruction."""
        sources = [value.defining_op for value in op.operands]
        return any(isinstance(source, OnSubset) and self.copies(source) for source in sources)

    def copies(self, op: Operation) -> int:
        """How many instructions have this load as their operand: the one that uses it, or both; 0 where it is a load of
        its own."""
        if len(op.results) != 1 or not isinstance(op, OnSubset):
            return 0
        value = op.results[0]
        users = [user for user, _ in value.uses]
        if len(users) == 1 and users[0].results and users[0].results[0] in self.repeated:
            users = [user for user, _ in users[0].results[0].uses]
            return int(len(users) == 1 and not isinstance(users[0], OnSubset | StYield))
        if len(users) == 1:
            return int(self._is_last_load(users[0], value))
        return len(users) if len(users) == 2 and all(self._may_read(user, value) for user in users) else 0

    def _is_last_load(self, user: Operation, value: Value) -> bool:
        """Whether a value is the last of those that an instruction uses alone and that are loads: one may lie in
        memory."""
        if isinstance(user, OnSubset | StYield) or "row" not in user.attributes:
            return False
        loads = [held for held in user.operands if isinstance(held.defining_op, OnSubset) and len(held.uses) == 1]
        return loads[-1:] == [value]

    def _may_read(self, user: Operation, value: Value) -> bool:
        """Whether a value is the operand of the only instruction of a row that may lie in memory."""
        if user.attributes.get("row") in (None, _LITERAL):
            return False
        row = self.target.row(str(user.attributes["row"]))
        places = [name for name, held in values_by_placeholder(user, row) if held is value]
        use = self.uses.of(row)
        if len(use.steps) != 1 or len(places) != 1:
            return False
        step, _ = use.steps[0]
        return step.operands[_PLACES.get(step.name, -1) :][:1] == (use.trace.sources[places[0]],)


def values_by_placeholder(op: Operation, row: InstructionRow) -> Placed:
    """The placeholders of a row that stand for values, and the values."""
    values = [value for value in op.operands if not isinstance(value.type, BufferType)]
    names = [name for name in row.placeholders if name in VALUES]
    return list(zip(names, values, strict=False))
