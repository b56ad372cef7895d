"""Operations that reduce take in the operations after them that scale and shift their results, and the casts and
reshapes around them."""

import numpy as np
import numpy.typing as npt

from tcpx.payload.interfaces import Elementwise
from tcpx.payload.ir import Operation, Value
from tcpx.payload.ops.composite import AlongDims
from tcpx.payload.ops.normalization import Norm
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.traits.constant import Constant
from tcpx.payload.traits.signature import GIVEN, given_operands
from tcpx.payload.types import HALF, ScalarType, accumulator_of, dtype_of, like, shape_of
from tcpx.transform import new
from tcpx.transform.algebra import number_of
from tcpx.transform.editing import erase_dead, first_change, replace_with, source_name
from tcpx.transform.elementwise import repeats
from tcpx.transform.norms_of_parts import split


def absorb(rewriter: Rewriter, root: Operation) -> None:
    """Let the operations under `root` that reduce along dims take in what scales and shifts them, and the casts and
    reshapes around them."""
    for op in [op for op in root.walk() if isinstance(op, AlongDims) and len(op.results) == 1]:
        whole = op
        while (wider := _with_operand(rewriter, whole)) is not None:
            whole = wider
        for dtype in HALF:
            whole = _narrow(rewriter, whole, dtype)
        if isinstance(whole, Norm):
            split(rewriter, whole)


def _with_operand(rewriter: Rewriter, op: AlongDims) -> AlongDims | None:
    """The operation with one more operand, in the place of the operation that applied it; None if there is none.
    Nothing is rounded between the two."""
    if dtype_of(op.result.type) != op.wide or len(op.result.uses) != 1:
        return None
    (user,) = op.result.users
    if not isinstance(user, Elementwise) or user.parent is not op.parent:
        return None
    names = [name for name, _ in op.applied_operands]
    for name, semantics in op.applied_operands[
        max((names.index(given) + 1 for given in given_operands(op)), default=0) :
    ]:
        others = [value for value in user.operands if value is not op.result]
        if user.semantics != semantics or len(others) != 1 or user.result.type != op.result.type:
            continue
        made = others[0].defining_op
        is_here = first_change(op, InsertPoint.before(user)) is None
        if is_here and repeats(made) and made.attributes.get("dims") == op.reduced:
            attributes = {**op.attributes, GIVEN: (*given_operands(op), name)}
            wider = type(op)([*op.operands, made.operands[0]], [op.result.type], attributes)
            wider.stand_for(op)
            rewriter.continue_as(op, replace_with(rewriter, user, wider))
            erase_dead(rewriter, [op.result, others[0]])
            return wider
    return None


def _narrow(rewriter: Rewriter, op: AlongDims, dtype: ScalarType) -> AlongDims:
    """Let an operation read and give a small float, if all that it reads is one, and its result is rounded to one.
    Returns the operation that stands for it then."""
    users = op.result.users
    is_rounded = all(_is_cast(user) and dtype_of(user.results[0].type) == dtype for user in users)
    if not users or not is_rounded or accumulator_of(dtype) != dtype_of(op.result.type):
        return op
    if not _is_cast(op.operand.defining_op) or not all(_is_exact(rewriter, v, dtype) for v in op.operands):
        return op
    wide = list(op.operands)
    operands = [_narrowed(rewriter, value, dtype, op) for value in wide]
    made = type(op)(operands, [like(op.result.type, shape_of(op.result.type), dtype)], op.attributes)
    made.stand_for(op)
    rewriter.insert(made, InsertPoint.before(op), source_name(op))
    rewriter.continue_as(op, made)
    for user in dict.fromkeys(users):
        rewriter.replace_op(user, made.results)
    erase_dead(rewriter, [op.result, *wide])
    return made


def _is_cast(op: Operation | None) -> bool:
    return isinstance(op, Elementwise) and op.semantics == "cast(a)"


def _is_exact(rewriter: Rewriter, value: Value, dtype: ScalarType) -> bool:
    """Whether a value is a cast from a dtype, or a constant with elements of that dtype alone."""
    made = value.defining_op
    if made is not None and _is_cast(made):
        return dtype_of(made.operands[0].type) == dtype
    stored = Constant(made).stored_array if made is not None else None
    if stored is None:
        number = number_of(value)
        return number is not None and _are_exact(np.asarray(number), dtype)
    array = rewriter.module.constants.get(stored)
    return array is not None and _are_exact(array, dtype)


def _are_exact(array: npt.NDArray[np.generic], dtype: ScalarType) -> bool:
    with np.errstate(over="ignore"):
        return bool(np.array_equal(array.astype(dtype.numpy).astype(array.dtype), array, equal_nan=True))


def _narrowed(rewriter: Rewriter, value: Value, dtype: ScalarType, place: Operation) -> Value:
    """What a cast reads, or a constant as a smaller float."""
    made = value.defining_op
    if made is not None and _is_cast(made):
        return made.operands[0]
    return rewriter.insert(new.cast(value, dtype), InsertPoint.before(place), value.name).results[0]
