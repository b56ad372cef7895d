"""How long the phases of a command took, and which one it is in."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import perf_counter
from typing import Final


@dataclass(slots=True)
class Phases:
    """Seconds by phase, in the order in which they began; `current` is the one at hand, which another thread may ask
    for."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])
    current: str = ""

    def __str__(self) -> str:
        return ", ".join(f"{name} {seconds:.2f}" for name, seconds in self.seconds.items())


_PHASES: Final[ContextVar[Phases | None]] = ContextVar("phases", default=None)


@contextmanager
def measured_phases() -> Generator[Phases, None, None]:
    """The phases that this thread goes through meanwhile."""
    found = Phases()
    token = _PHASES.set(found)
    try:
        yield found
    finally:
        _PHASES.reset(token)


@contextmanager
def phase(name: str) -> Generator[None, None, None]:
    """The body is in this phase; one within another is the other's."""
    phases = _PHASES.get()
    if phases is None or phases.current:
        yield
        return
    phases.current, started = name, perf_counter()
    phases.seconds.setdefault(name, 0.0)
    try:
        yield
    finally:
        phases.seconds[name] += perf_counter() - started
        phases.current = ""
