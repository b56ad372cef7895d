"""The parts of a scheduled payload that are tuned by themselves: each function that it calls, and its own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil, prod
from typing import Final

import numpy as np

from tcpx.assignment import Assignment, ParamValue, in_any_function
from tcpx.costs.work import asked_for
from tcpx.interp import CalledFunctions, KnobUse, Run, TraceEntry, run_schedule
from tcpx.module_copies import copy_module
from tcpx.payload.contraction import CONTRACT, may_contract
from tcpx.payload.diagnostics import TcpxError
from tcpx.payload.ir import CloneMap, FuncOp, Module, Operation, OpT
from tcpx.payload.ops.call import Call
from tcpx.payload.ops.generic import Return
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.runs import executions
from tcpx.payload.sizes import evaluate
from tcpx.payload.traits.call import Calling
from tcpx.payload.traits.constant import Constant
from tcpx.payload.types import f32
from tcpx.payload.value_ranges import RANGES, declared_ranges, range_entries
from tcpx.payload.verifier import verify_module
from tcpx.records import frozen
from tcpx.target import Target
from tcpx.target.calibration import RATED_VECTORS
from tcpx.target.predicted_costs import UNKNOWN_MEMORY
from tcpx.transform import new
from tcpx.transform.language.loader import Program
from tcpx.transform.outlining import inline

CALL: Final = f"= {Call.opcode}"
"""Of what a step made or changed: calls, so that there may be a function that was not there before."""
_NUMBER: Final = re.compile(r"\.\d+$")
MOST_CALLS: Final = 32
"""Calls of a function in the payload that it is tuned in, at most."""
CACHES: Final = 2
"""So many times the last cache is more than what is there when the first of the constants is read again."""
NEGLIGIBLE: Final = 1 / 50
"""Where reading constants from memory takes less of the time of the arithmetic, they may as well be in a cache."""

Sizes = tuple[tuple[str, int], ...]


@frozen
class Part:
    """A function that is called once the schedule has run, or with an empty key some of the payload's own knobs.

    `functions` are the names that it has then: its own, and those of equal ones and of copies. `payload` is what it is
    tuned in, and `calls` how often this calls it: with `alone` a function that does nothing else, each time with other
    constants, so that none is in a cache where that matters; else the whole payload, where the schedule says something
    else of the function than it says there. `fixed` are params for the knobs of other functions, as they are now, and
    `held` those that are not searched, as a survey of the space calls them.
    """

    key: str
    functions: tuple[str, ...]
    payload: Module
    alone: bool
    calls: int
    sizes: Mapping[Sizes, int]
    fixed: Mapping[str, ParamValue]
    held: Mapping[str, ParamValue]


@frozen
class BeforeLoops:
    """A payload after the last step before the first one that made a loop, such as in the orders of dims that were
    chosen for it, and for each operation the origins that it has in the run of the schedule."""

    module: Module
    origins: Mapping[Operation, tuple[int, ...]]
    is_last: bool = False

    @staticmethod
    def of_payload(module: Module) -> BeforeLoops:
        """Before the first step, which numbers operations in their order."""
        return BeforeLoops(module, {op: (number,) for number, op in enumerate(module.walk())}, _has_loops(module))

    def after(self, step: TraceEntry, payload: Module) -> BeforeLoops:
        """What it is after a step, by which the payload came to be this one."""
        if self.is_last or not step.changed:
            return self
        if _has_loops(payload):
            return replace(self, is_last=True)
        module = copy_module(payload)
        pairs = zip(module.walk(), payload.walk(), strict=True)
        return BeforeLoops(module, {op: scheduled.origins for op, scheduled in pairs})


@frozen
class Parts:
    """Those of a payload: by what a run of the schedule over it found."""

    module: Module
    program: Program
    target: Target
    threads: int
    params: Mapping[str, ParamValue]
    run: Run
    called: CalledFunctions
    functions: Mapping[str, CameUp]
    """By their names: those that there were after some step."""
    before_loops: BeforeLoops

    @staticmethod
    def of(
        module: Module, program: Program, target: Target, threads: int, params: Mapping[str, ParamValue] | None
    ) -> Parts:
        """Run the schedule over a copy. Raises ScheduleError."""
        copy, found = copy_module(module), dict[str, CameUp]()
        before = BeforeLoops.of_payload(module)

        def note() -> None:
            snapshot: Module | None = None
            for func in copy.funcs.values():
                if func is copy.main or func.row is not None or func.clone_of is not None:
                    continue
                if func.name not in found:
                    snapshot = snapshot or copy_module(copy)
                    found[func.name] = CameUp(snapshot, {})
                found[func.name].note(func)

        def after(step: TraceEntry) -> None:
            nonlocal before
            if any(CALL in text for text in step.changed):
                note()
            before = before.after(step, copy)

        note()
        run = run_schedule(
            copy,
            program,
            target,
            threads=threads,
            params=params,
            by_function=True,
            on_step=after,
        )
        called = run.functions or CalledFunctions(copy)
        return Parts(module, program, target, threads, dict(params or {}), run, called, found, before)

    @property
    def keys(self) -> Mapping[str, str]:
        """The key of each function that has knobs, by its name."""
        known = self.called.keys
        return {func.name: known[func] for func in self.run.module.funcs.values() if func in known}

    def part(self, key: str, sizes: Sequence[Mapping[str, int]], values: Assignment) -> Part:
        """What a function is tuned in, where the payload is called with these sizes, and other functions and the
        payload's own knobs have these values."""
        origin = self.called.at(key).name
        if origin in self.functions:
            for inlined in (False, True):
                found = self._alone(key, origin, inlined, sizes, values.of_functions)
                if found is not None:
                    return found
        run = self.run_over(self.module, values)
        return Part(key, self.named(key), self.module, False, 1, _whole(sizes), *_held(run, key))

    def within(
        self, names: tuple[str, ...], paths: Collection[str], sizes: Sequence[Mapping[str, int]], values: Assignment
    ) -> Part:
        """Some of the payload's own knobs, by their paths: they are tuned in the whole payload, and all others have the
        values that they have by now."""
        run = self.run_over(self.module, values)
        fixed, held = _held(run, "")
        others = dict(use.param(use.path) for use in _settable(run) if not use.function and use.path not in paths)
        return Part("", names, self.module, False, 1, _whole(sizes), {**fixed, **others}, {**held, **others})

    def run_over(self, payload: Module, values: Mapping[str, ParamValue] | None = None) -> Run:
        """What the schedule does in a copy of a payload with these values. Raises ScheduleError."""
        copy, params = copy_module(payload), Assignment(values) | self.params
        return run_schedule(copy, self.program, self.target, threads=self.threads, params=params, by_function=True)

    def with_records(self, values: Assignment) -> Assignment:
        """Params for the payload with these values, those of functions by their paths in it."""
        uses = self.run_over(self.module, values.of_functions).knobs if values.of_functions else ()
        return values.of_payload | dict(use.param(use.path) for use in uses if use.is_recorded) | self.params

    def knobs(self, key: str) -> list[KnobUse]:
        """Those of a function."""
        return [use for use in self.run.knobs if use.function == key]

    def named(self, key: str) -> tuple[str, ...]:
        """The functions of a key."""
        return tuple(name for name, held in self.keys.items() if held == key)

    def function_of(self, names: Sequence[str]) -> str:
        """The function that the first of some operations of the payload became a part of, empty for none: `names` are
        those of it and of all that follow it. A call has the name of the last operation that it stands for, and a
        number behind it where that was there."""
        found = [(call.name, name) for name, held in self.functions.items() for call in held.calls]
        calls = {**{_NUMBER.sub("", call): name for call, name in found}, **dict(found)}
        for behind, name in enumerate(names):
            if name in calls:
                body = self.functions[calls[name]].module.funcs[calls[name]].body
                return calls[name] if behind < len(body.ops) - 1 else ""
        return ""

    def sizes_of_calls(self, key: str, sizes: Sequence[Mapping[str, int]]) -> Counter[Sizes]:
        """How often a function is called with which sizes, where the payload is called once with each of these."""
        names, found = self.named(key), Counter[Sizes]()
        for values in sizes:
            for (callee, bound), times in calls_of(self.run.module.main, values).items():
                if callee.name in names:
                    found[bound] += times
        return found

    def _alone(
        self, key: str, origin: str, inlined: bool, sizes: Sequence[Mapping[str, int]], values: Assignment
    ) -> Part | None:
        """None where the schedule cannot be applied to the function by itself, or does something else there."""
        found = self.sizes_of_calls(key, sizes)
        every = sum(
            _bytes(op, self.run.module) for f in self.functions.values() for row in f.given for op in row.values()
        )
        try:
            payload, calls = self._repeated(self.functions[origin], origin, self.run.module, found, every, inlined)
            run = self.run_over(payload, values)
        except TcpxError:
            return None
        own = [use for use in run.knobs if use.function == key]
        if not found or {use.place for use in own} != {use.place for use in self.knobs(key)}:
            return None
        if not inlined and not all(use.path.startswith(f"@{origin}:") for use in own):
            return None  # the schedule made a function of the function
        return Part(key, self.named(key), payload, True, calls, found, *_held(run, key))

    def alone_of(self, came_up: CameUp, name: str, module: Module, sizes: Iterable[Sizes]) -> tuple[Module, int]:
        """A payload that does nothing but call a function of a module that has all constants, with one of these sizes,
        and how often. Raises VerifyError."""
        every = sum(_bytes(op, module) for op in module.walk())
        return self._repeated(came_up, name, module, sizes, every, False)

    def _repeated(
        self, came_up: CameUp, name: str, module: Module, sizes: Iterable[Sizes], every: int, inlined: bool
    ) -> tuple[Module, int]:
        """A payload that calls a function so often that none of its constants is in a cache, where that matters: of
        `every` byte of constants of the whole payload."""
        size, func = came_up.constant_bytes(module), came_up.module.funcs[name]
        operations = [sum(o.total() for o in asked_for(func, dict(s), self.target).values()) for s in sizes]
        computing = min(operations, default=0.0) / (2 * self.target.vector_bits / f32.bits)
        memory = self.target.memory_rates[0] / RATED_VECTORS or self.target.l3_rate / UNKNOWN_MEMORY
        is_repeated = size > NEGLIGIBLE * computing * memory
        wanted = min(every, CACHES * self.target.l3)
        calls = min(MOST_CALLS, max(1, ceil(wanted / size))) if is_repeated else 1
        return came_up.alone(name, calls, module, inlined), calls


