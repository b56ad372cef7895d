"""Dot products of neighbouring lanes, as instructions have them: 1-D vectors only."""

from collections.abc import Sequence

import numpy as np

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import Operand
from tcpx.payload.ir import Operation, Value, register
from tcpx.payload.types import VectorType, dtype_of, lanes_of


@register
class Repeat(Operation):
    """The lanes of a 1-D vector repeated: lane i of the result is lane i mod n of the operand of n lanes."""

    __slots__ = ()
    opcode = "vector.repeat"
    operand = Operand()

    @classmethod
    def of(cls, operand: Value, lanes: int) -> Operation:
        """A detached repetition to `lanes` lanes."""
        return cls([operand], [VectorType((lanes,), dtype_of(operand.type))])

    def verify(self) -> None:
        given, made = self.operands[0].type, self.result.type
        few, many = lanes_of(given), lanes_of(made)
        if dtype_of(given) != dtype_of(made) or few == 0 or many == 0 or many % few:
            raise self.error(
                "the lanes of a 1-D vector are repeated a whole number of times",
                required="1-D vectors of one dtype, the result a multiple of the operand",
                found=f"%{self.operands[0].name}: {given}, result {made}",
            )

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        (lanes,) = evaluation.shape(self.result.type)
        return (np.tile(args[0], lanes // args[0].shape[0]),)


@register
class Dot(Operation):
    """acc + the dot products of groups of adjacent lanes: lane i takes lanes g*i .. g*i + g - 1 of lhs and of rhs.

    Products and sums are in the dtype of `acc`; integers wrap around; floats are added in any order.
    """

    __slots__ = ()
    opcode = "vector.dot"
    acc, lhs, rhs = Operand(), Operand(), Operand()

    @classmethod
    def of(cls, acc: Value, lhs: Value, rhs: Value) -> Operation:
        """A detached sum of products."""
        return cls([acc, lhs, rhs], [acc.type])

    def verify(self) -> None:
        acc, lhs, rhs = (lanes_of(v.type) for v in self.operands)
        if self.operands[0].type != self.result.type or lhs != rhs or acc == 0 or lhs == 0 or lhs % acc:
            raise self.error(
                "each lane of `acc` takes a group of neighbouring lanes of `lhs` and of `rhs`",
                required="1-D vectors: factors of one length, a multiple of that of `acc` and of the result",
                found=", ".join(f"%{v.name}: {v.type}" for v in (*self.operands, self.result)),
            )

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        acc, lhs, rhs = args
        products = np.multiply(lhs.astype(acc.dtype), rhs.astype(acc.dtype)).reshape(acc.shape[0], -1)
        return (np.add(acc, np.sum(products, axis=1, dtype=acc.dtype)),)
