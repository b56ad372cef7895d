"""Operations that belong together."""

from collections.abc import Sequence
from typing import Self

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.ir import Block, Operation, Value, register


@register
class Group(Operation):
    """A region of operations that belong together; it reads values around it and returns those it yields.

    Attributes: `promise`, what it becomes: "nest", one loop nest; "function", a C function of its own, for the `target`
    of that name if it has one; "row", a call of the row `by` of the target. `isolated = 1` if nothing from outside may
    be fused into it.
    """

    __slots__ = ()
    opcode = "tcp.group"
    class_name = "group"
    attribute_names = ("promise", "target", "by", "isolated")
    result_count = None
    region_count = 1

    @classmethod
    def of(cls, used: Sequence[Value]) -> Self:
        """A detached group with an empty region, for results of the types of `used`."""
        return cls([], [value.type for value in used], {}, [Block()])

    @property
    def body(self) -> Block:
        return self.regions[0]

    @property
    def is_isolated(self) -> bool:
        return self.attributes.get("isolated") == 1

    def verify_promise(self) -> None:
        """Raise VerifyError unless the attributes are a promise."""
        promise = self.attributes.get("promise", "nest")
        wanted = {"nest": (), "function": ("target",), "row": ("by",)}.get(str(promise))
        given = [key for key in ("target", "by") if key in self.attributes]
        if wanted is None or [key for key in given if key not in wanted] or (promise == "row" and not given):
            raise self.error(
                "a group promises something that it can become",
                required='promise = "nest", "function" with a `target` or without, or "row" with `by`',
                found=", ".join(f"{key} = {self.attributes.get(key)}" for key in ("promise", *given)),
            )

    def verify(self) -> None:
        self.verify_promise()
        end = self.body.terminator
        given = [v.type for v in end.operands] if end is not None else []
        if end is None or given != [r.type for r in self.results]:
            raise self.error(
                "a group yields its results",
                required=", ".join(str(r.type) for r in self.results) or "nothing",
                found=", ".join(map(str, given)) or "nothing",
            )

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return evaluation.run_block(self.body)
