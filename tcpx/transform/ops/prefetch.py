"""prefetch: prefetch memory that a later iteration reads or writes."""

from collections.abc import Iterable, Iterator
from typing import Final

from tcpx.payload.contexts import context_at
from tcpx.payload.diagnostics import Direction
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Block, FuncOp, Operation, Value, is_in, parent_op
from tcpx.payload.ops.generic import Yield
from tcpx.payload.ops.gml_st import Conditional, If, Loop, OnSubset, StYield, trip_count
from tcpx.payload.ops.memory import Prefetch as PrefetchOp
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.sizes import (
    Size,
    ceildiv,
    floordiv,
    mod,
    product,
    variables,
)
from tcpx.payload.sizes.predicates import Comparison, Predicate
from tcpx.payload.strided import strided_positions
from tcpx.payload.subsets import Tile, compose
from tcpx.payload.types import TensorType, shape_of
from tcpx.transform.declaration import (
    INT,
    LOOP,
    VALUE,
    Arguments,
    Category,
    OperandRef,
    Parameter,
    Results,
    Transform,
    TransformContext,
    enum,
    register,
    value_of,
)

FIXED_POINT: Final = 1 << 20
"""The number 1 in fixed point, to replace a division by a number known only at run time: within a thousand iterations,
each prefetch is ahead by at most one row in a thousand."""


@register
class Prefetch(Transform):
    """Prefetch, at the start of the body of `at`, the subsets of its destinations that the iteration writes
    (`for: write`), or the subset of an operand that it reads (`for: read`).

    With `ahead: n`, it prefetches for n iterations later, of `at` or of the enclosing loop `of`: a tile is loaded while
    the previous one is computed. If a loop between these two reads the same tile repeatedly, `shared_by` distributes
    the prefetch over its iterations: equal parts if the tile is contiguous, else some of its rows, one at a time. If
    the number of iterations is known, each row is prefetched at most twice. If it may be up to twice its minimum, the
    parts are those of the maximum, and fewer iterations prefetch only a part of the tile.

    If one of two branches reads the operand from memory that was filled before, that memory is prefetched. Without
    `value`, everything that the body writes is prefetched, or everything that it reads of memory that was filled
    before and that differs between the iterations that `ahead` counts.

    before:
        func @f(%x: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<64xf32> {
          %r.out = tcp.empty : tensor<64xf32>
          %r.1 = gml_st.for %r/d01 in 0 to 64 step 16 (%r.2 = %r.out) {
            %x.t = gml_st.materialize(%x) tile [%r/d01] [16] : tensor<16xf32>
            %y.t = gml_st.materialize(%y) tile [%r/d01] [16] : tensor<16xf32>
            %r.3 = tcp.mul(%x.t, %y.t) : tensor<16xf32> name "r"
            gml_st.yield(%r.3, %r.2) tile [%r/d01] [16]
          } : tensor<64xf32>
          tcp.return(%r.1)
        }
    statement:
        prefetch(r.out, at: r.loop(d0), for: write)
    after:
        func @f(%x: tensor<64xf32>, %y: tensor<64xf32>) -> tensor<64xf32> {
          %r.out = tcp.empty : tensor<64xf32>
          %r.1 = gml_st.for %r/d01 in 0 to 64 step 16 (%r.2 = %r.out) {
            buffer.prefetch(%r.2) tile [%r/d01] [16] {write = true}
            %x.t = gml_st.materialize(%x) tile [%r/d01] [16] : tensor<16xf32>
            %y.t = gml_st.materialize(%y) tile [%r/d01] [16] : tensor<16xf32>
            %r.3 = tcp.mul(%x.t, %y.t) : tensor<16xf32> name "r"
            gml_st.yield(%r.3, %r.2) tile [%r/d01] [16]
          } : tensor<64xf32>
          tcp.return(%r.1)
        }
    """

    name = "prefetch"
    category = Category.LOOPS
    parameters = (
        Parameter("value", VALUE, None, doc="`x.out`: what the iterations of `at` write; or an operand `x.lhs`"),
        Parameter("at", LOOP, doc="the loop in whose body to prefetch, at the start"),
        Parameter("for", enum("read", "write"), "read", doc="how the memory will be used"),
        Parameter("ahead", INT, 0, doc="how many iterations before the use"),
        Parameter("of", LOOP, None, doc="the loop whose iterations `ahead` counts; `at` if not given"),
        Parameter("shared_by", LOOP, None, doc="a loop between the two whose iterations prefetch equal parts"),
    )

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        loop, write = args.loop("at"), args.string("for") == "write"
        counted = args.optional_loop("of") or loop
        if not (counted is loop or is_in(loop, counted)):
            raise ctx.fail(
                f"{counted.name} is not round {loop.name}, so it has no iterations ahead of it",
                op=counted,
                required=f"{loop.name} or a loop round it",
                found=counted.name,
            )
        given = args.optional_value("value")
        read = value_of(given) if given is not None else None
        if not write and read and isinstance(read.defining_op, Structured) and not isinstance(given, OperandRef):
            raise ctx.fail(
                f"%{read.name} is computed, not read",
                op=read.defining_op,
                required="an operand, or `for: write`",
                found=f"a result of {read.defining_op.opcode}",
                fix=Direction(f"prefetch(.., at: {loop.name}, for: write)"),
            )
        if write:
            targets = _written(loop, counted)
        else:
            targets = _read(_reads(read), loop, counted)[:1] if read else _moving(loop, counted)
        if not targets:
            raise ctx.fail(
                f"the body of {loop.name} {'writes' if write else 'reads'} no subset that could be prefetched",
                op=loop,
                required="a loop whose body yields to its destinations"
                if write
                else "an operand read from memory that is filled before the loop",
                found="none",
            )
        distance, sharing = args.int("ahead"), args.optional_loop("shared_by")
        if distance < 0:
            raise ctx.fail(
                f"iterations of {counted.name} that are over need nothing any more",
                op=counted,
                required="ahead: 0 or more",
                found=f"ahead: {distance}",
            )
        if sharing is not None and counted is loop:
            raise ctx.fail(
                f"iterations of {sharing.name} cannot share what only the next iterations of {loop.name} need",
                op=sharing,
                required=f"`of`: a loop round {sharing.name}, whose iterations `ahead` counts",
                found=f"of: {loop.name}",
            )
        for value, now in targets:
            part, turns = (now, None) if sharing is None else _part(ctx, value, now, loop, sharing, counted, write)
            subset = _later(part, counted, distance)
            op: Operation = PrefetchOp([value], [], {"subset": subset, "write": write})
            op.schedule_location = ctx.location
            ctx.rewriter.insert(op, _on_turns(ctx, loop, turns))
        return ()


