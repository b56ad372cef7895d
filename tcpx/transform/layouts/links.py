"""Where a value goes on as another one: into and out of loops, branches, groups and functions."""

from collections.abc import Sequence

from tcpx.payload.ir import FuncOp, Operation, Value, parent_op
from tcpx.payload.ops.call import Call
from tcpx.payload.ops.generic import Yield
from tcpx.payload.ops.gml_st import Conditional, Loop, StYield
from tcpx.payload.ops.group import Group
from tcpx.payload.strided import STRIDED
from tcpx.payload.types import TensorType, shape_of
from tcpx.transform.layouts.relations import Relation

Pairs = dict[Value, Value]


class Links:
    """The values of a function and of those that it calls that are one tensor, and those that become parts of one."""

    def __init__(self, funcs: Sequence[FuncOp]) -> None:
        self.funcs = funcs
        self.same: Pairs = {}
        """By value: another one that has its order."""
        self.fixed: set[Value] = set()
        """Values that keep the order of their types."""
        self.read_as: dict[tuple[Operation, int], tuple[Value, Relation]] = {}
        """By operation and operand: the tensor that it becomes, or a part of one. Slot 0 is that."""
        for func in funcs:
            self._calls(func)
            for op in func.walk():
                self._operation(op)

    def one(self, value: Value) -> Value:
        """The value that stands for all that have its order."""
        while value in self.same:
            value = self.same[value]
        return value

    @property
    def owners(self) -> list[Value]:
        """The tensors that other values become: arguments of loops and functions, results of branches and calls."""
        return list(dict.fromkeys([*self.same, *(owner for owner, _ in self.read_as.values())]))

    def _operation(self, op: Operation) -> None:
        if isinstance(op, Loop):
            for index, (dest, result) in enumerate(zip(op.destinations, op.results, strict=True)):
                self.same[result] = dest
                self._link(op, index, dest)
        elif isinstance(op, StYield) and isinstance(op.destination.type, TensorType) and not op.regions:
            own = tuple(frozenset([f"d{dim}"]) for dim in range(op.subset.rank))
            part = tuple(own[dim] for dim in op.subset.kept)
            if len(part) == len(shape_of(op.value.type)):
                self.read_as[op, 0] = op.destination, Relation((op.destination, op.value), (own, part), is_aligned=True)
        elif isinstance(op, Yield) and isinstance(outer := parent_op(op), Conditional | Group):
            for index, result in enumerate(outer.results):
                self._link(op, index, result)

    def _calls(self, func: FuncOp) -> None:
        """What calls pass is what the function takes, and what it returns is what calls give."""
        calls, end = linked_calls(func, self.funcs), func.body.terminator
        if not calls or end is None:
            self.fixed.update(func.args)
            for call in func.callers():
                self.fixed.update(call.results)
            return
        for call in calls:
            for index, arg in enumerate(func.args):
                self._link(call, index, arg)
        for number, result in enumerate(calls[0].results):
            self._link(end, number, result)
            for call in calls[1:]:
                self.same[call.results[number]] = result
                if _ones(call.results[number]) != _ones(result):
                    self.fixed.add(result)

    def _link(self, op: Operation, index: int, owner: Value) -> None:
        value = op.operands[index]
        if not isinstance(owner.type, TensorType) or not isinstance(value.type, TensorType):
            return
        own = tuple(frozenset([f"d{dim}"]) for dim in range(len(owner.type.shape)))
        self.read_as[op, index] = owner, Relation((owner, value), (own, own))
        if _ones(value) != _ones(owner):
            self.fixed.add(owner)


def linked_calls(func: FuncOp, funcs: Sequence[FuncOp]) -> Sequence[Call]:
    """The calls of a function that may take other types, of which `funcs` have all; none of another one."""
    callers = func.callers()
    calls = [call for call in callers if isinstance(call, Call)]
    is_known = {call.func for call in calls} <= {*funcs} and len(calls) == len(callers)
    keeps = func.row is not None or func.states or STRIDED in func.attributes or func.body.terminator is None
    return calls if is_known and not keeps else []


def _ones(value: Value) -> list[bool]:
    """Which dims of a value are known to be 1."""
    return [extent == 1 for extent in shape_of(value.type)]
