"""Parallel loops write each element once: what proves it, and the error where nothing does."""

from itertools import combinations, combinations_with_replacement, product

from tcpx.payload.contexts import context_at, is_less_equal_at
from tcpx.payload.diagnostics import Diagnostic, Direction, VerifyError
from tcpx.payload.distances import distance
from tcpx.payload.indexing_maps import index_operands, map_dim
from tcpx.payload.interfaces import Structured, padded_behind
from tcpx.payload.ir import Block, Module, Operation, Value
from tcpx.payload.ops.gml_st import Conditional, Loop, Materialize, StYield
from tcpx.payload.ops.vector import Read, ToTensor
from tcpx.payload.subsets import Tile, disjoint
from tcpx.payload.traits.indices import Indices
from tcpx.payload.traits.masked import Masked
from tcpx.payload.traits.memory import Memory
from tcpx.payload.types import shape_of
from tcpx.payload.value_ranges import UNIQUE, value_order


def check_disjoint_yields(op: Operation) -> int:
    """The yields of a parallel loop to one destination are proved disjoint, within an iteration and between two.

    Yields in the two branches of one `if` never run in one iteration. Returns the number of pairs it looked at. Raises
    VerifyError that names both yields.
    """
    if not isinstance(op, Loop) or not op.is_parallel:
        return 0
    for index in range(len(op.destinations)):
        found = overlapping_yields(op, index)
        if found is not None:
            first, second, within = found
            name = op.var.text
            rule = f"no iteration of {name} yields" if within else f"no two iterations of {name} yield"
            raise _overlap(op, first, second, f"{rule} one element{' twice' if within else ''}")
    return sum(len(op.yields_to(index)) ** 2 for index in range(len(op.destinations)))


def overlapping_yields(loop: Loop, index: int) -> tuple[StYield, StYield, bool] | None:
    """Two yields to a destination that are not proved disjoint, and whether that is within an iteration; a yield and
    itself of two iterations."""
    stores, known = loop.yields_to(index), context_at(loop).names
    for first, second in combinations(stores, 2):
        if not _exclude_each_other(first, second, loop) and disjoint(first.subset, second.subset, known) is not True:
            return first, second, True
    pairs = combinations_with_replacement(stores, 2)
    return next(((first, second, False) for first, second in pairs if not are_apart(first, second, loop)), None)


def check_reads_of_parallel_loops(module: Module) -> None:
    """An iteration of a parallel loop reads nothing of a destination that another yields. This is asked once, of a
    payload that is read: steps make no such loop. Raises VerifyError that names the read and the yield."""
    for loop in (op for op in module.walk() if isinstance(op, Loop) and op.is_parallel):
        for index, destination in enumerate(loop.destinations):
            found = read_of_others(loop, index)
            if found is not None:
                op, subset, store = found
                raise VerifyError(
                    Diagnostic(
                        f"%{loop.name} ({loop.opcode}): iterations read what others may yield to %{destination.name}",
                        payload=op.location or loop.location,
                        required="reads of what the iteration yields itself, or of what none yields",
                        found=f"{subset.text()} in {f'%{op.name}' if op.name else op.opcode}, and {_shown(store)}",
                        fix=Direction(f"make it a gml_st.for, or read what %{destination.name} starts with"),
                    )
                )


def read_of_others(loop: Loop, index: int) -> tuple[Operation, Tile, StYield] | None:
    """An operation that reads of a destination what another iteration may yield, what it reads, and the yield."""
    parts = [(op, Memory(op).part_read(operand)) for op, operand in loop.destinations[index].uses]
    for (op, part), store in product(parts, loop.yields_to(index)):
        if part is None or distance(loop, store.subset, part).is_zero:
            continue
        if not _is_inside(part, store.subset, op):
            return op, part, store
    return None


def _is_inside(part: Tile, whole: Tile, op: Operation) -> bool:
    """Whether a tile is another one, or provably a part of it, where an operation stands."""
    return part == whole or (
        part.rank == whole.rank
        and part.has_unit_strides
        and whole.has_unit_strides
        and all(
            is_less_equal_at(op, first, begin) and is_less_equal_at(op, begin + count, first + size)
            for begin, count, first, size in zip(part.offsets, part.sizes, whole.offsets, whole.sizes, strict=True)
        )
    )


