"""The reference evaluator: executes a payload of any level with NumPy. It is the oracle of everything else."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from tcpx.payload.constants import Constants
from tcpx.payload.diagnostics import ArgumentError, Diagnostic, VerifyError
from tcpx.payload.given import seed_of
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Block, FuncOp, Module, Operation, Value
from tcpx.payload.sizes import Dim, Size, Symbol, evaluate, symbols
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.sizes_of_arguments import size_told_by, size_without_argument, telling_dims
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.masked import Masked
from tcpx.payload.types import BufferType, ScalarType, TensorType, Type, dim_text, dtype_of, row_major, shape_of
from tcpx.payload.value_ranges import declared_ranges, misfit

Array = npt.NDArray[np.generic]
NOBODY: Final = int(np.iinfo(np.int64).min)
SEVERAL: Final = NOBODY + 1


class Observer(Protocol):
    """Is told how far an evaluation is: `payload/progress.py`."""

    def begin(self, body: Block, sizes: Mapping[str, int]) -> None: ...
    def start(self, op: Operation) -> None: ...
    def advance(self, points: int) -> None: ...
    def finish(self, op: Operation) -> None: ...


Calls = Callable[[FuncOp, Sequence[Array], Callable[[], tuple[Array, ...]]], tuple[Array, ...]]
"""What a called function gives for these arguments; the last one runs it."""


class Evaluation:
    """One run of a function: values, sizes of symbols and loop variables, constants, a seeded random order.

    `batch` is the shape of scalars: in the body of a generic, that of the points that are computed at once. With
    `in_order`, the sums of a generic are rounded in the order of its definition.
    """

    def __init__(
        self, constants: Constants, sizes: Mapping[str, int], seed: int = 0, observer: Observer | None = None
    ) -> None:
        self.observer = observer
        self.constants = constants
        self.sizes: dict[str, int] = dict(sizes)
        self.batch: tuple[int, ...] = ()
        self.values: dict[Value, Array] = {}
        self.carried: dict[Value, Array] = {}
        self.accesses: dict[Value, dict[Operation, Accesses]] = {}
        self.workspace: npt.NDArray[np.uint8] | None = None
        self._shared: dict[Operation, list[Value]] = {}
        self.random = np.random.default_rng(seed_of(seed))
        self.calls: Calls | None = None
        self.in_order = True

    def size(self, dim: Dim) -> int:
        """The number a dimension stands for in this run."""
        return dim if isinstance(dim, int) else evaluate(dim, self.sizes)

    def extent(self, dim: Dim) -> int:
        """How many indices a dim of this size has: none where it is negative, as `[N - 2]` in a loop at N = 1."""
        return max(0, self.size(dim))

    def shape(self, type_: Type) -> tuple[int, ...]:
        """The shape of a value; that of a scalar is `batch`."""
        return self.batch if isinstance(type_, ScalarType) else tuple(self.extent(d) for d in shape_of(type_))

    @contextmanager
    def batched(self, shape: tuple[int, ...]) -> Generator[None]:
        """Scalars have this shape within."""
        outer, self.batch = self.batch, shape
        try:
            yield
        finally:
            self.batch = outer

    def holds(self, predicate: Predicate) -> bool:
        return predicate.evaluate(self.sizes)

    def select(self, array: Array, tile: Tile) -> Array:
        """The view of `array` that a subset denotes; out of bounds is an error."""
        return array[self.slices(array.shape, tile)]

    def slices(self, shape: Sequence[int], tile: Tile) -> tuple[slice | int, ...]:
        """NumPy index of a subset, with its bounds checked against `shape`."""
        index: list[slice | int] = []
        for dim, (offset, size, stride) in enumerate(zip(tile.offsets, tile.sizes, tile.strides, strict=True)):
            o, n, s = self.size(offset), self.size(size), self.size(stride)
            last = o + (n - 1) * s
            if n > 0 and not 0 <= min(o, last) <= max(o, last) < shape[dim]:
                raise IndexError(f"{tile.text()}: {o} + {n} x {s} leaves dim {dim} of extent {shape[dim]}")
            if dim in tile.dropped and n > 0:
                index.append(o)
            elif n <= 0:
                index.append(slice(0, 0))
            else:
                index.append(slice(o, last + 1 if s > 0 else last - 1 if last else None, s))
        return tuple(index)

    def call(
        self, func: FuncOp, args: Sequence[Array], results: Sequence[Array] = (), workspace: Operation | None = None
    ) -> tuple[Array, ...]:
        """Run another function of the module; one on buffers writes to `results`, in new memory where there are none.

        Its workspace is the part of the one here that the plan gives to `workspace`, if there is a plan.
        """
        if self.calls is None or func.states:
            return self._run(func, args, results, workspace)
        made = self.calls(func, args, lambda: self._run(func, args, results, workspace))
        for target, array in zip(results, made, strict=False):
            target[...] = array
        return made

    def _run(
        self, func: FuncOp, args: Sequence[Array], results: Sequence[Array], workspace: Operation | None
    ) -> tuple[Array, ...]:
        inner = Evaluation(self.constants, check_arguments(func, args))
        inner.random, inner.calls, inner.in_order = self.random, self.calls, self.in_order
        if "results" not in func.attributes:
            made = inner.run_block(func.body, [a.copy() for a in args])
            for target, array in zip(results, made, strict=False):
                target[...] = array
            return made
        trailing = func.args[len(func.inputs) :]
        made = tuple(results) or tuple(poison(inner.shape(v.type), dtype_of(v.type)) for v in trailing)
        inner.take_workspace(func, None if workspace is None else self._part_for(workspace))
        inner.run_block(func.body, [*args, *made])
        return tuple(inner.values[v] for v in func.outputs)

    def take_workspace(self, func: FuncOp, given: npt.NDArray[np.uint8] | None = None) -> None:
        """Let buffers lie where the plan of a function says, if there is one, those of the first thread: in `given`, or
        in new memory."""
        planned = func.attributes.get("workspace")
        if isinstance(planned, int | Size):
            size = self.size(planned)
            self.workspace = np.zeros(size, dtype=np.uint8) if given is None else given[:size]

    def _part_for(self, call: Operation) -> npt.NDArray[np.uint8] | None:
        """The part of the workspace from where a call has its place."""
        offset, part = call.attributes.get("offset"), self.workspace
        return part[self.size(offset) :] if isinstance(offset, int | Size) and part is not None else None

    def enter_iteration(self, loop: Operation, number: int) -> None:
        """Iteration `number` of a loop begins; accesses to its destinations and to buffers are recorded from here."""
        if loop.opcode == "gml_st.parallel":
            for dest in self._shared_memory(loop):
                by_loop = self.accesses.setdefault(dest, {})
                if loop not in by_loop:
                    by_loop[loop] = Accesses.of(self.values[dest])
                by_loop[loop].iteration = number

    def leave_loop(self, loop: Operation) -> None:
        """A loop is done; what its iterations accessed is forgotten."""
        for dest in self._shared_memory(loop) if loop.opcode == "gml_st.parallel" else ():
            by_loop = self.accesses.get(dest, {})
            by_loop.pop(loop, None)
            if not by_loop:
                self.accesses.pop(dest, None)

    def _shared_memory(self, loop: Operation) -> list[Value]:
        """The destinations of a loop, and the buffers from outside that its body uses."""
        known = self._shared.get(loop)
        if known is None:
            inside = list(loop.walk())
            made = {r for op in inside for r in op.results}
            used = dict.fromkeys(v for op in inside for v in op.operands if isinstance(v.type, BufferType))
            known = self._shared[loop] = [*_recorded(loop), *(v for v in used if v not in made)]
        return known

    def note_read(self, source: Value, subset: Tile) -> None:
        """A parallel iteration reads a destination: no other iteration may write there."""
        for held in self.accesses.get(source, {}).values():
            index = self.slices(held.readers.shape, subset)
            held.check(held.writers[index], source, "reads what another iteration writes")
            others = (held.readers[index] != NOBODY) & (held.readers[index] != held.iteration)
            held.readers[index] = np.where(others, SEVERAL, held.iteration)

    def note_write(self, dest: Value, subset: Tile) -> None:
        """A parallel iteration writes a destination: no other iteration may read or write there."""
        for held in self.accesses.get(dest, {}).values():
            index = self.slices(held.writers.shape, subset)
            held.check(held.writers[index], dest, "writes what another iteration writes")
            held.check(held.readers[index], dest, "writes what another iteration reads")
            held.writers[index] = held.iteration

    def note_points(self, points: int) -> None:
        """So many points more of the operation at hand are done."""
        if self.observer is not None:
            self.observer.advance(points)

    def run_block(self, block: Block, args: Sequence[Array] = ()) -> tuple[Array, ...]:
        """Run a block; returns what its terminator carries."""
        for formal, actual in zip(block.args, args, strict=True):
            self.values[formal] = actual
        for op in block.ops:
            if op.is_terminator:
                return tuple(np.array(self.values[v]) if _changes(v) else self.values[v] for v in op.operands)
            self.run(op)
        return ()

    def run(self, op: Operation) -> None:
        """Run one operation on the values of its operands."""
        if self.accesses and "subset" not in op.attributes:
            for value in op.operands:
                if isinstance(value.type, TensorType):
                    self.note_read(value, Tile.full(shape_of(value.type)))
        if self.observer is not None:
            self.observer.start(op)
        try:
            results = _unmasked(op).evaluate([self.values[v] for v in op.operands], self)
        except IndexError as error:
            raise op.error("a subset leaves its source", required="a subset inside it", found=str(error)) from error
        is_fixed = not op.regions and "subset" not in op.attributes and any(map(_changes, op.operands))
        for value, made in zip(op.results, results, strict=True):
            array = np.array(made) if is_fixed else np.asarray(made)  # NumPy gives scalars where the rank is 0
            wanted = dtype_of(value.type).numpy
            if array.dtype != wanted or array.shape != self.shape(value.type):
                raise op.error(
                    "the evaluator disagrees with the declared type",
                    required=f"{wanted} of shape {self.shape(value.type)} for {value.type}",
                    found=f"{array.dtype} of shape {array.shape}",
                )
            self.values[value] = array
        if self.observer is not None:
            self.observer.finish(op)


def _changes(value: Value) -> bool:
    """Whether a value is a destination of a loop on tensors, of which later yields change the elements."""
    if not isinstance(value.type, TensorType) or not isinstance(value.owner, Block):
        return False
    return value.owner.parent is not None and "var" in value.owner.parent.attributes


def _recorded(loop: Operation) -> list[Value]:
    """The destinations of a loop, but those of which each iteration changes what unique indices name."""
    from tcpx.payload.disjointness import updates_by_index  # knows operations, which read this
    from tcpx.payload.ops.gml_st import Loop

    if not isinstance(loop, Loop):
        return list(loop.regions[0].args)
    return [d for k, d in enumerate(loop.destinations) if not any(updates_by_index(s, loop) for s in loop.yields_to(k))]


@dataclass
class Accesses:
    """Which iteration of a parallel loop read and wrote each element of a destination, or NOBODY, or SEVERAL."""

    readers: npt.NDArray[np.int64]
    writers: npt.NDArray[np.int64]
    iteration: int = 0

    @staticmethod
    def of(array: Array) -> Accesses:
        nobody = np.full(array.shape, NOBODY, dtype=np.int64)
        return Accesses(nobody, nobody.copy())

    def check(self, others: npt.NDArray[np.int64], value: Value, what: str) -> None:
        """Every element belongs to nobody or to this iteration; else it is a race."""
        held = np.asarray(others)
        if bool(np.any((held != NOBODY) & (held != self.iteration))):
            raise VerifyError(
                Diagnostic(
                    f"a race in a parallel loop: iteration {self.iteration} of %{value.name} {what}",
                    required="iterations that touch disjoint subsets of a destination",
                    found="an overlap",
                )
            )


def poison(shape: tuple[int, ...], dtype: ScalarType) -> Array:
    """Memory nobody has written: NaN for floats, a loud pattern for integers."""
    if dtype.is_float:
        return np.full(shape, np.nan, dtype=dtype.numpy)
    return np.full(shape, 1, dtype=dtype.numpy) if dtype.bits == 1 else np.full(shape, 0x5A, dtype=dtype.numpy)


def bind_symbols(func: FuncOp, arrays: Sequence[Array]) -> dict[str, int]:
    """Sizes of the function's symbols from the shapes of its inputs; every disagreement is an error."""
    sizes: dict[str, int] = {}
    inputs = func.inputs
    shapes = [shape_of(value.type) for value in inputs]
    for name, (k, position) in telling_dims(shapes).items():
        sizes[name] = size_told_by(shapes[k][position], arrays[k].shape[position])
    for position, symbol in func.numbers.items():
        sizes.setdefault(symbol.name, int(arrays[position]))
    bind_strides(func, sizes)
    problem = size_without_argument(func, sizes)
    if problem is not None:
        raise ArgumentError(problem)
    for symbol in func.symbols:
        _check_range(symbol, sizes[symbol.name])
    return sizes


