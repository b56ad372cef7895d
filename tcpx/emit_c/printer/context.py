"""The state of printing one function: names, variables, and what the printed code needs round it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tcpx.emit_c.printer.compiler_faults import has_loop_of_many_stores, repeats_elements_of_rows
from tcpx.emit_c.printer.expressions import SizePrinter
from tcpx.emit_c.printer.names import Names
from tcpx.emit_c.printer.scopes import Scope
from tcpx.emit_c.printer.set_ups import SetUps
from tcpx.emit_c.printer.variables import Variables
from tcpx.emit_c.signature import Clock, ConstantSlot
from tcpx.payload.constants import Constants
from tcpx.payload.ir import FuncOp, Operation, Value
from tcpx.payload.liveness import Liveness
from tcpx.payload.sizes import Dim, Size
from tcpx.payload.types import BufferType, ScalarType, Type, VectorType
from tcpx.records import frozen
from tcpx.target import InstructionRow, KernelRow, LaneType, Target, TargetError


@dataclass(slots=True)
class Needs:
    """What the functions of one file use: definitions printed once, before them."""

    rows: dict[str, InstructionRow] = field(default_factory=dict[str, InstructionRow])
    kernels: dict[str, KernelRow] = field(default_factory=dict[str, KernelRow])
    filled_loads: dict[LaneType, str] = field(default_factory=dict[LaneType, str])
    thread_number: bool = False
    memcpy: bool = False
    unrolling: bool = False
    no_loop_vectors: bool = False
    no_distribution: bool = False
    times: tuple[str, ...] = ()
    """The arrays that times are added to."""

    def add(self, other: Needs) -> None:
        """What is used by either."""
        self.rows |= other.rows
        self.kernels |= other.kernels
        self.filled_loads |= other.filled_loads
        self.thread_number |= other.thread_number
        self.memcpy |= other.memcpy
        self.unrolling |= other.unrolling
        self.no_loop_vectors |= other.no_loop_vectors
        self.no_distribution |= other.no_distribution
        self.times = tuple(dict.fromkeys((*self.times, *other.times)))


@frozen
class KernelContext:
    """What the functions of one kernel share: the constants, where they lie, and the C names of the functions."""

    constants: Constants
    constant_slots: list[ConstantSlot] = field(default_factory=list[ConstantSlot])
    c_names: dict[FuncOp, str] = field(default_factory=dict[FuncOp, str])
    constants_of: dict[FuncOp, Sequence[str]] = field(default_factory=dict[FuncOp, Sequence[str]])
    """The constants that functions take the addresses of, so that their C is the same wherever these lie."""
    clocks: list[Clock] | None = None
    """What is measured, where anything is."""
    times_name: str = ""
    """The array of nanoseconds and runs."""


class FunctionContext:
    """Everything about one function that its parts share while they are printed."""

    __slots__ = (
        "arrays",
        "buffers",
        "constant_names",
        "constant_slots",
        "constants",
        "constants_name",
        "func",
        "in_parallel",
        "kernel",
        "live",
        "names",
        "needs",
        "next_values",
        "said",
        "setups",
        "sizes",
        "slot_name",
        "target",
        "threads",
        "variables",
        "workspace",
        "workspace_name",
    )

    def __init__(self, func: FuncOp, kernel: KernelContext, target: Target, threads: int, names: Names) -> None:
        self.func = func
        self.kernel = kernel
        self.constants = kernel.constants
        self.constant_slots = kernel.constant_slots
        self.target = target
        self.threads = threads
        self.names = names
        self.needs = Needs(
            no_loop_vectors=repeats_elements_of_rows(func), no_distribution=has_loop_of_many_stores(func)
        )
        self.live = Liveness(func)
        self.variables = Variables(func, self.live)
        self.sizes = SizePrinter(names)
        self.buffers: dict[Value, str] = {}
        self.arrays: set[str] = set()
        """The buffers that are arrays on the stack; the others are pointers."""
        self.next_values: dict[Value, str] = {}
        self.said: Mapping[str, str] = {}
        """The notes that the last comment told."""
        self.constant_names: dict[str, str] = {}
        """The parameters that are addresses of constants; of others, `constants_name` is the block."""
        self.constants_name = ""
        self.workspace_name = ""
        self.slot_name = ""
        self.setups = SetUps(func, target, threads)
        self.in_parallel = False
        self.workspace = self.size_attribute(func, "workspace")
        planned = func.attributes.get("threads", threads)
        if planned != threads:
            raise func.error(
                f"the workspace of @{func.name} is planned for another number of threads",
                required=f"threads = {threads}",
                found=f"threads = {planned}",
            )

    def c_type(self, type_: Type, op: Operation) -> str:
        """The C type of a scalar or 1-D vector."""
        lane_type = self.lane_type(type_, op)
        try:
            return self.target.c_type(lane_type.dtype, lane_type.lanes)
        except TargetError as error:
            known = error.diagnostic
            raise op.error(known.message, known.required, known.found, known.fix) from error

    def lane_type(self, type_: Type, op: Operation) -> LaneType:
        """Dtype and lanes of a scalar or 1-D vector."""
        match type_:
            case ScalarType():
                return LaneType(type_.name, 1)
            case VectorType(shape=(lanes,)):
                return LaneType(type_.dtype.name, lanes)
            case _:
                raise op.error(
                    "only scalars and 1-D vectors can be held in registers",
                    required="lower_vectors and bufferize before emission",
                    found=str(type_),
                )

    def row(self, op: Operation) -> InstructionRow:
        """The instruction row that the operation names."""
        name = op.attributes.get("row")
        if not isinstance(name, str):
            raise op.error(
                "an operation without an instruction cannot be printed as C",
                required="buffers, loops, branches and operations that name a row of the target",
                found=f"{op.opcode} without the attribute `row`",
                fix="run bufferize, lower_vectors and select_instructions first",
            )
        try:
            return self.use_row(self.target.row(name))
        except TargetError as error:
            known = error.diagnostic
            required = f"a row of the target {self.target.name}"
            raise op.error(known.message, required, known.found, known.fix) from error

    def use_row(self, row: InstructionRow) -> InstructionRow:
        """Note that the file needs what the row needs."""
        self.needs.rows[row.name] = row
        return row

    def find_row(self, op: Operation, kind: str, result: LaneType | None, operands: list[LaneType]) -> InstructionRow:
        """The row of a kind that the printer itself needs for an operation."""
        row = self.target.find(kind, result=result, operands=operands)
        if row is None:
            shown = ", ".join(map(str, [result] if result is not None else operands))
            raise op.error(
                "the target lacks an instruction",
                required=f"a row of kind {kind} for {shown}",
                found=f"none in the table of {self.target.name}",
            )
        return self.use_row(row)

    def read(self, value: Value) -> str:
        """The C name of a value that has been printed."""
        name = self.buffers.get(value) or self.variables.of(value).name
        if not name:
            raise self.func.error(
                "a value is used before it is printed",
                required="an operation that stands before its uses",
                found=f"%{value.name}",
            )
        return name

    def define(self, value: Value, expression: str, op: Operation, scope: Scope) -> None:
        """Declare the variable of a value with this contents, or assign to it where it exists."""
        group = self.variables.of(value)
        if group.name:
            scope.statement(f"{group.name} = {expression};")
            return
        group.name = self.names.fresh(group.hint)
        const = "" if group.is_assigned else "const "
        scope.statement(f"{const}{self.c_type(value.type, op)} {group.name} = {expression};")

    def declare(self, value: Value, op: Operation, scope: Scope) -> None:
        """Declare the variable of a value that inner blocks assign to."""
        group = self.variables.of(value)
        if not group.name:
            group.name = self.names.fresh(group.hint)
            scope.statement(f"{self.c_type(value.type, op)} {group.name};")

    def assign(self, pairs: list[tuple[str, Value]], op: Operation, scope: Scope) -> None:
        """Assign values to variables as if all at once."""
        pending = [(to, self.read(value), value) for to, value in pairs if to != self.read(value)]
        targets = {to for to, _, _ in pending}
        for k, (to, source, value) in enumerate(pending):
            if source in targets:
                held = self.names.fresh(f"{source}_old")
                scope.statement(f"const {self.c_type(value.type, op)} {held} = {source};")
                pending[k] = (to, held, value)
        for to, source, _ in pending:
            scope.statement(f"{to} = {source};")

    def buffer_type(self, value: Value, op: Operation) -> BufferType:
        """The type of a value that has to be a buffer."""
        if not isinstance(value.type, BufferType):
            raise op.error(
                "memory is accessed through buffers", required="a buffer", found=f"%{value.name}: {value.type}"
            )
        return value.type

    def size_attribute(self, op: Operation, name: str) -> Dim:
        """An attribute that is a number or a size; 0 if it is not there."""
        held = op.attributes.get(name, 0)
        if isinstance(held, int | Size):
            return held
        raise op.error(
            f"the attribute `{name}` is a size in bytes",
            required="an int, or a size known when the kernel starts",
            found=str(held),
        )
