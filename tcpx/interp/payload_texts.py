"""The text of the payload over the steps of a run, kept as what each step changed."""

from collections.abc import Iterable
from difflib import SequenceMatcher

from tcpx.payload.ir import FuncOp
from tcpx.records import frozen


@frozen
class Edit:
    """Lines `removed`, which stood from line `at` (from 0) of the text before, give way to lines `added`."""

    at: int
    removed: tuple[str, ...]
    added: tuple[str, ...]


class PayloadTexts:
    """The lines of a function and those it calls, and what became of them since one asked last."""

    __slots__ = ("_func", "lines")

    def __init__(self, func: FuncOp) -> None:
        self._func = func
        self.lines = _lines(func)

    def take_edits(self) -> tuple[Edit, ...]:
        """What changed since the last call, first line first."""
        before, self.lines = self.lines, _lines(self._func)
        return edits_between(before, self.lines)

    def forget(self) -> None:
        """Count from the text there is now: steps were rolled back."""
        self.lines = _lines(self._func)


def edits_between(before: tuple[str, ...], after: tuple[str, ...]) -> tuple[Edit, ...]:
    """The edits that make `after` of `before`."""
    if before == after:
        return ()
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    return tuple(
        Edit(i1, before[i1:i2], after[j1:j2]) for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal"
    )


def applied(before: tuple[str, ...], edits: Iterable[Edit]) -> tuple[str, ...]:
    """The text after the edits."""
    lines: list[str] = []
    position = 0
    for edit in edits:
        lines += before[position : edit.at] + edit.added
        position = edit.at + len(edit.removed)
    return (*lines, *before[position:])


def _lines(func: FuncOp) -> tuple[str, ...]:
    called = func.module.reached(func)[:-1] if func.module is not None else []
    return tuple("\n".join(held.text() for held in (func, *reversed(called))).splitlines())
