"""What was written of a kernel: its payload, and its schedule, if somebody gave one. Hints say what to change there."""

from collections.abc import Iterator, Sequence

from tcpx.costs.visits import Run
from tcpx.payload.diagnostics import Location
from tcpx.payload.ir import Module
from tcpx.records import frozen
from tcpx.remarks import causes
from tcpx.remarks.finding import Finding
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

    def hints(self, found: Finding, payload: PayloadWork) -> Iterator[Hint]:
        """What may repair a statement that is slow, the smallest change first."""
        cause, at, runs, kernel = found.cause, found.place, found.runs, found.kernel
        statements = PayloadHints(self.module, payload) if self.module is not None else None
        if found.refused is not None and self.given is not None:
            yield from self.given.accepted(found.refused)
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
