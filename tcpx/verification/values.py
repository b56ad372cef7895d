"""The operation of a payload that is computed wrong: values on the way, compared one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tcpx.api import compile
from tcpx.interp import ParamValue
from tcpx.loading import PayloadLike, module_of
from tcpx.module_copies import copy_module
from tcpx.parts import Parts
from tcpx.payload.contraction import CONTRACT, may_contract
from tcpx.payload.diagnostics import Diagnostic, TcpxError
from tcpx.payload.evaluator import Array, Evaluation, check_arguments
from tcpx.payload.ir import CloneMap, FuncOp, Module, Operation, Value, defined_by
from tcpx.payload.ops.generic import Return
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes import Symbol, as_symbol, symbols
from tcpx.payload.traits.constant import Constant
from tcpx.payload.types import shape_of
from tcpx.payload.verifier import verify_module
from tcpx.records import brief, frozen
from tcpx.target import Target
from tcpx.transform.language.embedded import Schedulable
from tcpx.verification.bisection import bisect
from tcpx.verification.numbers import Deviation, deviation
from tcpx.verification.steps import Setting, WrongStep

EVALUATOR: Final = "the reference evaluator"


@frozen
class WrongValue:
    """The first operation whose result deviates although what it reads is right. `function` is the one that computes it
    once the schedule has run, empty for the payload itself; `step` the step of the schedule that makes the operation
    wrong by itself, where there is one. With `against` the payload itself gives something else than that does."""

    operation: Operation
    value: str
    deviation: Deviation
    function: str = ""
    step: WrongStep | None = None
    against: str = EVALUATOR
    notes: tuple[str, ...] = ()

    def diagnostic(self) -> Diagnostic:
        """As an error, at the operation, which in a model of ONNX is a node, and at the step."""
        op = self.operation
        of = f" of @{self.function}" if self.function else ""
        if self.against == EVALUATOR:
            what, who = "the compiled kernel computes it wrong", EVALUATOR
        else:
            what, who = f"the payload computes something else than {self.against}", self.against
        step = self.step.diagnostic() if self.step is not None else None
        return Diagnostic(
            f"%{op.name or self.value}{of}: {what}, from operands that are right",
            schedule=step.schedule if step is not None else None,
            payload=op.location,
            required=f"what {who} computes for %{self.value}, but for rounding",
            found=str(self.deviation),
            notes=(*((step.message,) if step is not None else ()), *self.notes),
            calls=step.calls if step is not None else (),
        )


@frozen
class ValueBisection:
    """How many values were compared with those of another implementation, how many kernels were compiled, and what is
    wrong, None for nothing."""

    compared: int
    kernels: int
    wrong: WrongValue | None

    def __repr__(self) -> str:
        return brief(
            "ValueBisection", f"{'one value is wrong' if self.wrong else 'nothing wrong'}, {self.kernels} kernel(s)"
        )

    def diagnostic(self) -> Diagnostic | None:
        """As an error; None where nothing is wrong."""
        return self.wrong.diagnostic() if self.wrong is not None else None


def bisect_values(
    module: PayloadLike,
    schedule: Schedulable | None,
    *arrays: Array,
    others: Mapping[str, Array] | None = None,
    against: str = EVALUATOR,
    params: Mapping[str, ParamValue] | None = None,
    target: str | Target = "native",
    threads: int = 1,
    seed: int = 0,
    on_probe: Callable[[int], None] = lambda count: None,
) -> ValueBisection:
    """Find the operation of a payload that is computed wrong for these arrays.

    First the values that the reference evaluator computes are compared with `others`, those of another implementation
    by their names in the payload, in the order of the operations. Then the compiled kernel is compared with the
    evaluator; where it deviates, kernels of parts of the payload are compiled, which start with values that are right,
    by binary search over cuts between operations: about log2(n) for n of them, each for half as many operations. Where
    parts are right by themselves, or the schedule cannot be applied to them, kernels of all of it are, which also
    return the values at a cut. The operation is run through `bisect` by itself, which finds a step that makes it
    wrong. Raises what compilation and calls raise.
    """
    module = module_of(module)
    setting = Setting.of(module, schedule, params, target, threads)
    ops = [op for op in module.main.body.ops if not op.is_terminator]
    values = _evaluated(module, arrays, seed)
    compared = 0
    for op in ops:
        for value in op.results:
            wanted = (others or {}).get(value.name)
            if wanted is None or wanted.shape != values[value].shape:
                continue
            compared += 1
            found = deviation(values[value], wanted)
            if found is not None:
                notes = ("the model was read wrong, a constant is another one, or the evaluator is at fault",)
                return ValueBisection(compared, 0, WrongValue(op, value.name, found, against=against, notes=notes))
    cuts = [k for k, op in enumerate(ops, 1) if Constant.of(op) is None]
    kernels = _Kernels(setting, ops, arrays, values, on_probe)
    if not cuts or kernels.wrong_at(cuts[-1]) is None:
        return ValueBisection(compared, kernels.count, None)
    cut = _found(cuts, kernels.part_wrong) or _found(cuts, lambda _, end: kernels.wrong_at(end))
    return ValueBisection(compared, kernels.count, kernels.named(cut, seed) if cut is not None else None)


Probe = Callable[[int, int], "tuple[Value, Deviation] | None"]


def _found(cuts: Sequence[int], probe: Probe) -> tuple[int, tuple[Value, Deviation]] | None:
    """The first cut behind which something is wrong, and what, by binary search: `probe` looks at what is between a
    cut behind which all is right and a later one. None where it finds nothing, or cannot be asked."""
    right, wrong, found = -1, len(cuts) - 1, None
    try:
        while wrong - right > 1:
            middle = (right + wrong) // 2
            tried = probe(cuts[right] if right >= 0 else 0, cuts[middle])
            if tried is None:
                right = middle
            else:
                wrong, found = middle, (cuts[middle], tried)
        if found is None or found[0] != cuts[wrong]:
            tried = probe(cuts[right] if right >= 0 else 0, cuts[wrong])
            found = (cuts[wrong], tried) if tried is not None else None
    except TcpxError:  # a part to which the schedule cannot be applied
        return None
    return found


def _evaluated(module: Module, arrays: Sequence[Array], seed: int) -> Mapping[Value, Array]:
    """All values of the payload's own function."""
    evaluation = Evaluation(module.constants, check_arguments(module.main, arrays), seed)
    evaluation.run_block(module.main.body, [array.copy() for array in arrays])
    return evaluation.values


