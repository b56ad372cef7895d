"""Copies of what loops of the payload carry: each iteration makes them again."""

from typing import Final

from tcpx.payload.diagnostics import Diagnostic, Direction, Kind
from tcpx.payload.ir import written_at
from tcpx.payload.ops.gml_st import Loop, Materialize, runs_at_most_once
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.sizes import variables
from tcpx.payload.types import shape_of
from tcpx.transform.bufferization.effects import Write
from tcpx.transform.bufferization.placement import Placement
from tcpx.transform.bufferization.storage import Storage
from tcpx.transform.payload_names import payload_name

_REQUIRED: Final = "memory in which it can be computed: nothing reads it later"


class RepeatedCopies:
    """Says which copies the iterations of a loop make of what it carries, and why.

    Only loops of the payload count. The copies in loops of a schedule are those that its statements ask for.
    """

    def __init__(self, rewriter: Rewriter, placement: Placement) -> None:
        self._rewriter, self._placement = rewriter, placement

    def of(self, write: Write, reason: str | None) -> Diagnostic | None:
        """The remark on a copy, where a loop makes it of what it carries. Without a reason, a copy of what lies
        elsewhere has none: the payload asks for it."""
        if write.source is None:
            return None
        source, target = self._memory(write.source), self._memory(write.target)
        loops = (op for op in write.op.ancestors() if isinstance(op, Loop) and self._repeats(op))
        for loop in loops:
            carried = [self._memory(held) for d in loop.destinations if (held := self._placement.effects.of(d))]
            if target in carried and source in carried and source is not target:
                reason = reason or "it is a part of another value that the loop carries"
            read = source in carried and isinstance(write.op, Materialize) and write.op.location is not None
            if reason and (target in carried or read):
                return self._remark(write, loop, reason)
        return None

    def _memory(self, storage: Storage) -> Storage:
        return self._placement.places.place(storage).memory

    def _remark(self, write: Write, loop: Loop, reason: str) -> Diagnostic:
        value, op = write.op.operands[write.index], write.op
        name = f"%{payload_name(value, self._rewriter.first_names)}"
        is_tile = any(variables(extent) for extent in shape_of(value.type))
        what = f"a part of {name}" if is_tile else f"{name}: {value.type}"
        offsets = write.place(self._placement.places).tile.offsets
        has_slots = any(loop.var in variables(offset) for offset in offsets)
        slots = f"carry one array with a dim of 2 in front: write slot `mod(%{loop.var.name}, 2)`, read the other"
        return Diagnostic(
            f"each iteration of %{loop.var.name} copies {what}",
            Kind.WARNING,
            payload=written_at(op) or op.location,
            required=_REQUIRED,
            found=reason,
            fix=None if has_slots else Direction(slots),
            cause="element_copy",
        )

    def _repeats(self, loop: Loop) -> bool:
        """Whether it is a loop of the payload that may have several iterations; those of a schedule have new names."""
        return loop.name.split("~")[0] in self._rewriter.first_names and not runs_at_most_once(loop)
