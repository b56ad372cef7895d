"""Programs with loops over state beside plain C loops: `python -m benchmarks.state_loops [NAME ..]`.

Stencils of one to three dims in time loops, triangular solves, eliminations, row updates, scans, histograms,
butterflies, checksums and dynamic programs, with symbolic sizes and the default schedule, on one thread. The C is
`payloads/state/loops.c`, by gcc -O3 -march=native -ffast-math. Results are compared before anything is timed. The last
lines are the geometric mean of the ratios, the programs above `MOST`, and those slower than NumPy.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from math import exp, log
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np

import tcpx
from tcpx.payload.sizes.traversal import evaluate
from tcpx.payload.types import dtype_of, shape_of
from tcpx.records import frozen

FOLDER: Final = Path(__file__).parent / "payloads" / "state"
FLAGS: Final = ("-O3", "-march=native", "-ffast-math", "-shared", "-fPIC")
MOST: Final = 1.5
ROUNDS: Final = 7
Array = np.ndarray


@frozen
class Program:
    """A payload, the C function that computes the same, sizes in the order in which C takes them, and whether that
    alternates with a second buffer."""

    name: str
    function: str
    sizes: Mapping[str, int]
    has_second: bool = False


PROGRAMS: Final = (
    Program("ew2d", "ew2d", {"H": 1000, "W": 1000, "T": 10}),
    Program("two_states", "two_states", {"H": 1000, "W": 1000, "T": 10}),
    Program("heat2d_slice", "heat2d", {"H": 1000, "W": 1000, "T": 10}, has_second=True),
    Program("heat2d_tile", "heat2d", {"H": 1000, "W": 1000, "T": 10}, has_second=True),
    Program("red_black", "red_black", {"N": 100000, "T": 20}),
    Program("strided2d", "strided2d", {"H": 500, "W": 500, "T": 10}),
    Program("heat3d", "heat3d", {"A": 100, "H": 100, "W": 100, "T": 10}, has_second=True),
    Program("row_drop", "row_drop", {"H": 1000, "W": 1000}),
    Program("concat_state", "concat_state", {"N": 100000, "T": 20}, has_second=True),
    Program("dp_table", "dp_table", {"N": 1000, "M": 1000}),
    Program("dp_full", "dp_full", {"N": 500, "M": 500}),
    Program("row_elsewhere", "row_elsewhere", {"N": 1000, "M": 1000}),
    Program("gauss", "gauss", {"N": 300}),
    Program("trisolve", "trisolve", {"N": 1000}),
    Program("select_seq", "select_seq", {"N": 1000000}),
    Program("lcg", "lcg", {"N": 1000000}),
    Program("ew2d_d", "ew2d", {"H": 1000, "W": 1000, "T": 10}),
    Program("ew2d_inner", "ew2d", {"H": 1000, "W": 1000, "T": 10}),
    Program("ew2d_slot", "ew2d", {"H": 1000, "W": 1000, "T": 10}),
    Program("ew2d_inout", "ew2d", {"H": 1000, "W": 1000, "T": 10}),
    Program("ew2d_time", "ew2d_time", {"H": 1000, "W": 1000, "T": 10}),
    Program("ew2d_reduce", "ew2d_reduce", {"H": 1000, "W": 1000, "T": 10}),
    Program("ew2d_history", "ew2d_history", {"H": 1000, "W": 1000, "T": 10}),
    Program("ew2d_slots", "ew2d_slots", {"H": 1000, "W": 1000, "T": 10}),
    Program("dp_outer_read", "dp_full", {"N": 500, "M": 500}),
    Program("dp_row_scan", "dp_row_scan", {"N": 500, "M": 500}),
    Program("row_inner", "row_inner", {"N": 500, "M": 500}),
    Program("row_inner_full", "row_inner", {"N": 500, "M": 500}),
    Program("knapsack", "knapsack", {"N": 200, "M": 10000}),
    Program("wave", "wave", {"N": 100000, "T": 20}),
    Program("butterfly", "butterfly", {"N": 50000, "T": 20}),
    Program("fib_swap", "fib_swap", {"N": 100000, "T": 20}),
    Program("hist", "hist", {"N": 1000000}),
    Program("select64", "select64", {"N": 1000000}),
    Program("select_rec", "select_rec", {"N": 1000000}),
    Program("heat1d", "heat1d", {"N": 100000, "T": 20}, has_second=True),
    Program("three_states", "three_states", {"N": 100000, "T": 20}),
    Program("running_max", "running_max", {"N": 1000000}),
    Program("checksum", "checksum", {"N": 1000000}),
    Program("turned", "turned", {"N": 100000, "T": 20}, has_second=True),
)


def _heat(u: Array, steps: int) -> Array:
    y = u.copy()
    for _ in range(steps):
        around = y[:-2, 1:-1] + y[2:, 1:-1] + y[1:-1, :-2] + y[1:-1, 2:]
        y[1:-1, 1:-1] += 0.1 * (around - 4 * y[1:-1, 1:-1])
    return y


def _halved_sum(u: Array, v: Array, steps: int) -> Array:
    y = u.copy()
    for _ in range(steps):
        y *= 0.5
        y += v
    return y


def _handed_on(a: Array, b: Array, steps: int) -> tuple[Array, Array]:
    p, c = a, b
    for _ in range(steps):
        p, c = c, (p + c) * np.float32(0.5)
    return p, c


NUMPY: Final[Mapping[str, Callable[..., object]]] = {
    "ew2d": _halved_sum,
    "heat2d": _heat,
    "fib_swap": _handed_on,
    "running_max": np.maximum.accumulate,
    "hist": lambda x: np.bincount(np.clip((x * 64).astype(np.int32), 0, 63), minlength=64),
}
"""The same in NumPy, by the name of the C function, where whole arrays say it."""


def arguments(program: Program, module: tcpx.Module) -> list[Array | int]:
    """Random numbers in 0..1, whole ones of all bits for integers; what is divided by is large."""
    rng = np.random.default_rng(0)
    found: list[Array | int] = []
    for position, arg in enumerate(module.main.args):
        if position in module.main.numbers:
            found.append(evaluate(module.main.numbers[position].size(), program.sizes))
            continue
        shape = [evaluate(n, program.sizes) for n in shape_of(arg.type)]
        dtype = np.dtype({"f32": np.float32, "f64": np.float64, "ui32": np.uint32}[str(dtype_of(arg.type))])
        made = rng.integers(0, 2**32, shape, dtype) if dtype.kind == "u" else rng.random(shape, dtype)
        if program.name in ("gauss", "trisolve") and made.ndim == 2:
            made += len(made) * np.eye(len(made), dtype=dtype)
        found.append(made * dtype.type(1e-6) if program.name == "butterfly" else made)
    return found


def in_c(
    library: ctypes.CDLL, program: Program, given: list[Array | int], like: tuple[Array, ...]
) -> tuple[float, list[Array]]:
    """Seconds of the C function, and its results."""
    arrays = [np.zeros_like(a) for a in (*like, *(like if program.has_second else ()))]
    passed = [*arrays, *(a for a in given if isinstance(a, np.ndarray))]
    function = getattr(library, program.function)
    function.restype = None
    numbers = [ctypes.c_long(n) for n in program.sizes.values()]
    start = perf_counter()
    function(*(ctypes.c_void_p(a.ctypes.data) for a in passed), *numbers)
    seconds = perf_counter() - start
    is_in_second = program.has_second and program.sizes["T"] % 2 == 1
    return seconds, arrays[len(like) :] if is_in_second else arrays[: len(like)]


def measured(library: ctypes.CDLL, program: Program) -> tuple[float, float, float | None]:
    """The least seconds of tcpx, of C and of NumPy, in turn."""
    module = tcpx.parse((FOLDER / f"{program.name}.tcp").read_text(encoding="utf-8"))
    kernel = tcpx.compile(module, threads=1)
    given = arguments(program, module)
    results = kernel(*(a.copy() if isinstance(a, np.ndarray) else a for a in given))
    out = tuple(map(np.asarray, results if isinstance(results, tuple) else (results,)))
    for ours, theirs in zip(out, in_c(library, program, given, out)[1], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4, err_msg=program.name)
    options = {} if module.main.states else {"out": out if len(out) > 1 else out[0]}
    numpy = NUMPY.get(program.function)
    times: dict[str, list[float]] = {"tcpx": [], "c": [], "numpy": []}
    for _ in range(ROUNDS):
        start = perf_counter()
        kernel(*given, **options)
        times["tcpx"].append(perf_counter() - start)
        times["c"].append(in_c(library, program, given, out)[0])
        if numpy is not None:
            start = perf_counter()
            numpy(*given)
            times["numpy"].append(perf_counter() - start)
    return min(times["tcpx"]), min(times["c"]), min(times["numpy"], default=None)


def main(names: list[str]) -> None:
    """Print a line for each program."""
    ratios: dict[str, float] = {}
    slower: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "loops.so"
        subprocess.run(["gcc", *FLAGS, str(FOLDER / "loops.c"), "-o", str(path)], check=True)
        library = ctypes.CDLL(str(path))
        for program in PROGRAMS:
            if names and program.name not in names:
                continue
            ours, plain, numpy = measured(library, program)
            ratios[program.name] = ours / plain
            slower += [program.name] if numpy is not None and numpy < ours else []
            beside = "" if numpy is None else f"  NumPy {1e3 * numpy:8.3f}"
            print(f"{program.name:16} {1e3 * ours:8.3f} ms  C {1e3 * plain:8.3f}  ratio {ours / plain:5.2f}{beside}")
    print(f"geometric mean {exp(sum(map(log, ratios.values())) / len(ratios)):.2f} of {len(ratios)}")
    print(f"above {MOST}: {', '.join(name for name, ratio in ratios.items() if ratio > MOST) or 'none'}")
    print(f"slower than NumPy: {', '.join(slower) or 'none'}")


if __name__ == "__main__":
    main(sys.argv[1:])
