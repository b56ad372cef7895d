"""tcpx as a peer: compiles the payload of a task and calls the kernel, bound to its arrays."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import tcpx
from tcpx.measure.protocol import Array, Prepared, Task, UnsupportedError


def describe(threads: int) -> Mapping[str, str]:
    """The version, and the target that `native` stands for."""
    target = tcpx.load_target("native")
    return {
        "version": tcpx.__version__,
        "target": target.title,
        "flags": " ".join(target.flags),
        "threads": str(threads),
    }


def prepare(task: Task) -> Prepared:
    """A kernel bound to the arguments of the task and to arrays for its results. Its facts are the `remarks` on it.

    Raises UnsupportedError with tcpx's own words where the payload or the schedule is refused.
    """
    given = task.arrays()
    try:
        module = tcpx.parse(task.payload, task.name, Path(task.payload_folder or task.folder))
        schedule = tcpx.parse_schedule(task.schedule) if task.schedule is not None else None
        kernel = tcpx.compile(module, schedule, params=task.params, target=task.target, threads=task.threads)
        remarks = _remarks(task, module, schedule, kernel, given)
    except tcpx.TcpxError as error:
        raise UnsupportedError(error.diagnostic.message) from error
    dtypes = tcpx.argument_dtypes(module)
    arrays = [given[name] if given[name].dtype == dtype else given[name].view(dtype) for name, dtype in dtypes.items()]
    facts = {"remarks": told(remarks)}
    bound = kernel.bind(*arrays)
    out = bound.out
    if isinstance(out, tuple):
        return Prepared(bound, lambda results: np.asarray(results[0]), facts=facts)
    bits = {2: np.uint16} if out.dtype.kind == "V" else {}
    raw = bits.get(out.dtype.itemsize)
    return Prepared(
        bound,
        lambda result: np.asarray(result if raw is None else result.view(raw)),
        None if raw is None else "bf16",
        facts,
    )


def told(remarks: Sequence[tcpx.Diagnostic]) -> list[dict[str, str | float]]:
    """Remarks on slow code as rows have them: the cause, the factor by which the kernel would be faster without, the
    message."""
    return [
        {"cause": remark.cause, "factor": remark.factor, "message": remark.message}
        for remark in remarks
        if remark.cause
    ]


def _remarks(
    task: Task,
    module: tcpx.Module,
    schedule: tcpx.Schedule | None,
    kernel: tcpx.Kernel,
    given: Mapping[str, Array],
) -> Sequence[tcpx.Diagnostic]:
    """The remarks on the kernel, judged at the sizes of the arrays."""
    names = {symbol.name for symbol in kernel.signature.symbols}
    if not names:
        return kernel.remarks
    sizes = {
        str(dim): extent
        for argument in kernel.signature.inputs
        for dim, extent in zip(argument.shape, given[argument.name].shape, strict=True)
        if str(dim) in names
    } | {number.symbol.name: int(given[number.name]) for number in kernel.signature.numbers}
    return tcpx.remarks_of(module, schedule, sizes=sizes, params=task.params, target=task.target, threads=task.threads)
