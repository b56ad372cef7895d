"""Sizes that a call tells: each symbol of a function is a dim of an argument, alone or as in `2*N + 1`, or the number
that an argument is."""

from collections.abc import Container, Iterable

from tcpx.payload.attribute_sizes import dims_of
from tcpx.payload.diagnostics import Diagnostic, Direction, VerifyError
from tcpx.payload.ir import FuncOp
from tcpx.payload.sizes import Dim, Symbol, symbols, to_text, told_symbol
from tcpx.payload.types import BufferType, shape_of


def telling_dims(shapes: Iterable[Iterable[Dim]]) -> dict[str, tuple[int, int]]:
    """By the name of each symbol that dims of arguments tell, the argument and the place of the dim: the first one that
    is the symbol alone, else the first one of `2*N + 1`, `2*N`, ..."""
    found: dict[str, tuple[int, int]] = {}
    told = [
        (entry, (k, position))
        for k, shape in enumerate(shapes)
        for position, dim in enumerate(shape)
        if (entry := told_symbol(dim)) is not None
    ]
    for (symbol, _, _), place in sorted(told, key=lambda t: (t[0][1:] != (1, 0), t[1])):
        found.setdefault(symbol.name, place)
    return found


def size_told_by(dim: Dim, extent: int) -> int:
    """What the symbol is that a dim of this extent tells. Where it is not a whole number the dim is another one for
    it, which is checked as for dims that tell nothing."""
    told = told_symbol(dim)
    if told is None:
        raise AssertionError(f"{to_text(dim)} tells no symbol")
    _, factor, offset = told
    return (extent - offset) // factor


def known_sizes(func: FuncOp) -> set[str]:
    """The names of the symbols that the arguments of a call tell."""
    told = set(telling_dims(shape_of(value.type) for value in func.inputs))
    strides = (stride for value in func.args if isinstance(value.type, BufferType) for stride in value.type.strides)
    told |= {symbol.name for stride in strides for symbol in symbols(stride)}
    return told | {symbol.name for symbol in func.numbers.values()}


def size_without_argument(func: FuncOp, known: Container[str] | None = None) -> Diagnostic | None:
    """The error about the first size of a function that follows from no argument; None if each follows."""
    known = known_sizes(func) if known is None else known
    symbol = next((symbol for symbol in func.symbols if symbol.name not in known), None)
    if symbol is None:
        return None
    return Diagnostic(
        f"the size `{symbol.name}` follows from no argument",
        payload=func.location,
        required=f"an argument with a dimension [{symbol.name}]",
        found=", ".join(f"%{value.name}: {value.type}" for value in func.inputs) or "no arguments",
        fix=_declared(func, symbol),
    )


def check_sizes_of_arguments(func: FuncOp) -> None:
    """Raise VerifyError where a size of a function follows from no argument."""
    problem = size_without_argument(func)
    if problem is not None:
        raise VerifyError(problem)


def _declared(func: FuncOp, symbol: Symbol) -> str:
    dims = [dim for value in func.inputs for dim in shape_of(value.type)]
    dim = next((dim for dim in dims if symbol.name in (s.name for s in symbols(dim))), None)
    name = symbol.name
    if dim is None and not _is_read(func, symbol):
        return Direction(f"leave `{name}` out of `symbols`")
    if dim is None:
        return Direction(f"pass it as a number: declare the argument `%{name.lower()}_size: index as [{name}]`")
    return Direction(f"make the whole dim a symbol: [{name}]")


def _is_read(func: FuncOp, symbol: Symbol) -> bool:
    read = [dim for op in func.walk() for value in op.results for dim in shape_of(value.type)]
    read += [dim for op in func.walk() if op is not func for given in op.attributes.values() for dim in dims_of(given)]
    return any(symbol.name == known.name for dim in read for known in symbols(dim))
