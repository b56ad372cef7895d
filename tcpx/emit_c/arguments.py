"""Arguments of a kernel: what is taken for an array, and the errors for what does not fit.

The generated wrapper only finds out that something is wrong; what it is, is found out here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn, SupportsIndex, cast

import numpy as np
import numpy.typing as npt

from tcpx.emit_c.signature import FIRST_ASSERTION, OVERFLOW, Argument, KernelSignature
from tcpx.emit_c.strides import has_places_of_its_own, is_writable_in_rows, outer_strides, overlap
from tcpx.emit_c.what_to_pass import in_python, no_array, of_another_dtype, shown_dtype
from tcpx.limits import INT64_MAX, LARGEST_EXTENT
from tcpx.payload.diagnostics import ArgumentError, Diagnostic, Kind, TcpxError
from tcpx.payload.numbers import is_number, number_as, shown_number
from tcpx.payload.size_values import negative_extent
from tcpx.payload.sizes import Symbol, evaluate, to_text
from tcpx.payload.sizes.excess import magnitude
from tcpx.payload.sizes_of_arguments import size_told_by, telling_dims
from tcpx.payload.types import TensorType, dim_text
from tcpx.payload.value_ranges import misfit
from tcpx.plurals import counted

_ROWS = "neighbours of the innermost dim side by side, and strides >= 0 of whole elements"
ARRAY_LIKE = "a NumPy array, or an object with DLPack or the buffer protocol"
_SHARING = ".detach()", ".view(ml_dtypes.bfloat16)"
"""How fixes end that make an array on the same memory: the results of a call are seen there."""
MOST_REMEMBERED = 4096
"""Combinations of sizes of which it is remembered that they fit."""

Array = npt.NDArray[np.generic]

_from_dlpack = cast("Callable[[object], Array]", np.from_dlpack)


class ArgumentCheck:
    """The slow path of a call: converts arguments that are nearly right, raises ArgumentError for wrong ones."""

    __slots__ = ("_signature", "fitting")

    def __init__(self, signature: KernelSignature) -> None:
        self._signature = signature
        self.fitting: set[tuple[int, ...]] = set()
        """Values of the symbols for which no size overflows, as far as they were looked at."""

    def adapt(self, position: int, value: object) -> Array:
        """An aligned row-major array of the right dtype with the contents of an argument; a copy only if need be."""
        argument = self._signature.inputs[position]
        if not argument.shape and is_number(value):
            number = number_as(value, argument.dtype)
            if number is None:
                shown, rounds = shown_number(value), isinstance(value, np.floating) and argument.dtype.is_float
                fix = f"{in_python(argument.dtype.numpy)}(..)" if rounds else None
                raise _misfit(argument, f"a number that {argument.dtype} represents", shown, fix)
            return number
        array = as_array(value)
        if array is None:
            raise _misfit(argument, ARRAY_LIKE, *no_array(value, argument.dtype.numpy))
        wanted = argument.dtype.numpy
        if array.dtype != wanted and array.dtype.newbyteorder("=") != wanted:
            fix = of_another_dtype(value, array, wanted)
            raise _misfit(argument, f"dtype {wanted}", shown_dtype(array.dtype), fix)
        if array.dtype == wanted and array.flags.aligned and _lies_well(argument, array):
            return array
        try:
            return np.array(array, dtype=wanted, order="C", copy=True, subok=False)
        except (MemoryError, ValueError) as error:  # NumPy's, for arrays that it cannot make
            raise _misfit(argument, "memory for a contiguous copy", str(error)) from error

    def as_it_is(self, position: int, value: object) -> Array:
        """An argument that the kernel can go on reading where it lies, or a number, which nobody changes. Raises
        ArgumentError for any other."""
        argument = self._signature.inputs[position]
        if _is_plain_number(argument, value):
            return self.adapt(position, value)
        wanted = argument.dtype.numpy
        array = as_array(value)
        if array is None:
            raise _unbound(argument, ARRAY_LIKE, *no_array(value, argument.dtype.numpy))
        if array.dtype != wanted:
            fix = of_another_dtype(value, array, wanted)
            raise _unbound(argument, f"dtype {wanted}", shown_dtype(array.dtype), fix)
        if not _lies_well(argument, array):
            required = _ROWS if argument.is_strided else "a contiguous array in row-major order"
            or_else = "" if argument.is_strided or outer_strides(array) is None else ", or compile with `strided=True`"
            fix = f"np.ascontiguousarray(..){or_else}"
            raise _unbound(argument, required, f"strides {array.strides} of bytes", fix)
        if not array.flags.aligned:
            required = f"memory aligned to {wanted.alignment} bytes"
            raise _unbound(argument, required, "an array that is not aligned", ".copy()")
        return array

    def state(self, position: int, value: object) -> Array:
        """An argument that the kernel can write to where it lies. Raises ArgumentError for any other."""
        argument = self._signature.inputs[position]
        if _is_plain_number(argument, value):
            fix = f"{argument.name} = np.array(.., {in_python(argument.dtype.numpy)}), and pass `{argument.name}`"
            raise _unbound(argument, "an array without dims, which the call changes", shown_number(value), fix)
        array = self.as_it_is(position, value)
        if not array.flags.writeable:
            raise _unbound(argument, "an array that can be written to", "a read-only array", ".copy()")
        if not has_places_of_its_own(array):
            raise _unbound(argument, "a place of its own for every element", f"strides {array.strides}", ".copy()")
        return array

    def fail_state(self, arrays: Sequence[Array]) -> NoReturn:
        """Raise the error for state that lies where another input is."""
        pairs = list(zip(self._signature.inputs, arrays, strict=True))
        for argument, array in pairs:
            for other, given in pairs:
                if argument.state is not None and other is not argument and overlap(array, given):
                    raise _misfit(
                        argument,
                        "memory of its own: a kernel reads its other inputs while it writes to this one",
                        f"memory that overlaps `{other.name}`",
                        "pass a copy of one of them",
                    )
        raise _internal("the wrapper refused state that fits", f"{len(arrays)} input(s)")

    def number(self, position: int, value: object) -> int:
        """A number that a size is known by: an integer, also one of NumPy's, or an array of one."""
        if type(value) is int:
            return value
        array = as_array(value)
        if array is None or array.ndim or array.dtype.kind not in "iu":
            name = self._signature.numbers[position].name
            what = "None" if value is None else type(value).__qualname__
            found = what if array is None else f"an array of shape {array.shape} of {array.dtype}"
            raise ArgumentError(Diagnostic(f"argument `{name}` is a size", required="an integer", found=found))
        return int(array)

    def fail(self, arrays: Sequence[object]) -> NoReturn:
        """Raise the error for inputs that do not fit in count, rank or shape."""
        inputs, given = self._signature.inputs, self._signature.arguments
        if len(arrays) != len(given):
            raise ArgumentError(
                Diagnostic(
                    f"@{self._signature.name} takes {len(given)} argument(s)",
                    required=", ".join(map(str, given)) or "none",
                    found=f"{len(arrays)} argument(s)",
                )
            )
        numbers = [self.number(k, arrays[n.position]) for k, n in enumerate(self._signature.numbers)]
        arrays = [value for value, argument in zip(arrays, given, strict=True) if isinstance(argument, Argument)]
        shapes = [self.adapt(k, value).shape for k, value in enumerate(arrays)]
        for argument, shape in zip(inputs, shapes, strict=True):
            if len(shape) != len(argument.shape):
                raise _misfit(argument, f"rank {len(argument.shape)}", f"rank {len(shape)}, shape {shape}")
        sizes: dict[str, int] = {}
        for name, (k, position) in telling_dims(argument.shape for argument in inputs).items():
            sizes[name] = size_told_by(inputs[k].shape[position], shapes[k][position])
        for known, value in zip(self._signature.numbers, numbers, strict=True):
            extent = sizes.setdefault(known.symbol.name, value)
            if extent == value:
                _check_range(known.symbol, extent)
            if extent != value or extent > LARGEST_EXTENT:
                wanted = f"at most {LARGEST_EXTENT}" if extent == value else f"{known.symbol.name} = {extent}"
                raise ArgumentError(Diagnostic(f"argument `{known.name}` is a size", required=wanted, found=str(value)))
        for symbol in self._signature.symbols:
            _check_range(symbol, sizes[symbol.name])
        for argument, shape in zip(inputs, shapes, strict=True):
            _check_shape(argument, shape, sizes)
        raise _internal("the wrapper refused arguments that fit", ", ".join(map(str, shapes)))

    def check_sizes(self, sizes: tuple[int, ...]) -> None:
        """Raise the error for symbols for which a size does not fit 64 bits."""
        known = {s.name: n for s, n in zip(self._signature.symbols, sizes, strict=True)}
        for size in self._signature.wide_sizes:
            if magnitude(size, {name: (n, n) for name, n in known.items()}) > INT64_MAX:
                raise ArgumentError(
                    Diagnostic(
                        f"the sizes of @{self._signature.name} overflow",
                        required=f"`{to_text(size)}` computed within 64 bits",
                        found=", ".join(f"{name} = {n}" for name, n in known.items()),
                    )
                )
        if len(self.fitting) >= MOST_REMEMBERED:
            self.fitting.clear()
        self.fitting.add(sizes)

    def outputs(self, out: object) -> tuple[object, ...]:
        """`out` as one object per output: arrays on its memory, as far as it is such."""
        wanted = len(self._signature.outputs)
        given: tuple[object, ...] = cast("tuple[object, ...]", out) if isinstance(out, tuple) else (out,)
        if len(given) != wanted:
            raise ArgumentError(
                Diagnostic(
                    f"`out` of @{self._signature.name} is {wanted} array(s)",
                    required=", ".join(map(str, self._signature.outputs)) or "no array",
                    found=f"{len(given)} object(s)",
                )
            )
        return tuple(value if type(value) is np.ndarray else _view(value) for value in given)

    def fail_output(self, out: Sequence[object], inputs: Sequence[Array], sizes: Sequence[int]) -> NoReturn:
        """Raise the error for outputs that do not fit, or that lie where an input or another output is."""
        known = {s.name: n for s, n in zip(self._signature.symbols, sizes, strict=True)}
        checked: list[tuple[str, Array]] = [(a.name, x) for a, x in zip(self._signature.inputs, inputs, strict=True)]
        for argument, value in zip(self._signature.outputs, out, strict=True):
            array = _output(argument, value)
            _check_shape(argument, array.shape, known)
            for name, other in checked:
                if overlap(array, other):
                    raise _misfit(
                        argument,
                        "memory of its own: a kernel reads its inputs while it writes its outputs",
                        f"memory that overlaps `{name}`",
                        "pass another array as `out`, or none",
                    )
            checked.append((argument.name, array))
        raise _internal("the wrapper refused outputs that fit", f"{len(out)} output(s)")

    def fail_memory(self, error: MemoryError, sizes: Sequence[int]) -> NoReturn:
        """Raise the error for results that cannot be allocated."""
        shown = ", ".join(f"{s.name} = {n}" for s, n in zip(self._signature.symbols, sizes, strict=True))
        raise ArgumentError(
            Diagnostic(
                f"the results of @{self._signature.name} do not fit into memory",
                required=f"{', '.join(map(str, self._signature.outputs))}{f' for {shown}' if shown else ''}",
                found=str(error) or "no memory",
            )
        ) from error

    def _check_outputs(self, sizes: Sequence[int]) -> None:
        """Raise the error for sizes that make an extent of a result negative."""
        known = {s.name: n for s, n in zip(self._signature.symbols, sizes, strict=True)}
        for extent in (dim for argument in self._signature.outputs for dim in argument.shape):
            if not isinstance(extent, int) and evaluate(extent, known) < 0:
                raise negative_extent(extent, known)

    def fail_code(self, code: int, sizes: Sequence[int], inputs: Sequence[Array] = ()) -> NoReturn:
        """Raise the error for a return code of the kernel."""
        shown = ", ".join(f"{s.name} = {n}" for s, n in zip(self._signature.symbols, sizes, strict=True))
        if code == OVERFLOW:
            self._check_outputs(sizes)
            raise ArgumentError(
                Diagnostic(
                    f"the sizes of @{self._signature.name} overflow",
                    required="arrays of less than 2**63 bytes each, and at most 2**47 elements along a dim",
                    found=shown,
                )
            )
        if 0 <= code - FIRST_ASSERTION < len(self._signature.assertions):
            raise ArgumentError(replace(self._signature.assertions[code - FIRST_ASSERTION], found=shown))
        known = {s.name: n for s, n in zip(self._signature.symbols, sizes, strict=True)}
        for number, argument in self._signature.ranged:
            if argument.range is not None and code in (number, number + bool(argument.range.order)):
                lower, end = (d if isinstance(d, int) else evaluate(d, known) for d in argument.range[:2])
                held = inputs[self._signature.inputs.index(argument)]
                error = misfit(argument.name, held, (lower, end, argument.range.order))
                raise error or _internal(f"@{self._signature.name} returned {code}", shown)
        raise _internal(f"@{self._signature.name} returned {code}", shown)


