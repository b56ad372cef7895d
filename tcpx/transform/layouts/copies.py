"""Copies of functions for calls that pass values in other orders.

Each call is tried with a copy of its own. Calls whose copies take their arguments in the same orders share a function:
what they give in another one costs a transpose, inside the function or after the call.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tcpx.payload.ir import FuncOp, Operation, Value
from tcpx.payload.ops.call import Call
from tcpx.payload.rewriter import Rewriter
from tcpx.transform.layouts.choice import Choice
from tcpx.transform.layouts.links import linked_calls
from tcpx.transform.layouts.orders import Order
from tcpx.transform.outlining import clone

MOST_TRIED: Final = 16
"""The functions that one is tried as. Further calls share the first."""
MOST_KINDS: Final = 4
"""The functions that one becomes."""

Chosen = tuple[Choice, Mapping[Value, Order]]
Kinds = tuple[Mapping[FuncOp, int], Mapping[int, Sequence[int]]]
"""By function, a number: those with one number take their arguments in the same orders, and so do their callees. By
number: those of the callees, by call."""


def choose_with_copies(
    rewriter: Rewriter,
    func: FuncOp,
    choice_of: Callable[[Sequence[FuncOp]], Choice],
    orders_of: Callable[[Choice], Mapping[Value, Order]],
) -> Chosen:
    """The orders of the values of a function and of those that it calls. Of these, one becomes several where its calls
    pass values in different orders."""

    def chosen() -> Chosen:
        choice = choice_of(rewriter.module.reached(func))
        return choice, orders_of(choice)

    shared = chosen()
    if not _may_differ(*shared):
        return shared
    mark, count, tried = rewriter.mark(), len(shared[0].funcs), 0
    _separate(rewriter, func)
    found = chosen()
    while len(found[0].funcs) not in (tried, count):
        tried, kinds = len(found[0].funcs), _kinds(*found)
        rewriter.rollback(mark)
        _separate(rewriter, func, kinds)
        found = chosen()
    return found if len(found[0].funcs) > count else shared


def _may_differ(choice: Choice, orders: Mapping[Value, Order]) -> bool:
    """Whether several calls of a function have values that may have two orders."""
    calls = [found for func in choice.funcs if len(found := linked_calls(func, choice.funcs)) > 1]
    values = (value for found in calls for call in found for value in (*call.operands, *call.results))
    return any(value in orders or choice.links.one(value) in choice.pairs for value in values)


def _separate(rewriter: Rewriter, func: FuncOp, kinds: Kinds | None = None) -> None:
    """Let calls of one kind share a function, or none without `kinds`."""
    reached, of = rewriter.module.reached, dict[FuncOp, int]()
    most = MOST_TRIED if kinds is None else MOST_KINDS
    if kinds is not None:
        of[func] = kinds[0][func]
    for callee in reversed(reached(func)[:-1]):  # callers first
        funcs, groups = reached(func), dict[Operation | int, list[Operation]]()
        for caller in funcs:
            for k, (call, called) in enumerate(caller.calls()):
                if called is callee:
                    groups.setdefault(call if kinds is None else kinds[1][of[caller]][k], []).append(call)
        made = [callee]
        for calls in [*groups.values()][1:most] if linked_calls(callee, funcs) else ():
            if isinstance(calls[0], Call) and _fits(rewriter, callee):
                made.append(clone(rewriter, calls[0]))
                for call in calls[1:]:
                    rewriter.set_attribute(call, "callee", made[-1].name)
        of |= {each: kind for each, kind in zip(made, groups, strict=False) if isinstance(kind, int)}


def _fits(rewriter: Rewriter, func: FuncOp) -> bool:
    """Whether the payload may have as many operations more as a function has."""
    return rewriter.operations + sum(1 for _ in func.walk()) < rewriter.most_operations


def _kinds(choice: Choice, orders: Mapping[Value, Order]) -> Kinds:
    known = dict[tuple[Sequence[Order | None], Sequence[int]], int]()
    kinds = dict[FuncOp, int]()
    for func in choice.funcs:  # callees first
        taken = tuple(map(orders.get, func.args))
        kinds[func] = known.setdefault((taken, tuple(kinds[called] for _, called in func.calls())), len(known))
    return kinds, {number: below for (_, below), number in known.items()}
