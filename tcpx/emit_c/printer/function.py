"""One C function per kernel, with the functions that check its sizes and give its workspace."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from typing import Final

from tcpx.emit_c.printer.boundary import boundary
from tcpx.emit_c.printer.clocks import timed_kernel
from tcpx.emit_c.printer.context import FunctionContext, KernelContext, Needs
from tcpx.emit_c.printer.control import print_block
from tcpx.emit_c.printer.expressions import SizePrinter
from tcpx.emit_c.printer.names import LONGEST_SHARED, Names, in_comment, mangle_external, words_of
from tcpx.emit_c.printer.scopes import INDENT, Line, Scope, without_unused, words_in
from tcpx.emit_c.signature import (
    FIRST_ASSERTION,
    OUT_OF_RANGE,
    OVERFLOW,
    RETURN_CODES,
    Argument,
    KernelSignature,
    Number,
)
from tcpx.limits import INT64_MAX, LARGEST_EXTENT
from tcpx.payload.attribute_sizes import dims_of
from tcpx.payload.boundary_layouts import layouts_of
from tcpx.payload.contexts import context_at, ways_around
from tcpx.payload.contraction import numerics_of
from tcpx.payload.ir import FuncOp, Operation
from tcpx.payload.ops.assertion import Assert
from tcpx.payload.runs import runs_of, threads_of
from tcpx.payload.sizes import (
    Dim,
    Symbol,
    ceildiv,
    lower_expression,
    maximum,
    product,
    substitute,
    symbols,
    to_text,
    upper_expression,
    variables,
)
from tcpx.payload.sizes.context import EMPTY, Context
from tcpx.payload.sizes.excess import magnitude
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.sizes.traversal import as_symbol
from tcpx.payload.text.scope import DIM_ATTRIBUTES
from tcpx.payload.traits.call import Calling
from tcpx.payload.types import BufferType, row_major, shape_of
from tcpx.payload.value_ranges import SORTED, SPANNING, UNIQUE, Declared
from tcpx.records import frozen
from tcpx.target import Target

_WIDTH: Final = 120
_SUFFIXES: Final = ("", "_workspace", "_check", "_bound")


@frozen
class PrintedFunction:
    """The C of a function, what it uses, and of one that others call its head, up to the parameters' end."""

    func: FuncOp
    c_name: str
    lines: Sequence[Line]
    needs: Needs
    target: Target
    head: str = ""


