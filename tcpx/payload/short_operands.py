"""Operands written in place: a number, and the broadcast of a value. They stand for operations of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tcpx.payload.comparison import same_attribute
from tcpx.payload.diagnostics import Diagnostic, Direction, VerifyError
from tcpx.payload.interfaces import Elementwise
from tcpx.payload.ir import Operation, Value
from tcpx.payload.ops.constant import Const
from tcpx.payload.ops.expand import Expand
from tcpx.payload.ops.movement import Broadcast, Fill
from tcpx.payload.types import ScalarType, Type, dtype_of, i1, like, shape_of
from tcpx.records import frozen

Number = int | float


@frozen
class Repeated:
    """The broadcast of a value to the shape of a result: dim k of it is dim `dims[k]` there; if `expands`, or 1."""

    value: Value
    dims: tuple[int, ...]
    expands: bool = False


OperandLike = Value | Number | Repeated


def broadcast(value: Value, dims: Sequence[int]) -> Repeated:
    """A value as an operand of an elementwise operation, repeated along the dims of it that are not in `dims`."""
    return Repeated(value, tuple(dims))


def expand(value: Value, dims: Sequence[int]) -> Repeated:
    """The same of a value of whose dims only a call says whether they are 1: `tcp.expand`."""
    return Repeated(value, tuple(dims), expands=True)


def short_name(result: str, cls: type[Operation], index: int) -> str:
    """What the operation is called that operand `index` stands for: `y.rhs` for an operation called `y`."""
    names = cls.signature.operand_names
    return f"{result}.{names[index] if index < len(names) else index}"


def written_out(cls: type[Operation], operands: Sequence[OperandLike], types: Sequence[Type]) -> list[Value]:
    """The values of operands; of those that are written in place, the results of detached operations, with no names,
    of which some are written for others (`Shorthand`).

    Raises VerifyError where an operation has no operands in place, or no dtype follows for a number.
    """
    if all(isinstance(given, Value) for given in operands):
        return [given for given in operands if isinstance(given, Value)]
    if not issubclass(cls, Elementwise) or len(types) != 1:
        raise VerifyError(
            Diagnostic(
                f"{cls.opcode} has no operands that are written in place",
                required="values, or an elementwise operation with one result",
                found=", ".join(operand_text(given) for given in operands if not isinstance(given, Value)),
                fix=_to_write(cls, next(given for given in operands if not isinstance(given, Value))),
            )
        )
    dtypes = [_dtype(given) for given in operands]
    return [
        given if isinstance(given, Value) else _operation(cls, index, given, dtypes, types[0]).result
        for index, given in enumerate(operands)
    ]


def short_operands(op: Operation) -> Mapping[int, Number | Repeated]:
    """The operands of an operation that can be written in place, by their index: what `written_out` makes of them are
    the operations right before this one that make them, each for it alone."""
    if not isinstance(op, Elementwise) or len(op.results) != 1 or op.parent is None or op.inits:
        return {}
    found = {k: given for k, value in enumerate(op.operands) if (given := _in_place(op, k, value)) is not None}
    place = op.parent.index(op) if found else 0
    before = op.parent.ops[max(0, place - len(found)) : place]
    if (
        not found
        or len(before) != len(found)
        or any(made is not op.operands[k].defining_op for made, k in zip(before, found, strict=True))
    ):
        return {}
    operands = [found.get(k, value) for k, value in enumerate(op.operands)]
    dtypes = [_dtype(given) for given in operands]
    for k, given in found.items():
        dtype = _dtype(given) or _dtype_of_number(type(op), k, dtypes, dtype_of(op.result.type))
        if dtype is None or op.operands[k].type != like(op.result.type, shape_of(op.result.type), dtype):
            return {}
        if not isinstance(given, Repeated) and not same_attribute(given, _literal(given, dtype)):
            return {}
    return found


def operand_text(given: OperandLike) -> str:
    """An operand as it is written."""
    match given:
        case Value():
            return f"%{given.name or 'unnamed'}"
        case Repeated():
            return f"{'expand' if given.expands else 'broadcast'}(%{given.value.name}, {list(given.dims)})"
        case _:
            return number_text(given)


def number_text(number: Number) -> str:
    """A number as it is written."""
    return str(number).lower() if isinstance(number, bool) else repr(number)


def _in_place(op: Elementwise, index: int, value: Value) -> Number | Repeated | None:
    """What an operand may be written as, by the operation that makes it alone."""
    made = value.defining_op
    if made is None or len(value.uses) != 1 or len(made.results) != 1 or made.parent is not op.parent:
        return None
    if not made.name == value.name == short_name(op.result.name, type(op), index):
        return None
    match made:
        case Fill() | Const() if [*made.attributes] == ["value"]:
            held = made.attributes["value"]
            is_usual = isinstance(made, Const) == isinstance(value.type, ScalarType)
            return held if isinstance(held, int | float) and is_usual else None
        case Broadcast() if [*made.attributes] == ["dims"]:
            return Repeated(made.operand, made.places_of_dims)
        case _:
            return None


def _dtype_of_number(
    cls: type[Elementwise], index: int, dtypes: Sequence[ScalarType | None], result: ScalarType
) -> ScalarType | None:
    """The dtype of operand `index` where a text writes a number for it: what the class says (`dtype_of_number`), else
    that of the others, whose `dtypes` are None where they are numbers too. None: it does not follow."""
    declared = getattr(cls, "dtype_of_number", None)
    if declared is not None:
        return declared(index, dtypes, result)
    return next((dtype for dtype in dtypes if dtype is not None), None)


def _operation(
    cls: type[Elementwise], index: int, given: Number | Repeated, dtypes: Sequence[ScalarType | None], result: Type
) -> Operation:
    """The detached operation that an operand written in place stands for."""
    shape = shape_of(result)
    if isinstance(given, Repeated):
        make = Expand.of if given.expands else Broadcast.of
        return make(given.value, given.dims, like(result, shape, dtype_of(given.value.type)))
    dtype = _dtype_of_number(cls, index, dtypes, dtype_of(result))
    if dtype is None:
        raise VerifyError(
            Diagnostic(
                f"no dtype follows for the number {number_text(given)}",
                required="an operand that is a value",
                found=f"{cls.opcode} of numbers",
                fix=_to_write(cls, given),
            )
        )
    if isinstance(given, bool) and dtype != i1:
        raise VerifyError(
            Diagnostic(f"a truth value is no {dtype}", required=f"a number of {dtype}", found=number_text(given))
        )
    made = Const if isinstance(result, ScalarType) else Fill
    return made([], [like(result, shape, dtype)], {"value": _literal(given, dtype)})


def _literal(given: Number, dtype: ScalarType) -> Number:
    """A number as the attribute of a constant holds it: of a dtype of floats, a float."""
    return float(given) if dtype.is_float and not isinstance(given, bool) and abs(given) < 2**1000 else given


def _dtype(given: OperandLike) -> ScalarType | None:
    """The dtype of an operand; None of a number."""
    match given:
        case Value():
            return dtype_of(given.type)
        case Repeated():
            return dtype_of(given.value.type)
        case _:
            return None


def _to_write(cls: type[Operation], given: Number | Repeated) -> str:
    """The statement in place of an operand that cannot be written so."""
    if isinstance(given, Repeated):
        opcode = (Expand if given.expands else Broadcast).opcode
        statement = f"%c = {opcode}(%{given.value.name}) {{dims = {list(given.dims)}}} : TYPE"
        return Direction(f"write `{statement}` before it, and %c in its place")
    held = f"{{value = {number_text(given)}}}"
    is_constant = "value" in (cls.signature.attribute_names or ()) and not cls.signature.operand_names
    if is_constant:
        return f"write {cls.opcode} {held}"
    return Direction(f"write `%c = tcp.fill {held} : TYPE` before it, and %c in its place")
