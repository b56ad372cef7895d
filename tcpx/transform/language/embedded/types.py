"""The types and patterns of the language as Python writes them: text."""

from dataclasses import replace

from tcpx.payload.diagnostics import Location, ParseError
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.embedded.values import refused
from tcpx.transform.language.parser import parse_schedule


def type_of(text: str, where: Location) -> ast.TypeOf:
    """`op<contract>`, `list<op>`; the checker refuses what is no type."""
    name, bracket, rest = text.replace(" ", "").partition("<")
    arguments = (type_of(rest.removesuffix(">"), where),) if bracket else ()
    return ast.TypeOf(name, arguments, location=where)


def pattern_of(text: str, glob: str, where: Location) -> ast.Pattern:
    """`contract`, `alias.relu_of`, or a pattern as written, `{ y = add(_, b) }`. Raises ScheduleError."""
    if not text.lstrip().startswith("{"):
        return ast.Pattern(text, glob, location=where)
    try:
        file = parse_schedule(f"schedule s(root: func) {{ let y = match one {text} in root }}")
    except ParseError as error:
        known = error.diagnostic
        raise refused(
            f"this is no pattern: {known.message}", known.required or "equations", text, known.fix, where
        ) from None
    (found,) = (node for node in ast.walk(file.items[0]) if isinstance(node, ast.Pattern))
    return ast.rebuilt(found, lambda node: replace(node, location=where) if isinstance(node, ast.Node) else node)
