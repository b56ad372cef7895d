"""Operations on constants, evaluated while a schedule runs."""

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from tcpx.payload.attribute_sizes import dims_of
from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.ir import CloneMap, Operation, Value, defined_by, is_in
from tcpx.payload.ops.call import CallBase
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.sizes import Dim, Symbol, Var
from tcpx.payload.sizes.traversal import leaves
from tcpx.payload.strided import STRIDED
from tcpx.payload.text.scope import DIM_ATTRIBUTES
from tcpx.payload.traits.call import Calling
from tcpx.payload.traits.constant import Constant
from tcpx.payload.types import TensorType, shape_of
from tcpx.transform import new
from tcpx.transform.declaration import TransformContext
from tcpx.transform.editing import erase_dead
from tcpx.transform.outlining import clone


def fold(ctx: TransformContext, op: Operation) -> Operation:
    """Replace an operation, or a loop, by a constant of the module; returns the constant. Raises ScheduleError."""
    needed, read = needed_for(op)
    if _is_static_before_calls(op, needed, read):
        return _fold_before_calls(ctx, needed, read, _calls(ctx, op, read))
    type_ = op.results[0].type if len(op.results) == 1 else None
    if not isinstance(type_, TensorType) or not all(isinstance(d, int) for d in type_.shape):
        raise ctx.fail(
            f"%{op.name} cannot be a constant",
            op=op,
            required="one result, a tensor of static shape",
            found=", ".join(str(r.type) for r in op.results) or "no result",
        )
    if Constant.of(op) is not None:
        raise ctx.fail(f"%{op.name} is a constant", op=op, required="something to compute", found=op.opcode)
    _check_sizes(ctx, op, needed)
    calls = _calls(ctx, op, read)
    fixed = [call for call in calls if _passes_constants(ctx, op, read, call)]
    own = _copy_for(ctx, op, fixed) if 0 < len(fixed) < len(calls) else None
    own = _copied_before(ctx, op) if calls and not fixed else own
    if own is not None:
        op = own
        needed, read = needed_for(op)
        calls = _calls(ctx, op, read)
    if (fixed or own is not None) and any(_is_passed_on(ctx, op, read, call) for call in calls):
        return _fold_before_calls(ctx, needed, read, calls)
    names = [stored_name(ctx, _computed(ctx, op, needed, read, call), op.results[0].name) for call in calls or [None]]
    if len(set(names)) == 1:
        made = [_insert(ctx, op, names[0], op)]
        value = made[0].result
    else:
        value = ctx.rewriter.add_block_arg(ctx.rewriter.func_of(op).body, type_, op.results[0].name)
        made = [_insert(ctx, op, name, call) for name, call in zip(names, calls, strict=True)]
        for const, call in zip(made, calls, strict=True):
            ctx.rewriter.set_operands(call, [*call.operands, const.result])
    origins = op.origins
    ctx.rewriter.continue_as(op, made[0])
    for other in made[1:]:
        ctx.rewriter.set_origins(other, origins)
    _replace(ctx, needed, value)
    return made[0]


def _replace(ctx: TransformContext, needed: Sequence[Operation], value: Value) -> None:
    """Put a value in the place of the last operation, and erase of those that it needed what nothing else does."""
    ctx.rewriter.replace_op(needed[-1], [value])
    for each in reversed(needed[:-1]):
        if each.parent is not None:
            erase_dead(ctx.rewriter, each.results)


def _is_static_before_calls(op: Operation, needed: Sequence[Operation], read: Sequence[Value]) -> bool:
    """Whether an operation on constants has sizes that each call of its function tells, and no others."""
    func = op.func
    if func is None or unknown_size(needed) is None or not read or any(value not in func.args for value in read):
        return False
    calls = [call for call in func.callers() if isinstance(call, CallBase)]
    sizes = [known for call in calls for known in Calling(call).binding.values()]
    return all(isinstance(known, int) for known in sizes) and all(map(_is_of_constants, read))


