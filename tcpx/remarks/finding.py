"""Finds the statements of a lowered kernel that are slow, and why, by the model of `tcpx.costs`."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from typing import Final

from tcpx.costs.dependence import Dependence
from tcpx.costs.footprint import WRITTEN, held
from tcpx.costs.loop_cycles import crowded
from tcpx.costs.losses import Losses, is_read_again, is_revisited, losses_of
from tcpx.costs.statement_times import StatementTime, statement_times
from tcpx.costs.visits import Run, Statement, runs
from tcpx.costs.work import Account, Place, PlaceWork
from tcpx.payload.diagnostics import Diagnostic
from tcpx.payload.evaluator import bind_strides
from tcpx.payload.ir import Module, written_at
from tcpx.records import frozen
from tcpx.remarks import causes
from tcpx.remarks.candidates import Candidate, lost_by, lost_together, worst_of
from tcpx.remarks.causes import (
    LEAST_COPIED,
    LEAST_NOTED,
    LEAST_SHARE,
    LEAST_TIME,
    Cause,
)
from tcpx.remarks.request import PayloadWork
from tcpx.target import Target
from tcpx.target.cores import core_named

DOT: Final = "dot_"
_BYTE: Final = 8
_ALL: Final = 0.95
"""The part of a statement that is all of it."""
_LITTLE: Final = 0.1
"""The part of what a place asks for that a statement issues which computes something else for it."""


@frozen
class Finding:
    """A statement that is slow: the cause, the place of the payload, by what factor the kernel would be faster without,
    what was found, what the statement and the kernel run, and how many cycles the kernel takes. `is_derived` says that
    another statement computes what the place asks for, and this one what that needs. `refused` says why the schedule
    did not take what it tries first."""

    statement: Statement
    cause: Cause
    place: Place
    factor: float
    found: str
    runs: Sequence[Run]
    kernel: Sequence[Run]
    cycles: float
    is_derived: bool = False
    refused: Diagnostic | None = None


class Model:
    """The statements of a lowered module, how long each takes, and what makes it slow."""

    def __init__(self, module: Module, payload: PayloadWork, target: Target, threads: int) -> None:
        self.kernel, self._times = _modelled(module, payload.sizes, target, threads)
        self.whole = sum(time.total for time in self._times.values())
        self._module, self._payload, self._target, self._threads = module, payload, target, threads
        self._known: dict[Statement, _Judged] = {}
        self._losses: dict[int, Losses] = {}

    @cached_property
    def _work(self) -> Account:
        return self._payload.places.account(self._payload.asked, self.kernel)

    @cached_property
    def _dots(self) -> frozenset[Place]:
        """The places that a statement computes in dot products."""
        works = ((place, each) for work in self._work.values() for place, each in work.items())
        return frozenset(place for place, each in works if any(peak.startswith(DOT) for peak in each.peaks))

    @cached_property
    def _origins(self) -> Dependence:
        return Dependence(self._module)

    def _losses_of(self, time: StatementTime) -> Losses:
        if id(time) not in self._losses:
            self._losses[id(time)] = losses_of(time, self._origins)
        return self._losses[id(time)]

    def _judged(self, statement: Statement) -> _Judged:
        """A statement with its losses, which are found only where they are asked for."""
        if statement not in self._known:
            before = list(takewhile(lambda each: each is not self._times[statement], self._times.values()))
            time, work = self._times[statement], self._work.get(statement, {})
            of = self._losses_of
            payload = self._payload
            self._known[statement] = _Judged(time, of, work, payload, self._target, self._threads, before, self._dots)
        return self._known[statement]

    def findings(self) -> list[Finding]:
        """The slow statements, in their order, each with the cause that costs most."""
        found: list[Finding] = []
        least = max(LEAST_SHARE * self.whole, LEAST_TIME)
        slow = {key: time.total for key, time in self._times.items() if time.total >= least}
        specific = {statement: list(self._judged(statement).specific()) for statement in slow}
        together = lost_together(specific, slow)
        for statement, total in slow.items():
            judged = self._judged(statement)
            for those in (specific[statement], judged.passes(), judged.general()):
                worst = worst_of(those, total, self.whole, together)
                for each in worst:
                    lost = lost_by(each, total, self.whole, together)
                    found.append(self._finding(statement, each, self.whole / max(self.whole - lost, 1e-9)))
                if worst:
                    break
        return found

    @cached_property
    def _statements(self) -> Mapping[Place, Sequence[Statement]]:
        """The statements that compute something for each place; what is in a body counts for its owner, too."""
        owners = self._payload.places.bodies
        found: dict[Place, dict[Statement, None]] = {}
        for run in self.kernel:
            for place in {written_at(op) for op in run.ops}:
                for each in {place, owners.get(place)}:
                    found.setdefault(each, {})[run.statement] = None
        return {place: list(those) for place, those in found.items()}

    def statements_at(self, place: Place) -> Sequence[Statement]:
        """The statements that compute something for a place of the payload."""
        return self._statements.get(place, ()) if place is not None else ()

    def statements_of(self, steps: Container[int]) -> Sequence[Statement]:
        """The statements that these steps of the schedule made or changed."""
        found: dict[Statement, None] = {}
        for run in self.kernel:
            ops = (*run.ops, *(trip.loop for trip in run.trips))
            if any(step in steps for op in ops for step in op.steps):
                found[run.statement] = None
        return list(found)

    def lost(self, statement: Statement, cause: Cause, place: Place) -> Finding | None:
        """What a statement loses by a cause at a place, which somebody noted; None if that is next to nothing."""
        judged = self._judged(statement)
        after, found = judged.without(cause, place)
        total = judged.time.total
        if total - after < max(LEAST_NOTED * self.whole, LEAST_TIME) or total < cause.least * after:
            return None
        factor = self.whole / max(self.whole - total + after, 1e-9)
        return self._finding(statement, Candidate(cause, place, after, found), factor)

    def _finding(self, statement: Statement, each: Candidate, factor: float) -> Finding:
        own = [run for run in self.kernel if run.statement == statement]
        works = [work.get(each.place, PlaceWork()) for work in self._work.values()]
        issued = self._work.get(statement, {}).get(each.place, PlaceWork()).issued
        is_derived = 0 < issued < _LITTLE * sum(work.asked.total() for work in works)
        return Finding(statement, each.cause, each.place, factor, each.found, own, self.kernel, self.whole, is_derived)


def kernel_cycles(module: Module, sizes: Mapping[str, int], target: Target, threads: int) -> float:
    """The cycles of a call of a lowered module at these sizes."""
    return sum(time.total for time in _modelled(module, sizes, target, threads)[1].values())


def _modelled(
    module: Module, sizes: Mapping[str, int], target: Target, threads: int
) -> tuple[list[Run], dict[Statement, StatementTime]]:
    known = dict(sizes)
    bind_strides(module.main, known)
    kernel = list(runs(module.main, known, target))
    return kernel, statement_times(kernel, target, threads)


class _Judged:
    """A statement, and the causes that may make it slow."""

    def __init__(
        self,
        time: StatementTime,
        losses: Callable[[StatementTime], Losses],
        work: Mapping[Place, PlaceWork],
        payload: PayloadWork,
        target: Target,
        threads: int,
        before: Sequence[StatementTime],
        dots: frozenset[Place],
    ) -> None:
        self.time, self.work, self.payload, self.target, self.threads = time, work, payload, target, threads
        self.losses_of, self.losses, self.before, self.dots = losses, losses(time), before, dots
        self.issued = sum(each.issued for each in work.values())

    def specific(self) -> Iterator[Candidate]:
        """What is known to be spared."""
        yield from self.padding()
        yield from self._unread()
        yield from self._recomputation()
        yield from self._constant_work()
        yield from self._single_elements()
        yield from self._dot_products()
        yield from self._lost(causes.COMBINES, "combined")
        yield from self._lost(causes.WAITS, "waits")
        yield from self._lost(causes.SPILLS, "spills")
        yield from self._lost(causes.DIVISIONS, "divisions")
        yield from self._read_again()

    def without(self, cause: Cause, place: Place) -> tuple[float, str]:
        """The time without padding, without what single elements of a place lose, or, for any other cause, at the limit
        of the machine; and what was found."""
        time = self.time
        if cause is causes.PADDING:
            least = min(self.padding(), key=lambda each: each.after, default=None)
            return (least.after, least.found) if least is not None else (time.total, "")
        if cause is causes.SCALAR:
            lost = sum(
                self.losses.places.get(what, {}).get(place, 0.0) for what in ("scalar", "copies", "combined", "waits")
            )
            return time.without(lost), _part(lost / time.compute) if lost else ""
        (at_best,) = self.general()
        return at_best.after, at_best.found

    def passes(self) -> Iterator[Candidate]:
        """What earlier statements wrote and this one waits for: without, neither writes or reads it."""
        time = self.time
        touched, reads = max(1, time.sites.footprint()), time.read_bytes()
        for buffer, size in reads.items() if time.memory > time.compute else ():
            writer = next((earlier for earlier in reversed(self.before) if buffer in earlier.stored), None)
            if writer is None or size <= held(self.target.l1):
                continue
            both = sum(bytes_ for other, bytes_ in reads.items() if other in writer.loaded and other is not buffer)
            spared = (size + WRITTEN * size + both) / touched * time.least_memory
            fused = max(writer.compute + time.compute, writer.memory + time.memory - spared)
            after = max(0.0, fused - writer.total, time.total - spared)  # what overlaps then is no gain of its own
            yield Candidate(causes.PASSES, self._place(), after, f"{size:,} bytes of %{buffer.name}")

    def _read_again(self) -> Iterator[Candidate]:
        time = self.time
        if time.again >= time.memory > time.compute:
            lines = f"{time.again * self.threads / core_named(self.target.core).line:,.0f} lines of short rows"
            yield Candidate(causes.READ_AGAIN, self._place(), max(time.compute, time.least_memory, time.near), lines)

        if time.near >= time.memory > time.compute and is_read_again(time, self.target.l1):
            after = max(self.losses.arithmetic, time.least_memory, time.least_accesses)
            text = f"{time.sites.traffic(held(self.target.l1)):,.0f} bytes from beyond the first cache"
            yield Candidate(causes.REREAD, self._place(), after, text)

        if time.in_turn > max(time.memory, time.compute):
            core = core_named(self.target.core)
            lines = f"{time.in_turn * self.threads / core.set:,.0f} lines after one in their set"
            yield Candidate(causes.CONFLICTS, self._place(), max(time.compute, time.memory), lines)

    def general(self) -> Iterator[Candidate]:
        """What the machine could do at most with the same operations."""
        time, excess = self.time, sum(each.excess for each in self.work.values() if each.asked)
        asked = 1 - excess / self.issued if self.issued else 1.0
        crowding = core_named(self.target.core).crowding
        busy = crowded((self.losses.arithmetic * asked, time.least_accesses), crowding)
        least = max(busy, time.least_memory, self.losses.gathers)
        text = f"{time.total / max(least, 1e-9):.1f} times the least that the machine needs"
        if time.memory > time.compute:
            near = 0.0 if is_revisited(time, self.losses, self.target.l1) else time.near
            yield Candidate(causes.TRAFFIC, self._place(), max(least, near), text)
        elif (padded := self._most_padded()) is not None:
            yield Candidate(causes.PADDING, padded, least, self._operations(padded))
        else:
            yield Candidate(causes.BELOW_LIMIT, self._place(), least, text)

    def _place(self) -> Place:
        place = max(self.work, key=lambda place: self.work[place].issued, default=None)
        return place or next((place for places in self.losses.places.values() for place in places if place), None)

    def padding(self) -> Iterator[Candidate]:
        """What is issued beyond what is asked for, and not computed twice."""
        in_order, excess = self.payload.in_order, self._padded()
        time, losses = self.time, self.losses
        busy = time.compute - losses.waits
        left = min(1.0, (1 - sum(excess.values()) / self.issued) / losses.fill) if excess else 1.0
        spared = min(busy, time.compute - time.compute_of(left, 1 - losses.empty if losses.lanes else left))
        place = max(excess, key=lambda place: excess[place], default=None)
        if in_order.intersection(self.work) and busy * losses.empty > spared:
            place, spared = next(place for place in self.work if place in in_order), busy * losses.empty
        if losses.filler > spared:
            place, spared = _largest(losses.places["filler"]), losses.filler
        unread = time.unread_bytes() if time.memory > time.compute else 0
        if unread:
            after = time.without(spared, WRITTEN * unread / time.sites.once())
            yield Candidate(causes.PADDING, place or self._place(), after, f"{unread:,} bytes that nothing reads")
        elif spared:
            yield self._without(causes.PADDING, place, spared, self._operations(place))

    def _padded(self) -> dict[Place, int]:
        """How many of the operations for each place are padding."""
        others = self.payload.in_order | self.payload.unread
        works = {p: w for p, w in self.work.items() if not w.is_recomputed and p not in others}
        return {p: w.excess for p, w in works.items() if w.excess >= (causes.PADDING.least - 1) * w.asked.total() > 0}

    def _most_padded(self) -> Place:
        """The place for which most of what the statement issues is padding, in vectors that it needs in any case; None
        where that is less than half."""
        excess = self._padded()
        is_most = excess and 2 * sum(excess.values()) > self.issued
        return max(excess, key=lambda place: excess[place]) if is_most else None

    def _operations(self, place: Place) -> str:
        work = self.work.get(place, PlaceWork())
        return f"{work.issued:,.0f} operations where {work.asked.total():,.0f} are asked for"

    def _unread(self) -> Iterator[Candidate]:
        """What is issued for elements that no result needs."""
        excess = {p: w.excess for p, w in self.work.items() if p in self.payload.unread and w.excess}
        if excess:
            place = max(excess, key=lambda place: excess[place])
            spared = self._spared({place: 1 - each / self.work[place].issued for place, each in excess.items()})
            moved = sum(excess.values()) / self.issued
            yield Candidate(causes.UNREAD, place, self.time.without(spared, moved), self._operations(place))

    def _recomputation(self) -> Iterator[Candidate]:
        excess = {p: w.excess for p, w in self.work.items() if w.asked and w.is_recomputed and w.excess}
        if excess:
            place = max(excess, key=lambda place: excess[place])
            spared = self._spared({place: 1 - each / self.work[place].issued for place, each in excess.items()})
            yield self._without(causes.RECOMPUTATION, place, spared, self._operations(place))
        for place, times in self.payload.copies.items():
            if place in self.work:
                spared = self._spared({place: 1 / times})
                text = f"operands that are broadcast: each element is computed {times:,.0f} times"
                yield self._without(causes.RECOMPUTATION, place, spared, text)
        if self.losses.repeated:
            time, left = self.time, 1 - self.losses.repeated / self.time.compute
            place = _largest(self.losses.places["repeated"])
            after = max(time.compute * left, time.least_memory, time.memory * left)
            if all(each.place != place or each.after > after for each in self.padding()):  # else it is what that adds
                yield Candidate(causes.RECOMPUTATION, place, after, _part(1 - left))

    def _spared(self, parts: Mapping[Place, float]) -> float:
        """The cycles that are spared if so much is done for these places."""
        bodies = self.payload.places.bodies
        inside = {place: parts[owner] for place, owner in bodies.items() if owner in parts}
        return self.time.compute - self.time.compute_with({**parts, **inside})

    def _without(self, cause: Cause, place: Place, spared: float, found: str) -> Candidate:
        """A cause without which so many cycles of instructions would be spared."""
        return Candidate(cause, place, self.time.without(spared), found)

    def _constant_work(self) -> Iterator[Candidate]:
        constant = self.losses.places.get("constant", {})
        if constant and self.time.compute:
            part = min(1.0, self.losses.constant / self.time.compute)
            place = max(constant, key=lambda place: constant[place])
            text = f"{part:.0%} of the time of the statement"
            touched = max(1, self.time.sites.footprint())
            read = self.time.least_memory * (1 + self.losses.constant_bytes / touched)
            least = read if self.losses.constant_bytes else 0.0
            after = max(self.time.total * (1 - part), least) - self._feeding()
            yield Candidate(causes.CONSTANT_WORK, place, after, text)

    def _feeding(self) -> float:
        """The cycles of earlier statements that do nothing but compute what the constant work of this one reads."""
        needed, found = set(self.time.loaded), 0.0
        for earlier in reversed(self.before):
            if needed & earlier.stored and self.losses_of(earlier).constant >= _ALL * earlier.compute:
                found += earlier.total
                needed |= earlier.loaded
        return found

    def _single_elements(self) -> Iterator[Candidate]:
        time, losses = self.time, self.losses
        if losses.copies and losses.copied_bytes > LEAST_COPIED:
            place = _largest(losses.places["copies"])
            is_all = not losses.arithmetic
            after = max(time.compute - losses.copies, time.least_memory if is_all else time.memory)
            yield Candidate(causes.ELEMENT_COPY, place, after, f"{losses.copied_bytes:,.0f} bytes")
        if losses.scalar >= LEAST_NOTED * time.total:
            memory = time.least_memory if 2 * losses.scalar > time.compute else time.memory
            after = max(time.compute - losses.scalar, memory)
            place, text = _largest(losses.places["scalar"]), _part(losses.scalar / time.compute)
            yield Candidate(causes.SCALAR, place, after, text)

    def _dot_products(self) -> Iterator[Candidate]:
        for place, each in self.work.items():
            is_dot = place in self.payload.dots or any(peak.startswith(DOT) for peak in each.asked)
            if is_dot and place not in self.dots:
                part = each.issued / self.issued
                text = f"multiply-adds of {', '.join(sorted(each.peaks))}"
                narrow = max(self.time.least_memory, self.time.memory * _BYTE / self.losses.widest)
                after = max(self.time.compute * (1 - part) + self._dot_cycles(place, each), narrow)
                yield Candidate(causes.DOT_PRODUCT, place, after, text)

    def _dot_cycles(self, place: Place, work: PlaceWork) -> float:
        """The cycles of what a place asks for in dot products that stand in rows of vectors."""
        (use,) = core_named(self.target.core).cost("dot", self.target.vector_bits).uses
        asked = [self.target.lanes(peak.rpartition("_")[2]) for peak in work.asked if peak.startswith(DOT)]
        products = max([self.payload.dots.get(place, 0), *asked])
        return work.asked.total() / 2 / products * use.cycles / len(use.ports) / self.threads

    def _lost(self, cause: Cause, what: str) -> Iterator[Candidate]:
        spared = getattr(self.losses, what)
        if spared:
            text = _part(spared / self.time.compute)
            yield Candidate(cause, _largest(self.losses.places[what]), self.time.without(spared), text)


def _part(part: float) -> str:
    return f"{part:.0%} of the time of its instructions"


def _largest(places: Mapping[Place, float]) -> Place:
    return max(places, key=lambda place: places[place])
