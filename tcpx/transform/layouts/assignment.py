"""Rewrites a function so that its values are stored in given orders."""

from collections.abc import Mapping, Sequence

from tcpx.payload.indexing_maps import map_symbols
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.gml_st import StYield
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.types import dtype_of, like, shape_of
from tcpx.transform import new
from tcpx.transform.digits import reread
from tcpx.transform.editing import erase_dead, is_destination, rename_inside, source_name
from tcpx.transform.layouts.choice import Choice, windows
from tcpx.transform.layouts.costs import cost_of_loads, cost_of_transposing, innermost_dim
from tcpx.transform.layouts.orders import Order, between, identity, normal, stored_shape
from tcpx.transform.layouts.rebuilding import is_identity, reordered, turned_subset
from tcpx.transform.layouts.relations import Relation
from tcpx.transform.vectors.pieces import transposed


def assign(
    rewriter: Rewriter, choice: Choice, orders: Mapping[Value, Order], only_orders: bool = False
) -> list[Operation]:
    """Store each value in its order, or in that of its type, and return the transposes that remain. With `only_orders`,
    a structured operation whose result keeps its order reads by maps what is stored otherwise, and sums stay as they
    are."""
    rewriting = _Assignment(rewriter, choice, orders, only_orders)
    for func in choice.funcs:
        rewriting.block(func.body)
    rewriting.finish()
    return [op for op in rewriting.transposes if op.parent is not None]


