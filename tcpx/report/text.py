"""A run of a schedule as text for a terminal."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from textwrap import indent
from typing import Final

from tcpx.interp import TraceEntry
from tcpx.interp.payload_texts import applied
from tcpx.payload.sizes import to_text
from tcpx.plurals import counted
from tcpx.quantities import duration
from tcpx.records import brief
from tcpx.report.explanation import Explanation
from tcpx.report.nest_changes import MarkedLine, marked, worth_showing
from tcpx.report.unified import counts, unified
from tcpx.transform.loop_nest import NestLine

CONTEXT: Final = 2
"""Unchanged lines round a change."""
LONGEST_LOWERING_DIFF: Final = 80
"""Lines of a step of the lowering that are shown without being asked for."""
_COLOURS: Final = {"+": "\x1b[32m", "-": "\x1b[31m", "~": "\x1b[33m", "@": "\x1b[36m", "head": "\x1b[1m"}
_PLAIN: Final = "\x1b[0m"


@dataclass(slots=True)
class ExplanationText:
    """Renders the steps of a run one by one, as they come; each answer is lines to print.

    `only` are names of transforms and `numbers` those of steps, from 1, to show; empty: all. `colour` is for terminals.
    """

    only: frozenset[str] = frozenset()
    numbers: frozenset[int] = frozenset()
    colour: bool = False
    _lines: tuple[str, ...] = ()
    _nest: list[NestLine] = field(default_factory=list[NestLine])
    _states: list[tuple[tuple[str, ...], list[NestLine]]] = field(
        default_factory=list[tuple[tuple[str, ...], list[NestLine]]]
    )

    def __repr__(self) -> str:
        return brief("ExplanationText")

    def start(self, known: Explanation) -> Iterator[str]:
        """The loop nest before the first step."""
        self._lines, self._nest = known.before, list(known.first_nest.lines())
        self._states = []
        yield "before:"
        yield from self._marked([MarkedLine("|", line) for line in self._nest])

    def step(self, step: TraceEntry) -> Iterator[str]:
        """One step, if it is to be shown; steps have to come in order, and again from where a `try` went back to."""
        if step.index < len(self._states):
            first, last = step.index + 1, len(self._states)
            yield f"\n{f'step {first} was' if first == last else f'steps {first} to {last} were'} undone by `try`"
            self._lines, self._nest = self._states[step.index]
            del self._states[step.index :]
        self._states.append((self._lines, self._nest))
        edits = step.edits or ()
        if self._is_wanted(step):
            yield ""
            yield from self._head(step)
            if step.loops is not None:
                yield from self._marked(worth_showing(marked(self._nest, list(step.loops.lines())), CONTEXT))
            yield from self._diff(step)
        self._lines = applied(self._lines, edits)
        self._nest = list(step.loops.lines()) if step.loops is not None else self._nest

    def end(self, explanation: Explanation) -> Iterator[str]:
        """What is known only at the end: all knobs, what steps printed, what ran, what was left alone, the size of the
        C."""
        if explanation.knobs:
            yield "\nknobs:"
        for name, value, why in explanation.knob_lines():
            yield f"  {name} = {value} ({why})"
        for text, place in explanation.output:
            yield f"\nprinted at {place}:\n{text}"
        for remark in explanation.remarks:
            yield f"\n{remark.render()}"
        if explanation.ran:
            yield f"\nran:\n{indent(explanation.ran, '  ')}"
        if explanation.left_alone:
            yield f"\nleft alone:\n{indent(explanation.left_alone, '  ')}"
        if explanation.source is not None:
            signature = explanation.source.signature
            if signature.has_workspace:
                yield f"\nworkspace: {counted(to_text(signature.workspace_bytes), 'byte')}"
                yield f"live at once: {counted(to_text(signature.live_bytes), 'byte')}"
            lines = explanation.source.c_source.count("\n")
            steps = counted(len(explanation.steps), "step")
            yield f"\n{steps} in {duration(explanation.seconds)}, {counted(lines, 'line')} of C"

    def _is_wanted(self, step: TraceEntry) -> bool:
        named = not self.only or step.transform in self.only
        return named and (not self.numbers or step.index + 1 in self.numbers)

    def _head(self, step: TraceEntry) -> Iterator[str]:
        yield self._painted("head", f"step {step.index + 1}: {' '.join(step.statement.split())}")
        yield f"  at {step.location}" if step.location is not None else "  after the schedule, for lack of a statement"
        added, removed = counts(step.edits or ())
        operations = counted(step.visited, "operation")
        yield f"  {duration(step.seconds)}, {operations}, +{added} -{counted(removed, 'line')}"
        for name, place in step.calls:
            yield f"  in {name}, called from {place}"
        for name, denoted in step.bound:
            yield f"  {name} = {denoted}"
        for name, denoted in step.made:
            yield f"  -> {name} = {denoted}"
        for remark in step.remarks:
            yield indent(remark, "  says: ", lambda _: True)
        for name, text in step.snapshots:
            yield f"  keeps {name}:"
            yield indent(text, "    ")

    def _marked(self, lines: list[MarkedLine] | list[MarkedLine | None]) -> Iterator[str]:
        for line in lines:
            yield "  ..." if line is None else f"  {self._painted(line.mark, line.text())}"

    def _diff(self, step: TraceEntry) -> Iterator[str]:
        edits = step.edits or ()
        if step.location is None and sum(counts(edits)) > LONGEST_LOWERING_DIFF and not self.numbers:
            yield f"  (--step {step.index + 1} shows the payload)"
            return
        for line in unified(self._lines, edits, CONTEXT):
            yield f"    {self._painted(line.sign, str(line))}"

    def _painted(self, sign: str, text: str) -> str:
        return f"{_COLOURS[sign]}{text}{_PLAIN}" if self.colour and sign in _COLOURS else text
