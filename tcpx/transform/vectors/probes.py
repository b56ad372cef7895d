"""What a structured operation does to one element, found out by building its body beside the payload."""

from collections.abc import Callable

from tcpx.payload.interfaces import Build, Elementwise, Structured
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.traits.positions import positions_read
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.types import ScalarType, dtype_of
from tcpx.records import frozen


def discard(op: Operation) -> None:
    """Forget a detached operation: take it, and those inside, off the use lists of their operands."""
    for inner in op.walk():
        for index, value in enumerate(inner.operands):
            value.uses.remove((inner, index))


def trial(run: Callable[[Build], Value | None]) -> list[Operation]:
    """The operations that `run` builds; they are discarded."""
    made: list[Operation] = []

    def build(op: Operation) -> Value:
        made.append(op)
        return op.result

    run(build)
    for op in made:
        discard(op)
    return made


def body_of(op: Structured) -> list[Operation]:
    """The operations of one application of the body to scalars."""
    given = [*(dtype_of(v.type) for v in op.inputs), *(position.dtype for position in positions_read(op))]
    args = Block([("", dtype) for dtype in (*given, *op.acc_types)]).args
    accumulators = args[len(given) :] if Reduction.of(op) is not None else []

    def run(build: Build) -> None:
        op.elements(build, args[: len(given)], accumulators)

    return trial(run)


def is_multiply_accumulate(op: Structured) -> bool:
    """Whether the body adds the product of the two inputs, each cast to the dtype of the accumulator, to it."""
    if len(op.results) != 1 or positions_read(op):
        return False
    block = Block([("", dtype_of(v.type)) for v in op.inputs] + [("", op.acc_type)])
    if len(block.args) != 3 or Reduction.of(op) is None:
        return False
    *inputs, acc = block.args
    made = trial(lambda build: op.scalar_body(build, inputs, acc))
    total = made[-1] if made else None
    if not isinstance(total, Elementwise) or total.semantics != "a + b" or acc not in total.operands:
        return False
    product = next((v.defining_op for v in total.operands if v is not acc), None)
    if not isinstance(product, Elementwise) or product.semantics != "a * b":
        return False
    return {id(_before_cast(v)) for v in product.operands} == {id(v) for v in inputs}


def sums_products(op: Structured) -> bool:
    """Whether the body adds the product of the two inputs to the accumulator, rounded once or twice."""
    if is_multiply_accumulate(op):
        return True
    if len(op.results) != 1 or positions_read(op) or Reduction.of(op) is None or len(op.inputs) != 2:
        return False
    block = Block([*(("", dtype_of(v.type)) for v in op.inputs), ("", op.acc_type)])
    made = trial(lambda build: op.scalar_body(build, block.args[:2], block.args[2]))
    total = made[-1] if made else None
    if not isinstance(total, Elementwise) or total.semantics != "fma(a, b, c)":
        return False
    *factors, acc = total.operands
    return acc is block.args[2] and {id(v) for v in factors} == {id(v) for v in block.args[:2]}


def _before_cast(value: Value) -> Value:
    op = value.defining_op
    return op.operands[0] if isinstance(op, Elementwise) and op.semantics == "cast(a)" else value


def element_dtypes(op: Structured) -> tuple[ScalarType, ...]:
    """The dtypes of operands, result and everything the body computes, each once."""
    found = [dtype_of(v.type) for v in op.operands] + [*op.acc_types, *(p.dtype for p in positions_read(op))]
    if not isinstance(op, Elementwise) or not op.semantics:
        found += [dtype_of(inner.result.type) for inner in body_of(op)]
    return tuple(dict.fromkeys(found))


@frozen
class Combiner:
    """How partial results of a reduction are combined: the operation's opcode, and its semantics where it has any."""

    opcode: str
    semantics: str


def combines_in_one(op: Structured) -> bool:
    """Whether a reduction to one result combines by a single operation."""
    block = Block([("", op.acc_type), ("", op.acc_type)])
    return len(trial(lambda build: Reduction(op).combine(build, *block.args))) == 1


def combiner_of(op: Structured) -> Combiner:
    """The combiner of a reduction."""
    block = Block([("", op.acc_type), ("", op.acc_type)])
    made = trial(lambda build: Reduction(op).combine(build, *block.args))[-1]
    return Combiner(made.opcode, made.semantics if isinstance(made, Elementwise) else "")
