"""Functions that are called are checked by themselves: what calls gave is kept, and compared where they change."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tcpx.interp.called import CalledFunctions
from tcpx.payload.diagnostics import TcpxError
from tcpx.payload.evaluator import Array, check_arguments, evaluate_func
from tcpx.payload.ir import FuncOp, Module, Value
from tcpx.payload.text.printer import print_func
from tcpx.payload.types import shape_of
from tcpx.verification.numbers import Case, Given, Inputs, Mismatch, compare, is_same
from tcpx.verification.sizes import work_of

Calls = tuple[tuple[str, int], ...]


class Functions:
    """The functions of a payload over the steps of a run."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.called = CalledFunctions(module)
        self._texts: dict[FuncOp, str] = {}

    def changed(self) -> frozenset[FuncOp]:
        """Those that are not what they were when this was asked before."""
        self.called.note(self.module)
        now = {func: print_func(func) for func in self.module.reached(self.module.main)}
        found = frozenset(func for func, text in now.items() if self._texts.get(func) != text)
        self._texts = now
        return found

    def calls(self) -> Calls:
        """How many calls stand in each, where there are several."""
        self.called.note(self.module)
        known = self.module.funcs
        return tuple((name, len(list(func.calls()))) for name, func in known.items()) if len(known) > 1 else ()


class Answers:
    """What calls give in an evaluation of a case. A call whose arguments are known from one before gives what that
    gave; of a function that has changed, the first call with these sizes is evaluated, and so is one that is not known.
    """

    def __init__(self, case: Case, functions: Functions, changed: frozenset[FuncOp]) -> None:
        self._case, self._functions, self._changed = case, functions, changed
        self.module = functions.module
        self._tried: set[tuple[FuncOp, tuple[tuple[int, ...], ...]]] = set()
        self._new: list[tuple[str, Inputs, Given]] = []
        self.wrong: tuple[FuncOp, Sequence[Array]] | None = None
        """The first call that did not give what it gave before."""

    def __call__(self, func: FuncOp, args: Sequence[Array], run: Callable[[], tuple[Array, ...]]) -> tuple[Array, ...]:
        text = self._functions.called.text(func)
        if text is None:
            return run()
        inputs = {value.name: array.copy() for value, array in zip(func.inputs, args, strict=False)}
        exact = frozenset((name, array.shape, array.tobytes()) for name, array in inputs.items())
        known = self._case.known.get(text, {})
        found = [known[exact]] if exact in known else [held for held in known.values() if _takes(held, inputs)]
        is_known = bool(found) and all(_agree(given.outputs, found[0].outputs) for given in found)
        sizes = func, tuple(array.shape for array in args)
        made: Sequence[Array] | None = None
        if not is_known or (func in self._changed and sizes not in self._tried):
            self._tried.add(sizes)
            made = run()
        if not is_known:
            self._new.append((text, exact, Given(inputs, tuple(array.copy() for array in made or ()))))
        is_right = is_known and (made is None or _agree(made, found[0].outputs))
        if is_known and not is_right and self.wrong is None:
            self.wrong = func, [array.copy() for array in args]
        return tuple(array.copy() for array in (found[0].outputs if is_right else made or ()))

    def keep(self) -> None:
        """The results were right: so were the calls."""
        for text, exact, given in self._new:
            self._case.known.setdefault(text, {})[exact] = given

    def alone(self, func: FuncOp) -> list[tuple[Sequence[Array], Sequence[Array]]]:
        """Arguments with which a function was called, once for all of the same sizes, and what it gave."""
        names = [value.name for value in func.inputs]
        found = [([given.inputs[name] for name in names], given.outputs) for given in self._given(func)]
        firsts = {tuple(array.shape for array in arrays): (arrays, outputs) for arrays, outputs in reversed(found)}
        return list(firsts.values())

    def knows(self, func: FuncOp) -> bool:
        """Whether a function can be evaluated by itself: what it is called with is known."""
        return bool(self._given(func))

    def _given(self, func: FuncOp) -> list[Given]:
        text, names = self._functions.called.text(func), {value.name for value in func.inputs}
        return [given for given in self._case.known.get(text or "", {}).values() if names <= given.inputs.keys()]


def _takes(given: Given, inputs: Mapping[str, Array]) -> bool:
    return all(name in given.inputs and is_same(array, given.inputs[name]) for name, array in inputs.items())


def _agree(some: Sequence[Array], others: Sequence[Array]) -> bool:
    return all(map(is_same, some, others))


def first_mismatch(
    functions: Functions, cases: Sequence[Case], limit: int, seed: int, changed: frozenset[FuncOp]
) -> tuple[Mismatch | None, int]:
    """The first case whose results are not those expected, and how many evaluations were left out for their work. Where
    only functions have changed that are called with what is known, they are evaluated by themselves."""
    skipped = 0
    for case in cases if changed else ():
        answers = Answers(case, functions, changed)
        is_alone = functions.module.main not in changed and all(map(answers.knows, changed))
        every = functions.module.funcs.values()
        for func in filter(changed.__contains__, every) if is_alone else (functions.module.main,):
            found, left_out = _mismatch(func, case, answers, limit, seed)
            skipped += left_out
            if found is not None:
                return found, skipped
        answers.keep()
    return None, skipped


def _mismatch(func: FuncOp, case: Case, answers: Answers, limit: int, seed: int) -> tuple[Mismatch | None, int]:
    """Where a function does not give what it should; how many evaluations were left out."""
    module = answers.module
    is_main = func is module.main
    skipped, name = 0, "" if is_main else func.name
    for known in [(case.arrays, case.expected)] if is_main else answers.alone(func):
        arrays, expected = known
        sizes = dict(case.sizes) if is_main else check_arguments(func, arrays)
        if limit and work_of(func, sizes) > limit:
            skipped += 1
            continue
        try:
            results = evaluate_func(module, func, arrays, seed, calls=answers)
        except TcpxError as error:
            failed = Mismatch(case, failure=error.diagnostic.message, function=name)
            return _with_calls(failed, (func, arrays), answers), skipped
        found = compare(case, results, expected, name)
        if found is not None:
            return _with_calls(found, (func, arrays), answers), skipped
    return None, skipped


def _with_calls(found: Mismatch, evaluated: tuple[FuncOp, Sequence[Array]], answers: Answers) -> Mismatch:
    """What is wrong, with the calls that it is wrong in: of the function that was evaluated, or of the first one that
    gave something else than before."""
    callee = evaluated if found.function else answers.wrong
    if callee is None:
        return found
    func, arrays = callee
    calls = (call.name for call in func.callers() if all(map(_may_be, call.operands, arrays)))
    return replace(found, callee=func.name, calls=tuple(calls))


def _may_be(value: Value, array: Array) -> bool:
    """Whether the sizes of a value are not others than those of an array."""
    return all(not isinstance(dim, int) or dim == n for dim, n in zip(shape_of(value.type), array.shape, strict=True))
