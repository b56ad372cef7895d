"""A schedule in the making: statement after statement on one payload, as the engine would run the whole text."""

from __future__ import annotations

from dataclasses import dataclass, field

import tcpx
from tcpx.interp.frame import Frame
from tcpx.interp.handles import Handles
from tcpx.interp.knobs import KnobUses
from tcpx.interp.recovery import Savepoint
from tcpx.interp.state import State
from tcpx.interp.statements import Runner
from tcpx.interp.trace import Trace
from tcpx.interp.values import OpHandle
from tcpx.payload.interfaces import Tileable
from tcpx.payload.ir import FuncOp, Module, Operation
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.ops.group import Group
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.traits.call import Calling
from tcpx.target import Target
from tcpx.transform.preparation import prepare

HEAD = "language 1\nschedule main(root: func) {\n"


def schedule_text(statements: list[str]) -> str:
    """The file with these statements."""
    return HEAD + "".join(f"  {s}\n" for s in statements) + "}\n"


@dataclass(slots=True)
class Session:
    """Runs statements one at a time, and knows what each name denotes now."""

    module: Module
    target: Target
    threads: int = 2
    state: State = field(init=False)
    frame: Frame = field(init=False)

    def __post_init__(self) -> None:
        program = tcpx.parse_schedule(schedule_text([]))
        rewriter = Rewriter(self.module)
        prepare(rewriter, self.module)
        func = self.module.main
        handles = Handles(rewriter)
        self.state = State(
            self.module, func, rewriter, program, self.target, self.threads, handles, KnobUses(), Trace()
        )
        self.frame = Frame(program.main, "main")
        self.frame.names["root"] = handles.of(func, label=func.name)

    def run(self, text: str) -> None:
        """Run one statement. Raises TcpxError, and leaves the payload as it was."""
        (statement,) = tcpx.parse_schedule(schedule_text([text])).schedule().body.statements
        before = Savepoint.take(self.state)
        try:
            Runner(self.state).guarded(statement, self.frame)
        except tcpx.TcpxError:
            before.restore(self.state)
            raise

    def live(self, name: str) -> list[Operation]:
        """The operations a name denotes; none if its handle has ended."""
        handle = self.frame.names.get(name)
        return self.state.handles.live(handle) if isinstance(handle, OpHandle) else []

    def ops(self) -> dict[str, Operation]:
        """The names of live handles to operations that have dims, with the first copy."""
        return {n: ops[0] for n in self.frame.names if (ops := self.live(n)) and isinstance(ops[0], Tileable)}

    def groups(self) -> dict[str, Operation]:
        """The names of live handles to groups, with the first copy."""
        return {n: ops[0] for n in self.frame.names if (ops := self.live(n)) and isinstance(ops[0], Group)}

    def calls(self) -> dict[str, Operation]:
        """The names of live handles to calls, with the first copy."""
        return {n: ops[0] for n in self.frame.names if (ops := self.live(n)) and Calling(ops[0]).callee is not None}

    def loops(self) -> dict[str, Loop]:
        """The names of live handles to loops, with the first copy."""
        found = {n: self.live(n) for n in self.frame.names}
        return {n: ops[0] for n, ops in found.items() if ops and isinstance(ops[0], Loop)}

    @property
    def lowered(self) -> bool:
        """Whether the payload is in memory already."""
        func = self.module.main
        return isinstance(func, FuncOp) and "results" in func.attributes
