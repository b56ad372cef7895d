"""What one run of a schedule works on."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tcpx.interp.called import CalledFunctions
from tcpx.interp.foresight import Foresight
from tcpx.interp.handles import Handles
from tcpx.interp.knobs import KnobUses
from tcpx.interp.payload_texts import PayloadTexts
from tcpx.interp.pure_values import PureValues
from tcpx.interp.trace import AttemptKey, Trace, TraceEntry
from tcpx.interp.work import Work
from tcpx.payload.diagnostics import Diagnostic, Kind, TcpxError
from tcpx.payload.ir import CopyPath, FuncOp, Module, Operation
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.types import VectorType
from tcpx.target import Target
from tcpx.transform.language import syntax as ast
from tcpx.transform.language.binding import declared_arguments
from tcpx.transform.language.loader import Program
from tcpx.transform.loop_nest import Nests

Mark = tuple[int, CopyPath]
"""An origin, and the copy of it."""

StepHook = Callable[[TraceEntry], None]
"""Called after every committed step: numeric verification, bisection."""


def marks_of(op: Operation) -> Iterator[Mark]:
    """What says of a copy of an operation that a step was given it."""
    return ((origin, op.copy_path) for origin in op.origins)


@dataclass(slots=True)
class State:
    """Shared by all parts of the engine during one run."""

    module: Module
    func: FuncOp
    rewriter: Rewriter
    program: Program
    target: Target
    threads: int
    handles: Handles
    knobs: KnobUses
    trace: Trace
    recovering: int = 0
    """How many statements around the one that runs recover from its failure."""
    refused: Mapping[AttemptKey, Diagnostic] = field(default_factory=dict[AttemptKey, Diagnostic])
    """What `else remark` leaves as it is without an attempt, and why: what it had become could not be lowered."""
    on_step: StepHook | None = None
    texts: PayloadTexts | None = None
    """The payload text, where the trace keeps what every step changed in it."""
    work: Work = field(default_factory=Work)
    nests: Nests = field(default_factory=Nests)
    foresight: Foresight | None = None
    """What is known while a schedule is only checked on a payload."""
    called: CalledFunctions | None = None
    """The functions beside the entry, where somebody asks for records of them."""
    marked: dict[Mark, None] = field(default_factory=dict[Mark, None])
    """What steps were applied to, inspection and cleanup aside, in the order of the first time."""
    pure_values: PureValues = field(init=False)
    slashed: frozenset[str] = field(init=False)
    """The names of operations of the payload that have slashes, as those of ONNX have."""
    written: dict[int, None] = field(default_factory=dict[int, None])
    """The origins of the loops that the payload has, or that an operation of it was decomposed into."""
    _arguments: dict[tuple[int, int], Mapping[str, ast.Argument]] = field(
        default_factory=dict[tuple[int, int], Mapping[str, ast.Argument]]
    )

    def __post_init__(self) -> None:
        self.pure_values = PureValues(self.handles)
        slashed = set[str]()
        for op in self.module.walk():
            if isinstance(op, Loop):
                self.written.update(dict.fromkeys(op.origins))
            elif "/" in op.name:
                slashed.add(op.name)
        self.slashed = frozenset(slashed)

    def recovers_from(self, error: TcpxError) -> bool:
        """Whether a failure may be recovered from: a precondition that is not met, and all of them in the schedule that
        nobody chose."""
        return error.diagnostic.kind is Kind.SILENCEABLE or self.program.is_default

    def source_of(self, name: str) -> str:
        """The operation that one was made from: `fc1` of `fc1/n5`, and of `layer/fc1/n5` the `layer/fc1` that the
        payload has."""
        parts = name.split("/")
        stems = ("/".join(parts[:k]) for k in range(len(parts), 1, -1))
        return next((stem for stem in stems if stem in self.slashed), parts[0])

    def arguments_of(self, called: ast.Sequence | ast.Function, call: ast.Call) -> Mapping[str, ast.Argument]:
        """The arguments of a call by parameter name, found once for each call that stands in the schedule."""
        key = (id(called), id(call))
        if key not in self._arguments:
            self._arguments[key] = declared_arguments(called, call)
        return self._arguments[key]

    def is_scheduled(self, op: Operation) -> bool:
        """Whether an earlier step changed or moved this copy, or what it was copied from; what is on vectors is, and
        what is in a loop that the payload did not have."""
        if any(isinstance(result.type, VectorType) for result in op.results):
            return True
        path = op.copy_path
        marks = ((origin, path[:k]) for origin in op.origins for k in range(len(path) + 1))
        return any(mark in self.marked for mark in marks) or any(map(self._is_made, op.ancestors()))

    def _is_made(self, op: Operation) -> bool:
        """Whether an operation is a loop that a step made."""
        return isinstance(op, Loop) and not any(origin in self.written for origin in op.origins)
