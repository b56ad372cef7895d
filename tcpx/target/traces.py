"""What instructions compilers make of a row: the classes of its C, and which waits for which."""

from typing import Final

from tcpx.target.c_text import Helper, expression_of, helper_of
from tcpx.target.c_types import INTEGER, MASK, SCALAR_BITS, CType, c_type_of
from tcpx.target.rows import PLACEHOLDER, InstructionRow, LaneType
from tcpx.target.target import Target
from tcpx.target.tracer import Held, Trace, Tracer, constant

_OPERANDS: Final = ("a", "b", "c")


class Traces:
    """Traces of the rows of a target, each made once."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._known: dict[str, Trace] = {}
        self._helpers: dict[str, Helper | None] = {}

    def of(self, row: InstructionRow) -> Trace:
        """The trace of a row. Raises TargetError for C that is not understood."""
        known = self._known.get(row.name)
        if known is None:
            known = self._known[row.name] = self._traced(row)
        return known

    def _helper(self, name: str) -> Helper | None:
        if name not in self._helpers:
            text = self._target.helpers.get(name)
            self._helpers[name] = None if text is None else helper_of(text)
        return self._helpers[name]

    def _traced(self, row: InstructionRow) -> Trace:
        tracer = Tracer(self._helper)
        scope = {name: self._placeholder(name, row, tracer) for name in row.placeholders}
        text = PLACEHOLDER.sub(lambda match: match.group(1), row.c)
        result = self._type(row.result) if row.result is not None else INTEGER
        return tracer.trace(tracer.row(expression_of(text), scope), result)

    def _placeholder(self, name: str, row: InstructionRow, tracer: Tracer) -> Held:
        held = row.operands[0] if name == "v" else None
        if name in _OPERANDS:
            held = row.operands[_OPERANDS.index(name)]
        if held is not None:
            return tracer.source(name, self._type(held))
        if name == "x" and row.result is not None:
            return constant("x", self._type(row.result))
        if name in ("lane", "lanes") or (name == "s" and row.kind == "gather"):
            return constant("1")
        if name == "p":
            accessed = row.result or row.operands[0] if row.operands or row.result else LaneType("si64", 1)
            return tracer.source(name, CType("pointer", SCALAR_BITS, self._type(LaneType(accessed.dtype, 1)).lane))
        return tracer.source(name, INTEGER)

    def _type(self, lane_type: LaneType) -> CType:
        name = self._target.types.get(lane_type)
        return c_type_of(name) if name is not None else MASK if lane_type.dtype == "i1" else INTEGER
