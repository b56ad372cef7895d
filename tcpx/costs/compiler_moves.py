"""What a C compiler moves in loops (gcc -O3): elements that each iteration reads and writes stay in registers, and two
loops of which the inner one goes across rows are interchanged."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from tcpx.costs.footprint import Trip
from tcpx.payload.ir import Operation, Value
from tcpx.payload.ops.gml_st import Conditional, Loop, OnSubset, StYield
from tcpx.payload.ops.memory import memory_of
from tcpx.payload.ops.vector import Read, Write
from tcpx.payload.sizes import Size, evaluate
from tcpx.payload.sizes.traversal import variables
from tcpx.payload.traits.call import Calling
from tcpx.payload.types import BufferType
from tcpx.target import Target

_PLAIN: Final = ("load", "store")
"""The rows whose address the C compiler knows; the others are builtin functions to it."""
_RATIO: Final = 2
"""How many times as far as an iteration of the outer loop those of the inner one are apart that are interchanged
(`loop-interchange-stride-ratio` of gcc)."""
Place = tuple[Value, tuple[int, ...]]
"""A buffer, and the first element of a subset of it."""


def kept_in_registers(loop: Loop, target: Target, sizes: Mapping[str, int]) -> Mapping[Operation, Place]:
    """The reads and writes of a loop without branches, with what they access, whose elements are the same in each
    iteration: they are read before it and written after it.

    Nothing else may access their buffer, and no other buffer of the workspace: only arguments are `restrict`.
    """
    accesses: dict[Value, list[Read | Write]] = defaultdict(list)
    for op in _accesses(loop):
        if not isinstance(op, Read | Write):
            return {}
        accesses[memory_of(op.subset_of)].append(op)
    in_workspace = [memory for memory in accesses if _space(memory) == "arena"]
    found: dict[Operation, Place] = {}
    for memory, those in accesses.items():
        is_alone = memory not in in_workspace or len(in_workspace) == 1
        if is_alone and any(isinstance(op, Write) for op in those) and _are_kept(those, loop, target):
            found |= {op: (memory, tuple(evaluate(offset, sizes) for offset in op.subset.offsets)) for op in those}
    return found if _are_in_turn(found) else {}


def _accesses(loop: Loop) -> list[Operation]:
    """What accesses memory; what has regions, or calls, may."""
    ops = [op for op in loop.body.ops if not isinstance(op, StYield)]
    return [op for op in ops if isinstance(op, OnSubset) or op.regions or Calling(op).callee is not None]


def _space(memory: Value) -> str:
    return memory.type.space if isinstance(memory.type, BufferType) else ""


def _are_kept(those: Sequence[Read | Write], loop: Loop, target: Target) -> bool:
    """Whether accesses of a buffer are where they were in the iteration before, at distances that are known."""
    first = those[0]
    buffer = first.subset_of.type
    if not isinstance(buffer, BufferType) or any(op.subset_of is not first.subset_of for op in those):
        return False
    dims = [dim for op in those for dim in (*op.subset.offsets, *op.subset.sizes)]
    if any(isinstance(dim, Size) and loop.var.name in {var.name for var in variables(dim)} for dim in dims):
        return False
    apart = (
        k
        for op in those
        for k, (a, b) in enumerate(zip(op.subset.offsets, first.subset.offsets, strict=True))
        if a != b
    )
    return all(isinstance(buffer.strides[k], int) for k in apart) and all(_is_plain(op, target) for op in those)


def _are_in_turn(found: Mapping[Operation, Place]) -> bool:
    """Whether each place is written once, after it is read, where it is read."""
    places: dict[Place, list[Operation]] = defaultdict(list)
    for op, place in found.items():
        places[place].append(op)
    return all([isinstance(op, Write) for op in those] in ([True], [False, True]) for those in places.values())


def compiled_trips(trips: tuple[Trip, ...], target: Target, sizes: Mapping[str, int]) -> tuple[Trip, ...]:
    """The loops round a block in the order in which the C compiler has them: the inner one of two that have nothing
    between them goes along rows, if nothing is carried, and all places are known but for the variables of loops."""
    if len(trips) < 2:
        return trips
    *others, outer, inner = trips
    around, loop = outer.loop, inner.loop
    if not isinstance(around, Loop) or not isinstance(loop, Loop) or not _is_perfect(around, loop):
        return trips
    accesses = [op for op in _accesses(loop) if isinstance(op, Read | Write) and _is_static(op)]
    written = {op.subset_of: op.subset for op in accesses if isinstance(op, Write)}
    is_independent = all(written.get(op.subset_of, op.subset) == op.subset for op in accesses)
    if len(accesses) < len(_accesses(loop)) or not is_independent or not all(_is_plain(op, target) for op in accesses):
        return trips
    far, near = (sum(abs(distance(op, each, sizes)) for op in accesses) for each in (loop, around))
    return (*others, inner, outer) if far > _RATIO * near > 0 else trips


def is_known_count(loop: Loop) -> bool:
    """Whether the C has the number of iterations of a loop."""
    return isinstance(loop.var.lower, int) and isinstance(loop.var.upper, int)


def only_copies(loop: Loop) -> bool:
    """Whether a loop reads and writes elements, of a number that only the call knows, and does nothing else: where
    they lie side by side, the C compiler makes a call or a repeated instruction of it."""
    match [op for op in loop.body.ops if op.operands and not isinstance(op, StYield)]:
        case [Read() as read, Write() as write]:
            return not is_known_count(loop) and write.operands[0] is read.results[0]
        case _:
            return False


def stores_anywhere(loop: Loop, target: Target) -> bool:
    """Whether a loop stores by a builtin function, of which the C compiler does not know what it leaves as it is: no
    read is moved out of the loop."""
    return any(isinstance(op, Write) and not _is_plain(op, target) for op in loop.walk())


def is_in_branch(op: Operation, loop: Loop) -> bool:
    """Whether a branch of a loop has an operation: it is not moved out, whatever it depends on."""
    for around in op.ancestors():
        if around is loop:
            return False
        if isinstance(around, Conditional):
            return True
    return False


def _is_plain(op: Operation, target: Target) -> bool:
    return "row" in op.attributes and target.row(str(op.attributes["row"])).kind in _PLAIN


def _is_static(op: Read | Write) -> bool:
    """Whether the strides of a buffer are numbers, and no element says where it lies."""
    buffer = op.subset_of.type
    if not isinstance(buffer, BufferType) or memory_of(op.subset_of) is not op.subset_of:
        return False
    return all(isinstance(stride, int) for stride in buffer.strides)


def _is_perfect(around: Loop, loop: Loop) -> bool:
    """Whether a loop is all that another one does, as often in each iteration, and hands nothing on."""
    names = {var.name for dim in (loop.var.lower, loop.var.upper) if isinstance(dim, Size) for var in variables(dim)}
    between = [op for op in around.body.ops if op is not loop and op.operands and not isinstance(op, StYield)]
    is_counted = loop.is_counted and around.is_counted and around.var.name not in names
    return is_counted and not around.is_parallel and loop.parent is around.body and not between and not loop.results


def distance(op: OnSubset, loop: Loop, sizes: Mapping[str, int]) -> int:
    """How many elements of its buffer an access is further in the next iteration of a loop."""
    buffer = op.subset_of.type
    if not isinstance(buffer, BufferType):
        return 0
    name, first = loop.var.name, sizes[loop.var.name]
    moved = {**sizes, name: first + evaluate(loop.var.step, sizes)}
    steps = [evaluate(offset, moved) - evaluate(offset, sizes) for offset in op.subset.offsets]
    return sum(step * evaluate(stride, sizes) for step, stride in zip(steps, buffer.strides, strict=True))