def in_order(signature: KernelSignature, arrays: Sequence[object], named: Mapping[str, object]) -> tuple[object, ...]:
    """The inputs in the order of the signature, of which the last are given by name. Raises ArgumentError."""
    names = [argument.name for argument in signature.arguments]
    rest = names[len(arrays) :]
    unknown = [name for name in named if name not in names]
    twice = [name for name in named if name in names[: len(arrays)]]
    missing = [name for name in rest if name not in named]
    message, found = "", ", ".join(f"`{name}`" for name in unknown or twice or missing)
    if unknown:
        message = f"@{signature.name} has no argument {found}"
    elif twice:
        message = f"@{signature.name} is given {found} by position and by name"
    elif missing:
        message = f"@{signature.name} is not given {found}"
    if message:
        required = f"one array each for {', '.join(names)}" if names else "no arguments"
        given = [f"{counted(len(arrays), 'array')} by position"] if arrays else []
        raise ArgumentError(Diagnostic(message, required=required, found=", ".join([*given, *named])))
    return (*arrays, *(named[name] for name in rest))


def as_array(value: object) -> Array | None:
    """A NumPy view of an array-like that has memory of its own; None for anything else, masked arrays included."""
    if isinstance(value, np.ma.MaskedArray):
        return None
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(cast("Array", value))
    try:
        if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
            return _from_dlpack(value)
        return np.asarray(memoryview(cast("bytes", value)))  # a TypeError where it is nothing of the kind
    except (TypeError, ValueError, RuntimeError, BufferError, NotImplementedError):
        return None


