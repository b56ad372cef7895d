"""Long functions are partitioned into functions, in places that few values cross, and alike where operations repeat."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from tcpx.limits import LONGEST_FUNCTION, LONGEST_PART
from tcpx.payload.diagnostics import Diagnostic, Direction, Kind, ScheduleError
from tcpx.payload.ir import Attribute, FuncOp, Operation
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.sizes import Var, to_text
from tcpx.payload.structure import is_data
from tcpx.payload.text.printer import attribute_text
from tcpx.payload.variables import users_of_sizes
from tcpx.transform.cleanup import erase_unused
from tcpx.transform.editing import is_pure
from tcpx.transform.outlining import Known, outline

Signature = tuple[object, ...]


def partition(rewriter: Rewriter, func: FuncOp, known: Known) -> Diagnostic | None:
    """Outline parts of a function on tensors that is too long for a C compiler; returns a remark.

    `known` are functions by what they compute, which parts may call; it gets the new ones.
    """
    if "results" in func.attributes or sum(1 for _ in func.walk()) <= LONGEST_FUNCTION:
        return None
    erase_unused(rewriter, func)
    sized = {op for users in users_of_sizes(func.body.ops).values() for op in users}
    movable = (op for op in func.body.ops if op not in sized and is_pure(op))
    ops = [op for op in movable if not any(is_data(op, key) for key in op.attributes)]
    if len(ops) <= LONGEST_FUNCTION:
        return None
    before, cuts = set(rewriter.module.funcs), sorted({0, *_cuts(ops), *_beside_effects(func, ops), len(ops)})
    for start, end in pairwise(cuts):
        part = [op for op in ops[start:end] if op.parent is func.body]
        mark = rewriter.mark()
        try:
            outline(rewriter, part, known)
        except ScheduleError:  # what is on vectors there, say, stays where it is
            rewriter.rollback(mark)
    made = [name for name in rewriter.module.funcs if name not in before]
    if not made:
        return None
    return Diagnostic(
        f"@{func.name} is partitioned: a C compiler takes too long for all of it at once",
        Kind.WARNING,
        payload=func.location,
        required=f"at most {LONGEST_FUNCTION} operations in the body of a function",
        found=f"{len(ops)}: they are calls of {len(made)} functions now",
        fix=Direction("fuse operations into loops, or `outline` parts that repeat"),
    )


def _cuts(ops: Sequence[Operation]) -> list[int]:
    """Where parts begin: where an earlier part began alike, else where few values are handed over."""
    signatures, crossing = _signatures(ops), crossings(ops)
    least = LONGEST_PART // 2
    parts: list[tuple[int, int]] = []
    start = 0
    while len(ops) - start > LONGEST_PART:
        end = next((start + b - a for a, b in parts if _same(signatures, a, start, b - a)), None)
        if end is None:
            starts = [start, *(a for a, _ in parts)]

            def cost(at: int, starts: Sequence[int] = starts) -> tuple[bool, int, int]:
                return not any(_same(signatures, a, at, least) for a in starts), crossing[at], -at

            end = min(range(start + least, start + LONGEST_PART + 1), key=cost)
        parts.append((start, end))
        start = end
    return [end for _, end in parts]


def _beside_effects(func: FuncOp, ops: Sequence[Operation]) -> Iterator[int]:
    """Where operations stand that read something and do more than compute: no part has operations on both sides."""
    places = {op: k for k, op in enumerate(ops, 1)}
    place = 0
    for op in func.body.ops:
        place = places.get(op, place)
        if op not in places and not op.is_terminator and any(inner.operands for inner in op.walk()):
            yield place


def _same(signatures: Sequence[Signature], a: int, b: int, length: int) -> bool:
    return signatures[a : a + length] == signatures[b : b + length] and b + length <= len(signatures)


def _signatures(ops: Sequence[Operation]) -> list[Signature]:
    """What each operation is, its operands by how far before it they are computed; the same where operations repeat."""
    places = {op: k for k, op in enumerate(ops)}
    return [_signature(op, places) for op in ops]


def _signature(op: Operation, places: Mapping[Operation, int]) -> Signature:
    here = places[op]
    made = (places.get(v.defining_op) if v.defining_op is not None else None for v in op.operands)
    return *signature(op), tuple(here - k if k is not None and here - k <= LONGEST_PART else None for k in made)


def signature(op: Operation) -> Signature:
    """What an operation is, wherever its operands come from."""
    attributes = tuple((key, _text(held)) for key, held in op.attributes.items())
    inner = tuple(inside.opcode for inside in op.walk())
    return inner, attributes, tuple(str(v.type) for v in op.results)


def _text(held: Attribute) -> str:
    """An attribute as text, a loop variable without its name."""
    if isinstance(held, Var):
        return " ".join(map(to_text, (held.lower, held.upper, held.step)))
    return attribute_text(held)


def crossings(ops: Sequence[Operation]) -> list[int]:
    """For each place, the values that are computed before it and used from it on."""
    places = {op: k for k, op in enumerate(ops)}
    changes = [0] * (len(ops) + 2)
    for k, op in enumerate(ops):
        users = [_place(user, places) for result in op.results for user in result.users]
        last = max(users, default=k)
        if last > k:
            changes[k + 1] += 1
            changes[last + 1] -= 1
    crossing, live = list[int](), 0
    for change in changes:
        live += change
        crossing.append(live)
    return crossing


def _place(user: Operation, places: Mapping[Operation, int]) -> int:
    """Where a user stands, or what it is in; behind all for what is no part of any."""
    return next((places[op] for op in (user, *user.ancestors()) if op in places), len(places))
