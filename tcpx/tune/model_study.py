"""What tuning a payload function by function came to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Final

import tcpx
from tcpx.columns import aligned
from tcpx.nests import SIGN
from tcpx.quantities import duration, percent
from tcpx.records import brief, frozen
from tcpx.tune.space import Value
from tcpx.tune.verdicts import Comparison

KEPT: Final = "kept"


@frozen
class Outcome:
    """What came of a function: `functions` are the names that it and equal ones have. Those of loop nests of the
    payload `main` are their last operations, `%mm`; what else it does itself has none. `share` is its part of the time,
    without what it calls, and `calls` how often it runs.

    `seconds` are those of a call with the defaults, and `ratio` the winner's part of them, both measured `alone` if the
    function was, else of the whole payload; `whole` is the payload with the winner beside it without. 0 and None:
    not measured.
    """

    main: str
    functions: tuple[str, ...]
    share: float
    calls: int
    verdict: str = ""
    candidates: int = 0
    alone: bool = False
    seconds: float = 0.0
    ratio: float | None = None
    whole: Comparison | None = None

    def __repr__(self) -> str:
        return brief("Outcome", f"of {self.name}: {self.verdict}")

    @property
    def name(self) -> str:
        """The function, for a person."""
        more = f" and {len(self.functions) - 1} equal" if len(self.functions) > 1 else ""
        if not self.functions:
            return f"@{self.main} itself"
        sign = "" if self.functions[0].startswith(SIGN) else "@"
        return f"{sign}{self.functions[0]}{more}"

    @property
    def provenance(self) -> Mapping[str, str]:
        """What a record says of it."""
        return {"whole": f"{self.whole.shown} of the time of @{self.main}"} if self.whole is not None else {}

    def cells(self) -> tuple[str, ...]:
        """A row of the table."""
        return (
            percent(self.share),
            str(self.calls),
            duration(self.seconds) if self.seconds else "",
            duration(self.seconds * self.ratio) if self.seconds and self.ratio is not None else "",
            f"{self.ratio:.3f}" if self.ratio is not None else "",
            str(self.candidates or ""),
            self.whole.shown if self.whole is not None else "",
            f"{self.name}: {self.verdict}",
        )


COLUMNS: Final = ("share", "runs", "defaults", "tuned", "ratio", "tried", "on the whole", "function")


@frozen
class ModelStudy:
    """The outcomes, those of the slowest functions first, and the file of their records. `whole` is the payload with
    all of them beside its defaults; None where nothing was kept, or where it was not measured. `params` are what
    `tcpx.compile` takes for the same. `seconds` is what tuning took, of which `comparing` were comparisons in fresh
    processes."""

    module: tcpx.Module
    path: Path
    outcomes: tuple[Outcome, ...]
    whole: Comparison | None = None
    params: Mapping[str, Value] = field(default_factory=dict[str, Value])
    is_interrupted: bool = False
    seconds: float = 0.0
    comparing: float = 0.0

    def __repr__(self) -> str:
        return brief("ModelStudy", f"of @{self.module.main.name}, {len(self.outcomes)} function(s)")

    @property
    def has_records(self) -> bool:
        """Whether the file has a record of one of the functions."""
        return any(held.verdict.startswith((KEPT, "recorded")) for held in self.outcomes)

    def text(self) -> str:
        """A summary for a terminal."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield from aligned([COLUMNS, *(held.cells() for held in self.outcomes)], (len(COLUMNS) - 1,))
        if any(held.candidates and not held.alone for held in self.outcomes):
            yield "times of functions that are not tuned alone are those of the whole"
        name, found = f"@{self.module.main.name}", self.whole
        if self.is_interrupted:
            yield "interrupted: --resume goes on with it"
        elif found is not None:
            before = duration(found.seconds / found.ratio)
            busy = "" if found.steady else "; the machine was busy"
            yield (f"{name}: {duration(found.seconds)}, {found.shown} of the {before} that its defaults take{busy}")
            if found.low <= 1 <= found.high:
                yield "the interval contains 1: that does not tell the two apart"
        elif not self.has_records:
            yield f"{name}: the defaults are kept"
        yield f"{self.seconds:.0f} s, {self.comparing:.0f} of them for comparisons in fresh processes"
