"""Cycles of loops as `tcpx explain --why` predicts them, beside those that they take on this processor.

    python -m benchmarks.why_loops              # all, as a table
    python -m benchmarks.why_loops product sum  # those with one of these words in their name
    python -m benchmarks.why_loops --target x86_avx2  # compiled for this target, with the ports of this processor

Each loop is compiled for two sizes whose data the first cache holds. What the longer one takes more, divided by the
iterations that it runs more, is the measured time of an iteration: what a call takes besides cancels out. Cycles are
counted by a chain of multiplications of three cycles each, timed right before and right after; a sample counts where
both agree, and where independent additions start as often as they can: they do not while another thread uses the core.
"""

import ctypes
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

import tcpx
from tcpx.api import CompileRequest, lowered
from tcpx.costs.bounds import bound_of
from tcpx.costs.nests import InnerLoop, nests_of
from tcpx.emit_c.driver import build_library
from tcpx.payload.evaluator import Array, bind_symbols
from tcpx.payload.sizes import evaluate
from tcpx.payload.types import dtype_of, shape_of
from tcpx.records import frozen

NEAR: Final = 0.15
"""How far a prediction may be off."""
PAGE: Final = 4096
APART: Final = 704
SAMPLES: Final = 1000
"""How many samples count."""
BATCH: Final = 50
PAUSE: Final = 0.02
"""Seconds between batches, so that not all samples fall into a burst of whoever shares the core."""
LONGEST: Final = 4.0
"""Seconds that are spent on a loop at most."""
FASTEST: Final = 20
"""Of so many samples the fastest one counts: where loads and stores meet depends on what ran before."""
STEADY: Final = 0.03
ROUNDS: Final = 40_000
"""Cycles of a sample, about."""

CLOCK: Final = """
#define _POSIX_C_SOURCE 199309L
#include <stdint.h>
#include <time.h>
static double tcpx_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
"""
CYCLES: Final = """
/* Seconds of a cycle. */
double tcpx_cycle(int64_t rounds) {
  const double start = tcpx_seconds();
  for (int64_t k = 0; k < rounds; k++)
    __asm__ volatile(".rept 32\\n\\timul %%rax, %%rax\\n\\t.endr" ::: "rax");
  return (tcpx_seconds() - start) / (96.0 * (double)rounds);
}
/* Seconds of independent instructions, of which several start in each cycle. */
double tcpx_entry(int64_t rounds) {
  const double start = tcpx_seconds();
  for (int64_t k = 0; k < rounds; k++)
    __asm__ volatile(".rept 16\\n\\tinc %%rax\\n\\tinc %%rcx\\n\\tinc %%rdx\\n\\tinc %%rsi\\n\\t.endr"
                     ::: "rax", "rcx", "rdx", "rsi");
  return (tcpx_seconds() - start) / (64.0 * (double)rounds);
}
"""
CALL: Final = """
/* Seconds of a call. */
double tcpx_call(int64_t rounds, void **p) {
  __typeof__(kernel) *volatile call = kernel; /* which no compiler sees through */
  const double start = tcpx_seconds();
  for (int64_t k = 0; k < rounds; k++) CALL;
  return (tcpx_seconds() - start) / (double)rounds;
}
"""


@frozen
class Case:
    """A loop: `payload` for a size `n`, the two sizes, the iterations that an element of the size is worth, and a
    schedule; the default one where there is none."""

    name: str
    payload: str
    sizes: tuple[int, int]
    schedule: str = ""


