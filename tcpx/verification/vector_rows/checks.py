"""Every row of a library beside its semantics."""

import numpy as np

from tcpx.target import InstructionRow, TargetError
from tcpx.verification.vector_rows.library import RowLibrary
from tcpx.verification.vector_rows.memory import wrong_access
from tcpx.verification.vector_rows.source import MEMORY_KINDS
from tcpx.verification.vector_rows.values import KINDS_OF_VALUES, wrong_value

LINE = 64
"""Bytes of a cache line."""


def wrong_row(library: RowLibrary, row: InstructionRow) -> str | None:
    """What the C of a row does that its kind or its semantics do not say; None where it is right."""
    if row.kind in MEMORY_KINDS:
        return wrong_access(library, row)
    if row.kind in KINDS_OF_VALUES:
        try:
            return wrong_value(library, row)
        except TargetError as error:
            return f"{error.diagnostic.message}: {error.diagnostic.found}"
    return _wrong_lead(library, row) if row.kind == "lead" else _run_alone(library, row)


def _wrong_lead(library: RowLibrary, row: InstructionRow) -> str | None:
    """A lead is the number of elements before the next cache line."""
    memory, out = np.zeros(64, np.float32), np.full(64, -1, np.int64)
    library.run(row, [memory.ctypes.data], out.ctypes.data, 64)
    wanted = -(memory.ctypes.data + np.arange(64) * memory.itemsize) % LINE // memory.itemsize
    wrong = np.flatnonzero(out != wanted)
    return f"{out[wrong[0]]} instead of {wanted[wrong[0]]}" if wrong.size else None


def _run_alone(library: RowLibrary, row: InstructionRow) -> None:
    """A row without a value, such as a prefetch: it ends."""
    memory = np.zeros(64)
    library.run(row, [memory.ctypes.data], memory.ctypes.data, 64)
