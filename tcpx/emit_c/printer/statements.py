"""Operations that name an instruction row, one C statement each."""

from typing import Final

from tcpx.emit_c.printer.context import FunctionContext
from tcpx.emit_c.printer.literals import literal
from tcpx.emit_c.printer.memory_access import Access
from tcpx.emit_c.printer.scopes import Scope
from tcpx.payload.contexts import are_equal_at
from tcpx.payload.ir import Operation
from tcpx.payload.ops.vector import Mask, Read, Shuffle
from tcpx.payload.sizes import Dim, Size, is_equal, is_less_equal, product
from tcpx.payload.types import BufferType, ScalarType, Type, dtype_of
from tcpx.target import InstructionRow, LaneType

LITERAL: Final = "literal"
"""The row of constants: not in any table, since every target has literals."""
CACHE_LINE: Final = 64
_MASKED_LOADS: Final = ("masked_load", "masked_strided_load")
_PREFETCHES: Final = ("prefetch_read", "prefetch_write")
_WITHOUT_BUFFER: Final = ("a", "b", "c", "v")


def print_row(op: Operation, context: FunctionContext, scope: Scope) -> None:
    """Print an operation by the template of its row."""
    if op.attributes.get("row") == LITERAL:
        held = op.attributes.get("value")
        is_size = isinstance(held, Size)
        text = context.sizes.text(held, scope) if is_size else _constant(op, op.result.type, _number(op), context)
        context.define(op.result, text, op, scope)
        return
    row = context.row(op)
    if row.kind in _PREFETCHES:
        _print_prefetch(op, row, context, scope)
        return
    arguments, guard = _arguments(op, row, context, scope)
    if row.alignment:
        _print_aligned(op, row, arguments, guard, context, scope)
    elif row.result is None:
        scope.statement(f"{row.render(**arguments)};", guard)
    else:
        text = _filled_load(op, row, arguments, context) or row.render(**arguments)
        if guard:
            text = f"{guard} ? ({text}) : ({_constant(op, op.result.type, _number(op), context)})"
        context.define(op.result, text, op, scope)


def _arguments(
    op: Operation, row: InstructionRow, context: FunctionContext, scope: Scope
) -> tuple[dict[str, str], str]:
    """What the placeholders of a row stand for, and the condition under which memory is accessed."""
    values = [v for v in op.operands if not isinstance(v.type, BufferType)]
    wanted = [p for p in row.placeholders if p in _WITHOUT_BUFFER]
    if len(values) != len(wanted):
        raise op.error(
            f"the row {row.name} does not fit its operands",
            required=f"{len(wanted)} value(s): {row.signature}",
            found=", ".join(f"%{v.name}: {v.type}" for v in values) or "none",
        )
    arguments = {placeholder: context.read(value) for placeholder, value in zip(wanted, values, strict=True)}
    if isinstance(op, Mask):
        sizes = {"f": op.first, "n": op.count}
        arguments |= {key: context.sizes.text(sizes[key], scope) for key in row.placeholders}
    if "lane" in row.placeholders:
        arguments["lane"] = str(op.attributes.get("lane", 0))
    if "lanes" in row.placeholders and isinstance(op, Shuffle):
        arguments["lanes"] = ", ".join(map(str, op.lanes))
    guard = ""
    if "p" in row.placeholders:
        access = Access.of(op, context)
        masked = "n" in row.placeholders or "e" in row.placeholders
        guard = context.sizes.is_positive(_guarding_sizes(op, access, masked, context), scope)
        arguments["p"] = access.pointer(context, scope)
        if "e" in row.placeholders:
            arguments["e"] = context.sizes.text(product(access.tile.shape), scope)
            arguments["x"] = _constant(op, op.result.type, _number(op), context)
        if "n" in row.placeholders:
            arguments["n"] = context.sizes.text(1 if access.lanes is None else access.lanes, scope)
        if "f" in row.placeholders:
            (first,) = op.first if isinstance(op, Read) and op.first else (0,)
            arguments["f"] = context.sizes.text(first, scope)
        if "s" in row.placeholders:
            arguments["s"] = context.sizes.text(access.step, scope)
    return arguments, guard


def _guarding_sizes(op: Operation, access: Access, masked: bool, context: FunctionContext) -> list[Dim]:
    """Sizes that must be positive; an access without a mask must provably cover all lanes."""
    sizes = access.dropped_sizes
    if masked or access.lanes is None:
        return sizes
    held = op.results[0] if op.results else op.operands[0]
    lanes = context.lane_type(held.type, op).lanes
    if lanes == 1 and is_less_equal(access.lanes, 1) is True:
        return [*sizes, access.lanes]
    if access.lanes != lanes and is_equal(access.lanes, lanes) is not True:
        raise op.error(
            "an access that may be shorter than the vector needs a masked row",
            required=f"{lanes} elements",
            found=f"{access.tile.text()} by the row {op.attributes.get('row')}",
        )
    return sizes


