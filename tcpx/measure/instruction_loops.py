"""Loops in C that do nothing but one thing as fast as the machine can, made of the instruction rows of a target."""

from collections.abc import Callable, Sequence
from typing import Final

import tcpx
from tcpx.records import frozen

ACCUMULATORS: Final = 12
"""Independent chains: enough to hide the latency of every instruction."""
LOADS: Final = 8
"""Vectors that one round of a loop over memory takes."""

ARITHMETIC: Final = "arithmetic"
PRODUCT: Final = "product"
"""Draws power as a matrix product does, which may cost the processor some of its clock."""
READ: Final = "read"
COPY: Final = "copy"


@frozen
class Loop:
    """One function of the C file. `per_round` is the operations, or the bytes, that one round of the loop does."""

    name: str
    kind: str
    per_round: int
    code: str
    rows: tuple[tcpx.InstructionRow, ...]


FILE: Final = """\
#define _POSIX_C_SOURCE 199309L
{headers}
#include <time.h>
{helpers}
unsigned char tcpx_data[4096] __attribute__((aligned(64)));

static double seconds(void) {{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}}
{functions}"""

ARITHMETIC_LOOP: Final = """
/* Seconds of so many rounds. */
double {name}(int64_t rounds) {{
  const {left} b = {load_b};
  const {right} c = {load_c};
{declare}
  const double start = seconds();
  for (int64_t k = 0; k < rounds; k++) {{
{step}
  }}
  const double end = seconds();
{keep}
  return end - start;
}}
"""

MEMORY_LOOP: Final = """
/* Seconds of `repeats` passes over `rounds` rounds. */
double {name}({element} *p, {element} *q, int64_t rounds, int64_t repeats) {{
{declare}
  const double start = seconds();
  for (int64_t r = 0; r < repeats; r++) {{
    __asm__ volatile("" ::: "memory");
    for (int64_t k = 0; k < rounds; k++) {{
{step}
    }}
  }}
{finish}
  const double end = seconds();
{keep}
  return end - start;
}}
"""


def instruction_loops(target: tcpx.Target) -> tuple[Loop, ...]:
    """The loops that this target has instructions for."""
    loops = [make(target) for make in LOOPS.values()]
    return tuple(loop for loop in loops if loop is not None)


def source_of(target: tcpx.Target, loops: Sequence[Loop]) -> str:
    """The C file of these loops."""
    rows = [row for loop in loops for row in loop.rows]
    return FILE.format(
        headers="\n".join(f"#include <{header}>" for header in target.headers),
        helpers="\n".join(target.helper_code(rows)),
        functions="".join(loop.code for loop in loops),
    )


def _data(dtype: str, target: tcpx.Target) -> str:
    return f"(({target.c_type(dtype)} *)tcpx_data)"


def _row_of(target: tcpx.Target, kind: str, dtype: str, lanes: int) -> tcpx.InstructionRow | None:
    """The row that loads or stores so many lanes."""
    if kind == "load":
        return target.find(kind, result=(dtype, lanes))
    return target.find(kind, operands=[(dtype, lanes)])


def _arithmetic(
    target: tcpx.Target,
    name: str,
    accumulator: str,
    factors: tuple[str, str],
    steps: Sequence[tuple[str, str, dict[str, str]]],
    is_fed: bool = False,
) -> Loop | None:
    """A loop of instructions on registers. `steps` are the kind, the semantics and the operands of each instruction,
    which leaves its result in the accumulator `x`; the factors are `b` and `c`. If it `is_fed`, they are read from L1
    as a register tile of two vectors a row reads them: two vectors and an element for each row."""
    lanes = target.lanes(accumulator)
    wide = [(dtype, target.lanes(dtype)) for dtype in factors]
    found = [
        target.find(
            kind,
            semantics,
            (accumulator, lanes),
            [(accumulator, lanes) if value == "x" else wide["bc".index(value)] for value in operands.values()],
            ("a_not_nan",),
        )
        for kind, semantics, operands in steps
    ]
    loads = [_row_of(target, "load", dtype, count) for dtype, count in (*wide, (accumulator, lanes))]
    store = _row_of(target, "store", accumulator, lanes)
    if store is None or None in found or None in loads:
        return None
    rows = [row for row in found if row is not None]
    load_b, load_c, load_x = [row for row in loads if row is not None]
    splat = target.find("splat", result=wide[1], operands=[(factors[1], 1)])
    lines: list[str] = []
    if is_fed:
        pairs = [load_b.render(p=f"({_data(factors[0], target)} + {k * wide[0][1]})") for k in range(2)]
        lines.append('    __asm__ volatile("" ::: "memory");')
        lines += [f"    const {target.c_type(*wide[0])} b{k} = {pair};" for k, pair in enumerate(pairs)]
    for k in range(ACCUMULATORS):
        for row, (_, _, operands) in zip(rows, steps, strict=True):
            held = {"x": f"x{k}", "b": f"b{k % 2}" if is_fed else "b", "c": "c"}
            if is_fed:
                element = f"{_data(factors[1], target)}[{k // 2}]"
                held["c"] = splat.render(a=element) if splat is not None else element
            named = {slot: held[value] for slot, value in operands.items()}
            lines.append(f"    x{k} = {row.render(**named)};")
    data, register = _data(accumulator, target), target.c_type(accumulator, lanes)
    code = ARITHMETIC_LOOP.format(
        name=f"loop_{name}",
        left=target.c_type(*wide[0]),
        right=target.c_type(*wide[1]),
        load_b=load_b.render(p=_data(factors[0], target)),
        load_c=load_c.render(p=_data(factors[1], target)),
        declare="\n".join(f"  {register} x{k} = {load_x.render(p=f'({data} + {k})')};" for k in range(ACCUMULATORS)),
        step="\n".join(lines),
        keep="\n".join(f"  {store.render(p=f'({data} + {k * lanes})', v=f'x{k}')};" for k in range(ACCUMULATORS)),
    )
    work = 2 * max(count for _, count in wide)
    used = [row for row in (*rows, load_b, load_c, load_x, splat, store) if row is not None]
    return Loop(name, PRODUCT if is_fed else ARITHMETIC, work * ACCUMULATORS, code, tuple(used))


