"""Rows for operations on lanes: found, or expanded, or done in f32, or lane by lane."""

from collections.abc import Sequence
from math import isnan
from typing import Final

from tcpx.payload.diagnostics import Direction
from tcpx.payload.interfaces import Build, Elementwise, Structured
from tcpx.payload.ir import Operation, Value
from tcpx.payload.ops.constant import splat
from tcpx.payload.ops.dot_product import Dot, Repeat
from tcpx.payload.ops.vector import Extract, FromElements, Insert, Shuffle
from tcpx.payload.traits.algebra import algebra
from tcpx.payload.traits.expansion import Expansion
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.types import HALF, ScalarType, dtype_of, f32, like, shape_of, si32, si64
from tcpx.target import InstructionRow, LaneType
from tcpx.target.rows import IN_ORDER
from tcpx.transform import new
from tcpx.transform.vectors.dot_products import DOT
from tcpx.transform.vectors.literals import is_splat, literal_of
from tcpx.transform.vectors.probes import combiner_of
from tcpx.transform.vectors.recurrences import is_in_order
from tcpx.transform.vectors.refusal import refusal
from tcpx.transform.vectors.selector import LITERAL, Selector, type_of
from tcpx.transform.vectors.structured import is_horizontal

COMMUTATIVE: Final = ("max(a, b)", "min(a, b)")
"""Semantics whose operands may be swapped so that the condition of a cheaper row holds."""
CAST: Final = "cast(a)"
HORIZONTAL: Final = {"a + b": "horizontal_add", "max(a, b)": "horizontal_max", "min(a, b)": "horizontal_min"}
"""Semantics of a combiner -> kind of the rows that reduce a vector with it."""


def select_structured(selector: Selector, op: Structured) -> None:
    """The row of a splat, of a lane-wise operation or of a reduction of lanes; others on scalars are taken apart."""
    if is_splat(op):
        _give_row(selector, op, "splat")
    elif isinstance(op, Elementwise) and op.semantics:
        _select_lane_wise(selector, op)
    elif is_horizontal(op):
        _select_horizontal(selector, op)
    elif len(op.results) == 1 and all(isinstance(v.type, ScalarType) for v in (op.result, *op.operands)):
        selector.rewrite(op, lambda build: op.scalar_body(build, op.inputs, op.init))
    else:
        raise refusal(
            op,
            "is not lowered to operations on scalars and lanes",
            required="one that an instruction may do",
            found=", ".join(str(v.type) for v in (*op.operands, *op.results)),
            fix=Direction("apply lower_vectors before"),
        )


def _give_row(selector: Selector, op: Operation, kind: str, semantics: str | None = None) -> None:
    """The row of a kind for the types of an operation. Raises ScheduleError where the target has none."""
    row = selector.find(kind, type_of(op.result, op), [type_of(v, op) for v in op.operands], semantics)
    if row is None:
        raise selector.missing(op, kind)
    selector.give(op, row)


def _select_lane_wise(selector: Selector, op: Elementwise) -> None:
    """The row of an operation on scalars or equal 1-D vectors; without one, the operation is rewritten."""
    result, operands = type_of(op.result, op), [type_of(v, op) for v in op.operands]
    whole = not any(is_loose(v) for v in op.operands)
    row = _row(selector, op, result, operands) if whole else None
    if row is not None and not row.is_slow:
        selector.give(op, row)
    elif whole and selector.rewrite(op, lambda build: Expansion(op).expansion(build, op.operands)):
        pass
    elif row is not None:
        selector.give(op, row)
    elif whole and _in_half(selector, op, result, operands):
        selector.rewrite(op, lambda build: _in_f32(op, build))
    elif whole and (middle := _between(selector, op, result, operands)) is not None:
        selector.rewrite(op, lambda build: _cast(build, _cast(build, op.operands[0], middle), dtype_of(op.result.type)))
    elif result.lanes > 1:
        selector.remark_lanes(op, result.lanes)
        selector.rewrite(op, lambda build: _lane_by_lane(selector, op, build, result.lanes))
    else:
        raise selector.missing(op, f"compute with the semantics {op.semantics!r}")