def are_apart(first: StYield, second: StYield, loop: Loop) -> bool:
    """Whether what two yields, or one, change in two iterations of a loop is proved disjoint: the subsets are, or the
    parts of unique indices that say which elements of them change."""
    other = None if first is second else second.subset
    if distance(loop, first.subset, other).is_zero:
        return True
    return (
        updates_by_index(first, loop)
        and (first is second or updates_by_index(second, loop))
        and all(
            a is b and distance(loop, part, behind).is_zero
            for a, part in _indices(first.value, first, loop) or ()
            for b, behind in _indices(second.value, second, loop) or ()
        )
    )


def updates_by_index(store: StYield, loop: Loop) -> bool:
    """Whether a yield changes only those elements of its subset that unique indices name, and nothing else reads it."""
    return bool(_indices(store.value, store, loop))


def _indices(value: Value, store: StYield, loop: Loop) -> list[tuple[Value, Tile]] | None:
    """The parts of unique values from outside of a loop that say where a value differs from what is in the subset of a
    yield before. None: anywhere, or something else reads it."""
    op = value.defining_op
    if op is None or len(value.uses) != 1:
        return None
    inside = padded_behind(op)
    if inside is not None:
        return _indices(inside, store, loop)
    if isinstance(op, Materialize):
        if op.source is store.destination:
            stores = [user for user, _ in op.source.uses if isinstance(user, StYield)]
            return [] if op.subset == store.subset and len(op.source.uses) == 2 * len(stores) else None
        return _indices(op.source, store, loop) if op.subset.is_at_origin else None
    number = op.results.index(value)
    if isinstance(op, Loop):
        inner = (_indices(each.value, each, loop) for each in op.yields_to(number))
        found = [_indices(op.operands[number], store, loop), *inner]
    elif isinstance(op, Structured) and op.inits:
        found = [_indices(op.inits[number], store, loop), _unique_part(op, number, loop)]
    else:
        return None
    return None if None in found else [part for parts in found for part in parts or ()]


def _unique_part(op: Structured, number: int, loop: Loop) -> list[tuple[Value, Tile]] | None:
    """The part of a unique value from outside of a loop that says where in a result an operation writes."""
    for k in index_operands(op.result_maps()[number : number + 1]):
        value, masked = op.inputs[k], all(map_dim(e) in Masked(op).valid for e in op.maps()[k])
        while True:
            made = value.defining_op
            inside = made.operand if isinstance(made, ToTensor) else padded_behind(made) if masked else None
            if inside is None:
                break
            value = inside
        part, subset = value.defining_op, Tile.full(shape_of(value.type))
        if isinstance(part, Materialize) or (masked and isinstance(part, Read)):
            value, subset = part.source, part.subset
        made = value.defining_op
        if (
            UNIQUE in value_order(value)
            and not Indices(op).clamps_indices
            and (made is None or loop not in made.ancestors())
        ):
            return [(value, subset)]
    return None


def _exclude_each_other(first: Operation, second: Operation, loop: Loop) -> bool:
    """Whether two operations stand in different branches of one `if` in the loop."""
    branches = _branches(first, loop)
    return any(branches.get(choice, block) is not block for choice, block in _branches(second, loop).items())


def _branches(op: Operation, loop: Loop) -> dict[Conditional, Block]:
    found: dict[Conditional, Block] = {}
    block = op.parent
    while block is not None and block is not loop.body:
        if isinstance(block.parent, Conditional):
            found[block.parent] = block
        block = block.parent.parent if block.parent is not None else None
    return found


def _overlap(loop: Loop, first: StYield, second: StYield, rule: str) -> VerifyError:
    yields = [_shown(first)] if first is second else [_shown(first), _shown(second)]
    return VerifyError(
        Diagnostic(
            f"%{loop.name} ({loop.opcode}): yields to %{first.operands[1].name} are not proved disjoint",
            payload=second.location or loop.location,
            required=rule,
            found=" and ".join(yields),
            fix=Direction("make it a gml_st.for"),
        )
    )


def _shown(store: StYield) -> str:
    place = f" at {store.location}" if store.location is not None else ""
    return f"the yield of %{store.operands[0].name} to {store.subset.text()}{place}"