class _Kernels:
    """Kernels that return what there is between two operations."""

    def __init__(
        self,
        setting: Setting,
        ops: Sequence[Operation],
        arrays: Sequence[Array],
        values: Mapping[Value, Array],
        on_probe: Callable[[int], None],
    ) -> None:
        self.setting, self.ops, self.arrays, self.values, self.on_probe = setting, ops, arrays, values, on_probe
        self.count = 0
        self.found: dict[int, tuple[Value, Deviation] | None] = {}

    def wrong_at(self, cut: int) -> tuple[Value, Deviation] | None:
        """The last of the values behind so many operations that is wrong."""
        if cut not in self.found:
            live, end = self._live(cut), self.setting.module.main.returned
            returned = list(dict.fromkeys([*end, *live])) if len(set(end)) == len(end) else [*end, *live]
            results = self._run(_returning(self.setting.module, returned[len(end) :]), self.arrays)
            pairs = zip(returned, results, strict=True)
            deviations = [(v, deviation(array, self.values[v])) for v, array in pairs if v in live]
            self.found[cut] = next(((v, apart) for v, apart in reversed(deviations) if apart is not None), None)
        return self.found[cut]

    def part_wrong(self, start: int, end: int) -> tuple[Value, Deviation] | None:
        """The same of the values behind `end`, of a kernel that computes nothing but what is between, from values that
        are right. Raises TcpxError where the schedule cannot be applied to that."""
        live = [v for v in self._live(end) if v.defining_op in self.ops[start:end]]
        if not live:
            return None
        module, given = segment(self.setting.module, self.ops[start:end], live)
        results = self._run(module, [self.values[value] for value in given])
        deviations = [(v, deviation(array, self.values[v])) for v, array in zip(live, results, strict=True)]
        return next(((v, apart) for v, apart in reversed(deviations) if apart is not None), None)

    def _run(self, module: Module, arrays: Sequence[Array]) -> tuple[Array, ...]:
        self.count += 1
        self.on_probe(self.count)
        setting = self.setting
        kernel = compile(
            module,
            setting.program,
            params=setting.params,
            target=setting.target,
            threads=setting.threads,
            cache=False,
        )
        results = kernel(*(array.copy() for array in arrays))
        return results if isinstance(results, tuple) else (results,)

    def _live(self, cut: int) -> list[Value]:
        """What is computed before and read behind, in the order of the operations; at the end what is returned."""
        end = self.setting.module.main.body.terminator
        later = [*self.ops[cut:], *([end] if end is not None else [])]
        read = {value for op in later for inner in op.walk() for value in inner.operands}
        return [v for op in self.ops[:cut] if Constant.of(op) is None for v in op.results if v in read]

    def named(self, found: tuple[int, tuple[Value, Deviation]], seed: int) -> WrongValue:
        """What is wrong behind so many operations, and right before."""
        cut, (value, apart) = found
        op = value.defining_op or self.ops[cut - 1]
        setting = self.setting
        parts = Parts.of(setting.module, setting.program, setting.target, setting.threads, setting.params)
        index = self.ops.index(op)
        function = parts.function_of([held.name for held in self.ops[index:] if Constant.of(held) is None])
        step, notes = self._by_itself(op, seed)
        return WrongValue(op, value.name, apart, function, step, notes=notes)

    def _by_itself(self, op: Operation, seed: int) -> tuple[WrongStep | None, tuple[str, ...]]:
        """The step that makes an operation wrong without the others, or what is known instead."""
        setting = self.setting
        try:
            alone, _ = segment(setting.module, [op], op.results)
            found = bisect(
                alone, setting.program, params=setting.params, target=setting.target, threads=setting.threads, seed=seed
            )
        except TcpxError as error:
            return None, (f"the schedule cannot be applied to it by itself: {error.diagnostic.message}",)
        if found.wrong is not None:
            return found.wrong, ()
        if found.kernel is not None:
            return None, ("by itself it is wrong too; no step that was evaluated is: those of large sizes are not",)
        return None, ("by itself, at small sizes, it is right: what is fused with it, or its size, matters",)


