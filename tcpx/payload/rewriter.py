"""The Rewriter: the only way a payload changes. Its journal undoes, and tells, everything it did."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tcpx.payload.constants import NumpyArray
from tcpx.payload.ir import (
    Attribute,
    Block,
    CloneMap,
    CopyPath,
    FuncOp,
    Module,
    Operation,
    OpT,
    Value,
    substitute_attribute,
)
from tcpx.payload.sizes import Dim, Symbol, Var, substitute
from tcpx.payload.types import Type, substitute_type


@dataclass(frozen=True, slots=True)
class InsertPoint:
    """A place in a block: before `ops[index]`."""

    block: Block
    index: int

    @staticmethod
    def before(op: Operation) -> InsertPoint:
        block = _block(op)
        return InsertPoint(block, block.ops.index(op))

    @staticmethod
    def after(op: Operation) -> InsertPoint:
        block = _block(op)
        return InsertPoint(block, block.ops.index(op) + 1)

    @staticmethod
    def start(block: Block) -> InsertPoint:
        return InsertPoint(block, 0)

    @staticmethod
    def end(block: Block) -> InsertPoint:
        """Before the terminator, if there is one."""
        return InsertPoint(block, len(block.ops) - (1 if block.terminator is not None else 0))


def _block(op: Operation) -> Block:
    if op.parent is None:
        raise op.error("the operation stands in no block")
    return op.parent


class Rewriter:
    """Mutates one module. `mark` / `rollback` make any sequence of changes a transaction.

    A handle is an origin number; `origins` maps it to the live operations that continue the computation it
    names. A new operation gets an origin of its own, unless a rewrite says that it continues another.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self._undo: list[Callable[[], None]] = []
        self.touched: dict[int, Operation] = {}
        self.visited = 0
        self.ended: dict[int, str] = {}
        self.origins: dict[int, list[Operation]] = {}
        self._names: dict[FuncOp, set[str]] = {}
        self._next_split = 0
        for op in module.walk():
            self._adopt(op)

    # -- transactions --------------------------------------------------------------------------------------------

    def mark(self) -> int:
        """A point to roll back to."""
        return len(self._undo)

    def rollback(self, mark: int) -> None:
        """Undo every change since `mark`; the payload is byte-identical to what it was then."""
        while len(self._undo) > mark:
            self._undo.pop()()
        self._drop_detached_uses()

    def _drop_detached_uses(self) -> None:
        """Forget uses by operations that a failed step made and never inserted."""
        funcs = set(self.module.funcs.values())
        for op in self.module.walk():
            for value in (*op.results, *(a for block in op.regions for a in block.args)):
                if any(not _is_attached(user, funcs) for user, _ in value.uses):
                    value.uses[:] = [use for use in value.uses if _is_attached(use[0], funcs)]

    def _did(self, op: Operation | None, undo: Callable[[], None]) -> None:
        self._undo.append(undo)
        if op is not None:
            self.touched[id(op)] = op

    def take_touched(self) -> list[Operation]:
        """Operations changed since the last call that are still in the module."""
        taken = [op for op in self.touched.values() if op.parent is not None or isinstance(op, FuncOp)]
        self.touched.clear()
        self.visited += len(taken)
        return taken

    # -- names ---------------------------------------------------------------------------------------------------

    def func_of(self, place: Operation | Block) -> FuncOp:
        """The function that holds an operation or a block."""
        op = place.parent if isinstance(place, Block) else place
        while op is not None and not isinstance(op, FuncOp):
            op = op.parent_op
        if op is None:
            raise ValueError("the place is in no function")
        return op

    def _func_names(self, func: FuncOp) -> set[str]:
        known = self._names.get(func)
        if known is None:
            known = self._names[func] = set()
            for op in func.walk():
                known.update(_names_of(op))
        return known

    def fresh_name(self, place: Operation | Block, base: str) -> str:
        """`base`, or `base.1`, `base.2`, ... : the first that is free in the function; it is reserved."""
        names = self._func_names(self.func_of(place))
        name, count = base, 0
        while name in names:
            count += 1
            name = f"{base}.{count}"
        names.add(name)
        self._did(None, lambda: names.discard(name))
        return name

    def ordinal_name(self, place: Operation | Block, base: str) -> str:
        """`base1`, `base2`, ... : the first that is free in the function; it is reserved."""
        names = self._func_names(self.func_of(place))
        count = 1
        while f"{base}{count}" in names:
            count += 1
        return self.fresh_name(place, f"{base}{count}")

    # -- operations ----------------------------------------------------------------------------------------------

    def insert(self, op: OpT, at: InsertPoint, base: str = "") -> OpT:
        """Insert a detached operation (with its regions); unnamed values get fresh names from `base`."""
        at.block.ops.insert(at.index, op)
        op.parent = at.block
        self._name(op, base)
        self._did(op, lambda: self._detach(op))
        for inner in op.walk():
            self._adopt(inner)
            self.touched[id(inner)] = inner
            self.visited += 1
        return op

    def _name(self, op: Operation, base: str) -> None:
        for inner in op.walk():
            block_args = [a for block in inner.regions for a in block.args]
            for value in [*inner.results, *block_args]:
                if not value.name:
                    value.name = self.fresh_name(op, base or "v")
            if not inner.name and inner.results:
                inner.name = inner.results[0].name

    def _detach(self, op: Operation) -> None:
        block = _block(op)
        block.ops.remove(op)
        op.parent = None
        for inner in op.walk():
            self._disown(inner)
            for k, value in enumerate(inner.operands):
                value.uses.remove((inner, k))

    def erase(self, op: Operation) -> None:
        """Remove an operation none of whose results is used."""
        for result in op.results:
            if any(not user.is_in(op) for user, _ in result.uses):
                raise op.error("a used operation cannot be erased", found=f"%{result.name} is used")
        block = _block(op)
        index = block.ops.index(op)
        removed: list[tuple[Value, list[tuple[Operation, int]]]] = []
        walked = list(op.walk())
        for inner in walked:
            for k, value in enumerate(inner.operands):
                removed.append((value, list(value.uses)))
                value.uses.remove((inner, k))
        block.ops.pop(index)
        op.parent = None
        held = [(inner, self._disown(inner)) for inner in walked]

        def undo() -> None:
            block.ops.insert(index, op)
            op.parent = block
            for value, uses in reversed(removed):
                value.uses[:] = uses
            for inner, positions in reversed(held):
                self._readopt(inner, positions)

        self._did(block.parent, undo)
        self.visited += len(walked)

    def move(self, op: Operation, to: InsertPoint) -> None:
        """Move an operation within its function."""
        block = _block(op)
        index = block.ops.index(op)
        block.ops.pop(index)
        at = to.index - 1 if to.block is block and index < to.index else to.index
        to.block.ops.insert(at, op)
        op.parent = to.block

        def undo() -> None:
            _block(op).ops.remove(op)
            block.ops.insert(index, op)
            op.parent = block

        self._did(op, undo)
        if block.parent is not None:
            self.touched[id(block.parent)] = block.parent
        self.visited += 1

    def clone(self, op: OpT, at: InsertPoint, mapping: CloneMap, suffix: str = "") -> OpT:
        """Insert a copy of `op`; its names get `suffix` and are made unique."""
        made = op.clone(mapping, lambda name: self.fresh_name(at.block, f"{name}{suffix}") if name else "")
        return self.insert(made, at)

    def set_operand(self, op: Operation, index: int, value: Value) -> None:
        """Replace one operand."""
        old = op.operands[index]
        if old is value:
            return
        before_old, before_new = list(old.uses), list(value.uses)
        old.uses.remove((op, index))
        value.uses.append((op, index))
        op.operands[index] = value

        def undo() -> None:
            op.operands[index] = old
            value.uses[:] = before_new
            old.uses[:] = before_old

        self._did(op, undo)

    def set_operands(self, op: Operation, values: Sequence[Value]) -> None:
        """Replace the whole operand list."""
        old = list(op.operands)
        saved = {id(v): (v, list(v.uses)) for v in [*old, *values]}
        for k, value in enumerate(old):
            value.uses.remove((op, k))
        op.operands = list(values)
        for k, value in enumerate(values):
            value.uses.append((op, k))

        def undo() -> None:
            op.operands = old
            for value, uses in saved.values():
                value.uses[:] = uses

        self._did(op, undo)

    def replace_uses(self, old: Value, new: Value, where: Callable[[Operation], bool] | None = None) -> None:
        """Let the users of `old` (those `where` accepts) use `new`."""
        for user, index in list(old.uses):
            if where is None or where(user):
                self.set_operand(user, index, new)

    def replace_op(self, op: Operation, values: Sequence[Value]) -> None:
        """Replace all results and erase the operation."""
        for result, value in zip(op.results, values, strict=True):
            self.replace_uses(result, value)
        self.erase(op)

    def set_attribute(self, op: Operation, key: str, value: Attribute | None) -> None:
        """Set an attribute; None removes it."""
        old = dict(op.attributes)
        if value is None:
            op.attributes.pop(key, None)
        else:
            op.attributes[key] = value

        def undo() -> None:
            op.attributes = old

        self._did(op, undo)

    def set_type(self, value: Value, type_: Type) -> None:
        """Change the type of a value."""
        old = value.type
        value.type = type_

        def undo() -> None:
            value.type = old

        self._did(value.defining_op or (value.owner.parent if isinstance(value.owner, Block) else None), undo)

    def add_result(self, op: Operation, type_: Type, base: str) -> Value:
        """Append a result to an operation (a destination to a loop)."""
        made = Value(self.fresh_name(op, base), type_, op)
        op.results.append(made)
        self._did(op, lambda: op.results.remove(made))
        return made

    def add_block_arg(self, block: Block, type_: Type, base: str) -> Value:
        """Append an argument to a block."""
        made = Value(self.fresh_name(block, base), type_, block)
        block.args.append(made)
        self._did(block.parent, lambda: block.args.remove(made))
        return made

    def remove_result(self, op: Operation, index: int) -> None:
        """Remove an unused result (and nothing else)."""
        old = list(op.results)
        if old[index].uses:
            raise op.error("a used result cannot be removed", found=f"%{old[index].name}")
        op.results = old[:index] + old[index + 1 :]

        def undo() -> None:
            op.results = old

        self._did(op, undo)

    def remove_block_arg(self, block: Block, index: int) -> None:
        """Remove an unused block argument."""
        old = list(block.args)
        if old[index].uses:
            raise ValueError(f"%{old[index].name} is used")
        block.args = old[:index] + old[index + 1 :]

        def undo() -> None:
            block.args = old

        self._did(block.parent, undo)

    def substitute(self, ops: Sequence[Operation], sizes: Mapping[Symbol | Var, Dim]) -> None:
        """Replace symbols and loop variables in the types and attributes of operations and all inside them."""
        if not sizes:
            return
        for root in ops:
            for op in root.walk():
                self._substitute_one(op, sizes)

    def _substitute_one(self, op: Operation, sizes: Mapping[Symbol | Var, Dim]) -> None:
        self.visited += 1
        own = op.attributes.get("var")
        changed = {k: substitute_attribute(a, sizes) for k, a in op.attributes.items()}
        if isinstance(own, Var):
            changed["var"] = Var(
                own.name,
                substitute(own.lower, sizes),
                substitute(own.upper, sizes),
                substitute(own.step, sizes),
            )
        old = op.attributes
        op.attributes = changed

        def undo() -> None:
            op.attributes = old

        self._did(op, undo)
        for value in [*op.results, *(a for b in op.regions for a in b.args)]:
            self.set_type(value, substitute_type(value.type, sizes))

    # -- functions and constants ---------------------------------------------------------------------------------

    def set_block_ops(self, block: Block, ops: Sequence[Operation]) -> None:
        """Reorder the operations of a block; `ops` is a permutation of them."""
        old = list(block.ops)
        block.ops = list(ops)

        def undo() -> None:
            block.ops = old

        self._did(block.parent, undo)

    def add_constant(self, name: str, array: NumpyArray) -> None:
        """Store a constant under a name that is free."""
        if name in self.module.constants:
            raise ValueError(f"a constant is already called {name}")
        self.module.constants.put(name, array)
        self._did(None, lambda: self.module.constants.remove(name))

    # -- handles -------------------------------------------------------------------------------------------------

    def _adopt(self, op: Operation) -> None:
        if not op.origins:
            op.origins = (self._new_origin(),)
        for origin in op.origins:
            self.origins.setdefault(origin, []).append(op)

    def _new_origin(self) -> int:
        number = self.module.next_origin
        self.module.next_origin = number + 1

        def undo() -> None:
            self.module.next_origin = number

        self._undo.append(undo)
        return number

    def _disown(self, op: Operation) -> dict[int, int]:
        positions: dict[int, int] = {}
        for origin in op.origins:
            holders = self.origins[origin]
            positions[origin] = holders.index(op)
            holders.pop(positions[origin])
        return positions

    def _readopt(self, op: Operation, positions: Mapping[int, int]) -> None:
        for origin, position in positions.items():
            self.origins[origin].insert(position, op)

    def set_origins(self, op: Operation, origins: tuple[int, ...], copy_path: CopyPath | None = None) -> None:
        """Say which computations (handles) an operation continues, and as which copy."""
        old_origins, old_path = op.origins, op.copy_path
        positions = self._disown(op)
        op.origins = origins
        if copy_path is not None:
            op.copy_path = copy_path
        for origin in origins:
            self.origins.setdefault(origin, []).append(op)

        def undo() -> None:
            self._disown(op)
            op.origins, op.copy_path = old_origins, old_path
            self._readopt(op, positions)

        self._did(op, undo)

    def continue_as(self, old: Operation, new: Operation) -> None:
        """`new` is the anchor that continues `old`: handles to `old` now denote `new`."""
        merged = tuple(dict.fromkeys([*old.origins, *(o for o in new.origins if self._is_shared(o, new))]))
        self.set_origins(new, merged, old.copy_path or new.copy_path)
        self.set_origins(old, ())
        self.set_schedule_location(new, old)

    def _is_shared(self, origin: int, op: Operation) -> bool:
        return any(holder is not op for holder in self.origins.get(origin, []))

    def set_schedule_location(self, new: Operation, old: Operation) -> None:
        """Let `new` stand at the place in payload and schedule where `old` did."""
        before = (new.location, new.schedule_location)
        new.location = new.location or old.location
        new.schedule_location = new.schedule_location or old.schedule_location

        def undo() -> None:
            new.location, new.schedule_location = before

        self._undo.append(undo)

    def end(self, op: Operation, reason: str) -> None:
        """The computation `op` names is gone for good; using a handle to it will say `reason`."""
        for origin in op.origins:
            if origin not in self.ended:
                self.ended[origin] = reason
                self._undo.append(lambda o=origin: self._forget_end(o))

    def _forget_end(self, origin: int) -> None:
        del self.ended[origin]

    def new_split(self) -> int:
        """A number for a new split of copies (peel, unroll, versions)."""
        number = self._next_split
        self._next_split = number + 1

        def undo() -> None:
            self._next_split = number

        self._undo.append(undo)
        return number

    def extend_copy_path(self, op: Operation, split: int, side: str) -> None:
        """Mark an operation and all inside it as one side of a split."""
        for inner in op.walk():
            self.set_origins(inner, inner.origins, (*inner.copy_path, (split, side)))


def _is_attached(op: Operation, funcs: set[FuncOp]) -> bool:
    """Whether an operation stands in one of the functions."""
    here: Operation | None = op
    while here is not None and not isinstance(here, FuncOp):
        here = here.parent_op
    return here in funcs


def _names_of(op: Operation) -> list[str]:
    names = [op.name, *(r.name for r in op.results)]
    names += [a.name for block in op.regions for a in block.args]
    own = op.attributes.get("var")
    if isinstance(own, Var):
        names.append(own.name)
    return [n for n in names if n]
