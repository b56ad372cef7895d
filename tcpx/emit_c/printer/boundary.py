"""The arrays that cross the boundary of a kernel, from the buffers that are its arguments."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tcpx.emit_c.signature import Argument
from tcpx.payload.ir import FuncOp, Value
from tcpx.payload.sizes import Symbol, as_symbol, is_equal, symbols
from tcpx.payload.types import BufferType, row_major
from tcpx.payload.value_ranges import declared_ranges


def boundary(func: FuncOp, arguments: Sequence[tuple[Value, BufferType]]) -> tuple[Argument, ...]:
    """The arrays of a function's arguments, contiguous or strided.

    Raises VerifyError for strides that are neither row-major, nor symbols of their own and 1 for the innermost dim.
    """
    shared = Counter(
        symbol.name
        for _, type_ in arguments
        for dim in (*type_.shape, *(() if _is_contiguous(type_) else type_.strides))
        for symbol in symbols(dim)
    )
    ranges = {func.args[k]: held for k, held in declared_ranges(func).items()}
    return tuple(
        replace(
            _argument(func, value, type_, shared),
            state=func.states.get(func.args.index(value)),
            range=ranges.get(value),
        )
        for value, type_ in arguments
    )


def _argument(func: FuncOp, value: Value, type_: BufferType, shared: Counter[str]) -> Argument:
    if _is_contiguous(type_):
        return Argument(value.name, type_.dtype, type_.shape)
    strides = [as_symbol(stride) for stride in type_.strides[:-1]]
    own = tuple(symbol for symbol in strides if symbol is not None and _is_free(symbol) and shared[symbol.name] == 1)
    if len(own) != len(strides) or type_.strides[-1] != 1:
        raise func.error(
            f"the strides of %{value.name} are not those of a caller's array",
            required="row-major strides, or a symbol of its own for each dim but the innermost, and 1 for that",
            found=str(type_),
        )
    return Argument(value.name, type_.dtype, type_.shape, own)


def _is_contiguous(type_: BufferType) -> bool:
    return all(is_equal(a, b) is True for a, b in zip(type_.strides, row_major(type_.shape), strict=True))


def _is_free(symbol: Symbol) -> bool:
    """Whether nothing is said of the values of a symbol."""
    return (symbol.lower, symbol.upper, symbol.multiple_of) == (0, None, 1)
