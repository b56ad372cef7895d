"""The bodies of operations: taken apart on stand-ins, computed on numbers, made anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tcpx.payload.constants import Constants
from tcpx.payload.evaluator import Evaluation
from tcpx.payload.indexing_maps import dims, map_dim
from tcpx.payload.interfaces import Build, Elementwise, Iterator, IteratorKind, Structured
from tcpx.payload.ir import Attribute, Block, Operation, Value
from tcpx.payload.traits.algebra import Group, algebra
from tcpx.payload.traits.positions import positions_read
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.types import TensorType, dtype_of
from tcpx.records import frozen
from tcpx.transform import new
from tcpx.transform.algebra import number_of


@frozen
class Body:
    """What one iteration computes without its accumulators, detached: `elements` of inputs, `positions`, `ops`,
    `results`."""

    elements: Sequence[Value]
    positions: Sequence[Value]
    ops: Sequence[Operation]
    results: Sequence[Value]

    @staticmethod
    def of(op: Structured) -> Body:
        """The body of an operation."""
        elements = Block([(value.name, dtype_of(value.type)) for value in op.inputs]).args
        positions = Block([("at", p.dtype) for p in positions_read(op)]).args
        made: list[Operation] = []

        def build(inner: Operation) -> Value:
            made.append(inner)
            return inner.result

        results = op.elements(build, [*elements, *positions], [])
        lifted = tuple(_lifted(value, op) for value in results)
        combined = [value.defining_op for value, held in zip(results, lifted, strict=True) if value is not held]
        return Body(elements, positions, [inner for inner in made if inner not in combined], lifted)


def _lifted(value: Value, op: Structured) -> Value:
    """What a body combines with the neutral element in place of an accumulator; else the value itself."""
    made, neutrals, combiner = (
        value.defining_op,
        Reduction(op).neutrals(),
        combiner_of(op) if Reduction.of(op) is not None else None,
    )
    if made is None or combiner is None or neutrals is None or made.opcode != combiner.opcode:
        return value
    others = [held for held in made.operands if number_of(held) != neutrals[0]]
    return others[0] if len(others) == 1 and others[0].type == value.type else value


def applied(op: Operation, numbers: Sequence[float]) -> float:
    """What an elementwise operation makes of these numbers in place of its operands."""
    arrays = [np.asarray(number, dtype_of(v.type).numpy) for number, v in zip(numbers, op.operands, strict=True)]
    with np.errstate(all="ignore"):
        return float(op.evaluate(arrays, Evaluation(Constants(), {}))[0])


def factors_of_sum(op: Elementwise) -> tuple[int, ...] | None:
    """The factors of its operands in the sum that an operation makes of them: 1 and -1 of a difference. None of
    anything else."""
    if algebra(op).homomorphism != (Group.SUM, Group.SUM):
        return None
    count = len(op.operands)
    return tuple(int(applied(op, [float(k == j) for j in range(count)])) for k in range(count))


def combiner_of(op: Structured) -> Elementwise | None:
    """What combines two partial results, on numbers, if it is one operation."""
    numbers = Block([("", op.acc_type), ("", op.acc_type)]).args if len(op.results) == 1 else []
    made: list[Operation] = []

    def build(inner: Operation) -> Value:
        made.append(inner)
        return inner.result

    result = Reduction(op).combine(build, numbers[0], numbers[1]) if numbers else None
    is_one = len(made) == 1 and made[0].result is result and set(made[0].operands) == set(numbers)
    return made[0] if is_one and isinstance(made[0], Elementwise) else None


def pointwise(
    inputs: Sequence[tuple[Value, Sequence[int]]],
    type_: TensorType,
    compute: Callable[[Build, Sequence[Value]], Value],
) -> Structured:
    """A detached operation that computes each element of inputs that have some dims of the result: these."""
    own = dims(*(f"d{k}" for k in range(len(type_.shape))))
    block = Block([(value.name, dtype_of(value.type)) for value, _ in inputs])

    def build(inner: Operation) -> Value:
        block.append(inner)
        inner.result.name = inner.name = "changed"
        return inner.result

    block.append(new.yielded([compute(build, block.args)]))
    attributes: dict[str, Attribute] = {
        "iterators": tuple(Iterator(name, IteratorKind.PARALLEL).entry for name in map(map_dim, own) if name),
        "maps": (*(tuple(own[k] for k in places) for _, places in inputs), own),
    }
    return new.generic([value for value, _ in inputs], [type_], attributes, [block])
