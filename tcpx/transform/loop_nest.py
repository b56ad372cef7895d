"""The loop nest as text: for `print`, for the trace, for people."""

from __future__ import annotations

from tcpx.payload.ir import FuncOp, Operation
from tcpx.payload.ops.gml_st import If, Loop
from tcpx.payload.sizes import to_text


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
