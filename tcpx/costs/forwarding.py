"""Where a kernel does what a payload asks for, of operations that were replaced by others: those ask for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Self

from tcpx.costs.operations import Operations
from tcpx.costs.visits import Run
from tcpx.costs.work import Account, Asked, Issued, Owners, Place, account, issued_by, owners_of
from tcpx.payload.ir import FuncOp, Module, Operation, Value
from tcpx.records import frozen


@frozen
class PayloadPlaces:
    """The places of a payload before it is scheduled: those of its operations by their origins, which places read what
    is computed at each, by function, and for places in the bodies of operations those of these."""

    numbered: tuple[Place, ...]
    readers: tuple[Mapping[Place, Sequence[Place]], ...]
    bodies: Owners

    @classmethod
    def of(cls, payload: Module) -> Self:
        """Those of a payload, of which kernels are made, or of copies of it."""
        numbered = tuple(op.location for op in payload.walk())  # as origins are
        readers = tuple(_readers(func) for func in payload.reached(payload.main))
        return cls(numbered, readers, owners_of(payload.funcs.values()))

    def account(self, asked: Asked, kernel: Sequence[Run]) -> Account:
        """The work of each statement of a kernel."""
        issued = issued_by(kernel, self.bodies)
        return account(self._forwarded(asked, kernel, issued), issued)

    def _forwarded(self, asked: Asked, kernel: Sequence[Run], issued: Issued) -> Asked:
        """What the payload asks for, by places for which a kernel issues anything.

        A place that issues nothing may have become part of others: of an equal layer, which runs for both, of a fused
        operation, whose origins have it. Else the next one that reads what it computes and issues something asks for
        it: a recognized pattern, such as a GELU, is written where its last operation was. What depends on no argument
        is computed at compile time, and nobody asks for it.
        """
        owners: dict[Place, Place] = {place: place for place in issued.totals}
        for op in (op for run in kernel for op in run.ops):
            place = op.written_at
            place = self.bodies.get(place, place)
            for origin in op.origins if place in issued.totals else ():
                if origin < len(self.numbered):
                    owners.setdefault(self.numbered[origin], place)
        found: dict[Place, Operations] = defaultdict(Operations)
        for place, operations in asked.items():
            owner = next((at for held in self.readers if (at := _owner(place, held, owners)) is not None), None)
            if owner is not None:
                found[owner] = found[owner] + operations
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


def _owner(place: Place, readers: Mapping[Place, Sequence[Place]], owners: Mapping[Place, Place]) -> Place:
    """The owner of a place, or of the next one on the way to the results that has one; None for none."""
    seen, pending = {place}, [place]
    for at in pending:
        if at in owners:
            return owners[at]
        new = [reader for reader in readers.get(at, []) if reader not in seen]
        seen.update(new)
        pending += new
    return None
