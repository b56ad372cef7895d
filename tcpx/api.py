"""The public functions: read a payload and a schedule, compile one with the other, evaluate the oracle."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np

from tcpx.assignment import Assignment, ParamValue
from tcpx.emit_c.kernel import Kernel, KernelRequest, build_many
from tcpx.installed import LIBRARY
from tcpx.interp import Run, StepHook, check_schedule, run_schedule
from tcpx.interp.engine import check_threads
from tcpx.interp.space.search_space import SearchSpace, survey
from tcpx.judging import Original, run_and_judge
from tcpx.loading import PayloadLike, load, module_of
from tcpx.lowering import run_and_lower
from tcpx.matching_records import matching_record
from tcpx.module_copies import copy_module, copy_with
from tcpx.payload.boundary_layouts import Layouts
from tcpx.payload.collector import collector_paused
from tcpx.payload.diagnostics import ArgumentError, Diagnostic, check_text, python_type_of
from tcpx.payload.evaluator import Array, argument_error, check_arguments, evaluate_func
from tcpx.payload.extents import check_extents
from tcpx.payload.given import path_of
from tcpx.payload.ir import Module, Operation, Value, operation_classes
from tcpx.payload.numbers import is_number, number_as, shown_number
from tcpx.payload.progress import EvaluationProgress
from tcpx.payload.size_values import SizeValues, size_choices
from tcpx.payload.sizes_of_arguments import check_sizes_of_arguments, size_without_argument
from tcpx.payload.structure import fingerprint as function_fingerprint
from tcpx.payload.text.parser import parse
from tcpx.payload.types import dtype_of, shape_of
from tcpx.payload.unread_loops import unread_loops
from tcpx.phases import phase
from tcpx.records import brief, frozen
from tcpx.request_cache import cached
from tcpx.schedule_options import EXACT, FAST, with_options
from tcpx.target import Target, load_target
from tcpx.transform.language.checker import check_program
from tcpx.transform.language.embedded import Schedulable, program_of
from tcpx.transform.language.loader import Program, default_program, load_program, program_of_text
from tcpx.tuned import TunedRecord

__all__ = [
    "CompileRequest",
    "apply_schedule",
    "check",
    "compile",
    "compile_many",
    "evaluate",
    "fingerprint",
    "load",
    "load_schedule",
    "lowered",
    "ops",
    "parse",
    "parse_schedule",
    "search_space",
    "tuned_record",
]


def parse_schedule(text: str, file: str = "<schedule>") -> Program:
    """The program of a schedule text. Raises ParseError and ScheduleError, and ArgumentError for a path."""
    check_text("schedule", text, "load_schedule")
    return program_of_text(text, file, [LIBRARY])


def load_schedule(path: str | Path) -> Program:
    """Read a `.tcps` file and what it imports. Raises ParseError and ScheduleError."""
    return load_program(path_of(path, "a schedule"), [LIBRARY])


def check(
    schedule: Schedulable | None,
    module: PayloadLike | None = None,
    *,
    params: Mapping[str, ParamValue] | None = None,
    target: str | Target = "native",
    threads: int = 1,
) -> tuple[Diagnostic, ...]:
    """What is wrong with a schedule, by itself or for a payload; () if nothing is. No step is taken.

    Without a payload: names, types, arity, what can never run, params of a name that no knob has. With one also:
    matches that find nothing, dims that do not exist, sizes out of range, an `expects` that is not met. Remarks, which
    are no errors, are among the findings. Without a schedule (None): the findings in the payload, such as a size that
    follows from no argument.
    """
    if schedule is None:
        return () if module is None else _findings(module_of(module))
    program = program_of(schedule)
    if module is None:
        return (*check_program(program), *Assignment.of(params).unknown(program))
    chosen = load_target(target)
    return check_schedule(copy_module(module), program, chosen, threads=threads, params=params)


def _findings(module: Module) -> tuple[Diagnostic, ...]:
    """What is wrong with a payload that is well formed, and the remarks on it."""
    problem = size_without_argument(module.main)
    return (*((problem,) if problem is not None else ()), *unread_loops(module))


def fingerprint(module: PayloadLike) -> str:
    """The structure of the payload's function as 16 hexadecimal digits: the same for payloads that differ only in
    names, places in the text and the data of constants."""
    module = module_of(module)
    return function_fingerprint(module.main)


def program_or_default(schedule: Schedulable | None) -> Program:
    """The program of a schedule; for None that of `schedules/default.tcps`."""
    if schedule is not None:
        return program_of(schedule)
    return default_program()


def apply_schedule(
    module: PayloadLike,
    schedule: Schedulable | None,
    *,
    params: Mapping[str, ParamValue] | None = None,
    target: str | Target = "native",
    threads: int = 1,
    on_step: StepHook | None = None,
) -> Run:
    """Run a schedule over a copy of the payload; nothing is lowered that the schedule does not lower.

    `on_step` is called with the trace entry of every committed step, also when a later one fails.
    """
    chosen = load_target(target)
    program = program_or_default(schedule)
    return run_schedule(copy_module(module), program, chosen, threads=threads, params=params, on_step=on_step)


def search_space(
    module: PayloadLike,
    schedule: Schedulable | None = None,
    *,
    params: Mapping[str, ParamValue] | None = None,
    target: str | Target = "native",
    threads: int = 1,
    sizes: SizeValues | Sequence[SizeValues] = (),
) -> SearchSpace:
    """The knobs of a schedule for a payload that `params` does not set, and the constraints among them.

    Constraints that depend on what steps do to the payload are not among them: they are checked when the schedule
    runs. `sizes` are values of the symbols that the kernel will be called with, one mapping or several: knobs that
    stand only in versions of `specialize` that none of them takes are `untaken`. Raises ScheduleError for a schedule
    that is wrong whatever its knobs are.
    """
    chosen = load_target(target)
    program = program_or_default(schedule)
    module = module_of(module)
    copies = copy_module(module), copy_module(module)
    return survey(*copies, program, chosen, threads=threads, params=params, sizes=size_choices(sizes))


@frozen
class CompileRequest:
    """One kernel of `compile_many`."""

    module: PayloadLike
    schedule: Schedulable | None = None
    params: Mapping[str, ParamValue] | None = None
    name: str | None = None
    strided: bool = False
    contract: bool = True
    layouts: Layouts | None = None
    numerics: str = EXACT
    size: str = FAST

    def __repr__(self) -> str:
        return brief("CompileRequest", "for", type(self.module).__name__, self.name or "")


def _check_request(request: CompileRequest, threads: int) -> None:
    """Raise the errors of arguments that are wrong by themselves: a kernel from the cache is not looked up by them."""
    check_threads(threads)
    Assignment.of(request.params)
    name = cast("object", request.name)
    if name is not None and not isinstance(name, str):
        raise ArgumentError(Diagnostic("this is no name", required="a string", found=python_type_of(name)))


@collector_paused()
def lowered(
    request: CompileRequest,
    target: Target,
    threads: int,
    sizes: Mapping[str, int] | None = None,
    *,
    is_judged: bool = True,
) -> Run:
    """Schedule a copy of a payload and lower it to what emission takes. What is slow there has remarks, if it
    `is_judged`, at these sizes."""
    _check_request(request, threads)
    params = with_options(request.params, request.numerics, request.size)
    prepared = partial(copy_with, layouts=request.layouts, strided=request.strided, contract=request.contract)
    original = Original(module_of(request.module), prepared)
    module, program = original.prepared(original.module), program_or_default(request.schedule)
    with phase("schedule"):
        if not is_judged:
            return run_and_lower(module, program, target, threads=threads, params=params)
        return run_and_judge(module, program, target, threads=threads, params=params, sizes=sizes, original=original)


def _requests_of(given: object) -> list[CompileRequest]:
    """Raises ArgumentError for what is no list of requests."""
    is_list = isinstance(given, list | tuple)
    requests = list(cast("Sequence[object]", given)) if is_list else [given]
    wrong = [request for request in requests if not isinstance(request, CompileRequest)]
    if is_list and not wrong:
        return cast("list[CompileRequest]", requests)
    raise ArgumentError(
        Diagnostic(
            "these are no kernels to compile",
            required="a list of tcpx.CompileRequest(module, schedule)",
            found=python_type_of(wrong[0] if wrong else cast("object", given)),
        )
    )


@collector_paused()
def compile_many(
    requests: list[CompileRequest],
    *,
    target: str | Target = "native",
    threads: int = 1,
    sanitize: bool = False,
    timed: bool = False,
) -> list[Kernel]:
    """Compile several payloads into one C file and one shared library. `sanitize` and `timed` are as for `compile`."""
    chosen = load_target(target)
    kernels: list[KernelRequest] = []
    for request in _requests_of(requests):
        module = module_of(request.module)
        check_sizes_of_arguments(module.main)
        run = lowered(replace(request, module=module), chosen, threads)
        kernels.append(KernelRequest(run.module, request.name, run.trace, request.schedule, run.remarks))
    return build_many(kernels, chosen, threads, sanitize=sanitize, timed=timed)


def compile(
    module: PayloadLike,
    schedule: Schedulable | None = None,
    *,
    params: Mapping[str, ParamValue] | None = None,
    target: str | Target = "native",
    threads: int = 1,
    name: str | None = None,
    strided: bool = False,
    contract: bool = True,
    layouts: Layouts | None = None,
    numerics: str = EXACT,
    size: str = FAST,
    sanitize: bool = False,
    tuned: str | Path | None = None,
    cache: bool = True,
    timed: bool = False,
) -> Kernel:
    """Compile a payload as a schedule says; without one, as `schedules/default.tcps` says.

    `params` overrides knobs, by name or by a glob of their path. `target` is a target table's name or `native`;
    `threads` the number of threads parallel loops run on. The payload is not changed. Raises ScheduleError,
    VerifyError and CompileError.

    A `strided` kernel takes arrays as they are whose rows lie any distance apart, such as blocks of a larger matrix:
    all arguments and results of two dims or more are what the payload calls `strided`. One that is not copies such
    inputs and refuses such outputs.

    Without `contract`, a product that is added to something is rounded by itself, on every target, and elementwise
    arithmetic is what the reference evaluator gives, bit for bit (docs/payload.md, "Rounding").

    `layouts` are orders of dims in which the kernel takes arguments and gives results, by name: with
    `{"x": [0, 2, 3, 1]}`, an image that is [N, C, H, W] in the payload is an array [N, H, W, C]. That is
    `compile(with_layouts(module, layouts))`.

    With `numerics="winograd"`, the default schedule computes dense convolutions of stride 1 by fewer multiplications
    by `winograd(x, m: 4)`: two to three times as fast, with larger errors (docs/transforms.md, "winograd"). It is the
    parameter `numerics` of the schedule; one of your own may declare it. "exact" sums the products that operations say.

    With `size="small"`, products and windows whose sizes alone differ share one function, whose arguments
    tell the sizes (docs/transforms.md, "share"). The C is several times shorter and compiles in half of the time; it
    is somewhat slower. It is the parameter `code` of the schedule.

    `tuned` is a file of tuned records: the values of the one for this payload, schedule, target, compiler, number of
    threads and processor are used, and `Kernel.tuned` is that record. Without one, each function that is called once
    the schedule has run has the values of the record for that function, whatever payload it is from, and `Kernel.tuned`
    says which. Where none fits, ArgumentError says what differs. `params` go before them.

    A kernel made with `sanitize` runs in a process of its own, slowly, under the compiler's address and
    undefined-behaviour sanitizers; where they find something, the call raises SanitizerError at the statement and the
    operation whose C it is.

    A kernel of the same payload, constants, schedule, knobs and target is taken from the build cache if it has one, and
    put there if not: the next process takes milliseconds. The code of plugins and the table of a target of your own
    count by content. With `cache=False` it is always compiled.

    A `timed` kernel measures what it does outside of loops, which `Kernel.timings` tells; it takes some 50 ns for each.
    """
    module = module_of(module)
    record = None
    if layouts is not None or strided or not contract:
        module = copy_with(module, layouts, strided=strided, contract=contract)
    if tuned is not None:
        record = tuned_record(tuned, module, schedule, target=target, threads=threads)
        params = record.under(params)
    params = with_options(params, numerics, size)
    request = CompileRequest(module, schedule, params, name)
    _check_request(request, threads)

    def make() -> Kernel:
        return compile_many([request], target=target, threads=threads, sanitize=sanitize, timed=timed)[0]

    if cache and not sanitize and not timed:
        program, chosen = None if schedule is None else program_of(schedule), load_target(target)

        def trace() -> object:
            return lowered(request, chosen, threads).trace

        kernel = cached(module, program, params, chosen, threads, name, make, trace)
    else:
        kernel = make()
    kernel.schedule = schedule
    kernel.tuned = record
    return kernel


def tuned_record(
    path: str | Path,
    module: PayloadLike,
    schedule: Schedulable | None = None,
    *,
    target: str | Target = "native",
    threads: int = 1,
) -> TunedRecord:
    """The record of a file that `compile(.., tuned=path)` uses, or what it makes of those of functions. Raises
    ArgumentError where none fits."""
    return matching_record(path, module_of(module), program_or_default(schedule), load_target(target), threads)


def evaluate(
    module: PayloadLike,
    *arrays: Array,
    seed: int = 0,
    progress: EvaluationProgress | None = None,
    in_order: bool = True,
) -> Array | tuple[Array, ...]:
    """Run the reference evaluator: one array per argument of the payload; returns its result or a tuple of them.

    Another thread may look at `progress` meanwhile: its `fraction` of the work, and the `operation` at hand. The sums
    of a `generic` are rounded in the order of its definition; with `in_order=False` in any order, as those of a
    contraction always are, which takes a hundredth of the time.
    """
    module = module_of(module)
    func = module.main
    wanted = [value if k not in func.numbers else None for k, value in enumerate(func.inputs)][: len(arrays)]
    wanted += [None] * (len(arrays) - len(wanted))
    inputs = [_as_input(given, value) for given, value in zip(arrays, wanted, strict=True)]
    check_extents(func, check_arguments(func, inputs))
    results = evaluate_func(module, func, inputs, seed, progress, in_order=in_order)
    return results[0] if len(results) == 1 else results


def _as_input(value: object, wanted: Value | None) -> Array:
    """An array with these elements; a number of the dtype of an argument without dims. Raises ArgumentError for what is
    no array, masked arrays included, and for a number that the dtype does not represent."""
    if wanted is not None and not shape_of(wanted.type) and is_number(value):
        dtype = dtype_of(wanted.type)
        number = number_as(value, dtype)
        if number is None:
            raise argument_error(wanted, f"a number that {dtype} represents", shown_number(value))
        return number
    found = type(value).__name__
    if not isinstance(value, np.ma.MaskedArray):
        try:
            return np.asarray(value)
        except (TypeError, ValueError, RuntimeError, BufferError) as error:  # lists of lists of other lengths
            found = str(error)
    raise ArgumentError(Diagnostic("this is no array", required="an array, without a mask", found=found))


def ops() -> dict[str, type[Operation]]:
    """All registered payload operations by opcode."""
    return operation_classes()
