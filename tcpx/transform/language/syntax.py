"""The syntax tree of a schedule. Locations do not take part in equality; comments are no part of it, docs are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import PurePath
from typing import Any, cast

from tcpx.payload.diagnostics import Location
from tcpx.records import frozen

NOTHING = "_"
"""The name of what nobody needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Anything with a place in the text."""

    location: Location = field(compare=False, repr=False)


def walk(part: object) -> Iterator[Node]:
    """All nodes of a part of a tree, outer ones first."""
    match part:
        case tuple():
            for item in cast("tuple[object, ...]", part):
                yield from walk(item)
        case Node():
            yield part
            for held in fields(part):
                yield from walk(getattr(part, held.name))
        case _:
            pass


def rebuilt(node: Any, change: Callable[[object], object]) -> Any:  # noqa: ANN401 - any part of a tree
    """A part of a tree with every node changed, inner ones first."""
    if isinstance(node, tuple):
        return tuple(rebuilt(item, change) for item in cast("tuple[Any, ...]", node))
    if not is_dataclass(node) or isinstance(node, Location | Trivia | type):
        return node
    parts = {held.name: getattr(node, held.name) for held in fields(node)}
    return change(replace(node, **{name: rebuilt(part, change) for name, part in parts.items()}))


# -- expressions -------------------------------------------------------------------------------------------------


@frozen
class Literal(Node):
    value: int | float | str | bool


@frozen
class Name(Node):
    name: str


@frozen
class ListOf(Node):
    items: tuple[Expression, ...]


@frozen
class MapOf(Node):
    """`[n: nr, m: mr]`: keys in the order written."""

    entries: tuple[tuple[Expression, Expression], ...]


@frozen
class Padded(Node):
    """`k pad 16` in a layout."""

    digit: Expression
    to: Expression


@frozen
class Range(Node):
    """`lower..upper`, both ends included."""

    lower: Expression
    upper: Expression


@frozen
class Unary(Node):
    """`-x`, `not x`."""

    operator: str
    operand: Expression


@frozen
class Binary(Node):
    """Arithmetic, comparison, `and`, `or`. `/` floors, `**` raises to a power."""

    operator: str
    lhs: Expression
    rhs: Expression


@frozen
class Conditional(Node):
    """`a if condition else b`."""

    condition: Expression
    then: Expression
    orelse: Expression


@frozen
class Attribute(Node):
    base: Expression
    name: str


@frozen
class Argument(Node):
    """`value` or `name: value`."""

    name: str
    value: Expression


@frozen
class Call(Node):
    function: Expression
    arguments: tuple[Argument, ...]


@frozen
class Selection(Node):
    """`x in L`: the copies of x inside L."""

    base: Expression
    scope: Expression


@frozen
class Shape(Node):
    """`add(mul(_, _), b)` in a pattern: an operation of a class, or one that a matcher fits, by its operands."""

    op_class: str
    operands: tuple[Operand, ...]
    any_operands: bool = False
    """`add(..)`: nothing is said of them."""


@frozen
class Operand(Node):
    """An operand in a pattern, by its place, or by its `role`: what makes it, a name, a number."""

    role: str
    value: Shape | Name | Literal


@frozen
class Equation(Node):
    """`y = add(_, _)` in a pattern; the name may be empty."""

    name: str
    shape: Shape


@frozen
class Pattern(Node):
    """A class of the operation tree or a matcher (`g.name` of an import), and a glob for the name; one may be empty.
    Or equations, as the payload is written: the class is that of the last one then."""

    op_class: str
    glob: str
    equations: tuple[Equation, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names in its equations: that of the operation it is about, then as they are written."""
        last = [self.equations[-1].name] if self.equations else []
        named = (n.name for equation in self.equations for n in walk(equation) if isinstance(n, Equation | Name))
        return tuple(name for name in dict.fromkeys((*last, *named)) if name not in ("", NOTHING))


@frozen
class Match(Node):
    """`match one|some|any PATTERN in scope where condition`."""

    cardinality: str
    pattern: Pattern
    scope: Expression
    where: Expression | None


Expression = (
    Literal
    | Name
    | ListOf
    | MapOf
    | Padded
    | Range
    | Unary
    | Binary
    | Conditional
    | Attribute
    | Call
    | Selection
    | Match
)


def left_chain(expression: Binary) -> list[Binary]:
    """The operators of `a + b - c`, the one that is applied first at the front: to go through a chain in a loop."""
    chain = [expression]
    while isinstance(chain[-1].lhs, Binary):
        chain.append(chain[-1].lhs)
    return chain[::-1]


# -- statements --------------------------------------------------------------------------------------------------


@frozen
class Trivia:
    """What stands beside a statement: its `///` docs, one line each."""

    doc: str = ""


@frozen
class TypeOf(Node):
    """`int`, `op<contract>`, `list<op>`."""

    name: str
    arguments: tuple[TypeOf, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}<{', '.join(map(str, self.arguments))}>" if self.arguments else self.name


@frozen
class Block(Node):
    """Statements between braces."""

    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commented(Node):
    """A statement or item: may carry docs."""

    trivia: Trivia = Trivia()


@frozen
class Let(Commented):
    """`let a, b = value`. The handles of an `optional` step that is left out denote nothing."""

    names: tuple[str, ...]
    value: Expression
    optional: bool = False


