"""Functions of one operation, %v, between a producer %p and a consumer %c.

They go through text, evaluation, the default schedule, tiles, fusion, lanes and threads, and give what NumPy gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

import tcpx
from tcpx.api import lowered
from tcpx.emit_c.kernel import KernelRequest, build_many
from tcpx.payload.evaluator import evaluate_func
from tcpx.payload.indexing_maps import map_dim
from tcpx.payload.interfaces import IteratorKind, Structured, Tileable
from tcpx.payload.ir import Module, Operation
from tcpx.payload.ops.composite import Composite
from tcpx.payload.text.parser import parse
from tcpx.payload.text.printer import print_module
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.scatter import Scatter
from tcpx.payload.types import shape_of
from tcpx.target.loader import load_target
from tcpx.transform.language.loader import Program
from tests.guard_pages import run_guarded

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Case:
    """A function, what NumPy says of it, and the arguments of each call."""

    payload: str
    wanted: Callable[..., Sequence[npt.ArrayLike]]
    calls: Sequence[Sequence[Array]]
    tolerance: float = 0.0
    refused: Mapping[str, str] = field(default_factory=dict[str, str])
    """The columns that are refused, and what the message says."""
    columns: Sequence[str] = ()
    """Those that are tried; all, if there are none."""


def numbers(*shape: int, dtype: str = "float32", seed: int = 0, special: Sequence[float] = ()) -> Array:
    """Random numbers with one digit behind the point, integers from -6 to 5, or truth values; some are `special`."""
    random = np.random.default_rng(seed + sum(shape))
    given = random.standard_normal(shape).round(1) if np.dtype(dtype).kind in "fV" else random.integers(-6, 6, shape)
    if np.dtype(dtype).kind == "u":
        given = np.abs(given)
    x = (given > 0 if dtype == "bool" else given).astype(dtype)
    for value in special:
        if x.size:
            x.reshape(-1)[random.integers(x.size)] = value
    return x


def _operation(module: Module, name: str) -> Operation | None:
    return next((op for op in module.main.body.ops if op.name == name), None)


def columns(module: Module) -> Mapping[str, str]:
    """The schedules that make sense for %v, by what they do."""
    v = _operation(module, "v")
    found = dict[str, str]()
    if not isinstance(v, Tileable):
        return found
    its = [it for it in v.iterators() if it.kind is not IteratorKind.WHOLE]
    parallel = [it.name for it in its if it.kind is IteratorKind.PARALLEL]
    reduces = isinstance(v, Structured) and Reduction(v).neutrals() is not None
    cut = [it.name for it in its] if reduces else parallel
    last, sizes = f"a{len(cut) - 1}", [3, 5, 2, 3]
    loops = ", ".join(f"a{k}" for k in range(len(cut)))
    tiles = ", ".join(f"{name}: {size}" for name, size in zip(cut, sizes, strict=False))
    if cut:
        tiled = f"let {loops} = tile(v, [{tiles}]"
        found["tiled"] = f"{tiled})"
        found["padded"] = f"{tiled}, tail: pad)"
        if not any(it.is_sequential for it in its) and not isinstance(v, Composite):
            found["vectorized"] = _vectorized(v, cut, parallel)
        if _operation(module, "p") is not None:
            found["producer fused"] = f"{tiled})\nfuse(p, into: {last}, recompute: true)"
    if isinstance(v, Composite):
        made = [f"d{k}: {size}" for k, size in zip(range(len(shape_of(v.result.type))), (3, 8, 2), strict=False)]
        loops = ", ".join(f"a{k}" for k in range(len(made)))
        lanes = f"\nlet {loops} = tile(d, [{', '.join(made)}], tail: pad)\nvectorize(a0)" if made else ""
        found["decomposed"] = f"let d = decompose(v){lanes}"
    if parallel:
        found["threads"] = f"let a = tile(v, [{parallel[0]}: 2], parallel: true)"
        if _operation(module, "c") is not None:
            found["consumer fused"] = f"let a = tile(v, [{parallel[0]}: 3])\nfuse(c, into: a)"
    c, p = _operation(module, "c"), _operation(module, "p")
    if isinstance(c, Tileable) and c.domain():
        found["fused as a producer"] = "let t = tile(c, [d0: 3])\nfuse(v, into: t, recompute: true)"
    shared = _dim_read(v, p, parallel)
    if shared:
        found["fused as a consumer"] = f"let t = tile(p, [{shared}: 3])\nfuse(v, into: t)"
    return found


def _vectorized(v: Tileable, cut: Sequence[str], parallel: Sequence[str]) -> str:
    """Lanes along the last dim; where elements say what is written, along a parallel one, in the innermost loop."""
    loops = ", ".join(f"a{k}" for k in range(len(cut)))
    if isinstance(v, Structured) and Scatter.of(v) is not None:
        order = sorted(cut, key=lambda name: name not in parallel)
        sizes = ", ".join(f"{name}: {16 if name in parallel else 4}" for name in order)
        return (
            f"let {loops} = tile(v, [{sizes}], tail: pad)\nfuse(p, into: a{len(cut) - 1})\nvectorize(a{len(cut) - 1})"
        )
    sizes = ", ".join(f"{name}: {8 if name == cut[-1] else 2}" for name in cut)
    return f"let {loops} = tile(v, [{sizes}], tail: pad)\nvectorize(a0)"


def _dim_read(v: Tileable, p: Operation | None, parallel: Sequence[str]) -> str:
    """The dim of %p that is indexed by a parallel dim of %v."""
    if not isinstance(p, Tileable) or p.results[0] not in v.operands:
        return ""
    if not isinstance(v, Structured):
        return parallel[0] if parallel else ""
    read = [map_dim(e) for e in v.maps()[v.operands.index(p.results[0])]]
    return next((f"d{k}" for k, name in enumerate(read) if name in parallel), "")


def _program(module: Module, steps: str) -> Program:
    used = [name for name in "vpc" if any(text in steps for text in (f"({name},", f"({name})"))]
    names = {name: op.results[0].name for name in used if (op := _operation(module, name)) is not None}
    lets = [f'let {name} = match one "{names[name]}" in root' for name in used]
    return tcpx.parse_schedule("language 1\nschedule s(root: func) {\n" + "\n".join([*lets, steps]) + "\n}\n")


def agree(found: npt.ArrayLike, wanted: npt.ArrayLike, tolerance: float) -> bool:
    """Whether a result has the shape that is wanted, and the numbers, NaN included."""
    a, b = (np.asarray(x).astype(np.float64) if np.asarray(x).dtype.kind in "fV" else np.asarray(x)
            for x in (found, wanted))  # fmt: skip
    same = np.array_equal(a, b, equal_nan=True) if tolerance == 0 and a.dtype.kind == "f" else np.array_equal(a, b)
    return a.shape == b.shape and (same or bool(np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)))


def check_evaluation(case: Case) -> None:
    """The text is printed as it is parsed, and the evaluator gives what NumPy gives."""
    module = parse(case.payload)
    assert print_module(parse(print_module(module))) == print_module(module)
    for arrays in case.calls:
        with np.errstate(all="ignore"):
            wanted = case.wanted(*arrays)
        found = evaluate_func(module, module.main, list(arrays))
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            assert agree(a, b, case.tolerance), ([x.shape for x in arrays], a, b)


def check_columns(cases: Mapping[str, Case]) -> None:
    """What is not refused is compiled, in two libraries, and gives what the evaluator gives."""
    target, wrong = load_target("native"), list[str]()
    for threads in (1, 2):
        requests: dict[tuple[str, str], KernelRequest] = {}
        for name, case in cases.items():
            module = parse(case.payload)
            every = {**columns(module), "default": None}
            for column, steps in every.items():
                if (column == "threads") != (threads == 2) or (case.columns and column not in case.columns):
                    continue
                program = None if steps is None else _program(module, steps)
                request = tcpx.CompileRequest(parse(case.payload), program, name=f"k{len(requests)}")
                try:
                    run = lowered(request, target, threads)
                except tcpx.TcpxError as error:
                    message = error.diagnostic.message
                    if case.refused.get(column, "?") not in message or error.diagnostic.schedule is None:
                        wrong.append(f"{name}, {column}: {error}")
                else:
                    if column in case.refused:
                        wrong.append(f"{name}, {column}: is not refused")
                    requests[name, column] = KernelRequest(run.module, request.name, run.trace, None)
        for (name, column), kernel in zip(requests, build_many([*requests.values()], target, threads), strict=True):
            module = parse(cases[name].payload)
            for arrays in cases[name].calls:
                wanted = evaluate_func(module, module.main, list(arrays))
                found = run_guarded(kernel, *arrays)
                for a, b in zip(found, wanted, strict=True):
                    if not agree(a, b, cases[name].tolerance):
                        wrong.append(f"{name}, {column}: {[x.shape for x in arrays]}: {a} for {b}")
    assert not wrong, "\n".join(wrong)
