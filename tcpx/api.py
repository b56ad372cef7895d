"""The public functions: read a payload and a schedule, compile one with the other, evaluate the oracle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tcpx.emit_c.kernel import Kernel, KernelRequest, build_many
from tcpx.interp import ParamValue, Run, StepHook, run_schedule
from tcpx.payload.diagnostics import Diagnostic, ScheduleError
from tcpx.payload.evaluator import Array, evaluate_func
from tcpx.payload.ir import CloneMap, FuncOp, Module, Operation, operation_classes
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.text.parser import load, parse
from tcpx.payload.verifier import verify_module
from tcpx.target import Target, load_target
from tcpx.transform.cleanup import canonicalize
from tcpx.transform.language.checker import check_program
from tcpx.transform.language.loader import Program, load_program, program_of_text
from tcpx.transform.ops.bufferize import bufferize
from tcpx.transform.ops.plan_memory import plan_memory
from tcpx.transform.vectors.lowering import lower_vectors
from tcpx.transform.vectors.selection import select_instructions

__all__ = [
    "CompileRequest",
    "apply_schedule",
    "check",
    "compile",
    "compile_many",
    "evaluate",
    "load",
    "load_schedule",
    "lowered",
    "ops",
    "parse",
    "parse_schedule",
]

LIBRARY = Path(__file__).parent / "schedules"
"""The schedule library, where it is installed."""
CHECKOUT_LIBRARY = Path(__file__).parents[1] / "schedules"


def library_folder() -> Path:
    """The folder of the schedules that come with tcpx."""
    return LIBRARY if LIBRARY.is_dir() else CHECKOUT_LIBRARY


def parse_schedule(text: str, file: str = "<schedule>") -> Program:
    """The program of a schedule text. Raises ParseError and ScheduleError."""
    return program_of_text(text, file, [library_folder()])


def load_schedule(path: str | Path) -> Program:
    """Read a `.tcps` file and what it imports. Raises ParseError and ScheduleError."""
    return load_program(path, [library_folder()])


def check(schedule: Program) -> tuple[Diagnostic, ...]:
    """What is wrong with a schedule, without a payload; () if nothing is."""
    return check_program(schedule)


def copy_module(module: Module) -> Module:
    """A module of its own with the same functions; constants are shared, they never change."""
    made = Module(module.constants)
    for name, func in module.funcs.items():
        copy = FuncOp(name, [(a.name, a.type) for a in func.args], func.symbols)
        copy.location = func.location
        copy.attributes = dict(func.attributes)
        mapping = CloneMap(dict(zip(func.args, copy.args, strict=True)))
        for op in func.body.ops:
            copy.body.append(op.clone(mapping, lambda known: known))
        for op in copy.walk():
            op.origins = ()
        made.funcs[name] = copy
    return made


def apply_schedule(
    module: Module,
    schedule: Program | None,
    *,
    params: Mapping[str, ParamValue] | None = None,
    target: str | Target = "native",
    threads: int = 1,
    on_step: StepHook | None = None,
) -> Run:
    """Run a schedule over a copy of the payload; nothing is lowered that the schedule does not lower.

    `on_step` is called with the trace entry of every committed step, also when a later one fails.
    """
    chosen = load_target(target) if isinstance(target, str) else target
    program = schedule if schedule is not None else load_schedule(library_folder() / "default.tcps")
    return run_schedule(copy_module(module), program, chosen, threads=threads, params=params, on_step=on_step)


def lower(rewriter: Rewriter, func: FuncOp, target: Target, threads: int) -> None:
    """The lowering steps a schedule did not write: cleanup, memory, registers, instructions, the memory plan."""
    canonicalize(rewriter, func)
    bufferize(rewriter, func)
    lower_vectors(rewriter, func, target)
    select_instructions(rewriter, func, target)
    plan_memory(rewriter, func, threads)


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """One kernel of `compile_many`."""

    module: Module
    schedule: Program | None = None
    params: Mapping[str, ParamValue] | None = None
    name: str | None = None


def lowered(request: CompileRequest, target: Target, threads: int) -> Run:
    """Schedule a copy of a payload and lower it to what emission takes."""
    if threads < 1:
        raise ScheduleError(
            Diagnostic("a kernel runs on at least one thread", required="threads >= 1", found=str(threads))
        )
    run = apply_schedule(request.module, request.schedule, params=request.params, target=target, threads=threads)
    lower(run.rewriter, run.module.main, target, threads)
    verify_module(run.module)
    return run


def compile_many(requests: list[CompileRequest], *, target: str | Target = "native", threads: int = 1) -> list[Kernel]:
    """Compile several payloads into one C file and one shared library."""
    chosen = load_target(target) if isinstance(target, str) else target
    kernels: list[KernelRequest] = []
    for request in requests:
        run = lowered(request, chosen, threads)
        kernels.append(KernelRequest(run.module, request.name, run.trace, request.schedule))
    return build_many(kernels, chosen, threads)


def compile(
    module: Module,
    schedule: Program | None = None,
    *,
    params: Mapping[str, ParamValue] | None = None,
    target: str | Target = "native",
    threads: int = 1,
    name: str | None = None,
) -> Kernel:
    """Compile a payload as a schedule says; without one, as `schedules/default.tcps` says.

    `params` overrides knobs, by name or by a glob of their path. `target` is a target table's name or `native`;
    `threads` the number of threads parallel loops run on. The payload is not changed. Raises ScheduleError,
    VerifyError and CompileError.
    """
    return compile_many([CompileRequest(module, schedule, params, name)], target=target, threads=threads)[0]


def evaluate(module: Module, *arrays: Array, seed: int = 0) -> Array | tuple[Array, ...]:
    """Run the reference evaluator: one array per argument of the payload; returns its result or a tuple of them."""
    results = evaluate_func(module, module.main, [np.asarray(a) for a in arrays], seed)
    return results[0] if len(results) == 1 else results


def ops() -> dict[str, type[Operation]]:
    """All registered payload operations by opcode."""
    return operation_classes()
