"""Blocks, loops and branches."""

from pathlib import PurePath

from tcpx.emit_c.printer.buffers import is_buffer_op, print_buffer, print_call, print_copy, print_kernel_row
from tcpx.emit_c.printer.clocks import StraightLines, is_timed, timed
from tcpx.emit_c.printer.compiler_faults import UNROLL, is_asked_to_unroll
from tcpx.emit_c.printer.context import FunctionContext
from tcpx.emit_c.printer.names import in_comment
from tcpx.emit_c.printer.scopes import Scope
from tcpx.emit_c.printer.set_ups import NONE
from tcpx.emit_c.printer.statements import print_row
from tcpx.emit_c.printer.worksharing import print_shared, shares_of
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.assertion import Assert
from tcpx.payload.ops.call import RowCall
from tcpx.payload.ops.gml_st import (
    Conditional,
    If,
    Loop,
    StYield,
    While,
    runs_at_most_once,
    trip_count_is_one,
)
from tcpx.payload.ops.index import Bind
from tcpx.payload.ops.memory import Copy
from tcpx.payload.sizes import variables
from tcpx.payload.traits.call import Calling


def print_block(block: Block, context: FunctionContext, scope: Scope) -> None:
    """Print the live operations of a block; what its end carries is left to the operation it belongs to."""
    outer, lines = scope.op, StraightLines(block, context)
    for op in block.ops:
        if not context.live.is_live(op):
            continue
        scope.op = op
        lines.begin(op, scope)
        if op.notes and (op.operands or op.regions) and op.notes != context.said:
            context.said = op.notes
            scope.statement(f"/* {', '.join(in_comment(_note(*note)) for note in op.notes.items())} */")
        setup = context.setups.at(op)
        if setup == NONE and not is_timed(op, context):
            _print_operation(op, context, scope)
        else:
            scope.statements(setup.begin)
            with context.setups.active(setup), timed(op, context, scope):
                _print_operation(op, context, scope)
            scope.statements(setup.end)
        lines.end(op, scope)
    scope.op = outer


def _print_operation(op: Operation, context: FunctionContext, scope: Scope) -> None:
    if isinstance(op, Loop):
        _print_loop(op, context, scope)
    elif isinstance(op, Conditional):
        _print_if(op, context, scope)
    elif isinstance(op, StYield):
        _print_yield(op, context, scope)
    elif isinstance(op, Bind):
        _print_bound(op, context, scope)
    elif is_buffer_op(op):
        print_buffer(op, context, scope)
    elif isinstance(op, Copy):
        scope.statement(_comment(op))
        print_copy(op, context, scope)
    elif isinstance(op, RowCall):
        print_kernel_row(op, context, scope)
    elif (called := Calling(op).callee) is not None:
        print_call(op, called, context, scope)
    elif not op.is_terminator and not isinstance(op, Assert):
        print_row(op, context, scope)


def _print_bound(op: Bind, context: FunctionContext, scope: Scope) -> None:
    """Let a size be the value of an element."""
    name = context.names.fresh(op.var.name)
    scope.declare(f"const int64_t {name} = {context.read(op.operand)};")
    scope.names[op.var.text] = name


def _note(name: str, text: str) -> str:
    return f"{name}: {text}" if text else name


def _print_loop(loop: Loop, context: FunctionContext, scope: Scope) -> None:
    if loop.is_parallel and not context.in_parallel and not _how_often(loop) and context.threads > 1:
        _print_workshared(_grid_of(loop, context), context, scope)
        return
    often = _how_often(loop)
    carried = [k for k, dest in enumerate(loop.destinations) if context.live.has_use(dest)]
    for k in carried:
        init, dest = loop.operands[k], loop.destinations[k]
        if context.variables.of(init) is not context.variables.of(dest):
            context.define(dest, context.read(init), loop, scope)
    inner = Scope(scope)
    lower, upper, name, head = _head(loop, context, scope, inner)
    if often:
        inner.declare(f"const int64_t {name} = {lower};")
    delayed = [k for k in carried if any(y.parent is not loop.body for y in loop.yields_to(k))]
    for k in delayed:
        _declare_next(loop.destinations[k], loop, context, inner)
    print_block(loop.body, context, inner)
    context.assign([(context.read(loop.destinations[k]), v) for k in carried for v in _yielded(loop, k)], loop, inner)
    for k in delayed:
        inner.statement(f"{context.read(loop.destinations[k])} = {context.next_values[loop.destinations[k]]};")
    scope.statement(_loop_comment(loop))
    if not often and loop.unrolled > 1:
        scope.statement(f"#pragma GCC unroll {loop.unrolled}")
    heads = {"once": "", "at most once": f"if ({lower} < {upper}{_and_holds(loop, context)})"}
    scope.block(heads.get(often, head), inner)


def _and_holds(loop: Loop, context: FunctionContext) -> str:
    """What an iteration needs beside its number."""
    return f" && {context.read(loop.condition)}" if isinstance(loop, While) else ""


def _head(loop: Loop, context: FunctionContext, scope: Scope, inner: Scope) -> tuple[str, str, str, str]:
    """Lower and upper bound in C, the variable, which `inner` then knows, and the head of the loop."""
    var = loop.var
    lower, upper, step = (context.sizes.text(d, scope) for d in (var.lower, var.upper, var.step))
    name = inner.names[var.text] = context.names.fresh(var.name)
    advance = f"{name}++" if step == "1" else f"{name} += {step}"
    ends = f"{name} < {upper}{_and_holds(loop, context)}"
    return lower, upper, name, f"for (int64_t {name} = {lower}; {ends}; {advance})"


