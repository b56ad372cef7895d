"""What was probably meant where a value is of another type than it has to be: the fix of a type error."""

from tcpx.payload.diagnostics import Direction
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.kinds import Static
from tcpx.transform.language.printed_expressions import print_expression


def conversion(given: Static, required: Static, value: ast.Expression) -> str | None:
    """How to get from a value of one type to one of another; None where nothing is known."""
    match value:
        case ast.Call(function=ast.Attribute(base=base, name="loops"), arguments=(ast.Argument(value=dim),)):
            if given is Static.LIST:
                return Direction(f"the innermost one: `{print_expression(base)}.loop({print_expression(dim)})`")
        case _:
            pass
    if given is Static.LIST and required in (Static.OP, Static.LOOP):
        return Direction(f"one at a time: `for x in {print_expression(value)} {{ .. }}`")
    text = print_expression(value) if isinstance(value, ast.Name | ast.Attribute | ast.Call) else "x"
    if given is Static.OP and required is Static.LOOP:
        return Direction(f"a loop that steps one of its dims: `{text}.loop(..)`")
    if given is Static.VALUE and required is Static.OP:
        if isinstance(value, ast.Attribute) and value.name == "out":
            return f"the operation that computes it: `{text.removesuffix('.out')}`"
        return Direction(f"the operation that computes it: `producer({text})`")
    if given is Static.FUNC and required is Static.OP:
        return Direction(f"an operation in it: `match one .. in {text}`")
    if given is Static.DIM and required in (Static.INT, Static.SIZE, Static.FLOAT):
        return f"its extent: `size({text})`"
    return None