def _check_wide(symbol: Symbol | None, array: Array) -> None:
    """Check the range of a number that more than 64 bits have."""
    number = array.item() if symbol is not None else None
    if symbol is not None and type(number) is int:
        _check_range(symbol, number)


def _check_range(symbol: Symbol, size: int) -> None:
    is_outside = size < symbol.lower or (symbol.upper is not None and size > symbol.upper)
    if is_outside or size % symbol.multiple_of:
        upper = "" if symbol.upper is None else str(symbol.upper)
        multiple = f", a multiple of {symbol.multiple_of}" if symbol.multiple_of > 1 else ""
        raise ArgumentError(
            Diagnostic(
                f"the size `{symbol.name}` is out of its range",
                required=f"{symbol.lower}..{upper}{multiple}",
                found=f"{symbol.name} = {size}",
            )
        )


def bind_strides(func: FuncOp, sizes: dict[str, int]) -> None:
    """Let the symbols that are strides of arguments be those of contiguous arrays, which the evaluator works on."""
    for value in func.args:
        if isinstance(value.type, BufferType):
            contiguous = row_major(value.type.shape)
            for stride, plain in zip(value.type.strides, contiguous, strict=True):
                for symbol in symbols(stride):
                    if symbol.name not in sizes and all(known.name in sizes for known in symbols(plain)):
                        sizes[symbol.name] = plain if isinstance(plain, int) else evaluate(plain, sizes)


