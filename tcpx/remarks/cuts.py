"""Parts of large payloads: what a hint replaces, as a function of its own, so that the hint is tried in little time."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from tcpx.payload.ir import Module, Operation, Value
from tcpx.payload.ops.gml_st import StYield
from tcpx.payload.sizes import symbols
from tcpx.payload.text.parser import parse_print
from tcpx.payload.text.printer import print_operation
from tcpx.payload.types import shape_of
from tcpx.records import frozen
from tcpx.remarks.causes import MOST_SCHEDULED_AGAIN
from tcpx.remarks.edits import FILE
from tcpx.remarks.hints import Hint, PayloadEdit

_NAME: Final = re.compile(r"%([\w.~/]*\w)")
MOST_CUT: Final = 40
"""Operations of a part."""


@frozen
class Cut:
    """A function that computes what a hint replaces, and the hint about that."""

    module: Module
    hint: Hint


def is_tried_in_part(module: Module) -> bool:
    """Whether a payload is so large that hints are tried on the parts of it that they change."""
    return sum(1 for _ in module.walk()) > MOST_SCHEDULED_AGAIN


def cut_out(module: Module, hint: Hint) -> Cut | None:
    """The operations that the hint replaces, and those between them and what its text reads, with arguments for what
    they read. None for a hint that changes no payload, and where that are too many. Raises ParseError and VerifyError
    for what does not stand alone."""
    edit = hint.payload
    if edit is None or edit.at.parent is None:
        return None
    ops = _between(edit)
    if len(ops) > MOST_CUT or any(isinstance(op, StYield) for op in ops):
        return None
    inside = {value for op in ops for value in op.results}
    read = dict.fromkeys(value for value in _reads(ops) if value not in inside)
    returned = [v for v in inside if v.defining_op is edit.at or any(u not in ops for u in v.users)]
    returned.sort(key=lambda value: value.name)
    text = _function(module, ops, list(read), returned)
    part = parse_print(text, FILE, constants=module.constants)
    named = {value.name: op for op in part.main.body.ops for value in op.results}
    same = {op: named[op.results[0].name] for op in (edit.at, *edit.replaced)}
    changed = PayloadEdit(tuple(same[op] for op in edit.replaced), same[edit.at], edit.lines)
    return Cut(part, replace(hint, payload=changed))


def _between(edit: PayloadEdit) -> list[Operation]:
    """What is replaced, and what that is computed of up to the values that the new lines read, in order."""
    needed = {name for line in edit.lines for name in _NAME.findall(line)}
    ops = edit.at.parent.ops if edit.at.parent is not None else ()
    computed = {value for op in ops for value in op.results if value.name not in needed}
    depending = {value for op in ops for value in _reads([op]) if value not in computed and value.name in needed}
    for op in ops:
        if not depending.isdisjoint(_reads([op])):
            depending.update(value for value in op.results if value in computed)
    found = {edit.at, *edit.replaced}
    waiting = list(found)
    while waiting and len(found) <= MOST_CUT:
        for value in _reads([waiting.pop()]):
            made = value.defining_op
            is_between = value in computed and (value in depending or (made is not None and not made.operands))
            if is_between and made is not None and made not in found:
                found.add(made)
                waiting.append(made)
    return [op for op in ops if op in found]


def _reads(ops: Sequence[Operation]) -> Iterator[Value]:
    """What operations read, those in their bodies included, of what is not in them."""
    inner = [each for op in ops for each in op.walk()]
    made = {value for each in inner if each not in ops for value in each.results}
    made.update(value for each in inner for region in each.regions for value in region.args)
    yield from (value for each in inner for value in each.operands if value not in made)


def _function(module: Module, ops: list[Operation], read: list[Value], returned: list[Value]) -> str:
    arguments = ", ".join(f"%{value.name}: {value.type}" for value in read)
    types = ", ".join(str(value.type) for value in returned)
    known = {symbol.name: symbol.declaration for func in module.funcs.values() for symbol in func.symbols}
    used = dict.fromkeys(s.name for v in read for dim in shape_of(v.type) for s in symbols(dim))
    declared = f" symbols [{', '.join(known[name] for name in used)}]" if used else ""
    statements = [f"  {line}" for op in ops for line in print_operation(op).splitlines()]
    end = f"  tcp.return({', '.join(f'%{value.name}' for value in returned)})"
    return "\n".join((f"func @part({arguments}) -> ({types}){declared} {{", *statements, end, "}", ""))
