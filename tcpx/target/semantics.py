"""The language that says what an instruction does to one lane: `a * b`, `fma(a, b, c)`, `select(a, b, c)`.

    semantics := a scalar expression over the operands a, b, c
    operators :  + - * /  & | ^  < <= > >= == !=
    functions :  those that elementwise operations of payloads call in their `semantics`, and `dot`

Meaning, per lane (`verification/vector_rows/meaning.py` is the executable form):
  * integers wrap around; `/` is defined on floats only;
  * `max`, `min` give NaN if either operand is NaN; which zero they give for a pair of zeros is unspecified;
  * `round` is to nearest, ties to even; `scale2(a, b)` is a * 2**b rounded once, for b integral-valued or NaN;
  * `cast` goes to the result's dtype: float to integer truncates and saturates, NaN gives 0; integers wrap around;
  * `floordiv`, `mod`, `rem` of integers: the quotient by 0 is 0, and leaves all of a; `rem` of floats is C's fmod;
  * `bitcast` reads the bits as the result's dtype, of the same width;
  * `shift_left`, `shift_right` take amounts as unsigned: past the width 0, or the sign of a signed a, is left;
  * `select(a, b, c)` is b where a holds, else c; a comparison gives i1; a comparison with NaN is false, `!=` true;
  * `dot(b, c)` multiplies lanes and sums groups of neighbours in the dtype of the result.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from tcpx.payload.ir import operation_classes
from tcpx.payload.ops.elementwise import SameType
from tcpx.plurals import counted
from tcpx.records import frozen
from tcpx.target.errors import TargetError, unknown_name

OPERANDS = ("a", "b", "c")

_OF_SEVERAL_TYPES = {"bitcast": 1, "cast": 1, "dot": 2, "select": 3}
_CALL = re.compile(r"(\w+)\(a(?:, b(?:, c)?)?\)")

COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}


def function_classes() -> dict[str, type[SameType]]:
    """Function name -> the operation that it is on one lane, also of operations from outside the package."""
    calls = [(_CALL.fullmatch(c.semantics), c) for c in operation_classes().values() if issubclass(c, SameType)]
    return {call[1]: cls for call, cls in calls if call is not None}


def functions() -> dict[str, int]:
    """Function name -> number of arguments, sorted."""
    counts = {name: cls.semantics.count(",") + 1 for name, cls in function_classes().items()}
    return dict(sorted({**counts, **_OF_SEVERAL_TYPES}.items()))


@frozen
class Operand:
    """`a`, `b` or `c`: the lane of an operand."""

    name: str

    def __str__(self) -> str:
        return self.name


@frozen
class Binary:
    """An arithmetic, bitwise or comparison operator."""

    operator: str
    lhs: Expression
    rhs: Expression

    def __str__(self) -> str:
        return f"{_nested(self.lhs)} {self.operator} {_nested(self.rhs)}"


@frozen
class Call:
    """A function of `functions`."""

    function: str
    arguments: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"{self.function}({', '.join(str(x) for x in self.arguments)})"


Expression = Operand | Binary | Call


def _nested(expression: Expression) -> str:
    return f"({expression})" if isinstance(expression, Binary) else str(expression)


@lru_cache(maxsize=1024)
def parse_semantics(text: str) -> Expression:
    """The expression tree of `text`. Raises TargetError if the text is not in the language.

    Python's own parser reads the text; the tree is then rebuilt from a closed list of node types, so nothing of it
    is ever executed.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise TargetError(
            "semantics is not an expression",
            required="a scalar expression over a, b, c such as `fma(a, b, c)`",
            found=f"{text} ({error.msg})",
            where=f"column {error.offset}",
        ) from error
    return _convert(tree.body, text)


def is_expression(text: str) -> bool:
    """Whether a text is in the language: operations from outside may mean what no row can say."""
    try:
        parse_semantics(text)
    except TargetError:
        return False
    return True


def normalize(text: str) -> str:
    """The one spelling of an expression: `a+b` and `a + b` both give `a + b`."""
    return str(parse_semantics(text))


def operand_count(expression: Expression) -> int:
    """How many operands the expression reads: 1 + the position of the last one named."""
    match expression:
        case Operand(name):
            return OPERANDS.index(name) + 1
        case Binary(_, lhs, rhs):
            return max(operand_count(lhs), operand_count(rhs))
        case Call(_, arguments):
            return max(operand_count(x) for x in arguments)


def _convert(node: ast.expr, text: str) -> Expression:
    match node:
        case ast.Name(id=name):
            if name not in OPERANDS:
                raise unknown_name("operand", name, OPERANDS, where=f"semantics {text!r}")
            return Operand(name)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _BINARY:
            return Binary(_BINARY[type(operator)], _convert(left, text), _convert(right, text))
        case ast.Compare(left=left, ops=[comparison], comparators=[right]) if type(comparison) in _COMPARE:
            return Binary(_COMPARE[type(comparison)], _convert(left, text), _convert(right, text))
        case ast.Call(func=ast.Name(id=function), args=arguments, keywords=[]):
            return _call(function, tuple(_convert(x, text) for x in arguments), text)
        case _:
            raise TargetError(
                f"`{ast.unparse(node)}` is not part of the semantics language",
                required="operands a, b, c, operators + - * / & | ^ and comparisons, and the functions listed",
                found=text,
                where=f"semantics {text!r}",
                fix=f"write it with {', '.join(functions())}",
            )


def _call(function: str, arguments: tuple[Expression, ...], text: str) -> Call:
    known = functions()
    arity = known.get(function)
    if arity is None:
        raise unknown_name("function", function, known, where=f"semantics {text!r}")
    if len(arguments) != arity:
        raise TargetError(
            f"{function} takes {arity} argument{'s' if arity > 1 else ''}",
            required=f"{function}({', '.join(OPERANDS[:arity])})",
            found=counted(len(arguments), "argument"),
            where=f"semantics {text!r}",
        )
    return Call(function, arguments)
