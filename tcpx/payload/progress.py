"""How far a run of the reference evaluator is, for whoever shows it meanwhile, in another thread."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Block, Operation
from tcpx.payload.ops.gml_st import Conditional, Loop
from tcpx.payload.ops.index import Bind
from tcpx.payload.runs import bound, iterations
from tcpx.payload.sizes import Dim, evaluate
from tcpx.payload.types import ScalarType, Type, shape_of


@dataclass(slots=True)
class EvaluationProgress:
    """Points of iteration domains: those of all operations, those of the ones that are done, and those done of the
    one at hand, `operation`. The evaluator alone writes here."""

    points: int = 0
    done: int = 0
    done_of_operation: int = 0
    operation: str = ""
    _sizes: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def fraction(self) -> float:
        """The part of the work that is done, 0 to 1; the points of all operations count alike."""
        return min(1.0, (self.done + self.done_of_operation) / self.points) if self.points else 0.0

    def begin(self, body: Block, sizes: Mapping[str, int]) -> None:
        """The body of a function begins; `sizes` are those of symbols and loop variables, also later ones."""
        self._sizes = sizes
        self.points = _of_block(body, sizes)

    def start(self, op: Operation) -> None:
        """An operation begins."""
        if not _is_scalar(op):
            self.operation = f"%{op.name} ({op.opcode})"

    def advance(self, points: int) -> None:
        """So many points more of the operation at hand are done."""
        self.done_of_operation += points

    def finish(self, op: Operation) -> None:
        """An operation is done."""
        if isinstance(op, Structured) or not op.regions:
            self.done += _of_operation(op, self._sizes)
            if not _is_scalar(op):
                self.done_of_operation = 0


def _of_block(block: Block, sizes: Mapping[str, int]) -> int:
    points = 0
    for op in block.ops:
        sizes = bound(op, sizes) if isinstance(op, Bind) else sizes
        points += 0 if op.is_terminator else _of_operation(op, sizes)
    return points


def _of_operation(op: Operation, sizes: Mapping[str, int]) -> int:
    """The points of a domain, or the elements of the results; every iteration of a loop counts as the first one, a
    branch as its larger side, and the scalars in the body of a generic as nothing."""
    if _is_scalar(op):
        return 0
    if isinstance(op, Structured):
        return prod(_number(extent, sizes) for extent in op.domain())
    if isinstance(op, Loop):
        first = {**sizes, op.var.name: _number(op.var.lower, sizes)}
        trips = len(iterations(op, sizes))
        return trips * _of_block(op.body, first) if trips else 0
    if op.regions:
        sides = [_of_block(region, sizes) for region in op.regions]
        return max(sides) if isinstance(op, Conditional) else sum(sides)
    return sum(prod(_number(extent, sizes) for extent in shape_of(value.type)) for value in op.results)


def _is_scalar(op: Operation) -> bool:
    types: list[Type] = [value.type for value in op.results]
    return bool(types) and all(isinstance(type_, ScalarType) for type_ in types)


def _number(dim: Dim, sizes: Mapping[str, int]) -> int:
    return dim if isinstance(dim, int) else evaluate(dim, sizes)
