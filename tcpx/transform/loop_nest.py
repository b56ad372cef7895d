"""The loop nest, one line a loop: for `print`, for the trace, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from tcpx.loading import PayloadLike, module_of
from tcpx.payload import order
from tcpx.payload.diagnostics import Location
from tcpx.payload.ir import CALLEE, Attribute, Block, FuncOp, Operation
from tcpx.payload.ops.gml_st import UNBOUNDED, Conditional, If, Loop, While
from tcpx.payload.ops.group import Group
from tcpx.payload.sizes import to_text
from tcpx.payload.traits.tree import Tree
from tcpx.payload.types import VectorType
from tcpx.records import frozen_for_checkers


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


@frozen_for_checkers
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


@dataclass(slots=True, eq=False)
class _Part:
    """The lines of one operation of a body, or of a body the line that names its function."""

    op: Operation | Block
    lines: tuple[NestLine, ...]
    order: int = 0
    """Rises along the parts; see `payload/order.py`."""


_Edit = tuple[int, _Part | None, _Part | None]
"""At this place, the first part gives way to the second; None: there is none."""


class Nest:
    """The loop nest of a function at one moment: what changed since the one before, put together when asked for."""

    __slots__ = ("_before", "_edits", "_parts", "head")

    def __init__(self, head: NestLine, before: Nest | None, edits: Sequence[_Edit], parts: Sequence[_Part]) -> None:
        self.head = head
        self._before = before
        self._edits = tuple(edits)
        self._parts = None if before is not None else tuple(parts)

    def __reduce__(self) -> tuple[Callable[..., Nest], tuple[object, ...]]:
        """Pickled and copied as its lines, without the operations."""
        return _of_lines, (self.head, tuple(part.lines for part in self._all_parts()))

    def lines(self) -> Iterator[NestLine]:
        yield self.head
        for part in self._all_parts():
            yield from part.lines

    def __str__(self) -> str:
        return "\n".join(line.text() for line in self.lines())

    def is_after(self, nest: Nest) -> bool:
        """Whether it is an earlier moment, or this one, put together by edits since."""
        at: Nest | None = self
        while at is not None and at is not nest:
            at = at._before
        return at is nest

    def since(self, nest: Nest | None) -> Iterator[_Edit]:
        """The edits since an earlier moment, last first."""
        at = self
        while at is not nest and at._before is not None:
            yield from reversed(at._edits)
            at = at._before

    def _all_parts(self) -> tuple[_Part, ...]:
        """Kept by the first and by the one that was asked last, from which the next is not far."""
        later: list[Nest] = []
        nest = self
        while nest._parts is None and nest._before is not None:
            later.append(nest)
            nest = nest._before
        parts = list(nest._parts or ())
        for each in reversed(later):
            for at, old, new in each._edits:
                parts[at : at + (old is not None)] = [new] if new is not None else []
        if later and nest._before is not None:
            nest._parts = None
        self._parts = tuple(parts)
        return self._parts


def _of_lines(head: NestLine, parts: Sequence[tuple[NestLine, ...]]) -> Nest:
    return Nest(head, None, (), [_Part(Block(), lines) for lines in parts])


class Nests:
    """The nests of a function and of those it calls over time: what a step did not touch is not looked at again."""

    def __init__(self) -> None:
        self._funcs: dict[FuncOp, int] = {}
        self._calls: list[FuncOp | tuple[Operation, Attribute]] = []
        self._parts: list[_Part] = []
        self._of: dict[Operation | Block, _Part] = {}
        self._changed: dict[Operation, None] = {}
        self._now: Nest | None = None

    def forget(self, ops: Iterable[Operation]) -> None:
        """What stands at or round these operations may have changed; they may be gone."""
        self._changed.update(dict.fromkeys(ops))

    def back_to(self, nest: Nest) -> None:
        """The function is as it was then."""
        if self._now is None or not self._now.is_after(nest):
            self._now = None
            return
        for at, old, new in self._now.since(nest):
            if new is not None:
                self._take(at)
            if old is not None:
                self._put(at, old)
        self._now = nest

    def of(self, func: FuncOp) -> Nest:
        """The nest of `func` now, and of those it calls."""
        funcs = self._functions(func)
        if self._now is None or funcs != [*self._funcs]:
            self._funcs, self._parts = {held: k for k, held in enumerate(funcs)}, _all_parts(funcs)
            self._of = {part.op: part for part in self._parts}
            self._now = Nest(NestLine(0, NestKind.FUNC, func.name), None, (), self._parts)
        elif edits := self._edits():
            self._now = Nest(self._now.head, self._now, edits, ())
        self._changed.clear()
        return self._now

    def _functions(self, func: FuncOp) -> list[FuncOp]:
        """A function and those it calls; they are as they were where no function and no call came, went or changed."""
        module = func.module
        if module is None:
            return [func]
        calls: list[FuncOp | tuple[Operation, Attribute]] = [*module.funcs.values()]
        calls += [(call, call.attributes[CALLEE]) for held in module.funcs.values() for call in held.call_operations()]
        if calls == self._calls and func in self._funcs:
            return [*self._funcs]
        self._calls = calls
        return module.reached(func)[::-1]

    def _edits(self) -> list[_Edit]:
        """What is done to the parts so that they are those of the bodies again: it is done, and told."""
        edits: list[_Edit] = []
        for op in self._changed:
            if op in self._of:
                at = self._place(op)
                edits.append((at, self._take(at), None))
        tops = (self._top(op) for op in self._changed)
        stale = {top: (self._funcs[func], top.order) for func, top in filter(None, tops)}
        for op, body in ((op, op.parent) for op in sorted(stale, key=stale.__getitem__)):
            if body is None:
                continue
            index, old = body.index(op), self._of.get(op)
            before = body.ops[index - 1] if index else body
            at = self._place(op) if old is not None else self._place(before) + 1 if before in self._of else 0
            new = _Part(op, tuple(_lines(op, 1)))
            if old is None or old.lines != new.lines:
                if old is not None:
                    self._take(at)
                self._put(at, new)
                edits.append((at, old, new))
        return edits

    def _top(self, op: Operation) -> tuple[FuncOp, Operation] | None:
        """The function that an operation is in, if its body is shown, and the operation of this body round it."""
        round_it = [op, *op.ancestors()]
        func = round_it[-1]
        return (func, round_it[-2]) if isinstance(func, FuncOp) and func in self._funcs and func is not op else None

    def _place(self, op: Operation | Block) -> int:
        place = order.place_of(self._of[op], self._parts)
        if place is None:
            raise ValueError(f"{op!r} has lost its place in the loop nest")
        return place

    def _take(self, at: int) -> _Part:
        part = self._parts.pop(at)
        del self._of[part.op]
        return part

    def _put(self, at: int, part: _Part) -> None:
        self._parts.insert(at, part)
        self._of[part.op] = part
        order.number(self._parts, at)


def _all_parts(funcs: Iterable[FuncOp]) -> list[_Part]:
    """The parts of functions in order, each but the first behind a line that names it."""
    parts: list[_Part] = []
    for func in funcs:
        if parts:
            parts.append(_Part(func.body, (NestLine(0, NestKind.FUNC, func.name),)))
        parts += [_Part(op, tuple(_lines(op, 1))) for op in func.body.ops]
    for k, part in enumerate(parts):
        part.order = k * order.STEP
    return parts


def loop_nest(op: Operation | PayloadLike, indent: str = "") -> str:
    """Loops, conditions and the operations in them, one line each; data movement between them is left out. Of a
    payload, that of its function."""
    op = op if isinstance(op, Operation) else module_of(op).main
    return "\n".join(line.text(indent) for line in _lines(op, 0))


def _lines(op: Operation, depth: int) -> list[NestLine]:
    lines: list[NestLine] = []
    _append_lines(op, depth, lines)
    return lines


def _append_lines(op: Operation, depth: int, lines: list[NestLine]) -> None:
    match op:
        case FuncOp():
            lines.append(NestLine(depth, NestKind.FUNC, op.name))
            _append_block(op.body, depth + 1, lines)
        case Loop():
            lines.append(_loop_line(op, depth))
            _append_block(op.body, depth + 1, lines)
        case Conditional():
            lines.append(NestLine(depth, NestKind.IF, op.name, _condition(op), op.schedule_location))
            _append_block(op.then, depth + 1, lines)
            place = len(lines)
            _append_block(op.orelse, depth + 1, lines)
            if len(lines) > place:
                lines.insert(place, NestLine(depth, NestKind.ELSE, op.name, place=op.schedule_location))
        case Group():
            lines.append(NestLine(depth, NestKind.GROUP, op.name, place=op.schedule_location))
            _append_block(op.body, depth + 1, lines)
        case _ if Tree(op).tree_classes():
            on_vectors = any(isinstance(result.type, VectorType) for result in op.results)
            kind = NestKind.VECTOR if on_vectors else NestKind.COMPUTATION
            lines.append(NestLine(depth, kind, op.name, op.opcode))
        case _:
            pass


def _condition(op: Conditional) -> str:
    return str(op.predicate) if isinstance(op, If) else ", ".join(f"%{value.name}" for value in op.operands)


def _loop_line(loop: Loop, depth: int) -> NestLine:
    var = loop.var
    bounds = f"{to_text(var.lower)} to {to_text(var.upper)} step {to_text(var.step)}"
    if isinstance(loop, While):
        bounds = f"while %{loop.condition.name}" if var.upper == UNBOUNDED else f"{bounds} while %{loop.condition.name}"
    kind = NestKind.PARALLEL if loop.is_parallel else NestKind.FOR
    return NestLine(depth, kind, loop.name, bounds, loop.schedule_location)


def _append_block(block: Block, depth: int, lines: list[NestLine]) -> None:
    for op in block.ops:
        _append_lines(op, depth, lines)
