"""Times of the statements of a function that are outside of its loops."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from tcpx.emit_c.printer.context import FunctionContext
from tcpx.emit_c.printer.scopes import Scope
from tcpx.emit_c.signature import Clock
from tcpx.payload.ir import Operation
from tcpx.payload.ops.gml_st import Conditional

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
    """Whether an operation is measured: the kernel is to be timed, and it is a loop, a call or a copy that no loop is
    round."""
    if context.kernel.clocks is None:
        return False
    return bool(op.regions or op.callee is not None or op.work != 0) and _is_outermost(op)


@contextmanager
def timed(op: Operation, context: FunctionContext, scope: Scope) -> Generator[None, None, None]:
    """Measure what is printed for an operation inside, if it is one that is measured."""
    clocks = context.kernel.clocks
    if clocks is None or not is_timed(op, context):
        yield
        return
    callee = op.callee.name if op.callee is not None else ""
    name, number = op.name or op.opcode, len(clocks)
    clocks.append(Clock(context.func.name, name, callee))
    start, times = context.names.fresh("start"), context.kernel.times_name
    context.needs.times = (times,)
    scope.statement(f"const int64_t {start} = tcpx_now();")
    yield
    scope.statement(f"tcpx_add_time({times} + {2 * number}, {start});")


def _is_outermost(op: Operation) -> bool:
    """Whether only branches are round it, of which it is none: what is in them is measured."""
    return not isinstance(op, Conditional) and all(
        isinstance(outer, Conditional) or outer.parent is None for outer in op.ancestors()
    )
