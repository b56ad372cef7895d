"""The journal: how to undo every change to a payload, which operations changed, and how much work that was."""

from collections.abc import Callable

from tcpx.payload.ir import FuncOp, Module, Operation, Value


class Journal:
    """What was done to one module. `mark` / `rollback` make any sequence of changes a transaction."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.visited: int = 0
        """Operations and uses that changes, rollbacks and the checks after a step have looked at."""
        self.step: int = 0
        """The number of the step that runs, noted on what it inserts, moves or sets; 0: none."""
        self.changes: int = 0
        """Rises with every change and every rollback: while it is the same, so is the payload."""
        self._committed = 0
        self._undo: list[Callable[[], None]] = []
        self._touched: dict[Operation, None] = {}
        self._left: dict[Operation, None] = {}

    def record(self, undo: Callable[[], None], op: Operation | None = None) -> None:
        """Note a change that has just been made: how to undo it, and the operation it was made to.

        Every change is recorded before the next one is made, so a failure between two of them can be rolled back.
        """
        self._undo.append(undo)
        self.changes += 1
        if op is not None:
            self._touched[op] = None

    def touch(self, op: Operation) -> None:
        """Note that an operation, or what is in it, changed."""
        self._touched[op] = None

    def mark(self) -> int:
        """A point to roll back to."""
        return self._committed + len(self._undo)

    def commit(self) -> None:
        """Keep every change until now: none of them can be undone.

        How to undo them refers to the payload and to itself, and is most of what a run of a schedule makes: it is freed
        here, or Python's collector would have to find it.
        """
        self._committed += len(self._undo)
        self._undo.clear()

    def rollback(self, mark: int) -> None:
        """Undo every change since `mark`; the payload is byte-identical to what it was then.

        Raises ValueError where changes since then were committed.
        """
        if mark < self._committed:
            raise ValueError("changes that were committed cannot be undone")
        kept = mark - self._committed
        self.visited += len(self._undo) - kept
        self.changes += 1
        while len(self._undo) > kept:
            self._undo.pop()()
        for func in self.module.funcs.values():
            self._drop_detached_uses(func)

    def _drop_detached_uses(self, func: FuncOp) -> None:
        """Forget uses by operations that a failed step made and never inserted."""
        kept: list[Value] = []
        for value in func.newly_used:
            uses = value.uses
            self.visited += len(uses.unverified)
            for use in uses.unverified:
                if use in uses and use[0].func is None:
                    uses.remove(use)
            uses.unverified = [use for use in uses.unverified if use in uses]
            if uses.unverified:
                kept.append(value)
        func.newly_used = kept

    def leave(self, op: Operation) -> None:
        """Note that an operation goes out of the module."""
        self._left[op] = None

    def forget_touched(self, op: Operation) -> None:
        """Note that an operation goes out of the module with its function: nothing left can be wrong."""
        self._touched.pop(op, None)

    def take_touched(self) -> list[Operation]:
        """Operations changed since the last call that are still in the module."""
        taken = [op for op in self._touched if (op.module if isinstance(op, FuncOp) else op.parent) is not None]
        self._touched.clear()
        self.visited += len(taken)
        return taken

    def take_left(self) -> list[Operation]:
        """Operations that went out of the module since the last call; a rollback may have brought some back."""
        taken = list(self._left)
        self._left.clear()
        return taken