def _fold_before_calls(
    ctx: TransformContext, needed: Sequence[Operation], read: Sequence[Value], calls: Sequence[Operation]
) -> Operation:
    """Compute an operation, the last of those `needed`, before each call, which passes the result; fold it there."""
    rewriter, op = ctx.rewriter, needed[-1]
    func, copies = rewriter.func_of(op), list[Operation]()
    passed = rewriter.add_block_arg(func.body, op.results[0].type, op.results[0].name)
    for call in calls:
        sizes = cast("Mapping[Symbol | Var, Dim]", Calling(cast("CallBase", call)).binding)
        mapping = CloneMap({value: call.operands[func.args.index(value)] for value in read}, sizes)
        copies.append([rewriter.clone(each, InsertPoint.before(call), mapping) for each in needed][-1])
        rewriter.set_operands(call, [*call.operands, copies[-1].results[0]])
    _replace(ctx, needed, passed)
    first, *_ = [fold(ctx, copy) for copy in copies]
    return first


def _insert(ctx: TransformContext, op: Operation, name: str, before: Operation) -> Operation:
    """The constant that replaces the result of `op`."""
    made = new.stored(name, op.results[0].type, op.location)
    made.stand_for(op)
    ctx.rewriter.insert(made, InsertPoint.before(before), op.results[0].name)
    ctx.rewriter.rename(made, op.name)
    made.copy_path = op.copy_path
    return made


def stored_name(ctx: TransformContext, computed: Array, base: str) -> str:
    """The name under which an array is stored."""
    held = ctx.rewriter.module.constants
    name = held.name_of(computed)
    if name is None:
        name = next(n for n in (base, *(f"{base}.{k}" for k in range(1, len([*held]) + 2))) if n not in held)
        ctx.rewriter.add_constant(name, computed)
    return name


def _calls(ctx: TransformContext, op: Operation, read: Sequence[Value]) -> list[Operation]:
    """The calls of the function whose arguments are read: each must pass constants."""
    func = ctx.rewriter.func_of(op)
    calls = (
        func.callers() if read and all(value in func.args for value in read) and STRIDED not in func.attributes else []
    )
    if read and not calls:
        raise ctx.fail(
            f"%{op.name} reads what is known only when the kernel runs",
            op=op,
            required="operands computed from constants alone",
            found=f"%{read[0].name}: {read[0].type}",
        )
    return calls


def _passes_constants(ctx: TransformContext, op: Operation, read: Sequence[Value], call: Operation) -> bool:
    """Whether what is read of the arguments is computed from constants alone in a call."""
    args = ctx.rewriter.func_of(op).args
    return all(_is_of_constants(call.operands[args.index(value)]) for value in read)


def _is_of_constants(value: Value) -> bool:
    """Whether a value is computed from constants alone, which may be arguments that are constant in each call."""
    given = needed_for(value.defining_op)[1] if value.defining_op is not None else [value]
    for outer in given:
        func = outer.func
        calls = func.callers() if func is not None and outer in func.args and STRIDED not in func.attributes else []
        if func is None or not calls:
            return False
        if not all(_is_of_constants(call.operands[func.args.index(outer)]) for call in calls):
            return False
    return True


def _is_passed_on(ctx: TransformContext, op: Operation, read: Sequence[Value], call: Operation) -> bool:
    """Whether a call passes what its own function is given."""
    args = ctx.rewriter.func_of(op).args
    sources = [call.operands[args.index(value)].defining_op for value in read]
    return any(source is None or needed_for(source)[1] for source in sources)


def _copy_for(ctx: TransformContext, op: Operation, calls: Sequence[Operation]) -> Operation:
    """Give calls one copy of the function of an operation, which other calls run too; returns the operation in it."""
    place = list(ctx.rewriter.func_of(op).walk()).index(op)
    made = clone(ctx.rewriter, cast("CallBase", calls[0]))
    for call in calls[1:]:
        ctx.rewriter.set_attribute(call, "callee", made.name)
    return list(made.walk())[place]


