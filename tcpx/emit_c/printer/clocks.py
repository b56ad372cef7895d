"""Times of the statements of a function that are outside of its loops, of the kernel, and of the clocks."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from tcpx.emit_c.printer.context import FunctionContext
from tcpx.emit_c.printer.scopes import Scope
from tcpx.emit_c.signature import EMPTY, KERNEL, PAIR, Clock
from tcpx.payload.ir import Block, FuncOp, Operation
from tcpx.payload.ops.assertion import Assert
from tcpx.payload.ops.gml_st import Conditional, OnSubset
from tcpx.payload.ops.index import Bind
from tcpx.payload.traits.call import Calling
from tcpx.payload.traits.memory import Memory

NOW: Final = """\
static inline int64_t tcpx_now(void) {
  struct timespec now;
  timespec_get(&now, TIME_UTC);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Functions may run on several threads. */
static inline void tcpx_add_time(int64_t *times, int64_t start) {
  __atomic_fetch_add(times, tcpx_now() - start, __ATOMIC_RELAXED);
  __atomic_fetch_add(times + 1, 1, __ATOMIC_RELAXED);
}"""


def is_timed(op: Operation, context: FunctionContext) -> bool:
    """Whether an operation has a clock of its own: the kernel is to be timed, and it is a loop, a call or a copy that
    no loop is round."""
    if context.kernel.clocks is None or isinstance(op, Conditional):
        return False
    return bool(op.regions or Calling(op).callee is not None or Calling(op).work != 0) and _is_outside_of_loops(op)


@contextmanager
def timed(op: Operation, context: FunctionContext, scope: Scope) -> Generator[None, None, None]:
    """Measure what is printed for an operation inside, if it is one that is measured."""
    if not is_timed(op, context):
        yield
        return
    called = Calling(op).callee
    callee = called.name if called is not None else ""
    called = (Calling(inner).callee for inner in op.walk())
    inside = tuple(dict.fromkeys(func.name for func in called if func is not None))
    with _clock(Clock(context.func.name, op.name or op.opcode, callee, inside=inside), context, scope):
        yield


@contextmanager
def timed_kernel(context: FunctionContext, scope: Scope) -> Generator[None, None, None]:
    """Measure all of the kernel, if it is to be timed, and before it what clocks cost: one of nothing, and one of that
    clock."""
    if context.kernel.clocks is None:
        yield
        return
    name = context.func.name
    with _clock(Clock(name, "", kind=PAIR), context, scope), _clock(Clock(name, "", kind=EMPTY), context, scope):
        pass
    with _clock(Clock(name, "", kind=KERNEL), context, scope):
        yield


class StraightLines:
    """Operations of a block that follow each other, have no loops, and write memory, such as those of an unrolled loop:
    they have one clock together, without a name."""

    def __init__(self, block: Block, context: FunctionContext) -> None:
        self._context = context
        self._first: set[Operation] = set()
        self._last: set[Operation] = set()
        self._start, self._number = "", 0
        outer = block.parent
        is_branch = isinstance(outer, Conditional | FuncOp) and _is_outside_of_loops(outer)
        lines: list[Operation] = []
        for op in block.ops if context.kernel.clocks is not None and is_branch else ():
            if isinstance(op, Conditional | Bind | Assert) or op.is_terminator or is_timed(op, context):
                self._add(lines)
                lines = []
            elif context.live.is_live(op) and (lines or Memory(op).has_side_effects or isinstance(op, OnSubset)):
                lines.append(op)
        self._add(lines)

    def _add(self, lines: list[Operation]) -> None:
        writes = [op for op in lines if Memory(op).has_side_effects]
        if writes:
            self._first.add(lines[0])
            self._last.add(writes[-1])

    def begin(self, op: Operation, scope: Scope) -> None:
        """Start the clock before the first of them."""
        if op in self._first:
            self._start, self._number = _started(Clock(self._context.func.name, ""), self._context, scope)

    def end(self, op: Operation, scope: Scope) -> None:
        """Stop it after the last that writes."""
        if op in self._last:
            _stop(self._start, self._number, self._context, scope)


@contextmanager
def _clock(clock: Clock, context: FunctionContext, scope: Scope) -> Generator[None, None, None]:
    start, number = _started(clock, context, scope)
    yield
    _stop(start, number, context, scope)


def _started(clock: Clock, context: FunctionContext, scope: Scope) -> tuple[str, int]:
    """The C variable with the time, and the number of the clock."""
    clocks = context.kernel.clocks
    assert clocks is not None
    start, number = context.names.fresh("start"), len(clocks)
    clocks.append(clock)
    context.needs.times = (context.kernel.times_name,)
    scope.statement(f"const int64_t {start} = tcpx_now();")
    return start, number


def _stop(start: str, number: int, context: FunctionContext, scope: Scope) -> None:
    scope.statement(f"tcpx_add_time({context.kernel.times_name} + {2 * number}, {start});")


def _is_outside_of_loops(op: Operation) -> bool:
    """Whether only branches are round it, in its function."""
    return all(isinstance(outer, Conditional | FuncOp) for outer in op.ancestors())