def calls_of(func: FuncOp, sizes: Mapping[str, int]) -> Counter[tuple[FuncOp, Sizes]]:
    """How often a function calls others, directly or not, and with which sizes. A call in a loop counts once, at the
    start of the loop."""
    found: Counter[tuple[FuncOp, Sizes]] = Counter()
    for call, known, _ in executions(func.body, sizes):
        if (called := Calling(call).callee) is not None:
            passed = {symbol.name: evaluate(dim, known) for symbol, dim in Calling(call).binding.items()}
            found[called, tuple(passed.items())] += 1
            found += calls_of(called, passed)
    return found


@frozen
class CameUp:
    """A function when it came up: the payload then, and of each of its calls, by what is called the same, the operands
    that are constants, by their positions."""

    module: Module
    calls: dict[Operation, dict[int, Operation]]

    def note(self, func: FuncOp) -> None:
        """Look at its calls again: others may have come."""
        for call in func.callers():
            self.note_call(call)

    def note_call(self, call: Operation) -> None:
        """A call of it, or of a function that is equal."""
        made = enumerate(value.defining_op for value in call.operands)
        held = {k: op.clone(CloneMap(), str) for k, op in made if op is not None and Constant.of(op) is not None}
        self.calls.setdefault(call, held)

    @property
    def given(self) -> list[dict[int, Operation]]:
        """For each call, the operands that are constants in every call."""
        rows = list(self.calls.values())
        return [{k: op for k, op in row.items() if all(k in other for other in rows)} for row in rows]

    def constant_bytes(self, scheduled: Module) -> int:
        """Those of the constants of a call, at most; `scheduled` has them."""
        return max(sum(_bytes(op, scheduled) for op in row.values()) for row in self.given)

    def alone(self, name: str, count: int, scheduled: Module, inlined: bool) -> Module:
        """A payload that does nothing but call the function so often: with the constants of its callers, in turn, and
        then with copies of them. With `inlined` what it does stands in the place of each call, for schedules that make
        the function of it themselves. `scheduled` has all constants. Raises VerifyError where it takes what only a
        caller can give, such as state."""
        made, given = copy_module(self.module), self.given
        func = made.funcs[name]
        free = [k for k in range(len(func.inputs)) if k not in given[0]]
        main = FuncOp(f"{name}.alone", [(func.inputs[k].name, func.inputs[k].type) for k in free], func.symbols)
        main.location = func.location
        ranges = {free.index(k): held for k, held in declared_ranges(func).items() if k in free}
        if ranges:
            main.attributes[RANGES] = range_entries(ranges)
        if not may_contract(self.module.main):
            main.attributes[CONTRACT] = False
        made.entry = main.name
        rewriter = Rewriter(made)
        rewriter.add_function(main)
        calls: list[Call] = []

        def insert(op: OpT, name: str = "") -> OpT:
            return rewriter.insert(op, InsertPoint.end(main.body), name)

        for n in range(count):
            values = dict(zip(free, main.args, strict=True))
            for k, op in given[n % len(given)].items():
                own = _copied(made, op, n // len(given), scheduled)
                values[k] = insert(own, f"{func.inputs[k].name}.{n}").result
            calls.append(insert(Call.of(func, [values[k] for k in range(len(func.inputs))]), f"call.{n}"))
        insert(Return([result for call in calls for result in call.results]))
        for other in [f for f in made.funcs.values() if f not in made.reached(main)]:
            made.remove(other)
        for call in calls if inlined else ():
            inline(rewriter, call)
        used = {Constant(op).stored_array for op in made.walk()}
        for stored in [held for held in made.constants if held not in used]:
            made.constants.remove(stored)
        verify_module(made)
        return made


def _has_loops(module: Module) -> bool:
    return any(isinstance(op, Loop) for op in module.walk())


def _copied(module: Module, op: Operation, number: int, scheduled: Module) -> Operation:
    """A constant; of a copy, with its rows in another order, so that it lies elsewhere in memory."""
    name = Constant(op).stored_array
    array = scheduled.constants.get(name) if name is not None else None
    if name is None or array is None:
        return op.clone(CloneMap(), str)
    stored = f"{name}.copy{number}" if number and array.ndim else name
    if stored not in module.constants:
        module.constants.keep(stored, np.roll(array, number, axis=0) if number and array.ndim else array)
    return new.stored(stored, op.result.type)


def _bytes(op: Operation, module: Module) -> int:
    """Of a constant that is stored."""
    name = Constant(op).stored_array
    header = module.constants.header(name) if name is not None else None
    return prod(header.shape) * header.dtype.itemsize if header is not None else 0


def _whole(sizes: Sequence[Mapping[str, int]]) -> Counter[Sizes]:
    """The sizes of calls of the payload."""
    return Counter(tuple(values.items()) for values in sizes)


def _settable(run: Run) -> list[KnobUse]:
    """The knobs but those that follow from sizes: these have no other value."""
    return [use for use in run.knobs if isinstance(use.value, int | float | str)]


def _held(run: Run, key: str) -> tuple[dict[str, ParamValue], dict[str, ParamValue]]:
    """What the knobs are that are not of a function, by their paths: those of other functions, and all of them by what
    they are called where no step is taken, as in a survey of the space, so that functions are not there yet; but for
    those that the function has too."""
    own = {in_any_function(use.path) for use in run.knobs if use.function == key}
    uses = [use for use in _settable(run) if use.function != key]
    plain = dict(use.param(in_any_function(use.path)) for use in uses)
    fixed = dict(use.param(use.path) for use in uses if use.function)
    return fixed, {path: value for path, value in plain.items() if path not in own}
