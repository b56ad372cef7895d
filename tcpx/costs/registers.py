"""How many vectors a loop needs at once, in the order of its operations: compilers keep that on x86."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tcpx.payload.ir import Operation, Value
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.types import ScalarType, VectorType
from tcpx.records import frozen


@frozen
class Needed:
    """The most vectors that are needed at once, and how many of them do not change from iteration to iteration."""

    most: int
    constant: int


@dataclass(frozen=True, slots=True)
class Registers:
    """What a loop keeps in vector registers. `varying` are the values that change, `repeated` vectors that are loads of
    a scalar, `folded` loads that are operands of instructions, `stored` what is written only after the loop."""

    loop: Loop
    rows: Sequence[Operation]
    varying: Collection[Value]
    repeated: Mapping[Value, Value]
    folded: Collection[Value]
    stored: Collection[Value] = ()

    def needed(self) -> Needed:
        """The registers that it needs."""
        constant = sum(isinstance(value.type, VectorType) for value in self._constants())
        changes = Counter[int]()
        for begin, end in self._spans():
            changes[begin] += 1
            changes[end] -= 1
        here = most = 0
        for at in range(-1, len(self.rows)):
            here += changes[at]
            most = max(most, here)
        return Needed(most + constant, constant)

    def _constants(self) -> set[Value]:
        """What is computed before the loop and read in it."""
        inside = (op for op in self.rows if not op.results or any(value in self.varying for value in op.results))
        read = {value for op in inside for value in op.operands}
        found = {value for value in read if value not in self.varying and value not in self.repeated}
        return {value for value in found if _is_held(value)}

    def _spans(self) -> list[tuple[int, int]]:
        """Where values that change are there from, and where they are read last."""
        places = {op: k for k, op in enumerate(self.rows)}
        last: dict[Value, int] = {}
        for k, op in enumerate(self.rows):
            for value in op.operands:
                last[self.repeated.get(value, value)] = k
        yields = (op for k in range(len(self.loop.destinations)) for op in self.loop.yields_to(k))
        kept = {*(op.operands[0] for op in yields), *self.stored}
        found: list[tuple[int, int]] = []
        for value in {*last, *kept}:
            if value in self.varying and value not in self.folded and _is_held(value):
                made_by = value.defining_op
                begin = places.get(made_by, -1) if made_by is not None else -1
                found.append((begin, len(self.rows) if value in kept else last.get(value, begin)))
        return found


def _is_held(value: Value) -> bool:
    """Whether a value lies in a register for vectors."""
    type_ = value.type
    return isinstance(type_, VectorType) or (isinstance(type_, ScalarType) and type_.is_float)
