"""The meaning of the built-in functions declared in `transform/language/builtins.py`."""

from collections.abc import Callable, Mapping, Sequence
from math import isqrt

from tcpx.interp import chains, navigation
from tcpx.interp.arithmetic import checked, size_text
from tcpx.interp.clusters import clusters, row_clusters
from tcpx.interp.conditions import Condition, conjunction, disjunction
from tcpx.interp.frame import Frame
from tcpx.interp.space.formula import divisors, pow2
from tcpx.interp.state import State
from tcpx.interp.values import DimHandle, OperandHandle, OpHandle, RuntimeValue, as_dim_value, describe, kind_of
from tcpx.limits import LARGEST_DIVIDED
from tcpx.payload.contexts import context_at
from tcpx.payload.diagnostics import Kind
from tcpx.payload.interfaces import Structured, Tileable
from tcpx.payload.ir import Operation, Value
from tcpx.payload.ops.composite import Composite
from tcpx.payload.sizes import (
    Dim,
    align_up,
    is_equal,
    to_text,
    variables,
)
from tcpx.payload.sizes.context import Context
from tcpx.payload.sizes.predicates import Predicate, Relation
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.types import ScalarType, dtype_of, shape_of
from tcpx.target.recipe_costs import regions
from tcpx.transform.arguments import value_of
from tcpx.transform.language import syntax as ast
from tcpx.transform.normal_form import order_of_inputs
from tcpx.transform.position_values import Forms
from tcpx.transform.vectors.instruction_count import instructions_of_vector

Arguments = tuple[RuntimeValue, ...]
Builtin = Callable[[Arguments, State, Frame, ast.Node], RuntimeValue]


