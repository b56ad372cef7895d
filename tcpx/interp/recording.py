"""From the start of a step to its entry in the trace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter

from tcpx.interp.frame import Frame
from tcpx.interp.state import State
from tcpx.interp.trace import TraceEntry
from tcpx.interp.values import OpHandle, RuntimeValue, describe
from tcpx.payload.diagnostics import Location
from tcpx.payload.ir import Operation
from tcpx.records import frozen


@frozen
class Recording:
    """A step that has begun: the journal, the count of visited operations and the clock as they were."""

    state: State
    mark: int
    visited: int
    started: float

    @staticmethod
    def begin(state: State) -> Recording:
        """What is inserted from now on is known to be of the next step."""
        state.rewriter.step = len(state.trace.entries) + 1
        return Recording(state, state.rewriter.mark(), state.rewriter.visited, perf_counter())

    def commit(
        self,
        statement: str,
        transform: str,
        location: Location,
        frame: Frame,
        bound: Mapping[str, str],
        made: Iterable[tuple[str, RuntimeValue]],
        touched: Sequence[Operation],
        remarks: Sequence[str] = (),
        mutates: bool = True,
        snapshots: Sequence[tuple[str, str]] = (),
    ) -> None:
        """The step is done: add its entry to the trace, and tell who wants to know."""
        state, rewriter = self.state, self.state.rewriter
        seconds = perf_counter() - self.started
        entry = TraceEntry(
            index=len(state.trace.entries),
            statement=statement,
            transform=transform,
            location=location,
            calls=frame.calls,
            bound=tuple(bound.items()),
            made=tuple((name, _denoted(value, state)) for name, value in made),
            changed=tuple(f"%{op.name} = {op.opcode}" if op.name else op.opcode for op in touched),
            remarks=tuple(remarks),
            journal=(self.mark, rewriter.mark()),
            visited=rewriter.visited - self.visited,
            seconds=seconds,
            loops=state.nests.of(state.func) if mutates else None,
            edits=state.texts.take_edits() if state.texts is not None else None,
            snapshots=tuple(snapshots),
        )
        state.trace.entries.append(entry)
        if state.on_step is not None:
            state.on_step(entry)


def _denoted(value: RuntimeValue, state: State) -> str:
    """The operations of a handle as they are called now; any other value as it is written."""
    if not isinstance(value, OpHandle):
        return describe(value)
    return ", ".join(f"%{op.name}" for op in state.handles.live(value)) or "nothing"
