"""What was written of a kernel: its payload, and its schedule, if somebody gave one. Hints say what to change there."""

from collections.abc import Iterator, Sequence

from tcpx.costs.visits import Run
from tcpx.payload.diagnostics import Location
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

    def hints(
        self, cause: Cause, at: Location | None, runs: Sequence[Run], kernel: Sequence[Run], payload: PayloadWork
    ) -> Iterator[Hint]:
        """What may repair a statement that is slow at a place of the payload, of the `runs` of the kernel; the smallest
        change first."""
        statements = PayloadHints(self.module, payload) if self.module is not None else None
        if cause is causes.CONSTANT_WORK:
            yield from self._folded(statements, at, runs, kernel)
        if cause is causes.PASSES and self.given is not None and statements is not None:
            yield from self.given.fused(statements.read_by(at), runs, kernel)
        if self.given is not None:
            yield from self.given.hints(cause, at, runs, kernel)
        if statements is not None:
            yield from statements.hints(cause, at, is_scheduled=self.given is not None)

    def _folded(
        self, statements: PayloadHints | None, at: Location | None, runs: Sequence[Run], kernel: Sequence[Run]
    ) -> Iterator[Hint]:
        """What is constant, computed at compile time."""
        packed = self.given.folded_pack(runs) if self.given is not None else None
        if packed is not None:
            yield packed
        cones = statements.constants(at, runs) if statements is not None else {}
        if cones and self.given is not None:
            cone = {place for places in cones.values() for place in places}
            yield from self.given.folded(cones, cone, kernel)
        elif cones:
            yield folding(cones)
