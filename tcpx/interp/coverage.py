"""What a schedule left alone: payload operations no statement touched, statements that never ran."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tcpx.interp.state import State
from tcpx.interp.trace import Trace
from tcpx.payload.diagnostics import Location
from tcpx.payload.ir import Operation
from tcpx.transform.language import syntax as ast


@dataclass(frozen=True, slots=True)
class Coverage:
    """Names of untouched operations; places and text of statements of called sequences that never ran."""

    untouched: tuple[str, ...]
    never_ran: tuple[Location, ...]

    def text(self) -> str:
        lines = [f"no statement touched %{name}" for name in self.untouched]
        lines += [f"never ran: {where}: {where.text.strip()}" for where in self.never_ran]
        return "\n".join(lines)


def coverage_of(state: State) -> Coverage:
    """The report at the end of a run."""
    ops = [op for op in state.func.body.ops if _counts(op) and not state.is_scheduled(op)]
    return Coverage(tuple(op.name for op in ops), tuple(_never_ran(state.trace)))


def _counts(op: Operation) -> bool:
    return bool(op.name) and bool(op.tree_classes()) and "loop" not in op.tree_classes()


def _never_ran(trace: Trace) -> Iterator[Location]:
    for called in trace.used:
        for statement in _statements(called.body):
            where = statement.location
            if (where.file, where.line, where.column) not in trace.fired:
                yield where


def _statements(block: ast.Block) -> Iterator[ast.Statement]:
    for statement in block.statements:
        yield statement
        for inner in _blocks(statement):
            yield from _statements(inner)


def _blocks(statement: ast.Statement) -> Iterator[ast.Block]:
    match statement:
        case ast.ForEach():
            yield statement.body
        case ast.If() | ast.Specialize():
            yield from (branch.body for branch in statement.branches)
            if isinstance(statement.orelse, ast.Block):
                yield statement.orelse
        case ast.Case():
            yield from (arm.body for arm in statement.arms)
            if isinstance(statement.orelse, ast.Block):
                yield statement.orelse
        case ast.Try() | ast.Tune():
            yield from statement.alternatives
        case _:
            pass
