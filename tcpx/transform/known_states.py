"""What operations compute of elements that are known: numbers, or those of a destination."""

from collections.abc import Mapping, Sequence
from math import isinf

from tcpx.payload.indexing_maps import IndexingMap, index_operands
from tcpx.payload.interfaces import Elementwise, Structured
from tcpx.payload.ir import Operation, Value
from tcpx.payload.traits.algebra import Group, algebra
from tcpx.payload.traits.masked import Masked
from tcpx.payload.traits.ragged import is_irregular
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.scan import Scan
from tcpx.records import frozen
from tcpx.transform.algebra import number_of
from tcpx.transform.bodies import Body, combiner_of
from tcpx.transform.separation import start_of


@frozen
class Kept:
    """Elements that are those of a destination before an iteration, read by a map where there is one."""

    destination: Value
    read: IndexingMap = ()


State = float | Kept | None
"""What each element is: a number, what it was; None: some finite number."""


def state_of(op: Structured, elements: Sequence[State], start: State, given: Mapping[int, float]) -> State:
    """What an operation computes of elements in these states, one for each input, if others are finite. `start` is the
    state of the accumulator; `given` are known results of operations of its body, by their number."""
    if Scan.of(op) is not None or is_irregular(op) or Masked(op).valid or index_operands(op.maps()):
        return None
    body = Body.of(op)
    known: dict[Value, State] = {}
    for element, held, read in zip(body.elements, elements, op.maps(), strict=True):
        known[element] = Kept(held.destination, read) if isinstance(held, Kept) else held
    for k, inner in enumerate(body.ops):
        if k in given:
            known[inner.result] = given[k]
        else:
            operands = [known[v] if v in known else as_number(v) for v in inner.operands]
            number = as_number(inner.result)
            known[inner.result] = number if number is not None else _scalar(inner, operands)
    made = known.get(body.results[0])
    if Reduction.of(op) is None:
        if isinstance(made, Kept):
            return Kept(made.destination) if made.read == op.result_map() else None
        return made
    neutrals = Reduction(op).neutrals()
    if neutrals is None or combiner_of(op) is None or made != neutrals[0]:
        return None
    return start if op.inits else float(neutrals[0])


def is_neutral(op: Structured, numbers: Sequence[float | None]) -> bool:
    """Whether an iteration that reads these numbers, and finite ones where there is none, leaves its accumulator as it
    is. A body of several operations may overflow on the way: nothing is known of it."""
    if Reduction.of(op) is None or len(op.results) > 1 or all(number is None for number in numbers):
        return False
    if len(Body.of(op).ops) > 1:
        return False
    return state_of(op, numbers, 0.0, {}) is not None


def as_number(value: Value) -> float | None:
    """The number that every element of a value is known to be, as a float."""
    number = number_of(value)
    return None if number is None else float(number)


def _scalar(op: Operation, states: Sequence[State]) -> State:
    """What an operation of a body makes of operands in these states."""
    numbers = [held if isinstance(held, float) else None for held in states]
    if not isinstance(op, Elementwise):
        return None
    if algebra(op).chooses and numbers[0] is not None:
        return states[1] if numbers[0] else states[2]
    if algebra(op).holds_for and None in numbers:
        sign = _sign(states)
        return None if sign is None else float(sign in algebra(op).holds_for)
    for group in Group:
        if op.opcode == group.value and group.identity in numbers:
            return states[1 - numbers.index(group.identity)]
    if 0.0 in numbers and any(number is None and k not in algebra(op).linear for k, number in enumerate(numbers)):
        return None  # 0 divided by 0 is NaN
    return start_of(op, numbers)


def _sign(states: Sequence[State]) -> int | None:
    """The sign of the first less the second, where one of them is infinite or both are one number; None if unknown."""
    first, second = states
    if isinstance(first, Kept) and first == second:
        return 0
    if isinstance(first, float) and isinf(first) and not isinstance(second, float):
        return 1 if first > 0 else -1
    if isinstance(second, float) and isinf(second) and not isinstance(first, float):
        return -1 if second > 0 else 1
    return None
