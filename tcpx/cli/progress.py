"""What a command that takes long is at, on stderr: one changing line on a terminal, a line now and then elsewhere."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import Event, Thread
from time import perf_counter
from typing import Final

FIRST_ON_TERMINAL: Final = 1.0
EVERY_ON_TERMINAL: Final = 0.5
FIRST_ELSEWHERE: Final = 5.0
"""Seconds; each later line comes after twice the time."""
LEAST_FRACTION: Final = 0.01
"""Of the work that is done before the time left is estimated."""
_CLEAR: Final = "\r\x1b[K"


@contextmanager
def showing(describe: Callable[[float], str]) -> Generator[None]:
    """While the body runs, show what `describe` says, which is given the seconds so far and called in another thread.

    Nothing is shown of a body that ends within a second, on a terminal, or within five.
    """
    done = Event()
    started = perf_counter()
    terminal = sys.stderr.isatty()

    def show() -> None:
        wait = FIRST_ON_TERMINAL if terminal else FIRST_ELSEWHERE
        while not done.wait(wait):
            seconds = perf_counter() - started
            text = describe(seconds)
            print(f"{_CLEAR}{text}" if terminal else text, end="" if terminal else "\n", file=sys.stderr, flush=True)
            wait = EVERY_ON_TERMINAL if terminal else seconds
        if terminal:
            print(_CLEAR, end="", file=sys.stderr, flush=True)

    thread = Thread(target=show, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def time_left(seconds: float, fraction: float) -> str:
    """What of the work is done after so many seconds, and how long the rest will take at this rate."""
    if fraction < LEAST_FRACTION:
        return f"{seconds:.0f} s so far"
    return f"{fraction:.0%} after {seconds:.0f} s, about {in_words(seconds * (1 - fraction) / fraction)} left"


def in_words(seconds: float) -> str:
    """A time to read: `40 s`, `12 min`, `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
