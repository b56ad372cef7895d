"""Inputs for a payload: given arrays, and random ones in place of the others."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from tcpx.emit_c.arguments import Array
from tcpx.emit_c.signature import Argument, Number
from tcpx.loading import PayloadLike, module_of
from tcpx.payload.diagnostics import ArgumentError, Diagnostic
from tcpx.payload.given import mapping_of, path_of, seed_of
from tcpx.payload.ir import Module
from tcpx.payload.size_values import SizeValues, size_values
from tcpx.payload.sizes import Dim, Symbol, evaluate, symbols, told_symbol
from tcpx.payload.sizes_of_arguments import size_told_by
from tcpx.payload.stored_arrays import UnreadableArrayError, read_npy
from tcpx.payload.types import ScalarType, TensorType, dtype_of, shape_of
from tcpx.payload.value_ranges import SORTED, SPANNING, UNIQUE, declared_ranges
from tcpx.records import frozen
from tcpx.suggestions import did_you_mean

INTEGER_RANGE = 8
"""Random integers are below this, and at least minus this where the dtype has a sign: products stay small."""


def argument_dtypes(module: PayloadLike) -> dict[str, np.dtype[np.generic]]:
    """The NumPy dtype of every argument of the payload by name, in order."""
    module = module_of(module)
    return {value.name: dtype_of(value.type).numpy for value in module.main.args}


def read_array(path: str | Path, dtype: np.dtype[np.generic] | None = None) -> Array:
    """The array in a `.npy` file. NumPy writes dtypes that it does not know, such as bf16, as raw bytes of their width:
    they are read as `dtype`. Raises ArgumentError."""
    path = path_of(path, "an array")
    try:
        array = read_npy(path)
    except UnreadableArrayError as error:
        raise ArgumentError(
            Diagnostic(f"cannot read the array {path}", required="one array that numpy.save wrote", found=str(error))
        ) from error
    if dtype is not None and array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize:
        return array.view(dtype)
    return array


def random_inputs(
    module: PayloadLike, seed: int = 0, *, given: Mapping[str, Array] | None = None, sizes: SizeValues | None = None
) -> tuple[Array, ...]:
    """One array per argument of the payload, in order: those of `given`, by name, and random ones for the rest.

    `sizes` are values of the payload's symbols; those that a given array has in its shape need not be said. Floats
    are standard normal, integers small or in the range that they declare, booleans fair. Raises ArgumentError for a
    name that the payload does not have, and for a size that nothing tells.
    """
    module = module_of(module)
    named = cast("Mapping[str, Array]", mapping_of(given, "given", '{"x": array}'))
    return drawn_arguments(parameters_of(module), seed, named, {} if sizes is None else sizes)


@frozen
class Parameters:
    """What a function of this name takes."""

    name: str
    arguments: tuple[Argument | Number, ...]
    symbols: tuple[Symbol, ...]

    @property
    def dtypes(self) -> dict[str, np.dtype[np.generic]]:
        """Of the arrays, by name."""
        return {held.name: held.dtype.numpy for held in self.arguments if isinstance(held, Argument)}


def parameters_of(module: Module) -> Parameters:
    """Those of the payload."""
    func = module.main
    numbers, ranges = func.numbers, declared_ranges(func)
    arguments = [
        Number(value.name, k, numbers[k])
        if k in numbers
        else Argument(value.name, dtype_of(value.type), shape_of(value.type), range=ranges.get(k))
        for k, value in enumerate(func.args)
    ]
    return Parameters(func.name, tuple(arguments), tuple(func.symbols))


def drawn_arguments(wanted: Parameters, seed: int, given: Mapping[str, Array], sizes: SizeValues) -> tuple[Array, ...]:
    """What `random_inputs` gives, for these parameters."""
    for name in given:
        _check_known(name, [held.name for held in wanted.arguments], f"@{wanted.name} has no argument `{name}`")
    known = _sizes(wanted, given, size_values(sizes))
    generator = np.random.default_rng(seed_of(seed))
    arrays: list[Array] = []
    for argument in wanted.arguments:
        if argument.name in given:
            arrays.append(given[argument.name])
        elif isinstance(argument, Number):
            arrays.append(np.array(_extent(argument.symbol.size(), known, argument), np.int64))
        else:
            arrays.append(_drawn(argument, known, generator))
    return tuple(arrays)


def _drawn(argument: Argument, known: Mapping[str, int], generator: np.random.Generator) -> Array:
    shape = tuple(_extent(dim, known, argument) for dim in argument.shape)
    try:
        range_ = argument.range
        span = [] if range_ is None else [_extent(d, known, argument) for d in range_[:2]]
        return _draw(shape, argument.dtype, generator, span, range_.order if range_ is not None else ())
    except (MemoryError, ValueError) as error:  # NumPy's, for arrays that it cannot make
        raise ArgumentError(
            Diagnostic(
                f"argument `{argument.name}` does not fit into memory",
                required="smaller sizes",
                found=f"{_type_text(argument)} of shape {shape}: {error}",
            )
        ) from error


def _sizes(wanted: Parameters, given: Mapping[str, Array], sizes: Mapping[str, int]) -> dict[str, int]:
    """The symbols by name, from what was said and from the shapes of the given arrays."""
    declared = {symbol.name: symbol for symbol in wanted.symbols}
    for said in sizes:
        _check_known(said, list(declared), f"@{wanted.name} has no size `{said}`")
    known = {s.name: s.lower for s in wanted.symbols if s.lower == s.upper} | dict(sizes)
    for argument in wanted.arguments:
        if argument.name in given and isinstance(argument, Argument):
            for dim, extent in zip(argument.shape, given[argument.name].shape, strict=False):
                told = told_symbol(dim)
                if told is not None:
                    symbol, value = told[0], size_told_by(dim, extent)
                    if sizes.get(symbol.name, value) != value:
                        raise _contradiction(symbol, sizes[symbol.name], argument, extent)
                    known.setdefault(symbol.name, value)
    for argument in wanted.arguments:
        if argument.name in given and isinstance(argument, Number):
            known.setdefault(argument.symbol.name, int(given[argument.name]))
    for said, extent in known.items():
        _check_range(declared[said], extent)
    return known


def _type_text(argument: Argument | Number) -> str:
    return "index" if isinstance(argument, Number) else str(TensorType(argument.shape, argument.dtype))


def _contradiction(symbol: Symbol, said: int, value: Argument, extent: int) -> ArgumentError:
    return ArgumentError(
        Diagnostic(
            f"the size `{symbol.name}` is not that of argument `{value.name}`",
            required=f"{symbol.name} = {extent}, the array's",
            found=f"{symbol.name} = {said}",
            fix=f"leave out the size {symbol.name}",
        )
    )


def _check_known(name: str, known: list[str], message: str) -> None:
    if name not in known:
        required = f"one of {', '.join(known)}" if known else "nothing: there is none"
        raise ArgumentError(Diagnostic(message, required=required, found=name, fix=did_you_mean(name, known)))


def _check_range(symbol: Symbol, extent: int) -> None:
    upper = "" if symbol.upper is None else str(symbol.upper)
    fits = symbol.lower <= extent and (symbol.upper is None or extent <= symbol.upper)
    if not fits or extent % symbol.multiple_of:
        multiple = f", a multiple of {symbol.multiple_of}" if symbol.multiple_of > 1 else ""
        raise ArgumentError(
            Diagnostic(
                f"the size `{symbol.name}` is out of its range",
                required=f"{symbol.lower}..{upper}{multiple}",
                found=f"{symbol.name} = {extent}",
            )
        )


def _extent(dim: Dim, known: Mapping[str, int], value: Argument | Number) -> int:
    for symbol in symbols(dim):
        if symbol.name not in known:
            raise ArgumentError(
                Diagnostic(
                    f"the size `{symbol.name}` of argument `{value.name}` is not known",
                    required=f"a number for {symbol.name}: {_type_text(value)}",
                    found=", ".join(f"{name} = {extent}" for name, extent in known.items()) or "no sizes",
                    fix=f"say the size: sizes={{'{symbol.name}': 64}}, or --size {symbol.name}=64",
                )
            )
    return dim if isinstance(dim, int) else evaluate(dim, known)


def _draw(
    shape: tuple[int, ...],
    dtype: ScalarType,
    generator: np.random.Generator,
    range_: Sequence[int] = (),
    order: Sequence[str] = (),
) -> Array:
    if range_:
        lower, end = range_[0], max(range_[1], range_[0] + 1)
        drawn = np.asarray(generator.integers(lower, end, shape)).ravel()
        if UNIQUE in order and drawn.size <= end - lower:
            drawn = lower + generator.choice(end - lower, drawn.size, replace=False)
        if SORTED in order:
            drawn.sort()
        if SPANNING in order and drawn.size:
            drawn[0], drawn[-1] = lower, end - 1
        return drawn.reshape(shape).astype(dtype.numpy)
    if dtype.is_float:
        return np.asarray(generator.standard_normal(shape)).astype(dtype.numpy)
    if dtype.bits == 1:
        return np.asarray(generator.integers(0, 2, shape)).astype(dtype.numpy)
    lowest = 0 if dtype.minimum == 0 or dtype.name == "index" else -INTEGER_RANGE
    return np.asarray(generator.integers(lowest, INTEGER_RANGE, shape)).astype(dtype.numpy)


__all__ = [
    "Array", "Parameters", "SizeValues", "argument_dtypes", "drawn_arguments", "parameters_of", "random_inputs",
    "read_array", "size_values",
]  # fmt: skip
