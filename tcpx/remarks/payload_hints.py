"""Fixes of slow statements in the payload: what to write in place of a statement, or the smallest schedule that does
it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from tcpx.costs.visits import Run
from tcpx.payload.diagnostics import Location
from tcpx.payload.indexing_maps import map_dims
from tcpx.payload.interfaces import IteratorKind, Structured
from tcpx.payload.ir import Module, Operation, Value, parent_op, written_at
from tcpx.payload.ops.constant import Const
from tcpx.payload.ops.contract import Contract
from tcpx.payload.ops.convolution import Convolution
from tcpx.payload.ops.division import Mod
from tcpx.payload.ops.elementwise import Div
from tcpx.payload.ops.generic import Generic
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.ops.movement import Broadcast, Fill
from tcpx.payload.ops.power import Pow
from tcpx.payload.ops.reduce import Reduce
from tcpx.payload.ops.scan import Scan
from tcpx.payload.short_operands import Repeated, operand_text
from tcpx.payload.text.printer import print_operation
from tcpx.payload.traits.indices import Indices
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.scan import Scan as Sequential
from tcpx.payload.types import ScalarType, Type, dtype_of, like, shape_of, si32
from tcpx.payload.value_ranges import value_range
from tcpx.remarks import causes
from tcpx.remarks.body_hints import as_contractions
from tcpx.remarks.causes import Cause
from tcpx.remarks.edits import FILE
from tcpx.remarks.hints import ROUNDS, Hint, in_place, operand_texts, statement
from tcpx.remarks.loop_hints import as_one_row, as_reduction, before_loop, of_all_rows, products_before_loop
from tcpx.remarks.part_hints import of_parts
from tcpx.remarks.request import PayloadWork, elements_of, narrow_product
from tcpx.transform.language.parser import parse_schedule
from tcpx.transform.language_versions import NEWEST
from tcpx.transform.vectors.probes import discard

MOST_FACTORS: Final = 8
"""The largest exponent that is written as products."""
_READS_AGAIN: Final = (causes.REREAD, causes.READ_AGAIN, causes.TRAFFIC)
"""What makes a product slow that reads the same matrix in each iteration of a loop."""
_OF_LOOPS: Final = (causes.SCALAR, causes.CONFLICTS, causes.BELOW_LIMIT, causes.TRAFFIC)
"""What makes a loop slow that combines rows, and not the reduction that does the same."""


class PayloadHints:
    """A payload as it was written, and what repairs statements of it that are slow."""

    def __init__(self, module: Module, payload: PayloadWork) -> None:
        self.module, self.payload = module, payload

    def hints(self, cause: Cause, at: Location | None, *, is_scheduled: bool) -> Iterator[Hint]:
        """What to write in place of the statement at a place, or around it, or a schedule for it unless it has one;
        what is likelier to repair it first."""
        op = self._op_at(at)
        if op is None:
            return
        outer = op if isinstance(op, Generic) else parent_op(op) or op
        found: list[Hint | None] = []
        if cause is causes.RECOMPUTATION:
            found = [self._before_broadcast(op)]
        if cause is causes.PADDING:
            found = [_padded_before(op)]
        if cause is causes.DIVISIONS:
            found = [self._reciprocal(op)]
        if cause is causes.DOT_PRODUCT:
            found = [self._narrow_product(op)]
        if cause is causes.SCALAR:
            found = [self._products(op), self._in_32_bits(op), self._in_one_order(op)]
            yield from (hint.on(outer) for hint in (self._commutative(outer),) if hint is not None)
        if cause is causes.WAITS:
            found = [self._reduced_rows(op)]
        if cause is causes.CONFLICTS:
            found = [self._in_one_order(op)]
        yield from (hint.on(op) for hint in found if hint is not None)
        is_of_body = cause in (causes.SCALAR, causes.DOT_PRODUCT, causes.BELOW_LIMIT, causes.TRAFFIC)
        others = [as_contractions(outer) if is_of_body else None]
        others += [before_loop(op) if cause is causes.RECOMPUTATION else None]
        others += [as_one_row(op) if cause in (causes.SCALAR, causes.ELEMENT_COPY) else None]
        others += [of_all_rows(op) if cause is causes.REREAD else None]
        others += [products_before_loop(op) if cause in _READS_AGAIN else None]
        others += [as_reduction(op) if cause in _OF_LOOPS else None]
        others += [_in_lanes(op) if cause is causes.WAITS and not is_scheduled else None]
        yield from (hint for hint in others if hint is not None)
        yield from of_parts(op, self.payload) if cause is causes.UNREAD else ()

    def constants(self, at: Location | None, runs: Sequence[Run]) -> dict[str, set[Location | None]]:
        """The names of the values that are constant and are computed here, and are read by what is not constant, with
        the places of what they are computed of."""
        places = {at, *(written_at(op) for run in runs for op in run.ops)}
        body = self.module.main.body.ops
        constant: dict[Operation, set[Location | None]] = {}
        for op in body:
            made = [value.defining_op for inner in op.walk() for value in inner.operands]
            outside = [each for each in made if each is None or each.parent is op.parent]
            known = [constant[each] for each in outside if each in constant]
            if op.results and len(known) == len(outside) and not any(isinstance(each, Loop) for each in op.walk()):
                constant[op] = {op.location}.union(*known)
        read = [op for op in constant if any(user not in constant for value in op.results for user in value.users)]
        folded = [op for op in read if not isinstance(op, Const) and any(v.defining_op for v in op.operands)]
        return {op.name: constant[op] for op in folded if op.name and self._reaches(op, constant[op], places)}

    def read_by(self, at: Location | None) -> dict[str, Location | None]:
        """The names and places of the operations whose results the statement at a place reads."""
        op = self._op_at(at)
        made = [value.defining_op for value in op.operands] if op is not None else []
        return {each.name: each.location for each in made if each is not None and each.operands}

    def _reaches(self, op: Operation, cone: set[Location | None], places: set[Location | None]) -> bool:
        """Whether what a value is computed of is computed at one of the places, or is read there."""
        readers = {user.location for value in op.results for user in value.users}
        return not places.isdisjoint(cone) or not places.isdisjoint(readers)

    def _op_at(self, at: Location | None) -> Operation | None:
        """The operation that is written at a place, after those that are written in its operands."""
        ops = [op for func in self.module.funcs.values() for op in func.walk() if at is not None and op.location == at]
        return ops[-1] if ops and ops[-1].results else None

    # -- fewer operations --------------------------------------------------------------------------------------------

    def _before_broadcast(self, op: Operation) -> Hint | None:
        """An operation on broadcasts, as the broadcast of the operation."""
        if written_at(op) not in self.payload.copies or op.regions or len(op.results) != 1:
            return None
        texts, found = dict(operand_texts(op)), list[Broadcast]()
        for k, value in enumerate(op.operands):
            made = value.defining_op
            if isinstance(made, Broadcast):
                found.append(made)
                texts[k] = f"%{made.operands[0].name}"
            elif not isinstance(value.type, ScalarType) and not isinstance(made, Fill | Const):
                return None
        dims = {each.places_of_dims for each in found}
        if len(dims) != 1:
            return None
        name, type_ = op.results[0].name, op.results[0].type
        once = like(type_, shape_of(found[0].operands[0].type), dtype_of(type_))
        (places,) = dims
        return in_place(
            [
                statement(f"{name}.once", op, texts.values(), once),
                f"%{name} = tcp.broadcast(%{name}.once) {{dims = {list(places)}}} : {type_}",
            ]
        )

    # -- cheaper operations ------------------------------------------------------------------------------------------

    @staticmethod
    def _reciprocal(op: Operation) -> Hint | None:
        """A product with the reciprocal of what is broadcast."""
        divisor = op.operands[1].defining_op if isinstance(op, Div) else None
        if not isinstance(divisor, Broadcast):
            return None
        name, source = op.results[0].name, divisor.operands[0]
        factor = operand_text(Repeated(op.results[0], divisor.places_of_dims)).replace(f"%{name}", f"%{name}.factor")
        return in_place(
            [
                f"%{name}.factor = tcp.reciprocal(%{source.name}) : {source.type}",
                f"%{name} = tcp.mul({operand_texts(op)[0]}, {factor}) : {op.results[0].type}",
            ],
            ROUNDS,
        )

    @staticmethod
    def _products(op: Operation) -> Hint | None:
        """A power with a small exponent, as products."""
        exponent = op.operands[1].defining_op if isinstance(op, Pow) else None
        number = exponent.attributes.get("value") if isinstance(exponent, Fill | Const) else None
        if not isinstance(number, int | float) or not 2 <= number <= MOST_FACTORS or number != int(number):
            return None
        name, type_, base = op.results[0].name, op.results[0].type, operand_texts(op)[0]
        names = [base, *(f"%{name}.{k}" for k in range(2, int(number))), f"%{name}"]
        lines = [f"{made} = tcp.mul({before}, {base}) : {type_}" for before, made in pairwise(names)]
        return in_place(lines, ROUNDS if dtype_of(type_).is_float else "")

    def _in_one_order(self, op: Operation) -> Hint | None:
        """A contraction whose smaller factor has its dims in the order of the larger one, first those that this one
        lacks."""
        if not isinstance(op, Contract):
            return None
        lhs, rhs, out = (map_dims(each) for each in (*op.maps(), op.result_map()))
        if lhs is None or rhs is None or out is None:
            return None
        sizes = [elements_of(value, self.payload.sizes) for value in (op.lhs, op.rhs)]
        k = sizes.index(min(sizes))
        own, other = (lhs, rhs) if k == 0 else (rhs, lhs)
        ordered = tuple(sorted(own, key=lambda dim: other.index(dim) if dim in other else -1))
        if ordered == own:
            return None
        value, name, order = op.operands[k], op.results[0].name, [own.index(dim) for dim in ordered]
        type_ = like(value.type, tuple(shape_of(value.type)[at] for at in order), dtype_of(value.type))
        texts = {**operand_texts(op), k: f"%{name}.turned"}
        roles = {"lhs": ordered if k == 0 else lhs, "rhs": rhs if k == 0 else ordered, "out": out}
        attributes = ", ".join(f"{role} = {json.dumps(list(named))}" for role, named in roles.items())
        return in_place(
            [
                f"%{name}.turned = tcp.transpose(%{value.name}) {{permutation = {order}}} : {type_}",
                f"%{name} = {op.opcode}({', '.join(texts.values())}) {{{attributes}}} : {op.results[0].type}",
            ],
            ROUNDS if dtype_of(op.results[0].type).is_float else "",
        )

    @staticmethod
    def _commutative(op: Operation) -> Hint | None:
        """A reduction to several results whose partial results may be combined in any order."""
        if (
            not isinstance(op, Generic)
            or Reduction.of(op) is None
            or len(op.regions) == 1
            or op.is_declared_commutative
        ):
            return None
        text = print_operation(op).replace("{iterators", "{commutative = true, iterators", 1)
        return in_place([text], "only if partial results may be combined in any order: equal ones, too")

    @staticmethod
    def _reduced_rows(op: Operation) -> Hint | None:
        """A reduction over rows of the transpose, where what is not reduced is too short for vectors."""
        if not isinstance(op, Reduce) or set(op.attributes) != {"dims"} or len(op.operands) != 1:
            return None
        shape, reduced = shape_of(op.operands[0].type), op.reduced
        order = [*(k for k in range(len(shape)) if k not in reduced), *reduced]
        if order == list(range(len(shape))):
            return None
        source, result = op.operands[0], op.results[0]
        type_ = like(source.type, tuple(shape[k] for k in order), dtype_of(source.type))
        name, dims = result.name, list(range(len(shape) - len(reduced), len(shape)))
        return in_place(
            [
                f"%{name}.rows = tcp.transpose(%{source.name}) {{permutation = {order}}} : {type_}",
                f"%{name} = {op.opcode}(%{name}.rows) {{dims = {dims}}} : {result.type}",
            ],
            ROUNDS if dtype_of(result.type).is_float else "",
        )

    def _in_32_bits(self, op: Operation) -> Hint | None:
        """An operation on integers, in the integers of which targets have vectors for all operations."""
        values = [value for value in (*op.operands, *op.results) if not isinstance(value.type, ScalarType)]
        own = {dtype_of(value.type) for value in values if dtype_of(value.type).is_integer}
        changed = {dtype for dtype in own if dtype.bits != si32.bits and dtype.bits > 1}
        if isinstance(op, Loop) or op.regions or not changed:
            return None
        inputs = [value for value in op.operands if dtype_of(value.type) in changed and not self._is_index(op, value)]
        results = [value for value in op.results if inputs and dtype_of(value.type) == dtype_of(inputs[0].type)]
        if not inputs or not results or not all(map(_fits, (*inputs, *results))):
            return None
        texts, name = operand_texts(op), op.results[0].name
        lines: list[str] = []
        for k, value in enumerate(op.operands):
            if value in inputs and not isinstance(value.defining_op, Fill | Const):
                texts[k] = f"%{name}.{k}"
                lines.append(f"{texts[k]} = tcp.cast(%{value.name}) : {_as_si32(value.type)}")
        made = [f"{value.name}.wide" if value in results else value.name for value in op.results]
        types = [_as_si32(value.type) if value in results else value.type for value in op.results]
        lines.append(statement(", %".join(made), op, texts.values(), *types))
        lines += [f"%{value.name} = tcp.cast(%{value.name}.wide) : {value.type}" for value in results]
        return in_place(lines)

    @staticmethod
    def _is_index(op: Operation, value: Value) -> bool:
        return isinstance(op, Structured) and any(op.operands[k] is value for k in Indices(op).operands)

    @staticmethod
    def _narrow_product(op: Operation) -> Hint | None:
        """A contraction of narrow integers, which targets multiply several at once, summed in 32 bits."""
        factors = narrow_product(op)
        if factors is None or len(op.results) != 1:
            return None
        (lhs, lhs_dims), (rhs, rhs_dims), out = factors
        name, type_ = op.results[0].name, op.results[0].type
        sums = _as_si32(type_)
        same = sums == type_
        made = name if same else f"{name}.sums"
        roles = {"lhs": lhs_dims, "rhs": rhs_dims, "out": out}
        attributes = ", ".join(f"{role} = {json.dumps(list(dims))}" for role, dims in roles.items())
        lines = [f"%{made} = tcp.contract(%{lhs.name}, %{rhs.name}) {{{attributes}}} : {sums}"]
        lines += [] if same else [f"%{name} = tcp.cast(%{made}) : {type_}"]
        note = "" if same else "the sums must fit 32 bits"
        return in_place(lines, note)


def _padded_before(op: Operation) -> Hint | None:
    """A convolution that leaves out the taps in its padding, as one of an operand that was padded before."""
    if not isinstance(op, Convolution) or not op.is_padded:
        return None
    made: list[Operation] = []
    padded = op.padded_input(lambda pad: made.append(pad) or pad.results[0])
    plain, name = op.plain([padded, *op.operands[1:]]), op.results[0].name
    texts = {**operand_texts(op), 0: f"%{name}.padded"}
    lines = [statement(f"{name}.padded", made[0], operand_texts(made[0]).values(), padded.type)]
    lines.append(statement(name, plain, texts.values(), op.results[0].type))
    for each in (plain, *made):
        discard(each)
    return in_place(
        lines, "weights that are infinite, or no numbers, then give NaN where windows reach into the padding"
    )


def folding(names: Iterable[str]) -> Hint:
    """The smallest schedule that computes values at compile time."""
    return _whole_schedule([f'constant_fold(match one "{name}" in root)' for name in names])


def _whole_schedule(lines: Iterable[str], note: str = "") -> Hint:
    """The smallest schedule that does what no default does, and the default for all else."""
    text = "\n".join(
        (
            f"language {NEWEST}",
            'import "default.tcps" as default',
            "schedule s(root: func) {",
            *(f"  {line}" for line in lines),
            "  default.whole(root)",
            "}",
        )
    )
    notes = (note,) if note else ()
    return Hint(f"give it the schedule:\n{text}", notes=notes, schedule=parse_schedule(text + "\n", FILE))


def _in_lanes(op: Operation) -> Hint | None:
    """A schedule for an operation whose iterations follow each other: several rows side by side, else, of a scan that
    may round differently, several elements of a row."""
    if not isinstance(op, Structured) or Sequential.of(op) is None:
        return None
    rows = [each.name for each in op.iterators() if each.kind is IteratorKind.PARALLEL]
    steps = [each.name for each in op.iterators() if each.kind is IteratorKind.SEQUENTIAL]
    lanes = f"lanes({dtype_of(op.results[0].type).name})"
    head, tail = f'let x = match one "{op.name}" in root', ["vectorize(i)", "hoist_accumulator(x, out_of: i)"]
    if rows and len(steps) == 1:
        tiles = f"{rows[-1]}: {lanes}, {steps[0]}: {lanes}"
        return _whole_schedule([head, f"let _, i = tile(x, [{tiles}], tail: pad)", *tail])
    if len(steps) != 1 or not isinstance(op, Scan):
        return None
    in_lanes = f"scan_in_lanes(x, {steps[0]}, reassociate: true)"
    return _whole_schedule([head, in_lanes, f"let i = tile(x, [{steps[0]}: 4 * {lanes}], tail: pad)", *tail], ROUNDS)


def _as_si32(type_: Type) -> Type:
    return like(type_, shape_of(type_), si32)


def _fits(value: Value) -> bool:
    """Whether 32 bits hold all elements of a value."""
    known = value_range(value)
    if known is None or not isinstance(known[0], int) or not isinstance(known[1], int):
        return False
    op = value.defining_op
    if isinstance(op, Mod) and dtype_of(value.type).bits > si32.bits:
        return _fits(op.operands[1])  # a remainder is smaller than the divisor
    return known[0] >= si32.minimum and known[1] - 1 <= si32.maximum