def _on_turns(ctx: TransformContext, loop: Loop, turns: Predicate | None) -> InsertPoint:
    """The start of the body of a loop, in a branch of it if only some iterations prefetch."""
    start = InsertPoint.start(loop.body)
    if turns is None:
        return start
    branches = (Block(), Block())
    guard = If([], [], {"predicate": turns}, list(branches))
    guard.schedule_location = ctx.location
    ctx.rewriter.insert(guard, start)
    for branch in branches:
        ctx.rewriter.insert(Yield([]), InsertPoint.start(branch))
    return InsertPoint.start(branches[0])


def _part(
    ctx: TransformContext, source: Value, subset: Tile, loop: Loop, sharing: Loop, counted: Loop, write: bool
) -> tuple[Tile, Predicate | None]:
    """What one iteration of `loop` prefetches if those of `sharing` prefetch equal parts of what all of `loop` reads.

    If the iterations of `loop` read contiguous memory, each iteration of `sharing` has a part of it, and prefetches it
    in equal steps. Otherwise it has some of the rows that the iterations of `loop` read, and prefetches one of them in
    some iterations, selected by a predicate: one in as many as `sharing` has iterations at least, rounded to a power of
    two, since the innermost loop divides by it.
    """
    if not is_in(loop, sharing) or not is_in(sharing, counted) or sharing in (loop, counted):
        raise ctx.fail(
            f"{sharing.name} does not stand between {counted.name} and {loop.name}",
            op=sharing,
            required=f"a loop in {counted.name} and round {loop.name}",
            found=sharing.name,
        )
    used = {v for part in (*subset.offsets, *subset.sizes) for v in variables(part)}
    if sharing.var in used or loop.var not in used:
        access = "write" if write else "read"
        raise ctx.fail(
            f"the iterations of {sharing.name} cannot share what {loop.name} {access}s",
            op=sharing,
            required=f"iterations that all {access} the same, and a part of it in each of {loop.name}",
            found=subset.text(),
        )
    here, count, rows = context_at(sharing), trip_count(sharing), trip_count(loop)
    least, most = here.lower_bound(count) or 0, here.upper_bound(count)
    parts = max(1, most) if most is not None and most <= 2 * least else None
    turn = floordiv(Size.of(loop.var) - loop.var.lower, loop.var.step)
    own = floordiv(Size.of(sharing.var) - sharing.var.lower, sharing.var.step)
    start = subset.substitute({loop.var: loop.var.lower})
    inner = _slab(source, subset, loop)
    if inner is not None:
        divisor = parts or here.maximum(1, count)
        width = product(subset.sizes[inner:])
        along = own * ceildiv(rows * width, divisor) + turn * ceildiv(width, divisor)
        offsets = (*start.offsets[:-1], start.offsets[-1] + along)
        sizes = (*(1 for _ in subset.sizes[:-1]), ceildiv(width, parts or max(1, least)))
        return Tile(offsets, sizes, subset.strides, subset.dropped), None
    period = 1 << max(1, least).bit_length() - 1
    if parts is not None:
        row = mod(own, period) * ceildiv(rows, period) + floordiv(turn, period)
    else:
        row = floordiv((own * rows + turn) * ceildiv(FIXED_POINT, here.maximum(1, count)), FIXED_POINT)
    turns = None if period == 1 else Predicate((Comparison("==", mod(turn, period), 0),))
    return subset.substitute({loop.var: loop.var.lower + row * loop.var.step}), turns


