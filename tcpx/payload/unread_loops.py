"""Loops of a payload of which nothing reads a result: they are left out, which the payload's author hardly meant."""

from collections.abc import Iterator

from tcpx.payload.diagnostics import Diagnostic, Kind
from tcpx.payload.ir import Module
from tcpx.payload.ops.gml_st import Loop


def unread_loops(module: Module) -> Iterator[Diagnostic]:
    """A remark on each loop of a payload whose results nothing reads."""
    for loop in (op for op in module.walk() if isinstance(op, Loop)):
        if not loop.results or any(result.uses for result in loop.results):
            continue
        result, destination = loop.results[0], loop.destinations[0]
        is_inside = isinstance(loop.parent_op, Loop)
        yield Diagnostic(
            f"%{result.name} is left out: nothing reads what the loop computes",
            Kind.WARNING,
            payload=loop.location,
            required=f"a use of %{result.name}, the contents of %{destination.name} after the loop",
            found="none: a loop changes no value that is defined outside of it",
            fix=f"yield %{result.name} in the loop around it" if is_inside else f"return %{result.name}",
        )
