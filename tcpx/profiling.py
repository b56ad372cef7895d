"""Where the time of a kernel goes: its statements outside of loops, measured, with what each computes."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np

from tcpx.api import CompileRequest, lowered
from tcpx.call_times import Figures, TimedStatement, measured
from tcpx.cells import page_cell, table_cell
from tcpx.costs.forwarding import PayloadPlaces
from tcpx.costs.kernel_cost import Traffic, statement_traffic
from tcpx.costs.shares import modelled_shares
from tcpx.costs.visits import Statement, runs
from tcpx.costs.work import PlaceWork, asked_for
from tcpx.emit_c.kernel import KernelRequest, build_many
from tcpx.interp import ParamValue
from tcpx.loading import PayloadLike, module_of
from tcpx.payload.diagnostics import Diagnostic
from tcpx.payload.evaluator import Array, bind_symbols
from tcpx.payload.ir import Module
from tcpx.payload.sizes import evaluate
from tcpx.payload.types import shape_of
from tcpx.quantities import amount, duration, percent
from tcpx.records import brief, frozen
from tcpx.target import Target, load_target
from tcpx.transform.language.embedded import Schedulable
from tcpx.written_paths import file_to_write

SECONDS: Final = 0.5
"""How long the kernel is called, at least."""
NO_TRAFFIC: Final = Traffic()
NO_WORK: Final = PlaceWork()
"""Of what the model says nothing about, such as calls."""
STRAIGHT: Final = "between nests"
UNACCOUNTED: Final = "outside of statements"
CALLER: Final = "the call: arguments, checks, results"


@frozen
class ProfilePart:
    """An operation of the payload in a statement: its `node`, and the `place` where it was written.

    `operations` are the scalar operations that it asks for there, `padding`, `recomputation` and `added` those that are
    issued beyond. `share` is its part of the time of the statement, by a model.
    """

    node: str
    place: str
    operations: int
    padding: int
    recomputation: int
    added: int
    share: float

    def __repr__(self) -> str:
        return brief("ProfilePart", self.node, f"{amount(self.operations)} operation(s), {percent(self.share)}")


@frozen
class ProfileRow:
    """A statement of a function that is outside of its loops: a nest, a call, a copy, or, with the operation "", all
    straight lines of the function.

    `node` is the operation of the payload that it is called after, written at `place`, and `operation` its own name in
    the C. Times are
    those of all its `runs` in one call of the kernel, in seconds: `minimum` and `median` over the calls, and `seconds`,
    the mean over the fastest quarter of the calls, which adds up to `Profile.seconds`. Its clocks do not count.

    `operations` are the scalar operations that the payload asks for in these runs, `peaks` the same by the peak that
    limits them (`fma_f32`, `dot_ui8_si8`), `issued` those that the kernel runs. What it runs beyond, operation by
    operation of the payload, is `padding`, `recomputation` or `added`. `l2_bytes` and `l3_bytes` are what they read and
    write beyond the first and the second cache, by a model; 0 where it has none, as of calls.
    `parts` are the operations of the payload in it, those that take most of its time first.
    """

    function: str
    operation: str
    node: str
    place: str
    callee: str
    seconds: float
    minimum: float
    median: float
    runs: int
    operations: int
    issued: int
    padding: int
    recomputation: int
    added: int
    l2_bytes: float
    l3_bytes: float
    peaks: Mapping[str, int] = field(default_factory=dict[str, int])
    parts: tuple[ProfilePart, ...] = ()
    inside: tuple[str, ...] = ()
    """The functions that it calls, also those that a nest calls in its loops."""

    def __repr__(self) -> str:
        return brief("ProfileRow", f"@{self.function}", self.operation, duration(self.seconds), f"{self.runs} run(s)")

    @property
    def title(self) -> str:
        """What it is, for a person."""
        if self.callee:
            return f"call @{self.callee}"
        return self.operation or STRAIGHT

    @property
    def gflops(self) -> float:
        """10^9 operations of the payload a second."""
        return self.operations / self.median * 1e-9 if self.median else 0.0

    @property
    def gigabytes(self) -> float:
        """10^9 bytes a second, from beyond the first cache."""
        return self.l2_bytes / self.median * 1e-9 if self.median else 0.0


@frozen
class ProfileRest:
    """What a call takes beside statements: in a function, or, with the function "", outside of the kernel. Times are as
    those of a `ProfileRow`."""

    function: str
    title: str
    seconds: float
    minimum: float
    median: float

    def __repr__(self) -> str:
        return brief("ProfileRest", self.title, duration(self.seconds))


@frozen
class Profile:
    """A kernel, called with some arrays: its times are those of one call, as those of rows are. `rest` is what the rows
    do not account for. `clock_seconds` are what clocks took of a call; they are subtracted."""

    kernel: str
    target: str
    threads: int
    calls: int
    seconds: float
    minimum: float
    median: float
    clock_seconds: float
    workspace_bytes: int
    constants_bytes: int
    rows: tuple[ProfileRow, ...]
    rest: tuple[ProfileRest, ...] = ()
    remarks: tuple[Diagnostic, ...] = ()
    """Those on the kernel, at the sizes of the call; `remark.statement` is the function and operation of a row."""

    def __repr__(self) -> str:
        return brief(
            "Profile", f"of @{self.kernel} for {self.target}, {duration(self.median)}, {len(self.rows)} row(s)"
        )

    def _repr_html_(self) -> str:
        from tcpx.measure.profile_page import profile_page  # which shows this

        def statements() -> str:
            ordered = sorted(self.rows, key=lambda row: row.seconds, reverse=True)
            rows = ((f"@{r.function}", r.title, r.node, percent(self.share(r)), duration(r.median)) for r in ordered)
            columns = ("function", "statement", "node", "share", "median")
            return table_cell(repr(self)[1:-1], columns, rows, "profile.rows")

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
        return {**asdict(replace(self, remarks=())), "remarks": [_entries(remark) for remark in self.remarks]}

    def remarks_on(self, row: ProfileRow) -> tuple[Diagnostic, ...]:
        """The remarks on a row."""
        return tuple(remark for remark in self.remarks if remark.statement == (row.function, row.operation))


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

    Statements that did not run are left out. Raises what `compile` and a call raise.
    """
    module = module_of(module)
    chosen = load_target(target)
    chosen.require_cpu()
    given = [np.asarray(array) for array in arrays]
    run = lowered(CompileRequest(module, schedule, params), chosen, threads, _sizes_of(module, given))
    (kernel,) = build_many([KernelRequest(run.module, schedule=schedule)], chosen, threads, timed=True)
    times = measured(kernel, arrays, seconds, clock)
    model = _Model(module, run.module, chosen, threads, given)
    call, signature = times.call(), kernel.signature
    rest = [ProfileRest(name, UNACCOUNTED, *times.figures(held)) for name, held in times.rest().items()]
    rest.append(ProfileRest("", CALLER, *times.figures(call - times.kernel())))
    return Profile(
        kernel=signature.name,
        target=chosen.name,
        threads=threads,
        calls=times.calls,
        **times.figures(call)._asdict(),
        clock_seconds=times.spent_on_clocks(),
        workspace_bytes=evaluate(signature.workspace_bytes, bind_symbols(run.module.main, given)),
        constants_bytes=signature.constants_bytes,
        rows=tuple(model.row(held, times.figures(held.seconds)) for held in times.statements()),
        rest=tuple(rest),
        remarks=run.remarks,
    )