def _fma(name: str, dtype: str, is_fed: bool = False) -> Callable[[tcpx.Target], Loop | None]:
    fused = [("compute", "fma(a, b, c)", {"a": "b", "b": "c", "c": "x"})]
    apart = [("compute", "a * b", {"a": "x", "b": "b"}), ("compute", "a + b", {"a": "x", "b": "c"})]

    def make(target: tcpx.Target) -> Loop | None:
        made = (_arithmetic(target, name, dtype, (dtype, dtype), steps, is_fed) for steps in (fused, apart))
        return next((loop for loop in made if loop is not None), None)

    return make


def _dot(name: str, accumulator: str, factors: tuple[str, str]) -> Callable[[tcpx.Target], Loop | None]:
    steps = [("dot", "a + dot(b, c)", {"a": "x", "b": "b", "c": "c"})]
    return lambda target: _arithmetic(target, name, accumulator, factors, steps)


def _add_min(target: tcpx.Target) -> Loop | None:
    steps = [("compute", "a + b", {"a": "x", "b": "b"}), ("compute", "min(a, b)", {"a": "c", "b": "x"})]
    return _arithmetic(target, "add_min_f32", "f32", ("f32", "f32"), steps)


def _memory_loop(target: tcpx.Target, name: str, kind: str, dtype: str, store_kind: str | None) -> Loop | None:
    """A loop over memory: reads combined by `min`, or, with a kind of store, a copy from `p` to `q`."""
    lanes = target.lanes(dtype)
    load = _row_of(target, "load", dtype, lanes)
    store = _row_of(target, store_kind or "store", dtype, lanes)
    combine = target.find("compute", "min(a, b)", (dtype, lanes), conditions=("a_not_nan",))
    fence = target.find("stream_fence") if store_kind == "stream_store" else None
    if load is None or store is None or combine is None:
        return None
    register, data = target.c_type(dtype, lanes), _data(dtype, target)
    places = [f"(k * {LOADS} + {k}) * {lanes}" for k in range(LOADS)]
    values = [load.render(p=f"(p + {place})") for place in places]
    declare, keep = "", ""
    if store_kind is None:
        step = [f"      x{k} = {combine.render(a=f'x{k}', b=value)};" for k, value in enumerate(values)]
        declare = "\n".join(f"  {register} x{k} = {load.render(p=data)};" for k in range(LOADS)) + "\n  (void)q;"
        keep = "\n".join(f"  {store.render(p=f'({data} + {k * lanes})', v=f'x{k}')};" for k in range(LOADS))
    else:
        step = [
            f"      {store.render(p=f'(q + {place})', v=value)};" for place, value in zip(places, values, strict=True)
        ]
    code = MEMORY_LOOP.format(
        name=f"loop_{name}",
        element=target.c_type(dtype),
        declare=declare,
        step="\n".join(step),
        finish=f"  {fence.render()};" if fence is not None else "",
        keep=keep,
    )
    passes = 1 if store_kind is None else 2
    size = passes * LOADS * target.vector_bits // 8
    return Loop(name, kind, size, code, tuple(r for r in (load, store, combine, fence) if r is not None))


def _memory(name: str, kind: str, store_kind: str | None) -> Callable[[tcpx.Target], Loop | None]:
    return lambda target: _memory_loop(target, name, kind, "si32", store_kind)


LOOPS: Final[dict[str, Callable[[tcpx.Target], Loop | None]]] = {
    "fma_f32": _fma("fma_f32", "f32"),
    "product_f32": _fma("product_f32", "f32", is_fed=True),
    "fma_f64": _fma("fma_f64", "f64"),
    "dot_bf16": _dot("dot_bf16", "f32", ("bf16", "bf16")),
    "dot_ui8_si8": _dot("dot_ui8_si8", "si32", ("ui8", "si8")),
    "add_min_f32": _add_min,
    "read": _memory("read", READ, None),
    "copy": _memory("copy", COPY, "store"),
    "stream_copy": _memory("stream_copy", COPY, "stream_store"),
}
"""What is measured, by name; `dot_bf16` is `vdpbf16ps`, `dot_ui8_si8` is `vpdpbusd`."""
