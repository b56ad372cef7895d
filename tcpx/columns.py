"""Tables for a terminal."""

from collections.abc import Collection, Sequence


def aligned(lines: Sequence[Sequence[str]], left: Collection[int], least: Sequence[int] = ()) -> list[str]:
    """Lines of cells in columns, those numbered `left` to the left, the others to the right, `least` or more wide. The
    last cell of a line is as long as it is, also where a line is shorter than others."""
    count = max(map(len, lines), default=0)
    widths = [least[k] if k < len(least) else 0 for k in range(count)]
    for line in lines:
        for k, cell in enumerate(line[: count - 1] if len(line) == count else line[:-1]):
            widths[k] = max(widths[k], len(cell))
    return [_line(line, widths, left).rstrip() for line in lines]


def _line(cells: Sequence[str], widths: Sequence[int], left: Collection[int]) -> str:
    last = len(cells) - 1
    shown = (
        cell if k == last and k in left else cell.ljust(width) if k in left else cell.rjust(width)
        for k, (cell, width) in enumerate(zip(cells, widths, strict=False))
    )
    return "  ".join(shown)