def _copied_before(ctx: TransformContext, op: Operation) -> Operation | None:
    """An operation in the copy of its function that this step made for the calls with constants, for another version
    of it; None if it made none."""
    func, step = ctx.rewriter.func_of(op), ctx.rewriter.step
    for made in ctx.rewriter.module.funcs.values():
        if made.clone_of is func and made.body.ops[0].steps[-1:] == (step,):
            same = [other for origin in op.origins for other in ctx.rewriter.origins[origin] if is_in(other, made)]
            return next((other for other in same if other.copy_path[:-1] == op.copy_path[:-1]), None)
    return None


def _computed(
    ctx: TransformContext, op: Operation, needed: Sequence[Operation], read: Sequence[Value], call: Operation | None
) -> Array:
    """The result of `op`, for one call of its function if it reads arguments."""
    evaluation = Evaluation(ctx.rewriter.module.constants, {})
    with np.errstate(all="ignore"):
        for value in read if call is not None else ():
            given = call.operands[ctx.rewriter.func_of(op).args.index(value)] if call is not None else value
            first, unknown = needed_for(given.defining_op) if given.defining_op is not None else ([], [given])
            if unknown:
                raise ctx.fail(
                    f"no call passes constants for all that %{op.name} reads",
                    op=op,
                    required=f"a constant for %{value.name} in a call of @{ctx.rewriter.func_of(op).name}",
                    found=f"%{given.name}: {given.type}",
                )
            _check_sizes(ctx, op, first)
            for each in first:
                evaluation.run(each)
            evaluation.values[value] = evaluation.values[given]
        for each in needed:
            evaluation.run(each)
    return np.asarray(evaluation.values[op.results[0]], order="C")


def _check_sizes(ctx: TransformContext, op: Operation, needed: Sequence[Operation]) -> None:
    """Raise ScheduleError if an operation depends on sizes that are known only at run time."""
    if (unknown := unknown_size(needed)) is not None:
        size, each = unknown
        raise ctx.fail(
            f"%{op.name} depends on {size}, which is known only when the kernel runs",
            op=op,
            required="operations on static sizes, outside of the loops that they depend on",
            found=f"{each.opcode} %{each.name}",
        )


def unknown_size(ops: Sequence[Operation]) -> tuple[str, Operation] | None:
    """A size that is known only at run time, and which of these operations, or what is in it, depends on it."""
    for root in ops:
        inner = {str(v.name) for each in root.walk() if isinstance(v := each.attributes.get("var"), Var)}
        for each in root.walk():
            attributes = (a for key, a in each.attributes.items() if key not in DIM_ATTRIBUTES)
            dims = [d for attribute in attributes for d in dims_of(attribute)]
            dims += [d for value in defined_by(each) for d in shape_of(value.type)]
            unknown = [a.text for d in dims for a in leaves(d).values() if a.name not in inner]
            if unknown:
                return unknown[0], each
    return None


def needed_for(op: Operation) -> tuple[list[Operation], list[Value]]:
    """The operations that `op` depends on and `op` itself, in execution order, and the values that no operation
    defines."""
    order: dict[Operation, None] = {}
    given: dict[Value, None] = {}
    waiting: list[tuple[Operation, bool]] = [(op, False)]
    while waiting:
        here, is_ready = waiting.pop()
        if is_ready:
            order[here] = None
        elif here not in order:
            waiting.append((here, True))
            for value in _read_from_outside(here):
                if value.defining_op is not None:
                    waiting.append((value.defining_op, False))
                else:
                    given[value] = None
    return list(order), list(given)


def _read_from_outside(op: Operation) -> list[Value]:
    """The values that an operation, or its body, uses but does not define."""
    inside = {value for each in op.walk() for value in defined_by(each)}
    used = dict.fromkeys(value for each in op.walk() for value in each.operands)
    return [value for value in used if value not in inside]
