"""The loop nest, one line a loop: for `print`, for the trace, for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from tcpx.payload.diagnostics import Location
from tcpx.payload.ir import Block, FuncOp, Operation
from tcpx.payload.ops.gml_st import If, Loop
from tcpx.payload.ops.group import Group
from tcpx.payload.sizes import to_text
from tcpx.payload.types import VectorType


class NestKind(Enum):
    """What a line of a loop nest is; a computation on vectors is told from one on tensors, buffers or scalars."""

    FUNC = "func"
    FOR = "for"
    PARALLEL = "parallel"
    IF = "if"
    ELSE = "else"
    GROUP = "group"
    COMPUTATION = "computation"
    VECTOR = "vector"


@dataclass(frozen=True, slots=True)
class NestLine:
    """One line: how deep it stands, its name, what it is about, and the schedule line that made it, if one did.

    `subject` is the range of a loop, the condition of a branch, the opcode of a computation.
    """

    depth: int
    kind: NestKind
    name: str
    subject: str = ""
    place: Location | None = None

    def text(self, indent: str = "") -> str:
        """The line as `print` shows it."""
        return f"{indent}{'  ' * self.depth}{self._words()}"

    def _words(self) -> str:
        match self.kind:
            case NestKind.FUNC:
                return f"func @{self.name}"
            case NestKind.FOR | NestKind.PARALLEL:
                return f"{self.kind.value} {self.name} in {self.subject}"
            case NestKind.IF:
                return f"if {self.subject}"
            case NestKind.ELSE:
                return "else"
            case NestKind.GROUP:
                return f"group {self.name}"
            case NestKind.COMPUTATION | NestKind.VECTOR:
                return f"{self.name} = {self.subject}"


@dataclass(frozen=True, slots=True)
class Nest:
    """The loop nest of a function at one moment: its lines by operation of the body, joined when asked for."""

    head: NestLine
    parts: tuple[tuple[NestLine, ...], ...]

    def lines(self) -> Iterator[NestLine]:
        yield self.head
        for part in self.parts:
            yield from part

    def __str__(self) -> str:
        return "\n".join(line.text() for line in self.lines())


class Nests:
    """The nests of one function over time: only what changed is looked at again."""

    def __init__(self) -> None:
        self._known: dict[Operation, tuple[NestLine, ...]] = {}

    def forget(self, ops: Iterable[Operation]) -> None:
        """What stands at or round these operations may have changed."""
        for op in ops:
            for around in (op, *op.ancestors()):
                self._known.pop(around, None)

    def clear(self) -> None:
        """Everything may have changed."""
        self._known.clear()

    def of(self, func: FuncOp) -> Nest:
        """The nest of `func` now, and of those it calls."""
        parts: list[tuple[NestLine, ...]] = []
        called = func.module.reached(func)[:-1] if func.module is not None else []
        for held in (func, *reversed(called)):
            if held is not func:
                parts.append((NestLine(0, NestKind.FUNC, held.name),))
            for op in held.body.ops:
                known = self._known.get(op)
                if known is None:
                    known = self._known[op] = tuple(_lines(op, 1))
                parts.append(known)
        return Nest(NestLine(0, NestKind.FUNC, func.name), tuple(parts))


def loop_nest(op: Operation, indent: str = "") -> str:
    """Loops, conditions and the operations in them, one line each; data movement between them is left out."""
    return "\n".join(line.text(indent) for line in _lines(op, 0))


def _lines(op: Operation, depth: int) -> Iterator[NestLine]:
    match op:
        case FuncOp():
            yield NestLine(depth, NestKind.FUNC, op.name)
            yield from _block_lines(op.body, depth + 1)
        case Loop():
            yield _loop_line(op, depth)
            yield from _block_lines(op.body, depth + 1)
        case If():
            yield NestLine(depth, NestKind.IF, op.name, str(op.predicate), op.schedule_location)
            yield from _block_lines(op.then, depth + 1)
            orelse = list(_block_lines(op.orelse, depth + 1))
            if orelse:
                yield NestLine(depth, NestKind.ELSE, op.name, place=op.schedule_location)
                yield from orelse
        case Group():
            yield NestLine(depth, NestKind.GROUP, op.name, place=op.schedule_location)
            yield from _block_lines(op.body, depth + 1)
        case _ if op.tree_classes():
            on_vectors = any(isinstance(result.type, VectorType) for result in op.results)
            yield NestLine(depth, NestKind.VECTOR if on_vectors else NestKind.COMPUTATION, op.name, op.opcode)
        case _:
            pass


def _loop_line(loop: Loop, depth: int) -> NestLine:
    var = loop.var
    bounds = f"{to_text(var.lower)} to {to_text(var.upper)} step {to_text(var.step)}"
    kind = NestKind.PARALLEL if loop.is_parallel else NestKind.FOR
    return NestLine(depth, kind, loop.name, bounds, loop.schedule_location)


def _block_lines(block: Block, depth: int) -> Iterator[NestLine]:
    for op in block.ops:
        yield from _lines(op, depth)