class _Assignment:
    def __init__(self, rewriter: Rewriter, choice: Choice, orders: Mapping[Value, Order], only_orders: bool) -> None:
        self.rewriter = rewriter
        self.choice = choice
        self.target = choice.target
        self.orders = orders
        self.only_orders = only_orders
        self.stored: dict[Value, tuple[Value, Order]] = {}
        self.read_as: dict[tuple[Value, Order], Value] = {}
        """By what is stored and the permutation of its dims: several values may be stored as one, each in its order."""
        self.replaced: list[Operation] = []
        self.transposes: list[Operation] = []
        self.retyped = {value: self._stand_in(value) for value in choice.links.owners if value in orders}
        self.replaces = {stand_in: value for value, stand_in in self.retyped.items()}

    def _stand_in(self, value: Value) -> Value:
        """What is read in place of an argument or result whose type changes at the end."""
        order = self.orders[value]
        type_ = like(value.type, stored_shape(order, shape_of(value.type)), dtype_of(value.type))
        stand_in = Block([(value.name, type_)]).args[0]
        self.stored[value] = stand_in, order
        return stand_in

    def block(self, block: Block) -> None:
        """Rewrite the operations of a block in their order."""
        for op in list(block.ops):
            for region in op.regions if not isinstance(op, Structured) else ():
                self.block(region)
            self._operation(op)

    def finish(self) -> None:
        """Erase what was replaced, and change the types of arguments and results that are stored otherwise."""
        for op in reversed(self.replaced):
            self.rewriter.erase(op)
        for value, stand_in in self.retyped.items():
            self.rewriter.set_type(value, stand_in.type)
            self.rewriter.replace_uses(stand_in, value)
        erase_dead(self.rewriter, [op.results[0] for op in self.transposes])

    def read(self, value: Value, order: Order, user: Operation) -> Value:
        """A value, stored in this order, for an operation that reads it."""
        held, have = self.stored.get(value, (value, identity(value)))
        if have == order:
            return held
        permutation = between(have, order)
        key = held, permutation
        if key not in self.read_as:
            shape, source = shape_of(held.type), self.replaces.get(held, held)
            if normal(permutation, shape) == identity(held):
                made = new.reshape(held, stored_shape(permutation, shape))
            else:
                made = new.transpose(held, permutation)
                self.transposes.append(made)
            owner = source.owner
            if isinstance(owner, Operation):
                made.stand_for(owner)
            at = InsertPoint.start(owner) if isinstance(owner, Block) else InsertPoint.after(owner)
            if is_destination(source):
                at = InsertPoint.before(user)  # what it holds may be another value elsewhere
            name = source_name(owner) if isinstance(owner, Operation) else value.name
            result = self.rewriter.insert(made, at, f"{name}.turned").results[0]
            if is_destination(source):
                return result
            self.read_as[key] = result
        return self.read_as[key]

    def _operation(self, op: Operation) -> None:
        relation, view = self.choice.relations[op], transposed(op)
        if relation is None:
            self._end(op)
        elif view is not None:
            self._transpose(op, *view)
        else:
            self._rebuild(op, relation)

    def _end(self, op: Operation) -> None:
        """Let an operation read values in the order of their types, or in those of the tensors that they become."""
        for index, value in enumerate(op.operands):
            if isinstance(op, StYield) and index == 1:
                continue
            owner, relation = self.choice.links.read_as.get((op, index), (value, None))
            order = self.orders.get(owner, identity(owner)) if relation is not None else identity(value)
            if relation is not None:
                order = relation.along(0, order, 1)
            self.rewriter.set_operand(op, index, self.read(value, order, op))
        if isinstance(op, StYield) and op.destination in self.orders:
            self.rewriter.set_attribute(op, "subset", turned_subset(op.subset, self.orders[op.destination]))

    def _transpose(self, op: Operation, value: Value, permutation: Sequence[int]) -> None:
        """A transpose gives what it reads in another order: nothing is left of it where it is stored so."""
        gives = self.orders.get(op.result, identity(op.result))
        wanted = normal([permutation[dim] for dim in gives], shape_of(value.type))
        if wanted == permutation and gives == identity(op.result) and value not in self.stored:
            return
        held = self.read(value, wanted, op)
        exact = tuple(permutation[dim] for dim in gives)
        if exact != wanted:
            made = new.reshape(held, stored_shape(exact, shape_of(value.type)))
            made.stand_for(op)
            held = self.rewriter.insert(made, InsertPoint.before(op), source_name(op)).results[0]
        self.stored[op.result] = held, gives
        if held.defining_op is not None:
            self.rewriter.join(op, held.defining_op)
        else:
            self.rewriter.end(op, "what it reads is stored in its order")
        self.replaced.append(op)

    def _rebuild(self, op: Operation, relation: Relation) -> None:
        gives = [self.orders.get(value, identity(value)) for value in op.results]
        wanted = self._wanted(op, relation, gives)
        if not isinstance(op, Structured) and None in wanted:
            gives = [identity(value) for value in op.results]  # of what it reads no order gives that one
            wanted = self._wanted(op, relation, gives)
        if self.only_orders and isinstance(op, Structured) and is_identity(op.results, gives):
            self._reread(op)
            return
        reads = self._reads(op, wanted, gives)
        if relation.is_aligned:
            anchor = relation.anchor
            order = (*reads, *gives)[anchor]
            found = [relation.along(anchor, order, slot) for slot in range(len(relation.values))]
            reads, gives = found[: len(reads)], found[len(reads) :]
        operands = [self.read(value, order, op) for value, order in zip(op.operands, reads, strict=True)]
        if is_identity(op.operands, reads) and is_identity(op.results, gives):
            for index, value in enumerate(operands):
                self.rewriter.set_operand(op, index, value)
            return
        made = reordered(op, operands, reads, gives, sums_as_stored=not self.only_orders)
        rename_inside(self.rewriter, made, op)
        self.rewriter.insert(made, InsertPoint.before(op), source_name(op))
        self.rewriter.rename(made, op.name)
        self.rewriter.continue_as(op, made)
        for value, result, order in zip(op.results, made.results, gives, strict=True):
            self.stored[value] = result, order
        self.replaced.append(op)

    def _reread(self, op: Structured) -> None:
        """Let an operation whose result keeps its order read its inputs as they are stored."""
        for index, value in enumerate([*op.operands]):
            held, order = self.stored.get(value, (value, identity(value)))
            if index < len(op.inputs) and order != identity(value):
                op = reread(self.rewriter, op, index, held, tuple(op.maps()[index][dim] for dim in order))
            else:
                self.rewriter.set_operand(op, index, self.read(value, identity(value), op))

    def _wanted(self, op: Operation, relation: Relation, gives: Sequence[Order]) -> list[Order | None]:
        """The order of each operand that the order of the first result asks for; None where it asks for none."""
        return [relation.follow(len(op.operands), gives[0], index) for index in range(len(op.operands))]

    def _reads(self, op: Operation, wanted: Sequence[Order | None], gives: Sequence[Order]) -> list[Order]:
        """The orders in which an operation reads its operands."""
        reads: list[Order] = []
        for index, value in enumerate(op.operands):
            order = wanted[index]
            if order is None:
                order = self.stored.get(value, (value, identity(value)))[1]
                is_free = not self.only_orders and windows(op)
                if isinstance(op, Structured) and is_free and self._is_better_turned(op, index, order, gives[0]):
                    order = _filter_order(op, index, gives[0], reads)
            reads.append(order)
        return reads

    def _is_better_turned(self, op: Structured, index: int, order: Order, gives: Order) -> bool:
        """Whether loads of what windows are multiplied with are worth a transpose of it."""
        if index in windows(op) or index >= len(op.inputs):
            return False
        loads, best = cost_of_loads(op, index, order, gives, self.target)
        return best + cost_of_transposing(op.operands[index]) < loads


def _filter_order(op: Structured, index: int, gives: Order, reads: Sequence[Order]) -> Order:
    """The order of a constant that windows are multiplied with: vectors along the innermost dim of the result, inside
    of what is summed, in the order of what the operands before it sum; other dims of the result are outermost."""
    value, maps = op.operands[index], op.maps()
    inner, written = innermost_dim(gives, op.results[0]), op.result_maps()[0]
    along = map_symbols(written[inner]) if inner is not None else ()
    ranks = {name: rank for rank, dim in enumerate(gives) for name in map_symbols(written[dim])}
    for m, order in zip(maps, reads, strict=False):
        for dim in order:
            for name in map_symbols(m[dim]):
                ranks.setdefault(name, len(ranks))
    entries = maps[index]

    def place(dim: int) -> tuple[bool, int]:
        names = map_symbols(entries[dim])
        return any(name in along for name in names), min((ranks.get(name, len(ranks)) for name in names), default=-1)

    return normal(sorted(range(len(entries)), key=place), shape_of(value.type))
