"""The run over a function that gives every operation on scalars, 1-D vectors and buffers a row of the target."""

from collections.abc import Collection
from typing import Final

from tcpx.payload.diagnostics import Diagnostic
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import ROW, Block, FuncOp, Operation, Value
from tcpx.payload.liveness import Liveness
from tcpx.payload.ops.branch import IfAny
from tcpx.payload.ops.constant import Const
from tcpx.payload.ops.dot_product import Dot, Repeat
from tcpx.payload.ops.gml_st import Conditional, Loop, StYield
from tcpx.payload.ops.index import IndexValue
from tcpx.payload.ops.memory import Lead, Prefetch
from tcpx.payload.ops.vector import Extract, FromElements, Gather, Insert, Mask, Read, Shuffle, Write
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.traits.memory import Memory
from tcpx.payload.types import BufferType
from tcpx.target import Target
from tcpx.transform.recipes import Recipes
from tcpx.transform.vectors.branches import select_if_any
from tcpx.transform.vectors.compute_rows import (
    select_dot,
    select_extract,
    select_from_elements,
    select_index,
    select_insert,
    select_literal,
    select_repeat,
    select_shuffle,
    select_structured,
)
from tcpx.transform.vectors.hoisting import hoist_literals, operations
from tcpx.transform.vectors.interleaving import interleave
from tcpx.transform.vectors.memory_rows import (
    add_fences,
    select_gather,
    select_lead,
    select_mask,
    select_prefetch,
    select_read,
    select_write,
)
from tcpx.transform.vectors.named_rows import check_row
from tcpx.transform.vectors.selector import Selector, type_of


def select_instructions(rewriter: Rewriter, func: FuncOp, target: Target) -> tuple[Diagnostic, ...]:
    """Set the attribute `row` on everything in `func` that the emitter prints by a row of the target.

    Operations without a row are rewritten until all have one. Returns a remark for each operation on vectors that is
    done lane by lane. Raises ScheduleError, located, on one that cannot be done.
    """
    selector = Selector(rewriter, func, target)
    _block(selector, func.body)
    _erase_unused(rewriter, func)
    hoist_literals(rewriter, func)
    interleave(rewriter, func, target)
    _erase_dead(rewriter, func)
    add_fences(selector, func)
    for op in operations(func.body):
        _check(selector, op)
    return selector.remarks.all


def _block(selector: Selector, block: Block) -> None:
    for op in list(block.ops):
        if op.parent is block:
            _select(selector, op)


def _select(selector: Selector, op: Operation) -> None:
    """Select for one operation, for what is inside of it, and for what it is rewritten to."""
    if isinstance(op, Loop | Conditional):
        for block in op.regions:
            _block(selector, block)
    elif ROW in op.attributes:
        check_row(selector.target, op)
    else:
        SELECTED.apply(selector, op)
    for made in selector.take_pending():
        if made.parent is not None:
            _select(selector, made)


def _select_constant(selector: Selector, op: Const) -> None:
    if not isinstance(op.result.type, BufferType):
        select_literal(selector, op)


SELECTED: Final = Recipes[Selector]()
"""How an operation gets its row, or is rewritten to ones that do, by class; others need none."""
SELECTED.add(select_structured, Structured)
SELECTED.add(_select_constant, Const)
SELECTED.add(select_index, IndexValue)
SELECTED.add(select_read, Read)
SELECTED.add(select_mask, Mask)
SELECTED.add(select_gather, Gather)
SELECTED.add(select_write, Write)
SELECTED.add(select_prefetch, Prefetch)
SELECTED.add(select_lead, Lead)
SELECTED.add(select_extract, Extract)
SELECTED.add(select_insert, Insert)
SELECTED.add(select_from_elements, FromElements)
SELECTED.add(select_shuffle, Shuffle)
SELECTED.add(select_repeat, Repeat)
SELECTED.add(select_dot, Dot)
SELECTED.add(select_if_any, IfAny)


def _erase_unused(rewriter: Rewriter, func: FuncOp) -> None:
    """Erase computations that nothing uses: what they fed was rewritten."""
    for op in reversed(operations(func.body)):
        if op.parent is None or not op.results or any(r.uses for r in op.results) or isinstance(op, Loop | Conditional):
            continue
        if Memory(op).computes_result or not isinstance(op.results[0].type, BufferType):
            rewriter.end(op, "nothing used its result")
            rewriter.erase(op)


def _erase_dead(rewriter: Rewriter, func: FuncOp) -> None:
    """Erase what no effect depends on, such as the rows of a register tile that are padding alone: loops carry it."""
    live, ops = Liveness(func), operations(func.body)
    dead = {dest for op in ops if isinstance(op, Loop) for dest in op.destinations if _is_dead(dest, live)}
    for op in ops if dead else ():
        if isinstance(op, StYield) and op.operands[1] in dead:
            rewriter.erase(op)
    for op in reversed(ops) if dead else ():
        if isinstance(op, Loop):
            _erase_destinations(rewriter, op, dead)
        elif op.results and not op.regions and all(_is_dead(value, live) and not value.uses for value in op.results):
            rewriter.end(op, "nothing used its result")
            rewriter.erase(op)


def _is_dead(value: Value, live: Liveness) -> bool:
    return not isinstance(value.type, BufferType) and not live.has_use(value)


def _erase_destinations(rewriter: Rewriter, loop: Loop, dead: Collection[Value]) -> None:
    both = zip(loop.destinations, loop.results, strict=True)
    unused = [k for k, (dest, result) in enumerate(both) if dest in dead and not dest.uses and not result.uses]
    if unused:
        rewriter.set_operands(loop, [value for k, value in enumerate(loop.operands) if k not in unused])
    for k in reversed(unused):
        rewriter.remove_result(loop, k)
        rewriter.remove_block_arg(loop.body, k)


def _check(selector: Selector, op: Operation) -> None:
    """Everything the emitter needs a row for has one."""
    if ROW in op.attributes or op.is_terminator or isinstance(op, Loop | Conditional):
        return
    if isinstance(op, FromElements):
        raise selector.missing(op, "insert")
    for value in op.results:
        if not isinstance(value.type, BufferType):
            type_of(value, op)
            raise selector.missing(op, "compute")
    for value in op.operands:
        if not isinstance(value.type, BufferType):
            type_of(value, op)
