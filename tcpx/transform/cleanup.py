"""Cleanup over a region: common subexpressions and dead code."""

from collections.abc import Sequence

from tcpx.payload.ir import Block, Operation, is_in
from tcpx.payload.ops.gml_st import OnSubset
from tcpx.payload.ops.group import Group
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.traits.memory import Memory
from tcpx.payload.types import TensorType
from tcpx.transform.editing import erase_dead, first_change, is_destination, is_pure
from tcpx.transform.simplification import simplify_algebra, simplify_in

Key = tuple[object, ...]


def canonicalize(
    rewriter: Rewriter, root: Operation, options: Sequence[str] = (), *, sinks: bool = False, merges: bool = True
) -> None:
    """Fold what is the identity, merge equal operations if asked to, erase dead ones. `options` and `sinks` are those
    of `simplify_algebra`."""
    simplify_in(rewriter, [root])
    simplify_algebra(rewriter, root, options, sinks=sinks)
    if merges:
        merge_equal(rewriter, root)
    erase_unused(rewriter, root)


def erase_unused(rewriter: Rewriter, root: Operation) -> int:
    """Erase pure operations in `root` none of whose results is used; returns how many were there at first."""
    unused = [
        op
        for op in root.walk()
        if op is not root and op.results and not any(r.uses for r in op.results) and is_pure(op)
    ]
    for op in reversed(unused):
        if is_in(op, root):  # not erased with the loop it stood in
            erase_dead(rewriter, op.results[:1])
    return len(unused)


def merge_equal(rewriter: Rewriter, root: Operation) -> int:
    """Merge pure, region-free operations that are equal; returns how many were erased."""
    count = 0
    for block in root.regions:
        count += _merge_block(rewriter, block, {})
    return count


def _merge_block(rewriter: Rewriter, block: Block, known: dict[Key, Operation]) -> int:
    count = 0
    for op in list(block.ops):
        for region in op.regions:
            isolated = isinstance(op, Group) and op.is_isolated
            count += _merge_block(rewriter, region, {} if isolated else dict(known))
        key = _key(op)
        if key is None:
            continue
        first = known.setdefault(key, op)
        if first is op:
            continue
        if first_change(first, InsertPoint.before(op)) is not None:
            known[key] = op
            continue
        rewriter.join(op, first)
        rewriter.replace_op(op, first.results)
        count += 1
    return count


def _key(op: Operation) -> Key | None:
    """What makes two operations equal; None if they may not be merged."""
    if op.regions or Memory(op).has_side_effects or op.is_terminator or not op.results or Memory(op).leaves_undefined:
        return None
    if isinstance(op, OnSubset) and not isinstance(op.subset_of.type, TensorType):
        return None
    if isinstance(op, OnSubset) and is_destination(op.subset_of):
        return None
    return (
        op.opcode,
        tuple(id(v) for v in op.operands),
        tuple(sorted((k, str(a)) for k, a in op.attributes.items())),
        tuple(str(r.type) for r in op.results),
    )
