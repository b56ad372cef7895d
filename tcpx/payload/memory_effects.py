"""What an operation does to the memory of its operands and results: what bufferization asks of it."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from tcpx.payload.subsets import Tile
from tcpx.records import frozen_for_checkers

if TYPE_CHECKING:
    from tcpx.payload.ir import Value


class MoveKind(Enum):
    """How an operation hands an operand on."""

    YIELD = "yielded"
    RETURN = "returned"
    BRANCH = "handed out by a branch"
    INIT = "the first value of a destination"
    PIECE = "a piece of the result"
    RESHAPE = "reshaped"
    SUBSET = "read in part"


@frozen_for_checkers
class Move:
    """Elements of an operand, all or those of `source_tile`, that become elements of `to`, all or those of `tile`.

    `to` is a result, or a destination or result of an operation around; None is the result of the function of the same
    number. What is reshaped keeps the order of its elements, row by row.
    """

    kind: MoveKind
    operand: int
    to: Value | None
    tile: Tile | None = None
    source_tile: Tile | None = None
