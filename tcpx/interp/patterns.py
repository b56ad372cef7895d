"""Patterns as written, `{ y = add(mul(_, _), b) }`: whether an operation, and what leads to its operands, are those."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tcpx.interp.foresight import UnforeseenError
from tcpx.interp.frame import Frame
from tcpx.interp.matching import Miss, Outcome
from tcpx.interp.navigation import definition_of, value_of, value_ref, value_refs
from tcpx.interp.state import State
from tcpx.interp.values import UNKNOWN, OperandHandle, OpHandle, RuntimeValue, describe
from tcpx.payload.ir import Operation, Value
from tcpx.payload.ops.gml_st import Materialize
from tcpx.payload.traits.algebra import algebra
from tcpx.payload.traits.signature import given_operands
from tcpx.payload.types import dtype_of
from tcpx.plurals import counted
from tcpx.records import frozen
from tcpx.transform.algebra import is_number, number_of
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.printed_expressions import print_expression, print_shape

FIRST_RANK = 3
"""An operation of the right class is a nearer miss than any other; the further in it differs, the nearer it is."""


@frozen
class Use:
    """An operand of an operation, by its role."""

    op: Operation
    role: str

    @property
    def value(self) -> Value:
        return value_of(value_ref(self.op, self.role))

    def __str__(self) -> str:
        return f"%{self.op.name}.{self.role}"


Bound = Mapping[str, Operation | Use]
IsOf = Callable[[ast.Shape, Operation], Miss | None]
Where = Callable[[Operation, Mapping[str, RuntimeValue]], Miss | None]


def written_outcome(
    pattern: ast.Pattern,
    op: Operation,
    state: State,
    frame: Frame,
    is_of: IsOf,
    where: Where,
    inside: tuple[OpHandle, ...],
) -> Outcome:
    """What the names of a pattern stand for where an operation is the last of its equations: for the first order of
    operands that commute for which all of it holds, the `where` included. Else why it is not."""
    if state.foresight is not None and state.foresight.is_changed:
        state.foresight.require_unchanged()
    if any(frame.names.get(name) is UNKNOWN for name in pattern.names):
        raise UnforeseenError
    trial = Trial(pattern, op, state, frame, is_of)
    unmet: Miss | None = None
    for bound in trial.solutions():
        named = {name: _handle(held, state, inside) for name, held in bound.items()}
        miss = where(op, named)
        if miss is None:
            root = pattern.equations[-1].name
            return tuple(named[name] for name in pattern.names if name in named and name != root)
        unmet = unmet or miss
    return unmet or trial.miss or Miss(op, 0, "is another operation")


def names_of(
    pattern: ast.Pattern, root: OpHandle, parts: tuple[RuntimeValue, ...], frame: Frame
) -> dict[str, RuntimeValue]:
    """The names that a pattern binds, with what they stand for."""
    if not pattern.equations:
        return {}
    names = [name for name in pattern.names if name not in frame.names]
    return dict(zip(names, (root, *parts) if pattern.equations[-1].name in names else parts, strict=True))


def _handle(held: Operation | Use, state: State, inside: tuple[OpHandle, ...]) -> RuntimeValue:
    if isinstance(held, Operation):
        return state.handles.of(held, inside=inside)
    return OperandHandle(state.handles.of(held.op, inside=inside), held.role)


@dataclass(slots=True)
class Trial:
    """One operation against one pattern. Operands are gone through from the last equation on; nothing is searched."""

    pattern: ast.Pattern
    op: Operation
    state: State
    frame: Frame
    is_of: IsOf
    miss: Miss | None = None
    """The one that came furthest."""
    equations: dict[str, ast.Shape] = field(default_factory=dict[str, ast.Shape])

    def __post_init__(self) -> None:
        self.equations = {equation.name: equation.shape for equation in self.pattern.equations[:-1]}

    def solutions(self) -> Iterator[Bound]:
        """What its names stand for, in every way in which it fits."""
        last = self.pattern.equations[-1]
        return self._operation(last.name, last.shape, self.op, {}, 0)

    def _missed(self, depth: int, reason: str) -> None:
        if self.miss is None or FIRST_RANK + depth > self.miss.rank:
            self.miss = Miss(self.op, FIRST_RANK + depth, reason)

    def _operation(self, name: str, shape: ast.Shape, op: Operation, bound: Bound, depth: int) -> Iterator[Bound]:
        self.state.work.trials(1, self.frame, shape)
        unlike = self.is_of(shape, op)
        if unlike is not None and depth == 0:
            self.miss = unlike
            return
        if unlike is not None:
            self._missed(depth, f"%{op.name} ({op.opcode}) {unlike.reason}")
            return
        other = self._other_operation(name, op, bound)
        if other:
            self._missed(depth, f"`{name}` is %{op.name} and {other}")
            return
        if name not in ("", ast.NOTHING, *self.frame.names):
            bound = {**bound, name: op}
        for uses in self._orders(shape, op, depth):
            yield from self._operands(uses, bound, depth + 1)

    def _other_operation(self, name: str, op: Operation, bound: Bound) -> str:
        """What a name stands for already, if that is another operation."""
        held, outside = bound.get(name), self.frame.names.get(name)
        if isinstance(outside, OpHandle):
            return "" if op in self.state.handles.live(outside) else describe(outside)
        if isinstance(held, Use):
            return "" if definition_of(held.value) is op else str(held)
        return "" if held is None or held is op else f"%{held.name}"

    def _orders(self, shape: ast.Shape, op: Operation, depth: int) -> list[list[tuple[ast.Operand, Use]]]:
        """The operands of a pattern with those of an operation; two that change places, both ways."""
        roles = [role for role in op.operand_roles if role not in given_operands(op)]
        placed, named = ([o for o in shape.operands if bool(o.role) is is_named] for is_named in (False, True))
        known = (
            *op.operand_roles,
            *((op.signature.optional_operand,) if op.signature.optional_operand and op.init is not None else ()),
        )
        missing = next((o.role for o in named if o.role not in known), "")
        if missing or not (shape.any_operands or len(placed) == len(roles)):
            found = f"no `{missing}`" if missing else f"{counted(len(roles), 'operand')}, not {len(placed)}"
            self._missed(depth, f"%{op.name} has {found}")
            return []
        uses = [(o, Use(op, o.role)) for o in named] + [(o, Use(op, r)) for o, r in zip(placed, roles, strict=False)]
        if not placed or not algebra(op).commutes:
            return [uses]
        a, b = (len(named) + k for k in algebra(op).commutes)
        (first, left), (second, right) = uses[a], uses[b]
        if first == second or left.value is right.value:
            return [uses]
        swapped = list(uses)
        swapped[a], swapped[b] = (first, right), (second, left)
        return [uses, swapped]

    def _operands(self, uses: list[tuple[ast.Operand, Use]], bound: Bound, depth: int) -> Iterator[Bound]:
        if not uses:
            yield bound
            return
        (wanted, use), *others = uses
        for held in self._operand(wanted, use, bound, depth):
            yield from self._operands(others, held, depth)
            if len(held) == len(bound):
                return  # in whatever other way it fits, it binds no name

    def _operand(self, wanted: ast.Operand, use: Use, bound: Bound, depth: int) -> Iterator[Bound]:
        match wanted.value:
            case ast.Name(name=ast.NOTHING):
                yield bound
            case ast.Name(name=name) if name not in self.equations:
                yield from self._value(name, use, bound, depth)
            case ast.Literal() as number:
                dtype = dtype_of(use.value.type)
                if is_number(number_of(use.value), float(number.value), dtype):
                    yield bound
                else:
                    self._missed(depth, f"{use} is not {print_expression(number)}")
            case ast.Name() | ast.Shape() as made_by:
                is_name = isinstance(made_by, ast.Name)
                name, shape = (made_by.name, self.equations[made_by.name]) if is_name else ("", made_by)
                made = definition_of(use.value)
                if made is None:
                    self._missed(depth, f"{use} is %{use.value.name}, and no {print_shape(shape)}")
                else:
                    yield from self._operation(name, shape, made, bound, depth)

    def _value(self, name: str, use: Use, bound: Bound, depth: int) -> Iterator[Bound]:
        """A name for an operand: one that is bound already stands for the same value."""
        outside, held = self.frame.names.get(name), bound.get(name)
        if outside is None and held is None:
            yield {**bound, name: use}
            return
        if isinstance(outside, OpHandle):
            is_same, other = definition_of(use.value) in self.state.handles.live(outside), describe(outside)
        elif isinstance(outside, OperandHandle):
            refs = value_refs(outside, self.state, self.pattern.location)
            is_same, other = any(_is_same(value_of(ref), use.value) for ref in refs), describe(outside)
        else:
            is_same, other = isinstance(held, Use) and _is_same(held.value, use.value), str(held)
        if is_same:
            yield bound
        else:
            self._missed(depth, f"`{name}` is {other} and {use}")


def _is_same(one: Value, other: Value) -> bool:
    """Whether two values are one, or the same subset of one."""
    a, b = one.defining_op, other.defining_op
    if one is other or not isinstance(a, Materialize) or not isinstance(b, Materialize):
        return one is other
    return a.attributes == b.attributes and all(map(_is_same, a.operands, b.operands))
