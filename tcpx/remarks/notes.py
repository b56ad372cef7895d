"""What steps of a schedule and of the lowering noted about slow code, judged by the model.

A note is a reason for a modelled remark on the same nest, or a remark of its own with a factor; of fast code there is
none."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from tcpx.costs.visits import Statement
from tcpx.interp.trace import Refusal
from tcpx.payload.diagnostics import Diagnostic, Direction
from tcpx.remarks import causes
from tcpx.remarks.finding import Finding, Model
from tcpx.remarks.trials import Said, reason_of
from tcpx.remarks.tried_fixes import TriedFixes

_JUDGED: Final = {cause.name: cause for cause in (causes.FALLBACK, causes.SCALAR, causes.PADDING)}


def is_judged(note: Diagnostic, model: Model) -> bool:
    """Whether a model knows what a note costs."""
    return note.cause in _JUDGED and not note.factor and bool(model.statements_at(note.payload))


def with_noted(found: Sequence[Finding], noted: Iterable[Diagnostic], model: Model) -> list[Finding]:
    """What is found to be slow, and what notes say of other nests where that costs something."""
    every = list(found)
    for note in (note for note in noted if is_judged(note, model)):
        statements = model.statements_at(note.payload)
        if not any(each.statement in statements and _is_reason(note, each.cause.name) for each in every):
            more = (model.lost(each, _JUDGED[note.cause], note.payload) for each in statements)
            every += [each for each in more if each is not None]
    return every


def with_refusals(
    found: Sequence[Finding], noted: Iterable[Diagnostic], refusals: Iterable[Refusal], model: Model, fixes: TriedFixes
) -> list[Finding]:
    """What is found to be slow, with what the schedule of a reader tried first for it and was refused."""
    why: dict[Statement, Diagnostic] = {}
    for note in (note for note in noted if note.cause == causes.FALLBACK.name and fixes.is_of_reader(note)):
        why |= dict.fromkeys(model.statements_at(note.payload), note)
    for each in refusals:
        note = replace(each.why, message=f"the first alternative of a `try` is refused: {each.why.message}")
        those = model.statements_of(range(each.first, each.last + 1)) or model.statements_at(note.payload)
        why |= dict.fromkeys(those, replace(note, cause=causes.FALLBACK.name))
    return [replace(each, refused=why.get(each.statement)) for each in found]


def with_reasons(
    noted: Iterable[Diagnostic], said: Sequence[Said], model: Model, fixes: TriedFixes
) -> list[Diagnostic]:
    """The notes that stand for themselves, in their order, then the remarks of the model, with the other notes."""
    alone: list[Diagnostic] = []
    remarks = [each.remark for each in said]
    for note in noted:
        statements = model.statements_at(note.payload)
        about = (k for k, each in enumerate(said) if not each.statements.isdisjoint(statements))
        k = next((k for k in about if _is_reason(note, said[k].remark.cause)), None)
        if k is not None and not note.factor:
            remarks[k] = _with_reason(remarks[k], fixes.of(note))
        elif not is_judged(note, model) or (note.cause == causes.FALLBACK.name and fixes.is_of_reader(note)):
            alone.append(note)  # the schedule itself says `else remark`, fast or not
    return alone + remarks


def _is_reason(note: Diagnostic, cause: str) -> bool:
    """Whether what a note says is a reason for a cause."""
    return note.cause in (causes.FALLBACK.name, cause)


def _with_reason(remark: Diagnostic, note: Diagnostic) -> Diagnostic:
    """A remark with what a note says, and its fix where that is text and the remark knows none."""
    reason = reason_of(note)
    if note.factor and isinstance(remark.fix, Direction):
        remark = replace(remark, fix=note.fix, factor=note.factor, schedule=note.schedule)
    return remark if reason in remark.notes else replace(remark, notes=(*remark.notes, reason))
