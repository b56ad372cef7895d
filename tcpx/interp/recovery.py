"""Going back to before a block of statements: payload, trace, output, coverage, knobs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tcpx.interp.knobs import KnobUse
from tcpx.interp.state import Mark, State


@dataclass(frozen=True, slots=True)
class Savepoint:
    """What `try` needs to undo an alternative."""

    mark: int
    entries: int
    output: int
    marked: frozenset[Mark]
    knobs: tuple[KnobUse, ...]
    branches: int
    attempts: int
    remarks: int

    @staticmethod
    def take(state: State) -> Savepoint:
        trace = state.trace
        return Savepoint(
            state.rewriter.mark(),
            len(trace.entries),
            len(trace.output),
            frozenset(state.marked),
            tuple(state.overrides.uses),
            len(state.handles.branches),
            len(trace.attempts),
            len(trace.remarks),
        )

    def restore(self, state: State) -> None:
        """Undo; what was printed since stays, marked as rolled back."""
        state.rewriter.rollback(self.mark)
        state.rewriter.take_touched()
        state.nests.clear()
        if state.texts is not None:
            state.texts.forget()
        state.handles.forget_ends()
        del state.handles.branches[self.branches :]
        trace = state.trace
        del trace.entries[self.entries :]
        del trace.attempts[self.attempts :]
        del trace.remarks[self.remarks :]
        trace.output[self.output :] = [replace(line, rolled_back=True) for line in trace.output[self.output :]]
        state.marked.clear()
        state.marked.update(self.marked)
        state.overrides.uses[:] = self.knobs