def _row(selector: Selector, op: Elementwise, result: LaneType, operands: Sequence[LaneType]) -> InstructionRow | None:
    """The best row; operands of a commutative operation are swapped if that makes a cheaper one right."""
    facts = [is_not_nan(v) for v in op.operands]
    conditions = [f"{name}_not_nan" for name, fact in zip("ab", facts, strict=False) if fact]
    row = selector.find("compute", result, operands, op.semantics, [*conditions, IN_ORDER])
    if row is not None and row.condition == IN_ORDER and not is_in_order(op):
        row = selector.find("compute", result, operands, op.semantics, conditions)
    if row is not None and row.condition is None and conditions and op.semantics in COMMUTATIVE:
        swapped = [f"{name}_not_nan" for name, fact in zip("ba", facts, strict=True) if fact]
        better = selector.find("compute", result, operands, op.semantics, swapped)
        if better is not None and better.condition is not None:
            selector.rewriter.set_operands(op, list(reversed(op.operands)))
            return better
    return row


def is_not_nan(value: Value) -> bool:
    """Whether a value provably has no NaN: an integer, a literal, a splat of one, or cast from an integer."""
    if not dtype_of(value.type).is_float:
        return True
    op = value.defining_op
    if op is not None and (is_splat(op) or (isinstance(op, Elementwise) and op.semantics == CAST)):
        return is_not_nan(op.operands[0])
    number = literal_of(op)
    return number is not None and not isnan(number)


def _in_half(selector: Selector, op: Elementwise, result: LaneType, operands: Sequence[LaneType]) -> bool:
    """Whether an operation on f16 or bf16, which are stored but not computed with, may be done in f32."""
    halves = {dtype.name for dtype in HALF}
    touched = any(t.dtype in halves for t in (result, *operands))
    is_right = algebra(op).converts is None and algebra(op).rounding is None
    return is_right and touched and selector.target.has_type(f32.name, result.lanes)


def _in_f32(op: Elementwise, build: Build) -> Value:
    wide = [_cast(build, v, f32) if dtype_of(v.type) in HALF else v for v in op.operands]
    dtype = dtype_of(op.result.type)
    type_ = like(op.result.type, shape_of(op.result.type), f32 if dtype in HALF else dtype)
    made = build(type(op)(wide, [type_], op.attributes))
    return _cast(build, made, dtype) if dtype in HALF else made


def _cast(build: Build, value: Value, dtype: ScalarType) -> Value:
    return build(new.cast(value, dtype))


def _between(selector: Selector, op: Elementwise, result: LaneType, operands: Sequence[LaneType]) -> ScalarType | None:
    """A dtype to cast through that gives the same and for which the target has both rows."""
    if op.semantics != CAST:
        return None
    source, dest = dtype_of(op.operands[0].type), dtype_of(op.result.type)
    for middle in (f32, si32, si64):
        half = LaneType(middle.name, result.lanes)
        if (
            middle not in (source, dest)
            and _agrees(source, middle, dest)
            and selector.find("compute", half, operands, CAST) is not None
            and selector.find("compute", result, [half], CAST) is not None
        ):
            return middle
    return None


def _agrees(source: ScalarType, middle: ScalarType, dest: ScalarType) -> bool:
    """Whether casting through `middle` gives what the direct cast gives: it holds every source value, or only low
    bits are wanted, or the result is a half (which is rounded from f32 anyway)."""
    if middle == f32:
        return source in HALF or dest in HALF
    small = source.bits < middle.bits and not source.is_float
    return small or (source.is_integer and dest.is_integer and dest.bits <= middle.bits)


