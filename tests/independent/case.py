"""One case: a program, a schedule that takes effect, and calls; what is wrong with it, if anything."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import numpy as np

import tcpx
from tcpx.interp import Trace
from tests.independent import numbers
from tests.independent.builder import CAP, draw_array
from tests.independent.guarded import POISON, Guarded
from tests.independent.payloads import draw_program
from tests.independent.program import Program
from tests.independent.schedules import FILE, Drawn, draw_schedule

EVALUATED_ITERATIONS = 4000
DEFAULT_SHARE = 0.3
PRODUCTS = ("contract", "generic", "generic affine")
LANE_BY_LANE = " is computed lane by lane"
"""The end of a remark on what no instruction of the target does: it has no place in a schedule."""
COPIES = "copies %"
"""The begin of a remark on what the lowering copies."""
WINOGRAD = re.compile(r"^winograd\(a(\d+), m: (\d)\)$", re.MULTILINE)
"""The line by which a convolution is rounded otherwise, by the number of the operation."""
LEFT_OUT = "nothing reads what the loop computes"
"""The end of a remark on the payload alone."""


@dataclass
class Failure:
    """What must not be: its kind, the message, and where it came up."""

    kind: str
    message: str
    details: str = ""


@dataclass
class Case:
    """What was drawn for a seed, and what became of it."""

    seed: str
    target: str
    threads: int
    program: Program
    module: tcpx.Module | None = None
    schedule: Drawn | None = None
    failures: list[Failure] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def fail(self, kind: str, message: str, details: str = "") -> None:
        self.failures.append(Failure(kind, message, details))

    @property
    def rng(self) -> Random:
        return Random(f"{self.seed} calls")

    def reproducer(self) -> str:
        schedule = self.schedule.text(attempts=False) if self.schedule else "(the default schedule)\n"
        params = f"params = {self.schedule.params}\n" if self.schedule and self.schedule.params else ""
        command = (
            f"python -m tests.independent.runner --case '{self.seed}' --target {self.target} --threads {self.threads}"
        )
        return f"{self.program.text()}\n{schedule}{params}target {self.target}, {self.threads} thread(s)\n{command}\n"


def draw_case(seed: str, target: str, threads: int) -> Case:
    """Program and schedule; refusals of single statements are dropped, all others are failures."""
    rng = Random(seed)
    case = Case(seed, target, threads, draw_program(rng))
    text = case.program.text()
    try:
        case.module = tcpx.parse(text, "drawn.tcp", constants=case.program.constants or None)
    except tcpx.TcpxError as error:
        case.fail("payload refused", error.diagnostic.message, str(error))
        return case
    for op in case.program.ops:
        case.counts[f"op {op.opcode}"] += 1
    if rng.random() >= DEFAULT_SHARE:
        case.counts["schedules"] += 1
        draw_applied_schedule(case, rng)
    else:
        case.counts["default"] += 1
    return case


def draw_applied_schedule(case: Case, rng: Random) -> None:
    """A schedule that takes effect; a second one where the first fuses nothing."""
    before = Counter(case.counts)
    for _ in range(2):
        case.counts = Counter(before)
        apply_drawn(case, draw_schedule(rng, case.program))
        if case.failures or case.counts["with fuse"]:
            return


def apply_drawn(case: Case, drawn: Drawn) -> None:
    """Lines that are definite errors are dropped one by one, those that do not take effect all at once."""
    assert case.module is not None
    for _ in range(12):
        case.schedule = drawn
        try:
            program = tcpx.parse_schedule(drawn.text(attempts=True), FILE)
            run = tcpx.apply_schedule(
                case.module, program, params=drawn.params, target=case.target, threads=case.threads
            )
        except tcpx.TcpxError as error:
            line = _line(drawn, _places(error.diagnostic))
            if error.diagnostic.kind.value == "internal error" or line is None:
                case.fail(error.diagnostic.kind.value, error.diagnostic.message, str(error))
            if line is None:
                return
            case.counts["dropped definite"] += 1
            drawn = drawn.without({line})
            continue
        taken = Counter[int]()
        for entry in run.trace.entries:
            line = _line(drawn, [entry.location, *(place for _, place in entry.calls)])
            if line is not None:
                taken[line] += 1
                case.counts[f"step {entry.transform}"] += 1
        case.counts["dropped"] += len(drawn.body) - len(taken)
        case.counts["statements"] += len(taken)
        case.schedule = drawn.without(set(range(len(drawn.body))) - set(taken))
        for number, m in WINOGRAD.findall("\n".join(case.schedule.body)):
            case.program.ops[int(number)].fewer = int(m)
        for name in ("fuse", "vectorize", "tile", "pack"):
            case.counts[f"with {name}"] += case.counts[f"step {name}"] > 0
        text = " ".join(case.schedule.body)
        case.counts["with parallel"] += "parallel: true" in text or "parallelize" in text
        return
    case.fail("generator", "no schedule after twelve definite errors")


def _places(diagnostic: tcpx.Diagnostic) -> list[tcpx.Location | None]:
    return [diagnostic.schedule, *(place for _, place in diagnostic.calls)]


def _line(drawn: Drawn, places: list[tcpx.Location | None]) -> int | None:
    """The line of the body that one of these places is on."""
    for place in places:
        if place is not None and place.file == FILE:
            line = place.line - drawn.first_line()
            if 0 <= line < len(drawn.body):
                return line
    return None


def request(case: Case) -> tcpx.CompileRequest:
    """What to compile: the schedule as it stands without the attempts, of which `tcpx.check` has to say no error.

    Raises ParseError and ScheduleError.
    """
    assert case.module is not None
    name = "k" + hashlib.sha256(case.seed.encode()).hexdigest()[:12]
    if case.schedule is None:
        return tcpx.CompileRequest(case.module, None, None, name)
    program = tcpx.parse_schedule(case.schedule.text(attempts=False), FILE)
    params = case.schedule.params
    for finding in tcpx.check(program, case.module, params=params, target=case.target, threads=case.threads):
        if finding.is_error:
            case.fail("check says an error", finding.message, finding.render())
    return tcpx.CompileRequest(case.module, program, params, name)


def look_at_default(case: Case, kernel: tcpx.Kernel) -> None:
    """What the default schedule says of a program, of which it refuses nothing, and how many products are vectors. What
    is copied for strided results is said of the lowering, what is left out of the payload, what is slow of
    its statements: they have no place in a schedule."""
    for remark in kernel.remarks:
        if remark.message.startswith(COPIES) or remark.message.endswith(LEFT_OUT) or remark.factor:
            continue
        has_places = remark.payload is not None and remark.schedule is not None
        if (not has_places or "definite error" in remark.message) and not remark.message.endswith(LANE_BY_LANE):
            case.fail("a remark of the default schedule", remark.message, remark.render())
    assert isinstance(kernel.trace, Trace)
    changed = [
        change.split(" = ")[0].lstrip("%").split("~")[0].split(".")[0]
        for entry in kernel.trace.entries
        if entry.transform == "vectorize"
        for change in entry.changed
    ]
    products = [op.name for op in case.program.ops if op.family in PRODUCTS]
    case.counts["products by default"] += len(products)
    case.counts["products in vectors by default"] += sum(name in changed for name in products)


# ---------------------------------------------------------------- calls


def sizes(case: Case) -> Iterator[dict[str, int]]:
    """Values for the symbols: the least, then drawn ones; a program without symbols is called once."""
    if not case.program.symbols:
        yield {}
        return
    yield {s.name: s.least for s in case.program.symbols}
    for _ in range(2):
        yield case.program.draw_sizes(case.rng if _ == 0 else Random(f"{case.seed} {_}"), CAP)


def call_kernel(case: Case, kernel: tcpx.Kernel) -> None:
    """Call the kernel for several sizes, on guarded memory, and compare with the reference."""
    rng = case.rng
    for at, env in enumerate(sizes(case)):
        generator = np.random.default_rng(rng.randrange(2**32))
        style = rng.choices(["normal", "integers", "special"], [5, 4, 1])[0]
        arrays = {
            a.name: draw_array(generator, a.dtype, tuple(d.value(env) for d in a.shape), style)
            for a in case.program.arguments
        }
        wanted = case.program.run(env, arrays)
        for num in wanted:
            case.counts["elements"] += num.error.size
            case.counts["unknown elements"] += int((~np.isfinite(num.error)).sum())
        case.counts["calls"] += 1
        case.counts["symbolic calls"] += bool(env)
        case.counts["empty calls"] += any(0 in a.shape for a in [*arrays.values(), *wanted])
        what = f"sizes {env}, arguments {style}"
        call(case, kernel, arrays, wanted, rng, what)
        if at == 0 or (at == 1 and rng.random() < 0.5):
            evaluate(case, env, arrays, wanted, what)


def call(
    case: Case, kernel: tcpx.Kernel, arrays: dict[str, numbers.Array], wanted: list[numbers.Num], rng: Random, what: str
) -> None:
    """One call; inputs are read only, results poisoned, rows of what is strided apart."""
    at_end, given = rng.random() < 0.7, list[numbers.Array]()
    keep = list[Guarded]()
    for name, array in arrays.items():
        memory = Guarded(array.shape, array.dtype, gap=3 if name in case.program.strided else 0, at_end=at_end)
        memory.array[...] = array
        memory.freeze()
        keep.append(memory)
        other_order = array.ndim >= 2 and rng.random() < 0.1
        case.counts["copied arguments"] += other_order
        given.append(np.asfortranarray(array) if other_order else memory.array)
    outs = [
        Guarded(num.shape, numbers.DTYPES[num.dtype], gap=2 if k in case.program.strided_results else 0, at_end=at_end)
        for k, num in enumerate(wanted)
    ]
    try:
        if rng.random() < 0.85:
            results = tuple(o.array for o in outs)
            kernel(*given, out=outs[0].array if len(outs) == 1 else results)
            found = list(results)
        else:
            answer = kernel(*given)
            found = list(answer) if isinstance(answer, tuple) else [answer]
    except tcpx.TcpxError as error:
        case.fail("call refused", error.diagnostic.message, f"{what}\n{error}")
        return
    for k, (array, num) in enumerate(zip(found, wanted, strict=True)):
        if problem := numbers.mismatch(np.asarray(array), num):
            untouched = (np.ascontiguousarray(array).view(np.uint8) == POISON).all()
            case.fail("never written" if untouched else "wrong numbers", f"result {k}: {problem}", what)
    for k, memory in enumerate(outs):
        if stray := memory.stray_writes():
            case.fail("stray writes", f"result {k}: {stray} bytes outside of it were written", what)


def evaluate(
    case: Case, env: dict[str, int], arrays: dict[str, numbers.Array], wanted: list[numbers.Num], what: str
) -> None:
    """The oracle under the same bounds, where it does not take long."""
    assert case.module is not None
    iterations = sum(
        int(np.prod([d.value(env) for _, d, _ in op.dims], dtype=np.int64))
        for op in case.program.ops
        if op.opcode in {"generic", "loop"}
    )
    if iterations > EVALUATED_ITERATIONS:
        return
    case.counts["evaluated"] += 1
    try:
        answer = tcpx.evaluate(case.module, *arrays.values())
    except tcpx.TcpxError as error:
        case.fail("evaluate refused", error.diagnostic.message, f"{what}\n{error}")
        return
    found = answer if isinstance(answer, tuple) else (answer,)
    for k, (array, num) in enumerate(zip(found, wanted, strict=True)):
        if problem := numbers.mismatch(np.asarray(array), num):
            case.fail("wrong numbers of evaluate", f"result {k}: {problem}", what)
