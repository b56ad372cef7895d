"""The loop nest as text: for `print`, for the trace, for people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tcpx.payload.ir import FuncOp, Operation
from tcpx.payload.ops.gml_st import If, Loop
from tcpx.payload.sizes import to_text


@dataclass(frozen=True, slots=True)
class Nest:
    """The loop nest of a function at one moment: its lines by operation of the body, joined when asked for."""

    head: str
    parts: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        return "\n".join([self.head, *(line for part in self.parts for line in part)])


class Nests:
    """The nests of one function over time: only what changed is looked at again."""

    def __init__(self) -> None:
        self._known: dict[Operation, tuple[str, ...]] = {}

    def forget(self, ops: Iterable[Operation]) -> None:
        """What stands at or round these operations may have changed."""
        for op in ops:
            for around in (op, *op.ancestors()):
                self._known.pop(around, None)

    def clear(self) -> None:
        """Everything may have changed."""
        self._known.clear()

    def of(self, func: FuncOp) -> Nest:
        """The nest of `func` now."""
        parts: list[tuple[str, ...]] = []
        for op in func.body.ops:
            known = self._known.get(op)
            if known is None:
                known = self._known[op] = tuple(_lines(op, "  "))
            parts.append(known)
        return Nest(f"func @{func.name}", tuple(parts))


def loop_nest(op: Operation, indent: str = "") -> str:
    """Loops, conditions and the operations in them, one line each; data movement between them is left out."""
    return "\n".join(_lines(op, indent))


def _lines(op: Operation, indent: str) -> list[str]:
    match op:
        case FuncOp():
            lines, inner = [f"{indent}func @{op.name}"], [op.body]
        case Loop():
            var = op.var
            word = "parallel" if op.is_parallel else "for"
            bounds = f"{to_text(var.lower)} to {to_text(var.upper)} step {to_text(var.step)}"
            lines, inner = [f"{indent}{word} {op.name} in {bounds}"], op.regions
        case If():
            lines = [f"{indent}if {op.predicate}", *_block_lines(op, 0, indent)]
            orelse = _block_lines(op, 1, indent)
            return [*lines, f"{indent}else", *orelse] if orelse else lines
        case _:
            shown = bool(op.tree_classes())
            return [f"{indent}{op.name} = {op.opcode}"] if shown else []
    for block in inner:
        for nested in block.ops:
            lines += _lines(nested, indent + "  ")
    return lines


def _block_lines(op: Operation, region: int, indent: str) -> list[str]:
    return [line for nested in op.regions[region].ops for line in _lines(nested, indent + "  ")]
