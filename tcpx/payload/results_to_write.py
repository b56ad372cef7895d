"""The line to write where an operation has another number of results than its statement."""

from tcpx.payload.diagnostics import Direction, statements_to_write
from tcpx.payload.ir import Operation
from tcpx.payload.traits.to_write import ToWrite
from tcpx.payload.types import Type
from tcpx.plurals import counted


def results_to_write(op: Operation) -> str | None:
    """The statement with all results and their types, as far as the operands give them; a result that is written and
    has a type of its own keeps its name. None for an operation whose operands do not give them."""
    types = ToWrite(op).usual_types() if op.results else None
    written = op.location.span if op.location is not None else ""
    call = written.partition(" = ")[2].rpartition(" : ")[0]
    if types is None or not call.startswith(op.opcode):
        return None
    names, roles = [value.name for value in op.results], type(op).signature.result_names
    kept = _kept(op, types)
    base = names[0]
    shown = [names[kept[k]] if k in kept else f"{base}.{roles[k] if k < len(roles) else k}" for k in range(len(types))]
    lines = [f"{', '.join(f'%{name}' for name in shown)} = {call} : {', '.join(map(str, types))}"]
    left = [value for k, value in enumerate(op.results) if k not in kept.values()]
    for value, opcode in zip(left, op.signature.more_results, strict=False):
        lines.append(f"%{value.name} = {opcode}{call.removeprefix(op.opcode)} : {value.type}")
    if len(left) > len(op.signature.more_results):
        return Direction(f"{op.opcode} has {counted(len(types), 'result')}: {statements_to_write(lines)}")
    return statements_to_write(lines)


def _kept(op: Operation, types: list[Type]) -> dict[int, int]:
    """For each result of the operation, by position, the written one whose name and type it keeps."""
    kept: dict[int, int] = {}
    for position, type_ in enumerate(types):
        free = (k for k, value in enumerate(op.results) if value.type == type_ and k not in kept.values())
        found = next(free, None)
        if found is not None:
            kept[position] = found
    return kept
