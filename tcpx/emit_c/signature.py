"""What a caller has to know about an emitted kernel."""

from typing import Final

from tcpx.payload.diagnostics import Diagnostic
from tcpx.payload.sizes import Dim, Symbol
from tcpx.payload.types import ScalarType, TensorType
from tcpx.payload.value_ranges import Declared
from tcpx.records import brief, frozen

OUT_OF_RANGE: Final = 1
OVERFLOW: Final = 2
RETURN_CODES: Final = {0: "done", OUT_OF_RANGE: "a size is out of its range", OVERFLOW: "a size in bytes overflows"}
"""What a kernel returns. After anything but 0 nothing has been written."""
FIRST_ASSERTION: Final = 3
"""What it returns where its first assertion does not hold; 4 for the second, and so on. Then come the inputs that have
elements outside of their range."""


@frozen
class Argument:
    """An input or output array in row-major order; dims are ints or sizes over the kernel's symbols.

    It is contiguous, or has `strides`: the parameters with the strides, in elements, of all dims but the innermost,
    whose stride is 1. `range` is what holds of its elements.
    """

    name: str
    dtype: ScalarType
    shape: tuple[Dim, ...]
    strides: tuple[Symbol, ...] = ()
    range: Declared | None = None
    state: int | None = None
    """Of an input that is written to: the position of the result that is put there."""

    @property
    def is_strided(self) -> bool:
        """Whether the rows may be any distance apart."""
        return bool(self.strides)

    def __str__(self) -> str:
        kind = "" if self.state is None else "inout "
        inside = f" {self.range}" if self.range is not None else ""
        return f"%{self.name}: {kind}{TensorType(self.shape, self.dtype)}{inside}{' strided' if self.strides else ''}"


@frozen
class Number:
    """An argument, at a position among those of the payload, that is a number: the size that `symbol` is."""

    name: str
    position: int
    symbol: Symbol

    def __str__(self) -> str:
        return f"%{self.name}: index as [{self.symbol.name}]"


@frozen
class ConstantSlot:
    """Where a named array lies in the constants of a kernel; offset and size in bytes."""

    name: str
    offset: int
    bytes: int


STATEMENT: Final = "statement"
KERNEL: Final = "kernel"
EMPTY: Final = "empty"
PAIR: Final = "pair"
CLOCK_KINDS: Final = (STATEMENT, KERNEL, EMPTY, PAIR)


@frozen
class Clock:
    """What a kernel that was compiled `timed` measures.

    A `STATEMENT` of a function is outside of its loops: a nest, a call, a copy, or straight lines of code. `operation`
    is the name that it has in the C, "" of straight lines; `callee` is the function that it runs, if it is a call, and
    `inside` are those that it calls, also from its loops. `KERNEL` is all
    that the function of the kernel does. `EMPTY` measures nothing, and `PAIR` that clock: what clocks cost.
    """

    function: str
    operation: str
    callee: str = ""
    kind: str = STATEMENT
    inside: tuple[str, ...] = ()


@frozen
class KernelSignature:
    """A kernel: `int c_name(inputs.., outputs.., symbols.., strides.., const void *constants, void *workspace)`.

    `name` is the payload function's. Of the workspace, `live_bytes` are live at once. The constants are 64-byte aligned
    arrays in one block of `constants_bytes`.
    """

    name: str
    c_name: str
    inputs: tuple[Argument, ...]
    """The arrays; numbers that sizes are known by are `symbols`."""
    outputs: tuple[Argument, ...]
    symbols: tuple[Symbol, ...]
    threads: int
    workspace_bytes: Dim
    live_bytes: Dim
    constants: tuple[ConstantSlot, ...]
    wide_sizes: tuple[Dim, ...]
    """What the kernel computes that overflows int64 for some sizes in range: the caller checks it first."""
    assertions: tuple[Diagnostic, ...] = ()
    """What is said of sizes for which an assertion of the kernel does not hold."""
    numbers: tuple[Number, ...] = ()
    """What a caller in Python gives for sizes, beside the arrays."""
    functions: int = 0
    """How many other functions it consists of, each with its own C; `clones` of them are copies for one call."""
    clones: int = 0
    clocks: tuple[Clock, ...] = ()
    """What it measures."""
    times_name: str = ""
    """The array with the nanoseconds and the runs of each of them, if there are any."""
    numerics: tuple[str, ...] = ()
    """By what its results are rounded otherwise than by default."""
    layouts: tuple[str, ...] = ()
    """Arrays whose dims lie in another order than in the payload, each with its order: `x: 0, 2, 3, 1`."""

    def __repr__(self) -> str:
        return brief("KernelSignature", self)

    @property
    def arguments(self) -> tuple[Argument | Number, ...]:
        """What a caller in Python gives, in order."""
        found: list[Argument | Number] = list(self.inputs)
        for number in self.numbers:
            found.insert(number.position, number)
        return tuple(found)

    @property
    def states(self) -> dict[int, int]:
        """The positions among the arguments of inputs that are written to, each with that of the result put there."""
        return {
            k: given.state
            for k, given in enumerate(self.arguments)
            if isinstance(given, Argument) and given.state is not None
        }

    @property
    def ranged(self) -> tuple[tuple[int, Argument], ...]:
        """The inputs whose elements lie in a range, each with what the kernel returns where some do not; where they are
        not in the order that is declared beside, it returns one more."""
        first, found = FIRST_ASSERTION + len(self.assertions), list[tuple[int, Argument]]()
        for argument in self.inputs:
            if argument.range is not None:
                found.append((first, argument))
                first += 2 if argument.range.order else 1
        return tuple(found)

    @property
    def results(self) -> tuple[Argument, ...]:
        """What a call gives: the outputs, and inputs that are state where their results are."""
        states = {held.state: held for held in self.inputs if held.state is not None}
        rest = iter(self.outputs)
        return tuple(states.get(k) or next(rest) for k in range(len(self.outputs) + len(states)))

    @property
    def strides(self) -> tuple[Symbol, ...]:
        """The parameters that are strides, in order."""
        return tuple(symbol for argument in (*self.inputs, *self.outputs) for symbol in argument.strides)

    @property
    def stride_texts(self) -> tuple[str, ...]:
        """What each of them is, for a person."""
        return tuple(
            f"{symbol.name}: elements from one index of dim {dim} of %{argument.name} to the next"
            for argument in (*self.inputs, *self.outputs)
            for dim, symbol in enumerate(argument.strides)
        )

    @property
    def has_workspace(self) -> bool:
        """Whether the workspace may have to be more than nothing."""
        return self.workspace_bytes != 0

    @property
    def constants_bytes(self) -> int:
        """The size of the block of constants in bytes."""
        return max((slot.offset + slot.bytes for slot in self.constants), default=0)

    def __str__(self) -> str:
        inputs = ", ".join(map(str, self.arguments))
        outputs = ", ".join(map(str, self.results))
        return f"@{self.name}({inputs}) -> ({outputs})"
