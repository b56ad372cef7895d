"""The IR as text, at every level. What is printed parses back equal."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

from tcpx.payload.ir import CALLEE, INOUT, NUMBERS, RESULT_NAMES, Attribute, Block, FuncOp, Module, Operation, Value
from tcpx.payload.ops.generic import Yield
from tcpx.payload.ops.gml_st import Conditional, If, IfValue, Loop, While, uncounted
from tcpx.payload.short_operands import OperandLike, operand_text, short_operands
from tcpx.payload.sizes import Size, Symbol, Var, to_text
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.strided import STRIDED, strided_positions
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.signature import GIVEN, given_operands
from tcpx.payload.types import ScalarType
from tcpx.payload.value_ranges import RANGES, declared_ranges

INDENT = "  "
NO_SHORT: Mapping[int, OperandLike] = {}


def print_module(module: Module) -> str:
    """The whole module; ends in a newline."""
    parts = [f"constants {_quoted(module.constants.source)}\n"] if module.constants.source else []
    return "\n".join([*parts, *(print_func(func) for func in module.funcs.values())])


def print_func(func: FuncOp) -> str:
    """One function; ends in a newline."""
    strided = strided_positions(func)
    marks = [" strided" if k in strided else "" for k in range(len(func.args) + len(func.returned))]
    for k, declared in declared_ranges(func).items():
        marks[k] = f" {declared}{marks[k]}"
    states = dict(func.states) if "results" not in func.attributes else dict[int, int]()
    kinds = ["inout " if k in states else "" for k in range(len(func.args))]
    for k, symbol in func.numbers.items():
        marks[k] = f" as [{symbol.name}]"
    args = ", ".join(f"{_name(a)}: {kind}{a.type}{m}" for a, kind, m in zip(func.args, kinds, marks, strict=False))
    head = f"func @{func.name}({args})"
    types = [f"{v.type}{mark}" for v, mark in zip(func.returned, marks[len(func.args) :], strict=True)]
    named = () if "results" in func.attributes else func.names_of_results
    types = [f"%{name}: {text}" if name else text for name, text in zip_longest(named, types, fillvalue="")]
    for argument, result in states.items():
        types[result] = f"{_name(func.args[argument])}: {types[result]}"
    if types:
        head += f" -> {types[0]}" if len(types) == 1 else f" -> ({', '.join(types)})"
    if func.symbols:
        head += f" symbols [{', '.join(symbol.declaration for symbol in func.symbols)}]"
    said = {STRIDED, RANGES, NUMBERS, *([INOUT] if states else []), *([RESULT_NAMES] if named else [])}
    head += _attributes((k, a) for k, a in func.attributes.items() if k not in said)
    return "\n".join([f"{head} {{", *_statements(func.body.ops, INDENT), "}", ""])


def print_operation(op: Operation) -> str:
    """An operation with its regions, attached or not; no newline at the end."""
    return print_func(op).rstrip("\n") if isinstance(op, FuncOp) else "\n".join(_statement(op, ""))


def attribute_text(attribute: Attribute) -> str:
    """An attribute value as it stands in the text."""
    match attribute:
        case bool():
            return "true" if attribute else "false"
        case float():
            return float.__repr__(attribute)
        case str():
            return _quoted(attribute)
        case Var():
            return f"{attribute.text} in {to_text(attribute.lower)} to {to_text(attribute.upper)}"
        case int() | Size() | Symbol():
            return to_text(attribute)
        case Tile():
            return attribute.text()
        case Predicate():
            return attribute.to_text()
        case ScalarType():
            return attribute.name
        case tuple():
            return f"[{', '.join(map(attribute_text, attribute))}]"


def default_name(op: Operation) -> str:
    """The name an operation has if none is given: of its loop variable, else of its first result."""
    if isinstance(op, Loop) and isinstance(op.attributes.get("var"), Var):
        return op.var.name
    return op.results[0].name if op.results else ""


def is_empty_yield(op: Operation) -> bool:
    """Whether this ends a branch that yields nothing; such an end is not printed."""
    return isinstance(op, Yield) and not op.operands and not op.attributes and not op.name


def _statements(ops: Iterable[Operation], indent: str) -> Iterator[str]:
    written: dict[Operation, Mapping[int, OperandLike]] = {}
    inside: set[Operation] = set()
    for op in ops:
        written[op] = short_operands(op)
        inside |= {made for k in written[op] if (made := op.operands[k].defining_op) is not None}
    for op, short in written.items():
        if op not in inside:
            yield from _statement(op, indent, short)


def _statement(op: Operation, indent: str, short: Mapping[int, OperandLike] = NO_SHORT) -> Iterator[str]:
    results = f"{', '.join(map(_name, op.results))} = " if op.results else ""
    end = _end(op)
    if isinstance(op, Loop) and isinstance(op.attributes.get("var"), Var) and len(op.regions) == 1:
        yield f"{indent}{results}{_loop_head(op)} {{"
        yield from _statements(op.body.ops, indent + INDENT)
        yield f"{indent}}}{end}"
    elif isinstance(op, Conditional) and (condition := _condition(op)) and len(op.regions) == 2:
        extra = _attributes((k, a) for k, a in op.attributes.items() if k != "predicate")
        yield f"{indent}{results}{If.opcode} {condition}{extra} {{"
        yield from _statements(_without_empty_yield(op.then), indent + INDENT)
        otherwise = _without_empty_yield(op.orelse)
        if otherwise or not op.orelse.ops:
            yield f"{indent}}} else {{"
            yield from _statements(otherwise, indent + INDENT)
        yield f"{indent}}}{end}"
    else:
        yield from _generic_form(op, indent, results, end, short)


def _generic_form(
    op: Operation, indent: str, results: str, end: str, short: Mapping[int, OperandLike]
) -> Iterator[str]:
    callee, subset = op.attributes.get(CALLEE), op.attributes.get("subset")
    line = f"{indent}{results}{op.opcode}{f' @{callee}' if callee is not None else ''}{_operands(op, short)}"
    if isinstance(subset, Tile):
        line += f" {subset.text()}"
    is_written = isinstance(op.attributes.get("value"), tuple)  # the elements of a stored array
    said = (CALLEE, GIVEN, *(["subset"] if isinstance(subset, Tile) else []), *(["constant"] if is_written else []))
    shown = [(k, a) for k, a in op.attributes.items() if k not in said]
    line += _attributes(shown)
    if not op.regions:
        yield line + end
        return
    yield f"{line} ({_region_head(op.regions[0])}"
    for position, block in enumerate(op.regions):
        if position:
            yield f"{indent}}}, {_region_head(block)}"
        yield from _statements(block.ops, indent + INDENT)
    yield f"{indent}}}){end}"


def _region_head(block: Block) -> str:
    args = ", ".join(f"{_name(a)}: {a.type}" for a in block.args)
    return f"{{ ({args}):" if block.args else "{"


def _condition(op: Conditional) -> str:
    """What decides between the branches; empty where nothing is said."""
    if isinstance(op, IfValue):
        return _name(op.operands[0]) if op.operands else ""
    held = op.attributes.get("predicate")
    return held.to_text() if isinstance(held, Predicate) else ""


def _loop_head(op: Loop) -> str:
    var = op.var
    pairs = zip(op.destinations, op.operands, strict=False)
    destinations = ", ".join(f"{_name(dest)} = {_name(init)}" for dest, init in pairs)
    bounds = f" %{var.name} in {to_text(var.lower)} to {to_text(var.upper)} step {to_text(var.step)}"
    if isinstance(op, While) and op.results and _is_uncounted(op):
        bounds = ""
    extra = _attributes((k, a) for k, a in op.attributes.items() if k != "var")
    return f"{op.opcode}{bounds}{f' ({destinations})' if destinations else ''}{extra}"


def _is_uncounted(op: While) -> bool:
    """Whether the variable is the one of a loop that is written without any."""
    mine, usual = op.var, uncounted(op.results[0].name)
    return mine.name == usual.name and (mine.lower, mine.upper, mine.step) == (usual.lower, usual.upper, usual.step)


def _operands(op: Operation, short: Mapping[int, OperandLike]) -> str:
    if not op.operands:
        return ""
    shown = [operand_text(short.get(k, value)) for k, value in enumerate(op.inputs)]
    for index, name in enumerate(given_operands(op), len(op.signature.operand_names)):
        shown[index] = f"{name} = {shown[index]}"
    inits = ", ".join(map(_name, op.inits))
    if inits:
        shown.append(f"{op.signature.optional_operand} = {inits if len(op.inits) == 1 else f'({inits})'}")
    return f"({', '.join(shown)})"


def _end(op: Operation) -> str:
    types = f" : {', '.join(str(r.type) for r in op.results)}" if op.results else ""
    return types + ("" if op.name == default_name(op) else f" name {_quoted(op.name)}")


def _without_empty_yield(block: Block) -> Sequence[Operation]:
    return block.ops[:-1] if block.ops and is_empty_yield(block.ops[-1]) else block.ops


def _attributes(attributes: Iterable[tuple[str, Attribute]]) -> str:
    shown = ", ".join(f"{key} = {attribute_text(a)}" for key, a in attributes)
    return f" {{{shown}}}" if shown else ""


def _name(value: Value) -> str:
    return f"%{value.name or 'unnamed'}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
