"""Values of a schedule as Python sees them: expressions, which operators and attributes make larger."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from numbers import Integral, Real
from typing import TYPE_CHECKING, TypeAlias, cast

from tcpx.limits import INT64_MAX, shortened
from tcpx.payload.diagnostics import Diagnostic, Location, ScheduleError, python_type_of
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.embedded.places import Caller, Use, caller, here, looper
from tcpx.transform.language.printed_expressions import print_expression
from tcpx.transform.language.tokens import is_name

if TYPE_CHECKING:
    from tcpx.transform.language.checker.scope import Scope
    from tcpx.transform.language.embedded.recorder import Recorder

Argument: TypeAlias = (
    "Value | int | float | str | bool | Sequence[Argument] | Mapping[str, Argument] | Mapping[Value, Argument]"
)
"""What stands for a value of the language. A string is a bare word where the parameter takes one."""


def refused(
    message: str, required: str, found: str, fix: str | None = None, where: Location | None = None
) -> ScheduleError:
    """The error to raise at the line of Python that is being recorded."""
    return ScheduleError(Diagnostic(message, schedule=where or here(), required=required, found=found, fix=fix))


def _binary(operator: str, reflected: bool = False) -> Callable[[Value, Argument], Value]:
    return lambda value, other: value.joined_(operator, other, reflected)


class Value:
    """An expression of the schedule language.

    Operators, attributes (`mm.rhs`, `mm.m`) and calls (`target.has("avx2")`) make larger expressions; `//` and `/`
    are the language's `/`; `&`, `|` and `~` its `and`, `or` and `not`. An expression that is assigned to a Python
    name is recorded as `let`. A `for` over a value records a loop.
    """

    def __init__(
        self,
        recorder: Recorder,
        node: ast.Expression,
        is_free: bool = False,
        scope: Scope | None = None,
        made_before: int | None = None,
    ) -> None:
        """`made_before`: how many statements were recorded then, where no source text says whether it has a name."""
        self._recorder = recorder
        self._node = node
        self._scope = scope
        self._made_before = made_before
        self.is_free_ = is_free

    @property
    def node_(self) -> ast.Expression:
        """The expression. Raises ScheduleError where the block that bound its name has ended, or where it has none and
        needs one."""
        if self._made_before is not None and self._recorder.count != self._made_before:
            raise refused(
                f"`{print_expression(self._node)}` is used behind a later statement, and has no name",
                "a `let` where it is made: Python has no source text here that says what it is assigned to",
                f"made at {self._node.location}",
                'write `x = s.let(.., name="x")`',
            )
        if self._scope is not None and not self._recorder.is_open(self._scope):
            raise refused(
                f"`{print_expression(self._node)}` is used behind the end of its block",
                "a value that this block binds, or one round it",
                f"bound at {self._node.location}",
            )
        return self._node

    def require_of(self, recorder: Recorder) -> None:
        """Raise ScheduleError where another body than the one that is recorded bound the name."""
        if self._scope is not None and self._recorder is not recorder:
            raise refused(
                f"`{print_expression(self._node)}` belongs to another body",
                "a value of the body that is recorded",
                f"bound at {self._node.location}",
            )

    def __getattr__(self, name: str) -> Value:
        if name.startswith("_"):
            raise AttributeError(name)
        made = caller()
        return self._made(ast.Attribute(self.node_, name.removesuffix("_"), location=made.location), made)

    def __call__(self, *arguments: Argument, **named: Argument) -> Value:
        made = caller()
        if named:
            raise refused("what is asked of a value has no names", "arguments without names", ", ".join(named))
        return self._asked(self.node_, [tree_of(a, made.location) for a in arguments], made)

    def loop(self, dim: str | Value) -> Value:
        """The innermost loop that steps a dim."""
        return self._method("loop", dim, caller())

    def loops(self, dim: str | Value) -> Value:
        """All loops that step a dim, outermost first."""
        return self._method("loops", dim, caller())

    def is_a(self, op_class: str | Value) -> Value:
        """Whether it is of a class of the operation tree, or fits a matcher: `"matmul"`, `"alias.relu_of"`."""
        made = caller()
        alias, dot, name = op_class.rpartition(".") if isinstance(op_class, str) else ("", "", op_class)
        tree = word_of(name, made.location)
        if dot:
            tree = ast.Attribute(word_of(alias, made.location), str(name), location=made.location)
        return self._asked(ast.Attribute(self.node_, "is_a", location=made.location), [tree], made)

    def copy(self, side: str | Value) -> Value:
        """The copies on one side of a split."""
        made = caller()
        function = ast.Attribute(self.node_, "copy", location=made.location)
        return self._asked(function, [tree_of(side, made.location)], made)

    def inside(self, scope: Value) -> Value:
        """The copies inside a loop: `x in L`."""
        made = caller()
        return self._made(ast.Selection(self.node_, tree_of(scope, made.location), location=made.location), made, scope)

    def _method(self, name: str, dim: str | Value, made: Caller) -> Value:
        function = ast.Attribute(self.node_, name, location=made.location)
        return self._asked(function, [word_of(dim, made.location)], made)

    def _asked(self, function: ast.Expression, arguments: list[ast.Expression], made: Caller) -> Value:
        given = tuple(ast.Argument("", a, location=made.location) for a in arguments)
        return self._made(ast.Call(function, given, location=made.location), made)

    def _made(self, node: ast.Expression, made: Caller, *others: object) -> Value:
        return self._recorder.made(node, made, self.is_free_ or any_free(others))

    # -- operators -----------------------------------------------------------------------------------------------

    def joined_(self, operator: str, other: object, reflected: bool = False) -> Value:
        made = caller()
        lhs, rhs = self.node_, tree_of(other, made.location)
        lhs, rhs = (rhs, lhs) if reflected else (lhs, rhs)
        return self._made(ast.Binary(operator, lhs, rhs, location=made.location), made, other)

    def _unary(self, operator: str) -> Value:
        made = caller()
        return self._made(ast.Unary(operator, self.node_, location=made.location), made)

    __add__ = _binary("+")
    __radd__ = _binary("+", reflected=True)
    __sub__ = _binary("-")
    __rsub__ = _binary("-", reflected=True)
    __mul__ = _binary("*")
    __rmul__ = _binary("*", reflected=True)
    __floordiv__ = _binary("/")
    __rfloordiv__ = _binary("/", reflected=True)
    __truediv__ = _binary("/")
    __rtruediv__ = _binary("/", reflected=True)
    __pow__ = _binary("**")
    __rpow__ = _binary("**", reflected=True)
    __mod__ = _binary("%")
    __rmod__ = _binary("%", reflected=True)
    __lt__ = _binary("<")
    __le__ = _binary("<=")
    __gt__ = _binary(">")
    __ge__ = _binary(">=")
    __and__ = _binary("and")
    __rand__ = _binary("and", reflected=True)
    __or__ = _binary("or")
    __ror__ = _binary("or", reflected=True)

    def __neg__(self) -> Value:
        return self._unary("-")

    def __invert__(self) -> Value:
        return self._unary("not")

    # Python types these as bool; conditions take either.

    def __eq__(self, other: object) -> bool:
        return cast("bool", self.joined_("==", other))

    def __ne__(self, other: object) -> bool:
        return cast("bool", self.joined_("!=", other))

    __hash__ = object.__hash__

    # -- what Python cannot know while it records ------------------------------------------------------------------

    def __bool__(self) -> bool:
        raise refused(
            "a condition is decided when the schedule runs, not while Python records it",
            "a condition that Python need not decide",
            f"`{print_expression(self.node_)}` as true or false",
            "write `with s.if_(..):`; join conditions by `&`, `|` and `~`; compare one pair at a time",
        )

    def __contains__(self, item: object) -> bool:
        raise refused(
            "`in` is decided when the schedule runs", "an expression", "Python's `in`", "write `s.contains(..)`"
        )

    def __iter__(self) -> Iterator[Value]:
        made = looper()
        if made.use is Use.UNKNOWN:
            raise refused(
                "Python has no source text here that names what a loop goes through",
                "code from a file or a cell, or names that are said",
                f"`{print_expression(self.node_)}` gone through",
                'write `for x in s.each(.., "x"):`',
            )
        if made.use is not Use.LOOPED or not made.names:
            raise refused(
                "how many there are is known when the schedule runs",
                "a `for` over it",
                f"`{print_expression(self.node_)}` taken apart",
            )
        yield from self._recorder.for_each(self.node_, made.location, made.names, made.unpacked)

    def __repr__(self) -> str:
        return f"<{print_expression(self._node)}>"


class Dim(Value):
    """A dim as a layout names it: `s.dim("k") // 4`, `s.dim("k").padded_to(16)`."""

    def padded_to(self, multiple: Argument) -> Value:
        """`k pad 16`."""
        where = here()
        return Value(self._recorder, ast.Padded(self.node_, tree_of(multiple, where), location=where), is_free=True)


class Results(Value):
    """Several results of one step; Python takes them apart."""

    def __init__(self, values: Sequence[Value], first: Value) -> None:
        super().__init__(first._recorder, first.node_)
        self._values = tuple(values)

    def __iter__(self) -> Iterator[Value]:
        return iter(self._values)


def any_free(values: Sequence[object]) -> bool:
    """Whether one of them speaks of a candidate or a dim, which only their surroundings give a meaning."""
    return any(isinstance(v, Value) and v.is_free_ for v in values)


def word_of(value: object, where: Location) -> ast.Expression:
    """A bare word; a value stays what it is."""
    if not isinstance(value, str):
        return tree_of(value, where)
    return ast.Name(checked_name(value, where), location=where)


def checked_name(name: str, where: Location) -> str:
    """The name if a text may have it. Raises ScheduleError."""
    if not is_name(name):
        required = "letters, digits and `_`, first a letter from a to z or `_`, and no keyword"
        raise refused("this is no name", required, f'"{name}"', where=where)
    return name


def tree_of(value: object, where: Location) -> ast.Expression:
    """The expression that a Python value stands for. Raises ScheduleError."""
    match value:
        case Value():
            return value.node_
        case str():
            return ast.Literal(value, location=where)
        case bool():
            return ast.Literal(value, location=where)
        case Real():
            return _number(value, where)
        case list() | tuple():
            items = cast("Sequence[object]", value)
            return ast.ListOf(tuple(tree_of(item, where) for item in items), location=where)
        case Mapping():
            entries = cast("Mapping[object, object]", value).items()
            return ast.MapOf(tuple((word_of(k, where), tree_of(v, where)) for k, v in entries), location=where)
        case _:
            raise refused(
                "this is no value of a schedule",
                "a value of the schedule, a number, a string, a list or a map",
                python_type_of(value),
                where=where,
            )


def _number(value: Real, where: Location) -> ast.Expression:
    number = int(value) if isinstance(value, Integral) else float(value)
    if not isfinite(number):
        raise refused("a schedule has finite numbers only", "a finite number", str(number), where=where)
    if isinstance(number, int) and abs(number) > INT64_MAX:
        raise refused("the number is too large", f"at most {INT64_MAX}", shortened(number), where=where)
    if number < 0:
        return ast.Unary("-", ast.Literal(-number, location=where), location=where)
    return ast.Literal(number, location=where)
