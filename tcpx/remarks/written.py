"""What was written of a kernel: its payload, and its schedule, if somebody gave one. Hints say what to change there."""

from collections.abc import Sequence

from tcpx.costs.visits import Run
from tcpx.payload.diagnostics import Direction, Location
from tcpx.payload.ir import Module
from tcpx.records import frozen
from tcpx.remarks import causes
from tcpx.remarks.causes import Cause
from tcpx.remarks.hints import Hint
from tcpx.remarks.payload_hints import PayloadHints, folding
from tcpx.remarks.request import PayloadWork
from tcpx.remarks.schedule_hints import GivenSchedule


@frozen
class Written:
    """`module` is the payload as it was before it was scheduled, None if nothing has it; `given` the schedule, None for
    the default one."""

    module: Module | None
    given: GivenSchedule | None

    def hint(
        self, cause: Cause, at: Location | None, runs: Sequence[Run], kernel: Sequence[Run], payload: PayloadWork
    ) -> Hint:
        """What repairs a statement that is slow at a place of the payload, of the `runs` of the kernel."""
        statements = PayloadHints(self.module, payload) if self.module is not None else None
        if cause is causes.CONSTANT_WORK:
            hint = self._folded(statements, at, runs)
        else:
            hint = self.given.hint(cause, at, runs, kernel) if self.given is not None else None
            if hint is None and statements is not None:
                hint = statements.hint(cause, at, is_scheduled=self.given is not None)
        return hint or Hint(Direction(cause.fix))

    def _folded(self, statements: PayloadHints | None, at: Location | None, runs: Sequence[Run]) -> Hint | None:
        """What is constant, computed at compile time."""
        packed = self.given.folded_pack(runs) if self.given is not None else None
        names = statements.constants(at, runs) if packed is None and statements is not None else []
        if not names:
            return packed
        return self.given.folded(names) if self.given is not None else folding(names)
