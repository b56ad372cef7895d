"""The orders of all values of a function that cost least.

Operations that sum windows say which dim should lie innermost. Elsewhere, transposes propose the order of what they
read. From there, a second order of each value follows through the operations that read and give it. Which of the two a
value has is a minimum cut.
"""

from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence

from tcpx.payload.indexing_maps import map_dim, map_symbols
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import FuncOp, Operation, Value
from tcpx.payload.ops.gml_st import StYield
from tcpx.payload.ops.movement import inverse
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.types import shape_of
from tcpx.target import Target
from tcpx.transform.layouts.costs import (
    cost_of_loads,
    cost_of_read,
    cost_of_result,
    cost_of_transposing,
    is_stored,
    iterations_of,
)
from tcpx.transform.layouts.links import Links
from tcpx.transform.layouts.min_cut import Labels, Table
from tcpx.transform.layouts.orders import Order, extent_of, has_orders, identity, innermost, normal
from tcpx.transform.layouts.relations import Relation, relation_of
from tcpx.transform.vectors.pieces import transposed

Pair = tuple[Order, Order]
Node = Value | tuple[Value, Order, int]
"""A value that has one of two orders, or whether a transpose of a value to an order is there."""


def windows(op: Operation) -> tuple[int, ...]:
    """The operands that an operation sums or combines by windows: an index is the sum of two dims."""
    if not isinstance(op, Structured) or Reduction.of(op) is None or not op.results:
        return ()
    return tuple(k for k, m in enumerate(op.maps()) if any(len(map_symbols(expression)) > 1 for expression in m))


class Choice:
    """The values of some functions, the two orders that each may have, and what they cost."""

    def __init__(self, funcs: Sequence[FuncOp], target: Target, pinned: Collection[Value]) -> None:
        self.funcs = funcs
        self.target = target
        self.links = Links(funcs)
        self.pairs: dict[Value, Pair] = {}
        self.transposes: set[Node] = set()
        self.relations: dict[Operation, Relation | None] = {}
        self.around: defaultdict[Value, list[tuple[Relation, int]]] = defaultdict(list)
        owners, fixed = {*self.links.owners}, {*self.links.fixed, *pinned}
        for func in funcs:
            for op in func.walk():
                self.relations[op] = relation = relation_of(op)
                if relation is None:
                    fixed.update(value for value in op.results if value not in owners)
                else:
                    self._note(relation)
        for _, relation in self.links.read_as.values():
            self._note(relation)
        self.fixed = {self.links.one(value) for value in fixed}
        products = [
            op
            for op in self.relations
            if isinstance(op, Structured) and Reduction.of(op) is not None and len(op.inputs) > 1
        ]
        beside = {value for op in products if not windows(op) for value in (*op.operands, *op.results)}
        self.of_products = {self.links.one(value) for value in beside}
        """What products read and give, and what has orders that follow from those of these."""

    def best(self) -> Mapping[Value, Order]:
        """The order of each value that is not stored in that of its type."""
        summing = [op for op, relation in self.relations.items() if windows(op) and relation is not None]
        for op in sorted(summing, key=iterations_of, reverse=True):
            self._propose(op)
        for op in self.relations:
            self._propose_as_read(op)
        costs = Labels[Node]()
        for op, relation in self.relations.items():
            self._add(costs, op, relation)
        for (op, index), (owner, relation) in self.links.read_as.items():
            wanted = [relation.follow(0, order, 1) for order in self._orders(owner)]
            self._add_read(costs, op.operands[index], owner, wanted, None)
        labels = costs.best()
        chosen = {value: pair[labels[value]] for value, pair in self.pairs.items() if value in labels}
        found = {value: chosen[one] for value in self.values() if (one := self.links.one(value)) in chosen}
        return {value: order for value, order in found.items() if order != identity(value)}

    def _note(self, relation: Relation) -> None:
        for slot, value in enumerate(relation.values):
            self.around[self.links.one(value)].append((relation, slot))

    def values(self) -> Iterator[Value]:
        """All values of the functions."""
        for func in self.funcs:
            for op in (func, *func.walk()):
                yield from op.results
                for block in op.regions:
                    yield from block.args

    def _propose(self, op: Operation) -> None:
        """Let the result and what is read by windows have the dim innermost along which vectors should lie."""
        if not isinstance(op, Structured):
            return
        along = _along(op)
        if along is not None and has_orders(op.results[0]):
            self.pairs |= self._reached(op.results[0], innermost(along, op.results[0]))
        for index in windows(op):
            value, dim = op.operands[index], _summed(op, index)
            if dim is not None and has_orders(value) and not is_stored(value):
                self.pairs |= self._reached(value, innermost(dim, value))

    def _propose_as_read(self, op: Operation) -> None:
        """Let the result of a transpose be stored as what it reads. Not beside products: their recipes pack factors of
        any order, at less than what a transpose costs."""
        view = transposed(op)
        if view is None or not has_orders(op.results[0]) or self.links.one(op.results[0]) in self.of_products:
            return
        reached = self._reached(op.results[0], normal(inverse(view[1]), shape_of(op.results[0].type)))
        if self.of_products.isdisjoint(reached):
            self.pairs |= reached
        else:
            self.of_products |= reached.keys()

    def _reached(self, value: Value, order: Order) -> dict[Value, Pair]:
        """A second order of a value, and of all values without one whose order follows from it: the second one of most
        of what they meet follows from the second."""
        first = self.links.one(value)
        if first in self.pairs or order == identity(value):
            return {}
        found, agree = {first: (identity(value), order)}, 0
        waiting = deque([first])
        while waiting:
            here = waiting.popleft()
            for relation, slot in self.around[here]:
                for other, reached in enumerate(relation.values):
                    there = self.links.one(reached)
                    if there in found or not has_orders(there) or is_stored(there):
                        continue
                    orders = [relation.follow(slot, known, other) for known in found[here]]
                    if there in self.pairs:
                        agree += (self.pairs[there][0] == orders[0]) - (self.pairs[there][0] == orders[1])
                    elif orders[0] is not None and orders[1] is not None and orders[0] != orders[1]:
                        found[there] = orders[0], orders[1]
                        waiting.append(there)
        return {value: pair if agree >= 0 else (pair[1], pair[0]) for value, pair in found.items()}

    def _orders(self, value: Value) -> tuple[Order, ...]:
        """The orders that a value may have, by its label."""
        one = self.links.one(value)
        pair = self.pairs.get(one)
        return (identity(value),) if pair is None or one in self.fixed else pair

    def _add(self, costs: Labels[Node], op: Operation, relation: Relation | None) -> None:
        """What an operation costs, by the orders of its result and of what it reads."""
        if relation is None:
            for index, value in enumerate(op.operands):
                if (op, index) not in self.links.read_as and not (isinstance(op, StYield) and index == 1):
                    self._add_read(costs, value, value, [identity(value)] * 2, None)
            return
        anchor, slot = op.results[0], len(op.operands)
        gives = self._orders(anchor)
        if len(gives) > 1 and transposed(op) is None:
            first, second = (cost_of_result(op, order, self.target) for order in gives)
            costs.add(self.links.one(anchor), (first, second))
        for index, value in enumerate(op.operands):
            if not is_stored(value) and has_orders(value):
                wanted = [relation.follow(slot, order, index) for order in gives]
                self._add_read(costs, value, anchor, wanted, op if isinstance(op, Structured) else None, index)
        for number, value in enumerate(op.results[1:], 1):
            wanted = [relation.follow(slot, order, slot + number) for order in gives]
            self._add_read(costs, value, anchor, wanted, None)

    def _add_read(
        self,
        costs: Labels[Node],
        value: Value,
        anchor: Value,
        wanted: Sequence[Order | None],
        op: Structured | None,
        index: int = 0,
    ) -> None:
        """What it costs to read a value in the order that the label of `anchor` asks for; if it asks for none, as it is
        stored."""
        orders, gives = self._orders(value), self._orders(anchor)

        def cost(label: int, stored: int) -> float:
            order, have = wanted[min(label, len(wanted) - 1)], orders[min(stored, len(orders) - 1)]
            given = gives[min(label, len(gives) - 1)]
            if op is None or index >= len(op.inputs):
                return 0.0
            if order is None:
                return cost_of_read(op, index, have, given, self.target)
            return cost_of_loads(op, index, order, given, self.target)[0]

        mine, its = self._label(anchor), self._label(value)
        costs.add_pair(mine, its, ((cost(0, 0), cost(0, 1)), (cost(1, 0), cost(1, 1))))
        for label, order in enumerate(wanted[: len(gives)]):
            if order is not None and orders != (order,):
                self._add_transpose(costs, value, order, (mine, label))

    def _add_transpose(self, costs: Labels[Node], value: Value, order: Order, reader: tuple[Value | None, int]) -> None:
        """What a transpose costs that a reader with this label asks for. Several readers share one: a node of its own
        says whether it is there, by the label that the value has in its order."""
        orders, price, its, (mine, label) = self._orders(value), cost_of_transposing(value), self._label(value), reader
        there = orders.index(order) if order in orders else label
        node = value, order, there
        if node not in self.transposes:
            self.transposes.add(node)
            costs.add_pair(node, its, _at(there, 1 - there, price))
            if order not in orders:
                costs.add_pair(node, its, _at(there, there, price))
        costs.add_pair(mine, node if mine is None or label == there else its, _at(label, 1 - there, price))

    def _label(self, value: Value) -> Value | None:
        """What the order of a value is a label of; None of one that has one order."""
        return self.links.one(value) if len(self._orders(value)) > 1 else None


