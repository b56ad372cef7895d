"""What a step changed in the loop nest."""

from collections import Counter
from collections.abc import Sequence

from tcpx.records import frozen
from tcpx.transform.loop_nest import NestKind, NestLine


@frozen
class MarkedLine:
    """A line of the nest after a step; `mark` is `+` where it is new, `~` where it moved into or out of a loop, else
    `|`."""

    mark: str
    line: NestLine

    def text(self) -> str:
        """As it is shown: the mark, the line, and the schedule line that made it."""
        made = f"  ({self.line.place.short})" if self.line.place is not None else ""
        vectors = " on vectors" if self.line.kind is NestKind.VECTOR else ""
        return f"{self.mark} {self.line.text()}{vectors}{made}"


def marked(before: Sequence[NestLine], after: Sequence[NestLine]) -> list[MarkedLine]:
    """The lines after a step, compared with those before it."""
    unchanged = Counter((line.kind, line.text()) for line in before)
    known = Counter((line.kind, line.text().strip()) for line in before)
    lines: list[MarkedLine] = []
    for line in after:
        whole, words = (line.kind, line.text()), (line.kind, line.text().strip())
        mark = "+" if not known[words] else "|" if unchanged[whole] else "~"
        known[words] -= mark != "+"
        unchanged[whole] -= mark == "|"
        lines.append(MarkedLine(mark, line))
    return lines


def worth_showing(lines: Sequence[MarkedLine], context: int) -> list[MarkedLine | None]:
    """The changed lines, the loops they stand in and so many lines round them; None for what is left out."""
    kept = {0}
    for k, marked_line in enumerate(lines):
        if marked_line.mark != "|":
            kept.update(range(max(0, k - context), min(len(lines), k + context + 1)))
            depth = marked_line.line.depth
            for outer in range(k - 1, -1, -1):
                if lines[outer].line.depth < depth:
                    kept.add(outer)
                    depth = lines[outer].line.depth
    shown: list[MarkedLine | None] = []
    for k, marked_line in enumerate(lines):
        if k in kept:
            shown.append(marked_line)
        elif not shown or shown[-1] is not None:
            shown.append(None)
    return shown
