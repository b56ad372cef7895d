"""What becomes of operations of a payload that a schedule or the lowering replaces by others: the others ask for what
they asked for."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from tcpx.costs.operations import Operations
from tcpx.costs.work import Account, Asked, Place
from tcpx.payload.ir import FuncOp, Operation, Value


def issuing(account: Account) -> set[Place]:
    """The places of a payload for which a kernel issues anything."""
    return {place for places in account.values() for place, work in places.items() if work.issued}


def forwarded(asked: Asked, funcs: Iterable[FuncOp], issued: Collection[Place]) -> Asked:
    """What places that issue nothing ask for is asked for by the next ones that read what these compute and issue
    something: a recognized pattern, such as of a GELU, is written where its last operation was. What depends on no
    argument, and is computed at compile time, is asked for by nobody."""
    found: dict[Place, Operations] = defaultdict(Operations)
    found.update((place, operations) for place, operations in asked.items() if place in issued)
    readers = {func: _readers(func) for func in funcs}
    for place, operations in asked.items():
        if place in issued:
            continue
        next_place = next((at for held in readers.values() if (at := _next(place, held, issued)) is not None), None)
        if next_place is not None:
            found[next_place] = found[next_place] + operations
    return found


def _readers(func: FuncOp) -> Mapping[Place, list[Place]]:
    """The places that read what is computed at each place, of values that depend on arguments."""
    depending: set[Value] = set(func.args)
    found: dict[Place, list[Place]] = {}
    for op in func.body.ops:
        if depending.isdisjoint(_read(op)):
            continue
        depending.update(op.results)
        found.setdefault(op.location, [])
        for value in op.operands:
            if value in depending and value.defining_op is not None:
                found[value.defining_op.location].append(op.location)
    return found


def _read(op: Operation) -> list[Value]:
    """The operands of an operation and of those inside."""
    return [value for inner in op.walk() for value in inner.operands]


def _next(place: Place, readers: Mapping[Place, list[Place]], issued: Collection[Place]) -> Place:
    """The first place that issues something on the way to the results; None for none."""
    seen, pending = {place}, [place] if place in readers else []
    for at in pending:
        for reader in readers.get(at, []):
            if reader in issued:
                return reader
            if reader not in seen:
                seen.add(reader)
                pending.append(reader)
    return None