def _slab(source: Value, subset: Tile, loop: Loop) -> int | None:
    """The dim from which on the iterations of a loop read contiguous memory, if they do: `loop` steps it without gaps,
    and all inner dims are read completely."""
    moved = [dim for dim, offset in enumerate(subset.offsets) if loop.var in variables(offset)]
    if len(moved) != 1 or not subset.has_unit_strides:
        return None
    (outer,), shape = moved, shape_of(source.type)
    step = subset.offsets[outer] - subset.substitute({loop.var: loop.var.lower}).offsets[outer]
    here, var, beside = context_at(loop), loop.var, range(outer + 1, len(shape))
    follows = here.is_equal(step, Size.of(var) - var.lower) and here.is_equal(subset.sizes[outer], var.step)
    whole = all(here.is_equal(subset.offsets[d], 0) and here.is_equal(subset.sizes[d], shape[d]) for d in beside)
    return outer if follows and whole and not _is_strided(source) else None


def _is_strided(source: Value) -> bool:
    """Whether the rows of an argument may have any stride."""
    func = source.owner.parent if isinstance(source.owner, Block) else None
    return isinstance(func, FuncOp) and func.args.index(source) in strided_positions(func)


def _later(subset: Tile, loop: Loop, distance: int) -> Tile:
    """The subset some iterations later; it may lie outside its source."""
    moved = subset.substitute({loop.var: loop.var.size() + distance * loop.var.step})
    return Tile(moved.offsets, subset.sizes, subset.strides, subset.dropped)


def _written(loop: Loop, counted: Loop) -> list[tuple[Value, Tile]]:
    found: dict[Value, Tile] = {}
    for index, dest in enumerate(loop.destinations):
        if isinstance(dest.type, TensorType):
            for store in loop.yields_to(index):
                whole, subset = _inside(counted, loop, index, store.subset)
                found.setdefault(whole, subset)
    return list(found.items())


def _inside(counted: Loop, loop: Loop, index: int, subset: Tile) -> tuple[Value, Tile]:
    """A subset of a loop's destination, as one of the destination of `counted` that contains it, if there is one."""
    dest = found = loop.destinations[index]
    part = subset
    while loop is not counted:
        users = loop.results[index].uses
        user, position = users[0] if len(users) == 1 else (None, 0)
        if isinstance(user, Loop):
            loop, index = user, position
        elif isinstance(user, StYield) and position == 0 and isinstance(outer := parent_op(user), Loop):
            loop, part, found = outer, compose(user.subset, part), user.operands[1]
            index = loop.destinations.index(found)
        else:
            return dest, subset
    return found, part


def _moving(loop: Loop, counted: Loop) -> list[tuple[Value, Tile]]:
    """The subsets that the body of a loop reads, each once, if another iteration of `counted` reads another one."""
    found: dict[tuple[Value, str], tuple[Value, Tile]] = {}
    reads = (op for op in loop.walk() if isinstance(op, OnSubset) and op.results)
    for source, subset in _read(reads, loop, counted):
        if any(counted.var in variables(offset) for offset in subset.offsets):
            found.setdefault((source, subset.text()), (source, subset))
    return list(found.values())


def _read(reads: Iterable[OnSubset], loop: Loop, counted: Loop) -> list[tuple[Value, Tile]]:
    """What the body of a loop reads from memory; a vector masked at the border is prefetched as a whole."""
    found: list[tuple[Value, Tile]] = []
    for op in reads:
        if op.parent is loop.body or (isinstance(outer := parent_op(op), Conditional) and outer.parent is loop.body):
            source, subset = op.operands[0], op.subset
            if not _is_filled_in(source, counted):
                if not isinstance(op.result.type, TensorType):
                    whole = dict(zip(subset.kept, shape_of(op.result.type), strict=True))
                    sizes = tuple(whole.get(dim, size) for dim, size in enumerate(subset.sizes))
                    subset = Tile(subset.offsets, sizes, subset.strides, subset.dropped)
                found.append((source, subset))
    return found


def _reads(value: Value) -> Iterator[OnSubset]:
    """The reads of memory that give a value, in either branch if there are two."""
    op = value.defining_op
    if isinstance(op, OnSubset) and op.results:
        yield op
    elif isinstance(op, Conditional):
        for block in op.regions:
            if block.terminator is not None:
                yield from _reads(block.terminator.operands[op.results.index(value)])
    elif op is not None and op.operands:
        yield from _reads(op.operands[0])


def _is_filled_in(source: Value, counted: Loop) -> bool:
    """Whether the value that is read is computed in the body of a loop: some iterations earlier, it does not exist."""
    maker = source.owner if isinstance(source.owner, Operation) else source.owner.parent
    return maker is not None and is_in(maker, counted)
