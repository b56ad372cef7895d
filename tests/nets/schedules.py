"""Random schedules, statement by statement: what a transform declares says which arguments to draw, the payload as it
is then which of them are plausible.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations

import tcpx
from tcpx.payload.diagnostics import Kind, TcpxError
from tcpx.payload.interfaces import Structured, Tileable, map_dim
from tcpx.payload.ir import Operation
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.sizes import Dim, upper_bound
from tcpx.transform.declaration import Parameter, ParameterKind, Result, Transform
from tcpx.transform.tiling import start_of
from tests.nets import plausible
from tests.nets.session import Session

MOST = 12
TILES = (1, 2, 3, 4, 4, 5, 7, 8, 8, 16)
KEY = ("specialize", "tile", "fuse", "pack", "pad", "vectorize")
"""Transforms of which each pair has to meet in schedules; a plan runs them in this order."""
SPECIALIZE_WHEN = "specialize when"
LAST = ("bufferize", "lower_vectors", "select_instructions", "plan_memory")
"""After these there is nothing left to tile; they come at the end, in this order."""
DRAWS = 2
"""How often a statement that fails may be drawn again; a failure may stay in the schedule, in a `try`."""


@dataclass(slots=True)
class Counts:
    """What a set of cases has exercised."""

    cases: int = 0
    statements: int = 0
    succeeded: int = 0
    long_schedules: int = 0
    attempts: int = 0
    failed_attempts: int = 0
    compiled: int = 0
    refused: int = 0
    by_transform: Counter[str] = field(default_factory=Counter[str])
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    messages: Counter[str] = field(default_factory=Counter[str])

    def finish(self, applied: list[str], statements: int) -> None:
        """One more schedule."""
        self.cases += 1
        self.statements += statements
        self.succeeded += len(applied)
        self.long_schedules += len(applied) >= 5
        names = ["specialize" if n == SPECIALIZE_WHEN else n for n in applied]
        self.by_transform.update(applied)
        self.pairs.update(combinations([n for n in KEY if n in names], 2))


@dataclass(frozen=True, slots=True)
class Step:
    """A generated statement."""

    transform: str
    text: str
    failure: str | None = None

    @property
    def written(self) -> str:
        """As it stands in the schedule: what fails is tried."""
        return self.text if self.failure is None else f"try {{ {self.text} }}"


def message_kind(error: TcpxError) -> str:
    """What a diagnostic says, without the names and numbers it says it of."""
    text = re.sub(
        r"`[^`]*`|%[\w./~]+|\"[^\"]*\"|\[[^\]]*\]|[\w.~]+/[\w.~]+|\b[aotv]\d+\b|\d+", "_", error.diagnostic.message
    )
    return " ".join(text.split())


Accepts = Callable[[TcpxError | None, str], None]
"""Told of every statement that was run: its error or None, and its text."""


class RandomSchedule:
    """Draws statements and runs them in a session."""

    def __init__(self, seed: int, session: Session, counts: Counts, accepts: Accepts) -> None:
        self.random = random.Random(seed)
        self.session = session
        self.counts = counts
        self.accepts = accepts
        self.steps: list[Step] = []
        self.prefix: list[str] = []
        self.names = 0
        self.focus = ""
        self.running: list[str] = []
        self.failed: set[str] = set()
        self.transforms = tcpx.transforms()
        self.first_class = {op.name: op.opcode.partition(".")[2] for op in session.module.main.body.ops}

    # -- the schedule ------------------------------------------------------------------------------------------------

    @property
    def applied(self) -> list[str]:
        """The transforms of the statements that succeeded."""
        return [s.transform for s in self.steps if s.failure is None]

    @property
    def statements(self) -> list[str]:
        """All statements of the schedule, with the one that is being run."""
        return [*self.prefix, *(s.written for s in self.steps), *self.running]

    def make(self) -> None:
        """Draw a schedule."""
        for op in self.session.module.main.body.ops:
            if isinstance(op, Tileable):
                self.prefix.append(f'let {op.name} = match one "{op.name}" in root')
                self.session.run(self.prefix[-1])
        wanted = self.random.choice((3, 5, 6, 7, 8, 9, 10, 12))
        if 30 * self.counts.by_transform["hoist_accumulator"] <= self.counts.cases:
            self._accumulate_in_registers()
        for name in self._plan():
            if len(self.steps) < wanted:
                self._step(name)
        for _ in range(2 * wanted):
            if len(self.steps) >= wanted:
                break
            self._step(self._drawn())
        if self.random.random() < 0.3:
            for name in LAST[: self.random.randrange(1, len(LAST) + 1)]:
                if len(self.steps) < MOST:
                    self._step(name)

    def _plan(self) -> list[str]:
        """The pair of key transforms that has met least, with tile to make room for it, in a sensible order."""
        ranked = sorted(combinations(KEY, 2), key=lambda p: (self.counts.pairs[p], self.random.random()))
        wanted = {"tile", *ranked[0], *(n for n in KEY if self.random.random() < 0.25)}
        names = [n for n in KEY if n in wanted]
        if "specialize" in wanted:
            names[:1] = self.random.choice((["generalize", "specialize"], [SPECIALIZE_WHEN]))
        return names

    def _accumulate_in_registers(self) -> None:
        """The steps that lead to `hoist_accumulator`: chance hardly ever finds them."""
        for name, op in self.session.ops().items():
            if not isinstance(op, Structured) or op.neutral() is None:
                continue
            kept = [it.name for it in op.iterators() if not it.is_reduction]
            summed = [it.name for it in op.iterators() if it.is_reduction]
            if kept and summed:
                outer = [self._fresh("t") for _ in kept]
                inner = [self._fresh("t") for _ in summed]
                self._given(
                    "tile", f"let {', '.join(outer)} = tile({name}, [{', '.join(f'{d}: 4' for d in kept)}], tail: pad)"
                )
                self._given("tile", f"let {', '.join(inner)} = tile({name}, [{', '.join(f'{d}: 1' for d in summed)}])")
                self._given("vectorize", f"vectorize({outer[0]})")
                self._given("hoist_accumulator", f"hoist_accumulator({name}, out_of: {inner[-1]})")
                return

    def _given(self, name: str, text: str) -> None:
        self.counts.attempts += 1
        if self._run(text) is None:
            self.steps.append(Step(name, text))
        else:
            self.counts.failed_attempts += 1

    def _drawn(self) -> str:
        """A transform, those that succeeded least before the others."""
        names = [n for n in (*self.transforms, SPECIALIZE_WHEN) if n not in LAST]
        weights = [1 / (1 + self.counts.by_transform[n] + 3 * self.applied.count(n)) for n in names]
        return self.random.choices(names, weights)[0]

    def _step(self, name: str) -> None:
        """Draw one statement; a few times if it fails. The last failure may stay, unless many say the same."""
        failed: Step | None = None
        for _ in range(DRAWS):
            text = self._statement(name)
            if text is None or (text.partition("= ")[2] or text) in self.failed:
                continue
            error = self._run(text)
            self.counts.attempts += 1
            if error is None:
                self.failed.clear()
                self.steps.append(Step(name, text))
                return
            self.failed.add(text.partition("= ")[2] or text)
            self.counts.failed_attempts += 1
            failed = failed or Step(name, text, message_kind(error))
        if failed is not None and failed.failure is not None and self._is_fresh(failed.failure):
            self.counts.messages[failed.failure] += 1
            self.steps.append(failed)

    def _is_fresh(self, message: str) -> bool:
        total = sum(self.counts.messages.values())
        return self.counts.messages[message] < max(3, 0.08 * total) and self.random.random() < 0.6

    def _run(self, text: str) -> TcpxError | None:
        self.running = [text]
        failure: TcpxError | None = None
        try:
            self.session.run(text)
        except TcpxError as error:
            failure = error
        self.accepts(failure, text)
        self.running = []
        return failure

    # -- one statement -----------------------------------------------------------------------------------------------

    def _fresh(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def _statement(self, name: str) -> str | None:
        if name == SPECIALIZE_WHEN:
            return self._versions()
        transform = self.transforms[name]
        drawn = _Arguments(self, transform)
        written = drawn.draw()
        if written is None:
            return None
        names = self._results(transform, drawn)
        binding = f"let {', '.join(names)} = " if names else ""
        return f"{binding}{name}({', '.join(written)})"

    def _results(self, transform: type[Transform], drawn: _Arguments) -> list[str]:
        names: list[str] = []
        for result in transform.results:
            if result is Result.LOOPS:
                names += [self._fresh("t") for _ in range(drawn.entries)]
            elif result is not Result.VALUE:
                names.append(self._fresh("t" if result is Result.LOOP else "o"))
        return names

    def _versions(self) -> str | None:
        """`specialize x when ... { tile } else { tile }`."""
        symbolic = [
            (name, d)
            for name, op in self.session.ops().items()
            if isinstance(op, Tileable)
            for d, size in zip((it.name for it in op.iterators()), op.domain(), strict=True)
            if not isinstance(size, int)
        ]
        if not symbolic:
            return None
        name, dim = self.random.choice(symbolic)
        number = self.random.choice((2, 3, 4, 5, 8))
        condition = self.random.choice(
            (f"size({name}.{dim}) < {number}", f"size({name}.{dim}) >= {number}", f"size({name}.{dim}) % {number} == 0")
        )
        blocks: list[str] = []
        for _ in range(2):
            inside = f"let {self._fresh('t')} = tile({name}, [{dim}: {self.random.choice(TILES)}]{self._tail()})"
            if self.random.random() < 0.3:
                inside += f"; vectorize(t{self.names})"
            blocks.append(f"{{ {inside} }}" if self.random.random() < 0.8 else "{ }")
        return f"specialize {name} when {condition} {blocks[0]} else {blocks[1]}"

    def _tail(self) -> str:
        return self.random.choice(("", ", tail: pad", ", tail: pad", ", tail: peel"))


class _Arguments:
    """Arguments for one call, drawn one after the other: each may depend on those before."""

    def __init__(self, schedule: RandomSchedule, transform: type[Transform]) -> None:
        self.schedule = schedule
        self.random = schedule.random
        self.session = schedule.session
        self.transform = transform
        self.op: Operation | None = None
        self.name = ""
        self.operand = -1
        self.loop: Loop | None = None
        self.entries = 0

    def draw(self) -> list[str] | None:
        """The arguments as they are written; None if there is nothing to draw one from."""
        written: list[str] = []
        for parameter in self.transform.parameters:
            if not parameter.is_required and self.random.random() > self._chance_of(parameter):
                continue
            value = self._value(parameter)
            if value is None:
                return None
            written.append(value if parameter.is_required and not written else f"{parameter.name}: {value}")
        return written

    def _chance_of(self, parameter: Parameter) -> float:
        return {ParameterKind.ENUM: 0.75, ParameterKind.BOOL: 0.2}.get(parameter.type.kind, 0.4)

    def _value(self, parameter: Parameter) -> str | None:
        kind = parameter.type.kind
        draw = self._draws().get(kind)
        if draw is None:
            raise KeyError(f"{self.transform.name}: nothing draws a parameter of kind {kind.value}")
        return draw(parameter)

    def _draws(self) -> dict[ParameterKind, Callable[[Parameter], str | None]]:
        return {
            ParameterKind.OP: self._op,
            ParameterKind.LOOP: self._loop,
            ParameterKind.OP_OR_LOOP: self._op_or_loop,
            ParameterKind.OPS: lambda p: self._listed(self._op, p),
            ParameterKind.LOOPS: lambda p: self._listed(self._loop, p),
            ParameterKind.VALUE: self._operand,
            ParameterKind.FUNC: lambda _: "root",
            ParameterKind.DIM: lambda _: self._some(self._dims()),
            ParameterKind.DIMS: lambda _: f"[{', '.join(self._shuffled(self._dims()))}]",
            ParameterKind.DIM_SIZES: lambda _: self._dim_sizes(),
            ParameterKind.LAYOUT: lambda _: self._layout(),
            ParameterKind.INT: lambda _: str(self.random.choice((2, 2, 3, 4, 1))),
            ParameterKind.INTS: lambda _: "[2, 3]",
            ParameterKind.SIZE: lambda _: self._size(),
            ParameterKind.FLOAT: lambda _: "0.5",
            ParameterKind.BOOL: lambda _: self.random.choice(("true", "false")),
            ParameterKind.STRING: lambda _: '"seen"',
            ParameterKind.NAME: lambda _: self._class_name(),
            ParameterKind.ENUM: lambda p: self.random.choice(p.type.choices),
            ParameterKind.DTYPE: lambda _: self.random.choice(("f32", "f64")),
            ParameterKind.PREDICATE: lambda _: "true",
        }

    def _some(self, names: list[str]) -> str | None:
        return self.random.choice(names) if names else None

    def _shuffled(self, names: list[str]) -> list[str]:
        return self.random.sample(names, len(names))

    def _listed(self, draw: Callable[[Parameter], str | None], parameter: Parameter) -> str | None:
        items = [draw(parameter) for _ in range(self.random.choice((1, 2)))]
        return f"[{', '.join(dict.fromkeys(i for i in items if i))}]" if any(items) else None

    # -- operations and loops ----------------------------------------------------------------------------------------

    def _op(self, parameter: Parameter) -> str | None:
        """A live operation of the class asked for; now and then the start of one, or the one of the step before."""
        wanted = parameter.type.op_class
        fits = plausible.OPS.get(self.transform.name, lambda _: True)
        ops = {n: op for n, op in self.session.ops().items() if not wanted or wanted in op.tree_classes()}
        known = {n: op for n, op in ops.items() if fits(op) or self.random.random() < 0.03}
        if not known:
            return None
        takes_loop = any(p.type.kind is ParameterKind.LOOP for p in self.transform.parameters)
        if takes_loop:
            known = self._beside_loops(known) or known
        focus = self.schedule.focus
        chosen = focus if focus in known and not takes_loop and self.random.random() < 0.5 else self._some(list(known))
        if chosen is None:
            return None
        if not takes_loop:
            self.schedule.focus = chosen
        self.op, self.name = known[chosen], chosen
        if (
            takes_loop
            and isinstance(self.op, Tileable)
            and start_of(self.op) is not None
            and self.random.random() < 0.4
        ):
            start = start_of(self.op)
            self.op = start if start is not None else self.op
            return f"{chosen}.start"
        return chosen

    def _beside_loops(self, known: dict[str, Operation]) -> dict[str, Operation]:
        """Those that feed a loop or read its result, or accumulate in one."""
        loops = list(self.session.loops().values())
        return {n: op for n, op in known.items() if any(_related(op, loop) for loop in loops)}

    def _loop(self, parameter: Parameter) -> str | None:
        del parameter
        known = self.session.loops()
        if self.op is not None:
            related = {n: loop for n, loop in known.items() if _related(self.op, loop)}
            known = related if related and self.random.random() < 0.9 else known
        fits = plausible.LOOPS.get(self.transform.name, lambda _: True)
        known = {n: loop for n, loop in known.items() if fits(loop) or self.random.random() < 0.04}
        chosen = self._some(list(known))
        self.loop = known[chosen] if chosen is not None else None
        return chosen

    def _op_or_loop(self, parameter: Parameter) -> str | None:
        draw = self.random.random()
        if draw < 0.4:
            return "root"
        return (self._loop(parameter) if draw < 0.8 else self._op(parameter)) or "root"

    def _operand(self, parameter: Parameter) -> str | None:
        """An operand of an operation in a loop, by role; or its result."""
        del parameter
        known = {n: op for n, op in self.session.ops().items() if isinstance(op, Structured)}
        known = {n: op for n, op in known.items() if op.inputs and any(isinstance(a, Loop) for a in op.ancestors())}
        chosen = self._some(list(known))
        if chosen is None:
            return None
        self.op, self.name = known[chosen], chosen
        roles = list(self.op.operand_roles)[: len(self.op.inputs)]
        if not roles or self.random.random() < 0.1:
            return f"{chosen}.out"
        role = self.random.choice(roles)
        self.operand = roles.index(role)
        return f"{chosen}.{role}"

    # -- dims and sizes ----------------------------------------------------------------------------------------------

    def _dims(self) -> list[str]:
        return [it.name for it in self.op.iterators()] if isinstance(self.op, Tileable) else []

    def _dim_sizes(self) -> str | None:
        """A size for some dims: those that are symbolic before the others."""
        if not isinstance(self.op, Tileable) or not self._dims():
            return None
        extents = dict(zip(self._dims(), self.op.domain(), strict=True))
        if Result.OP in self.transform.results:
            extents = {d: n for d, n in extents.items() if upper_bound(n) is not None} or extents
        chosen = [d for d, n in extents.items() if self.random.random() < (0.85 if not isinstance(n, int) else 0.35)]
        chosen = self._shuffled(chosen or [self.random.choice(list(extents))])
        self.entries = len(chosen)
        return f"[{', '.join(f'{d}: {self._tile_size(d, extents[d])}' for d in chosen)}]"

    def _tile_size(self, dim: str, extent: Dim) -> str:
        draw = self.random.random()
        grows = Result.OP in self.transform.results
        bound = upper_bound(extent)
        if grows and bound is not None and draw < 0.85:
            return str(self.random.choice((bound, -(-bound // 4) * 4, bound + 1)))
        if draw < 0.08:
            return f"max(1, ceildiv(size({self.name}.{dim}), 2))"
        return str(self.random.choice(TILES))

    def _layout(self) -> str | None:
        op = self.op
        if not isinstance(op, Structured) or not 0 <= self.operand < len(op.maps()):
            return "[d0]"
        names = [n for n in map(map_dim, op.maps()[self.operand]) if n is not None]
        if self.random.random() < 0.3 and len(names) > 1:
            names = names[1:]
        digits = self._shuffled(names)
        at = self.random.randrange(len(digits)) if digits else 0
        draw = self.random.random()
        if digits and draw < 0.15:
            digits[at] = f"{digits[at]} pad 8"
        elif digits and draw < 0.3:
            split = digits[at]
            digits = [f"{split}/4", *(d for d in digits if d != split), f"{split}%4"]
        return f"[{', '.join(digits)}]"

    def _size(self) -> str:
        step = self.loop.var.step if self.loop is not None else 1
        lower = self.loop.var.lower if self.loop is not None else 0
        if isinstance(step, int) and isinstance(lower, int) and self.random.random() < 0.8:
            return str(lower + step * self.random.choice((1, 1, 2, 3)))
        return str(self.random.choice(TILES))

    def _class_name(self) -> str:
        """The class the operation was before it was generalized, or another of the tree."""
        before = self.schedule.first_class.get(self.name)
        if before is not None and self.random.random() < 0.8:
            return before
        return self.random.choice(("contract", "matmul", "elementwise", "reduce_sum", "transpose", "generic"))


def _related(op: Operation, loop: Loop) -> bool:
    """Whether the loop holds the operation, reads what it makes, or makes what it reads."""
    if op.is_in(loop):
        return True
    outermost = {id(a) for a in (loop, *loop.ancestors())}
    made = [v.defining_op for v in op.operands]
    if any(id(m) in outermost for m in made if m is not None):
        return True
    readers = [u for r in op.results for u in r.users]
    return any(u is loop or u.is_in(loop) for u in readers)


def is_located(error: TcpxError) -> str | None:
    """None if a failure says what a failure has to say; else what is missing."""
    found = error.diagnostic
    if found.kind is Kind.INTERNAL:
        return "an internal error"
    if found.schedule is None:
        return "no place in the schedule"
    if not found.message:
        return "no message"
    return None if found.required or found.found or found.fix else "neither what was required nor what was found"
