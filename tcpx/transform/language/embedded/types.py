"""The types of the language as Python writes them: text."""

from tcpx.payload.diagnostics import Location
from tcpx.transform.language import syntax as ast


def type_of(text: str, where: Location) -> ast.TypeOf:
    """`op<contract>`, `list<op>`; the checker refuses what is no type."""
    name, bracket, rest = text.replace(" ", "").partition("<")
    arguments = (type_of(rest.removesuffix(">"), where),) if bracket else ()
    return ast.TypeOf(name, arguments, location=where)
