"""Which values share a C variable: a carried value with its first value, its result and what is yielded to it.

    %c0 = ..                                   __m512 acc = ..;
    %r  = for %k outs(%acc = %c0)      ->      for (..) {
            %s = fma(.., %acc)                   acc = fma(.., acc);
            yield %s to %acc                   }

Values join only if none of them is read after another one has been written.
"""

from __future__ import annotations

from tcpx.payload.ir import Block, FuncOp, Operation, Value, parent_op
from tcpx.payload.liveness import Liveness
from tcpx.payload.ops.gml_st import Conditional, Loop, StYield
from tcpx.payload.types import BufferType


class Group:
    """Values that live in one C variable; `name` is empty until the variable is declared."""

    __slots__ = ("members", "name")

    def __init__(self, value: Value) -> None:
        self.members = [value]
        self.name = ""

    @property
    def is_assigned(self) -> bool:
        """Whether the variable is written again after its declaration."""
        return any(isinstance(v.owner, Block | Loop | Conditional) for v in self.members)

    @property
    def hint(self) -> str:
        """The name of the outermost carried value, else of the first value."""
        depths: dict[Value, int] = {}
        for value in self.members:
            if isinstance(value.owner, Block) and value.owner.parent is not None:
                depths[value] = len(list(value.owner.parent.ancestors()))
        return min(depths, key=depths.__getitem__, default=self.members[0]).name

    def excludes(self, other: Group) -> bool:
        """Whether two values that are alive at once would meet: carried values of one loop, results of one branch."""
        mine = {id(v.owner) for v in self.members if isinstance(v.owner, Block | Loop | Conditional)}
        return any(id(v.owner) in mine for v in other.members)


class Variables:
    """The variable of every value of a function."""

    __slots__ = ("_first_value", "_groups", "_live", "_positions")

    def __init__(self, func: FuncOp, live: Liveness) -> None:
        self._groups: dict[Value, Group] = {}
        self._first_value: dict[Value, Value] = {}
        self._positions: dict[Operation, int] = {}
        self._live = live
        around = [op for op in func.walk() if op.regions]
        for op in around:
            for block in op.regions:
                self._positions.update({inner: k for k, inner in enumerate(block.ops)})
        for op in around:
            if isinstance(op, Loop):
                self._join_results_and_inits(op)
            elif isinstance(op, Conditional):
                self._join_branches(op)
        for op in around:
            if isinstance(op, Loop):
                self._join_yields(op)

    def of(self, value: Value) -> Group:
        """The group of this value."""
        return self._groups.setdefault(value, Group(value))

    def _join(self, a: Value, b: Value) -> bool:
        kept, gone = self.of(a), self.of(b)
        if kept is not gone:
            if kept.excludes(gone):
                return False
            kept.members += gone.members
            self._groups.update(dict.fromkeys(gone.members, kept))
        return True

    def _join_results_and_inits(self, loop: Loop) -> None:
        for init, dest, result in zip(loop.operands, loop.destinations, loop.results, strict=True):
            if isinstance(init.type, BufferType) or not self._live.has_use(dest):
                continue
            self._join(dest, result)
            is_only_use = len(init.uses) == 1 and _block_of(init) is loop.parent
            if is_only_use and self._is_overwritten(init) and self._join(init, dest):
                self._first_value[result] = init

    def _is_overwritten(self, value: Value) -> bool:
        """A destination that nothing is yielded to keeps its value from iteration to iteration."""
        loop = value.owner.parent if isinstance(value.owner, Block) else None
        return not isinstance(loop, Loop) or bool(loop.yields_to(loop.destinations.index(value)))

    def _join_branches(self, branches: Conditional) -> None:
        for block in branches.regions:
            end = block.terminator
            for value, result in zip(end.operands if end is not None else (), branches.results, strict=True):
                if self._live.has_use(result) and len(value.uses) == 1 and _block_of(value) is block:
                    self._join(result, value)

    def _join_yields(self, loop: Loop) -> None:
        for index, dest in enumerate(loop.destinations):
            yields = loop.yields_to(index)
            if not self._live.has_use(dest) or len(yields) != 1 or yields[0].parent is not loop.body:
                continue
            value = yields[0].operands[0]
            if _block_of(value) is loop.body and self._is_read_before_write(dest, value, loop.body):
                self._join(dest, value)

    def _is_read_before_write(self, dest: Value, value: Value, body: Block) -> bool:
        """Whether all reads of `dest` come before the variable of `value`, computed in `body`, is first written."""
        while value in self._first_value:
            value = self._first_value[value]
        writer = value.defining_op
        if writer is None:
            return False
        limit = self._positions[writer] + (0 if writer.regions else 1)
        for user, operand in dest.uses:
            if isinstance(user, StYield):
                if operand == 0:
                    return False
            elif self._position_in(body, user) >= limit:
                return False
        return True

    def _position_in(self, body: Block, op: Operation) -> int:
        while op.parent is not body:
            outer = parent_op(op)
            if outer is None:
                raise op.error(
                    "the operation is not in the block that it reads from", required="an operation of that block"
                )
            op = outer
        return self._positions[op]


def _block_of(value: Value) -> Block | None:
    return value.owner if isinstance(value.owner, Block) else value.owner.parent
