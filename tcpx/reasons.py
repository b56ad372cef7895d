"""Why loops take what they take: cycles by port and by latency, bytes by level, what bounds them, what to try next."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict

from tcpx.api import CompileRequest, lowered, program_or_default
from tcpx.cells import text_cell
from tcpx.costs.bounds import bound_of
from tcpx.costs.nests import InnerLoop, Nest, nests_of
from tcpx.interp import ParamValue
from tcpx.loading import PayloadLike, module_of
from tcpx.payload.diagnostics import ArgumentError, Diagnostic
from tcpx.payload.given import mapping_of
from tcpx.payload.ir import FuncOp, Operation
from tcpx.payload.size_values import SizeValues
from tcpx.payload.sizes import Symbol
from tcpx.plurals import counted
from tcpx.quantities import amount, percent
from tcpx.records import brief, frozen
from tcpx.remarks.causes import LEAST_NOTED
from tcpx.remarks.next_steps import NextSteps
from tcpx.remarks.request import typical_sizes
from tcpx.suggestions import did_you_mean
from tcpx.target import Target, load_target
from tcpx.target.cores import core_named
from tcpx.transform.language.embedded import Schedulable
from tcpx.transform.language.loader import Program

_LEVELS = {"l1": "L1", "l2": "L2", "l3": "L3", "memory": "memory"}
LEAST = 0.01
"""The part of a nest from which one of its loops is shown."""
SHARE = 0.8
"""The part of the modelled time that the shown nests have, where none is asked for."""


@frozen
class WhyLoop:
    """An innermost loop of a nest, of which it is `share`. `cycles` are those of an iteration, as modelled: `ports` by
    port, `entry` those in which its instructions enter the core, `window` those for which they wait for operands where
    no more may wait at once, `latency` those of the `chain` that leads from one iteration to the next, by the names of
    instruction rows, `transfer` those in which its data come from a level of the
    memory. `bytes` are those of an iteration by level: `l1` all that it reads and writes, the others what comes from
    there. `spilled` vectors have no register. `bound` says what takes the time, `next` what to try."""

    name: str
    share: float
    iterations: float
    cycles: float
    ports: Mapping[str, float]
    entry: float
    window: float
    latency: float
    chain: tuple[str, ...]
    bytes: Mapping[str, float]
    transfer: Mapping[str, float]
    spilled: int
    bound: str
    next: str

    def __repr__(self) -> str:
        return brief("WhyLoop", self.name, f"{self.cycles:.2f} cycles: {self.bound}")

    @property
    def throughput(self) -> float:
        """Cycles of an iteration that waits for no other, on the busiest port, where instructions enter the core, or
        where they wait for operands."""
        return max([self.entry, self.window, *self.ports.values()])


@frozen
class WhyNest:
    """A statement of a function that is outside of its loops: `cycles` are those of one of its `runs` in a call of the
    kernel, on one thread, `share` is the part that all runs have."""

    function: str
    name: str
    runs: int
    cycles: float
    share: float
    loops: tuple[WhyLoop, ...]

    def __repr__(self) -> str:
        return brief("WhyNest", f"@{self.function}", self.name, f"{self.cycles:.0f} cycles, {len(self.loops)} loop(s)")


@frozen
class Why:
    """What the nests of a kernel take, as modelled for a core. `core` is what the model describes, `is_described`
    whether that is the core of the target; `sizes` are those that count."""

    kernel: str
    target: str
    core: str
    is_described: bool
    sizes: Mapping[str, int]
    cycles: float
    nests: tuple[WhyNest, ...]

    def __repr__(self) -> str:
        return brief("Why", f"of @{self.kernel} for {self.target}, {counted(len(self.nests), 'nest')}")

    def _repr_html_(self) -> str:
        return text_cell(repr(self)[1:-1], "\n".join(self.lines()), "'\\n'.join(why.lines())")

    def as_json(self) -> dict[str, object]:
        """All of it, for `json.dumps`."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """What `tcpx explain --why` prints."""
        at = ", ".join(f"{name} = {size}" for name, size in self.sizes.items())
        yield f"@{self.kernel} for {self.target}{f' at {at}' if at else ''}: {amount(self.cycles)} cycles, as modelled"
        yield f"core: {self.core}" + ("" if self.is_described else "; that of this target is not described")
        for nest in self.nests:
            yield ""
            runs = f", {counted(nest.runs, 'run')}" if nest.runs > 1 else ""
            yield f"{percent(nest.share):>7}  @{nest.function} {nest.name}: {amount(nest.cycles)} cycles{runs}"
            shown = [loop for k, loop in enumerate(nest.loops) if k == 0 or loop.share >= LEAST]
            for loop in shown:
                yield from _lines_of(loop)
            if len(shown) < len(nest.loops):
                yield f"  and {counted(len(nest.loops) - len(shown), 'loop')} of less than {percent(LEAST)}"


def _lines_of(loop: WhyLoop) -> Iterator[str]:
    cycles = f"{loop.cycles:.2f} cycles an iteration, {loop.iterations:.6g} iterations"
    yield f"  {loop.name}: {percent(loop.share)} of the nest, {cycles}"
    ports = " ".join(f"{port} {cycles:.2f}" for port, cycles in _in_order(loop.ports) if cycles >= 0.005)
    yield f"    throughput {loop.throughput:6.2f}  {ports}, front end {loop.entry:.2f}, waiting {loop.window:.2f}"
    yield f"    latency    {loop.latency:6.2f}  {' -> '.join(loop.chain) or 'no chain from one iteration to the next'}"
    held = {name: loop.bytes[level] for level, name in _LEVELS.items()}
    taken = ", ".join(f"{_LEVELS[level]} {cycles:.2f}" for level, cycles in loop.transfer.items() if cycles >= 0.005)
    yield f"    bytes      {', '.join(f'{name} {count:.4g}' for name, count in held.items())}" + (
        f"; cycles from {taken}" if taken else ""
    )
    spilled = f" ({counted(loop.spilled, 'vector')} spilled)" if loop.spilled else ""
    yield f"    bound      {loop.bound}{spilled}"
    yield f"    next       {loop.next}"


def _in_order(ports: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(ports.items(), key=lambda held: (held[0][:1], len(held[0]), held[0]))


def why(
    module: PayloadLike,
    schedule: Schedulable | None = None,
    nest: str = "",
    *,
    sizes: SizeValues | None = None,
    params: Mapping[str, ParamValue] | None = None,
    target: str | Target = "native",
    threads: int = 1,
) -> Why:
    """Schedule and lower a payload as `compile` does it, and say of each innermost loop of a nest why it takes what it
    takes: by a model, nothing is compiled or measured.

    `nest` is the name of a statement as `tcpx profile` shows it; without one, the nests that take most of the time are
    shown. `sizes` are values of the payload's symbols; others count as about 256. Raises ArgumentError for a name that
    no nest has, and what `compile` raises before it calls the C compiler.
    """
    module = module_of(module)
    chosen = load_target(target)
    given: Mapping[str, object] = mapping_of(sizes, "sizes", '{"N": 64}') if sizes is not None else {}
    program = program_or_default(schedule)

    def nests_with(program: Program) -> tuple[FuncOp, dict[str, int], list[Nest]]:
        run = lowered(CompileRequest(module, program, params), chosen, threads, is_judged=False)
        known = _sizes(run.module.main, given)
        return run.module.main, known, nests_of(run.module.main, chosen, threads, known)

    func, counted_as, every = nests_with(program)
    nests = _by_statement(every)
    total = _cycles(every)
    core = core_named(chosen.core)
    steps = NextSteps(program, total, lambda changed: _cycles(nests_with(changed)[2]))
    return Why(
        func.name,
        chosen.name,
        core.title,
        core.is_described,
        counted_as,
        total,
        tuple(_why_of(runs, total, steps) for runs in _chosen(nests, nest, func.name)),
    )


def remarks_of(
    module: PayloadLike,
    schedule: Schedulable | None = None,
    *,
    sizes: SizeValues | None = None,
    params: Mapping[str, ParamValue] | None = None,
    target: str | Target = "native",
    threads: int = 1,
) -> tuple[Diagnostic, ...]:
    """The remarks that the kernel would have, its slow statements judged at these values of the payload's symbols;
    `kernel.remarks` judges them at usual ones. Nothing is compiled. Raises ArgumentError for sizes that do not fit, and
    what `compile` raises before it calls the C compiler."""
    module = module_of(module)
    chosen = load_target(target)
    given: Mapping[str, object] = mapping_of(sizes, "sizes", '{"N": 64}') if sizes is not None else {}
    known = {name: size for name, size in _sizes(module.main, given).items() if name in given}
    return lowered(CompileRequest(module, schedule, params), chosen, threads, known).remarks


def _by_statement(nests: list[Nest]) -> list[list[Nest]]:
    """The runs of each statement: a function may be called several times."""
    found: dict[Operation, list[Nest]] = {}
    for held in nests:
        found.setdefault(held.op, []).append(held)
    return list(found.values())


def _cycles(runs: list[Nest]) -> float:
    return sum(held.cycles for held in runs)


def _sizes(func: FuncOp, given: Mapping[str, object]) -> dict[str, int]:
    """A value for every symbol. Raises ArgumentError for a name or a number that does not fit."""
    known = {symbol.name: symbol for symbol in func.symbols}
    for name in given:
        if name not in known:
            raise ArgumentError(
                Diagnostic(
                    f"there is no size `{name}`",
                    required=", ".join(known) or "no sizes: all dims are numbers",
                    found=name,
                    fix=did_you_mean(name, known),
                )
            )
    return typical_sizes(func, {name: _size(known[name], size) for name, size in given.items()})


def _size(symbol: Symbol, given: object) -> int:
    step = max(1, symbol.multiple_of)
    fits = isinstance(given, int) and given >= symbol.lower and given % step == 0
    if not isinstance(given, int) or not fits or (symbol.upper is not None and given > symbol.upper):
        last = "" if symbol.upper is None else f" to {symbol.upper}"
        multiple = f", a multiple of {step}" if step > 1 else ""
        raise ArgumentError(
            Diagnostic(
                f"the size `{symbol.name}` is out of its range",
                required=f"{symbol.lower}{last or ' or more'}{multiple}",
                found=str(given),
            )
        )
    return given


def _chosen(nests: list[list[Nest]], name: str, kernel: str) -> list[list[Nest]]:
    """Those of this name; without one, the fewest that have most of the time. Raises ArgumentError."""
    if name:
        found = [runs for runs in nests if name in (runs[0].name, f"@{runs[0].function} {runs[0].name}")]
        if not found:
            names = list(dict.fromkeys(runs[0].name for runs in nests))
            raise ArgumentError(
                Diagnostic(
                    f"@{kernel} has no nest `{name}`",
                    required=", ".join(names) or "a nest: it has no loops",
                    found=name,
                    fix=did_you_mean(name, names),
                )
            )
        return found
    total, shown = sum(map(_cycles, nests)), 0.0
    kept: list[list[Nest]] = []
    for runs in sorted(nests, key=_cycles, reverse=True):
        if kept and shown >= SHARE * total:
            break
        kept.append(runs)
        shown += _cycles(runs)
    return kept


def _why_of(runs: list[Nest], total: float, steps: NextSteps) -> WhyNest:
    """The statement, by its longest run."""
    nest = max(runs, key=lambda held: held.cycles)
    loops = sorted(nest.loops, key=lambda inner: inner.cycles * inner.iterations, reverse=True)
    share = _cycles(runs) / total if total else 0.0
    held = tuple(_loop(inner, nest.cycles, steps) for inner in loops)
    return WhyNest(nest.function, nest.name, len(runs), nest.cycles, share, held)


def _loop(inner: InnerLoop, total: float, steps: NextSteps) -> WhyLoop:
    iteration, bound = inner.iteration, bound_of(inner)
    share = inner.cycles * inner.iterations / total if total else 0.0
    step = steps.best_of(bound.steps) if share >= LEAST_NOTED else None
    return WhyLoop(
        inner.loop.name or inner.loop.opcode,
        share,
        inner.iterations,
        inner.cycles,
        iteration.ports,
        iteration.entry,
        iteration.window_cycles,
        iteration.latency,
        iteration.chain,
        {"l1": float(iteration.bytes), **inner.bytes},
        inner.transfer,
        iteration.spilled,
        bound.what,
        bound.next if step is None else f"{bound.next}; {step}",
    )
