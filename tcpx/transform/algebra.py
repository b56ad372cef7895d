"""Apply the tables of `identities`, and what views and conversions of each other are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import copysign, isfinite

import numpy as np

from tcpx.payload.constants import Constants
from tcpx.payload.evaluator import Evaluation
from tcpx.payload.interfaces import Elementwise, Structured, Tileable
from tcpx.payload.ir import DIM_NAMES, Attribute, Operation, Value, operation_class
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.traits.algebra import Keeps, algebra
from tcpx.payload.traits.constant import Constant
from tcpx.payload.traits.dims import has_numbered_dims
from tcpx.payload.traits.indices import Indices
from tcpx.payload.traits.masked import Masked
from tcpx.payload.traits.positions import positions_read
from tcpx.payload.traits.tree import Tree
from tcpx.payload.types import ScalarType, TensorType, Type, dtype_of, like, shape_of
from tcpx.transform import new
from tcpx.transform.casts import passes_unchanged
from tcpx.transform.editing import replace_by_read, replace_with, source_name
from tcpx.transform.identities import REPEATED, Identity, Term, identities

Build = Callable[[Operation], Value]


def apply_identities(rewriter: Rewriter, op: Operation, options: Sequence[str] = ()) -> bool:
    """Rewrite an operation by the first line of the tables that fits it; whether one did."""
    if len(op.results) != 1 or not set(op.attributes) <= {DIM_NAMES}:
        return False
    for identity in identities(*options).get(op.opcode, ()):
        letters: dict[str, Value] = {}
        fits = identity.holds_for(dtype_of(op.result.type)) and _arguments(identity.left, op, letters)
        if fits and _replace(rewriter, op, identity, letters):
            return True
    return False


def known_result(op: Operation) -> Value | float | int | None:
    """What a detached elementwise operation with a number among its operands is known to be: a number, where all of
    them are numbers, or the operand or number that an exact identity says; None if it has to be computed."""
    if not isinstance(op, Elementwise) or len(op.results) != 1 or not set(op.attributes) <= {DIM_NAMES}:
        return None
    numbers, dtype = [number_of(value) for value in op.operands], dtype_of(op.result.type)
    known = [n for n in numbers if n is not None]
    if not known:
        return None
    if len(known) == len(numbers):
        args = [np.full((), n).astype(dtype_of(v.type).numpy) for n, v in zip(known, op.operands, strict=True)]
        with np.errstate(all="ignore"):
            (result,) = op.evaluate(args, Evaluation(Constants(), {}))
        number = float(result) if dtype.is_float else int(result)
        return number if isfinite(number) else None
    for identity in identities().get(op.opcode, ()):
        letters: dict[str, Value] = {}
        if identity.holds_for(dtype) and _arguments(identity.left, op, letters):
            if identity.right.number is not None:
                return identity.right.number
            value = letters.get(identity.right.letter)
            if value is not None and value.type == op.result.type:
                return value
    return None


def number_of(value: Value) -> float | int | None:
    """The number that every element of a value is; None if it is not known to be one."""
    op = value.defining_op
    number = Constant(op).number if op is not None else None
    if op is None or number is not None:
        return number
    if not isinstance(op, Structured) or not op.is_movement or len(op.results) != 1 or positions_read(op):
        return None
    held = op.attributes.get("value")
    if not op.operands:
        return held if isinstance(held, int | float) else None
    return number_of(op.operands[0]) if len(op.operands) == 1 and Indices(op).outside is None else None


def _arguments(term: Term, op: Operation, letters: dict[str, Value]) -> bool:
    pairs = zip(term.args, op.operands, strict=False)
    return len(term.args) == len(op.operands) and all(_matches(part, value, letters) for part, value in pairs)


def _matches(term: Term, value: Value, letters: dict[str, Value]) -> bool:
    """Whether a value is what a pattern says; letters are bound on the way."""
    if term.letter:
        return letters.setdefault(term.letter, value) is value
    if term.number is not None:
        return is_number(number_of(value), term.number, dtype_of(value.type))
    made = value.defining_op
    if made is None or len(made.results) != 1:
        return False
    if term.opcode == REPEATED:
        is_repeated = "broadcast" in Tree(made).tree_classes() and isinstance(made.result.type, TensorType)
        return is_repeated and letters.setdefault(REPEATED, value) is value and _arguments(term, made, letters)
    usual = made.opcode == term.opcode and set(made.attributes) <= {DIM_NAMES}
    return usual and _arguments(term, made, letters)


def is_number(found: float | int | None, wanted: float, dtype: ScalarType) -> bool:
    """Whether a constant is a number; of floats, with the sign of its zero."""
    if found is None or found != wanted:
        return False
    return not dtype.is_float or copysign(1, found) == copysign(1, wanted)


def _replace(rewriter: Rewriter, op: Operation, identity: Identity, letters: Mapping[str, Value]) -> bool:
    right, made = identity.right, list[Operation]()

    def build(inner: Operation) -> Value:
        inner.stand_for(op)
        made.append(inner)
        return inner.result

    if right.letter:
        if letters[right.letter].type != op.result.type:
            return False
        replace_by_read(rewriter, op, letters[right.letter])
        return True
    _built(right, op.result.type, letters, build)
    last = made.pop()
    _keep_names(op, last)
    for inner in made:
        rewriter.insert(inner, InsertPoint.before(op), source_name(op))
    replace_with(rewriter, op, last)
    return True


def _built(term: Term, type_: Type, letters: Mapping[str, Value], build: Build) -> Value:
    """What the right side says, of this type; its last operation is the value itself."""
    if term.letter:
        return letters[term.letter]
    if term.number is not None:
        return build(new.fill(term.number, type_) if isinstance(type_, TensorType) else new.literal(term.number, type_))
    if term.opcode == REPEATED:
        (inner,) = term.args
        broadcast = letters[REPEATED].defining_op
        if broadcast is None:
            raise TypeError("a broadcast is an operation")
        small = _built(inner, broadcast.operands[0].type, letters, build)
        return build(type(broadcast)([small], [type_], broadcast.attributes))
    cls = operation_class(term.opcode)
    if cls is None:
        raise TypeError(f"there is no operation {term.opcode}")
    # An operand that is a truth value beside others has its own type: it is a letter.
    return build(cls([_built(part, type_, letters, build) for part in term.args], [type_]))


def _keep_names(old: Operation, made: Operation) -> None:
    if DIM_NAMES in old.attributes and isinstance(made, Tileable) and has_numbered_dims(made):
        made.attributes[DIM_NAMES] = old.attributes[DIM_NAMES]


# -- operations of one kind after each other -------------------------------------------------------------------------


def fold_repeated(rewriter: Rewriter, op: Operation) -> bool:
    """Make one of two conversions, transposes or broadcasts of each other, where that is the same, and none of one that
    changes nothing."""
    if _changes_nothing(op):
        replace_by_read(rewriter, op, op.operands[0])
        return True
    inner = op.operands[0].defining_op if len(op.operands) == 1 and len(op.results) == 1 else None
    if inner is None or type(inner) is not type(op) or len(inner.operands) != 1:
        return False
    source, result = inner.operands[0], op.result.type
    if isinstance(op, Elementwise):
        dtypes = dtype_of(source.type), dtype_of(inner.result.type), dtype_of(result)
        if algebra(op).converts is not Keeps.VALUE or not passes_unchanged(*dtypes):
            return False
        attributes: Mapping[str, Attribute] = {}
        if dtypes[0] == dtypes[2]:
            replace_by_read(rewriter, op, source)
            return True
    else:
        composed = _composed(op, inner)
        if composed is None:
            return False
        attributes = composed
        places = [*composed.values()]
        if source.type == result and places == [tuple(range(len(shape_of(result))))]:
            replace_by_read(rewriter, op, source)
            return True
    replace_with(rewriter, op, _standing_for(type(op)([source], [result], attributes), op))
    return True


def _changes_nothing(op: Operation) -> bool:
    """Whether an operation is a cast to the dtype that its operand has, a transpose that leaves dims where they are, or
    a broadcast along none."""
    if len(op.operands) != 1 or len(op.results) != 1 or op.operands[0].type != op.result.type:
        return False
    if isinstance(op, Elementwise):
        return algebra(op).converts is Keeps.VALUE
    if not isinstance(op, Structured) or {"transpose", "broadcast"}.isdisjoint(Tree(op).tree_classes()):
        return False
    return list(op.maps()) == [op.result_map()]


def _standing_for(made: Operation, op: Operation) -> Operation:
    made.stand_for(op)
    _keep_names(op, made)
    return made


def _composed(op: Operation, inner: Operation) -> Mapping[str, Attribute] | None:
    """The attributes of one transpose, or broadcast, for two."""
    classes = Tree(op).tree_classes()
    key = "permutation" if "transpose" in classes else "dims" if "broadcast" in classes else ""
    outer_places, inner_places = op.attributes.get(key), inner.attributes.get(key)
    if not isinstance(outer_places, tuple) or not isinstance(inner_places, tuple):
        return None
    first, then = (outer_places, inner_places) if key == "permutation" else (inner_places, outer_places)
    return {key: tuple(then[k] for k in first if isinstance(k, int))}


def _repeated_as(op: Operation | None, other: Operation) -> Value | None:
    """What an operation broadcasts, if it does so like another broadcast."""
    if op is None or type(op) is not type(other) or op.attributes["dims"] != other.attributes["dims"]:
        return None
    source, like_it = op.operands[0], other.operands[0]
    return source if shape_of(source.type) == shape_of(like_it.type) else None


def sink_broadcast(rewriter: Rewriter, op: Operation) -> bool:
    """Compute an elementwise operation before the broadcast of its operands, all repeated alike, or numbers."""
    if not isinstance(op, Elementwise) or len(op.results) != 1 or not isinstance(op.result.type, TensorType):
        return False
    makers = [value.defining_op for value in op.operands if number_of(value) is None]
    first = next((made for made in makers if made is not None and "broadcast" in Tree(made).tree_classes()), None)
    if first is None or Masked(op).valid:
        return False
    shape = shape_of(first.operands[0].type)
    small: list[Value | float | int] = []
    for value in op.operands:
        made, number = value.defining_op, number_of(value)
        source = _repeated_as(made, first)
        if source is not None:
            small.append(source)
        elif number is not None:
            small.append(number)
        else:
            return False
    if not all(isinstance(v.type, TensorType) for v in small if isinstance(v, Value)):
        return False
    base, given = source_name(op), list[Value]()
    for source, wide in zip(small, op.operands, strict=True):
        if isinstance(source, Value):
            given.append(source)
        else:
            made = new.fill(source, like(wide.type, shape, dtype_of(wide.type)))
            given.append(rewriter.insert(made, InsertPoint.before(op), base).result)
    held = {key: attribute for key, attribute in op.attributes.items() if key != DIM_NAMES}
    inner = type(op)(given, [like(op.result.type, shape, dtype_of(op.result.type))], held)
    inner.stand_for(op)
    rewriter.insert(inner, InsertPoint.before(op), base)
    dims = {"dims": first.attributes["dims"]}
    replace_with(rewriter, op, _standing_for(type(first)([inner.result], [op.result.type], dims), op))
    return True
