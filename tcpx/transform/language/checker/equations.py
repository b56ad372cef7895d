"""Checking patterns as written: `{ m = mul(_, _), y = add(m, broadcast(b)) }`."""

from collections.abc import Iterator, Mapping

from tcpx.plurals import counted
from tcpx.suggestions import did_you_mean
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.checker.scope import Scope
from tcpx.transform.language.kinds import HANDLES, Static
from tcpx.transform.language.printed_expressions import print_shape
from tcpx.transform.language.vocabulary import operands_of


def names_of_pattern(pattern: ast.Pattern, scope: Scope) -> Mapping[str, Static]:
    """The names that a pattern binds, with their types: those bound round it say what must be there."""
    made = {equation.name for equation in pattern.equations}
    free = (name for name in pattern.names if scope.lookup(name) is None)
    return {name: Static.OP if name in made else Static.VALUE for name in free}


def bind_names(pattern: ast.Pattern, scope: Scope) -> None:
    """Bind the names of a pattern in the scope of a `where` or of an arm."""
    for name, static in names_of_pattern(pattern, scope).items():
        scope.bind(name, static, pattern.location)


def check_names(pattern: ast.Pattern, scope: Scope) -> None:
    """Names: each equation has its own, is read by a later one, and those bound round the pattern are operations or
    values."""
    written: dict[str, ast.Equation] = {}
    read: set[str] = set()
    later = {equation.name for equation in pattern.equations} - {""}
    for equation in pattern.equations:
        for name in _leaves(equation.shape):
            read.add(name.name)
            if name.name in later and name.name not in written:
                scope.problems.add(
                    f"`{name.name}` is read before its equation",
                    name.location,
                    required="equations in the order in which the payload has them",
                    given=print_shape(equation.shape),
                )
        if equation.name and equation.name in written:
            scope.problems.add(
                f"two equations are called `{equation.name}`",
                equation.location,
                required="a name of its own for each",
                given=f"`{equation.name}` at {written[equation.name].location}",
            )
        written[equation.name] = equation
    for equation in pattern.equations[:-1]:
        if equation.name not in read:
            scope.problems.add(
                f"nothing in the pattern reads `{equation.name}`" if equation.name else "this equation has no name",
                equation.location,
                required="an operand of a later equation",
                given=print_shape(equation.shape),
            )
    for name in pattern.names:
        bound = scope.lookup(name)
        if bound is None:
            continue
        bound.used = True
        if bound.static not in (*HANDLES, Static.VALUE, Static.ANY):
            scope.problems.add(
                f"`{name}` is no operation, and no operand",
                pattern.location,
                required="a name that is free, or that of an operation or value",
                given=f"{bound.static.value} `{name}` bound at {bound.location}",
            )


def check_operands(shape: ast.Shape, scope: Scope) -> None:
    """How many operands an operation has, and what they are called, where its class says it."""
    number, known = operands_of(shape.op_class)
    placed = sum(not operand.role for operand in shape.operands)
    if number is not None and not shape.any_operands and placed != number:
        scope.problems.add(
            f"`{shape.op_class}` takes {counted(number, 'operand')}",
            shape.location,
            required=f"{counted(number, 'operand')}, or `{shape.op_class}(..)`",
            given=print_shape(shape),
        )
    for operand in shape.operands:
        if operand.role and known and operand.role not in known:
            scope.problems.add(
                f"`{shape.op_class}` has no operand `{operand.role}`",
                operand.location,
                required=", ".join(known),
                given=operand.role,
                fix=did_you_mean(operand.role, known),
            )


def shapes_of(pattern: ast.Pattern) -> Iterator[ast.Shape]:
    """All operations in a pattern."""
    return (node for node in ast.walk(pattern.equations) if isinstance(node, ast.Shape))


def _leaves(shape: ast.Shape) -> Iterator[ast.Name]:
    return (node for node in ast.walk(shape) if isinstance(node, ast.Name))
