"""Where the time of a kernel goes: its statements outside of loops, measured, with what each computes."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np

from tcpx.api import CompileRequest, lowered
from tcpx.cells import page_cell, table_cell
from tcpx.costs.kernel_cost import StatementCost, statement_costs
from tcpx.emit_c.kernel import Kernel, KernelRequest, Timing, build_many
from tcpx.interp import ParamValue
from tcpx.loading import PayloadLike, module_of
from tcpx.payload.evaluator import Array, bind_symbols
from tcpx.payload.sizes import evaluate
from tcpx.records import brief, frozen
from tcpx.target import Target, load_target
from tcpx.transform.language.embedded import Schedulable
from tcpx.written_paths import file_to_write

SECONDS: Final = 0.5
"""How long the kernel is called, at least."""
NO_COST: Final = StatementCost(Counter(), 0.0, 0.0)
"""Of what the model says nothing about, such as calls."""
FEWEST: Final = 5
"""Calls that are measured, at least."""


@frozen
class ProfileRow:
    """A statement of a function that is outside of its loops.

    `node` is the operation of the payload that it is called after, and `operation` its own name in the C. `seconds` are
    those of one call of the kernel, `runs` how often it ran in it. `operations` are the scalar operations of these
    runs, `peaks` the same by the peak that limits them (`fma_f32`, `dot_ui8_si8`), `l2_bytes` and `l3_bytes` what they
    read and write beyond the first and the second cache, by a model; 0 where it has none, as of calls.
    """

    function: str
    operation: str
    node: str
    callee: str
    seconds: float
    runs: int
    operations: float
    l2_bytes: float
    l3_bytes: float
    peaks: Mapping[str, float] = field(default_factory=dict[str, float])

    def __repr__(self) -> str:
        return brief("ProfileRow", f"@{self.function}", self.operation, f"{self.seconds:.3g} s, {self.runs} run(s)")

    @property
    def shown(self) -> str:
        """What it is, for a person."""
        return f"call @{self.callee}" if self.callee else self.operation

    @property
    def gflops(self) -> float:
        """10^9 operations a second."""
        return self.operations / self.seconds * 1e-9 if self.seconds else 0.0

    @property
    def gigabytes(self) -> float:
        """10^9 bytes a second, from beyond the first cache."""
        return self.l2_bytes / self.seconds * 1e-9 if self.seconds else 0.0


@frozen
class Profile:
    """A kernel, called with some arrays: `seconds` are those of one call, as the rows are; what they do not account for
    is the call itself, and the clocks."""

    kernel: str
    target: str
    threads: int
    calls: int
    seconds: float
    workspace_bytes: int
    constants_bytes: int
    rows: tuple[ProfileRow, ...]

    def __repr__(self) -> str:
        return brief("Profile", f"of @{self.kernel} for {self.target}, {self.seconds:.3g} s, {len(self.rows)} row(s)")

    def _repr_html_(self) -> str:
        from tcpx.measure.profile_page import profile_page  # which shows this

        def statements() -> str:
            ordered = sorted(self.rows, key=lambda row: row.seconds, reverse=True)
            rows = ((f"@{r.function}", r.operation, r.node, f"{r.seconds * 1e6:.2f}", r.runs) for r in ordered)
            return table_cell(repr(self)[1:-1], ("function", "operation", "node", "us", "runs"), rows, "profile.rows")

        return page_cell(profile_page(self), statements, "profile.html('page.html')")

    def html(self, path: str | Path) -> None:
        """Write a page with a flame picture and a table: one file, for any browser, that needs nothing else. That of
        `tcpx profile --html` also has the limits of the machine, which it measures."""
        from tcpx.measure.profile_page import profile_page  # which shows this

        file_to_write(path).write_text(profile_page(self), encoding="utf-8")

    def share(self, row: ProfileRow) -> float:
        """The part of the time that a row has."""
        return row.seconds / self.seconds

    def as_json(self) -> dict[str, object]:
        """All of it, for `json.dumps`."""
        return {**asdict(self), "rows": [asdict(row) for row in self.rows]}


def profile(
    module: PayloadLike,
    schedule: Schedulable | None = None,
    *arrays: Array | int,
    params: Mapping[str, ParamValue] | None = None,
    target: str | Target = "native",
    threads: int = 1,
    seconds: float = SECONDS,
    clock: Callable[[], float] = perf_counter,
) -> Profile:
    """Compile a payload `timed`, call it with these arrays for some seconds, and say where the time went.

    The call that took least is the one that is shown, without what did not run in it. Raises what `compile` and a call
    raise.
    """
    module = module_of(module)
    chosen = load_target(target)
    chosen.require_cpu()
    run = lowered(CompileRequest(module, schedule, params), chosen, threads)
    (kernel,) = build_many([KernelRequest(run.module, schedule=schedule)], chosen, threads, timed=True)
    given = [np.asarray(array) for array in arrays]
    calls, taken, timings = _measured(kernel, arrays, seconds, clock)
    costs = statement_costs(run.module.main, chosen, threads, given)
    names = {func.name: [op.name for op in func.walk() if op.name] for func in module.funcs.values()}
    every = [name for held in names.values() for name in held]
    rows: list[ProfileRow] = []
    for timing in timings:
        held = timing.clock
        cost = costs.get((held.function, held.operation), NO_COST)
        peaks = {peak: float(number * timing.runs) for peak, number in cost.operations.items()}
        rows.append(
            ProfileRow(
                held.function,
                held.operation,
                _node(held.operation, names.get(held.function, every)),
                held.callee,
                timing.seconds,
                timing.runs,
                sum(peaks.values()),
                cost.l2 * timing.runs,
                cost.l3 * timing.runs,
                peaks,
            )
        )
    signature = kernel.signature
    workspace = evaluate(signature.workspace_bytes, bind_symbols(run.module.main, given))
    memory = workspace, signature.constants_bytes
    return Profile(signature.name, chosen.name, threads, calls, taken, *memory, tuple(rows))


def _measured(
    kernel: Kernel, arrays: Sequence[Array | int], seconds: float, clock: Callable[[], float]
) -> tuple[int, float, tuple[Timing, ...]]:
    """How many calls there were, and the seconds and the statements of the one that took least; the first, which brings
    everything into the caches, does not count."""
    kernel(*arrays)
    calls, least, timings = 0, float("inf"), tuple[Timing, ...]()
    end = clock() + seconds
    while calls < FEWEST or clock() < end:
        kernel.clear_timings()
        begin = clock()
        kernel(*arrays)
        taken = clock() - begin
        calls += 1
        if taken < least:
            least, timings = taken, kernel.timings()
    return calls, least, tuple(timing for timing in timings if timing.runs)


def _node(operation: str, names: Sequence[str]) -> str:
    """The operation that a statement is called after: `fc1/n1`, a loop of `fc1`."""
    fitting = [n for n in names if operation == n or (operation.startswith(n) and operation[len(n)] in "/.~")]
    return max(fitting, key=len, default="")
