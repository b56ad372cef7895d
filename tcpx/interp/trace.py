"""What every step did."""

from dataclasses import dataclass, field

from tcpx.cells import table_cell
from tcpx.interp.payload_texts import Edit
from tcpx.payload.diagnostics import Diagnostic, Location
from tcpx.plurals import counted
from tcpx.quantities import duration
from tcpx.records import brief, frozen
from tcpx.transform.language import syntax as ast
from tcpx.transform.language_versions import Difference
from tcpx.transform.loop_nest import Nest


@frozen
class TraceEntry:
    """One committed step. `journal` is its slice of the rewriter's journal; `visited` counts operations touched."""

    index: int
    """Its position among the steps; people count from 1."""
    statement: str
    transform: str
    location: Location | None
    """None for a step of the lowering, which no schedule line asked for."""
    calls: tuple[tuple[str, Location], ...]
    """The sequences it stands in and where they were called, innermost first."""
    bound: tuple[tuple[str, str], ...]
    """Argument name -> what it denoted."""
    made: tuple[tuple[str, str], ...]
    """Name of a handle the statement made -> the operations it denoted then."""
    changed: tuple[str, ...]
    """Operations it made or changed: `%mm = tcp.matmul`."""
    remarks: tuple[str, ...]
    journal: tuple[int, int]
    visited: int
    seconds: float
    loops: Nest | None
    edits: tuple[Edit, ...] | None
    """What it changed in the payload text; None where the run did not keep texts."""
    snapshots: tuple[tuple[str, str], ...] = ()
    """Payload texts it kept, with their names."""

    def __repr__(self) -> str:
        return brief("TraceEntry", self.index, self.statement)

    @property
    def nest(self) -> str:
        """The loop nest after the step; empty after one that only looks."""
        return "" if self.loops is None else str(self.loops)

    def text(self) -> str:
        """One paragraph: place, statement, cost."""
        cost = f"{counted(self.visited, 'operation')}, {duration(self.seconds)}"
        return f"{self.index:>3}  {self.location}  {self.statement}  ({cost})"


@frozen
class OutputLine:
    """Text a step printed."""

    text: str
    location: Location
    rolled_back: bool = False

    def __str__(self) -> str:
        return f"{self.text} (rolled back)" if self.rolled_back else self.text


AttemptKey = tuple[str, int, int, tuple[str, ...]]
"""File, line and column of a `try`, and the operations that its `else remark` names: the same in every run."""


@frozen
class Attempt:
    """A `try { } else remark x` one of whose alternatives was taken: in steps `first` to `last`, from 1."""

    key: AttemptKey
    label: str
    place: Location | None
    """Where the operation stands in the payload."""
    first: int
    last: int
    overridden: bool
    """Whether `params` set a knob in it: what was asked for is not left out."""


@frozen
class Refusal:
    """A `try { } else { }` of the schedule that was given, whose first alternative has a step that failed, and why:
    another one was taken, in steps `first` to `last`, from 1."""

    why: Diagnostic
    first: int
    last: int


@dataclass(slots=True)
class Trace:
    """All committed steps and all output, in order."""

    entries: list[TraceEntry] = field(default_factory=list[TraceEntry])
    output: list[OutputLine] = field(default_factory=list[OutputLine])
    fired: set[tuple[str, int, int]] = field(default_factory=set[tuple[str, int, int]])
    """Places of statements that ran."""
    used: list[ast.Sequence | ast.Schedule] = field(default_factory=list["ast.Sequence | ast.Schedule"])
    """The schedule, and sequences that were called, each once; also those of what was taken back."""
    used_in: dict[str, list[ast.Sequence]] = field(default_factory=dict[str, "list[ast.Sequence]"])
    """Those that were called for an operation in a called function, by the key of the function."""
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    """What `else remark` stands behind and has not failed."""
    remarks: list[Diagnostic] = field(default_factory=list[Diagnostic])
    """What `else remark` says of operations that are left as they are: warnings."""
    refusals: list[Refusal] = field(default_factory=list[Refusal])
    """What is said only where the alternative that was taken is slow."""
    outdated: dict[tuple[Difference, Location], None] = field(default_factory=dict[tuple[Difference, Location], None])
    """Statements that did what only an older version of the language does, also in what was taken back."""

    def __repr__(self) -> str:
        return brief("Trace", f"of {len(self.entries)} step(s), {len(self.remarks)} remark(s)")

    def _repr_html_(self) -> str:
        rows = ((e.index + 1, e.location or "", e.statement, e.visited, duration(e.seconds)) for e in self.entries)
        return table_cell(
            repr(self)[1:-1], ("step", "place", "statement", "operations", "time"), rows, "print(trace.text())"
        )

    @property
    def snapshots(self) -> tuple[tuple[str, str], ...]:
        """The payload texts that `snapshot` kept, with their names, in order."""
        return tuple(kept for entry in self.entries for kept in entry.snapshots)

    def use(self, called: ast.Sequence | ast.Schedule) -> None:
        if not any(called is known for known in self.used):
            self.used.append(called)

    def use_in(self, place: str, called: ast.Sequence) -> None:
        """Note a sequence by the place of its use, as records know it."""
        known = self.used_in.setdefault(place.rpartition(":")[0], [])
        if not any(called is held for held in known):
            known.append(called)

    def fire(self, where: Location) -> None:
        self.fired.add((where.file, where.line, where.column))

    def text(self) -> str:
        return "\n".join(entry.text() for entry in self.entries)
