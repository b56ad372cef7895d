"""What steps of a schedule and of the lowering noted about slow code, judged by the model.

A note is a reason for a modelled remark on the same nest, or a remark of its own with a factor; of fast code there is
none."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from tcpx.payload.diagnostics import Diagnostic, Direction
from tcpx.remarks import causes
from tcpx.remarks.causes import LEAST_FALLBACK, LEAST_NOTED, LEAST_TIME, MOST_FACTOR
from tcpx.remarks.finding import Model
from tcpx.remarks.trials import Said
from tcpx.remarks.tried_fixes import TriedFixes

FALLBACK: Final = "fallback"
_JUDGED: Final = (FALLBACK, causes.SCALAR.name, causes.PADDING.name, causes.ELEMENT_COPY.name)


def with_notes(noted: Iterable[Diagnostic], said: Sequence[Said], model: Model, fixes: TriedFixes) -> list[Diagnostic]:
    """The notes that stand for themselves, in their order, then the remarks of the model, with the other notes."""
    alone: list[Diagnostic] = []
    remarks = [each.remark for each in said]
    for note in noted:
        if note.cause not in _JUDGED or note.factor:
            alone.append(note)
            continue
        fixed = fixes.of(note)
        k = next((k for k, each in enumerate(said) if _is_about(note, each, model)), None)
        if k is not None:
            remarks[k] = _with_reason(remarks[k], fixed)
        else:
            judged = _judged(fixed, model)
            is_asked_for = note.cause == FALLBACK and fixes.is_of_reader(note)  # the schedule says `else remark`
            alone += [judged] if judged is not None else [fixed] if is_asked_for else []
    return alone + remarks


def _is_about(note: Diagnostic, said: Said, model: Model) -> bool:
    """Whether a remark is about the nest of a note, and what that says is a reason for it."""
    is_of_cause = note.cause in (FALLBACK, said.remark.cause)
    return is_of_cause and not said.statements.isdisjoint(model.statements_at(note.payload))


def _with_reason(remark: Diagnostic, note: Diagnostic) -> Diagnostic:
    """A remark with what a note says, and its fix where that is text and the remark knows none."""
    where = f"{note.schedule}: " if note.schedule is not None else ""
    needed = f", which takes {note.required}" if note.cause == FALLBACK and note.required else ""
    reason = f"{where}{note.message}{needed}"
    if note.factor and isinstance(remark.fix, Direction):
        remark = replace(remark, fix=note.fix, factor=note.factor, schedule=note.schedule)
    return remark if reason in remark.notes else replace(remark, notes=(*remark.notes, reason))


def _judged(note: Diagnostic, model: Model) -> Diagnostic | None:
    """A note with the factor of the kernel without what it says; itself where the model does not know its place, None
    where next to nothing is lost."""
    statements = model.statements_at(note.payload)
    if not statements or note.cause == causes.ELEMENT_COPY.name:
        return note
    if note.cause == FALLBACK:
        spared = sum(model.beyond_limit(each, LEAST_FALLBACK) for each in statements)
    elif note.cause == causes.PADDING.name:
        spared = sum(model.padding(each) for each in statements)
    else:
        spared = sum(model.on_single_elements(each, note.payload) for each in statements)
    if spared < max(LEAST_NOTED * model.whole, LEAST_TIME):
        return None
    factor = note.factor or round(min(model.whole / max(model.whole - spared, 1e-9), MOST_FACTOR), 3)
    worst = max(statements, key=model.cycles_of)
    said = f"without that, the kernel would be {factor:.2g} times as fast"
    return replace(note, notes=(*note.notes, said), factor=factor, statement=tuple(worst))