def check_arguments(func: FuncOp, arrays: Sequence[Array]) -> dict[str, int]:
    """Check count, rank, dtype and shape of the inputs; returns the sizes of the symbols."""
    inputs = func.inputs
    if len(arrays) != len(inputs):
        raise ArgumentError(
            Diagnostic(
                f"@{func.name} takes {len(inputs)} argument(s)",
                required=", ".join(f"%{v.name}: {v.type}" for v in inputs) or "none",
                found=f"{len(arrays)} argument(s)",
            )
        )
    for position, (value, array) in enumerate(zip(inputs, arrays, strict=True)):
        if array.ndim != len(shape_of(value.type)):
            raise argument_error(value, f"rank {len(shape_of(value.type))}", f"rank {array.ndim}, shape {array.shape}")
        if array.dtype != dtype_of(value.type).numpy:
            _check_wide(func.numbers.get(position), array)
            raise argument_error(value, f"dtype {dtype_of(value.type).numpy}", f"dtype {array.dtype}")
    sizes = bind_symbols(func, arrays)
    for position, symbol in func.numbers.items():
        if sizes[symbol.name] != int(arrays[position]):
            wanted = f"{sizes[symbol.name]}, as the size `{symbol.name}` is"
            raise argument_error(inputs[position], wanted, str(arrays[position]))
    for value, array in zip(inputs, arrays, strict=True):
        for position, (dim, extent) in enumerate(zip(shape_of(value.type), array.shape, strict=True)):
            wanted = dim if isinstance(dim, int) else evaluate(dim, sizes)
            if wanted != extent:
                shown = dim_text(dim) if isinstance(dim, int) else f"{dim_text(dim)} = {wanted}"
                raise argument_error(value, f"{shown} in dim {position}", f"{extent}, shape {array.shape}")
    for k, (lower, end, order) in declared_ranges(func).items():
        first, last = (d if isinstance(d, int) else evaluate(d, sizes) for d in (lower, end))
        error = misfit(inputs[k].name, arrays[k], (first, last, order))
        if error is not None:
            raise error
    return sizes


