"""Peeling and splitting loops: copies of a body over parts of its range."""

from __future__ import annotations

from tcpx.payload.ir import CloneMap, Operation
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes import Dim, Size, Symbol, Var, maximum, minimum, mod
from tcpx.transform.simplification import simplify_in


def split_at(rewriter: Rewriter, loop: Loop, point: Dim, sides: tuple[str, str]) -> tuple[Loop, Loop]:
    """Two loops, over [lower, point) and [point, upper); `point` is reached by whole steps or beyond the end."""
    var = loop.var
    middle = maximum(var.lower, minimum(point, var.upper))
    split = rewriter.new_split()
    second = _copy(rewriter, loop, Var(var.name, middle, var.upper, var.step), f"~{sides[1]}")
    rewriter.extend_copy_path(second, split, sides[1])
    rewriter.extend_copy_path(loop, split, sides[0])
    narrowed = Var(var.name, var.lower, middle, var.step)
    _set_range(rewriter, loop, narrowed)
    for first_result, second_result in zip(loop.results, second.results, strict=True):
        rewriter.replace_uses(first_result, second_result, lambda user: user is not second)
    for index, result in enumerate(loop.results):
        rewriter.set_operand(second, index, result)
    simplify_in(rewriter, [loop, second])
    return loop, second


def peel(rewriter: Rewriter, loop: Loop, scalar: bool = False) -> tuple[Loop, Loop]:
    """A main loop of whole steps, and a tail loop that runs once, with a shorter step, or not at all."""
    var = loop.var
    rest = mod(var.upper - var.lower, var.step)
    main, tail = split_at(rewriter, loop, var.upper - rest, ("main", "tail"))
    if scalar:
        _set_range(rewriter, tail, Var(tail.var.name, tail.var.lower, tail.var.upper, 1))
        simplify_in(rewriter, [tail])
    return main, tail


def _copy(rewriter: Rewriter, loop: Loop, var: Var, suffix: str) -> Loop:
    """A copy of a loop behind it, over another range."""
    mapping = CloneMap()
    made = rewriter.clone(loop, InsertPoint.after(loop), mapping, suffix)
    _set_range(rewriter, made, Var(made.var.name, var.lower, var.upper, var.step))
    return made


def _set_range(rewriter: Rewriter, loop: Loop, var: Var) -> None:
    """Give a loop another range and let its body know."""
    old = loop.var
    rewriter.set_attribute(loop, "var", var)
    sizes: dict[Symbol | Var, Dim] = {old: Size.of(var)}
    body: list[Operation] = list(loop.body.ops)
    rewriter.substitute(body, sizes)
