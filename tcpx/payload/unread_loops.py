"""Loops and branches of a payload of which nothing reads a result: they are left out, which the payload's author hardly
meant."""

from collections.abc import Iterator

from tcpx.payload.diagnostics import Diagnostic, Direction, Kind
from tcpx.payload.ir import Module, Value, parent_op
from tcpx.payload.ops.gml_st import Conditional, Loop
from tcpx.payload.traits.memory import Memory
from tcpx.plurals import counted


def unread_loops(module: Module) -> Iterator[Diagnostic]:
    """A remark on each loop and branch of a payload whose results nothing reads."""
    yield from map(_unread_branch, (op for op in module.walk() if isinstance(op, Conditional) and _does_nothing(op)))
    for loop in (op for op in module.walk() if isinstance(op, Loop)):
        if not loop.results or any(result.uses for result in loop.results):
            continue
        result, destination = loop.results[0], loop.destinations[0]
        is_inside = isinstance(parent_op(loop), Loop)
        yield Diagnostic(
            f"%{result.name} is left out: nothing reads what the loop computes",
            Kind.WARNING,
            payload=loop.location,
            required=f"a use of %{result.name}, the contents of %{destination.name} after the loop",
            found="none: a loop changes no value that is defined outside of it",
            fix=f"yield %{result.name} in the loop around it" if is_inside else f"return %{result.name}",
        )


def _does_nothing(branch: Conditional) -> bool:
    is_read = any(result.uses for result in branch.results)
    return not is_read and not any(Memory(op).has_side_effects and not op.is_terminator for op in branch.walk())


def _unread_branch(branch: Conditional) -> Diagnostic:
    what = f"%{branch.results[0].name}" if branch.results else branch.opcode
    computed = [op for op in branch.then.ops if op.results]
    return Diagnostic(
        f"{what} is left out: nothing reads what its branches compute",
        Kind.WARNING,
        payload=branch.location,
        required="results of the branch that are used, or a gml_st.yield in it to the loop around",
        found=counted(len(branch.results), "result"),
        fix=Direction(_what_to_write(branch, computed[-1].results[0] if computed else None)),
    )


def _what_to_write(branch: Conditional, computed: Value | None) -> str:
    if branch.results:
        return f"return %{branch.results[0].name}"
    if computed is None:
        return "remove it"
    return (
        f"write %y = {branch.opcode} .. {{ .. tcp.yield(%{computed.name}) }} else {{ tcp.yield(..) }} : {computed.type}"
    )