def argument_error(value: Value, required: str, found: str) -> ArgumentError:
    """The error for an array that an argument of a function does not take."""
    return ArgumentError(
        Diagnostic(f"argument `{value.name}` does not fit {value.type}", required=required, found=found)
    )


def evaluate_func(
    module: Module,
    func: FuncOp,
    arrays: Sequence[Array],
    seed: int = 0,
    observer: Observer | None = None,
    calls: Calls | None = None,
    in_order: bool = True,
) -> tuple[Array, ...]:
    """Run a function of any level on arrays; returns its results. The arguments are not changed. `calls` says what the
    functions give that it calls. Sums of products are added `in_order`, or as NumPy multiplies matrices."""
    if "results" in func.attributes:
        return evaluate_buffers(module, func, arrays, seed, calls)
    evaluation = Evaluation(module.constants, check_arguments(func, arrays), seed, observer)
    evaluation.calls, evaluation.in_order = calls, in_order
    if observer is not None:
        observer.begin(func.body, evaluation.sizes)
    with np.errstate(all="ignore"):
        return evaluation.run_block(func.body, [a.copy() for a in arrays])


def evaluate_buffers(
    module: Module, func: FuncOp, inputs: Sequence[Array], seed: int = 0, calls: Calls | None = None
) -> tuple[Array, ...]:
    """Run a function whose trailing arguments are the buffers of its results; they are poisoned, then handed out.

    Where the workspace is planned, buffers lie in it where the plan says, those of one thread.
    The inputs are not changed. Raises ArgumentError for inputs that do not fit.
    """
    sizes = check_arguments(func, inputs)
    evaluation = Evaluation(module.constants, sizes, seed)
    evaluation.calls = calls
    evaluation.take_workspace(func)
    trailing = func.args[len(inputs) :]
    results = tuple(poison(evaluation.shape(v.type), dtype_of(v.type)) for v in trailing)
    with np.errstate(all="ignore"):
        evaluation.run_block(func.body, [*(a.copy() for a in inputs), *results])
    return tuple(evaluation.values[v] for v in func.outputs)


def _unmasked(op: Operation) -> Operation:
    """The operation whose `evaluate` says what one computes: the general form of one under a mask."""
    if not isinstance(op, Structured) or op.regions or Masked.of(op) is None:
        return op
    values = Block([(v.name, v.type) for v in op.operands]).args
    from tcpx.payload.ops.generic import generalize  # operations know the evaluator: late to break the cycle

    return generalize(type(op)(values, [r.type for r in op.results], op.attributes))
