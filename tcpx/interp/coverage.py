"""What a schedule left alone: payload operations no statement touched, statements that never ran, what stays scalar."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from tcpx.interp.state import State
from tcpx.interp.trace import Trace
from tcpx.payload.diagnostics import Diagnostic, Kind, Location
from tcpx.payload.interfaces import Structured, Tileable
from tcpx.payload.ir import Block, Operation, written_at
from tcpx.payload.ops.gml_st import Conditional, Loop
from tcpx.payload.ops.group import Group
from tcpx.payload.traits.lanes import Lanes
from tcpx.payload.traits.tree import Tree
from tcpx.payload.types import TensorType, Type, VectorType
from tcpx.records import frozen
from tcpx.transform import new
from tcpx.transform.language import syntax as ast


@frozen
class Coverage:
    """Names of untouched operations; places of statements that never ran: the outermost ones of the sequences that
    were called, in whatever file, and the sequences of the schedule's own file that were not; in `library` those of the
    installed one. `ran` are the names of the sequences that were called, by file, in the order of their first call."""

    untouched: tuple[str, ...]
    never_ran: tuple[Location, ...]
    library: tuple[Location, ...] = ()
    ran: Mapping[str, Sequence[str]] = field(default_factory=dict[str, tuple[str, ...]])

    def text(self) -> str:
        """A line for each operation and statement; the library's statements, which are for other payloads as well, are
        counted."""
        lines = [f"no statement touched %{name}" for name in self.untouched]
        lines += [f"never ran: {where}: {where.text.strip()}" for where in self.never_ran]
        if self.library:
            files = Counter(Path(where.file).name for where in self.library)
            shown = ", ".join(f"{name} {count}" for name, count in files.items())
            count = len(self.library)
            subject = f"{count} statements of the library are" if count > 1 else "1 statement of the library is"
            lines.append(f"{subject} for other payloads or threads ({shown})")
        return "\n".join(lines)

    def ran_text(self) -> str:
        """A line for each file: the sequences that were called."""
        return "\n".join(f"{Path(file).name}: {', '.join(names)}" for file, names in self.ran.items())


def coverage_of(state: State) -> Coverage:
    """The report at the end of a run."""
    called = state.module.reached(state.func)
    ops = [op for func in called for op in _open_ops(func.body) if _counts(op) and not state.is_scheduled(op)]
    places = list(_never_ran(state))
    library = [place for place in places if state.program.is_of_library(place)]
    ran: dict[str, list[str]] = {}
    for called in state.trace.used:
        ran.setdefault(called.location.file, []).append(called.name)
    return Coverage(
        tuple(op.name for op in ops),
        tuple(place for place in places if place not in library),
        tuple(library),
        ran,
    )


def scalar_remarks(state: State) -> list[Diagnostic]:
    """Remarks on operations that are computed one element at a time in a function where others are on vectors.

    What is left of peeled loops is meant to be, what is only moved computes nothing, and what has `lanes` is computed
    by vectors, in memory.
    """
    ops = [op for func in state.module.reached(state.func) for op in func.walk()]
    if not any(isinstance(result.type, VectorType) for op in ops for result in op.results):
        return []
    scalar: dict[str, Tileable] = {}
    for op in ops:
        if _computes(op) and isinstance(op, Tileable) and _has_elements(op.results[0].type):
            scalar.setdefault(op.name.split("~")[0], op)
    return [
        Diagnostic(
            f"%{name} is computed one element at a time, beside operations on vectors",
            Kind.WARNING,
            payload=written_at(op),
            required="`vectorize` of a loop round it, or `fuse` into one that is vectorized",
            found=_whereabouts(op, state),
            cause="scalar",
        )
        for name, op in scalar.items()
    ]


def _has_elements(type_: Type) -> bool:
    return isinstance(type_, TensorType) and bool(type_.shape)


def _computes(op: Operation) -> bool:
    moves = (isinstance(op, Structured) and op.is_movement) or new.pieces_of_all(op) is not None
    has_lanes = isinstance(op, Structured) and Lanes(op).lanes is not None
    return not moves and not has_lanes and not any(side == "tail" for _, side in op.copy_path)


def _whereabouts(op: Operation, state: State) -> str:
    """The innermost loop round an operation and the statement that made it, or that there is none."""
    loop = next((a for a in op.ancestors() if isinstance(a, Loop)), None)
    if loop is None:
        return "no loop around it" if state.is_scheduled(op) else "no statement touched it"
    if any(isinstance(result.type, VectorType) for inner in loop.body.ops for result in inner.results):
        return f"it came into the loop {loop.name} behind the `vectorize` of what is there"
    made = f", made at {loop.schedule_location}" if loop.schedule_location is not None else ""
    return f"the loop {loop.name}{made}, which no `vectorize` reaches"


def _open_ops(block: Block) -> Iterator[Operation]:
    """The operations of a function, those in loops, in the branches of versions and in groups included."""
    for op in block.ops:
        yield op
        if isinstance(op, Conditional | Group | Loop):
            for region in op.regions:
                yield from _open_ops(region)


def _counts(op: Operation) -> bool:
    return (
        bool(op.name) and bool(Tree(op).tree_classes()) and not {"loop", "group", "call"} & set(Tree(op).tree_classes())
    )


def _never_ran(state: State) -> Iterator[Location]:
    for called in state.trace.used:
        yield from _not_fired(called.body, state.trace)
    for sequence in state.program.main.sequences.values():
        if not any(sequence is called for called in state.trace.used):
            yield sequence.location


def _not_fired(block: ast.Block, trace: Trace) -> Iterator[Location]:
    for statement in block.statements:
        where = statement.location
        if (where.file, where.line, where.column) not in trace.fired:
            yield where
            continue
        for inner in ast.blocks_in(statement):
            yield from _not_fired(inner, trace)