def _sizes_of(module: Module, arrays: Sequence[Array]) -> Mapping[str, int] | None:
    """The sizes of a call; None for arrays that are none of this payload, which the call refuses."""
    inputs = module.main.inputs
    ranks = [len(shape_of(value.type)) for value in inputs]
    return bind_symbols(module.main, arrays) if ranks == [array.ndim for array in arrays] else None


def _entries(remark: Diagnostic) -> dict[str, object]:
    """A remark, for `json.dumps`."""
    places = {"payload": remark.payload, "schedule": remark.schedule}
    names = ("message", "cause", "factor", "required", "found", "notes", "fix")
    return {
        **{name: getattr(remark, name) for name in names},
        "statement": dict(zip(("function", "operation"), remark.statement, strict=True)),
        **{name: str(place) for name, place in places.items() if place is not None},
    }


class _Model:
    """What the statements of a kernel compute in a call, and what the payload asks for of that."""

    def __init__(self, module: Module, kernel: Module, target: Target, threads: int, arrays: Sequence[Array]) -> None:
        made = list(runs(kernel.main, bind_symbols(kernel.main, arrays), target))
        asked = asked_for(module.main, bind_symbols(module.main, arrays), target)
        places = PayloadPlaces.of(module)
        self.account = places.account(asked, made)
        self.shares = modelled_shares(made)
        self.traffic = statement_traffic(kernel.main, target, threads, arrays)
        self.names = {func.name: [op.name for op in func.walk() if op.name] for func in module.funcs.values()}
        named = [op for func in module.funcs.values() for op in func.walk() if op.name]
        self.nodes = {op.location: op.name for op in named}
        self.places = {op.name: op.location.short for op in named if op.location is not None}

    def row(self, timed: TimedStatement, figures: Figures) -> ProfileRow:
        """A statement that was measured, with what it computes."""
        clock = timed.clock
        statement = Statement(clock.function, clock.operation)
        traffic = self.traffic.get(statement, NO_TRAFFIC)
        peaks: Counter[str] = Counter()
        works = self.account.get(statement, {})
        for work in works.values():
            peaks.update(work.asked)
        parts = tuple(sorted(self._parts(statement), key=lambda part: part.share, reverse=True))
        node = _node(clock.operation, self.names.get(clock.function) or list(self.places))
        return ProfileRow(
            clock.function,
            clock.operation,
            node,
            self.places.get(node, ""),
            clock.callee,
            *figures,
            timed.runs,
            peaks.total(),
            sum(work.issued for work in works.values()),
            sum(part.padding for part in parts),
            sum(part.recomputation for part in parts),
            sum(part.added for part in parts),
            traffic.l2 * timed.runs,
            traffic.l3 * timed.runs,
            dict(peaks),
            parts,
            clock.inside,
        )

    def _parts(self, statement: Statement) -> Iterator[ProfilePart]:
        works, shares = self.account.get(statement, {}), self.shares.get(statement, {})
        for place in dict.fromkeys((*works, *shares)):
            work = works.get(place, NO_WORK)
            again = work.excess if work.is_recomputed else 0
            yield ProfilePart(
                self.nodes.get(place, ""),
                place.short if place is not None else "",
                work.asked.total(),
                work.excess - again,
                again,
                work.added,
                shares.get(place, 0.0),
            )


def _node(operation: str, names: Sequence[str]) -> str:
    """The operation that a statement is called after: `fc1/n1`, a loop of `fc1`."""
    fitting = [n for n in names if operation == n or (operation.startswith(n) and operation[len(n)] in "/.~")]
    return max(fitting, key=len, default="")