def print_kernel(
    func: FuncOp,
    kernel: KernelContext,
    target: Target,
    threads: int,
    name: str,
    file_names: Names,
    reserved: frozenset[str],
) -> tuple[PrintedFunction, KernelSignature]:
    """The C of a function, called as much like `name` as C allows, and what a caller has to know."""
    c_name = file_names.fresh(mangle_external(name), _SUFFIXES, LONGEST_SHARED)
    names = Names(reserved | {c_name + suffix for suffix in _SUFFIXES} | set(kernel.c_names.values()))
    context = FunctionContext(func, kernel, target, threads, names)
    body, parameters = _body(context)
    arrays = [value for k, value in enumerate(func.args) if k not in func.numbers]
    split = len(arrays) - _result_count(func)
    arguments = boundary(func, [(value, context.buffer_type(value, func)) for value in arrays])
    strides = {symbol.name for argument in arguments for symbol in argument.strides}
    workspace = context.workspace
    for argument in arguments[:split]:
        if argument.range is not None and argument.range.has_bitmap:
            workspace = maximum(workspace, ceildiv(argument.range.end - argument.range.first, 8))
    signature = KernelSignature(
        name=func.name,
        c_name=c_name,
        inputs=arguments[:split],
        outputs=arguments[split:],
        symbols=tuple(symbol for symbol in func.symbols if symbol.name not in strides),
        threads=threads,
        workspace_bytes=workspace,
        live_bytes=context.size_attribute(func, "workspace_live"),
        constants=tuple(context.constant_slots),
        wide_sizes=_wide_sizes(func, workspace),
        assertions=tuple(op.diagnostic for op, _ in _assertions(func)),
        numbers=tuple(Number(func.args[k].name, k, symbol) for k, symbol in func.numbers.items()),
        functions=len(kernel.c_names),
        clones=sum(held.clone_of is not None for held in kernel.c_names),
        clocks=tuple(kernel.clocks or ()),
        times_name=kernel.times_name,
        numerics=numerics_of(func),
        layouts=layouts_of(func),
    )
    checks, call = _size_checks(func, signature, body, reserved)
    prologue: list[str] = []
    if call:
        prologue = [f"const int {(status := names.fresh('status'))} = {call};", f"if ({status} != 0) return {status};"]
    for code, argument in signature.ranged:
        lines, call = _range_check(argument, signature, context, body, reserved)
        checks += lines
        if argument.range is not None and argument.range.order:
            prologue.append(f"const int {(status := names.fresh('status'))} = {call};")
            prologue.append(f"if ({status} != 0) return {code - 1} + {status};")
        else:
            prologue.append(f"if ({call}) return {code};")
    prologue += _unused(parameters, body, words_of(prologue))
    head = [
        *checks,
        *_workspace_function(signature, context, reserved),
        "",
        *_description(signature, target),
        *_head(f"int {c_name}", parameters),
        *(INDENT + line for line in prologue),
    ]
    printed = [line.indented() for line in without_unused(body.lines())]
    lines = [*map(Line, head), *printed, Line(f"{INDENT}return 0;"), Line("}")]
    return PrintedFunction(func, c_name, lines, context.needs, target), signature


def print_callee(
    func: FuncOp, kernel: KernelContext, target: Target, threads: int, file_names: Names, reserved: frozenset[str]
) -> PrintedFunction:
    """The C of a function that the kernel calls, with sizes that it has checked."""
    c_name = file_names.fresh(mangle_external(func.name), longest=LONGEST_SHARED)
    names = Names(reserved | {c_name, *kernel.c_names.values()})
    context = FunctionContext(func, kernel, target, threads_of(func, threads), names)
    kernel.c_names[func], kernel.constants_of[func] = c_name, _constants(func, kernel)
    body, parameters = _body(context)
    head = _head(f"void {c_name}", parameters)
    unused = (INDENT + line for line in _unused(parameters, body, ()))
    lines = [*map(Line, (*head, *unused)), *(line.indented() for line in without_unused(body.lines())), Line("}")]
    return PrintedFunction(func, c_name, lines, context.needs, target, "\n".join(head).removesuffix(" {"))


def _constants(func: FuncOp, kernel: KernelContext) -> Sequence[str]:
    """The stored constants that a function reads, and those it calls, each once."""
    inner = (stored for _, callee in func.calls() for stored in kernel.constants_of[callee])
    own = (held for op in func.walk() if isinstance(held := op.attributes.get("constant"), str))
    return list(dict.fromkeys((*own, *inner)))


def _body(context: FunctionContext) -> tuple[Scope, list[str]]:
    """The statements of a function and its parameters."""
    func, names = context.func, context.names
    split = len(func.args) - _result_count(func)
    parameters: list[str] = []
    for position, value in enumerate(func.args):
        if position in func.numbers:
            continue
        type_ = context.buffer_type(value, func)
        context.buffers[value] = names.fresh(value.name)
        const = "const " if position < split and position not in func.states else ""
        parameters.append(f"{const}{context.target.c_type(type_.dtype.name)} *restrict {context.buffers[value]}")
    body = Scope()
    for symbol in func.symbols:
        body.names[symbol.text] = names.fresh(symbol.name)
        parameters.append(f"int64_t {body.names[symbol.text]}")
    own = context.kernel.constants_of.get(func)
    if own is None:
        context.constants_name = names.fresh("constants")
    else:
        context.constant_names = {stored: names.fresh(f"constant_{k}") for k, stored in enumerate(own)}
    context.workspace_name = names.fresh("workspace")
    given = [context.constants_name] if own is None else context.constant_names.values()
    parameters += [*(f"const void *restrict {name}" for name in given), f"void *restrict {context.workspace_name}"]
    with timed_kernel(context, body) if own is None else nullcontext():
        print_block(func.body, context, body)
    return body, parameters


