"""Expressions -> text, with the parentheses that precedence needs and no others."""

from tcpx.transform.language import syntax as ast

_PRECEDENCE = {
    "or": 2, "and": 3, "not": 4,
    "==": 5, "!=": 5, "<": 5, "<=": 5, ">": 5, ">=": 5,
    "+": 6, "-": 6, "*": 7, "/": 7, "%": 7, "negative": 8, "**": 9,
}  # fmt: skip
_CONDITIONAL, _COMPARISON, _UNARY, _POWER, _POSTFIX = 1, 5, 8, 9, 10
_LOOSE = 0
"""Selections, matches: they stand alone or in parentheses."""


def quoted(text: str) -> str:
    """A string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def print_expression(expression: ast.Expression) -> str:
    """The text of an expression; parses back equal."""
    return _print(expression, _LOOSE)


def _print(expression: ast.Expression, at_least: int) -> str:
    text, precedence = _text(expression)
    return f"({text})" if precedence < at_least else text


def _text(expression: ast.Expression) -> tuple[str, int]:
    match expression:
        case ast.Literal():
            return _literal(expression.value), _POSTFIX
        case ast.Name():
            return expression.name, _POSTFIX
        case ast.ListOf():
            return f"[{', '.join(_print(item, _LOOSE) for item in expression.items)}]", _POSTFIX
        case ast.MapOf():
            entries = [f"{_print(k, _CONDITIONAL)}: {_print(v, _LOOSE)}" for k, v in expression.entries]
            return f"[{', '.join(entries)}]", _POSTFIX
        case ast.Attribute():
            return f"{_print(expression.base, _POSTFIX)}.{expression.name}", _POSTFIX
        case ast.Call():
            arguments = ", ".join(map(_argument, expression.arguments))
            return f"{_print(expression.function, _POSTFIX)}({arguments})", _POSTFIX
        case ast.Unary(operator="-"):
            return f"-{_print(expression.operand, _UNARY)}", _UNARY
        case ast.Unary():
            return f"not {_print(expression.operand, 4)}", 4
        case ast.Binary():
            return _binary(expression)
        case _:
            return _loose_text(expression)


def _loose_text(expression: ast.Padded | ast.Range | ast.Conditional | ast.Selection | ast.Match) -> tuple[str, int]:
    match expression:
        case ast.Padded():
            return f"{_print(expression.digit, _CONDITIONAL)} pad {_print(expression.to, _CONDITIONAL)}", _LOOSE
        case ast.Range():
            return f"{_print(expression.lower, _CONDITIONAL)}..{_print(expression.upper, _CONDITIONAL)}", _LOOSE
        case ast.Conditional():
            then, condition, orelse = expression.then, expression.condition, expression.orelse
            text = f"{_print(then, 2)} if {_print(condition, 2)} else {_print(orelse, _CONDITIONAL)}"
            return text, _CONDITIONAL
        case ast.Selection():
            return f"{_print(expression.base, _CONDITIONAL)} in {_print(expression.scope, _POSTFIX)}", _LOOSE
        case ast.Match():
            return _match(expression), _LOOSE


def _literal(value: int | float | str | bool) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value)
    mantissa, exponent, power = text.partition("e")
    return f"{mantissa}.0e{power}" if exponent and "." not in mantissa else text


def _binary(expression: ast.Binary) -> tuple[str, int]:
    chain = ast.left_chain(expression)
    text, precedence = _text(chain[0].lhs)
    for link in chain:
        inner, precedence = precedence, _PRECEDENCE[link.operator]
        left = precedence + 1 if precedence in (_COMPARISON, _POWER) else precedence
        right = _UNARY if precedence == _POWER else precedence + 1
        text = f"({text})" if inner < left else text
        text = f"{text} {link.operator} {_print(link.rhs, right)}"
    return text, precedence


def _argument(argument: ast.Argument) -> str:
    text = _print(argument.value, _LOOSE)
    return f"{argument.name}: {text}" if argument.name else text


def print_pattern(pattern: ast.Pattern) -> str:
    """The text of a pattern; parses back equal."""
    if pattern.equations:
        return f"{{ {', '.join(map(_equation, pattern.equations))} }}"
    return " ".join(part for part in (pattern.op_class, quoted(pattern.glob) if pattern.glob else "") if part)


def _equation(equation: ast.Equation) -> str:
    return f"{equation.name} = {print_shape(equation.shape)}" if equation.name else print_shape(equation.shape)


def print_shape(shape: ast.Shape) -> str:
    """The text of an operation in a pattern."""
    return f"{shape.op_class}({'..' if shape.any_operands else ', '.join(map(_operand, shape.operands))})"


def _operand(operand: ast.Operand) -> str:
    value = operand.value
    text = print_shape(value) if isinstance(value, ast.Shape) else _print(value, _LOOSE)
    return f"{operand.role}: {text}" if operand.role else text


def _match(expression: ast.Match) -> str:
    words = ["match", expression.cardinality]
    words += [print_pattern(expression.pattern), "in", _print(expression.scope, _POSTFIX)]
    if expression.where is not None:
        words += ["where", _print(expression.where, _CONDITIONAL)]
    return " ".join(words)
