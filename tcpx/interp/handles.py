"""From handles to operations: live copies in program order, within the branches the schedule is in; pairing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tcpx.interp.scopes import Scopes, scope_text
from tcpx.interp.values import OpHandle, Side
from tcpx.payload.diagnostics import Diagnostic, Direction, Kind, Location, ScheduleError
from tcpx.payload.ir import CopyPath, FuncOp, Operation, is_in
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.sizes.context import EMPTY, Context
from tcpx.payload.traits.call import Calling
from tcpx.records import frozen


@frozen
class BranchFilter:
    """Inside a branch of `specialize`: region `region` of the operations that continue these origins."""

    origins: frozenset[int]
    region: int
    facts: Context
    """What holds there, whatever the loops do."""
    since: int
    """The origins that steps in it make begin here."""

    def holds(self, op: Operation) -> bool:
        inner: Operation = op
        for outer in op.ancestors():
            if not self.origins.isdisjoint(outer.origins):
                return outer.regions[self.region] is inner.parent
            inner = outer
        return False


@dataclass(slots=True)
class Handles:
    """Resolves handles of one run; `branches` are the filters of the enclosing `specialize` branches."""

    rewriter: Rewriter
    branches: list[BranchFilter] = field(default_factory=list[BranchFilter])
    ended_by: dict[int, Location] = field(default_factory=dict[int, Location])
    _watched: set[int] = field(default_factory=set[int])

    @property
    def facts(self) -> Context:
        """What the branches the schedule is in say about sizes."""
        return self.branches[-1].facts if self.branches else EMPTY

    def of(self, *ops: Operation, label: str = "", inside: tuple[OpHandle, ...] = ()) -> OpHandle:
        """A handle to these operations and all other copies of them, or those inside these scopes."""
        origins = ops[0].origins if len(ops) == 1 else tuple(dict.fromkeys(o for op in ops for o in op.origins))
        self._watched.update(origins)
        return OpHandle(origins, label or (ops[0].name or ops[0].opcode if ops else "nothing"), inside=inside)

    def calls(self, handle: OpHandle) -> list[Operation]:
        """The calls that a handle is of alone: what it denotes is in a function that `share` made, and other calls
        run that too."""
        known, live = self.rewriter.calls, self.rewriter.origins
        if not known:
            return []
        shared = set(known.values())
        origins = [o for scope in handle.inside for o in scope.origins if o in shared]
        if not origins and known.keys() >= set(handle.origins):
            origins = [known[o] for o in handle.origins]
        calls = dict.fromkeys(call for o in origins for call in live.get(o, ()) if Calling(call).callee is not None)
        funcs = {op.func for op in self.live(handle)} if calls else set[FuncOp | None]()
        ours = {call: callee for call in calls if (callee := Calling(call).callee) in funcs and callee is not None}
        callers = [other for callee in ours.values() for other in callee.callers()]
        return [*ours] if any(other not in calls for other in callers) else []

    def sizes_of_calls(self, func: FuncOp) -> list[Mapping[str, int]]:
        """What the symbols of a function that `share` made are in each of its calls; empty where one does not know."""
        shared, calls = set(self.rewriter.calls.values()), func.callers()
        if not func.symbols or any(shared.isdisjoint(call.origins) for call in calls):
            return []
        found = [{symbol.name: size for symbol, size in Calling(call).binding.items()} for call in calls]
        numbers = [{name: n for name, n in sizes.items() if isinstance(n, int)} for sizes in found]
        return [*numbers] if numbers == found else []

    def in_calls(self, handle: OpHandle) -> OpHandle:
        """A handle narrowed to the calls that it is of alone: so is what it leads to."""
        calls = self.calls(handle)
        return replace(handle, inside=(*handle.inside, self.of(*calls))) if calls and not handle.inside else handle

    def of_copy(self, op: Operation) -> OpHandle:
        """A handle to this copy of an operation, and to those that are made of it."""
        sides = tuple(Side(side, frozenset({split})) for split, side in op.copy_path)
        return replace(self.of(op), sides=sides)

    def live(self, handle: OpHandle) -> list[Operation]:
        """The operations a handle denotes, in program order; none if it has ended."""
        ops = [op for origin in handle.origins for op in self.rewriter.origins.get(origin, ())]
        if len(handle.origins) > 1:  # one of many calls has the origins of all
            ops = list(dict.fromkeys(ops))
        if handle.sides or handle.inside or self.branches:
            scopes = Scopes(self.rewriter)
            ops = [op for op in ops if self._selected(op, handle, scopes)]
        return ops if len(ops) < 2 else sorted(ops, key=program_position)

    def _selected(self, op: Operation, handle: OpHandle, scopes: Scopes) -> bool:
        if handle.sides and not all(side.has(op.copy_path) for side in handle.sides):
            return False
        if handle.inside and not scopes.hold(op, handle.inside):
            return False
        return not self.branches or self.in_branch(op) or self._is_around(op) or self._is_made_in_branch(handle)

    def in_branch(self, op: Operation) -> bool:
        """Whether an operation is inside the `specialize` branches the schedule is in; a function always is."""
        return isinstance(op, FuncOp) or all(branch.holds(op) for branch in self.branches)

    def _is_around(self, op: Operation) -> bool:
        """Whether an operation is what a branch that the schedule is in belongs to: what `parent(x)` finds there."""
        return any(not branch.origins.isdisjoint(op.origins) for branch in self.branches)

    def _is_made_in_branch(self, handle: OpHandle) -> bool:
        """Whether all a handle denotes was made in the branch, such as a buffer filled before the loops round it."""
        return min(handle.origins, default=-1) >= self.branches[-1].since

    def resolve(self, handle: OpHandle, where: Location) -> list[Operation]:
        """The operations a handle denotes; an error that says what ended it if there are none."""
        found = self.live(handle)
        if found:
            return found
        everywhere = [op for origin in handle.origins for op in self.rewriter.origins.get(origin, [])]
        if everywhere:
            raise self._elsewhere(handle, everywhere, where)
        raise self._ended(handle, where)

    def _elsewhere(self, handle: OpHandle, copies: Sequence[Operation], where: Location) -> ScheduleError:
        """The error for a handle all of whose copies are outside the place that is meant."""
        if self.branches and not any(map(self.in_branch, copies)):
            required, found = "a copy inside this branch of `specialize`", "copies outside it alone"
            fix = "take this step outside the `specialize`"
        else:
            sides, scopes = (side.name for side in handle.sides), (f"inside {scope_text(s)}" for s in handle.inside)
            required = f"a copy {' and '.join([*sides, *scopes])}"
            found = f"copies {', '.join(sorted({path_text(op.copy_path) for op in copies}))}"
            fix = None
        return ScheduleError(
            Diagnostic(
                f"no copy of %{handle.label} is selected here",
                Kind.SILENCEABLE,
                schedule=where,
                payload=copies[0].location,
                required=required,
                found=found,
                fix=fix,
            )
        )

    def _ended(self, handle: OpHandle, where: Location) -> ScheduleError:
        reasons = [self.rewriter.ended[o] for o in handle.origins if o in self.rewriter.ended]
        ends = [self.ended_by[o] for o in handle.origins if o in self.ended_by]
        place = f"at {ends[-1]}" if ends else ""
        why = reasons[-1] if reasons else "it was erased" if handle.origins else "what gives it was left out"
        found = ", ".join(part for part in (why, place) if part)
        return ScheduleError(
            Diagnostic(
                f"%{handle.label} is gone",
                Kind.SILENCEABLE,
                schedule=where,
                required="a computation that is still there",
                found=found,
                notes=(f"ended by: {ends[-1].text.strip()}",) if ends and ends[-1].text else (),
            )
        )

    def note_ends(self, where: Location) -> None:
        """Remember which statement ended the handles that have just lost their last operation."""
        for origin in self.rewriter.unsettled:
            if origin in self._watched and origin not in self.ended_by and not self.rewriter.origins[origin]:
                self.ended_by[origin] = where
        self.rewriter.unsettled.clear()

    def forget_ends(self) -> None:
        """After a rollback: handles whose operations are back have not ended."""
        unsettled = self.rewriter.unsettled
        for origin in [o for o in unsettled if self.rewriter.origins[o] or o not in self._watched]:
            self.ended_by.pop(origin, None)
            del unsettled[origin]

    def same(self, lhs: OpHandle, rhs: OpHandle) -> bool:
        """Whether two handles denote the same operations (merged ones are the same)."""
        here, there = self.live(lhs), self.live(rhs)
        if not here and not there:
            return lhs.origins == rhs.origins
        return {id(op) for op in here} == {id(op) for op in there}


def program_position(op: Operation) -> tuple[int, ...]:
    """A sort key: where an operation stands in its function, outermost block first; functions come in their order.

    Of operations of one block, the numbers that it keeps rise as their places do.
    """
    path: list[int] = []
    at: Operation | None = op
    while at is not None and at.parent is not None:
        path.append(at.order)
        outer = at.parent.parent
        if outer is not None and len(outer.regions) > 1:
            path.append(next(k for k, block in enumerate(outer.regions) if block is at.parent))
        at = outer
    if isinstance(at, FuncOp) and at.module is not None and len(at.module.funcs) > 1:
        path.append(list(at.module.funcs).index(at.name))
    return tuple(reversed(path))


def path_text(path: CopyPath) -> str:
    """`main`, `main/3`; `original` for no split."""
    return "/".join(side for _, side in path) or "original"


def agree(lhs: CopyPath, rhs: CopyPath) -> bool:
    """Whether two copy paths are on the same side of every split they share."""
    sides = dict(lhs)
    return all(sides.get(split, side) == side for split, side in rhs)


def partner(op: Operation, others: Sequence[Operation], label: str, where: Location) -> Operation:
    """The copy among `others` that goes with `op`: the only one on the same sides of all common splits."""
    fitting = [other for other in others if agree(op.copy_path, other.copy_path)]
    if len(fitting) > 1:
        nested = [other for other in fitting if is_in(other, op) or is_in(op, other)]
        fitting = nested or fitting
    if len(fitting) > 1:
        longest = max(_shared(op.copy_path, other.copy_path) for other in fitting)
        fitting = [other for other in fitting if _shared(op.copy_path, other.copy_path) == longest]
    if len(fitting) == 1:
        return fitting[0]
    shown = fitting or others
    raise ScheduleError(
        Diagnostic(
            f"it is not clear which copy of %{label} goes with %{op.name}",
            Kind.SILENCEABLE,
            schedule=where,
            payload=op.location,
            required=f"one copy that agrees with {path_text(op.copy_path)}",
            found=", ".join(f"%{other.name} ({path_text(other.copy_path)})" for other in shown),
            fix=Direction(
                'take this step before the one that made the copies, or choose with `x.copy("main")` or `x in L`'
            ),
        )
    )


def _shared(lhs: CopyPath, rhs: CopyPath) -> int:
    return len(set(lhs) & set(rhs))