def _unused(parameters: Sequence[str], body: Scope, called: Collection[str]) -> list[str]:
    """Statements that name the parameters that nothing else does."""
    used = words_in(body.lines())
    names = [p.rpartition(" ")[2].lstrip("*") for p in parameters]
    return [f"(void){p};" for p in names if p not in used and p not in called]


def _head(beginning: str, parameters: list[str]) -> list[str]:
    """The first line of a definition, or several where it would be long."""
    line = f"{beginning}({', '.join(parameters)}) {{"
    if len(line) <= _WIDTH:
        return [line]
    return [f"{beginning}(", *(f"{INDENT * 2}{p}," for p in parameters[:-1]), f"{INDENT * 2}{parameters[-1]}) {{"]


def _result_count(func: FuncOp) -> int:
    held = func.attributes.get("results", 0)
    if not isinstance(held, int) or not 0 <= held <= len(func.args):
        raise func.error(
            "`results` is the number of trailing result arguments",
            required="an int from 0 to the number of arguments",
            found=str(held),
        )
    return held


def _size_scope(symbols: Sequence[Symbol], reserved: frozenset[str]) -> tuple[Scope, SizePrinter, str, list[str]]:
    """For a function of symbols alone: its block, a printer, its parameters, the arguments of a call."""
    names, scope = Names(reserved), Scope()
    for symbol in symbols:
        scope.names[symbol.text] = names.fresh(symbol.name)
    used = list(scope.names.values())
    parameters = ", ".join(f"int64_t {name}" for name in used) or "void"
    return scope, SizePrinter(names), parameters, used


def _size_checks(
    func: FuncOp, signature: KernelSignature, body: Scope, reserved: frozenset[str]
) -> tuple[list[str], str]:
    """The function that checks the symbols, and its call with the kernel's parameters; nothing without symbols."""
    if not func.symbols:
        return [], ""
    checked = (*signature.symbols, *signature.strides)
    scope, printer, parameters, _ = _size_scope(checked, reserved)
    for symbol in checked:
        _check_range(symbol, scope)
    for shape, width in [*_symbolic_shapes(func), *_strided_extents(signature)]:
        grown = [f"tcpx_size_grow(&bytes, {printer.text(dim, scope)})" for dim in shape if dim != 1]
        scope.block("", [f"int64_t bytes = {width};", f"if ({' || '.join(grown)}) return {OVERFLOW};"])
    for number, (_, alternatives) in enumerate(_assertions(func)):
        fails = " && ".join(f"!({printer.condition(p, scope)})" for p in alternatives)
        scope.statement(f"if ({fails}) return {FIRST_ASSERTION + number};")
    name = f"{signature.c_name}_check"
    lines = [line.indented().text for line in without_unused(scope.lines())]
    call = f"{name}({', '.join(body.names[symbol.text] for symbol in checked)})"
    return [f"static int {name}({parameters}) {{", *lines, f"{INDENT}return 0;", "}", ""], call


