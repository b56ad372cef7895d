"""What reading or running a mutated file may come to: success, or an error that says where and what."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from tcpx.payload.diagnostics import Kind, TcpxError

CPU_SECONDS = 20
"""Processor time, far above what any case takes: the limits of tcpx end it long before."""
PYTHON = re.compile(r"Traceback|<class|<function| object at 0x|\b(?:Key|Type|Value|Attribute|Index|Recursion)Error\b")


class HangError(BaseException):
    """Not an Exception: nothing may catch it on the way."""


@contextmanager
def bounded_time() -> Iterator[None]:
    """Ends what takes too much processor time."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise HangError(f"more than {CPU_SECONDS} s of processor time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def refused(act: Callable[[], object]) -> TcpxError | None:
    """The error of a case that was refused as it should be, None for success."""
    try:
        with bounded_time():
            act()
    except TcpxError as error:
        known, shown = error.diagnostic, error.diagnostic.render()
        assert known.kind is not Kind.INTERNAL, shown
        assert known.schedule is not None or known.payload is not None, f"no place: {shown}"
        words = "\n".join((known.message, known.required or "", known.found or "", known.fix or ""))
        assert PYTHON.search(words) is None, f"speaks of Python: {shown}"
        return error
    return None
