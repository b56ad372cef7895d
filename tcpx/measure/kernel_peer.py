"""tcpx as a peer: compiles the payload of a task and calls the kernel, bound to its arrays."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

import tcpx
from tcpx.measure.protocol import Prepared, Task, UnsupportedError


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
    """A kernel bound to the arguments of the task and to arrays for its results.

    Raises UnsupportedError with tcpx's own words where the payload or the schedule is refused.
    """
    try:
        module = tcpx.parse(task.payload, task.name, Path(task.payload_folder or task.folder))
        schedule = tcpx.parse_schedule(task.schedule) if task.schedule is not None else None
        kernel = tcpx.compile(module, schedule, params=task.params, target=task.target, threads=task.threads)
    except tcpx.TcpxError as error:
        raise UnsupportedError(error.diagnostic.message) from error
    held, dtypes = task.arrays(), tcpx.argument_dtypes(module)
    arrays = [held[name] if held[name].dtype == dtype else held[name].view(dtype) for name, dtype in dtypes.items()]
    bound = kernel.bind(*arrays)
    out = bound.out
    if isinstance(out, tuple):
        return Prepared(bound, lambda results: np.asarray(results[0]))
    bits = {2: np.uint16} if out.dtype.kind == "V" else {}
    raw = bits.get(out.dtype.itemsize)
    return Prepared(
        bound,
        lambda result: np.asarray(result if raw is None else result.view(raw)),
        None if raw is None else "bf16",
    )
