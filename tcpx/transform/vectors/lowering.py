"""The run over a function or loop that unrolls n-D vectors to 1-D ones."""

from typing import Final

from tcpx.payload.diagnostics import Diagnostic, Direction
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import ROW, Block, Operation
from tcpx.payload.ops.constant import Const
from tcpx.payload.ops.gml_st import Conditional, Loop, StYield
from tcpx.payload.ops.vector import Extract, FromElements, Gather, Insert, Mask, Read, Shuffle, ToTensor, Write
from tcpx.payload.rewriter import Rewriter
from tcpx.target import Target
from tcpx.transform.recipes import Recipes
from tcpx.transform.vectors.control import Cleanup, lower_carried_yield, lower_if, lower_loop
from tcpx.transform.vectors.instruction_count import check_instructions
from tcpx.transform.vectors.literals import literal_of
from tcpx.transform.vectors.multiply_add import fuse_multiply_add
from tcpx.transform.vectors.pieces import Pieces
from tcpx.transform.vectors.refusal import refusal
from tcpx.transform.vectors.remarks import LaneRemarks
from tcpx.transform.vectors.structured import rearrange, unroll
from tcpx.transform.vectors.widths import is_vector, uses_vectors
from tcpx.transform.vectors.writes import lower_write


def lower_vectors(rewriter: Rewriter, root: Operation, target: Target) -> tuple[Diagnostic, ...]:
    """Unroll every vector in `root`, a function or loop, to 1-D vectors of the target's lanes, and fuse products
    into sums. Returns a remark for each operation of dtypes that have no vectors of equally many lanes. Raises
    ScheduleError, located, on an operation that cannot be lowered."""
    for op in root.walk():
        check_instructions(op, target)
    run = VectorLowering(rewriter, root, target)
    if isinstance(root, Loop):
        run.check_carried(root)
    for block in root.regions:
        run.block(block)
    run.finish()
    fuse_multiply_add(rewriter, root, target)
    return run.remarks.all


