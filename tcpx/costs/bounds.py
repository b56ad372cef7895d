"""What bounds an innermost loop, and what to try next."""

from collections.abc import Iterator
from math import ceil
from typing import Final

from tcpx.costs.loop_cycles import DIVIDER
from tcpx.costs.nests import InnerLoop
from tcpx.payload.interfaces import Elementwise
from tcpx.payload.ops.gml_st import Loop, trip_count
from tcpx.records import frozen

LEVELS: Final = {"l2": "L2", "l3": "L3", "memory": "memory bandwidth"}
_MOVES: Final = (
    ("shuffle", "unpack", "shuffle_across", "shuffle_bytes", "extract_part", "insert_part", "insert_lane", "pack")
    + ("broadcast", "broadcast_scalar", "to_scalar", "from_scalar")
)  # fmt: skip
"""Classes of instructions that move lanes."""
_CASTS: Final = (
    ("widen", "narrow", "narrow_i64", "convert", "convert_widened", "convert_narrowed")
    + ("convert_scalar", "scalar_to_float", "float_to_scalar")
)  # fmt: skip
"""Classes of instructions that convert."""
_PRODUCTS: Final = ("fma", "dot", "dot_bf16")
_MOST: Final = 0.5
"""The part of the arithmetic from which a kind of it is what takes the time."""
_SCALAR_BITS: Final = 128


@frozen
class Step:
    """A statement about a loop of the operation with this name; `{loop}` in its text is the handle of the loop."""

    name: str
    dim: str
    text: str


@frozen
class Bound:
    """What a loop takes its time for, what changes it, and statements of a schedule that may, the likeliest
    first."""

    what: str
    next: str
    steps: tuple[Step, ...] = ()


def bound_of(inner: InnerLoop) -> Bound:
    """The bound of a loop."""
    iteration = inner.iteration
    level = max(inner.transfer, key=lambda name: inner.transfer[name])
    if inner.transfer[level] > iteration.cycles:
        return Bound(LEVELS[level], _beyond(level, inner))
    if iteration.latency > iteration.throughput:
        return _waiting(inner)
    parts = {
        "compute": iteration.compute_cycles,
        "divider": iteration.divider_cycles,
        "loads": iteration.load_cycles,
        "stores": iteration.store_cycles,
        "entry": iteration.entry,
        "window": iteration.window_cycles,
    }
    most = max(parts, key=lambda name: parts[name])
    if iteration.spilled:
        most = "spilled"
    found = _BOUNDS[most](inner) if most in _BOUNDS else _computing(inner)
    if _is_scalar(inner):
        computes = any(isinstance(op, Elementwise) for op in inner.loop.walk())
        next_ = (
            "`vectorize`" if computes else "the same dim as the innermost one where it is read and where it is written"
        )
        return Bound(found.what, f"the loop takes one element at a time: {next_}", found.steps)
    return found


def _is_scalar(inner: InnerLoop) -> bool:
    """Whether no vector is in a loop for a target that has them."""
    return 0 < inner.iteration.widest <= _SCALAR_BITS < inner.target.vector_bits


def _beyond(level: str, inner: InnerLoop) -> str:
    outer = _outer_name(inner.loop)
    if level == "memory":
        return "fuse what writes these data, or reads them next, into the loop (`fuse`), or `stream` the result"
    size = {"l2": "half of L1", "l3": "half of L2"}[level]
    return f"tile the loops round {outer} so that what they read again fits into {size} (`tile`, `promote`, `pack`)"


def _waiting(inner: InnerLoop) -> Bound:
    iteration = inner.iteration
    chain = " -> ".join(_shortened(iteration.chain))
    what = f"the latency of the chain {chain}{', through memory' if iteration.through_memory else ''}"
    times = max(2, ceil(iteration.latency / max(iteration.throughput, 1e-9)))
    jams = tuple(_jams(inner.loop, times))
    if iteration.through_memory or iteration.store_cycles:  # what is carried is stored in each iteration: a scan
        along = f" along the dim of {inner.loop.name}" if inner.loop.name else ""
        return Bound(what, f"`scan_in_lanes`{along}, or {times} rows at once", jams)
    first = f"`vectorize`, and {times}" if _is_scalar(inner) else f"{times}"
    return Bound(
        what,
        f"{first} such chains at once: a register tile of {times} times as many results (`tile`), or"
        f" `split_reduction` with {times} times the `factor`",
        jams,
    )


