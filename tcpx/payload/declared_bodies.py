"""Bodies of operations that other packages declare: each is built once where a payload is read, so that what is wrong
with a declaration is said of the operation, before a step or the lowering needs its body."""

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tcpx.payload.diagnostics import Direction, TcpxError
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Block, Module, Operation, Value
from tcpx.payload.traits.positions import positions_read
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.scan import Scan
from tcpx.payload.types import dtype_of
from tcpx.plurals import counted

PACKAGE: Final = __name__.partition(".")[0]
FOLDER: Final = Path(__file__).parents[1]


def check_declared_bodies(module: Module) -> None:
    """Raise VerifyError where the body of an operation from outside of the package cannot be built."""
    for op in module.walk():
        if isinstance(op, Structured) and not op.regions and is_declared_outside(type(op)):
            _check(op)


def is_declared_outside(op_class: type[Operation]) -> bool:
    """Whether another package declares the class."""
    return op_class.__module__.partition(".")[0] != PACKAGE


def _check(op: Structured) -> None:
    block, types = Block(), op.acc_types

    def build(made: Operation) -> Value:
        return block.append(made).result

    def scalars(name: str) -> list[Value]:
        return [Value(f"{name}{k}", dtype, block) for k, dtype in enumerate(types)]

    inputs = [Value(f"e{k}", dtype_of(value.type), block) for k, value in enumerate(op.inputs)]
    inputs += [Value(f"at{k}", position.dtype, block) for k, position in enumerate(positions_read(op))]
    accumulates = bool(op.inits) or Reduction.of(op) is not None
    accumulators = scalars("acc") if accumulates and (Scan.of(op) is not None or len(types) == 1) else []
    own = "scalar_body" if type(op).elements is Structured.elements else "elements"
    _check_values(op, own, lambda: op.elements(build, inputs, accumulators), "the elements of its inputs")
    if accumulates and Scan.of(op) is None:
        own = "joined" if hasattr(type(op), "joined") else "combine"
        _check_values(op, own, lambda: Reduction(op).joined(build, scalars("a"), scalars("b")), "two partial results")


def _check_values(op: Structured, method: str, call: Callable[[], Sequence[Value | None]], given: str) -> None:
    """A method gives a value for each result. One that is not declared is asked for where it is needed."""
    count = len(op.results)
    required = f"{counted(count, 'value')}, one for each result, of {given}"
    try:
        found = tuple(call())
    except TcpxError:
        return
    except Exception as error:
        place = _place(error)
        raise op.error(
            f"`{method}` of its declaration fails",
            required=required,
            found=f"{type(error).__name__}: {error}" if str(error) else type(error).__name__,
            fix=Direction(f"correct `{method}`{f': it fails at {place}' if place else ''}"),
        ) from error
    if len(found) == count and None not in found:
        return
    raise op.error(
        f"`{method}` of its declaration gives no value for each result",
        required=required,
        found="`None`" if None in found else counted(len(found), "value"),
        fix=Direction(f"correct `{method}`"),
    )


def _place(error: Exception) -> str:
    """Where the declaration was when it failed."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not Path(f.filename).is_relative_to(FOLDER)]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