def _range_check(
    argument: Argument, signature: KernelSignature, context: FunctionContext, body: Scope, reserved: frozenset[str]
) -> tuple[list[str], str]:
    """The function that says whether elements of an input lie outside of their range, or 2 where they are not in the
    order that is declared, and its call in the kernel."""
    names, scope, declared = Names(reserved), Scope(), argument.range or Declared(0, 0)
    array, outside, element = names.fresh(argument.name), names.fresh("outside"), names.fresh("element")
    given = (*signature.symbols, *argument.strides)
    scope.names.update({symbol.text: names.fresh(symbol.name) for symbol in given})
    value = next(v for v in context.func.args if v.name == argument.name)
    c_type, printer = context.target.c_type(argument.dtype.name), SizePrinter(names)
    name = f"{signature.c_name}_{array}_outside"
    parameters = [f"const {c_type} *{array}", *(f"int64_t {scope.names[s.text]}" for s in given)]
    arguments = [context.buffers[value], *(body.names[s.text] for s in given)]
    lower, end = (printer.text(d, scope) for d in declared[:2])
    strides = (*(s.size() for s in argument.strides), 1) if argument.strides else row_major(argument.shape)
    heads: list[str] = []
    terms = [array]
    for extent, stride in zip(argument.shape, strides, strict=True):
        at = names.fresh("d")
        heads.append(f"for (int64_t {at} = 0; {at} < {printer.text(extent, scope)}; {at}++)")
        terms.append(at if stride == 1 else f"{at} * {printer.factor(stride, scope)}")
    read = f"const int64_t {element} = *({' + '.join(terms)});"
    first, lines, last = [f"int {outside} = 0;"], [read], list[str]()
    lines.append(f"{outside} |= ({element} < {lower}) | ({element} >= {end});")
    found, disorder, previous = outside, names.fresh("disorder"), names.fresh("previous")
    if declared.order:
        first.append(f"int {disorder} = 0;")
        found = f"{outside} ? 1 : {disorder} ? 2 : 0"
    if SORTED in declared.order:
        relation = "<=" if UNIQUE in declared.order else "<"
        first.append(f"int64_t {previous} = INT64_MIN;")
        lines += [f"{disorder} |= {element} {relation} {previous};", f"{previous} = {element};"]
    if SPANNING in declared.order:
        count = printer.text(product(argument.shape), scope)
        last = [f"{disorder} |= {count} == 0 || *{array} != {lower} || {previous} != {end} - 1;"]
    if declared.has_bitmap:
        seen, at = names.fresh("seen"), names.fresh("bit")
        parameters.append(f"uint8_t *{seen}")
        arguments.append(context.workspace_name)
        size = printer.text(ceildiv(declared.end - declared.first, 8), scope)
        first.append(f"for (int64_t {at} = 0; {at} < {size}; {at}++) {seen}[{at}] = 0;")
        lines += [
            f"if ({element} >= {lower} && {element} < {end}) {{",
            f"{INDENT}const int64_t {at} = {element} - {printer.factor(declared.first, scope)};",
            f"{INDENT}{disorder} |= {seen}[{at} / 8] >> {at} % 8 & 1;",
            f"{INDENT}{seen}[{at} / 8] |= (uint8_t)(1 << {at} % 8);",
            "}",
        ]
    for head in reversed(heads):
        lines = [f"{head} {{", *(INDENT + line for line in lines), "}"]
    statements = [*first, *lines, *last, f"return {found};"]
    made = [
        f"/* Whether elements of {in_comment(str(argument))} are not. */",
        f"static int {name}({', '.join(parameters)}) {{",
        *(line.indented().text for line in without_unused([*scope.lines(), *map(Line, statements)])),
        "}",
        "",
    ]
    return made, f"{name}({', '.join(arguments)})"


def _assertions(func: FuncOp) -> list[tuple[Assert, Sequence[Predicate]]]:
    """What a function and those it calls demand of sizes, each demand once: of the symbols of `func`, one of these
    conditions holds, where the branches around a call are taken."""
    found: dict[tuple[str, ...], tuple[Assert, Sequence[Predicate]]] = {}
    met = set[object]()
    pending = [_Reached(func, {}, EMPTY, ())]
    while pending:
        at = pending.pop()
        if at.key in met:
            continue
        met.add(at.key)
        for op in at.func.body.ops:
            conditions = [p.substitute(at.sizes) for p in op.alternatives] if isinstance(op, Assert) else []
            if not isinstance(op, Assert) or any(map(at.known.holds, conditions)):
                continue  # what is known where it is called needs no check
            if any(p.variables() for p in conditions):
                raise op.error(
                    f"@{at.func.name} demands something of its sizes and is called with those of a loop",
                    required="calls with sizes that are known when the kernel is called",
                    found=", ".join(f"{symbol.name} = {to_text(size)}" for symbol, size in at.sizes.items()),
                )
            conditions = [*at.unless, *conditions]
            found.setdefault(tuple(p.to_text() for p in conditions), (op, conditions))
        pending += reversed([at.calling(call, callee) for call, callee in at.func.calls()])
    return list(found.values())