def _elementwise(
    name: str, body: str, arguments: str = "x y", dtype: str = "f32", result: str = "", n: int = 0
) -> Case:
    """An operation on vectors; `T` and `R` in the body are the types of arguments and result."""
    result = result or dtype
    given, made = f"tensor<{{n}}x{dtype}>", f"tensor<{{n}}x{result}>"
    taken = ", ".join(f"%{argument}: {given}" for argument in arguments.split())
    lines = body.replace("T", given).replace("R", made)
    n = n or (8192 if len(arguments.split()) < 3 else 4096) // BYTES[dtype]
    return Case(name, f"func @f({taken}) -> {made} {{{{\n{lines}\n  tcp.return(%r)\n}}}}\n", (n // 4, n))


BYTES: Final = {"f32": 4, "si32": 4, "ui32": 4, "f64": 8, "si64": 8, "bf16": 2, "f16": 2, "si16": 2, "si8": 1, "ui8": 1}


def _reduction(name: str, accumulators: int, dtype: str = "f32", operation: str = "reduce_sum") -> Case:
    """A reduction of a vector with so many accumulators."""
    text = (
        f"func @f(%x: tensor<{{n}}x{dtype}>) -> tensor<{dtype}> {{{{\n"
        f"  %r = tcp.{operation}(%x) {{{{dims = [0]}}}} : tensor<{dtype}>\n  tcp.return(%r)\n}}}}\n"
    )
    schedule = (
        "language 2\nschedule s(root: func) {\n  let r = match one reduce in root\n"
        f"  let kk, sums = split_reduction(r, d0, factor: {accumulators} * lanes({dtype}))\n"
        "  vectorize(kk)\n  hoist_accumulator(r, out_of: kk)\n  vectorize(sums)\n}\n"
    )
    return Case(name, text, (8192 // BYTES[dtype], 32768 // BYTES[dtype]), schedule)


def _product(name: str, rows: int, columns: int, dtype: str = "f32") -> Case:
    """A product with this register tile."""
    left, right, made = (
        f"tensor<{shape}x{dtype}>" for shape in (f"{rows}x{{n}}", f"{{n}}x{columns}", f"{rows}x{columns}")
    )
    text = (
        f"func @f(%x: {left}, %w: {right}) -> {made} {{{{\n"
        f"  %mm = tcp.matmul(%x, %w) : {made}\n  tcp.return(%mm)\n}}}}\n"
    )
    schedule = (
        "language 2\nschedule s(root: func) {\n  let mm = match one contract in root\n"
        f"  let i, j = tile(mm, [m: {rows}, n: {columns}])\n  let kk = tile(mm, [k: 1])\n"
        "  vectorize(j)\n  hoist_accumulator(mm, out_of: kk)\n}\n"
    )
    most = 24576 // (columns * BYTES[dtype])
    return Case(name, text, (most // 4, most), schedule)


def cases() -> Iterator[Case]:
    """All loops."""
    yield _product("product 6x64", 6, 64)
    yield _product("product 1x64", 1, 64)
    yield _product("product 2x32", 2, 32)
    yield _product("product 1x16", 1, 16)
    yield _product("product 12x32", 12, 32)
    yield _product("product 8x64 (spills)", 8, 64)
    yield _product("product 6x16 f64", 6, 16, "f64")
    yield _reduction("sum, 1 accumulator", 1)
    yield _reduction("sum, 2 accumulators", 2)
    yield _reduction("sum, 4 accumulators", 4)
    yield _reduction("sum, 8 accumulators", 8)
    yield _reduction("maximum, 4 accumulators", 4, operation="reduce_max")
    yield _reduction("sum of f64, 4 accumulators", 4, "f64")
    yield _reduction("sum of si32, 2 accumulators", 2, "si32")
    yield _elementwise("axpy", "  %r = tcp.multiply_add(%x, %y, %z) : R", "x y z")
    yield _elementwise("sum of two", "  %r = tcp.add(%x, %y) : R")
    yield _elementwise("copy", "  %r = tcp.neg(%x) : R", "x")
    yield _elementwise("division", "  %r = tcp.div(%x, %y) : R")
    yield _elementwise("division f64", "  %r = tcp.div(%x, %y) : R", dtype="f64")
    yield _elementwise("square root", "  %r = tcp.sqrt(%x) : R", "x")
    yield _elementwise("exp", "  %r = tcp.exp(%x) : R", "x")
    yield _elementwise("tanh", "  %r = tcp.tanh(%x) : R", "x")
    yield _elementwise("gelu", '  %r = tcp.gelu(%x) {{approximate = "tanh"}} : R', "x")
    yield _elementwise("minimum and maximum", "  %a = tcp.max(%x, %y) : T\n  %r = tcp.min(%a, %z) : R", "x y z")
    yield _elementwise("select", "  %c = tcp.less(%x, %y) : tensor<{n}xi1>\n  %r = tcp.select(%c, %y, %z) : R", "x y z")
    yield _elementwise("round", "  %r = tcp.round(%x) : R", "x")
    yield _elementwise("cast f32 to si32", "  %r = tcp.cast(%x) : R", "x", result="si32")
    yield _elementwise("cast si32 to f32", "  %r = tcp.cast(%x) : R", "x", "si32", "f32")
    yield _elementwise("cast f32 to f64", "  %r = tcp.cast(%x) : R", "x", result="f64", n=1024)
    yield _elementwise("cast f32 to bf16", "  %r = tcp.cast(%x) : R", "x", result="bf16")
    yield _elementwise("cast bf16 to f32", "  %r = tcp.cast(%x) : R", "x", "bf16", "f32", n=2048)
    yield _elementwise("cast ui8 to f32", "  %r = tcp.cast(%x) : R", "x", "ui8", "f32", n=2048)
    yield _elementwise("multiplication si32", "  %r = tcp.mul(%x, %y) : R", dtype="si32")
    yield _elementwise("addition ui8", "  %r = tcp.add(%x, %y) : R", dtype="ui8")
    yield _elementwise("shift si32", "  %r = tcp.shift_left(%x, %y) : R", dtype="si32")
    yield Case(
        "gather",
        "func @f(%t: tensor<512xf32>, %i: tensor<{n}xsi32>) -> tensor<{n}xf32> {{\n"
        "  %m = tcp.const {{value = 511}} : tensor<{n}xsi32>\n  %j = tcp.and(%i, %m) : tensor<{n}xsi32>\n"
        "  %r = tcp.gather(%t, %j) {{dim = 0}} : tensor<{n}xf32>\n  tcp.return(%r)\n}}\n",
        (512, 2048),
    )
    yield Case(
        "running sum",
        "func @f(%x: tensor<{n}xf32>) -> tensor<{n}xf32> {{\n"
        "  %r, %s = tcp.cumsum(%x) {{dim = 0}} : tensor<{n}xf32>, tensor<f32>\n  tcp.return(%r)\n}}\n",
        (512, 2048),
    )
    yield Case(
        "dot product",
        "func @f(%x: tensor<{n}xf32>, %y: tensor<{n}xf32>) -> tensor<f32> {{\n"
        "  %r = tcp.dot(%x, %y) : tensor<f32>\n  tcp.return(%r)\n}}\n",
        (1024, 4096),
    )
    yield Case(
        "dot product u8s8",
        "func @f(%x: tensor<{n}xui8>, %y: tensor<{n}xsi8>) -> tensor<si32> {{\n"
        "  %r = tcp.dot(%x, %y) : tensor<si32>\n  tcp.return(%r)\n}}\n",
        (4096, 16384),
    )
    yield Case(
        "transpose 16 rows",
        "func @f(%x: tensor<16x{n}xf32>) -> tensor<{n}x16xf32> {{\n"
        "  %r = tcp.transpose(%x) {{permutation = [1, 0]}} : tensor<{n}x16xf32>\n  tcp.return(%r)\n}}\n",
        (32, 128),
    )
    yield Case(
        "softmax row",
        "func @f(%x: tensor<1x{n}xf32>) -> tensor<1x{n}xf32> {{\n"
        "  %r = tcp.softmax(%x) {{dim = 1}} : tensor<1x{n}xf32>\n  tcp.return(%r)\n}}\n",
        (1024, 4096),
    )
    yield Case(
        "layer norm row",
        "func @f(%x: tensor<1x{n}xf32>, %s: tensor<{n}xf32>, %b: tensor<{n}xf32>) -> tensor<1x{n}xf32> {{\n"
        "  %r = tcp.layer_norm(%x, scale = %s, bias = %b) {{dims = [1], epsilon = 1e-05}} : tensor<1x{n}xf32>\n"
        "  tcp.return(%r)\n}}\n",
        (512, 1024),
    )
    yield Case(
        "argmax",
        "func @f(%x: tensor<{n}xf32>) -> tensor<si64> {{\n"
        "  %v, %r = tcp.reduce_argmax(%x) {{dims = [0]}} : tensor<f32>, tensor<si64>\n  tcp.return(%r)\n}}\n",
        (1024, 4096),
    )


@frozen
class Measured:
    """Cycles of an iteration of the loop that takes most of the time, predicted and measured, and what bounds it."""

    predicted: float
    measured: float
    bound: str

    @property
    def ratio(self) -> float:
        return self.predicted / self.measured if self.measured else 0.0


class Clock:
    """Counts cycles, and tells whether another thread uses the core."""

    def __init__(self, target: tcpx.Target) -> None:
        self._library = ctypes.CDLL(str(build_library(CLOCK + CYCLES, target, 1, "clock")))
        for name in ("tcpx_cycle", "tcpx_entry"):
            getattr(self._library, name).restype = ctypes.c_double
        entries: list[float] = []
        for _ in range(SAMPLES // BATCH):
            time.sleep(PAUSE)
            entries += [self._entry() / self._cycle() for _ in range(BATCH)]
        self._alone = sorted(entries)[len(entries) // FASTEST]

    def _cycle(self) -> float:
        return self._library.tcpx_cycle(ctypes.c_int64(ROUNDS // 200))

    def _entry(self) -> float:
        return self._library.tcpx_entry(ctypes.c_int64(ROUNDS // 200))

    def cycles(self, seconds: Callable[[], float]) -> float | None:
        """The cycles of what takes these seconds; None where the clock changed, or another thread used the core."""
        before, entry = self._cycle(), self._entry()
        taken = seconds()
        after = self._cycle()
        is_steady = abs(before - after) <= STEADY * before and entry <= (1 + STEADY) * self._alone * before
        return taken / ((before + after) / 2) if is_steady else None


class Timed:
    """A compiled case of one size."""

    def __init__(self, case: Case, size: int, target: tcpx.Target) -> None:
        module = tcpx.parse(case.payload.format(n=size))
        schedule = tcpx.parse_schedule(case.schedule) if case.schedule else None
        source = tcpx.emit(module, schedule, target=target, name="kernel")
        arrays = tcpx.random_inputs(module)
        run = lowered(CompileRequest(module, schedule, None), target, 1)
        self.nests = nests_of(run.module.main, target, 1, bind_symbols(run.module.main, arrays))
        results = [
            np.zeros([evaluate(d, {}) for d in shape_of(v.type)], dtype_of(v.type).numpy) for v in module.main.returned
        ]
        count = len(arrays) + len(results)
        call = ", ".join(f"p[{k}]" for k in range(count + 2))
        code = CLOCK + source.c_source + CALL.replace("CALL", f"call({call})")
        self.library = ctypes.CDLL(str(build_library(code, target, 1, "why_loop")))
        self.library.tcpx_call.restype = ctypes.c_double
        self.library.kernel_workspace.restype = ctypes.c_size_t
        constants = np.frombuffer(source.constants or b"\0", np.uint8)
        workspace = np.zeros(self.library.kernel_workspace() + 64, np.uint8)
        self.kept = [_placed(a, k) for k, a in enumerate([*arrays, *results, constants, workspace])]
        self.rounds = max(4, int(ROUNDS / max(50.0, self.predicted)))
        self.pointers = (ctypes.c_void_p * (count + 2))(*(a.ctypes.data for a in self.kept))

    def seconds(self) -> float:
        """Those of a call."""
        return self.library.tcpx_call(ctypes.c_int64(self.rounds), self.pointers)

    @property
    def predicted(self) -> float:
        """Cycles of a call."""
        return sum(nest.cycles for nest in self.nests)

    @property
    def loops(self) -> list[InnerLoop]:
        """The innermost loops, the one that takes most of the time first."""
        found = (loop for nest in self.nests for loop in nest.loops)
        return sorted(found, key=lambda held: held.cycles * held.iterations, reverse=True)


def _placed(array: Array, number: int) -> Array:
    """A copy at the start of a line, far from where the others are in their pages: else loads wait for stores to other
    addresses that end in the same twelve bits."""
    room = np.empty(array.nbytes + 8192, np.uint8)
    start = -room.ctypes.data % PAGE + APART * number % PAGE
    held = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    held[...] = array
    return held


def measured(case: Case, target: tcpx.Target, clock: Clock) -> Measured:
    """The loop of a case."""
    short, long = (Timed(case, size, target) for size in case.sizes)
    kept: dict[Timed, list[float]] = {short: [], long: []}
    end = time.monotonic() + LONGEST
    while min(map(len, kept.values())) < SAMPLES and time.monotonic() < end:
        time.sleep(PAUSE)
        for timed, samples in kept.items():
            samples.extend(filter(None, (clock.cycles(timed.seconds) for _ in range(BATCH))))
    cycles = {timed: sorted(samples)[len(samples) // FASTEST] if samples else 0.0 for timed, samples in kept.items()}
    inner = long.loops[0]
    fewer = sum(loop.iterations for loop in short.loops if loop.loop.name == inner.loop.name)
    rounds = max(1.0, inner.iterations - fewer)
    predicted, taken = (long.predicted - short.predicted) / rounds, (cycles[long] - cycles[short]) / rounds
    return Measured(predicted, taken, bound_of(inner).what)


def main(arguments: Sequence[str]) -> None:
    """Print the table."""
    parser = ArgumentParser(prog="python -m benchmarks.why_loops")
    parser.add_argument("words", nargs="*", metavar="WORD", help="only loops with one of these words in their name")
    parser.add_argument("--target", default="native", help="the target to compile for (default: native)")
    options = parser.parse_args(arguments)
    words: list[str] = options.words
    target = replace(tcpx.load_target(options.target), core=tcpx.load_target("native").core)
    clock = Clock(target)
    found: list[Measured] = []
    print(f"{'loop':28} {'predicted':>9} {'measured':>9} {'ratio':>6}  bound")
    for case in cases():
        if not words or any(word in case.name for word in words):
            row = measured(case, target, clock)
            found.append(row)
            far = "" if abs(row.ratio - 1) <= NEAR else ", far off"
            print(
                f"{case.name:28} {row.predicted:9.2f} {row.measured:9.2f} {row.ratio:6.2f}  {row.bound}{far}",
                flush=True,
            )
    near = sum(abs(row.ratio - 1) <= NEAR for row in found)
    print(f"{near} of {len(found)} within {NEAR:.0%}")


if __name__ == "__main__":
    main(sys.argv[1:])
