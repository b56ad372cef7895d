"""Finds the statements of a lowered kernel that are slow, and why, by the model of `tcpx.costs`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from tcpx.costs.dependence import Dependence
from tcpx.costs.statement_times import StatementTime, statement_times
from tcpx.costs.visits import Statement, runs
from tcpx.costs.work import Place, PlaceWork, account
from tcpx.payload.diagnostics import Diagnostic, Direction, Kind
from tcpx.payload.ir import Module
from tcpx.records import frozen
from tcpx.remarks import causes
from tcpx.remarks.causes import (
    LEAST_COPIED,
    LEAST_FACTOR,
    LEAST_GAIN,
    LEAST_SHARE,
    LEAST_TIME,
    MOST,
    MOST_FACTOR,
    Cause,
)
from tcpx.remarks.request import PayloadWork
from tcpx.target import Target

DOT: Final = "dot_"
FASTER: Final = 4
"""How many multiply-adds a dot product of bytes makes in the time of one."""


@frozen
class Finding:
    """A statement that is slow: the cause, the place of the payload, by what factor the kernel would be faster without,
    and what was found."""

    statement: Statement
    cause: Cause
    place: Place
    factor: float
    found: str


@frozen
class Candidate:
    """A cause, its place, how long the statement would take without it, and what was found."""

    cause: Cause
    place: Place
    after: float
    found: str


def findings(module: Module, payload: PayloadWork, target: Target, threads: int) -> list[Finding]:
    """The slow statements of a lowered module, in its order, each with the cause that costs most."""
    kernel = list(runs(module.main, payload.sizes, target))
    times = statement_times(kernel, target, threads, Dependence(module))
    work = account(payload.places.forwarded(payload.asked, kernel), kernel, payload.places.bodies)
    whole = sum(time.total for time in times.values())
    found: list[Finding] = []
    before: list[StatementTime] = []
    for statement, time in times.items():
        judged = _Judged(time, work.get(statement, {}), payload)
        for those in (judged.specific(), judged.passes(before), judged.general()):
            worst = _worst(those, time.total, whole)
            for each in worst:
                factor = whole / max(whole - time.total + each.after, 1e-9)
                found.append(Finding(statement, each.cause, each.place, factor, each.found))
            if worst:
                break
        before.append(time)
    return found


def _worst(candidates: Iterable[Candidate], total: float, whole: float) -> list[Candidate]:
    """The causes that cost most of those that are beyond their bounds, each once."""
    least = max(LEAST_SHARE * whole, LEAST_TIME)
    those = [
        each
        for each in candidates
        if total >= each.cause.least * each.after
        and total - each.after >= least
        and (whole >= LEAST_GAIN * (whole - total + each.after) or total >= LEAST_FACTOR * each.after)
    ]
    once = {each.cause.name: each for each in sorted(those, key=lambda candidate: -candidate.after)}
    return sorted(once.values(), key=lambda candidate: candidate.after)[:MOST]


class _Judged:
    """A statement, and the causes that may make it slow."""

    def __init__(self, time: StatementTime, work: Mapping[Place, PlaceWork], payload: PayloadWork) -> None:
        self.time, self.work, self.payload = time, work, payload
        self.issued = sum(each.issued for each in work.values())

    def specific(self) -> Iterator[Candidate]:
        """What is known to be spared."""
        yield from self._padding()
        yield from self._recomputation()
        yield from self._constant_work()
        yield from self._single_elements()
        yield from self._dot_products()
        yield from self._lost(causes.WAITS, "waits")
        yield from self._lost(causes.DIVISIONS, "divisions")

    def passes(self, before: Sequence[StatementTime]) -> Iterator[Candidate]:
        """What earlier statements wrote and this one waits for: without, neither writes or reads it."""
        time = self.time
        touched = max(1, time.sites.footprint())
        for buffer, size in time.read_bytes().items():
            if time.memory > time.compute and any(buffer in earlier.stored for earlier in before):
                after = max(time.compute, time.total - 2 * size / touched * time.memory)
                yield Candidate(causes.PASSES, self._place(), after, f"{size:,} bytes of %{buffer.name}")

    def general(self) -> Iterator[Candidate]:
        """What the machine could do at most with the same operations."""
        time, excess = self.time, sum(each.excess for each in self.work.values() if each.asked)
        asked = 1 - excess / self.issued if self.issued else 1.0
        least = max(time.arithmetic * asked, time.least_accesses, time.least_memory, time.gathers)
        text = f"{time.total / max(least, 1e-9):.1f} times the least that the machine needs"
        if time.memory > time.compute:
            yield Candidate(causes.TRAFFIC, self._place(), max(least, time.near), text)
        else:
            yield Candidate(causes.BELOW_LIMIT, self._place(), least, text)

    def _place(self) -> Place:
        place = max(self.work, key=lambda place: self.work[place].issued, default=None)
        return place or next((place for places in self.time.places.values() for place in places if place), None)

    def _padding(self) -> Iterator[Candidate]:
        """What is issued beyond what is asked for, and not computed twice."""
        in_order = self.payload.in_order
        excess = {
            place: work.excess
            for place, work in self.work.items()
            if work.asked and not work.is_recomputed and place not in in_order and work.excess
        }
        busy = self.time.compute - self.time.waits
        spared = busy * sum(excess.values()) / self.issued if excess else 0.0
        place = max(excess, key=lambda place: excess[place], default=None)
        if self.time.filler > spared:
            place, spared = _largest(self.time.places["filler"]), self.time.filler
        if spared:
            yield self._without(causes.PADDING, place, spared, self._operations(place))

    def _operations(self, place: Place) -> str:
        work = self.work.get(place, PlaceWork())
        return f"{work.issued:,.0f} operations where {work.asked.total():,.0f} are asked for"

    def _recomputation(self) -> Iterator[Candidate]:
        excess = {p: w.excess for p, w in self.work.items() if w.asked and w.is_recomputed and w.excess}
        if excess:
            place = max(excess, key=lambda place: excess[place])
            spared = (self.time.compute - self.time.waits) * sum(excess.values()) / self.issued
            yield self._without(causes.RECOMPUTATION, place, spared, self._operations(place))
        for place, times in self.payload.copies.items():
            if place in self.work:
                spared = self.time.compute * self.work[place].issued / self.issued * (1 - 1 / times)
                text = f"operands that are broadcast: each element is computed {times:,.0f} times"
                yield self._without(causes.RECOMPUTATION, place, spared, text)
        yield from self._lost(causes.RECOMPUTATION, "repeated")

    def _without(self, cause: Cause, place: Place, spared: float, found: str) -> Candidate:
        """A cause without which so much of the instructions would be spared; of recomputation, as much of the accesses,
        too: padding stays in registers, or in cache lines that are read anyway."""
        time = self.time
        part = spared / time.compute if time.compute and cause is causes.RECOMPUTATION else 0.0
        return Candidate(cause, place, max(time.compute - spared, time.memory * (1 - part)), found)

    def _constant_work(self) -> Iterator[Candidate]:
        constant = self.time.places.get("constant", {})
        if constant:
            part = min(1.0, sum(constant.values()) / self.time.compute)
            place = max(constant, key=lambda place: constant[place])
            text = f"{part:.0%} of the time of the statement"
            yield Candidate(causes.CONSTANT_WORK, place, self.time.total * (1 - part), text)

    def _single_elements(self) -> Iterator[Candidate]:
        time = self.time
        if time.copies and time.copied_bytes > LEAST_COPIED:
            place = _largest(time.places["copies"])
            is_all = not time.arithmetic
            after = time.least_memory / 2 if is_all else max(time.compute - time.copies, time.memory)
            yield Candidate(causes.ELEMENT_COPY, place, after, f"{time.copied_bytes:,.0f} bytes")
        if time.scalar:
            memory = time.least_memory if 2 * time.scalar > time.compute else time.memory
            text = f"{time.scalar / time.compute:.0%} of the time of its instructions"
            after = max(time.compute - time.scalar, memory)
            yield Candidate(causes.SCALAR, _largest(time.places["scalar"]), after, text)

    def _dot_products(self) -> Iterator[Candidate]:
        for place, each in self.work.items():
            is_dot = place in self.payload.dots or any(peak.startswith(DOT) for peak in each.asked)
            if is_dot and not any(peak.startswith(DOT) for peak in each.peaks):
                part = each.issued / self.issued * (1 - 1 / FASTER)
                text = f"multiply-adds of {', '.join(sorted(each.peaks))}"
                yield Candidate(causes.DOT_PRODUCT, place, self.time.total * (1 - part), text)

    def _lost(self, cause: Cause, what: str) -> Iterator[Candidate]:
        spared = getattr(self.time, what)
        if spared:
            text = f"{spared / self.time.compute:.0%} of the time of its instructions"
            yield Candidate(cause, _largest(self.time.places[what]), self.time.without(spared), text)


def _largest(places: Mapping[Place, float]) -> Place:
    return max(places, key=lambda place: places[place])


def remarks_on(module: Module, payload: PayloadWork, target: Target, threads: int) -> list[Diagnostic]:
    """A remark for each slow statement of a lowered module."""
    return [_remark(found) for found in findings(module, payload, target, threads)]


def _remark(found: Finding) -> Diagnostic:
    cause = found.cause
    name = found.statement.name or f"@{found.statement.function}"
    factor = f"{found.factor:.1f}" if found.factor <= MOST_FACTOR else f"more than {MOST_FACTOR}"
    return Diagnostic(
        f"`{name}` {cause.means}: without that, the kernel would be {factor} times as fast",
        Kind.WARNING,
        payload=found.place,
        required=cause.required,
        found=found.found,
        fix=Direction(cause.fix),
        cause=cause.name,
        factor=round(found.factor, 3),
    )