def call_function(name: str, args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    """Apply a built-in function; the checker has seen that it exists and takes this many arguments."""
    return checked(_FUNCTIONS[name](args, state, frame, node), frame, node)


def size_of_dim(handle: DimHandle, state: State, frame: Frame, node: ast.Node) -> Dim:
    """The extent of `x.m`; it must be the same for all copies of x."""
    ops = state.handles.resolve(handle.base, node.location)
    tileable = [op for op in ops if isinstance(op, Tileable)]
    sizes = [context_at(op).value(op.size_of(handle.dim)) for op in tileable]
    if not all(isinstance(size, int) for size in sizes):
        sizes = [_known_here(op.size_of(handle.dim), state) for op in tileable]
    for other in sizes[1:]:
        of_one_copy = sizes[0] != other and bool(variables(sizes[0]) or variables(other))
        if is_equal(sizes[0], other) is not True or of_one_copy:
            raise frame.error(
                f"the copies of %{handle.base.label} differ in `{handle.dim}`",
                node,
                required="one size",
                found=", ".join(dict.fromkeys(map(to_text, sizes))),
                fix=f'choose a copy: `{handle.base.label}.copy("main").{handle.dim}`',
                kind=Kind.SILENCEABLE,
            )
    return sizes[0]


def _known_here(size: Dim, state: State) -> Dim:
    """The size, simplified by what is known where the statement stands."""
    return state.handles.facts.value(size)


def _wrong(args: Arguments, required: str, frame: Frame, node: ast.Node) -> Exception:
    shown = ", ".join(f"{kind_of(a)} {describe(a)}" for a in args)
    return frame.error("the function does not take this", node, required=required, found=shown)


def _dim(value: RuntimeValue, frame: Frame, node: ast.Node) -> Dim:
    found = as_dim_value(value)
    if found is None:
        raise _wrong((value,), "an int or a size", frame, node)
    return found


def _int(value: RuntimeValue, frame: Frame, node: ast.Node) -> int:
    found = as_dim_value(value)
    if not isinstance(found, int):
        raise frame.error("a number that is known now is needed", node, required="an int", found=size_text(value))
    return found


def _values(value: RuntimeValue, state: State, frame: Frame, node: ast.Node) -> list[Value]:
    """The value of `x.lhs`, or the only result of `x`, per copy."""
    handle = OperandHandle(value, "out") if isinstance(value, OpHandle) else value
    if not isinstance(handle, OperandHandle):
        raise _wrong((value,), "a value such as `mm.lhs`, or an op", frame, node)
    return [value_of(ref) for ref in navigation.value_refs(handle, state, node.location)]


def _ops(value: RuntimeValue, state: State, frame: Frame, node: ast.Node) -> list[Operation]:
    if not isinstance(value, OpHandle):
        raise _wrong((value,), "an op", frame, node)
    return state.handles.resolve(value, node.location)


def _size(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    (value,) = args
    if isinstance(value, DimHandle):
        return size_of_dim(value, state, frame, node)
    total: Dim = 1
    held = _values(value, state, frame, node)[0]
    for extent in shape_of(held.type):
        total = total * _known_here(extent, state)
    return total


def _dtype(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    (value,) = args
    if isinstance(value, OperandHandle) and value.name == "acc":
        op = state.handles.resolve(value.base, node.location)[0]
        if isinstance(op, Structured):
            return op.acc_type
    return dtype_of(_values(value, state, frame, node)[0].type)


def _scalar_type(value: RuntimeValue, frame: Frame, node: ast.Node) -> ScalarType:
    if not isinstance(value, ScalarType):
        raise _wrong((value,), "a dtype such as `f32`", frame, node)
    return value


def _lanes(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    dtype, *elements = args
    if isinstance(dtype, OpHandle):
        op = _ops(dtype, state, frame, node)[0]
        dtype = max((dtype_of(v.type) for v in (*op.results, *op.operands)), key=lambda t: t.bits)
    name = _scalar_type(dtype, frame, node).name
    return (frame.target or state.target).lanes(name, _int(elements[0], frame, node) if elements else None)


def _dot_width(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    lhs, rhs, acc = (_scalar_type(arg, frame, node).name for arg in args)
    return (frame.target or state.target).dot_width(lhs, rhs, acc)


def _instructions(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    held = args[0] if isinstance(args[0], tuple) else (args[0],)
    total = 0
    for handle in held:
        op = _ops(handle, state, frame, node)[0]
        if not isinstance(op, Structured):
            raise frame.error(
                f"%{op.name} has no instructions for a vector",
                node,
                required="ops that say what they do to elements",
                found=op.opcode,
                fix=f"decompose({op.name})" if isinstance(op, Composite) else None,
                kind=Kind.SILENCEABLE,
            )
        total += instructions_of_vector(op, frame.target or state.target)
    return total


def _bytes(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    del state
    return _scalar_type(args[0], frame, node).bytes


def _footprint(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    """Bytes of a value; of an op, of its distinct operands and its results."""
    (value,) = args
    if isinstance(value, OpHandle):
        op = _ops(value, state, frame, node)[0]
        values = list(dict.fromkeys([*op.operands, *op.results]))
    else:
        values = _values(value, state, frame, node)[:1]
    total: Dim = 0
    for held in values:
        count: Dim = dtype_of(held.type).bytes
        for extent in shape_of(held.type):
            count = count * _known_here(extent, state)
        total = total + count
    return total


def _rank(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    return len(shape_of(_values(args[0], state, frame, node)[0].type))


def _extreme(least: bool) -> Builtin:
    def extreme(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
        items = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
        if not items:
            raise frame.error("an empty list has no least or greatest item", node, required="at least one item")
        if any(isinstance(i, float) for i in items):
            numbers = [i for i in items if isinstance(i, int | float)]
            return min(numbers) if least else max(numbers)
        dims = [_dim(i, frame, node) for i in items]
        return state.handles.facts.minimum(*dims) if least else state.handles.facts.maximum(*dims)

    return extreme


def _divide_up(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    lhs, rhs = (_dim(a, frame, node) for a in args)
    return state.handles.facts.ceildiv(lhs, _positive(rhs, state, frame, node))


def _bound(of: Callable[[Context, Dim], int | None]) -> Builtin:
    """What the branch says of a symbol is part of a size; what it says of an expression is not."""

    def bound(args: Arguments, state: State, frame: Frame, node: ast.Node) -> int:
        found, otherwise = of(state.handles.facts, _dim(args[0], frame, node)), _int(args[1], frame, node)
        return otherwise if found is None else found

    return bound


def _align(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    lhs, rhs = (_dim(a, frame, node) for a in args)
    return align_up(lhs, _positive(rhs, state, frame, node), state.handles.facts.names)


def _positive(divisor: Dim, state: State, frame: Frame, node: ast.Node) -> Dim:
    if state.handles.facts.is_less_equal(1, divisor) is not True:
        raise frame.error(
            "the divisor is not known to be positive",
            node,
            required="at least 1",
            found=to_text(divisor),
            kind=Kind.SILENCEABLE,
        )
    return divisor


def _list(items: range | tuple[int, ...], state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    state.work.items_of(len(items), frame, node)
    return tuple(items)


def _pow2(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    low, high = (_int(a, frame, node) for a in args)
    return _list(pow2(low, high), state, frame, node)


def _multiples(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    step, high = (_int(a, frame, node) for a in args)
    if step < 1:
        raise frame.error("multiples are of a positive number", node, required="at least 1", found=str(step))
    return _list(range(step, high + 1, step), state, frame, node)


def _divisors(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    number = _int(args[0], frame, node)
    if not 0 < number <= LARGEST_DIVIDED:
        required = f"a number from 1 to {LARGEST_DIVIDED}"
        raise frame.error("the divisors of this are not listed", node, required=required, found=str(number))
    state.work.trials(isqrt(number), frame, node)
    return divisors(number)


def _contains(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    held, item = args
    if not isinstance(held, tuple):
        raise _wrong(args, "a list and an item", frame, node)
    state.work.items_of(len(held), frame, node)
    if isinstance(item, OpHandle):
        return any(isinstance(h, OpHandle) and state.handles.same(h, item) for h in held)
    return item in held


def _dims(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    (value,) = args
    if not isinstance(value, OperandHandle):
        raise _wrong(args, "an operand or result such as `mm.lhs`", frame, node)
    return navigation.dims_of_value(value, state, frame, node)


def _operands(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    op = _ops(args[0], state, frame, node)[0]
    if not isinstance(args[0], OpHandle):
        raise _wrong(args, "an op", frame, node)
    roles = op.operand_roles
    order = order_of_inputs(op) if isinstance(op, Structured) else range(len(roles))
    return tuple(OperandHandle(args[0], roles[k]) for k in order)


def _counterparts(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    items, held, others = args
    if not isinstance(items, tuple) or not isinstance(held, tuple) or not isinstance(others, tuple):
        raise _wrong(args, "three lists", frame, node)
    if len(held) != len(others):
        required, found = "lists of the same length", f"{len(held)} and {len(others)} items"
        raise frame.error("items have no counterparts", node, required=required, found=found, kind=Kind.SILENCEABLE)
    pairs = zip(held, others, strict=True)
    return tuple(other for item, other in pairs if _contains((items, item), state, frame, node) is True)


def _without(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    held, others = args
    if not isinstance(held, tuple) or not isinstance(others, tuple):
        raise _wrong(args, "two lists", frame, node)
    return tuple(item for item in held if _contains((others, item), state, frame, node) is False)


def _starting(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    held, first = args
    if not isinstance(held, tuple):
        raise _wrong(args, "a list and one of its items", frame, node)
    at = next((k for k, item in enumerate(held) if _contains(((item,), first), state, frame, node) is True), len(held))
    return held[at:]


def _end(position: int) -> Builtin:
    def end(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
        del state
        (held,) = args
        if not isinstance(held, tuple):
            raise _wrong(args, "a list", frame, node)
        if not held:
            required = "at least one item"
            raise frame.error("an empty list has no such item", node, required=required, kind=Kind.SILENCEABLE)
        return held[position]

    return end


def _only_positions(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    forms = Forms(state.module.constants)
    ops = _ops(args[0], state, frame, node)
    return bool(ops) and all(op.results and all(forms.counts(v) for v in op.results) for op in ops)


def _exists(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    (handle,) = args
    if isinstance(handle, OperandHandle | DimHandle):
        handle = handle.base
    if not isinstance(handle, OpHandle):
        raise _wrong(args, "a handle", frame, node)
    return bool(state.handles.live(handle))


def _len(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    (held,) = args
    if isinstance(held, tuple):
        return len(held)
    return len(_ops(held, state, frame, node))


def _epilogue(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    if not isinstance(args[0], OpHandle):
        raise _wrong(args, "an op", frame, node)
    return chains.epilogue(args[0], state, node.location)


def _prologue(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    if not isinstance(args[0], OperandHandle):
        raise _wrong(args, "an operand such as `mm.lhs`", frame, node)
    return chains.prologue(args[0], state, node.location)


def _parts(found: Callable[[Sequence[Operation]], list[list[Operation]]]) -> Builtin:
    def parts(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
        (held,) = args
        if not isinstance(held, tuple):
            raise _wrong(args, "a list of ops", frame, node)
        state.work.items_of(len(held), frame, node)
        ops = [op for handle in held for op in _ops(handle, state, frame, node)]
        return tuple(tuple(state.handles.of_copy(op) for op in together) for together in found(ops))

    return parts


def _row_clusters(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    found = _parts(row_clusters)(args, state, frame, node)
    lists = [held for held in found if isinstance(held, tuple)] if isinstance(found, tuple) else []
    return tuple((tuple(op for op in held if _reduces(op, state, frame, node)), held) for held in lists)


def _reduces(handle: RuntimeValue, state: State, frame: Frame, node: ast.Node) -> bool:
    return any(isinstance(op, Structured) and Reduction.of(op) is not None for op in _ops(handle, state, frame, node))


def _like(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    held, op = args
    if not isinstance(held, tuple) or not isinstance(op, OpHandle):
        raise _wrong(args, "a list of dims and an op", frame, node)
    wanted = {d.dim for d in held if isinstance(d, DimHandle)}
    found = _ops(op, state, frame, node)[0]
    its = found.iterators() if isinstance(found, Tileable) else ()
    return tuple(DimHandle(op, it.name) for it in its if it.name in wanted)


def _reversed(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    (held,) = args
    if not isinstance(held, tuple):
        raise _wrong(args, "a list", frame, node)
    state.work.items_of(len(held), frame, node)
    return held[::-1]


def _producer(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    if not isinstance(args[0], OperandHandle):
        raise _wrong(args, "an operand such as `mm.lhs`", frame, node)
    return navigation.producer(args[0], state, frame, node)


def _users(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    if not isinstance(args[0], OperandHandle | OpHandle):
        raise _wrong(args, "an op or a value", frame, node)
    return navigation.users(args[0], state, node.location)


def _parent(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    if not isinstance(args[0], OpHandle):
        raise _wrong(args, "an op", frame, node)
    return navigation.parent(args[0], state, frame, node)


def _cheapest(args: Arguments, state: State, frame: Frame, node: ast.Node) -> RuntimeValue:
    """Whether the first of some recipes costs least: a condition on sizes, for regions in which it does."""
    kind, recipes, rows, held = args
    names = [name for name in recipes if isinstance(name, str)] if isinstance(recipes, tuple) else []
    if not isinstance(kind, str) or not names or names != list(recipes if isinstance(recipes, tuple) else ()):
        raise _wrong(args, "a kind of product, and a list of recipes", frame, node)
    target = frame.target or state.target
    if kind not in target.costs:
        required = f"one of {', '.join(target.costs)}"
        raise frame.error(f"{target.name} has no costs of `{kind}`", node, required=required, found=kind)
    count, size = _dim(rows, frame, node), _dim(held, frame, node)
    found: Condition = False
    for region in regions(target.costs[kind], names[0], names[1:]):
        limits: tuple[tuple[Relation, Dim, int | None], ...] = (
            (">=", count, region.least_rows if region.least_rows > 1 else None),
            ("<=", count, region.most_rows),
            (">", size, region.least_bytes or None),
            ("<=", size, region.most_bytes),
        )
        inside: Condition = True
        for relation, value, limit in limits:
            if limit is not None:
                made = Predicate.of(relation, value, limit)
                decided = state.handles.facts.decide(made)
                inside = conjunction(inside, made if decided is None else decided)
        found = disjunction(found, inside)
    return found


_FUNCTIONS: Mapping[str, Builtin] = {
    "size": _size,
    "dtype": _dtype,
    "dot_width": _dot_width,
    "lanes": _lanes,
    "instructions": _instructions,
    "cheapest": _cheapest,
    "bytes": _bytes,
    "footprint": _footprint,
    "rank": _rank,
    "min": _extreme(least=True),
    "max": _extreme(least=False),
    "ceildiv": _divide_up,
    "align_up": _align,
    "lower_bound": _bound(Context.lower_bound),
    "upper_bound": _bound(Context.upper_bound),
    "pow2": _pow2,
    "multiples": _multiples,
    "divisors": _divisors,
    "dims": _dims,
    "contains": _contains,
    "operands": _operands,
    "counterparts": _counterparts,
    "without": _without,
    "starting": _starting,
    "outermost": _end(0),
    "innermost": _end(-1),
    "only_positions": _only_positions,
    "exists": _exists,
    "len": _len,
    "epilogue": _epilogue,
    "prologue": _prologue,
    "clusters": _parts(clusters),
    "row_clusters": _row_clusters,
    "like": _like,
    "reversed": _reversed,
    "producer": _producer,
    "users": _users,
    "parent": _parent,
}
