"""Which operations and values the effects of a function depend on: nothing else is in its C."""

from tcpx.payload.ir import Block, FuncOp, Operation, Value, parent_op
from tcpx.payload.ops.gml_st import Conditional, If, IfValue, Loop, StYield, While


class Liveness:
    """The live part of a function. Effects are operations without results that end no block and carry no value."""

    __slots__ = ("_branches", "_ops", "_pending", "_values")

    def __init__(self, func: FuncOp) -> None:
        self._ops: set[Operation] = {func}
        self._values: set[Value] = set()
        self._pending: list[Value] = []
        self._branches: dict[Conditional, list[Block]] = {}
        self._need_effects(func.body)
        while self._pending:
            self._visit(self._pending.pop())

    def branches(self, op: Conditional) -> list[Block]:
        """The branches that may be taken: one if the condition is decided."""
        known = self._branches.get(op)
        if known is None:
            decided = op.predicate.decide() if isinstance(op, If) else None
            known = self._branches[op] = op.regions if decided is None else [op.then if decided else op.orelse]
        return known

    def is_live(self, op: Operation) -> bool:
        """Whether the operation is an effect, encloses one, or gives a live value."""
        return op in self._ops

    def has_use(self, value: Value) -> bool:
        """Whether a live operation depends on this value."""
        return value in self._values

    def _need_effects(self, block: Block) -> None:
        for op in block.ops:
            for inner in self.branches(op) if isinstance(op, Conditional) else op.regions:
                self._need_effects(inner)
            if not op.results and not op.regions and not op.is_terminator and not isinstance(op, StYield):
                self._need_op(op)
                self._need(*op.operands)

    def _need(self, *values: Value) -> None:
        for value in values:
            if value not in self._values:
                self._values.add(value)
                self._pending.append(value)

    def _need_op(self, op: Operation) -> None:
        held: Operation | None = op
        while held is not None and held not in self._ops:
            self._ops.add(held)
            if isinstance(held, IfValue | While):
                self._need(held.condition)
            held = parent_op(held)

    def _visit(self, value: Value) -> None:
        op = value.defining_op
        if isinstance(value.owner, Block):
            loop = value.owner.parent
            if isinstance(loop, Loop):
                self._need_carried(loop, value.owner.args.index(value))
        elif isinstance(op, Loop):
            self._need_carried(op, op.results.index(value))
        elif isinstance(op, Conditional):
            self._need_op(op)
            for block in self.branches(op):
                if block.terminator is not None:
                    self._need(block.terminator.operands[op.results.index(value)])
        elif op is not None:
            self._need_op(op)
            self._need(*op.operands)

    def _need_carried(self, loop: Loop, index: int) -> None:
        self._need_op(loop)
        self._need(loop.operands[index], loop.destinations[index], loop.results[index])
        for yielded in loop.yields_to(index):
            if self._may_run(yielded):
                self._need_op(yielded)
                self._need(yielded.operands[0])

    def _may_run(self, op: Operation) -> bool:
        inner, outer = op.parent, parent_op(op)
        while inner is not None and outer is not None:
            if isinstance(outer, Conditional) and not any(inner is block for block in self.branches(outer)):
                return False
            inner, outer = outer.parent, parent_op(outer)
        return True
