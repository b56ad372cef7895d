"""Rows as text for a terminal."""

from collections.abc import Sequence

from tcpx.columns import aligned
from tcpx.measure.rows import Row
from tcpx.quantities import duration, percent

WIDTHS = (34, 7, 14, 10, 15, 9, 8, 10)
"""At least: rows are printed as they are measured."""
HEAD = ("workload", "threads", "peer", "time", "rate", "of limit", "spread", "samples")
NAMES = (0, 1, 2)
"""Columns to the left."""


def table(rows: Sequence[Row], head: bool = True) -> str:
    """One line per row, in columns; why there is no figure where there is none."""
    return "\n".join(aligned([*([HEAD] if head else []), *map(_cells, rows)], NAMES, WIDTHS))


def rate(row: Row) -> str:
    """Operations a second, or bytes where there are no operations."""
    if not row.median_s:
        return ""
    amount, unit = (row.operations, "Gop/s") if row.operations else (row.bytes, "GB/s")
    return f"{amount / row.median_s / 1e9:.1f} {unit}" if amount else ""


def _cells(row: Row) -> tuple[str, ...]:
    named = (row.workload, str(row.threads), row.peer)
    if row.median_s is None:
        return (*named, f"{row.status}: {row.reason}" if row.reason else row.status)
    fraction = percent(row.fraction) if row.fraction is not None else ""
    spread = percent(row.spread) if row.spread is not None else ""
    return (*named, duration(row.median_s), rate(row), fraction, spread, f"{row.samples} (-{row.rejected})")
