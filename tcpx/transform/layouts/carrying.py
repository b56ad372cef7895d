"""Values whose orders follow from those of others, whatever that costs."""

from collections.abc import Iterator, Mapping
from itertools import product

from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Operation, Value
from tcpx.records import frozen
from tcpx.transform.layouts.choice import Choice
from tcpx.transform.layouts.costs import is_stored
from tcpx.transform.layouts.orders import Order, has_orders, identity
from tcpx.transform.layouts.relations import Relation


@frozen
class Flow:
    """What is computed of some values, or what one goes on as: slots of a relation."""

    relation: Relation
    reads: range
    gives: range
    op: Operation | None = None


def carried(choice: Choice, starts: Mapping[Value, Order]) -> Mapping[Value, Order]:
    """The order of each value that follows from those of `starts`, where all that it is computed of has the order that
    it asks for. What the compiler stores has any order."""
    one, flows = choice.links.one, [*_flows(choice, starts)]
    found = {one(value): order for value, order in starts.items()}
    known = 0
    while known < len(found):
        known = len(found)
        for flow in flows:
            for slot, given in product(flow.reads, flow.gives):
                _follow(choice, flow.relation, slot, given, found)
                if _has_any_order(choice, flow.relation.values[slot]):
                    _follow(choice, flow.relation, given, slot, found)
    while wrong := {value for flow in flows for value in _wrong(choice, flow, found)}:
        found = {value: order for value, order in found.items() if value not in wrong}
    return {value: found[one(value)] for value in choice.values() if one(value) in found}


def _flows(choice: Choice, starts: Mapping[Value, Order]) -> Iterator[Flow]:
    for op, relation in choice.relations.items():
        if relation is not None and starts.keys().isdisjoint(op.results):
            count = len(op.operands)
            yield Flow(relation, range(count), range(count, len(relation.values)), op)
    for _, relation in choice.links.read_as.values():
        yield Flow(relation, range(1, 2), range(1))


def _follow(choice: Choice, relation: Relation, given: int, slot: int, found: dict[Value, Order]) -> None:
    """Give the value of one slot the order that follows from that of another."""
    known, value = (choice.links.one(relation.values[k]) for k in (given, slot))
    if known in found and value not in found and value not in choice.fixed and has_orders(value):
        order = relation.follow(given, found[known], slot)
        if order is not None and order != identity(value):
            found[value] = order


def _has_any_order(choice: Choice, value: Value) -> bool:
    """Whether a value is made for one reader of what has no order, as a vector that is broadcast."""
    op = value.defining_op
    if not isinstance(op, Structured) or choice.relations[op] is None or len(value.uses) != 1:
        return False
    return not any(map(has_orders, op.operands))


def _wrong(choice: Choice, flow: Flow, found: Mapping[Value, Order]) -> Iterator[Value]:
    """The values of an operation whose orders ask for others than its operands have."""
    for given, slot in product(flow.gives, flow.reads):
        value, source = (flow.relation.values[k] for k in (given, slot))
        order = found.get(choice.links.one(value))
        if order is not None and has_orders(source) and not is_stored(source):
            has = found.get(choice.links.one(source), identity(source))
            if not _agree(flow, given, order, slot, has):
                yield choice.links.one(value)


def _agree(flow: Flow, given: int, order: Order, slot: int, has: Order) -> bool:
    """Whether an operand has the order that a result in this order asks for."""
    wanted = flow.relation.follow(given, order, slot)
    if wanted is None and not isinstance(flow.op, Structured):
        return flow.relation.follow(slot, has, given) == order  # the result has some of the dims, as a part of a tensor
    return wanted is None or wanted == has
