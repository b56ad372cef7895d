"""Whether an operation is inside what narrows a handle: loops, groups, and calls on one path from the entry to it."""

from __future__ import annotations

from collections.abc import Iterable

from tcpx.interp.values import OpHandle
from tcpx.payload.ir import INLINED, FuncOp, Operation
from tcpx.payload.origins import Origins

Pending = frozenset[OpHandle]
"""Scopes that are still to be found further out."""


class Scopes:
    """Answers for one state of a payload.

    An operation is in a function, which several calls may run, and so on: all scopes must be on one such path. Where a
    scope is narrowed itself, as `p in b` is, the path must go on through what it is narrowed to.
    """

    def __init__(self, payload: Origins) -> None:
        self._payload = payload
        self._known: dict[tuple[FuncOp, Pending], bool] = {}

    def hold(self, op: Operation, scopes: Iterable[OpHandle]) -> bool:
        """Whether an operation is inside all of these."""
        return self._is_in(op, self._without_inlined(op, frozenset(scopes)))

    def _is_in(self, op: Operation, pending: Pending) -> bool:
        """What is nearest is taken first: the more is left of the path for what that is narrowed to."""
        for outer in op.ancestors():
            if not pending:
                return True
            if isinstance(outer, FuncOp):
                return self._is_called_in(outer, pending)
            pending = self._passed(outer, pending)
        return not pending

    def _is_called_in(self, func: FuncOp, pending: Pending) -> bool:
        key = func, pending
        if key not in self._known:
            self._known[key] = any(self._is_in(call, self._passed(call, pending)) for call in func.callers())
        return self._known[key]

    def _passed(self, op: Operation, pending: Pending) -> Pending:
        """What is still to be found outside of an operation that the path goes through."""
        found = [scope for scope in pending if _denotes(scope, op)]
        left = pending.difference(found).union(*(scope.inside for scope in found))
        return self._without_inlined(op, left)

    def _without_inlined(self, op: Operation, pending: Pending) -> Pending:
        """A call that was inlined is round what it left, also where several were, one within the other."""
        while found := [scope for scope in pending if self._was_inlined(scope, op)]:
            pending = pending.difference(found).union(*(scope.inside for scope in found))
        return pending

    def _was_inlined(self, scope: OpHandle, op: Operation) -> bool:
        splits = {split for origin in scope.origins for split in self._payload.inlined.get(origin, ())}
        return None in splits or any(side == INLINED and split in splits for split, side in op.copy_path)


def _denotes(scope: OpHandle, op: Operation) -> bool:
    return not set(scope.origins).isdisjoint(op.origins) and all(side.has(op.copy_path) for side in scope.sides)


def scope_text(scope: OpHandle) -> str:
    """`%p in %b`; a loop on one side of a split says which."""
    sides = "".join(f' on the side "{side.name}"' for side in scope.sides)
    return " in ".join([f"%{scope.label}{sides}", *map(scope_text, scope.inside)])