def _how_often(loop: Loop) -> str:
    return "once" if trip_count_is_one(loop) else "at most once" if runs_at_most_once(loop) else ""


def _grid_of(loop: Loop, context: FunctionContext) -> list[Loop]:
    """A parallel loop and those directly in it whose iterations can be shared among threads with its own: parallel
    ones, over a range that is the same in each of its iterations, with nothing beside them."""
    grid = [loop]
    while True:
        alone = [op for op in grid[-1].body.ops if context.live.is_live(op) and not op.is_terminator]
        inner = alone[0] if len(alone) == 1 else None
        if not isinstance(inner, Loop) or not inner.is_parallel or _how_often(inner):
            return grid
        bounds = (inner.var.lower, inner.var.upper, inner.var.step)
        if {outer.var for outer in grid} & {v for bound in bounds for v in variables(bound)}:
            return grid
        grid.append(inner)


def _print_workshared(grid: list[Loop], context: FunctionContext, scope: Scope) -> None:
    """Loops whose iterations are shared among threads as those of one."""
    known = len(context.names.given)
    inner = Scope(scope)
    heads = [_head(loop, context, scope, inner)[-1] for loop in grid]
    context.in_parallel, context.slot_name = True, ""
    setup = context.setups.of_threads(grid[0])
    if is_asked_to_unroll(grid[-1]):
        context.needs.unrolling = True
        inner.statement(UNROLL)
    _declare_slot(grid[-1], context, inner)
    with context.setups.active(setup):
        print_block(grid[-1].body, context, inner)
    context.in_parallel, context.slot_name = False, ""
    scope.statement(_loop_comment(grid[0]))
    shares = shares_of(grid, inner, known, context, scope)
    for k in reversed(range(1, len(grid))):
        around = Scope(scope)
        around.statement(_loop_comment(grid[k]))
        around.block(heads[k], inner)
        inner = around
    print_shared(shares, heads[0], inner, setup, scope)


def _loop_comment(loop: Loop) -> str:
    often = _how_often(loop)
    words = ["parallel"] if loop.is_parallel else []
    return _comment(loop, *words, *([often] if often else []))


def _comment(op: Operation, *more: str) -> str:
    """The name of an operation, what else there is to say of it, and the line of the schedule that made it."""
    place = op.schedule_location
    file, line = (place.printed or (place.file, place.line)) if place is not None else ("", 0)
    source = f" ({in_comment(PurePath(file).name)}:{line})" if place is not None else ""
    return f"/* {', '.join((in_comment(op.name), *more))}{source} */"


def _declare_slot(loop: Loop, context: FunctionContext, inner: Scope) -> None:
    """The part of the workspace that belongs to the thread that runs this iteration."""
    steps = [context.size_attribute(op, "per_thread") for op in loop.walk() if context.live.is_live(op)]
    step = next((step for step in steps if step != 0), None)
    if step is None:
        return
    context.needs.thread_number = True
    context.slot_name = context.names.fresh("slot")
    own = f"omp_get_thread_num() * {context.sizes.factor(step, inner)}"
    inner.statement(f"char *const {context.slot_name} = (char *){context.workspace_name} + {own};")


def _yielded(loop: Loop, index: int) -> list[Value]:
    """What is carried to the next iteration, where that does not depend on a branch."""
    yields = loop.yields_to(index)
    return [y.operands[0] for y in yields[-1:]] if all(y.parent is loop.body for y in yields) else []


def _declare_next(dest: Value, loop: Loop, context: FunctionContext, inner: Scope) -> None:
    """A branch may yield to the destination: what it carries is collected in a variable of its own."""
    name = context.next_values[dest] = context.names.fresh(f"{dest.name}_next")
    inner.statement(f"{context.c_type(dest.type, loop)} {name} = {context.read(dest)};")


def _print_yield(op: StYield, context: FunctionContext, scope: Scope) -> None:
    dest = op.operands[1]
    if dest in context.next_values:
        scope.statement(f"{context.next_values[dest]} = {context.read(op.operands[0])};")


def _print_if(op: Conditional, context: FunctionContext, scope: Scope) -> None:
    results = [k for k, r in enumerate(op.results) if context.live.has_use(r)]
    for k in results:
        context.declare(op.results[k], op, scope)
    possible = context.live.branches(op)
    if len(possible) == 1:
        taken = Scope(scope)
        _print_branch(possible[0], op, results, context, taken)
        if taken.flushed():
            scope.block("", taken)
        return
    condition = _condition(op, context, scope)
    branches = [Scope(scope), Scope(scope)]
    for block, inner in zip((op.then, op.orelse), branches, strict=True):
        _print_branch(block, op, results, context, inner)
    then, orelse = branches
    if then.flushed():
        scope.block(f"if ({condition})", then)
        if orelse.flushed():
            scope.extend_last_block("else", orelse)
    elif orelse.flushed():
        scope.block(f"if (!({condition}))", orelse)


def _condition(op: Conditional, context: FunctionContext, scope: Scope) -> str:
    if isinstance(op, If):
        return context.sizes.condition(op.predicate, scope)
    return context.read(op.operands[0])


def _print_branch(block: Block, op: Operation, results: list[int], context: FunctionContext, inner: Scope) -> None:
    print_block(block, context, inner)
    end = block.terminator
    values = end.operands if end is not None else []
    context.assign([(context.read(op.results[k]), values[k]) for k in results], op, inner)