def _view(value: object) -> object:
    """An array on the memory of what is given as `out`, if it is an array-like."""
    if isinstance(value, np.generic):  # the array of a number would be a copy, which nobody sees
        return cast("object", value)
    array = as_array(value)
    return value if array is None else array


def _output(argument: Argument, value: object) -> Array:
    if type(value) is not np.ndarray:
        if _is_plain_number(argument, value):
            fix = f"out = np.empty((), {in_python(argument.dtype.numpy)}), and pass `out`"
            raise _misfit(argument, "an array without dims, as `out`", shown_number(value), fix)
        found, fix = no_array(value, argument.dtype.numpy)
        shares = fix is not None and fix.endswith(_SHARING)
        raise _misfit(argument, f"{ARRAY_LIKE}, as `out`", found, fix if shares else None)
    array: Array = value
    wanted = argument.dtype.numpy
    if array.dtype != wanted:
        raise _misfit(argument, f"dtype {wanted}", shown_dtype(array.dtype))
    if not array.flags.writeable:
        raise _misfit(argument, "an array that can be written to", "a read-only array")
    if not _lies_well(argument, array):
        required = _ROWS if argument.is_strided else "a contiguous array in row-major order"
        fix = None if argument.is_strided or not is_writable_in_rows(array) else "compile with `strided=True`"
        raise _misfit(argument, required, f"strides {array.strides} of bytes", fix)
    if not array.flags.aligned:
        raise _misfit(argument, f"memory aligned to {wanted.alignment} bytes", "an array that is not aligned")
    if not has_places_of_its_own(array):
        raise _misfit(argument, "a place of its own for every element", f"strides {array.strides} of bytes")
    return array


