"""What threads run before and after the micro-kernels of the target that they call."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, NamedTuple

from tcpx.payload.ir import FuncOp, Operation
from tcpx.payload.ops.call import RowCall
from tcpx.payload.ops.gml_st import Loop, runs_at_most_once
from tcpx.target import KernelRow, Target, TargetError


def kernel_row(op: RowCall, target: Target) -> KernelRow:
    """The row that a call names. Raises VerifyError where the target has none, or one that does something else."""
    func = op.called
    try:
        row = target.kernel(func.row or "")
    except TargetError as error:
        known = error.diagnostic
        raise op.error(known.message, known.required, known.found, "compile for the target of this row") from error
    if row.text != func.text():
        wanted, found = (" ".join(text.split()) for text in (row.text, func.text()))
        raise op.error(f"the row {row.name} of {target.name} is not that of the payload", wanted, found)
    return row


class SetUp(NamedTuple):
    """The statements that a thread runs before it calls rows, and after."""

    begin: str
    end: str


NONE: Final = SetUp("", "")


class SetUps:
    """Where the set-up of rows stands: round the outermost statement in which all that have one have the same, but
    inside the loop whose iterations are shared among threads, so that each of them runs it."""

    __slots__ = ("_around", "_is_active", "_shared")

    def __init__(self, func: FuncOp, target: Target, threads: int) -> None:
        self._around: dict[Operation, set[SetUp]] = {}
        self._shared: set[Operation] = set()
        self._is_active = False
        for call in (op for op in func.walk() if isinstance(op, RowCall)):
            row = kernel_row(call, target)
            held = SetUp(row.set_up, row.tear_down)
            around = [call, *call.ancestors()] if held != NONE else []
            shared = [op for op in around if threads > 1 and _is_shared(op)][-1:]
            self._shared.update(shared)
            for op in around:
                self._around.setdefault(op, set()).add(held)
                held = NONE if op in shared else held

    def at(self, op: Operation) -> SetUp:
        """What goes round an operation that one thread runs."""
        return NONE if op in self._shared else self.of_threads(op)

    def of_threads(self, op: Operation) -> SetUp:
        """What each of the threads that share the iterations of a loop runs."""
        found = () if self._is_active else self._around.get(op, ())
        return next(iter(found)) if len(found) == 1 else NONE

    @contextmanager
    def active(self, setup: SetUp) -> Generator[None]:
        """What is printed within has its set-up, if this is one."""
        outer, self._is_active = self._is_active, self._is_active or setup != NONE
        yield
        self._is_active = outer


def _is_shared(op: Operation) -> bool:
    return isinstance(op, Loop) and op.is_parallel and not runs_at_most_once(op)
