"""Statements that `--why` names: they are tried at the end of the schedule, and named where the kernel is faster."""

from collections.abc import Callable, Iterable
from typing import Final

from tcpx.costs.bounds import Step
from tcpx.payload.diagnostics import ScheduleError, VerifyError
from tcpx.remarks.causes import LEAST_NOTED, MOST_TRIED
from tcpx.remarks.edits import ScheduleEdit, edited_program, statements_of
from tcpx.remarks.hints import Hint
from tcpx.transform.language.loader import Program
from tcpx.transform.language.parser import parse_schedule
from tcpx.transform.language_versions import NEWEST

OF_DEFAULT: Final = """language {version}
import "default.tcps" as default
schedule s(root: func) {{
  default.whole(root)
  {step}
}}
"""


class NextSteps:
    """Steps after those of a schedule; `cycles_of` are those of the kernel with another schedule, `cycles` those with
    this one."""

    def __init__(self, program: Program, cycles: float, cycles_of: Callable[[Program], float]) -> None:
        self.program, self.cycles, self._cycles_of = program, cycles, cycles_of
        self._left = MOST_TRIED if len(program.main.schedules) == 1 or program.is_default else 0

    def best_of(self, steps: Iterable[Step]) -> str | None:
        """The first statement that makes the kernel faster, and how much; None where none does."""
        for step in steps:
            if not self._left:
                return None
            self._left -= 1
            line, hint = self._at_the_end(step)
            try:
                after = self._cycles_of(edited_program(self.program, hint))
            except (ScheduleError, VerifyError):  # it is refused here: another one is tried
                continue
            if self.cycles - after >= LEAST_NOTED * self.cycles:
                return f"`{line}` at the end of the schedule: {self.cycles / after:.2g} times as fast"
        return None

    def _at_the_end(self, step: Step) -> tuple[str, Hint]:
        root = "root" if self.program.is_default else self.program.schedule().params[0].name
        line = step.text.format(loop=f'(match one "{step.name}" in {root}).loop({step.dim})')
        if self.program.is_default:
            text = OF_DEFAULT.format(version=NEWEST, step=line)
            return line, Hint(line, schedule=parse_schedule(text))
        edit = ScheduleEdit({}, last=statements_of([line], root))
        return line, Hint(line, schedule=edit.of(self.program.main.file))
