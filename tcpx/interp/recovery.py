"""Going back to before a block of statements: payload, trace, output, coverage, knobs."""

from __future__ import annotations

from dataclasses import replace

from tcpx.interp.state import State
from tcpx.records import frozen
from tcpx.transform.loop_nest import Nest


@frozen
class Savepoint:
    """What `try` needs to undo an alternative."""

    mark: int
    entries: int
    output: int
    marked: int
    written: int
    knobs: int
    branches: int
    attempts: int
    remarks: int
    refusals: int
    nest: Nest

    @staticmethod
    def take(state: State) -> Savepoint:
        trace = state.trace
        return Savepoint(
            state.rewriter.mark(),
            len(trace.entries),
            len(trace.output),
            len(state.marked),
            len(state.written),
            state.knobs.mark(),
            len(state.handles.branches),
            len(trace.attempts),
            len(trace.remarks),
            len(trace.refusals),
            state.nests.of(state.func),
        )

    def restore(self, state: State) -> None:
        """Undo; what was printed since stays, marked as rolled back."""
        state.rewriter.rollback(self.mark)
        state.rewriter.take_touched()
        state.nests.back_to(self.nest)
        if state.texts is not None:
            state.texts.forget()
        state.handles.forget_ends()
        del state.handles.branches[self.branches :]
        trace = state.trace
        del trace.entries[self.entries :]
        del trace.attempts[self.attempts :]
        del trace.remarks[self.remarks :]
        del trace.refusals[self.refusals :]
        trace.output[self.output :] = [replace(line, rolled_back=True) for line in trace.output[self.output :]]
        while len(state.marked) > self.marked:
            state.marked.popitem()
        while len(state.written) > self.written:
            state.written.popitem()
        state.knobs.rollback(self.knobs)
