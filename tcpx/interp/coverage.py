"""What a schedule left alone: payload operations no statement touched, statements that never ran."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tcpx.interp.state import State
from tcpx.interp.trace import Trace
from tcpx.payload.diagnostics import Location
from tcpx.payload.ir import Block, Operation
from tcpx.payload.ops.gml_st import If
from tcpx.payload.ops.group import Group
from tcpx.transform.language import syntax as ast


@dataclass(frozen=True, slots=True)
class Coverage:
    """Names of untouched operations; places of statements that never ran: the outermost ones of the sequences that
    were called, in whatever file, and the sequences of the schedule's own file that were not."""

    untouched: tuple[str, ...]
    never_ran: tuple[Location, ...]

    def text(self) -> str:
        lines = [f"no statement touched %{name}" for name in self.untouched]
        lines += [f"never ran: {where}: {where.text.strip()}" for where in self.never_ran]
        return "\n".join(lines)


def coverage_of(state: State) -> Coverage:
    """The report at the end of a run."""
    ops = [op for op in _open_ops(state.func.body) if _counts(op) and not state.is_scheduled(op)]
    return Coverage(tuple(op.name for op in ops), tuple(_never_ran(state)))


def _open_ops(block: Block) -> Iterator[Operation]:
    """The operations of a function, those in the branches of versions and in groups included."""
    for op in block.ops:
        yield op
        if isinstance(op, If | Group):
            for region in op.regions:
                yield from _open_ops(region)


def _counts(op: Operation) -> bool:
    return bool(op.name) and bool(op.tree_classes()) and not {"loop", "group"} & set(op.tree_classes())


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
