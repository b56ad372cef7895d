"""Peeling and splitting loops: copies of a body over parts of its range."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tcpx.payload.contexts import context_at
from tcpx.payload.diagnostics import Direction, VerifyError
from tcpx.payload.disjointness import check_disjoint_yields
from tcpx.payload.fields import DimAttribute, NumberOrSizeAttribute
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import HEAD, MAIN, TAIL, CloneMap, Operation
from tcpx.payload.ops.gml_st import Loop, never_runs, runs_at_most_once
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes import (
    Dim,
    Size,
    Symbol,
    Var,
    substitute,
    symbols,
    to_text,
    variables,
)
from tcpx.payload.sizes.bounds import is_less
from tcpx.payload.sizes.predicates import Predicate
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.positions import Positions, positions_read
from tcpx.payload.traits.ragged import RaggedDims, ragged_dims
from tcpx.payload.types import shape_of
from tcpx.transform import new
from tcpx.transform.padding_ranges import Range, without_padding
from tcpx.transform.simplification import simplify_in


def split_at(rewriter: Rewriter, loop: Loop, point: Dim, sides: tuple[str, str]) -> tuple[Loop, Loop]:
    """Two loops, over [lower, point) and [point, upper); `point` is reached by whole steps or beyond the end."""
    _simplify_sizes(rewriter, loop)
    loop, second = _split(rewriter, loop, point, sides)
    _simplify(rewriter, [loop, second])
    return loop, second


def _split(
    rewriter: Rewriter, loop: Loop, point: Dim, sides: tuple[str, str], by_one: bool = False
) -> tuple[Loop, Loop]:
    var, here = loop.var, context_at(loop)
    middle = here.maximum(var.lower, here.minimum(point, var.upper))
    split = rewriter.new_split()
    second = copy_over(rewriter, loop, var if by_one else replace(var, lower=middle), f"~{sides[1]}")
    if by_one:
        _step_by_one(rewriter, second, middle)
    rewriter.extend_copy_path(second, split, sides[1])
    rewriter.extend_copy_path(loop, split, sides[0])
    narrowed = Var(var.name, var.lower, middle, var.step)
    set_range(rewriter, loop, narrowed)
    for first_result, second_result in zip(loop.results, second.results, strict=True):
        rewriter.replace_uses(first_result, second_result, lambda user: user is not second)
    for index, result in enumerate(loop.results):
        rewriter.set_operand(second, index, result)
    return loop, second


def rest_of(loop: Loop) -> Dim:
    """How much of the range of a loop whole steps leave over: 0 if there is provably no tail."""
    var = loop.var
    here = context_at(loop)
    is_whole = here.is_less_equal(var.step, var.upper - Size.of(var))
    return 0 if is_whole is True else here.mod(var.upper - var.lower, var.step)


def peel(rewriter: Rewriter, loop: Loop, scalar: bool = False) -> tuple[Loop, ...]:
    """A main loop of whole steps, and a tail loop that runs once, with a shorter step, or not at all. Returns both.

    Where there is provably no tail, the loop is the main one. A `scalar` tail has steps of 1. Raises VerifyError where
    the body cannot be written for one step of 1.
    """
    _simplify_sizes(rewriter, loop)
    var, rest = loop.var, rest_of(loop)
    if rest == 0:
        rewriter.extend_copy_path(loop, rewriter.new_split(), MAIN)
        return (loop,)
    if scalar and runs_at_most_once(loop):
        raise loop.error(
            f"the loop {loop.name} has no whole step: all of it is the tail",
            required=f"a step below {to_text(var.upper - var.lower)}",
            found=f"step {to_text(var.step)}",
            fix=Direction("tile by 1"),
        )
    main, tail = _split(rewriter, loop, var.upper - rest, (MAIN, TAIL), by_one=scalar)
    _simplify(rewriter, [main, tail])
    return main, tail


def peel_borders(rewriter: Rewriter, loop: Loop, scalar: bool = False) -> tuple[Loop, ...]:
    """A main loop of whole steps whose tiles have no padding, and loops for what is before and after them.

    The rest of the range has a loop of its own, as with `peel`. Returns the loops in order: one if there is nothing to
    split. Where every tile may have padding, only the rest is split off.
    """
    found, known = without_padding(loop) or Range(), context_at(loop)
    _simplify_sizes(rewriter, loop)
    var, steps, parts = loop.var, loop.var.upper - rest_of(loop), [loop]
    for value, sides in ((found.start, (HEAD, MAIN)), (found.end, (MAIN, TAIL))):
        if value is not None:
            before = known.ceildiv(known.not_negative(value - var.lower), var.step)
            point = known.minimum(steps, var.lower + before * var.step)
            here = parts[-1].var
            if all(is_less(a, b, known.names) is not False for a, b in ((here.lower, point), (point, here.upper))):
                parts[-1:] = _split(rewriter, parts[-1], point, sides)
    _simplify(rewriter, parts)
    last = parts[-1].var
    if is_less(last.upper - last.lower, last.step, known.names) is not True:  # the rest is not alone yet
        parts[-1:] = peel(rewriter, parts[-1], scalar)
    for part in parts:
        lower, upper = part.var.lower, part.var.upper
        if isinstance(lower, int) and isinstance(upper, int) and runs_at_most_once(part):
            rewriter.substitute(list(part.body.ops), {part.var: lower})  # so that sizes in its body are known
    _simplify(rewriter, parts)
    return tuple(parts)


def _simplify(rewriter: Rewriter, parts: Sequence[Loop]) -> None:
    """Fold in both parts what their ranges decide: loops without iterations, identities, branches."""
    for loop in [op for part in parts for op in part.walk() if isinstance(op, Loop) and op is not part]:
        if loop.func is not None and never_runs(loop):
            rewriter.replace_op(loop, loop.operands)
    simplify_in(rewriter, parts)


def _step_by_one(rewriter: Rewriter, loop: Loop, start: Dim) -> None:
    """Let a loop compute one element per iteration, from `start` on, where less than a step is left of its range.

    What is left, `upper - var`, is what sizes depend on: it becomes 1. Offsets move with the variable. The body is that
    of all of the range: in the one step that is left, sizes and offsets may be constants that say nothing of elements.
    """
    old = loop.var
    single = Var(old.name, start, old.upper, 1)
    here: dict[Symbol | Var, Dim] = {old: Size.of(single)}
    last: dict[Symbol | Var, Dim] = {old: old.upper - 1}
    inside = [op for op in loop.walk() if op is not loop]
    for op in inside:
        _check_padding(loop, op)
    offsets: dict[Operation, tuple[Dim, ...]] = {}
    counted = [op for op in inside if isinstance(op, Structured) and positions_read(op)]
    origins = [[substitute(_moving_with(old, p.origin, op), here) for p in positions_read(op)] for op in counted]
    begins = {
        op: {dim: substitute(_moving_with(old, bounds.origin, op), here) for dim, bounds in ragged_dims(op).items()}
        for op in inside
        if isinstance(op, Structured) and ragged_dims(op)
    }
    for op in inside:
        subset = op.attributes.get("subset")
        if isinstance(subset, Tile):
            _check_rest_moves(old, subset, op)
            _check_ends(loop, subset.sizes, op)
            offsets[op] = tuple(substitute(_moving_with(old, offset, op), here) for offset in subset.offsets)
        _check_condition(loop, op)
        _check_numbers(loop, op)
        if isinstance(op, Loop):
            _check_ends(loop, (op.var.lower, op.var.upper), op)
    rewriter.set_attribute(loop, "var", single)
    rewriter.substitute(list(loop.body.ops), last)
    inner: dict[Symbol | Var, Dim] = {op.var: Size.of(op.var) for op in inside if isinstance(op, Loop)}
    for op, moved in offsets.items():
        subset = op.attributes["subset"]
        if isinstance(subset, Tile):
            rewriter.set_attribute(
                op, "subset", replace(subset, offsets=tuple(substitute(offset, inner) for offset in moved))
            )
    for op, starts in zip(counted, origins, strict=True):
        for key, held in Positions(op).counting_from([substitute(origin, inner) for origin in starts]).items():
            rewriter.set_attribute(op, key, held)
    for op, firsts in begins.items():
        origins_of = {dim: substitute(first, inner) for dim, first in firsts.items()}
        for key, attribute in RaggedDims(op).ragged_from(origins_of).items():
            rewriter.set_attribute(op, key, attribute)
    for op in inside:
        op.verify()
        _check_inside(loop, op)
    _check_elements(loop)


def _check_padding(loop: Loop, op: Operation) -> None:
    """What a tile is padded by is no element of a dim that the loop steps."""
    padded = new.padded(op)
    if padded is not None and any(loop.var in variables(d) for d in shape_of(padded.type)):
        raise op.error(
            f"the tail of {loop.name} cannot step by 1: a tile in its body ends in padding",
            required="tiles that lie inside what they are tiles of",
            found=f"%{padded.name}: {padded.type}",
            fix=Direction("peel without `scalar`, or pad only the other dims"),
        )


def _check_condition(loop: Loop, op: Operation) -> None:
    """No condition is on the step."""
    predicate, var = op.attributes.get("predicate"), loop.var
    if isinstance(predicate, Predicate) and predicate.substitute({var: var.upper - 1}) != predicate:
        raise op.error(
            f"the tail of {loop.name} cannot step by 1: a condition in its body depends on the step",
            required=f"conditions without %{var.name}",
            found=predicate.to_text(),
            fix=Direction("peel without `scalar`"),
        )


def _check_numbers(loop: Loop, op: Operation) -> None:
    """No number that is computed with is of the step: for all of its elements it is the same."""
    for field in op.signature.attribute_fields:
        number = op.attributes.get(field.key)
        if (
            isinstance(field, DimAttribute | NumberOrSizeAttribute)
            and isinstance(number, Size | Var)
            and loop.var in variables(number)
        ):
            raise op.error(
                f"the tail of {loop.name} cannot step by 1: a number in its body depends on the step",
                required=f"numbers without %{loop.var.name}",
                found=f"{field.key} = {to_text(number)}",
                fix=Direction("peel without `scalar`"),
            )


def _check_elements(loop: Loop) -> None:
    """Iterations that run at once compute what is left of the range of their loop, not of a longer one."""
    try:
        check_disjoint_yields(loop)
    except VerifyError as error:
        raise loop.error(
            f"the tail of {loop.name} cannot step by 1: its body computes more than what is left of its range",
            required=f"tiles that end at {to_text(loop.var.upper)}",
            found=error.diagnostic.found,
            fix=Direction("peel without `scalar`, or before the loop is split"),
        ) from error


def _moving_with(var: Var, offset: Dim, op: Operation) -> Dim:
    """The offset; it moves in proportion to the loop variable, or does not depend on it."""
    distance = substitute(offset, {var: Size.of(var) + 1}) - offset
    if var not in variables(offset) or (isinstance(distance, int) and distance != 0):
        return offset
    raise op.error(
        f"the tail of %{var.name} cannot step by 1: a subset in its body is numbered by whole steps",
        required=f"offsets that move with %{var.name}",
        found=to_text(offset),
        fix=Direction("peel without `scalar`, or before the operand is packed"),
    )


def _check_rest_moves(var: Var, subset: Tile, op: Operation) -> None:
    """What is left of a range lies where the loop variable is, or is all of a value that is no larger."""
    extents = shape_of(op.operands[-1].type)
    for offset, size, extent in zip(subset.offsets, subset.sizes, extents, strict=True):
        if var in variables(size) and var not in {*variables(offset), *variables(extent)}:
            raise op.error(
                f"the tail of %{var.name} cannot step by 1: a subset in its body is numbered by whole steps",
                required=f"offsets that move with %{var.name}",
                found=subset.text(),
                fix=Direction("peel without `scalar`, or before the operand is packed"),
            )


def _check_ends(loop: Loop, sizes: Sequence[Dim], op: Operation) -> None:
    """Sizes are of what is left of the range alone, or in proportion to it: what ends elsewhere is not as long at each
    step of 1 as at the last."""
    var = loop.var
    rest = Var(f"{var.name}~rest", 1, var.step + 1, 1)
    inner = {it.var for it in loop.walk() if isinstance(it, Loop)}
    for size in sizes:
        left = substitute(size, {var: var.upper - Size.of(rest)})
        grown = substitute(left, {rest: Size.of(rest) + 1}) - left
        others = {*symbols(left), *variables(left)} - {rest, *inner}
        if var in variables(size) and others and not isinstance(grown, int):
            raise _ends_elsewhere(loop, f"size {to_text(size)}", op)


def _check_inside(loop: Loop, op: Operation) -> None:
    """No tile is longer than one element because what is left of the range was never so little."""
    subset = op.attributes.get("subset")
    if isinstance(subset, Tile):
        for dim, extent in enumerate(shape_of(op.operands[-1].type)):
            if subset.leaves(dim, extent):
                raise _ends_elsewhere(loop, subset.text(), op)


def _ends_elsewhere(loop: Loop, found: str, op: Operation) -> Exception:
    return op.error(
        f"the tail of {loop.name} cannot step by 1: a tile in its body ends where another range does",
        required=f"tiles that end at {to_text(loop.var.upper)}",
        found=found,
        fix=Direction("peel without `scalar` or before the loop is split, or tile without `tail: pad`"),
    )


def copy_over(rewriter: Rewriter, loop: Loop, var: Var, suffix: str) -> Loop:
    """A copy of a loop behind it, over another range."""
    mapping = CloneMap()
    made = rewriter.clone(loop, InsertPoint.after(loop), mapping, suffix)
    set_range(rewriter, made, Var(made.var.name, var.lower, var.upper, var.step))
    return made


def _simplify_sizes(rewriter: Rewriter, loop: Loop) -> None:
    """Write down what the range of a loop, and what holds where it stands, say about its range and sizes in its body.

    Of parts of the range less can be proved, so sizes that are equal in all of it have to be the same expression.
    """
    var, here = loop.var, context_at(loop)
    lower, upper = (substitute(end, here.symbols(), here.names) for end in (var.lower, var.upper))
    set_range(rewriter, loop, Var(var.name, lower, upper, var.step), here.symbols())


def set_range(rewriter: Rewriter, loop: Loop, var: Var, also: Mapping[Symbol | Var, Dim] | None = None) -> None:
    """Give a loop another range and let its body know, and replace `also` in it."""
    old = loop.var
    rewriter.set_attribute(loop, "var", var)
    rewriter.substitute(list(loop.body.ops), {old: Size.of(var), **(also or {})})
