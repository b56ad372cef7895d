"""What a lane-wise operation is as a function of numbers."""

from __future__ import annotations

from enum import Enum
from functools import cache

from tcpx.payload.fields import Field
from tcpx.payload.ir import Operation
from tcpx.records import frozen


class Group(Enum):
    """What combines numbers, by the opcode of the operation that does."""

    SUM = "tcp.add"
    PRODUCT = "tcp.mul"

    @property
    def identity(self) -> float:
        """What combines with any number to that number."""
        return 1.0 if self is Group.PRODUCT else -0.0  # 0.0 would make 0.0 of -0.0


class Keeps(Enum):
    """What a conversion to another dtype keeps of a number."""

    VALUE = "value"
    BITS = "bits"


class Rounding(Enum):
    """How an operation rounds that does several at once. Its result, rounded to f32 and then to f16 or bf16, may differ
    from that rounded once: it is not done in f32."""

    ONCE = "once"
    ONCE_OR_EACH = "once or each"
    """As its `expansion` does, where products and sums may be rounded once."""


@frozen
class Algebra:
    """The laws that a lane-wise operation obeys. Its class declares them under these names; what it does not declare is
    the default here."""

    commutes: tuple[int, ...] = ()
    """Two operands that may change places, by their numbers."""
    homomorphism: tuple[Group, Group] | None = None
    """Two groups, if what it makes of operands combined in the first is what it makes of each, combined in the second:
    sums and products of exp, as exp(a + b) = exp(a) * exp(b). Up to rounding."""
    linear: tuple[int, ...] = ()
    """The operands in which it is linear, one at a time, on floats: f(a + b) = f(a) + f(b), f(c * a) = c * f(a). Up to
    rounding."""
    direction: int = 0
    """1 if the result is never less than an operand, -1 if it is never more."""
    distributes_over: tuple[str, ...] = ()
    """The opcodes of the combiners over which it distributes: `tcp.add` of mul, as c * (a + b) = c * a + c * b."""
    holds_for: tuple[int, ...] = ()
    """The signs of a - b for which a comparison of a with b holds: 0 and 1 for a >= b."""
    hands_on: tuple[int, ...] = ()
    """The operands of which the result is one: both of max, the two values of select."""
    converts: Keeps | None = None
    """What it keeps, if it gives the number that it reads another dtype."""
    rounding: Rounding | None = None
    """How it rounds, if it is several operations in one."""

    @property
    def chooses(self) -> bool:
        """Whether the first operand, a truth value, says which of the others is the result."""
        return bool(self.hands_on) and 0 not in self.hands_on


@cache
def _declared_by(kind: type[Operation]) -> Algebra:
    declared = {name: getattr(kind, name, None) for name in Algebra.__annotations__}
    return Algebra(**{name: law for name, law in declared.items() if law is not None and not isinstance(law, Field)})


def algebra(op: Operation | type[Operation]) -> Algebra:
    """The laws that an operation, or a class of operations, obeys."""
    return _declared_by(op if isinstance(op, type) else type(op))


def is_comparison(op: Operation) -> bool:
    """Whether an operation compares two numbers."""
    return bool(algebra(op).holds_for)


def accumulating_operands(op: Operation, combiner: type[Operation]) -> tuple[tuple[int, ...], ...]:
    """Sets of operands with which the result is `combiner` of them and of something that the others give. A class
    declares them by a class method of this name.

    A set of several is for operations that hand on one of them: each of these has to be an accumulator.
    """
    declared = getattr(type(op), "accumulating_operands", None)
    if declared is not None:
        return declared(combiner)
    laws = algebra(op)
    return (laws.hands_on,) if laws.chooses else ()
