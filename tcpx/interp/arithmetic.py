"""Operators on runtime values: integers floor, sizes stay symbolic, comparisons are decided or become conditions."""

from collections.abc import Iterator
from math import isfinite
from typing import cast

from tcpx.interp.conditions import AnyOf
from tcpx.interp.frame import Frame
from tcpx.interp.handles import Handles
from tcpx.interp.space.formula import OPERATIONS
from tcpx.interp.values import DimHandle, OperandHandle, OpHandle, RuntimeValue, as_dim_value, describe, kind_of
from tcpx.limits import LONGEST_STRING, fits_int64
from tcpx.payload.diagnostics import Direction, Kind
from tcpx.payload.sizes import Dim, Size
from tcpx.payload.sizes.context import Context
from tcpx.payload.sizes.excess import excess, excess_of_product
from tcpx.payload.sizes.predicates import Predicate, Relation
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.printed_expressions import print_expression

_MOST_BITS = 64
_RELATIONS: dict[str, Relation] = {"==": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def negate(value: RuntimeValue, frame: Frame, node: ast.Node) -> RuntimeValue:
    """`-x`."""
    if isinstance(value, float):
        return -value
    dim = as_dim_value(value)
    if dim is None:
        raise frame.error("arithmetic is on numbers", node, required="int, size or float", found=describe(value))
    return checked(-dim, frame, node)


def checked(value: RuntimeValue, frame: Frame, node: ast.Node) -> RuntimeValue:
    """A value that a kernel can hold: an error for an integer beyond 64 bits, a size too long, inf and nan."""
    if isinstance(value, int | Size):
        found = excess(value)
        if found is not None:
            raise frame.error(found.message, node, required=found.required, found=found.found)
    if isinstance(value, float) and not isfinite(value):
        raise frame.error("the result is no number", node, required="a finite number", found=str(value))
    return value


def arithmetic(
    operator: str, lhs: RuntimeValue, rhs: RuntimeValue, handles: Handles, frame: Frame, node: ast.Node
) -> RuntimeValue:
    """`+ - * / % **`; `/` floors unless one side is a float, `**` is on ints."""
    if isinstance(lhs, str) and isinstance(rhs, str) and operator == "+":
        return _joined(lhs, rhs, frame, node)
    if operator == "**":
        return _power(lhs, rhs, frame, node)
    left, right = as_dim_value(lhs), as_dim_value(rhs)
    if left is not None and right is not None:
        return checked(_on_sizes(operator, left, right, handles.facts, frame, node), frame, node)
    if isinstance(lhs, int | float) and isinstance(rhs, int | float) and not isinstance(lhs, bool):
        return checked(_on_floats(operator, float(lhs), float(rhs), frame, node), frame, node)
    found = f"{describe(lhs)} {operator} {describe(rhs)}"
    fix = (
        Direction("the extent of a dim is a number: `size(..)`")
        if isinstance(lhs, DimHandle) or isinstance(rhs, DimHandle)
        else None
    )
    raise frame.error("arithmetic is on numbers", node, required="int, size or float", found=found, fix=fix)


def _joined(lhs: str, rhs: str, frame: Frame, node: ast.Node) -> str:
    length = len(lhs) + len(rhs)
    if length > LONGEST_STRING:
        required = f"at most {LONGEST_STRING} characters"
        raise frame.error("the string is too long", node, required=required, found=f"{length} characters")
    return lhs + rhs


def _power(base: RuntimeValue, exponent: RuntimeValue, frame: Frame, node: ast.Node) -> int:
    """base ** exponent, refused before it is computed where it is beyond 64 bits."""
    lhs, rhs = as_dim_value(base), as_dim_value(exponent)
    if not isinstance(lhs, int) or not isinstance(rhs, int):
        found = f"{size_text(base)} ** {size_text(exponent)}"
        raise frame.error("`**` is on integers that are known now", node, required="int ** int", found=found)
    if rhs < 0:
        raise frame.error("the exponent is negative", node, required="0 or more", found=str(rhs), kind=Kind.SILENCEABLE)
    if abs(lhs) > 1 and (rhs > _MOST_BITS or not fits_int64(lhs**rhs)):
        raise frame.error(
            "the power is too large for 64 bits",
            node,
            required="a result from -2**63 to 2**63 - 1",
            found=f"{lhs} ** {rhs}",
        )
    return lhs**rhs


def _on_floats(operator: str, lhs: float, rhs: float, frame: Frame, node: ast.Node) -> float:
    if operator in ("/", "%") and rhs == 0:
        raise frame.error("division by zero", node, required="a divisor that is not 0", kind=Kind.SILENCEABLE)
    return cast("float", OPERATIONS[operator](lhs, rhs))


def _on_sizes(operator: str, lhs: Dim, rhs: Dim, here: Context, frame: Frame, node: ast.Node) -> Dim:
    match operator:
        case "+":
            return lhs + rhs
        case "-":
            return lhs - rhs
        case "*":
            found = excess_of_product(lhs, rhs)
            if found is not None:
                raise frame.error(found.message, node, required=found.required, found=found.found)
            return lhs * rhs
        case _ if isinstance(lhs, int) and isinstance(rhs, int) and rhs != 0:
            return lhs // rhs if operator == "/" else lhs % rhs
        case _ if here.is_less_equal(1, rhs) is not True:
            message = "division by zero" if rhs == 0 else "the divisor may be zero"
            raise frame.error(message, node, required="a positive divisor", found=describe(rhs), kind=Kind.SILENCEABLE)
        case "/":
            return here.floordiv(lhs, rhs)
        case _:
            return here.mod(lhs, rhs)


def compare(
    operator: str, lhs: RuntimeValue, rhs: RuntimeValue, handles: Handles, frame: Frame, node: ast.Node
) -> bool | Predicate:
    """A comparison: decided where it can be, else the condition that the kernel would have to test."""
    left, right = as_dim_value(lhs), as_dim_value(rhs)
    if left is not None and right is not None:
        made = Predicate.of(_RELATIONS[operator], left, right)
        decided = made.decide()
        if decided is None:
            decided = handles.facts.decide(made)
        return made if decided is None else decided
    if operator in ("==", "!="):
        return _equal(lhs, rhs, handles) == (operator == "==")
    if all(isinstance(v, int | float) for v in (lhs, rhs)) or all(isinstance(v, str) for v in (lhs, rhs)):
        return bool(OPERATIONS[operator](lhs, rhs))
    raise frame.error(
        "these have no order", node, required="two numbers", found=f"{kind_of(lhs)} {operator} {kind_of(rhs)}"
    )


def _equal(lhs: RuntimeValue, rhs: RuntimeValue, handles: Handles) -> bool:
    match lhs, rhs:
        case OpHandle(), OpHandle():
            return handles.same(lhs, rhs)
        case (OperandHandle(), OperandHandle()) | (DimHandle(), DimHandle()):
            own, other = (v.name if isinstance(v, OperandHandle) else v.dim for v in (lhs, rhs))
            return own == other and handles.same(lhs.base, rhs.base)
        case tuple(), tuple():
            return len(lhs) == len(rhs) and all(_equal(a, b, handles) for a, b in zip(lhs, rhs, strict=True))
        case _:
            return lhs == rhs


def undecided(value: Predicate | AnyOf, what: str, frame: Frame, node: ast.Expression) -> Exception:
    """The error for a condition on sizes where a decision is needed now; it offers the `specialize` to write."""
    return frame.error(
        f"{what} needs an answer now, but `{value}` is known only when the kernel runs",
        node,
        required="a condition on static sizes, or one that the ranges of the symbols decide",
        found=", ".join(_symbol_text(s.name, s.lower, s.upper) for s in value.symbols()),
        fix=_as_versions(node),
    )


def _as_versions(condition: ast.Expression) -> Direction:
    """The `specialize` to write: of the handles whose dims the condition asks about, where it names them."""
    names = list(dict.fromkeys(_handle_names(condition)))
    target = "x" if not names else names[0] if len(names) == 1 else f"[{', '.join(names)}]"
    written = f"write `specialize {target} when {print_expression(condition)} {{ ... }} else {{ ... }}`"
    return Direction(written if names else f"{written}, with the ops to make versions of as x")


def _handle_names(expression: ast.Expression) -> Iterator[str]:
    match expression:
        case ast.Attribute(base=ast.Name(name=name)):
            yield name
        case ast.Binary():
            yield from _handle_names(expression.lhs)
            yield from _handle_names(expression.rhs)
        case ast.Unary():
            yield from _handle_names(expression.operand)
        case ast.Call():
            for argument in expression.arguments:
                yield from _handle_names(argument.value)
        case _:
            pass


def _symbol_text(name: str, lower: int, upper: int | None) -> str:
    return f"[{name}: {lower}..{'' if upper is None else upper}]"


def size_text(value: RuntimeValue) -> str:
    """A size with the remark that it is symbolic."""
    return f"{describe(value)}, known only when the kernel runs" if isinstance(value, Size) else describe(value)
