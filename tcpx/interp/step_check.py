"""What is wrong with the arguments of one step, found without taking it: classes, dims, sizes."""

from collections.abc import Iterable, Iterator, Mapping

from tcpx.interp.arguments import Prepared, check_op, prepare_argument
from tcpx.interp.arithmetic import size_text
from tcpx.interp.foresight import Foresight, UnforeseenError
from tcpx.interp.frame import Frame
from tcpx.interp.state import State
from tcpx.interp.values import OperandHandle, base_of
from tcpx.payload.diagnostics import Diagnostic, Kind, ScheduleError, TcpxError
from tcpx.payload.interfaces import Tileable
from tcpx.payload.ir import Operation
from tcpx.payload.sizes import Dim, is_less_equal
from tcpx.suggestions import did_you_mean
from tcpx.transform.declaration import ArgumentValue, Digit, DimStep, Parameter, ParameterKind, Transform
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.binding import transform_arguments
from tcpx.transform.language.kinds import MAPS

_DIM_KINDS = (ParameterKind.DIM, ParameterKind.DIMS, *MAPS, ParameterKind.LAYOUT)


def step_findings(
    transform: type[Transform],
    call: ast.Call,
    statement: ast.Statement,
    state: State,
    frame: Frame,
    foresight: Foresight,
) -> Iterator[Diagnostic]:
    """Findings about a step, one per argument at most; arguments that are not known yet are passed over."""
    made = Prepared(transform, frame)
    for name, argument in transform_arguments(transform, call).items():
        parameter = transform.parameter(name)
        if parameter is None:
            continue
        try:
            prepare_argument(made, parameter, argument.value, state, frame)
            held = made.handles.get(name)
            if held is not None and transform.mutates:
                foresight.touched.update(base_of(held[1]).origins)
            if not foresight.is_reshaped:
                _check(made, parameter, argument.value, state)
        except UnforeseenError:
            continue
        except TcpxError as error:
            place = next((op.location for op in _first_ops(made, state)), None)
            yield frame.located(error.diagnostic, statement.location, payload=place).diagnostic


def _check(made: Prepared, parameter: Parameter, node: ast.Expression, state: State) -> None:
    ops = _first_ops(made, state)
    held = made.handles.get(parameter.name)
    if held is not None and not isinstance(held[1], OperandHandle):
        for op in state.handles.live(held[1]):
            check_op(made, parameter, op, node)
    if parameter.type.kind in _DIM_KINDS and ops:
        for op in ops:
            _check_dims(_dims_of(made, parameter), op, node, made.frame)
    value = made.values.get(parameter.name)
    if parameter.type.kind in MAPS:
        for dim, size in _sizes_of(value):
            if is_less_equal(1, size) is False:
                raise made.frame.error(
                    f"a size of `{dim}` is out of range",
                    node,
                    required="at least 1",
                    found=size_text(size),
                    kind=Kind.SILENCEABLE,
                )


def _sizes_of(value: ArgumentValue) -> Iterable[tuple[str, Dim]]:
    if isinstance(value, Mapping):
        return value.items()
    return [(item.dim, item.size) for item in value if isinstance(item, DimStep)] if isinstance(value, tuple) else ()


def _first_ops(made: Prepared, state: State) -> list[Operation]:
    """The operations whose dims the arguments name."""
    return state.handles.live(made.subject) if made.subject is not None else []


def _dims_of(made: Prepared, parameter: Parameter) -> Iterable[str]:
    value = made.values.get(parameter.name)
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Mapping):
        return tuple(value)
    items = value if isinstance(value, tuple) else ()
    return tuple(i.dim if isinstance(i, Digit | DimStep) else i for i in items if isinstance(i, Digit | DimStep | str))


def _check_dims(dims: Iterable[str], op: Operation, node: ast.Expression, frame: Frame) -> None:
    if not isinstance(op, Tileable):
        return
    known = [it.name for it in op.iterators()]
    for dim in dims:
        if dim not in known:
            raise _no_dim(dim, op, known, node, frame)


def _no_dim(dim: str, op: Operation, known: list[str], node: ast.Expression, frame: Frame) -> ScheduleError:
    return frame.error(
        f"%{op.name} has no dim `{dim}`",
        node,
        required=", ".join(known) or "it has none",
        found=dim,
        fix=did_you_mean(dim, known),
        kind=Kind.SILENCEABLE,
    )