class VectorLowering:
    """One run. Operations that are replaced stay until the end, where they are erased last first."""

    def __init__(self, rewriter: Rewriter, root: Operation, target: Target) -> None:
        self.rewriter = rewriter
        self.pieces = Pieces(rewriter, target, root)
        self.cleanups: list[Cleanup] = []
        self.remarks = LaneRemarks()

    def check_carried(self, root: Loop) -> None:
        """What the loop at the root carries is defined and used outside, where nothing is lowered."""
        for dest in root.destinations:
            if is_vector(dest) and not self.pieces.widths.is_piece(dest):
                raise refusal(
                    root,
                    "carries a vector of another width than instructions have",
                    required="a loop that carries no vectors, or vectors as wide as those of one instruction",
                    found=f"%{dest.name}: {dest.type}",
                    fix=Direction("apply lower_vectors to an enclosing loop, or to the function"),
                )

    def block(self, block: Block) -> None:
        """Lower the operations of a block in order."""
        for op in list(block.ops):
            self.pieces.anchor = op
            self.operation(op)

    def operation(self, op: Operation) -> None:
        """Lower one operation. One for which an instruction is chosen is lowered."""
        if ROW in op.attributes:
            return
        if not LOWERED.apply(self, op) and uses_vectors(op) and not op.is_terminator:
            value = next(v for v in (*op.operands, *op.results) if is_vector(v))
            raise refusal(
                op,
                "is no operation that can be unrolled to 1-D vectors",
                required="a structured operation, a literal, a read, a write, a yield, a loop or a branch",
                found=f"{op.opcode} on %{value.name}: {value.type}",
            )

    def structured(self, op: Structured) -> None:
        if uses_vectors(op) and unroll(self.pieces, op):
            self._remark_scalars(op)
            self._replaced(op)

    def _remark_scalars(self, op: Structured) -> None:
        dtypes = [str(d) for d in self.pieces.widths.dtypes_without_lanes(op)]
        if not dtypes or op.is_movement:
            return
        target = self.pieces.target
        shown = f"%{op.name.split('~')[0]}" if op.name else op.opcode
        self.remarks.add(
            op,
            f"{shown} of {' and '.join(dtypes)}",
            required=f"vectors of {target.name} of equally many lanes of each dtype",
            found="; ".join(f"{d}: {', '.join(map(str, target.lane_counts(d)))}" for d in dtypes),
        )

    def loop(self, op: Loop) -> None:
        place = len(self.cleanups)
        self.cleanups[place:place] = lower_loop(self.pieces, op, self.block)

    def branch(self, op: Conditional) -> None:
        place = len(self.cleanups)
        results, ends = lower_if(self.pieces, op, self.block)
        self.cleanups[place:place] = results
        self.cleanups += ends

    def yielded(self, op: StYield) -> None:
        if is_vector(op.destination) or self.pieces.widths.partial_reduction(op.destination) is not None:
            if lower_carried_yield(self.pieces, op):
                self._replaced(op)
        else:
            self.written(op)

    def written(self, op: StYield | Write) -> None:
        if is_vector(op.value) and lower_write(self.pieces, op):
            self._replaced(op)

    def rearranged(self, op: Insert | Shuffle) -> None:
        if uses_vectors(op):
            if rearrange(self.pieces, op):
                self._replaced(op)
            else:
                self.kept_where_used(op)

    def kept_where_used(self, op: Operation) -> None:
        if uses_vectors(op):
            self.cleanups.append(lambda: None if op.results[0].uses else self._erase(op))

    def constant(self, op: Const) -> bool | None:
        return self.kept_where_used(op) if literal_of(op) is not None else False

    def extracted(self, op: Extract) -> None:
        pieces, vector = self.pieces, op.operand
        if pieces.widths.is_piece(vector):
            self.rewriter.set_operand(op, 0, pieces.piece(vector, (0,), pieces.widths.of(vector)))
        else:
            self.rewriter.replace_uses(op.result, pieces.scalar(vector, (op.lane,)))
            self._replaced(op)

    def to_tensor(self, op: ToTensor) -> None:
        if uses_vectors(op):
            raise refusal(
                op,
                "puts a vector into storage that is not planned yet",
                required="vectors that are read, computed, carried and written",
                found=f"%{op.operand.name}: {op.operand.type} as a tensor",
                fix=Direction("apply hoist_accumulator to the loop that takes it, or bufferize first"),
            )

    def _replaced(self, op: Operation) -> None:
        self.cleanups.append(lambda: self._erase(op))

    def finish(self) -> None:
        """Erase what was replaced, and pieces that nothing uses."""
        for cleanup in reversed(self.cleanups):
            cleanup()
        for op in reversed(self.pieces.created):
            if op.parent is not None and not any(r.uses for r in op.results):
                self._erase(op)

    def _erase(self, op: Operation) -> None:
        rewriter = self.rewriter
        alone = tuple(o for o in op.origins if rewriter.origins.get(o) == [op])
        if alone:
            rewriter.set_origins(op, alone)
            rewriter.end(op, "lower_vectors left no instruction of it: it was data movement, or nothing used it")
        rewriter.erase(op)


LOWERED: Final = Recipes[VectorLowering]()
"""How operations on vectors of any rank become ones on 1-D vectors, by class."""
LOWERED.add(VectorLowering.structured, Structured)
LOWERED.add(VectorLowering.loop, Loop)
LOWERED.add(VectorLowering.branch, Conditional)
LOWERED.add(VectorLowering.yielded, StYield)
LOWERED.add(VectorLowering.written, Write)
LOWERED.add(VectorLowering.rearranged, Insert, Shuffle)
LOWERED.add(VectorLowering.kept_where_used, Read, Mask, Gather, FromElements)
LOWERED.add(VectorLowering.constant, Const)
LOWERED.add(VectorLowering.extracted, Extract)
LOWERED.add(VectorLowering.to_tensor, ToTensor)
