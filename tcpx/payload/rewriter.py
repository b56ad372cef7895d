"""The Rewriter: the only way a payload changes. Its journal undoes, and tells, everything it did."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import takewhile

from tcpx.limits import DEEPEST_NEST, MOST_OPERATIONS, shares_of
from tcpx.payload.constants import NumpyArray
from tcpx.payload.contexts import context_at, context_of
from tcpx.payload.diagnostics import Diagnostic, Direction, ScheduleError
from tcpx.payload.ir import (
    Attribute,
    Block,
    CloneMap,
    FuncOp,
    Module,
    Operation,
    OpT,
    Value,
    defined_by,
    is_in,
    map_attributes,
)
from tcpx.payload.names import Names
from tcpx.payload.origins import Origins
from tcpx.payload.sizes import Dim, Symbol, Var, redeclare, substitute
from tcpx.payload.sizes.substitution import are_same
from tcpx.payload.traits.call import Demand
from tcpx.payload.types import Type, map_type
from tcpx.payload.uses import Use
from tcpx.records import frozen_for_checkers


@frozen_for_checkers
class InsertPoint:
    """A place in a block: before `ops[index]`."""

    block: Block
    index: int

    @staticmethod
    def before(op: Operation) -> InsertPoint:
        block = _block(op)
        return InsertPoint(block, block.index(op))

    @staticmethod
    def after(op: Operation) -> InsertPoint:
        block = _block(op)
        return InsertPoint(block, block.index(op) + 1)

    @staticmethod
    def start(block: Block) -> InsertPoint:
        """Before all operations, but behind what a function demands: that is known as long as it comes first."""
        demands = takewhile(lambda op: Demand(op).demanded is not None, block.ops)
        return InsertPoint(block, sum(1 for _ in demands))

    @staticmethod
    def end(block: Block) -> InsertPoint:
        """Before the terminator, if there is one."""
        return InsertPoint(block, len(block.ops) - (1 if block.terminator is not None else 0))


def _block(op: Operation) -> Block:
    if op.parent is None:
        raise op.error("the operation stands in no block", required="an operation of a function")
    return op.parent


def _check_depth(op: Operation, block: Block) -> None:
    """Raise ScheduleError where a loop or branch would stand in more than `DEEPEST_NEST` others."""
    depth = 0 if block.parent is None else 1 + sum(1 for _ in block.parent.ancestors())
    if depth > DEEPEST_NEST:
        raise ScheduleError(
            Diagnostic(
                "the payload would be nested too deep",
                payload=op.location,
                schedule=op.schedule_location,
                required=f"at most {DEEPEST_NEST} loops and branches within one another",
                found=f"{depth} round %{op.name or op.opcode}",
                fix=Direction("tile less often, or in fewer levels"),
            )
        )


class Rewriter(Names, Origins):
    """Mutates one module. `mark` / `rollback` make any sequence of changes a transaction.

    The module is taken to be verified as it is.
    """

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self.operations = 0
        """How many the module has."""
        self.first_names = set[str]()
        """Of the operations and values that the module had at first."""
        for op in module.walk():
            self.operations += 1
            self.first_names.add(op.name)
            for value in defined_by(op):
                self.first_names.add(value.name)
                value.uses.unverified.clear()
        self._shares = shares_of(self.operations)
        for func in module.funcs.values():
            func.newly_used.clear()
            func.shares = max(func.shares, self._shares)

    @property
    def most_operations(self) -> int:
        """How many operations the payload may have: more where it had many before the first change."""
        return MOST_OPERATIONS * self._shares

    # -- operations ----------------------------------------------------------------------------------------------

    def insert(self, op: OpT, at: InsertPoint, base: str = "") -> OpT:
        """Insert a detached operation (with its regions); unnamed values get fresh names from `base`.

        Raises ScheduleError where the payload would have more than `most_operations`, or be nested too deep.
        """
        self._grow(op)
        if op.regions:
            _check_depth(op, at.block)
        at.block.insert(at.index, op)
        self.record(lambda: self._take_out(op), op)
        func = op.func
        for inner in op.walk() if op.regions else (op,):
            self.visited += 1 + len(inner.operands)
            self.touch(inner)
            self._note_step(inner)
            self._name(inner, base)
            self.adopt(inner)
            if func is not None:
                func.newly_used += [value for value in defined_by(inner) if value.uses.unverified]
        return op

    def _grow(self, op: Operation) -> None:
        wanted = self.operations + (sum(1 for _ in op.walk()) if op.regions else 1)
        if wanted > self.most_operations:
            raise ScheduleError(
                Diagnostic(
                    "the payload would have too many operations",
                    payload=op.location,
                    schedule=op.schedule_location,
                    required=f"at most {self.most_operations}",
                    found=f"{wanted} with %{op.name or op.opcode}",
                    fix=Direction("make fewer copies: unroll less, smaller register tiles, fewer versions"),
                )
            )
        self.operations = wanted

    def _name(self, op: Operation, base: str) -> None:
        var = op.attributes.get("var")
        if isinstance(var, Var) and not var.name:
            named = Var(self.ordinal_name(op, base or "v"), var.lower, var.upper, var.step)
            op.attributes = op.attributes | {"var": named}
            for block in op.regions:
                self.substitute(block.ops, {var: named.size()})
        for value in defined_by(op):
            if not value.name:
                value.name = self.fresh_name(op, base or "v")
        if not op.name and op.results:
            op.name = op.results[0].name

    def _take_out(self, op: Operation) -> None:
        """Undo of an insertion: nothing is left that refers to the operation."""
        _block(op).remove(op)
        for inner in op.walk():
            self.operations -= 1
            for k, value in enumerate(inner.operands):
                value.uses.remove((inner, k))

    def _note_step(self, op: Operation) -> None:
        if self.step and (not op.steps or op.steps[-1] != self.step):
            op.steps = (*op.steps, self.step)

    def erase(self, op: Operation) -> None:
        """Remove an operation none of whose results is used."""
        for result in op.results:
            self.visited += len(result.uses)
            if any(not is_in(user, op) for user, _ in result.uses):
                raise op.error(
                    "a used operation cannot be erased",
                    required="an operation without uses",
                    found=f"%{result.name} is used",
                )
        walked = list(op.walk())
        for inner in walked:
            self.visited += 1
            self.disown(inner)
            self._drop_operands(inner)
            self.leave(inner)
        block = _block(op)
        index = block.remove(op)
        self.operations -= len(walked)

        def undo() -> None:
            block.insert(index, op)
            self.operations += len(walked)

        self.record(undo)
        self._touch_rest(block)

    def _touch_rest(self, block: Block) -> None:
        """What is round an operation that left a block; of a function, which may have many arguments, only its end."""
        if isinstance(block.parent, FuncOp) and block.ops:
            self.touch(block.ops[-1])
        elif block.parent is not None:
            self.touch(block.parent)

    def _drop_operands(self, op: Operation) -> None:
        """Take an operation off the use lists of its operands."""
        dropped: list[tuple[Value, Use, int]] = []
        for k, value in enumerate(op.operands):
            dropped.append((value, (op, k), value.uses.remove((op, k))))
        self.visited += len(dropped)

        def undo() -> None:
            for value, use, ticket in dropped:
                value.uses.put_back(use, ticket)

        self.record(undo)

    def move(self, op: Operation, to: InsertPoint) -> None:
        """Move an operation within its function."""
        block, steps = _block(op), op.steps
        index = block.remove(op)
        at = to.index - 1 if to.block is block and index < to.index else to.index
        to.block.insert(at, op)
        self._note_step(op)

        def undo() -> None:
            _block(op).remove(op)
            block.insert(index, op)
            op.steps = steps

        self.record(undo, op)
        self._touch_rest(block)
        for inner in op.walk():
            self.touch(inner)
            self.visited += 1

    def reorder(self, op: Operation, to: InsertPoint) -> None:
        """Move an operation within its block, where nothing is new but the order: the step is not noted on it."""
        block = _block(op)
        index = block.remove(op)
        block.insert(to.index - 1 if index < to.index else to.index, op)

        def undo() -> None:
            block.remove(op)
            block.insert(index, op)

        self.record(undo, op)
        for inner in op.walk():
            self.touch(inner)
            self.visited += 1

    def clone(self, op: OpT, at: InsertPoint, mapping: CloneMap, suffix: str = "") -> OpT:
        """Insert a copy of `op`; its names get `suffix` and are made unique."""
        mapping.known = context_of(at.block).names
        made = op.clone(mapping, lambda name: self.fresh_name(at.block, f"{name}{suffix}") if name else "")
        return self.insert(made, at)

    def set_operand(self, op: Operation, index: int, value: Value) -> None:
        """Replace one operand."""
        old = op.operands[index]
        if old is value:
            return
        use = (op, index)
        ticket = old.uses.remove(use)
        value.add_use(op, index)
        op.operands[index] = value
        self.visited += 2

        def undo() -> None:
            op.operands[index] = old
            value.uses.remove(use)
            old.uses.put_back(use, ticket)

        self.record(undo, op)

    def set_operands(self, op: Operation, values: Sequence[Value]) -> None:
        """Replace the whole operand list."""
        old = op.operands
        self._drop_operands(op)
        op.operands = list(values)
        for k, value in enumerate(values):
            value.add_use(op, k)
        self.visited += len(values)

        def undo() -> None:
            for k, value in enumerate(values):
                value.uses.remove((op, k))
            op.operands = old

        self.record(undo, op)

    def replace_uses(self, old: Value, new: Value, where: Callable[[Operation], bool] | None = None) -> None:
        """Let the users of `old` (those `where` accepts) use `new`."""
        self.visited += len(old.uses)
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
        old, steps = dict(op.attributes), op.steps
        self._note_step(op)
        if value is None:
            op.attributes.pop(key, None)
        else:
            op.attributes[key] = value

        def undo() -> None:
            op.attributes, op.steps = old, steps

        self.record(undo, op)

    def set_note(self, op: Operation, key: str, text: str) -> None:
        """Say something of an operation; the payload stays what it is."""
        old = op.notes
        op.notes = {**old, key: text}

        def undo() -> None:
            op.notes = old

        self.record(undo)

    def set_type(self, value: Value, type_: Type) -> None:
        """Change the type of a value."""
        old = value.type
        value.type = type_

        def undo() -> None:
            value.type = old

        self.record(undo, value.defining_op or (value.owner.parent if isinstance(value.owner, Block) else None))

    def add_result(self, op: Operation, type_: Type, base: str) -> Value:
        """Append a result to an operation (a destination to a loop)."""
        made = Value(self.fresh_name(op, base), type_, op)
        op.results.append(made)
        self.record(lambda: op.results.remove(made), op)
        return made

    def add_block_arg(self, block: Block, type_: Type, base: str) -> Value:
        """Append an argument to a block."""
        made = Value(self.fresh_name(block, base), type_, block)
        block.args.append(made)
        self.record(lambda: block.args.remove(made), block.parent)
        return made

    def remove_result(self, op: Operation, index: int) -> None:
        """Remove an unused result (and nothing else)."""
        old = list(op.results)
        if old[index].uses:
            raise op.error(
                "a used result cannot be removed", required="a result without uses", found=f"%{old[index].name}"
            )
        op.results = old[:index] + old[index + 1 :]

        def undo() -> None:
            op.results = old

        self.record(undo, op)

    def remove_block_arg(self, block: Block, index: int) -> None:
        """Remove an unused block argument."""
        old = list(block.args)
        if old[index].uses:
            raise ValueError(f"%{old[index].name} is used")
        block.args = old[:index] + old[index + 1 :]

        def undo() -> None:
            block.args = old

        self.record(undo, block.parent)

    def substitute(self, ops: Sequence[Operation], sizes: Mapping[Symbol | Var, Dim]) -> None:
        """Replace symbols and loop variables in the types and attributes of operations and all inside them. What
        changes is simplified by what is known where it stands."""
        if not sizes:
            return
        for root in ops:
            for op in root.walk():
                self._map_sizes(op, partial(substitute, mapping=sizes, known=context_at(op).names))

    def redeclare(self, ops: Sequence[Operation], symbols: Sequence[Symbol]) -> None:
        """Let these symbols be those of their names in the types and attributes of operations and all inside them: what
        another function declares. Nothing is simplified."""
        named = {symbol.name: symbol for symbol in symbols}
        for root in ops:
            for op in root.walk():
                self._map_sizes(op, partial(redeclare, symbols=named))

    def _map_sizes(self, op: Operation, of: Callable[[Dim], Dim]) -> None:
        self.visited += 1
        own = op.attributes.get("var")
        changed = map_attributes(op.attributes, of)
        if isinstance(own, Var):
            bounds = own.lower, own.upper, own.step
            made = [of(bound) for bound in bounds]
            changed["var"] = own if are_same(made, bounds) else Var(own.name, *made)
        old = op.attributes
        if not are_same([*changed.values()], [*old.values()]):
            op.attributes = changed

            def undo() -> None:
                op.attributes = old

            self.record(undo, op)
        for value in defined_by(op):
            type_ = map_type(value.type, of)
            if type_ is not value.type:
                self.set_type(value, type_)

    # -- functions and constants ---------------------------------------------------------------------------------

    def add_symbols(self, func: FuncOp, symbols: Sequence[Symbol]) -> None:
        """Declare more symbols of a function, with free names."""
        old = func.symbols
        func.symbols = (*old, *symbols)

        def undo() -> None:
            func.symbols = old

        self.record(undo, func)

    def add_function(self, func: FuncOp) -> FuncOp:
        """Enter a function under a name that is free."""
        self.module.add(func)
        self.record(lambda: self.module.remove(func), func)
        return func

    def remove_function(self, func: FuncOp) -> None:
        """Take out a function that nothing calls, with all that is in it."""
        place = list(self.module.funcs)
        for op in func.walk():
            self.disown(op)
            self.forget_touched(op)
            self.operations -= 1
        self.module.remove(func)

        def undo() -> None:
            self.module.add(func)
            self.module.funcs = {name: self.module.funcs[name] for name in place}
            self.operations += sum(1 for _ in func.walk())

        self.record(undo)

    def add_constant(self, name: str, array: NumpyArray) -> None:
        """Store a constant under a name that is free, without a copy: nobody writes to the array any more."""
        if name in self.module.constants:
            raise ValueError(f"a constant is already called {name}")
        self.module.constants.keep(name, array)
        self.record(lambda: self.module.constants.remove(name))