def _jams(loop: Loop, times: int) -> Iterator[Step]:
    """The loops round a loop, several iterations of each at once: so many, or as many next to that as divide them."""
    for outer in (op for op in loop.ancestors() if isinstance(op, Loop)):
        count = trip_count(outer)
        divisors = [k for k in range(2, 2 * times + 1) if isinstance(count, int) and count >= k and count % k == 0]
        factor = min(divisors, key=lambda k: (k < times, abs(k - times)), default=None)
        if factor is not None:
            yield from _step(outer, f"unroll_and_jam({{loop}}, factor: {factor})")


def _step(loop: Loop, text: str) -> Iterator[Step]:
    """A statement about a loop that a step made: its name is that of an operation and of a dim, with a number."""
    name, _, dim = loop.name.partition("/")
    if dim[-1:].isdigit():
        yield Step(name.partition("~")[0], dim[:-1], text)


def _shortened(chain: tuple[str, ...]) -> list[str]:
    """The names of a chain, with a number for those that follow each other."""
    found: list[tuple[str, int]] = []
    for name in chain:
        if found and found[-1][0] == name:
            found[-1] = name, found[-1][1] + 1
        else:
            found.append((name, 1))
    return [name if count == 1 else f"{count} x {name}" for name, count in found]


def _computing(inner: InnerLoop) -> Bound:
    iteration = inner.iteration
    memory = iteration.core.loads | iteration.core.stores
    computing = {port: held for port, held in iteration.ports.items() if port not in memory and port != DIVIDER}
    busy = [port for port, held in computing.items() if held > 0.99 * iteration.compute_cycles]
    busy.sort(key=lambda port: (port[0], int(port[1:] or 0)))
    what = f"port {busy[0]}" if len(busy) == 1 else f"ports {', '.join(busy[:-1])} and {busy[-1]}"
    return Bound(what, _fewer_operations(inner))


def _fewer_operations(inner: InnerLoop) -> str:
    classes = inner.iteration.classes
    total = sum(classes.values()) or 1.0
    if sum(classes.get(name, 0.0) for name in _PRODUCTS) > _MOST * total:
        return (
            "nothing in this loop: it multiplies and adds as fast as the core can; fewer operations, or narrower ones"
        )
    if sum(classes.get(name, 0.0) for name in _MOVES) > _MOST * total:
        return "lanes are moved: read what lies contiguous along the lanes (`transpose_result`, `pack`, `promote`)"
    if sum(classes.get(name, 0.0) for name in _CASTS) > _MOST * total:
        return "values are converted: convert once outside of the loop (`promote`, `pack`), or `fold_cast`"
    most = max(classes, key=lambda name: classes[name], default="")
    return f"fewer operations of the kind `{most}`; `fuse` a loop that waits for memory into this one"


def _divided(inner: InnerLoop) -> Bound:
    return Bound("the divider", "fewer quotients and roots: no instruction computes them faster")


def _loading(inner: InnerLoop) -> Bound:
    if sum(inner.iteration.classes.get(name, 0.0) for name in _PRODUCTS):
        return Bound(
            "L1 loads", "a register tile of more results for each element that is read (`tile`, `unroll_and_jam`)"
        )
    return Bound("L1 loads", "compute what reads the same elements in one loop: `fuse_elementwise`, `fuse_siblings`")


def _storing(inner: InnerLoop) -> Bound:
    return Bound("L1 stores", "keep the result in registers for what reads it: `fuse` the reader into this loop")


def _entering(inner: InnerLoop) -> Bound:
    steps = tuple(_step(inner.loop, "unroll({loop}, factor: 4, explicit: false)"))
    return Bound("the front end", "fewer instructions: `unroll`, or wider vectors", steps)


def _filling(inner: InnerLoop) -> Bound:
    places = inner.iteration.core.window
    return Bound(
        f"operands that are not there: at most {places} instructions wait at once",
        "a shorter chain from what is read to what is written: fewer operations that depend on each other",
    )


def _spilling(inner: InnerLoop) -> Bound:
    held = inner.target.vector_registers
    if not inner.iteration.chain:  # it adds up nothing: no tile of results is in its registers
        return Bound("spilled registers", "fewer values that are needed at the same time")
    return Bound("spilled registers", f"a register tile of at most {held - 2} vectors with its operands (`tile`)")


_BOUNDS: Final = {
    "divider": _divided,
    "loads": _loading,
    "stores": _storing,
    "entry": _entering,
    "window": _filling,
    "spilled": _spilling,
}


def _outer_name(loop: Loop) -> str:
    """The name of the loop round another one."""
    outer = next((op for op in loop.ancestors() if isinstance(op, Loop)), None)
    return outer.name if outer is not None and outer.name else "the loop round it"
