"""Memory of a function: stack arrays, parts of the workspace, constants, other shapes of a buffer."""

from math import prod
from typing import Final

from tcpx.emit_c.printer.context import FunctionContext
from tcpx.emit_c.printer.memory_access import Access
from tcpx.emit_c.printer.names import in_comment
from tcpx.emit_c.printer.scopes import Scope
from tcpx.emit_c.printer.set_ups import kernel_row
from tcpx.emit_c.signature import ConstantSlot
from tcpx.payload.ir import FuncOp, Operation, Value
from tcpx.payload.ops.call import DISJOINT_ROWS, NONEMPTY, RowCall
from tcpx.payload.ops.memory import At, Copy
from tcpx.payload.sizes import known_divisor, maximum, product
from tcpx.payload.traits.call import Calling
from tcpx.payload.traits.memory import Memory
from tcpx.payload.types import BufferType
from tcpx.target.kernels import places_of
from tcpx.target.rows import PLACEHOLDER

ALIGNMENT: Final = 64


def is_buffer_op(op: Operation) -> bool:
    """Whether an operation gives a buffer."""
    return len(op.results) == 1 and isinstance(op.result.type, BufferType)


def print_buffer(op: Operation, context: FunctionContext, scope: Scope) -> None:
    """Declare the memory an operation gives; what is in it is told by its operands and its space."""
    type_ = context.buffer_type(op.result, op)
    if isinstance(op, At):
        _print_part(op, type_, context, scope)
        return
    if op.operands:
        context.buffers[op.result] = context.read(op.operands[0])
        return
    match type_.space:
        case "stack":
            _print_stack(op, type_, context, scope)
        case "arena":
            _print_arena(op, type_, context, scope)
        case "constant":
            _print_constant(op, type_, context, scope)
        case _:
            raise op.error(
                "a buffer of this space cannot be made inside a function",
                required="space stack, arena or constant",
                found=str(type_),
            )


def _print_stack(op: Operation, type_: BufferType, context: FunctionContext, scope: Scope) -> None:
    shape = [d for d in type_.shape if isinstance(d, int)]
    strides = [s for s in type_.strides if isinstance(s, int)]
    if len(shape) != len(type_.shape) or len(strides) != len(type_.strides):
        raise op.error("a buffer on the stack has a static shape", required="dims that are numbers", found=str(type_))
    elements = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if prod(shape) > 0 else 1
    name = context.buffers[op.result] = context.names.fresh(op.result.name)
    context.arrays.add(name)
    scope.statement(f"_Alignas({ALIGNMENT}) {context.target.c_type(type_.dtype.name)} {name}[{elements}];")


def _print_arena(op: Operation, type_: BufferType, context: FunctionContext, scope: Scope) -> None:
    aligned = known_divisor(context.size_attribute(op, "offset")) % ALIGNMENT == 0
    place = _place(op, context, scope)
    pointer = f"__builtin_assume_aligned({place}, {ALIGNMENT})" if aligned else f"(void *)({place})"
    name = context.buffers[op.result] = context.names.fresh(op.result.name)
    element = context.target.c_type(type_.dtype.name)
    scope.statement(f"{element} *const {name} = {pointer}; /* {in_comment(_shape(type_))} */")


def _print_part(op: At, type_: BufferType, context: FunctionContext, scope: Scope) -> None:
    """A pointer to where values say."""
    source = context.buffer_type(op.source, op)
    access = Access(op.source, source, op.subset)
    distances = [op.subset.strides[dim] * source.strides[dim] for dim in op.dims]
    moved = zip((context.read(value) for value in op.operands[1:]), distances, strict=True)
    pointer = access.pointer(context, scope, tuple(moved))
    name = context.buffers[op.result] = context.names.fresh(op.result.name)
    is_read = type_.space in ("argument", "constant") and not _is_state(op.source, context.func)
    const = "const " if is_read else ""
    scope.statement(f"{const}{context.target.c_type(type_.dtype.name)} *const {name} = {pointer};")


def _is_state(buffer: Value, func: FuncOp) -> bool:
    """Whether a buffer, or what it is a part of, is an argument that the function writes."""
    while buffer.defining_op is not None and buffer.defining_op.operands:
        buffer = buffer.defining_op.operands[0]
    return buffer in func.args and func.args.index(buffer) in func.states


def _place(op: Operation, context: FunctionContext, scope: Scope) -> str:
    """The address in the workspace that an operation has."""
    if "offset" not in op.attributes:
        raise op.error(
            "a buffer of the workspace has no place in it",
            required="an `offset`, which plan_memory gives it",
            found="no `offset`",
        )
    base = f"(char *){context.workspace_name}"
    if context.slot_name and context.size_attribute(op, "per_thread") != 0:
        base = context.slot_name
    shift = context.sizes.text(context.size_attribute(op, "offset"), scope)
    return base if shift == "0" else f"{base} - {shift[1:]}" if shift.startswith("-") else f"{base} + {shift}"


