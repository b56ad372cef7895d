"""tcpx run: compile a payload, call the kernel once, say what came out."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from time import perf_counter

import numpy as np
import numpy.typing as npt

import tcpx
from tcpx.cli.differences import Rounding, Tolerance, compare, largest_difference
from tcpx.cli.models import add_arguments, argument_files, given_files, given_sizes, payload_of
from tcpx.cli.options import (
    ParamValue,
    Subcommand,
    UsageError,
    add_contract,
    add_layouts,
    add_payload,
    add_schedule,
    add_strided,
    add_tuned,
    layouts_of,
    natural,
    params_of,
    schedule_of,
    tolerance,
    tuned_of,
)
from tcpx.cli.progress import showing, time_left
from tcpx.inputs import Parameters, SizeValues, drawn_arguments, parameters_of, read_array
from tcpx.phases import measured_phases, phase
from tcpx.plurals import counted
from tcpx.quantities import duration
from tcpx.records import frozen
from tcpx.reruns import KernelFacts, Request
from tcpx.store.files_read import FilesRead, noting

Array = npt.NDArray[np.generic]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_payload(parser)
    add_schedule(parser)
    add_tuned(parser)
    add_strided(parser)
    add_contract(parser)
    add_layouts(parser)
    parser.add_argument(
        "--random",
        type=natural,
        metavar="SEED",
        help="draw the arguments that no --input gives: floats standard normal",
    )
    add_arguments(parser, "the value of a symbolic size, for --random", "the array for an argument of the payload")
    parser.add_argument("-o", "--output", metavar="FILE", help="save the result: .npy, or .npz with all results")
    parser.add_argument(
        "--check",
        action="store_true",
        help="also run the reference evaluator, and say the largest difference, in itself "
        "and as a part of the largest magnitude; one that rounding does not explain is an error",
    )
    parser.add_argument(
        "--tolerance",
        type=tolerance,
        metavar="D",
        help="with --check: a larger difference, or one that is not a number, is an error; instead of what rounding "
        "explains, by the dtypes and the lengths of the reductions",
    )
    parser.add_argument(
        "--relative-tolerance",
        type=tolerance,
        metavar="R",
        help="with --check: the same, in parts of the largest magnitude of the reference; with both, their sum counts",
    )
    parser.add_argument(
        "--sanitize",
        action="store_true",
        help="run the kernel in a process of its own under the compiler's address and undefined-behaviour sanitizers; "
        "what they find is a diagnostic, with exit status 1",
    )
    parser.add_argument(
        "--no-cache",
        dest="cache",
        action="store_false",
        help="schedule and compile, also where the same was run before",
    )


def _execute(options: argparse.Namespace) -> int:
    output: str | None = options.output
    allowed = _tolerance(options)
    if output is not None and Path(output).suffix not in (".npy", ".npz"):
        raise UsageError(f"required --output FILE.npy or FILE.npz, found {output!r}")
    if allowed is not None and not options.check:
        raise UsageError("--tolerance and --relative-tolerance need --check")
    started = perf_counter()
    request = _request(options)
    ready = _again(request, options) or _compiled(request, options)
    facts, arrays = ready.facts, ready.arrays
    before = [array.copy() for array in arrays] if options.check else []  # the kernel changes its state
    called = perf_counter()
    results = _as_tuple(ready.kernel(*arrays))
    done = perf_counter()

    signature = facts.signature
    print(f"@{signature.name} for {facts.target}, {counted(signature.threads, 'thread')}")
    for argument, array in zip(signature.arguments, arrays, strict=True):
        print(f"  in   %{argument.name}: {_shown(array)}")
    for argument, array in zip(signature.results, results, strict=True):
        print(f"  out  %{argument.name}: {_shown(array)}, {_summary(array)}")
    if ready.tuned is not None:
        print(f"  tuned: {', '.join(f'{name}={value}' for name, value in ready.tuned.items())}")
    seconds = f"{called - started:.2f} s{f' ({ready.phases})' if ready.phases else ''}"
    print(f"  {counted(facts.lines, 'line')} of C, ready in {seconds}, first call {duration(done - called)}")
    for remark in facts.remarks:
        print(remark.render(), file=sys.stderr)
    if options.sanitize:
        print("  sanitizers (address, undefined): nothing found")
    if output is not None:
        _save(output, [argument.name for argument in signature.results], results)
        print(f"  saved to {output}")
    if ready.module is not None and options.check:
        names = [argument.name for argument in signature.results]
        expected = _reference(ready.module, before)
        judged = _by_rounding(ready.module, before, expected) if allowed is None else [allowed] * len(names)
        compare(names, results, expected, judged)
    return 0


@frozen
class _Ready:
    """A kernel, and what it is called with; `module`, the tuned values and the phases are those of one that was not run
    before."""

    kernel: Callable[..., Array | tuple[Array, ...]]
    facts: KernelFacts
    arrays: tuple[Array, ...]
    module: tcpx.Module | None = None
    tuned: Mapping[str, ParamValue] | None = None
    phases: str = ""


def _request(options: argparse.Namespace) -> Request | None:
    """What the kernel depends on, beside the files that are read; None for one that is not kept."""
    target: object = options.target
    if not options.cache or options.sanitize or options.tuned is not None or not isinstance(target, str):
        return None
    paths = [path for path in (options.file, options.schedule) if path is not None]
    words = (*paths, *map(os.path.abspath, paths), sorted(params_of(options).items()))
    return Request((*words, target, options.threads, options.strided, options.no_contract, options.layout))


def _again(request: Request | None, options: argparse.Namespace) -> _Ready | None:
    """The kernel as it was run before, if it was and nothing changed since; --check needs the payload."""
    files, sizes = given_files(options), given_sizes(options)
    found = None if request is None or options.check else request.found(files, sizes)
    if found is None:
        return None
    kernel, facts = found
    signature = facts.signature
    _check_single(len(signature.results), options)
    taken = Parameters(signature.name, signature.arguments, signature.symbols)
    rest = {name: number for name, number in sizes.items() if name not in facts.numbers}
    return _Ready(kernel, facts, _inputs(taken, argument_files(files, facts.names, facts.values), rest, options))


def _compiled(request: Request | None, options: argparse.Namespace) -> _Ready:
    """The kernel, compiled, or loaded where one of the same content was."""
    tcpx.load_target(options.target).require_cpu()
    read = FilesRead()
    with (
        measured_phases() as phases,
        showing(lambda seconds: f"{phases.current or 'compiling'}: {seconds:.0f} s so far"),
    ):
        with noting(read), phase("model"):
            payload = payload_of(options)
        layouts = layouts_of(options)
        module = payload.module if layouts is None else tcpx.with_layouts(payload.module, layouts)
        _check_single(len(module.main.returned), options)
        arrays = _inputs(parameters_of(module), payload.files, payload.sizes, options)
        with noting(read):
            kernel = tcpx.compile(
                module,
                schedule_of(options),
                params=params_of(options),
                target=options.target,
                threads=options.threads,
                strided=options.strided,
                contract=not options.no_contract,
                sanitize=options.sanitize,
                tuned=tuned_of(options),
                cache=options.cache,
            )
    lines, files = kernel.c_source.count("\n"), given_files(options)
    values = {name: files[name] for name in payload.values}
    facts = KernelFacts(
        kernel.signature, kernel.target.title, lines, kernel.remarks, payload.names, values, payload.numbers
    )
    if request is not None and kernel.kept_in is not None:
        request.note(read, facts, kernel.library_path, kernel.kept_in)
    tuned = kernel.tuned.params if isinstance(kernel.tuned, tcpx.TunedRecord) else None
    return _Ready(kernel, facts, arrays, module, tuned, str(phases))


def _reference(module: tcpx.Module, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """The results of the reference evaluator; where that takes long, stderr shows how far it is."""
    progress = tcpx.EvaluationProgress()

    def describe(seconds: float) -> str:
        place = f" at {progress.operation}" if progress.operation else ""
        return f"reference evaluator{place}: {time_left(seconds, progress.fraction)}"

    with showing(describe):
        return _as_tuple(tcpx.evaluate(module, *arrays, progress=progress))


def _by_rounding(module: tcpx.Module, arrays: Sequence[Array], expected: Sequence[Array]) -> list[Rounding]:
    """What each result may differ by where no tolerance is given."""
    from tcpx.verification.rounding import moved, relative_differences  # a run of a known kernel imports no payload

    @cache
    def conditions() -> list[float]:
        others, step = moved(arrays)
        try:
            changed = _reference(module, others) if step else expected
        except tcpx.TcpxError:  # the payload does not take these values: nothing is known
            return [0.0] * len(expected)
        return [largest_difference(a, b) / step if step else 0.0 for a, b in zip(changed, expected, strict=True)]

    relative = relative_differences(module, arrays)
    return [Rounding(part, lambda k=k: conditions()[k]) for k, part in enumerate(relative)]


def _tolerance(options: argparse.Namespace) -> Tolerance | None:
    absolute: float | None = options.tolerance
    relative: float | None = options.relative_tolerance
    return None if absolute is None and relative is None else Tolerance(absolute or 0.0, relative or 0.0)


def _inputs(
    taken: Parameters, files: Mapping[str, str], sizes: SizeValues, options: argparse.Namespace
) -> tuple[Array, ...]:
    """The arrays of the files, and random ones for the rest where --random says so."""
    chosen: int | None = options.random
    if chosen is None and sizes:
        raise UsageError("--size needs --random")
    names = [argument.name for argument in taken.arguments]
    given = {name: read_array(path, taken.dtypes.get(name)) for name, path in files.items()}
    missing = [name for name in names if name not in files]
    if chosen is None and missing:
        raise tcpx.ArgumentError(
            tcpx.Diagnostic(
                f"nothing is given for {', '.join(f'`{name}`' for name in missing)}",
                required=f"an array for each of {', '.join(names)}",
                found=", ".join(files) or "no --input",
                fix=f"add --input {missing[0]}=FILE.npy, or --random 0",
            )
        )
    return drawn_arguments(taken, chosen or 0, given, sizes)


def _check_single(count: int, options: argparse.Namespace) -> None:
    """Found out before anything is computed: a .npy file holds one array."""
    output: str | None = options.output
    if output is not None and output.endswith(".npy") and count != 1:
        raise UsageError(f"a .npy file holds one array, the payload has {count} results: required --output FILE.npz")


def _save(path: str, names: Sequence[str], results: Sequence[Array]) -> None:
    if path.endswith(".npy"):
        np.save(path, results[0], allow_pickle=False)
    else:
        np.savez(path, allow_pickle=False, **dict(zip(names, results, strict=True)))


def _as_tuple(results: Array | tuple[Array, ...]) -> tuple[Array, ...]:
    return results if isinstance(results, tuple) else (results,)


def _shown(array: Array) -> str:
    return f"{'x'.join(map(str, array.shape)) or 'scalar'} {array.dtype}"


def _summary(array: Array) -> str:
    if array.size == 0:
        return "empty"
    wide = array.astype(np.float64)
    numbers = wide[~np.isnan(wide)]
    nans = f", {wide.size - numbers.size} NaN" if numbers.size < wide.size else ""
    return f"{numbers.min():.6g} .. {numbers.max():.6g}{nans}" if numbers.size else f"all {wide.size} NaN"


RUN = Subcommand(
    name="run",
    summary="compile a payload and call the kernel once",
    description="Compile a payload as a schedule says, call the kernel on arrays from files or on random ones, and\n"
    "print shapes, dtypes and ranges of what came out. Ctrl-C while a kernel runs waits for it to end, which C cannot\n"
    "be made to do; then nothing is printed or saved.",
    example="tcpx run examples/digits/digits.tcp -s schedules/digits.tcps --random 0 --size B=64 --check",
    add_arguments=_add_arguments,
    execute=_execute,
    writes=("output",),
)
