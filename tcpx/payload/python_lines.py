"""The line of Python that makes something: the place that errors show where there is no text."""

from __future__ import annotations

import inspect
import linecache
from itertools import islice
from types import FrameType

from tcpx.payload.diagnostics import Location


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


def location_of(frame: FrameType) -> Location:
    """The expression that a frame is at."""
    code = frame.f_code
    spans = next(islice(code.co_positions(), frame.f_lasti // 2, None), (None, None, None, None))
    line, end_line, column, end_column = spans
    first = line or frame.f_lineno
    text = linecache.getline(code.co_filename, first, frame.f_globals).rstrip("\r\n")
    if column is None or end_column is None:
        return Location(code.co_filename, first, 1, first, len(text) + 1, text)
    start, stop = (len(text.encode()[:k].decode(errors="replace")) + 1 for k in (column, end_column))
    return Location(code.co_filename, first, start, end_line or first, stop, text)
