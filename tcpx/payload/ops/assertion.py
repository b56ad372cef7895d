"""What a function demands of the sizes it is called with, beyond the ranges of its symbols."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

from tcpx.payload.diagnostics import ArgumentError, Diagnostic
from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import ElementsAttribute, TextAttribute
from tcpx.payload.ir import FuncOp, Operation, parent_op, register
from tcpx.payload.sizes.predicates import Predicate


@register
class Assert(Operation):
    """Require that at least one of the conditions `any` holds for the symbols of the function; else a call fails with
    `message`.

    It is directly in the body of a function, and is checked before the function does anything. If it is at
    the start and has one condition, this condition is known in the whole function.
    """

    __slots__ = ()
    opcode = "tcp.assert"
    alternatives = ElementsAttribute(Predicate, "a list of conditions", key="any", example="[N > 0]")
    """The conditions one of which must hold."""
    message = TextAttribute(example='"N must not be 0"')
    result_count = 0
    has_side_effects = True

    @classmethod
    def of(cls, alternatives: Sequence[Predicate], message: str) -> Self:
        """A detached assertion."""
        return cls([], [], {"any": tuple(alternatives), "message": message})

    @property
    def demanded(self) -> Predicate:
        return self.alternatives[0] if len(self.alternatives) == 1 else Predicate()

    @property
    def diagnostic(self) -> Diagnostic:
        """What is said of a call with other sizes, but for these sizes."""
        conditions = ", or ".join(p.to_text() for p in self.alternatives)
        return Diagnostic(self.message, schedule=self.schedule_location, payload=self.location, required=conditions)

    def verify(self) -> None:
        if not isinstance(parent_op(self), FuncOp):
            raise self.error(
                "an assertion stands in the body of a function itself",
                required="no region around it",
                found=f"a region of {outer.opcode}" if (outer := parent_op(self)) is not None else "no function",
            )
        variables = [v.text for p in self.alternatives for v in p.variables()]
        if variables:
            raise self.error("an assertion is about symbols", "conditions on symbols alone", ", ".join(variables))
        if not self.alternatives:
            raise self.error("an assertion has a condition", required="a list that is not empty", found="any = []")
        if not self.message:
            raise self.error("an assertion has a message", required="a text that is not empty", found='message = ""')

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        if not any(evaluation.holds(p) for p in self.alternatives):
            symbols = dict.fromkeys(s.name for p in self.alternatives for s in p.symbols())
            sizes = ", ".join(f"{name} = {evaluation.sizes[name]}" for name in symbols)
            raise ArgumentError(replace(self.diagnostic, found=sizes))
        return ()
