"""The line of Python that makes something: the place that errors show where there is no text."""

import inspect
import linecache
from itertools import islice
from types import FrameType

from tcpx.payload.diagnostics import Location
from tcpx.records import frozen


def frame_outside(*packages: str) -> FrameType:
    """The innermost frame of a module that is in none of `packages`. Raises RuntimeError where there is none."""
    frame = inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith((__name__, *packages)):
        frame = frame.f_back
    if frame is None:
        raise RuntimeError(f"this needs a Python that has frames, and a caller outside of {', '.join(packages)}")
    return frame


def location_outside(*packages: str) -> Location:
    """Where that frame is. Raises RuntimeError where there is none."""
    return location_of(frame_outside(*packages))


@frozen
class Span:
    """Where an expression stands: lines from 1, columns in bytes of UTF-8 from 0, as in the nodes of `ast`."""

    line: int
    column: int
    end_line: int
    end_column: int


def span_of(frame: FrameType) -> Span | None:
    """The expression that a frame is at; None where Python does not keep it (`-X no_debug_ranges`)."""
    spans = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    line, end_line, column, end_column = spans
    if line is None or end_line is None or column is None or end_column is None:
        return None
    return Span(line, column, end_line, end_column)


def source_lines(frame: FrameType) -> list[str]:
    """The text that the code of a frame is in; nothing where it is not known, as of what `exec` or `python -c` gets:
    Python 3.13 keeps a text by the name of all these, which may be that of another."""
    name = frame.f_code.co_filename
    return [] if name == "<string>" else linecache.getlines(name, frame.f_globals)


def location_of(frame: FrameType) -> Location:
    """The expression that a frame is at; its line, where Python keeps no more."""
    name, span = frame.f_code.co_filename, span_of(frame)
    first = span.line if span is not None else frame.f_lineno
    lines = source_lines(frame)
    text = lines[first - 1].rstrip("\r\n") if 0 < first <= len(lines) else ""
    if span is None:
        return Location(name, first, 1, first, len(text) + 1, text)
    start, stop = (len(text.encode()[:k].decode(errors="replace")) + 1 for k in (span.column, span.end_column))
    return Location(name, first, start, span.end_line, stop, text)
