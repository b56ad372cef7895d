"""Rows as text for a terminal."""

from collections.abc import Sequence

from tcpx.measure.rows import Row

WIDTHS = (34, 7, 14, 10, 15, 9, 8, 10)
HEAD = ("workload", "threads", "peer", "time", "rate", "of limit", "spread", "samples")


def table(rows: Sequence[Row], head: bool = True) -> str:
    """One line per row, in columns; why there is no figure where there is none."""
    cells = [_cells(row) for row in rows]
    return "\n".join(_line(line) for line in ([HEAD, *cells] if head else cells))


def duration(seconds: float) -> str:
    """Three significant digits with a unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


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
    fraction = f"{100 * row.fraction:.1f} %" if row.fraction is not None else ""
    spread = f"{100 * row.spread:.1f} %" if row.spread is not None else ""
    return (*named, duration(row.median_s), rate(row), fraction, spread, f"{row.samples} (-{row.rejected})")


def _line(cells: Sequence[str]) -> str:
    """The first three to the left, figures to the right; the text of a row without figures as long as it is."""
    shown = [cell.ljust(width) for cell, width in zip(cells[:3], WIDTHS, strict=False)]
    if len(cells) < len(WIDTHS):
        return "  ".join([*shown, "  " + cells[3]])
    return "  ".join([*shown, *(cell.rjust(width) for cell, width in zip(cells[3:], WIDTHS[3:], strict=True))])