def _print_prefetch(op: Operation, row: InstructionRow, context: FunctionContext, scope: Scope) -> None:
    """One prefetch per row and cache line of the subset. An address outside of the buffer does no harm."""
    access = Access.of(op, context)
    per_line = CACHE_LINE // access.buffer.dtype.bytes
    moved: list[tuple[str, Dim]] = []
    headers: list[str] = []
    for dim, size in enumerate(access.tile.sizes):
        if are_equal_at(op, size, 1):
            continue
        distance = access.tile.strides[dim] * access.buffer.strides[dim]
        name = context.names.fresh("line" if distance == 1 else "row")
        step = f"{name} += {per_line}" if distance == 1 else f"{name}++"
        headers.append(f"for (int64_t {name} = 0; {name} < {context.sizes.text(size, scope)}; {step})")
        moved.append((name, distance))
    call = f"{row.render(p=access.pointer(context, scope, tuple(moved)))};"
    if not headers:
        scope.statement(call)
        return
    lines = [call]
    for header in reversed(headers[1:]):
        lines = ["/* of each row */", f"{header} {{", *("  " + line for line in lines), "}"]
    scope.statement("/* prefetch, one access per cache line */")
    scope.block(headers[0], lines)


def _print_aligned(
    op: Operation, row: InstructionRow, arguments: dict[str, str], guard: str, context: FunctionContext, scope: Scope
) -> None:
    """A store that faults on other than aligned addresses: an ordinary store is taken for those."""
    stored = context.lane_type(op.operands[0].type, op)
    plain = context.find_row(op, "store", None, [stored])
    aligned = f"(uintptr_t)({arguments['p']}) % {row.alignment} == 0"
    text = f"if ({aligned}) {{ {row.render(**arguments)}; }} else {{ {plain.render(**arguments)}; }}"
    scope.statement(text, guard)


def filled_load_name(type_: LaneType) -> str:
    """The C function that loads such a vector, with other values than 0 in the lanes that are off."""
    return f"tcpx_filled_load_{type_}"


def _filled_load(op: Operation, row: InstructionRow, arguments: dict[str, str], context: FunctionContext) -> str:
    """A call for a masked load whose other lanes are not 0; empty for any other row."""
    number = _number(op)
    if row.kind not in _MASKED_LOADS or row.result is None or _is_plain_zero(number):
        return ""
    dtype = dtype_of(op.result.type)
    if row.result.lanes == 1:
        return f"({arguments['n']}) > 0 ? *({arguments['p']}) : {literal(number, dtype)}"
    name = filled_load_name(row.result)
    if row.result not in context.needs.filled_loads:
        load = context.find_row(op, "load", row.result, [])
        element, vector = context.target.c_type(row.result.dtype), context.c_type(op.result.type, op)
        lanes = row.result.lanes
        context.needs.filled_loads[row.result] = "\n".join(
            (
                "/* n lanes from p on, s elements apart; the others are x */",
                f"static inline {vector} {name}(const {element} *p, int64_t s, int64_t n, {element} x) {{",
                f"  if (s == 1 && n >= {lanes}) return {load.render(p='p')};",
                f"  {element} lanes[{lanes}];",
                f"  for (int i = 0; i < {lanes}; i++) lanes[i] = i < n ? p[i * s] : x;",
                f"  return {load.render(p='lanes')};",
                "}",
            )
        )
    step = arguments.get("s", "1")
    return f"{name}({arguments['p']}, {step}, {arguments['n']}, {literal(number, dtype)})"


def _constant(op: Operation, type_: Type, number: float | int, context: FunctionContext) -> str:
    """A scalar literal, or a vector of it."""
    text = literal(number, dtype_of(type_))
    if isinstance(type_, ScalarType):
        return text
    wanted = context.lane_type(type_, op)
    if wanted.lanes == 1:
        return text
    if _is_plain_zero(number):
        return context.find_row(op, "zero", wanted, []).render()
    return context.find_row(op, "splat", wanted, [type(wanted)(wanted.dtype, 1)]).render(a=text)


def _is_plain_zero(number: float | int) -> bool:
    return number == 0 and str(number) != "-0.0"


def _number(op: Operation) -> float | int:
    """The attribute `value`: of a constant its number, of a read what lanes outside of the subset hold."""
    held = op.attributes.get("value", 0)
    if not isinstance(held, int | float):
        raise op.error("the attribute `value` is a number", required="an int or a float", found=str(held))
    return held
