"""What repairs a slow statement: text that can be written as it stands, where such text is known."""

from collections.abc import Iterable, Sequence

from tcpx.payload.diagnostics import Location
from tcpx.records import frozen


@frozen
class Hint:
    """`fix` is text to write, or a Direction; `schedule` is the statement of the schedule that it changes, `notes` say
    what else it changes."""

    fix: str
    schedule: Location | None = None
    notes: tuple[str, ...] = ()


def lines_named(lines: Iterable[int]) -> str:
    """`line 4`, `lines 4 to 6 and 9`."""
    spans: list[list[int]] = []
    for line in sorted(lines):
        if spans and spans[-1][-1] == line - 1:
            spans[-1].append(line)
        else:
            spans.append([line])
    texts = [f"{span[0]} to {span[-1]}" if len(span) > 1 else f"{span[0]}" for span in spans]
    return f"line{'s' if sum(map(len, spans)) > 1 else ''} {listed(texts)}"


def listed(parts: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
