"""What a choice of layouts costs, as text for `tcpx explain`."""

from collections.abc import Iterator, Mapping, Sequence

from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Operation, Value
from tcpx.plurals import counted
from tcpx.transform.layouts.choice import Choice
from tcpx.transform.layouts.costs import cost_of_read, cost_of_result, is_stored
from tcpx.transform.layouts.orders import Order, elements_of, identity
from tcpx.transform.layouts.relations import Relation


def account(choice: Choice, orders: Mapping[Value, Order], transposes: Sequence[Value]) -> str:
    """The transposes that remain, then each value that may have two orders: the one it has, and what the operation that
    computes it costs in both, in vector instructions."""
    moved = [f"  %{value.name}: {elements_of(value)} elements" for value in transposes]
    lines = list(_values(choice, orders))
    return "\n".join([f"{counted(len(moved), 'transpose')} while the kernel runs", *moved, "orders of dims", *lines])


def _values(choice: Choice, orders: Mapping[Value, Order]) -> Iterator[str]:
    for op, relation in choice.relations.items():
        pair = choice.pairs.get(choice.links.one(op.results[0])) if op.results else None
        if relation is None or pair is None:
            continue
        has = orders.get(op.results[0], identity(op.results[0]))
        other = next((order for order in pair if order != has), has)
        mine, its = (_cost(choice, op, relation, order, orders) for order in (has, other))
        yield f"  %{op.results[0].name}: {list(has)} costs {mine:.3g}, {list(other)} {its:.3g}"


def _cost(choice: Choice, op: Operation, relation: Relation, order: Order, orders: Mapping[Value, Order]) -> float:
    """What an operation costs with its result in this order, and its operands as they are stored or follow from it."""
    cost, slot = cost_of_result(op, order, choice.target), len(op.operands)
    for index, value in enumerate(op.inputs if isinstance(op, Structured) else ()):
        if relation.follow(slot, order, index) is None and not is_stored(value) and isinstance(op, Structured):
            cost += cost_of_read(op, index, orders.get(value, identity(value)), order, choice.target)
    return cost
