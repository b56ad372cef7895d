"""Which arguments and results of a function have rows at any distance from one another: `strided` in the text.

Elements of a row, the innermost dim, always lie next to one another.
"""

from typing import Final

from tcpx.payload.ir import FuncOp
from tcpx.payload.types import TensorType, shape_of
from tcpx.plurals import counted

STRIDED: Final = "strided"
"""The attribute of a function that holds the positions of what is strided: arguments first, then results."""


def strided_positions(func: FuncOp) -> tuple[int, ...]:
    """The positions of what is strided; () once a function is on buffers, whose types have the strides."""
    held = func.attributes.get(STRIDED, ())
    return tuple(k for k in held if isinstance(k, int)) if isinstance(held, tuple) else ()


def can_be_strided(func: FuncOp) -> tuple[int, ...]:
    """The positions of the arguments and results that are tensors of two dims or more."""
    types = [value.type for value in (*func.args, *func.returned)]
    placed = {len(func.args) + result for result in func.states.values()}
    return tuple(
        k
        for k, type_ in enumerate(types)
        if k not in placed and isinstance(type_, TensorType) and len(shape_of(type_)) > 1
    )


def mark_strided(func: FuncOp) -> None:
    """Declare every argument and result strided that can be."""
    positions = can_be_strided(func)
    if positions:
        func.attributes[STRIDED] = positions


def check_strided(func: FuncOp) -> None:
    """Raise VerifyError unless what is strided is there, has rows, and is named once, in order."""
    held = func.attributes.get(STRIDED, ())
    positions = strided_positions(func)
    values = [*func.args, *func.returned]
    if held != tuple(k for k in range(len(values)) if k in positions):
        raise func.error(
            f"`{STRIDED}` is the positions of arguments and results",
            required=f"a list of rising positions below {len(values)}",
            found=str(held),
        )
    for position in positions:
        if position not in can_be_strided(func):
            value = values[position]
            raise func.error(
                "what is strided has rows",
                required="a tensor of two dims or more: the elements of the innermost lie next to one another",
                found=f"%{value.name}: {value.type}, of {counted(len(shape_of(value.type)), 'dim')}",
            )
