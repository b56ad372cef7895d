"""A branch on lanes."""

from collections.abc import Sequence

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import Operand
from tcpx.payload.ir import Block, Operation, Value, register
from tcpx.payload.ops.generic import Yield


@register
class IfAny(Operation):
    """`usual`; or, if `mask` holds in any lane, the region's value for all lanes. For rare, long computations."""

    __slots__ = ()
    opcode = "vector.if_any"
    attribute_names = ()
    region_count = 1
    mask, usual = Operand(), Operand()

    @classmethod
    def of(cls, mask: Value, usual: Value, rare: Block) -> Operation:
        """A detached branch."""
        return cls([mask, usual], [usual.type], {}, [rare])

    @property
    def body(self) -> Block:
        return self.regions[0]

    @property
    def rare(self) -> Value:
        """What the region yields."""
        end = self.body.terminator
        if not isinstance(end, Yield) or [v.type for v in end.operands] != [self.usual.type]:
            raise self.error("the region yields what takes the place of `usual`", str(self.usual.type), "another type")
        return end.operands[0]

    def verify(self) -> None:
        if self.rare.type != self.result.type:
            raise self.error(
                "`usual` and the result have one type", str(self.result.type), f"%{self.usual.name}: {self.usual.type}"
            )

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return evaluation.run_block(self.body) if args[0].any() else (args[1],)