@frozen
class _Reached:
    """A function as it is called: its sizes, what is known of them there, and the conditions that keep it from being
    called."""

    func: FuncOp
    sizes: Mapping[Symbol, Dim]
    known: Context
    unless: tuple[Predicate, ...]

    @property
    def key(self) -> object:
        """What is the same for calls that demand the same."""
        return self.func.name, tuple(map(to_text, self.sizes.values())), self.known.comparisons, self.unless

    def calling(self, call: Operation, callee: FuncOp) -> _Reached:
        """What a call in the function runs."""
        sizes = {symbol: substitute(d, self.sizes) for symbol, d in Calling(call).binding.items()}
        here = context_at(call).substitute(self.sizes) if self.sizes else context_at(call)
        known = self.known.and_also(*(Predicate((c,)) for c in here.comparisons)) if self.known is not EMPTY else here
        ways = [p for p in ways_around(call) if not p.variables()]
        unless = dict.fromkeys([*self.unless, *(p.substitute(self.sizes) for p in ways)])
        return _Reached(callee, sizes, known, tuple(unless))


def _check_range(symbol: Symbol, scope: Scope) -> None:
    name = scope.lookup(symbol.text)
    conditions = [f"{name} < {symbol.lower}"]
    if symbol.upper is not None:
        conditions.append(f"{name} > {symbol.upper}")
    if symbol.multiple_of > 1:
        conditions.append(f"{name} % {symbol.multiple_of} != 0")
    scope.statement(f"if ({' || '.join(conditions)}) return {OUT_OF_RANGE};")
    if symbol.upper is None:
        scope.statement(f"if ({name} > INT64_C({LARGEST_EXTENT})) return {OVERFLOW};")


def _symbolic_shapes(func: FuncOp) -> list[tuple[tuple[Dim, ...], int]]:
    """Shape and element size of every memory whose size depends on symbols alone, each once."""
    found: dict[str, tuple[tuple[Dim, ...], int]] = {}
    for held, sizes in runs_of(func):
        for value in (*held.args, *(r for op in held.walk() for r in op.results if not op.operands)):
            if not isinstance(value.type, BufferType) or any(map(variables, value.type.shape)):
                continue
            shape = tuple(upper_expression(substitute(d, sizes)) for d in value.type.shape)
            if any(map(symbols, shape)):
                key = f"{'x'.join(map(to_text, shape))} {value.type.dtype.bytes}"
                found.setdefault(key, (shape, value.type.dtype.bytes))
    return list(found.values())


def _strided_extents(signature: KernelSignature) -> list[tuple[tuple[Dim, ...], int]]:
    """For each stride, the extent of its dim with it: what it leads over; and the element size times the rank."""
    return [
        ((dim, stride.size()), argument.dtype.bytes * len(argument.shape))
        for argument in (*signature.inputs, *signature.outputs)
        for dim, stride in zip(argument.shape, argument.strides, strict=False)
    ]