@frozen
class Knob(Commented):
    """`knob name: type = default in domain up_to limit`. A separate knob does not share its value with uses of one
    structure. Values beyond the first of the domain that is at least the limit are as good as that one."""

    name: str
    type: TypeOf
    default: Expression
    domain: Expression | None
    separate: bool = False
    limit: Expression | None = None


@frozen
class Require(Commented):
    condition: Expression
    message: str


@frozen
class Do(Commented):
    """A call as a statement."""

    call: Call
    optional: bool


@frozen
class ForEach(Commented):
    """`for x in items`; several variables take the parts of each item."""

    variables: tuple[str, ...]
    items: Expression
    body: Block


@frozen
class Branch(Node):
    condition: Expression
    body: Block


@frozen
class If(Commented):
    """`if` and its `else if`s in order, then `else`."""

    branches: tuple[Branch, ...]
    orelse: Block | None


@frozen
class Fail(Node):
    """`fail "message"` in the place of a block."""

    message: str


@frozen
class Remark(Node):
    """`else remark x`: what `x` denotes stays as it is, and a remark says what failed."""

    target: Expression


@frozen
class Arm(Node):
    """`class "glob" where condition => { ... }`."""

    pattern: Pattern
    where: Expression | None
    body: Block


@frozen
class Case(Commented):
    subject: Expression
    arms: tuple[Arm, ...]
    orelse: Block | Fail | None


@frozen
class Try(Commented):
    """Alternatives in order; the first that does not fail counts."""

    alternatives: tuple[Block, ...]
    orelse: Fail | Remark | None


@frozen
class Specialize(Commented):
    """Run-time versions: `specialize x when c { } else when d { } else { }`."""

    target: Expression
    branches: tuple[Branch, ...]
    orelse: Block | Fail
    takes_chains: bool = False
    """Whether what leads to an operation alone, and its epilogue, have versions with it."""


@frozen
class Versions(Commented):
    """`versions x by size at limits { }`, `versions x for name in items when condition { }`: one version for each limit
    or item, and one for what is left, all of one block."""

    target: Expression
    items: Expression
    """The limits, or the items."""
    condition: Expression
    """What is compared with the limits, or the condition of each item but the last."""
    body: Block
    variable: str = ""
    """The name of the item; empty where there are limits."""


@frozen
class Tune(Commented):
    """`tune { A } or { B }`: the choice is a knob. Or `tune name = word { a where c => { A } b => { B } }`: it has a
    name and words as values; an alternative whose condition does not hold is none."""

    alternatives: tuple[Block, ...]
    name: str = ""
    default: Expression | None = None
    words: tuple[str, ...] = ()
    conditions: tuple[Expression | None, ...] = ()
    """Those of the words, in the same order."""


@frozen
class Return(Commented):
    values: tuple[Expression, ...]


Statement = Let | Knob | Require | Do | ForEach | If | Case | Try | Specialize | Versions | Tune | Return


def blocks_in(statement: Statement) -> Iterator[Block]:
    """The blocks of a statement, not those of the statements in them."""
    match statement:
        case ForEach() | Versions():
            yield statement.body
        case If() | Specialize():
            yield from (branch.body for branch in statement.branches)
            if isinstance(statement.orelse, Block):
                yield statement.orelse
        case Case():
            yield from (arm.body for arm in statement.arms)
            if isinstance(statement.orelse, Block):
                yield statement.orelse
        case Try() | Tune():
            yield from statement.alternatives
        case _:
            pass


# -- items -------------------------------------------------------------------------------------------------------


@frozen
class Param(Commented):
    name: str
    type: TypeOf
    default: Expression | None


@frozen
class Import(Commented):
    path: str
    alias: str

    @property
    def bound_name(self) -> str:
        """The alias, or the file's name without its ending."""
        return self.alias or PurePath(self.path).stem


@frozen
class Function(Commented):
    """`function name(a: int, b: int = 2) -> int = expression`, or `-> int { let c = ..; return expression }`."""

    name: str
    params: tuple[Param, ...]
    result: TypeOf
    value: Expression
    lets: tuple[Let, ...] = ()


@frozen
class Matcher(Commented):
    """A named pattern: the op it is asked about is its parameter, its body says what must hold, it returns parts."""

    name: str
    params: tuple[Param, ...]
    results: tuple[TypeOf, ...]
    body: Block


@frozen
class View(Commented):
    """`view name(x: op<class>) { let role = .. }`: names for parts of an op, which `x.role` gives where `x: name`."""

    name: str
    params: tuple[Param, ...]
    lets: tuple[Let, ...]


@frozen
class Sequence(Commented):
    name: str
    params: tuple[Param, ...]
    results: tuple[TypeOf, ...]
    body: Block


@frozen
class Schedule(Commented):
    name: str
    params: tuple[Param, ...]
    expects: str
    body: Block


@frozen
class Language(Commented):
    version: int


Item = Language | Import | Function | Matcher | View | Sequence | Schedule


@frozen
class File:
    """One `.tcps` file."""

    items: tuple[Item, ...]
    path: str = field(default="", compare=False)
    divisions: tuple[Location, ...] = field(default=(), compare=False)
    """Comments such as `// 2` behind an operand."""
