"""Giving rows to operations, and rewriting those that have none."""

from collections.abc import Callable, Collection, Sequence
from typing import Final

from tcpx.payload.diagnostics import Direction
from tcpx.payload.interfaces import Build
from tcpx.payload.ir import ROW, FuncOp, Operation, Value
from tcpx.payload.ops.vector import Extract, FromElements
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.types import dtype_of
from tcpx.target import InstructionRow, LaneType, Target
from tcpx.target.semantics import is_expression
from tcpx.transform.vectors.accesses import TilesOfPieces
from tcpx.transform.vectors.literals import is_splat, lane_type
from tcpx.transform.vectors.refusal import refusal
from tcpx.transform.vectors.remarks import LaneRemarks

LITERAL: Final = "literal"
"""The row of a scalar constant: it stands in the code as a number."""


class Selector:
    """Rows for the operations of one function. What a rewrite makes is `pending` until it is selected itself."""

    def __init__(self, rewriter: Rewriter, func: FuncOp, target: Target) -> None:
        self.rewriter, self.func, self.target = rewriter, func, target
        self.tiles = TilesOfPieces()
        self.remarks = LaneRemarks()
        self._pending: list[Operation] = []

    def take_pending(self) -> list[Operation]:
        """Operations made since the last call."""
        taken, self._pending = self._pending, []
        return taken

    def find(
        self,
        kind: str,
        result: LaneType | None = None,
        operands: Sequence[LaneType] | None = None,
        semantics: str | None = None,
        conditions: Collection[str] = (),
    ) -> InstructionRow | None:
        """The best row of the target, or None; semantics that no target speaks have none."""
        if semantics is not None and not is_expression(semantics):
            return None
        return self.target.find(kind, semantics, result, operands, conditions)

    def give(self, op: Operation, row: InstructionRow | str) -> None:
        """Let `op` be this row."""
        self.rewriter.set_attribute(op, ROW, row if isinstance(row, str) else row.name)

    def remark_lanes(self, op: Operation, lanes: int) -> None:
        """Say that an operation on vectors is done lane by lane."""
        dtypes = dict.fromkeys(str(dtype_of(value.type)) for value in (op.operands[-1], op.result))
        self.remarks.add(
            op,
            f"{op.opcode} of {' to '.join(dtypes)}",
            required=f"an instruction of {self.target.name} for {lanes} lanes, or simpler operations that have one",
            found="none",
        )

    def missing(self, op: Operation, kind: str) -> Exception:
        """The error for an operation that the target cannot do in any way."""
        types = [str(v.type) for v in op.operands]
        result = f" -> {op.results[0].type}" if op.results else ""
        return refusal(
            op,
            f"has no instruction on the target {self.target.name}",
            required=f"a row of kind {kind} for {', '.join(types)}{result}",
            found="none, not even for single lanes",
            fix=Direction(f"add the row to the table of {self.target.name}, or choose another dtype or target"),
        )

    def rewrite(self, op: Operation, run: Callable[[Build], Value | None]) -> bool:
        """Replace `op` by what `run` builds in its place, if it builds something; its last operation continues `op`."""
        value = run(self.builder(op))
        if value is None:
            return False
        last = value.defining_op
        if last is not None and last in self._pending:
            self.rewriter.continue_as(op, last)
        self.rewriter.replace_op(op, [value])
        return True

    def builder(self, before: Operation) -> Build:
        """A `Build` that inserts before an operation; what it inserts is pending."""
        base = before.results[0].name if before.results else before.operands[0].name

        def build(made: Operation) -> Value:
            made.stand_for(before)
            self._pending.append(self.rewriter.insert(made, InsertPoint.before(before), base))
            return made.result

        return build

    def put(self, made: Operation, before: Operation) -> None:
        """Insert an operation without a result, as a part of `before`."""
        made.stand_for(before)
        self._pending.append(self.rewriter.insert(made, InsertPoint.before(before)))
        self.rewriter.set_origins(made, before.origins, before.copy_path)

    @staticmethod
    def lane(build: Build, vector: Value, lane: int) -> Value:
        """One lane of a 1-D vector: what it was made of, where that is known."""
        op = vector.defining_op
        if op is not None and is_splat(op):
            return op.operands[0]
        return op.operands[lane] if isinstance(op, FromElements) else build(Extract.of(vector, lane))


def type_of(value: Value, op: Operation) -> LaneType:
    """The target's name of the type of an operand or result of `op`; an error if it is no scalar or 1-D vector."""
    found = lane_type(value.type)
    if found is None:
        raise refusal(
            op,
            "is not lowered to scalars and 1-D vectors",
            required="a scalar or a 1-D vector",
            found=f"%{value.name}: {value.type}",
            fix=Direction("apply bufferize and lower_vectors before"),
        )
    return found