def _is_plain_number(argument: Argument, value: object) -> bool:
    """Whether it is a number for an argument without dims, and no array."""
    return not argument.shape and not isinstance(value, np.ndarray) and is_number(value)


def _lies_well(argument: Argument, array: Array) -> bool:
    """Whether a kernel finds the elements of an array as it is."""
    return array.flags.c_contiguous or (argument.is_strided and outer_strides(array) is not None)


def _check_range(symbol: Symbol, size: int) -> None:
    upper = "" if symbol.upper is None else str(symbol.upper)
    multiple = f", a multiple of {symbol.multiple_of}" if symbol.multiple_of > 1 else ""
    in_range = symbol.lower <= size and (symbol.upper is None or size <= symbol.upper)
    if not in_range or size % symbol.multiple_of:
        raise ArgumentError(
            Diagnostic(
                f"the size `{symbol.name}` is out of its range",
                required=f"{symbol.lower}..{upper}{multiple}",
                found=str(size),
            )
        )


def _check_shape(argument: Argument, shape: Sequence[SupportsIndex], sizes: dict[str, int]) -> None:
    if len(shape) != len(argument.shape):
        raise _misfit(argument, f"rank {len(argument.shape)}", f"rank {len(shape)}, shape {shape}")
    for position, (dim, extent) in enumerate(zip(argument.shape, shape, strict=True)):
        wanted = dim if isinstance(dim, int) else evaluate(dim, sizes)
        if wanted != extent:
            shown = dim_text(dim) if isinstance(dim, int) else f"{dim_text(dim)} = {wanted}"
            raise _misfit(argument, f"{shown} in dim {position}", f"{extent}, shape {shape}")


def _misfit(argument: Argument, required: str, found: str, fix: str | None = None) -> ArgumentError:
    type_ = TensorType(argument.shape, argument.dtype)
    return ArgumentError(
        Diagnostic(f"argument `{argument.name}` does not fit {type_}", required=required, found=found, fix=fix)
    )


def _unbound(argument: Argument, required: str, found: str, fix: str | None) -> ArgumentError:
    use = "bound" if argument.state is None else "changed"
    return ArgumentError(
        Diagnostic(f"argument `{argument.name}` cannot be {use} as it is", required=required, found=found, fix=fix)
    )


def _internal(message: str, found: str) -> TcpxError:
    required = "a kernel that accepts what fits its signature"
    return TcpxError(Diagnostic(message, kind=Kind.INTERNAL, required=required, found=found))