def _wide_sizes(func: FuncOp, workspace: Dim) -> tuple[Dim, ...]:
    """The sizes of a function, and its workspace in bytes, that may overflow for symbols in their range, each once."""
    ranges = {s.name: (s.lower, LARGEST_EXTENT if s.upper is None else s.upper) for s in func.symbols}
    sizes: list[Dim] = [workspace]
    for held, binding in runs_of(func):
        types = [v.type for v in held.args] + [r.type for op in held.walk() for r in op.results]
        inner = [dim for type_ in types for dim in shape_of(type_)]
        attributes = (a for op in held.walk() for key, a in op.attributes.items() if key not in DIM_ATTRIBUTES)
        inner += [dim for attribute in attributes for dim in dims_of(attribute)]
        own = {symbol.name: _reach(dim, ranges) for symbol, dim in binding.items()} or ranges
        large = [dim for dim in dict.fromkeys(inner) if magnitude(dim, own) > INT64_MAX]
        sizes += large if held is func else [substitute(dim, binding) for dim in large]
    bounds = [bound for dim in sizes for bound in _without_variables(dim)]
    found = {to_text(dim): dim for dim in bounds if magnitude(dim, ranges) > INT64_MAX}
    return tuple(found.values())


def _without_variables(dim: Dim) -> tuple[Dim, ...]:
    """A size, or between what one that loop variables change lies: callers know the symbols alone."""
    return (upper_expression(dim), lower_expression(dim)) if variables(dim) else (dim,)


def _reach(size: Dim, ranges: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """Between what a size lies that stands for a symbol, and all that comes of it where it is multiplied out."""
    symbol = as_symbol(size)
    if symbol is not None:
        return ranges[symbol.name]
    most = magnitude(size, ranges)
    return -most, most


def _workspace_function(signature: KernelSignature, context: FunctionContext, reserved: frozenset[str]) -> list[str]:
    scope, printer, parameters, sizes = _size_scope(signature.symbols, reserved)
    check = signature.symbols != ()
    if check:
        strides = [  # assertions about strides hold for arrays without gaps
            " * ".join(f"(uint64_t){printer.factor(d, scope)}" for d in array.shape[k + 1 :])
            for array in (*signature.inputs, *signature.outputs)
            for k in range(len(array.strides))
        ]
        strides = strides if signature.assertions else ["0" for _ in strides]
        arguments = ", ".join([*sizes, *strides])
        scope.statement(f"if ({signature.c_name}_check({arguments}) != 0) return SIZE_MAX;")
    text = printer.text(signature.workspace_bytes, scope)
    scope.statement(f"return (size_t)({text});")
    return [
        f"/* Bytes of workspace; {context.threads} thread(s){'; SIZE_MAX for sizes out of range' if check else ''}. */",
        f"size_t {signature.c_name}_workspace({parameters}) {{",
        *(line.indented().text for line in scope.lines()),
        "}",
    ]


def _description(signature: KernelSignature, target: Target) -> list[str]:
    """The comment before a kernel."""
    arguments = [*signature.inputs, *signature.outputs]
    lines = [f"/* {in_comment('@' + signature.name)}, for {in_comment(target.title)}, {signature.threads} thread(s)."]
    for argument in arguments:
        role = "out" if argument in signature.outputs else "in " if argument.state is None else "in and out"
        lines.append(f"   {role} {in_comment(str(argument))}")
    for symbol in signature.symbols:
        upper = "" if symbol.upper is None else str(symbol.upper)
        multiple = f", a multiple of {symbol.multiple_of}" if symbol.multiple_of > 1 else ""
        lines.append(f"   size {in_comment(symbol.name)}: {symbol.lower}..{upper}{multiple}")
    lines += [f"   stride {in_comment(text)}" for text in signature.stride_texts]
    for slot in signature.constants:
        lines.append(f"   constant {in_comment(slot.name)}: {slot.bytes} bytes at {slot.offset}")
    failures = {FIRST_ASSERTION + k: in_comment(held.message) for k, held in enumerate(signature.assertions)}
    for code, held in signature.ranged:
        failures[code] = f"an element of {in_comment(held.name)} is out of its range"
        if held.range is not None and held.range.order:
            failures[code + 1] = f"{in_comment(held.name)} is not {' and '.join(held.range.order)}"
    codes = ", ".join(f"{code}: {meaning}" for code, meaning in (RETURN_CODES | failures).items())
    return [*lines, "   Constants and workspace are 64-byte aligned.", f"   Returns {codes}. */"]
