"""What a structured operation does to one element, found out by building its body beside the payload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tcpx.payload.interfaces import Build, Elementwise, Structured
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.types import ScalarType, dtype_of


def discard(op: Operation) -> None:
    """Forget a detached operation: take it off the use lists of its operands."""
    for index, value in enumerate(op.operands):
        value.uses.remove((op, index))


def trial(run: Callable[[Build], Value]) -> list[Operation]:
    """The operations that `run` builds; they are discarded."""
    made: list[Operation] = []

    def build(op: Operation) -> Value:
        made.append(op)
        return op.result

    run(build)
    for op in made:
        discard(op)
    return made


def reduces(op: Structured) -> bool:
    """Whether the operation has a reduction iterator."""
    return any(it.is_reduction for it in op.iterators())


def body_of(op: Structured) -> list[Operation]:
    """The operations of one application of the body to scalars."""
    block = Block([("", dtype_of(v.type)) for v in op.inputs] + [("", op.acc_type)])
    acc = block.args[-1] if reduces(op) else None
    return trial(lambda build: op.scalar_body(build, block.args[:-1], acc))


def element_dtypes(op: Structured) -> tuple[ScalarType, ...]:
    """The dtypes of operands, result and everything the body computes, each once."""
    found = [dtype_of(v.type) for v in op.operands] + [op.acc_type]
    if not isinstance(op, Elementwise) or not op.semantics:
        found += [dtype_of(inner.result.type) for inner in body_of(op)]
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class Combiner:
    """How partial results of a reduction are combined: the operation's opcode, and its semantics where it has any."""

    opcode: str
    semantics: str


def combiner_of(op: Structured) -> Combiner:
    """The combiner of a reduction."""
    block = Block([("", op.acc_type), ("", op.acc_type)])
    made = trial(lambda build: op.combine(build, *block.args))[-1]
    return Combiner(made.opcode, made.semantics if isinstance(made, Elementwise) else "")