def print_call(op: Operation, callee: FuncOp, context: FunctionContext, scope: Scope) -> None:
    """Run another function of the kernel, in its part of the workspace."""
    arguments = [context.read(value) for value in op.operands]
    arguments += [context.sizes.text(size, scope) for size in Calling(op).binding.values()]
    workspace = _place(op, context, scope) if Memory(op).workspace[0] != 0 else "0"
    name, constants = context.kernel.c_names[callee], context.kernel.constants_of[callee]
    arguments += [_constant_place(stored, context) for stored in constants]
    scope.statement(f"{name}({', '.join([*arguments, workspace])});")


def print_kernel_row(op: RowCall, context: FunctionContext, scope: Scope) -> None:
    """Print a call by the template of its row."""
    row, func = kernel_row(op, context.target), op.called
    context.needs.kernels[row.name] = row
    texts = {symbol.name: context.sizes.text(size, scope) for symbol, size in Calling(op).binding.items()}
    for k, (name, value, tile) in enumerate(zip(places_of(func), op.operands, op.tiles, strict=True)):
        texts[name] = Access(value, context.buffer_type(value, op), tile).pointer(context, scope)
        for dim, stride in enumerate(op.strides(k)[:-1]):
            least = product(tile.shape[dim + 1 :]) if op.keeps(DISJOINT_ROWS) else 0  # of one row, it may be anything
            texts[f"{name}_stride{dim}"] = context.sizes.text(maximum(stride, least) if least else stride, scope)
    text = PLACEHOLDER.sub(lambda match: texts[match.group(1)], row.c).strip()
    lines = (text if text.endswith((";", "}")) else f"{text};").splitlines()
    guard = context.sizes.is_positive(op.domain, scope) if op.keeps(NONEMPTY) else ""
    if len(lines) == 1:
        scope.statement(lines[0], guard)
    else:
        scope.block(f"if ({guard})" if guard else "", lines)


def print_copy(op: Copy, context: FunctionContext, scope: Scope) -> None:
    """One call of `memcpy`, where there is something to move. Compilers make it of a loop where they see that what is
    read is not what is written; not where `restrict` is lost, in the functions that clang makes of parallel loops."""
    context.needs.memcpy = True
    accesses = [Access(value, context.buffer_type(value, op), tile) for value, tile in reversed(op.accesses)]
    (length,) = op.subset.shape
    count = context.sizes.factor(length, scope)
    element = context.target.c_type(accesses[0].buffer.dtype.name)
    size = f"{count if isinstance(length, int) else f'(size_t){count}'} * sizeof({element})"
    places = ", ".join(access.pointer(context, scope) for access in accesses)
    scope.statement(f"memcpy({places}, {size});", context.sizes.is_positive([length], scope))


def _print_constant(op: Operation, type_: BufferType, context: FunctionContext, scope: Scope) -> None:
    stored = op.attributes.get("constant")
    array = context.constants.get(stored) if isinstance(stored, str) else None
    if not isinstance(stored, str) or array is None:
        known = ", ".join(context.constants) or "none"
        raise op.error(f'there is no constant "{stored}"', required="a stored array", found=f"stored: {known}")
    if array.shape != type_.shape or array.dtype != type_.dtype.numpy:
        raise op.error(
            f'the constant "{stored}" does not fit its type',
            required=str(type_),
            found=f"{array.dtype} of shape {array.shape}",
        )
    name, place = context.names.fresh(op.result.name), _constant_place(stored, context)
    context.buffers[op.result] = name
    element = context.target.c_type(type_.dtype.name)
    pointer = f"__builtin_assume_aligned({place}, {ALIGNMENT})"
    scope.statement(f"const {element} *const {name} = {pointer}; /* {in_comment(_shape(type_))} */")


def _constant_place(stored: str, context: FunctionContext) -> str:
    """The address of a constant: what the function is given for it, or a place in the block of constants."""
    if stored in context.constant_names:
        return context.constant_names[stored]
    slot = next((s for s in context.constant_slots if s.name == stored), None)
    array = context.constants.get(stored)
    if slot is None and array is not None:
        end = max((s.offset + s.bytes for s in context.constant_slots), default=0)
        slot = ConstantSlot(stored, -(-end // ALIGNMENT) * ALIGNMENT, array.nbytes)
        context.constant_slots.append(slot)
    return f"(const char *){context.constants_name} + {slot.offset}" if slot and slot.offset else context.constants_name


def _shape(type_: BufferType) -> str:
    return str(type_).removeprefix("buffer<").partition(", strides")[0]
