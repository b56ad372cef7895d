"""Rows that a payload names: each has to be an instruction that does what its operation does."""

from collections.abc import Sequence
from typing import Final

from tcpx.payload.diagnostics import Direction
from tcpx.payload.interfaces import Elementwise, Structured
from tcpx.payload.ir import ROW, Operation
from tcpx.payload.ops.constant import Const
from tcpx.payload.ops.dot_product import Dot, Repeat
from tcpx.payload.ops.memory import Fence, Lead, Prefetch
from tcpx.payload.ops.vector import Extract, Gather, Insert, Mask, Read, Shuffle, Write
from tcpx.payload.types import ScalarType
from tcpx.records import frozen
from tcpx.target import InstructionRow, LaneType, Target
from tcpx.target.errors import TargetError
from tcpx.target.semantics import is_expression, normalize
from tcpx.transform.recipes import Recipes
from tcpx.transform.vectors.compute_rows import HORIZONTAL
from tcpx.transform.vectors.dot_products import DOT
from tcpx.transform.vectors.literals import is_splat
from tcpx.transform.vectors.probes import combiner_of
from tcpx.transform.vectors.refusal import refusal
from tcpx.transform.vectors.selector import LITERAL, type_of
from tcpx.transform.vectors.structured import is_horizontal

LOADS: Final = (
    "load",
    "masked_load",
    "masked_load_from",
    "strided_load",
    "masked_strided_load",
    "masked_strided_load_from",
)
STORES: Final = ("store", "masked_store", "stream_store")


@frozen
class NamedRow:
    """The row that an operation names; None for a literal."""

    target: Target
    row: InstructionRow | None

    def check(
        self,
        op: Operation,
        kinds: Sequence[str],
        result: LaneType | None = None,
        operands: Sequence[LaneType] = (),
        semantics: str | None = None,
        lanes: tuple[int, ...] = (),
    ) -> None:
        """Raise ScheduleError unless the row is of one of these kinds, with these types, semantics and lanes."""
        row = self.row
        meaning = normalize(semantics) if semantics is not None and is_expression(semantics) else semantics
        wanted = result, tuple(operands), meaning, lanes
        if row is not None and row.kind in kinds and (row.result, row.operands, row.semantics, row.lanes) == wanted:
            return
        types = f"{', '.join(map(str, operands))} -> {result or ''}".strip()
        raise refusal(
            op,
            "names an instruction that does something else",
            required=f"a row of {_described(' or '.join(kinds) or 'no kind', semantics)}: {types}",
            found=LITERAL if row is None else f"{row.name}, {_described(row.kind, row.semantics)}: {row.signature}",
            fix=Direction("leave the attribute `row` out: `select_instructions` sets it"),
        )

    def check_computed(
        self, op: Operation, kinds: Sequence[str], semantics: str | None = None, lanes: tuple[int, ...] = ()
    ) -> None:
        """The same for an operation that makes its result of its operands alone."""
        self.check(op, kinds, type_of(op.result, op), [type_of(v, op) for v in op.operands], semantics, lanes)


def _described(kind: str, semantics: str | None) -> str:
    return f"kind {kind}" if semantics is None else f"kind {kind}, {semantics}"


def check_row(target: Target, op: Operation) -> None:
    """Raise ScheduleError where an operation names no row of the target, or one that does something else."""
    name = op.attributes[ROW]
    try:
        row = None if name == LITERAL else target.row(str(name))
    except TargetError as error:
        raise refusal(
            op,
            f"names an instruction that the target {target.name} does not have",
            required=f"a row of the target {target.name}",
            found=str(name),
            fix=Direction("leave the attribute `row` out: `select_instructions` sets it"),
        ) from error
    NAMED.apply(NamedRow(target, row), op)


def _structured(named: NamedRow, op: Structured) -> None:
    if is_splat(op):
        named.check_computed(op, ["splat"])
    elif isinstance(op, Elementwise) and op.semantics:
        named.check_computed(op, ["compute"], op.semantics)
    else:
        kind = HORIZONTAL.get(combiner_of(op).semantics) if is_horizontal(op) else None
        named.check_computed(op, [kind] if kind is not None else [])


def _constant(named: NamedRow, op: Const) -> None:
    if named.row is not None or not isinstance(op.result.type, ScalarType):
        named.check(op, [], type_of(op.result, op))


def _read(named: NamedRow, op: Read) -> None:
    named.check(op, LOADS, type_of(op.result, op))


def _mask(named: NamedRow, op: Mask) -> None:
    named.check(op, ["lane_mask" if op.first == 0 else "lane_mask_from"], type_of(op.result, op))


def _gather(named: NamedRow, op: Gather) -> None:
    named.check(op, ["gather"], type_of(op.result, op), [type_of(value, op) for value in op.indices.values()])


def _write(named: NamedRow, op: Write) -> None:
    named.check(op, STORES, None, [type_of(op.operands[0], op)])


def _shuffle(named: NamedRow, op: Shuffle) -> None:
    takes_any = named.row is not None and named.row.kind == "permute"
    named.check_computed(op, ["shuffle", "permute"], None, () if takes_any else op.lanes)


def _prefetch(named: NamedRow, op: Prefetch) -> None:
    named.check(op, ["prefetch_write" if op.attributes.get("write") is True else "prefetch_read"])


NAMED: Final = Recipes[NamedRow]()
"""What the row of an operation must be, by class."""
NAMED.add(_structured, Structured)
NAMED.add(_constant, Const)
NAMED.add(_read, Read)
NAMED.add(_mask, Mask)
NAMED.add(_gather, Gather)
NAMED.add(_write, Write)
NAMED.add(_prefetch, Prefetch)
NAMED.add(lambda named, op: named.check(op, ["lead"], type_of(op.result, op)), Lead)
NAMED.add(lambda named, op: named.check(op, ["stream_fence"]), Fence)
NAMED.add(lambda named, op: named.check_computed(op, ["extract"]), Extract)
NAMED.add(lambda named, op: named.check_computed(op, ["insert"]), Insert)
NAMED.add(_shuffle, Shuffle)
NAMED.add(lambda named, op: named.check_computed(op, ["splat"]), Repeat)
NAMED.add(lambda named, op: named.check_computed(op, ["dot"], DOT), Dot)
