"""Remarks on slow statements: each has a hint that was tried on the model, and the factor that following it gives."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tcpx.costs.visits import Statement
from tcpx.payload.diagnostics import Diagnostic, Direction, Kind
from tcpx.records import frozen
from tcpx.remarks import causes
from tcpx.remarks.causes import ENOUGH, LEAST_REPAIRED, MOST_FACTOR, MOST_SCHEDULED_AGAIN, MOST_TRIED, NEARLY, Cause
from tcpx.remarks.cuts import is_tried_in_part
from tcpx.remarks.directions import direction
from tcpx.remarks.finding import Finding
from tcpx.remarks.hints import Hint, listed
from tcpx.remarks.request import PayloadWork
from tcpx.remarks.written import Written

Trial = Callable[[Hint], float | None]
"""The cycles of the kernel once a hint is followed; None where the changed schedule or payload is refused."""


@frozen
class Repair:
    """What is said of a slow statement: a hint, and how many times as fast the kernel is once it is followed. `also`
    are other statements that it repairs."""

    found: Finding
    hint: Hint
    factor: float
    also: tuple[Finding, ...] = ()
    instead_of: tuple[Cause, ...] = ()
    """The causes of other remarks on the statement with a fix in the schedule: each is made instead of the others."""


@frozen
class Said:
    """A remark, and the statements that it is about."""

    remark: Diagnostic
    statements: frozenset[Statement]


def remarks_on(found: Sequence[Finding], payload: PayloadWork, written: Written, trial: Trial | None) -> list[Said]:
    """A remark for each slow statement of a lowered module; one for several that the same change repairs."""
    known = written.module
    is_large = known is not None and is_tried_in_part(known)
    operations = sum(1 for _ in known.walk()) if known is not None else 1
    most = MOST_TRIED if is_large else min(MOST_TRIED, MOST_SCHEDULED_AGAIN // max(operations, 1))
    is_known = known is not None and (written.given is None or not is_large)
    trials = _Trials(trial if is_known else None, most, is_large)
    repairs = {id(each): trials.repair(each, written, payload) for each in sorted(found, key=lambda each: -each.factor)}
    said = [repair for each in found if (repair := repairs[id(each)]) is not None]
    return [
        Said(_remark(each), frozenset(found.statement for found in (each.found, *each.also)))
        for each in _as_alternatives(_once(said))
    ]


@dataclass(slots=True)
class _Trials:
    """What the hints of a kernel give. Equal changes are tried once, and no more than some."""

    trial: Trial | None
    most: int
    in_part: bool
    """Whether only what changes the payload can be tried."""
    known: dict[object, float | None] = field(default_factory=dict[object, float | None])

    def repair(self, found: Finding, written: Written, payload: PayloadWork) -> Repair | None:
        """The smallest change that gives most of what the statement loses, or nearly as much as the best one; else the
        direction. None where nothing helps, though what the cause names was removed, or the payload did not ask for
        what the statement computes."""
        tried: list[tuple[float, Hint]] = []
        is_disproved = False
        lost = found.cycles * (1 - 1 / found.factor)
        hints = written.hints(found, payload)
        for hint in (hint for hint in hints if hint.fix):
            if self.trial is None or (self.in_part and hint.payload is None):
                notes = (*hint.notes, "whether this helps was not tried")
                return Repair(found, replace(hint, fix=Direction(hint.fix), notes=notes), found.factor)
            after = self._cycles(hint)
            is_disproved |= hint.is_removal and after is not None
            if after is not None and found.cycles - after >= LEAST_REPAIRED * lost:
                tried.append((after, hint))
                if found.cycles - after >= ENOUGH * lost:
                    break
        if not tried:
            is_said = not is_disproved and not found.is_derived
            text = direction(found, is_given=written.given is not None) if is_said else None
            return Repair(found, Hint(text), found.factor) if text is not None else None
        most = found.cycles - min(after for after, _ in tried)
        after, hint = next(each for each in tried if found.cycles - each[0] >= NEARLY * most)
        return Repair(found, hint, found.cycles / max(after, 1.0))

    def _cycles(self, hint: Hint) -> float | None:
        if hint.key not in self.known and self.trial is not None:
            self.known[hint.key] = self.trial(hint) if len(self.known) < self.most else None
        return self.known[hint.key]


def _once(repairs: Sequence[Repair]) -> list[Repair]:
    """Of those with one and the same text, or one direction for a place of the payload, the one whose statement loses
    most, with the names of the others."""
    groups: dict[object, list[Repair]] = {}
    for repair in repairs:
        is_text, found = not isinstance(repair.hint.fix, Direction), repair.found
        direction_key = (found.cause.name, found.place, repair.hint.fix) if found.place is not None else id(repair)
        groups.setdefault(repair.hint.key if is_text else direction_key, []).append(repair)
    chosen: dict[int, Repair] = {}
    for group in groups.values():
        first = max(group, key=lambda repair: repair.found.factor)
        chosen[id(first)] = replace(first, also=tuple(each.found for each in group if each is not first))
    return [chosen[id(repair)] for repair in repairs if id(repair) in chosen]


def _as_alternatives(repairs: Sequence[Repair]) -> list[Repair]:
    """With the causes of those whose fix is for the same statement."""
    fixed: dict[Statement, list[Cause]] = {}
    for repair in repairs:
        if repair.hint.schedule is not None and not isinstance(repair.hint.fix, Direction):
            fixed.setdefault(repair.found.statement, []).append(repair.found.cause)
    return [
        replace(each, instead_of=tuple(cause for cause in known if cause is not each.found.cause))
        if each.found.cause in (known := fixed.get(each.found.statement, []))
        else each
        for each in repairs
    ]


def _name(found: Finding) -> str:
    return found.statement.name or f"@{found.statement.function}"


def reason_of(note: Diagnostic) -> str:
    """What a step noted, as a reason of a remark: where, what, and what it takes of one that was refused."""
    where = f"{note.schedule}: " if note.schedule is not None else ""
    needed = f", which takes {note.required}" if note.cause == causes.FALLBACK.name and note.required else ""
    return f"{where}{note.message}{needed}"


def _remark(repair: Repair) -> Diagnostic:
    found, hint, cause = repair.found, repair.hint, repair.found.cause
    what, reasons = found.found, tuple[str, ...]()
    if found.refused is not None and cause is not causes.FALLBACK:
        what, reasons, cause = f"it {cause.means}: {what}", (reason_of(found.refused),), causes.FALLBACK
    factor = f"{repair.factor:.1f}" if repair.factor <= MOST_FACTOR else f"more than {MOST_FACTOR}"
    others = list(dict.fromkeys(f"`{_name(each)}` {each.cause.means}" for each in repair.also))
    also = (f"the same change repairs that {listed(others)}",) if others else ()
    instead = tuple(
        f"an alternative to the fix where it {other.means}: make one of them" for other in repair.instead_of
    )
    return Diagnostic(
        f"`{_name(found)}` {cause.means}: without that, the kernel would be {factor} times as fast",
        Kind.WARNING,
        schedule=hint.place,
        payload=hint.replaced_at or found.place,
        required=cause.required,
        found=what,
        notes=(*reasons, *hint.notes, *also, *instead),
        fix=hint.fix,
        cause=cause.name,
        factor=round(min(repair.factor, MOST_FACTOR), 3),
        statement=(found.statement.function, found.statement.name),
    )
