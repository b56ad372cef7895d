"""From the arguments of a statement to the `Arguments` of a transform, for one copy of its handles."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tcpx.interp.arithmetic import size_text, undecided
from tcpx.interp.conditions import AnyOf
from tcpx.interp.dim_owners import own_dim
from tcpx.interp.expressions import condition, dim_name, evaluate, role_of, role_value
from tcpx.interp.frame import Frame
from tcpx.interp.handles import partner
from tcpx.interp.navigation import value_ref
from tcpx.interp.state import State
from tcpx.interp.values import (
    DimHandle,
    OperandHandle,
    OpHandle,
    RuntimeValue,
    Side,
    as_dim_value,
    base_of,
    describe,
    kind_of,
)
from tcpx.payload.diagnostics import Direction, Kind, ScheduleError
from tcpx.payload.ir import FuncOp, Operation
from tcpx.payload.lookup import is_a
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.sizes import Dim
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.traits.tree import Tree
from tcpx.payload.types import ScalarType
from tcpx.suggestions import did_you_mean
from tcpx.transform.declaration import (
    Arguments,
    ArgumentValue,
    Digit,
    DimStep,
    Parameter,
    ParameterKind,
    Required,
    Transform,
)
from tcpx.transform.language import syntax as ast

_HANDLES = (
    ParameterKind.OP,
    ParameterKind.LOOP,
    ParameterKind.OP_OR_LOOP,
    ParameterKind.FUNC,
    ParameterKind.VALUE,
)


@dataclass(slots=True)
class Prepared:
    """Arguments evaluated once: handles are left to be resolved per copy, everything else is final."""

    transform: type[Transform]
    frame: Frame
    handles: dict[str, tuple[Parameter, OpHandle | OperandHandle, ast.Expression]] = field(
        default_factory=dict[str, tuple[Parameter, OpHandle | OperandHandle, ast.Expression]]
    )
    values: dict[str, ArgumentValue] = field(default_factory=dict[str, ArgumentValue])
    bound: dict[str, str] = field(default_factory=dict[str, str])
    listed: list[Operation] = field(default_factory=list[Operation])
    """Operations of list arguments."""
    narrowed: list[tuple[Side, ...]] = field(default_factory=list[tuple[Side, ...]])
    """What each handle to operations is narrowed to."""

    entries: list[tuple[int, bool]] = field(default_factory=list[tuple[int, bool]])
    """How many dims each entry of a map stands for, and whether its key is a list of them."""

    @property
    def sides(self) -> tuple[Side, ...]:
        """What all handles are narrowed to."""
        return tuple(side for side in (self.narrowed or [()])[0] if all(side in other for other in self.narrowed))

    @property
    def subject(self) -> OpHandle | None:
        """The computation of the first handle, whose dims the other arguments name."""
        first = next((handle for _, handle, _ in self.handles.values()), None)
        return base_of(first) if first is not None else None


def prepare(transform: type[Transform], bound: Mapping[str, ast.Argument], state: State, frame: Frame) -> Prepared:
    """Evaluate the arguments of a statement; absent ones get their defaults."""
    made = Prepared(transform, frame)
    for parameter in transform.parameters:
        argument = bound.get(parameter.name)
        if argument is None:
            default = parameter.default
            made.values[parameter.name] = None if isinstance(default, Required) else default
            continue
        prepare_argument(made, parameter, argument.value, state, frame)
    return made


def prepare_argument(made: Prepared, parameter: Parameter, node: ast.Expression, state: State, frame: Frame) -> None:
    """Evaluate one argument and keep it."""
    name = parameter.name
    if parameter.type.kind in _HANDLES:
        value = evaluate(node, state, frame)
        made.bound[name] = describe(value)
        handle = _as_handle(value, parameter, made, node)
        made.handles[name] = (parameter, handle, node)
        made.narrowed.append(base_of(handle).sides)
        return
    converted = _convert(made, parameter, node, state, frame)
    made.values[name] = converted
    made.bound[name] = _shown(converted)


def _shown(value: ArgumentValue) -> str:
    if isinstance(value, Mapping):
        return "[" + ", ".join(f"{k}: {v}" for k, v in value.items()) + "]"
    if isinstance(value, tuple):
        return "[" + ", ".join(f"%{v.name}" if isinstance(v, Operation) else str(v) for v in value) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _mismatch(
    made: Prepared, parameter: Parameter, found: str, node: ast.Node, fix: str | None = None
) -> ScheduleError:
    return made.frame.error(
        f"`{parameter.name}` of `{made.transform.name}` does not fit",
        node,
        required=str(parameter.type),
        found=found,
        fix=fix,
        kind=Kind.SILENCEABLE,
    )


def _as_handle(value: RuntimeValue, parameter: Parameter, made: Prepared, node: ast.Node) -> OpHandle | OperandHandle:
    if isinstance(value, tuple) and len(value) == 1:
        (value,) = value
    if isinstance(value, OpHandle):
        return OperandHandle(value, "out") if parameter.type.kind is ParameterKind.VALUE else value
    if isinstance(value, OperandHandle) and parameter.type.kind is ParameterKind.VALUE:
        return value
    if isinstance(value, tuple):
        fix = "go through the list: `for x in ... { ... }`" if value else None
        raise _mismatch(made, parameter, f"a list of {len(value)}", node, fix)
    fix = "`producer(...)` is the op that makes a value" if isinstance(value, OperandHandle) else None
    raise _mismatch(made, parameter, f"{kind_of(value)} {describe(value)}", node, fix)


def _convert(made: Prepared, parameter: Parameter, node: ast.Expression, state: State, frame: Frame) -> ArgumentValue:
    match parameter.type.kind:
        case ParameterKind.DIM:
            return dim_name(node, made.subject, state, frame)
        case ParameterKind.DIMS:
            return _dims(made, parameter, node, state, frame)
        case ParameterKind.DIM_SIZES:
            return _sizes(made, parameter, node, state, frame)
        case ParameterKind.DIM_STEPS:
            return _steps(made, parameter, node, state, frame)
        case ParameterKind.LAYOUT:
            items = node.items if isinstance(node, ast.ListOf) else (node,)
            return tuple(digit for item in items for digit in _digits(made, parameter, item, state, frame))
        case ParameterKind.ENUM:
            return _choice(made, parameter, node, state, frame)
        case ParameterKind.NAME if isinstance(node, ast.Name):
            return node.name
        case ParameterKind.PREDICATE:
            held = condition(node, state, frame)
            if isinstance(held, AnyOf):
                raise _mismatch(made, parameter, f"{held}", node, "use one comparison, or several joined by `and`")
            return _constant_predicate(held) if isinstance(held, bool) else held
        case ParameterKind.OPS | ParameterKind.LOOPS:
            return _listed(made, parameter, node, state, frame)
        case _:
            return _plain(made, parameter, evaluate(node, state, frame), node)


def _constant_predicate(held: bool) -> Predicate:
    return Predicate() if held else Predicate.of("==", 0, 1)


def _dims(made: Prepared, parameter: Parameter, node: ast.Expression, state: State, frame: Frame) -> tuple[str, ...]:
    if isinstance(node, ast.ListOf):
        return tuple(name for item in node.items for name in _keyed(made, parameter, item, state, frame)[0])
    return _dims_in(made, parameter, evaluate(node, state, frame), node, state, frame)


def _dims_in(
    made: Prepared, parameter: Parameter, held: RuntimeValue, node: ast.Expression, state: State, frame: Frame
) -> tuple[str, ...]:
    """The dims of a list."""
    found = held if isinstance(held, tuple) else ()
    listed = [item for item in found if isinstance(item, DimHandle)]
    if held != tuple(listed):
        raise _mismatch(made, parameter, describe(held), node, Direction("list the dims: `[m, n]`"))
    return tuple(
        item.dim if made.subject is None else own_dim(item, made.subject, state, frame, node) for item in listed
    )


def _sizes(made: Prepared, parameter: Parameter, node: ast.Expression, state: State, frame: Frame) -> Mapping[str, Dim]:
    sizes: dict[str, Dim] = {}
    for step in _steps(made, parameter, node, state, frame):
        if step.dim in sizes:
            keys = [key for key, _ in node.entries] if isinstance(node, ast.MapOf) else [node]
            raise _mismatch(made, parameter, f"`{step.dim}` twice", keys[step.entry])
        sizes[step.dim] = step.size
    return sizes


def _steps(
    made: Prepared, parameter: Parameter, node: ast.Expression, state: State, frame: Frame
) -> tuple[DimStep, ...]:
    if not isinstance(node, ast.MapOf):
        raise _mismatch(made, parameter, "no map", node, "write `[n: 64]`")
    steps: list[DimStep] = []
    for k, (key, entry) in enumerate(node.entries):
        value = evaluate(entry, state, frame)
        size = as_dim_value(value)
        names, is_listed = _keyed(made, parameter, key, state, frame)
        for name in names:
            if size is None:
                raise _mismatch(made, parameter, f"{name}: {describe(value)}", entry)
            steps.append(DimStep(name, size, k))
        made.entries.append((len(names), is_listed))
    return tuple(steps)


def _keyed(
    made: Prepared, parameter: Parameter, key: ast.Expression, state: State, frame: Frame
) -> tuple[tuple[str, ...], bool]:
    """The dim that a key of a map or an item of a list is, or those of the list that it gives, and whether it is a
    list."""
    held = frame.names.get(key.name) if isinstance(key, ast.Name) else evaluate(key, state, frame)
    role = role_of(made.subject, key.name) if isinstance(key, ast.Name) and key.name not in frame.names else None
    if role is not None and made.subject is not None:
        held = role_value(role, made.subject, state, frame, key)
    if isinstance(held, tuple):
        return _dims_in(made, parameter, held, key, state, frame), True
    return (dim_name(key, made.subject, state, frame),), False


def _digits(
    made: Prepared, parameter: Parameter, node: ast.Expression, state: State, frame: Frame
) -> tuple[Digit, ...]:
    """The digit that an item of a layout is, or the dims of the list that it gives."""
    if isinstance(node, (ast.Padded, ast.Binary)):
        return (_digit(made, node, state, frame),)
    return tuple(Digit(name) for name in _keyed(made, parameter, node, state, frame)[0])


def _digit(made: Prepared, node: ast.Expression, state: State, frame: Frame) -> Digit:
    match node:
        case ast.Padded():
            digit = _digit(made, node.digit, state, frame)
            return Digit(digit.dim, digit.floordiv, digit.mod, _static(node.to, state, frame))
        case ast.Binary(operator="/"):
            return Digit(dim_name(node.lhs, made.subject, state, frame), floordiv=_static(node.rhs, state, frame))
        case ast.Binary(operator="%"):
            inner = _digit(made, node.lhs, state, frame)
            return Digit(inner.dim, inner.floordiv, _static(node.rhs, state, frame), inner.pad)
        case _:
            return Digit(dim_name(node, made.subject, state, frame))


def _static(node: ast.Expression, state: State, frame: Frame) -> int:
    value = evaluate(node, state, frame)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise frame.error(
            "a digit of a layout has a static extent", node, required="an int, at least 1", found=size_text(value)
        )
    return value


def _choice(made: Prepared, parameter: Parameter, node: ast.Expression, state: State, frame: Frame) -> str:
    choices = parameter.type.choices
    if isinstance(node, ast.Name) and node.name in choices:
        return node.name
    value = evaluate(node, state, frame)
    if not isinstance(value, str) or value not in choices:
        raise _mismatch(made, parameter, describe(value), node, did_you_mean(str(value), choices))
    return value


def _listed(
    made: Prepared, parameter: Parameter, node: ast.Expression, state: State, frame: Frame
) -> tuple[Operation, ...]:
    value = evaluate(node, state, frame)
    ops: list[Operation] = []
    for item in value if isinstance(value, tuple) else (value,):
        if not isinstance(item, OpHandle):
            raise _mismatch(made, parameter, f"{kind_of(item)} {describe(item)}", node)
        made.narrowed.append(item.sides)
        ops += state.handles.resolve(item, node.location)
    unique = tuple(dict.fromkeys(ops))
    for op in unique:
        check_op(made, parameter, op, node)
    made.listed += unique
    return unique


def _plain(made: Prepared, parameter: Parameter, value: RuntimeValue, node: ast.Expression) -> ArgumentValue:
    dim = as_dim_value(value)
    match parameter.type.kind:
        case ParameterKind.INT if isinstance(dim, int):
            return dim
        case ParameterKind.SIZE if dim is not None:
            return dim
        case ParameterKind.FLOAT if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        case ParameterKind.BOOL if isinstance(value, bool):
            return value
        case ParameterKind.BOOL if isinstance(value, Predicate | AnyOf):
            raise undecided(value, f"`{parameter.name}` of `{made.transform.name}`", made.frame, node)
        case ParameterKind.STRING | ParameterKind.NAME if isinstance(value, str):
            return value
        case ParameterKind.DTYPE if isinstance(value, ScalarType):
            return value
        case ParameterKind.INTS if isinstance(value, tuple):
            numbers = tuple(i for i in map(as_dim_value, value) if isinstance(i, int))
            if len(numbers) == len(value):
                return numbers
        case _:
            pass
    raise _mismatch(made, parameter, f"{kind_of(value)} {size_text(value)}", node)


# -- per copy ----------------------------------------------------------------------------------------------------


def copies_of(made: Prepared, state: State) -> list[Operation]:
    """The operations of the first handle argument, in program order: one application each."""
    for _, handle, node in made.handles.values():
        return state.handles.resolve(base_of(handle), node.location)
    return []


def all_copies_of(made: Prepared, state: State) -> list[Operation]:
    """The operations of all handle arguments that denote any, and of lists of them."""
    live = (op for _, handle, _ in made.handles.values() for op in state.handles.live(base_of(handle)))
    return [*live, *made.listed]


def arguments_for(made: Prepared, copy: Operation | None, state: State) -> Arguments:
    """The arguments for one copy of the first handle; copies of the others are matched to it."""
    values = dict(made.values)
    for position, (name, (parameter, handle, node)) in enumerate(made.handles.items()):
        base = base_of(handle)
        op = copy
        if position > 0 or copy is None:
            others = state.handles.resolve(base, node.location)
            op = partner(copy, others, base.label, node.location) if copy is not None else others[0]
        if op is None:
            continue
        if isinstance(handle, OperandHandle):
            values[name] = value_ref(op, handle.name)
        else:
            check_op(made, parameter, op, node)
            values[name] = op
    return Arguments(made.transform.name, values)


def check_op(made: Prepared, parameter: Parameter, op: Operation, node: ast.Node) -> None:
    """Whether an operation is what the parameter is declared to take."""
    kind, op_class = parameter.type.kind, parameter.type.op_class
    fits = {
        ParameterKind.OP: not isinstance(op, FuncOp) and (not op_class or is_a(op, op_class)),
        ParameterKind.LOOP: isinstance(op, Loop),
        ParameterKind.LOOPS: isinstance(op, Loop),
        ParameterKind.FUNC: isinstance(op, FuncOp),
    }.get(kind, True)
    if not fits:
        classes = f", {' < '.join(Tree(op).tree_classes())}" if Tree(op).tree_classes() else ""
        raise _mismatch(made, parameter, f"%{op.name} ({op.opcode}{classes})", node)
    if isinstance(op, Loop) and not op.is_counted and made.transform.needs_count and kind is not ParameterKind.OP:
        raise made.frame.error(
            f"how often {op.name} runs, only the data say",
            node,
            required=f"a loop with a number of iterations for `{made.transform.name}`",
            found=op.opcode,
            fix=Direction("transform the operations in it"),
            kind=Kind.SILENCEABLE,
        )