def is_loose(value: Value) -> bool:
    """Whether the value is only a list of scalars, because the target cannot make a vector of them."""
    return isinstance(value.defining_op, FromElements)


def _lane_by_lane(selector: Selector, op: Elementwise, build: Build, lanes: int) -> Value:
    elements: list[Value] = []
    for lane in range(lanes):
        args = [selector.lane(build, v, lane) for v in op.operands]
        elements.append(op.scalar_body(build, args, None))
    return build(FromElements.of(elements))


def _select_horizontal(selector: Selector, op: Structured) -> None:
    """The row that reduces the lanes, or pairs of lanes combined in a tree."""
    vector = op.operands[0]
    type_ = type_of(vector, op)
    kind = HORIZONTAL.get(combiner_of(op).semantics)
    row = selector.find(kind, type_of(op.result, op), [type_]) if kind is not None and not is_loose(vector) else None
    if row is not None:
        selector.give(op, row)
        return

    def tree(build: Build) -> Value:
        level = [selector.lane(build, vector, lane) for lane in range(type_.lanes)]
        while len(level) > 1:
            pairs = [Reduction(op).combine(build, a, b) for a, b in zip(level[::2], level[1::2], strict=False)]
            level = pairs + level[len(level) // 2 * 2 :]
        return level[0]

    selector.rewrite(op, tree)


def select_repeat(selector: Selector, op: Repeat) -> None:
    """The row that repeats a group of lanes."""
    _give_row(selector, op, "splat")


def select_dot(selector: Selector, op: Dot) -> None:
    """The row that adds dot products of neighbours."""
    _give_row(selector, op, "dot", DOT)


def select_from_elements(selector: Selector, op: FromElements) -> None:
    """Inserts of single lanes into a splat of the first. Without such a row the operation stays, as the list of
    scalars that its users take lanes from."""
    result = type_of(op.result, op)
    first = op.operands[0]

    def chain(build: Build) -> Value:
        made = build(new.broadcast(first, (), op.result.type))
        for lane, element in enumerate(op.operands):
            if element is not first:
                made = build(Insert.of(made, element, lane))
        return made

    if all(v is first for v in op.operands) or _insert_row(selector, result) is not None:
        selector.rewrite(op, chain)


def select_insert(selector: Selector, op: Insert) -> None:
    """The row that inserts a lane."""
    _give_row(selector, op, "insert")


def _insert_row(selector: Selector, type_: LaneType) -> InstructionRow | None:
    return selector.find("insert", type_, [type_, LaneType(type_.dtype, 1)])


def select_shuffle(selector: Selector, op: Shuffle) -> None:
    """The row that takes these lanes, or any lanes; without one, lane by lane."""
    type_ = type_of(op.operands[0], op)
    row = next((row for row in selector.target.shuffles(type_) if row.lanes == op.lanes), None)
    row = row or selector.find("permute", type_of(op.result, op), [type_, type_])
    if row is not None:
        selector.give(op, row)
        return

    def lanes(build: Build) -> Value:
        sources = [divmod(lane, type_.lanes) for lane in op.lanes]
        return build(FromElements.of([selector.lane(build, op.operands[which], lane) for which, lane in sources]))

    selector.rewrite(op, lanes)


def select_extract(selector: Selector, op: Extract) -> None:
    """The row that takes out a lane."""
    _give_row(selector, op, "extract")


def select_index(selector: Selector, op: Operation) -> None:
    """An index expression stands in the code as it is."""
    selector.give(op, LITERAL)


def select_literal(selector: Selector, op: Operation) -> None:
    """A scalar literal is printed as it is, one of vector type is a splat of it."""
    number, type_ = literal_of(op), op.result.type
    type_of(op.result, op)
    if number is None:
        raise selector.missing(op, "literal")
    if isinstance(type_, ScalarType):
        selector.give(op, LITERAL)
    else:
        selector.rewrite(op, lambda build: splat(build, number, type_))
