"""Where a kernel does what a payload asks for, of operations that were replaced by others: those ask for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Self

from tcpx.costs.operations import Operations
from tcpx.costs.visits import Run
from tcpx.costs.work import Account, Asked, Issued, Owners, Place, account, issued_by, owners_of
from tcpx.payload.ir import FuncOp, Module, parent_op, written_at
from tcpx.records import frozen
from tcpx.transform.partition import signature


@frozen
class PayloadPlaces:
    """The places of a payload before it is scheduled: those of its operations by their origins, those that read what
    is computed at each, those of equal operations, and for places in the bodies of operations those of these."""

    numbered: tuple[Place, ...]
    readers: Mapping[Place, Sequence[Place]]
    equals: Mapping[Place, Sequence[Place]]
    bodies: Owners

    @classmethod
    def of(cls, payload: Module) -> Self:
        """Those of a payload, of which kernels are made, or of copies of it."""
        funcs = payload.reached(payload.main)
        numbered = tuple(written_at(op) for op in payload.walk())  # as origins are
        return cls(numbered, _readers(funcs), _equals(funcs), owners_of(payload.funcs.values()))

    def account(self, asked: Asked, kernel: Sequence[Run]) -> Account:
        """The work of each statement of a kernel."""
        issued = issued_by(kernel, self.bodies)
        return account(_Forwarding(self, kernel, issued).forwarded(asked), issued)

    def next_among(self, place: Place, among: Container[Place]) -> list[Place]:
        """The next ones of some places on the ways from a place to the results."""
        seen, pending, found = {place}, [place], list[Place]()
        for at in pending:
            new = [reader for reader in self.readers.get(at, ()) if reader not in seen]
            seen.update(new)
            found += [reader for reader in new if reader in among]
            pending += [reader for reader in new if reader not in among]
        return found


class _Forwarding:
    """What the payload asks for, by places that a kernel does something for.

    What a place asks for beyond what is issued for it became part of others, which issue more than they ask for: an
    operation that has its origin, one of an equal layer, which runs for both, or the next one that reads what it
    computes. Of a recognized pattern, such as a GELU, all that is left is there. What no other place has room for
    stays, or, where nothing is issued for it, goes to the first of these.
    """

    def __init__(self, places: PayloadPlaces, kernel: Sequence[Run], issued: Issued) -> None:
        self.places, self.issued = places, issued
        self.room = issued.room()
        self.continued: dict[Place, dict[Place, None]] = defaultdict(dict)
        """By place, those of the operations that have its origins."""
        for op in (op for run in kernel for op in run.ops):
            for origin in (origin for origin in op.origins if origin < len(places.numbered)):
                at = places.bodies.get(written_at(op), written_at(op))
                self.continued[places.numbered[origin]][at] = None
        self.found: dict[Place, Operations] = defaultdict(Operations)

    def forwarded(self, asked: Asked) -> Asked:
        left = {place: self._give(place, operations) for place, operations in asked.items()}
        for place, operations in left.items():
            rest = operations
            for other in self._others(place) if rest else ():
                rest = self._give(other, rest)
            if rest:
                self.found[self._home(place)].update(rest)
        return self.found

    def _give(self, place: Place, operations: Operations) -> Operations:
        """Let a place ask for as many of these as it has room for; returns the others."""
        most = self.room.get(place, 0)
        taken = Operations()
        for peak, number in operations.items():
            taken[peak] = min(number, most - taken.total())
        if taken.total():
            self.room[place] -= taken.total()
            self.found[place].update(+taken)
        return operations - taken

    def _others(self, place: Place) -> Iterator[Place]:
        """The places that may issue what another one asks for, the likeliest first."""
        yield from (at for at in self.continued.get(place, ()) if at in self.room)
        yield from (at for at in self.places.equals.get(place, ()) if at in self.room)
        yield from self.places.next_among(place, self.room)

    def _home(self, place: Place) -> Place:
        """Where what no place has room for is asked for: of a kernel that only moves elements, where it does that."""
        moved = self.issued.counts
        issuing = [place] if place in self.room else self._others(place)
        return next(chain(issuing, self.places.next_among(place, moved), moved), None)


def _readers(funcs: Iterable[FuncOp]) -> Mapping[Place, Sequence[Place]]:
    """The places that read what is computed at each place; what a body yields is read where the operation of it is."""
    found: dict[Place, dict[Place, None]] = defaultdict(dict)
    for op in (op for func in funcs for op in func.walk()):
        for value in op.operands:
            if value.defining_op is not None:
                found[written_at(value.defining_op)][written_at(op)] = None
        if op.is_terminator and (outer := parent_op(op)) is not None:
            found[written_at(op)][written_at(outer)] = None
    return {place: list(readers) for place, readers in found.items()}


def _equals(funcs: Iterable[FuncOp]) -> Mapping[Place, Sequence[Place]]:
    """The places of operations that do the same, whatever they read, for each that has others."""
    alike: dict[object, dict[Place, None]] = defaultdict(dict)
    for op in (op for func in funcs for op in func.body.ops if op.operands):
        operands = tuple(str(value.type) for value in op.operands)
        alike[signature(op), operands][written_at(op)] = None
    groups = [list(places) for places in alike.values() if len(places) > 1]
    return {place: [other for other in places if other != place] for places in groups for place in places}
