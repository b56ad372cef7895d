"""Fixes of steps that a schedule fell back from: text only where the kernel is faster with it, by the model."""

from collections.abc import Callable
from dataclasses import replace

from tcpx.payload.diagnostics import Diagnostic, Direction
from tcpx.records import frozen
from tcpx.remarks.causes import LEAST_NOTED, MOST_FACTOR
from tcpx.remarks.edits import with_argument
from tcpx.remarks.hints import Hint
from tcpx.transform.language.loader import Program


@frozen
class TriedFixes:
    """`trial` gives the cycles of a kernel after a hint, `whole` are those of the kernel as it is."""

    program: Program
    whole: float
    trial: Callable[[Hint], float | None]

    def is_of_reader(self, note: Diagnostic) -> bool:
        """Whether a note is about what a statement of the given schedule itself does, in what it calls, too."""
        place = note.calls[-1][1] if note.calls else note.schedule
        return place is not None and not self.program.is_default and place.file == self.program.main.file.path

    def of(self, note: Diagnostic) -> Diagnostic:
        """A note whose fix is an argument of a call of the schedule, with the factor of that; other fixes are no text
        for the schedule of a reader: a direction in their own file, none in another one."""
        if note.fix is None or isinstance(note.fix, Direction):
            return note
        place = note.schedule
        if place is None or note.calls or not self.is_of_reader(note):
            return replace(note, fix=None)
        file = with_argument(self.program.main.file, place, note.fix)
        if file is None:
            return replace(note, fix=Direction(note.fix))
        after = self.trial(Hint(note.fix, place, schedule=file))
        if after is None or self.whole - after < LEAST_NOTED * self.whole:
            return replace(note, fix=None)
        return replace(note, factor=round(min(self.whole / max(after, 1.0), MOST_FACTOR), 3))
