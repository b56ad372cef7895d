"""Which operations continue which computation: what a handle of a schedule denotes, whatever becomes of the payload."""

from collections.abc import Iterable, Mapping

from tcpx.payload.ir import CopyPath, Module, Operation
from tcpx.payload.journal import Journal
from tcpx.payload.lookup import Lookup
from tcpx.payload.uses import Ticketed


class Origins(Journal):
    """A handle is an origin number; `origins` maps it to the live operations that continue the computation it names.

    A new operation gets an origin of its own, unless a rewrite says that it continues another.
    """

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self.origins: dict[int, Ticketed[Operation]] = {}
        self.ended: dict[int, str] = {}
        self.inlined: dict[int, tuple[int | None, ...]] = {}
        """By origin of a call that was inlined: the splits whose side `INLINED` is what it left; None where that has no
        other copies."""
        self.calls: dict[int, int] = {}
        """By origin of an operation that is shared: the origin of the call that computes it."""
        self.unsettled: dict[int, None] = {}
        """Origins that lost their last operation or got one again; who keeps track of them empties it."""
        self.lookup = Lookup()
        """The operations of the module by class and name."""
        self._next_split = 0
        for op in module.walk():
            self.adopt(op)
        self._undo.clear()
        self.unsettled.clear()

    def adopt(self, op: Operation) -> None:
        """Enter an operation that is now in the module."""
        if not op.origins:
            self._new_origin(op)
        for origin in op.origins:
            self._hold(origin, op)
        self.lookup.add(op)

        def undo() -> None:
            self.lookup.remove(op)
            self._forget(op)

        self.record(undo)

    def _new_origin(self, op: Operation) -> None:
        number = self.module.next_origin
        self.module.next_origin = number + 1
        op.origins = (number,)

        def undo() -> None:
            self.module.next_origin = number
            op.origins = ()

        self.record(undo)

    def _hold(self, origin: int, op: Operation, ticket: int | None = None) -> None:
        holders = self.origins.get(origin)
        if holders is None:
            holders = self.origins[origin] = Ticketed()
            self.unsettled[origin] = None
        elif not holders:
            self.unsettled[origin] = None
        if ticket is None:
            holders.append(op)
        else:
            holders.put_back(op, ticket)

    def _forget(self, op: Operation) -> dict[int, int]:
        """Take an operation out; returns the tickets by which it is put back, by origin."""
        tickets: dict[int, int] = {}
        for origin in op.origins:
            holders = self.origins[origin]
            tickets[origin] = holders.remove(op)
            self.visited += 1
            if not holders:
                self.unsettled[origin] = None
        return tickets

    def _remember(self, op: Operation, tickets: Mapping[int, int]) -> None:
        for origin, ticket in tickets.items():
            self._hold(origin, op, ticket)

    def disown(self, op: Operation) -> None:
        """Take out an operation that is no longer in the module."""
        tickets = self._forget(op)
        self.lookup.remove(op)

        def undo() -> None:
            self.lookup.add(op)
            self._remember(op, tickets)

        self.record(undo)

    def rename(self, op: Operation, name: str) -> None:
        """Let an operation of the module be called so; its results keep their names."""
        old = op.name
        self._call(op, name)
        self.record(lambda: self._call(op, old))

    def _call(self, op: Operation, name: str) -> None:
        self.lookup.remove(op)
        op.name = name
        self.lookup.add(op)

    def set_origins(self, op: Operation, origins: tuple[int, ...], copy_path: CopyPath | None = None) -> None:
        """Say which computations (handles) an operation continues, and as which copy."""
        old_origins, old_path = op.origins, op.copy_path
        tickets = self._forget(op)
        op.origins = origins
        if copy_path is not None:
            op.copy_path = copy_path
        for origin in origins:
            self._hold(origin, op)

        def undo() -> None:
            self._forget(op)
            op.origins, op.copy_path = old_origins, old_path
            self._remember(op, tickets)

        self.record(undo, op)

    def continue_as(self, old: Operation, new: Operation) -> None:
        """`new` is the anchor that continues `old`: handles to `old` now denote `new`."""
        merged = tuple(dict.fromkeys([*old.origins, *(o for o in new.origins if self._is_shared(o, new))]))
        self.set_origins(new, merged, old.copy_path or new.copy_path)
        self.set_origins(old, ())
        self.set_schedule_location(new, old)

    def join(self, old: Operation, into: Operation) -> None:
        """`into` computes what `old` did: handles to either denote `into`."""
        self.set_origins(into, tuple(dict.fromkeys([*into.origins, *old.origins])))
        self.set_origins(old, ())

    def _is_shared(self, origin: int, op: Operation) -> bool:
        return any(holder is not op for holder in self.origins.get(origin, ()))

    def set_schedule_location(self, new: Operation, old: Operation) -> None:
        """Let `new` stand at the place in payload and schedule where `old` did, and continue its history."""
        before = (new.location, new.schedule_location, new.steps, new.notes)
        new.stand_for(old)

        def undo() -> None:
            new.location, new.schedule_location, new.steps, new.notes = before

        self.record(undo)

    def end(self, op: Operation, reason: str) -> None:
        """The computation `op` names is gone for good; using a handle to it will say `reason`."""
        for origin in op.origins:
            if origin not in self.ended:
                self.ended[origin] = reason
                self.record(lambda o=origin: self._forget_end(o))

    def note_inlined(self, call: Operation, split: int | None) -> None:
        """Handles narrowed to a call denote what it left in its function."""
        for origin in call.origins:
            held = self.inlined.get(origin, ())
            self.inlined[origin] = (*held, split)
            self.record(lambda o=origin, before=held: self._set_inlined(o, before))

    def note_call(self, origins: Iterable[int], call: Operation) -> None:
        """Handles of these origins are of what a call computes in a function that others share."""
        for origin in origins:
            if origin not in self.calls:
                self.calls[origin] = call.origins[0]
                self.record(lambda o=origin: self._forget_call(o))

    def _forget_call(self, origin: int) -> None:
        del self.calls[origin]

    def _set_inlined(self, origin: int, splits: tuple[int | None, ...]) -> None:
        self.inlined[origin] = splits

    def _forget_end(self, origin: int) -> None:
        del self.ended[origin]

    def new_split(self) -> int:
        """A number for a new split of copies (peel, unroll, versions)."""
        number = self._next_split
        self._next_split = number + 1

        def undo() -> None:
            self._next_split = number

        self.record(undo)
        return number

    def extend_copy_path(self, op: Operation, split: int, side: str) -> None:
        """Mark an operation and all inside it as one side of a split."""
        for inner in op.walk():
            self.set_origins(inner, inner.origins, (*inner.copy_path, (split, side)))