def _at(first: int, second: int, price: float) -> Table:
    """Costs of a pair of labels and of no other."""
    table = [[0.0, 0.0], [0.0, 0.0]]
    table[first][second] = price
    return (table[0][0], table[0][1]), (table[1][0], table[1][1])


def _along(op: Structured) -> int | None:
    """The dim of the result along which vectors should lie: one that other operands have and what is read by windows
    has not, as the filters of a convolution; or else one that all have, as the channels that each filter of a depthwise
    convolution is for. The longest of several; None without one."""
    maps, read = op.maps(), windows(op)
    by_windows = {name for k in read for expression in op.maps()[k] for name in map_symbols(expression)}
    others = [{name for e in m for name in map_symbols(e)} for k, m in enumerate(maps) if k not in read]
    moving = {name for k in read for e in maps[k] if len(map_symbols(e)) > 1 for name in map_symbols(e)}
    shape, best = shape_of(op.results[0].type), dict[int, tuple[bool, int]]()
    for dim, expression in enumerate(op.result_maps()[0]):
        name = map_dim(expression)
        if name is None or name in moving or shape[dim] == 1 or not all(name in other for other in others):
            continue
        best[dim] = name not in by_windows, extent_of(shape[dim])
    return max(best, key=lambda dim: best[dim]) if best else None


def _summed(op: Structured, index: int) -> int | None:
    """The dim of an operand that is summed whole, as channels are; the longest of several, None without one."""
    shape, kinds = shape_of(op.operands[index].type), {it.name: it for it in op.iterators()}
    found: dict[int, int] = {}
    for dim, expression in enumerate(op.maps()[index]):
        name = map_dim(expression)
        if name is not None and kinds[name].is_reduction and shape[dim] != 1:
            found[dim] = extent_of(shape[dim])
    return max(found, key=lambda dim: found[dim]) if found else None
