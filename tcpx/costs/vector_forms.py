"""What an iteration on single elements would be on vectors: rows of the same semantics with more lanes."""

from collections.abc import Mapping
from dataclasses import field
from functools import lru_cache
from typing import Final

from tcpx.payload.ir import Operation
from tcpx.records import frozen
from tcpx.target import InstructionRow, LaneType, Target

_WIDENED: Final = ("compute", "load", "store")
"""The kinds of rows that have forms with more lanes."""
LANE_BY_LANE: Final = ("extract", "insert")
"""The kinds of rows that take vectors apart, and put them together again."""
VECTOR_CLASSES: Final = {
    "alu": "add_i",
    "select": "blend_mask",
    "shift_scalar": "shift",
    "multiply": "mul_i32",
    "divide": "div_f64",
    "compare_scalar": "compare_f_mask",
    "convert_scalar": "convert",
    "scalar_to_float": "convert",
    "float_to_scalar": "convert",
}
"""The classes that do on vectors what others do on scalars."""
_WORD: Final = "si32"


@frozen
class Form:
    """In what form the operations of an iteration count: those on single elements as on vectors of so many `lanes`, of
    which an iteration is one lane, and so much of an operation as `parts` says, if it is there."""

    lanes: int = 1
    parts: Mapping[Operation, float] = field(default_factory=dict[Operation, float])


AS_IT_IS: Final = Form()


def is_on_elements(row: InstructionRow) -> bool:
    """Whether a row computes, reads or writes single elements."""
    types = [*row.operands, *([row.result] if row.result is not None else [])]
    return row.kind in _WIDENED and all(type_.lanes == 1 for type_ in types)


@lru_cache(maxsize=4096)
def on_vectors(target: Target, row: InstructionRow, lanes: int, *, in_words: bool = True) -> InstructionRow | None:
    """The row that does what one on single elements does, in so many lanes, `in_words` also on integers of 32 bits in
    place of others; None where the target has none."""
    if not is_on_elements(row):
        return None
    return _found(target, row, lanes, False) or (_found(target, row, lanes, True) if in_words else None)


def _found(target: Target, row: InstructionRow, lanes: int, in_words: bool) -> InstructionRow | None:
    """The row with these lanes of the same dtypes, or of integers of 32 bits in place of others."""

    def wider(type_: LaneType) -> LaneType:
        is_other = in_words and type_.dtype.startswith(("si", "ui"))
        return LaneType(_WORD if is_other else type_.dtype, lanes)

    result = None if row.result is None else wider(row.result)
    return target.find(row.kind, row.semantics, result, [wider(type_) for type_ in row.operands])
