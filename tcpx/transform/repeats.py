"""Operations that repeat, one run of them after the other, become one function."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tcpx.limits import LONGEST_FUNCTION, SHORTEST_PART
from tcpx.payload.diagnostics import ScheduleError
from tcpx.payload.ir import FuncOp, Operation
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.types import TensorType
from tcpx.transform.editing import is_pure
from tcpx.transform.outlining import Known, outline
from tcpx.transform.partition import Signature, crossings, signature


def outline_repeats(rewriter: Rewriter, func: FuncOp, least: int) -> None:
    """Outline equal parts that follow each other in a function on tensors, where that saves some operations.

    Parts are alike in operations, attributes and types first; that what they compute is of one structure is seen when
    they are functions. They begin where few values are handed on.
    """
    if "results" in func.attributes:
        return
    ops = [op for op in func.body.ops if op.operands and not op.is_terminator]  # what reads nothing is computed again
    crossing, numbers = crossings(ops), dict[Signature, int]()
    held = [signature(op) if is_pure(op) and _gives_tensors(op) else (op,) for op in ops]
    kinds = np.array([numbers.setdefault(kind, len(numbers)) for kind in held], int)
    while (found := _most_saved(kinds, least)) is not None:
        first, spare, length, count = found
        starts = sorted(range(first, first + spare + 1), key=crossing.__getitem__)
        next((at for at in starts if _is_outlined(rewriter, ops[at : at + length * count], length)), None)
        end = first + spare + length * count
        kinds[first:end] = np.arange(first, end) + len(ops)


def _gives_tensors(op: Operation) -> bool:
    return all(isinstance(result.type, TensorType) for result in op.results)


def _is_outlined(rewriter: Rewriter, ops: Sequence[Operation], length: int) -> bool:
    """Whether operations become calls of one function, so many for each; otherwise they are as they were."""
    known, mark = Known(), rewriter.mark()
    try:
        for at in range(0, len(ops), length):
            outline(rewriter, [op for op in ops[at : at + length] if op.parent is not None], known)
            if sum(map(len, known.values())) > 1:
                break
        else:
            return True
    except ScheduleError:  # what depends on a loop, say, stays where it is
        pass
    rewriter.rollback(mark)
    return False


def _most_saved(kinds: npt.NDArray[np.int_], least: int) -> tuple[int, int, int, int] | None:
    """Equal parts that follow each other, those that save most: the first start, how many places further the last one
    is, length and number; None if it is too little."""
    best, saved = None, max(least, 1) - 1
    for length in range(SHORTEST_PART, min(len(kinds) // 2, LONGEST_FUNCTION * 4) + 1):
        bounds = np.concatenate(([-1], np.flatnonzero(kinds[:-length] != kinds[length:]), [len(kinds) - length]))
        longest = int(np.argmax(np.diff(bounds)))
        first, alike = int(bounds[longest]) + 1, int(bounds[longest + 1] - bounds[longest]) - 1
        count = alike // length + 1
        if (count - 1) * length > saved:
            saved, best = (count - 1) * length, (first, alike % length, length, count)
    return best
