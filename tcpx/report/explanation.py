"""Running a schedule to the C, and keeping what every step did on the way."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from tcpx.api import program_or_default
from tcpx.cells import page_cell, table_cell
from tcpx.interp import KnobNames, KnobUse, ParamValue, Run, StepHook, TraceEntry
from tcpx.interp.payload_texts import PayloadTexts
from tcpx.judging import Original
from tcpx.loading import PayloadLike
from tcpx.module_copies import copy_module
from tcpx.payload.diagnostics import ArgumentError, Diagnostic, Location, TcpxError
from tcpx.payload.ir import Module
from tcpx.records import brief, frozen
from tcpx.source import LineOrigin, Source, source_of
from tcpx.stepwise import run_stepwise
from tcpx.suggestions import did_you_mean
from tcpx.target import Target, load_target
from tcpx.transform.language.embedded import Schedulable
from tcpx.transform.loop_nest import Nest, Nests


@frozen
class Explanation:
    """A run of a schedule, step by step, those of the lowering last; `error` is what ended it early, if anything did.

    `before` is the payload text the first step found; each step has its edits. `remarks` are about what the schedule
    left as it is where it could. `source` is the C at the end.
    """

    func: str
    payload_file: str
    schedule_files: tuple[str, ...]
    target: str
    threads: int
    before: tuple[str, ...]
    first_nest: Nest
    steps: tuple[TraceEntry, ...]
    knobs: tuple[KnobUse, ...] = ()
    output: tuple[tuple[str, Location], ...] = ()
    remarks: tuple[Diagnostic, ...] = ()
    ran: str = ""
    left_alone: str = ""
    source: Source | None = None
    error: Diagnostic | None = None

    def __repr__(self) -> str:
        return brief("Explanation", f"of @{self.func} for {self.target}, {len(self.steps)} step(s)")

    def _repr_html_(self) -> str:
        from tcpx.report.page import html_page  # which shows this

        def steps() -> str:
            rows = ((e.index + 1, e.location or "", e.statement, ", ".join(e.changed)[:200]) for e in self.steps)
            return table_cell(repr(self)[1:-1], ("step", "place", "statement", "changed"), rows, "explanation.steps")

        return page_cell(html_page(self), steps, "open('page.html', 'w').write(tcpx.html_page(explanation))")

    @property
    def seconds(self) -> float:
        """Time spent in the steps."""
        return sum(step.seconds for step in self.steps)

    def knob_lines(self) -> list[tuple[str, str, str]]:
        """Shortest name, value and where it comes from, of each knob; of uses that share a value, for all."""
        count = Counter(use.shares or use.path for use in self.knobs)
        names = KnobNames.of(count)
        return [
            (
                names(use.path),
                str(use.value),
                ("overridden" if use.overridden else "its default")
                + (f", for {count[use.path]} uses" if count[use.path] > 1 else ""),
            )
            for use in self.knobs
            if not use.shares
        ]

    def steps_of_line(self, line: int) -> tuple[int, ...]:
        """Numbers of the steps that made and changed a line of the C, from 1; () for the lines of no operation."""
        origin: LineOrigin | None = self.source.origins.get(line) if self.source is not None else None
        return origin.steps if origin is not None else ()


def explain(
    module: PayloadLike,
    schedule: Schedulable | None = None,
    *,
    params: Mapping[str, ParamValue] | None = None,
    target: str | Target = "native",
    threads: int = 1,
    func: str = "",
    on_start: Callable[[Explanation], None] | None = None,
    on_step: StepHook | None = None,
) -> Explanation:
    """Run a schedule over a copy of the payload, lower it to C, and keep what every step did; nothing is compiled.

    `func` names the function the schedule runs over, where the payload has several. `on_start` is called with what is
    known before the first step, `on_step` with every step as soon as it is done. A step that fails ends the
    explanation, which then has its `error`. Raises ArgumentError and TargetError for a function and a target there
    are not.
    """
    chosen = load_target(target)
    program = program_or_default(schedule)
    copy = _with_one_function(copy_module(module), func)
    function, original = copy.main, Original(copy_module(copy), copy_module)
    texts = PayloadTexts(function)
    steps: list[TraceEntry] = []
    known = Explanation(
        func=function.name,
        payload_file=function.location.file if function.location is not None else "",
        schedule_files=tuple(unit.file.path for unit in program.units),
        target=chosen.name,
        threads=threads,
        before=texts.lines,
        first_nest=Nests().of(function),
        steps=(),
    )
    if on_start is not None:
        on_start(known)

    def keep(step: TraceEntry) -> None:
        del steps[step.index :]  # steps that were rolled back
        steps.append(step)
        if on_step is not None:
            on_step(step)

    run: Run | None = None
    source, error = None, None
    try:
        run = run_stepwise(
            copy, program, chosen, threads=threads, params=params, on_step=keep, keep_texts=True, original=original
        )
        source = source_of(copy, chosen, threads)
    except TcpxError as raised:
        error = raised.diagnostic
    made = replace(known, steps=tuple(steps), source=source, error=error)
    if run is None:
        return made
    output = tuple((str(line), line.location) for line in run.trace.output)
    coverage = run.coverage
    made = replace(made, knobs=run.knobs, output=output, remarks=run.remarks)
    return replace(made, ran=coverage.ran_text(), left_alone=coverage.text())


def _with_one_function(module: Module, func: str) -> Module:
    if not func:
        return module
    if func not in module.funcs:
        raise ArgumentError(
            Diagnostic(
                f"the payload has no function @{func}",
                required="a function of the payload",
                found=", ".join(f"@{name}" for name in module.funcs) or "no functions",
                fix=did_you_mean(func, module.funcs),
            )
        )
    reached = module.reached(module.funcs[func])
    module.funcs = {name: held for name, held in module.funcs.items() if held in reached}
    module.entry = func
    return module