def _returning(module: Module, values: Sequence[Value]) -> Module:
    """A copy of a payload that returns these values too, behind its results."""
    copy = copy_module(module)
    old, new = module.main, copy.main
    pairs = zip(old.body.ops, new.body.ops, strict=True)
    twins = {a: b for first, second in pairs for a, b in zip(first.results, second.results, strict=True)}
    end = new.body.terminator
    if end is not None:
        rewriter = Rewriter(copy)
        rewriter.insert(Return([*end.operands, *(twins[value] for value in values)]), InsertPoint.before(end))
        rewriter.erase(end)
    verify_module(copy)
    return copy


def segment(module: Module, ops: Sequence[Operation], returned: Sequence[Value]) -> tuple[Module, list[Value]]:
    """A payload that does some operations of another, which follow each other, and the values that it is given: what
    they read, but for constants, and arguments that tell the sizes. Raises VerifyError where that is too little."""
    made = {value for op in ops for inner in op.walk() for value in defined_by(inner)}
    read = dict.fromkeys(v for op in ops for inner in op.walk() for v in inner.operands if v not in made)
    given = [v for v in read if v.defining_op is None or Constant.of(v.defining_op) is None]
    for symbol in module.main.symbols:
        if not any(_tells(value, symbol) for value in given):
            given += [value for value in module.main.args if _tells(value, symbol)][:1]
    told = {symbol for value in given for dim in shape_of(value.type) for symbol in symbols(dim)}
    copy = copy_module(module)
    func = FuncOp(module.main.name, [(v.name, v.type) for v in given], [s for s in module.main.symbols if s in told])
    func.location = module.main.location
    if not may_contract(module.main):
        func.attributes[CONTRACT] = False
    mapping = CloneMap(dict(zip(given, func.args, strict=True)))
    constants = [v.defining_op for v in read if v not in given and v.defining_op is not None]
    for op in [*constants, *ops]:
        func.body.append(op.clone(mapping, str))
    func.body.append(Return([mapping.value(value) for value in returned]))
    copy.remove(copy.main)
    copy.add(func)
    copy.entry = func.name
    kept = copy.reached(func)
    for other in [held for held in copy.funcs.values() if held not in kept]:
        copy.remove(other)
    verify_module(copy)
    return copy, given


def _tells(value: Value, symbol: Symbol) -> bool:
    """Whether a value has a symbol as a dim by itself."""
    return any(as_symbol(dim) == symbol for dim in shape_of(value.type))
