"""tile: loops around an operation, one tile of its result per iteration."""

from tcpx.payload.contexts import context_at
from tcpx.payload.diagnostics import Direction
from tcpx.payload.interfaces import Structured, Tileable
from tcpx.payload.ir import Operation
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.sizes import Dim, to_text
from tcpx.payload.sizes.bounds import upper_bound
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.traits.scatter import Scatter
from tcpx.suggestions import did_you_mean, numbered_dim
from tcpx.transform.declaration import (
    BOOL,
    DIM_STEPS,
    INTS,
    OP,
    Arguments,
    Category,
    DimStep,
    Parameter,
    Result,
    Results,
    Transform,
    TransformContext,
    enum,
    register,
)
from tcpx.transform.editing import loops_stepping, source_name
from tcpx.transform.peeling import peel
from tcpx.transform.tiling import check_not_whole, check_on_tensors, pad, tile

LARGEST = 2**40
"""The largest tile size, so that sizes of loops stay far from the limits of int64."""


@register
class Tile(Transform):
    """Wrap an operation in one loop per entry of `sizes`, outermost first, in the order written.

    Each iteration computes a tile of the result from tiles of the operands. A parallel dim yields disjoint tiles; a
    reduction dim turns the operation into its accumulating form, with the initial value `x.start`. The last tile of a
    dim is shorter, unless `tail` says otherwise. `pad` computes full tiles on padded operands and slices the result.
    `peel` makes a main loop of full tiles and a tail loop; consumers can then not be fused any more. `shift` moves the
    last tile back, to overlap the previous one, so that no tile is shorter if the dim is known to be at least as long
    as a tile.

    A dim may occur several times: `[m: 64, n: 64, m: 8]` makes tiles of 8 in tiles of 64. `tail` applies to the last
    entry of each dim. A list of dims stands for each of them (`[without(dims(x.out), [n]): 1, n: 16]`); the step then
    returns a list of their loops.

    `num_threads: [2, 3]`, one number for each entry of `sizes`, is the largest number of tiles along each dim: tiles
    have equal length, rounded up to a multiple of the size, and the loops are `parallel`. `[m: 1]` does not round.

    A tile wider than its dim gives a remark, and so does a loop of one iteration inside a loop over the same dim.

    An operand that is a fill, a broadcast or a transpose is computed in the loop, tile by tile; its handle follows if
    it has no other user. A fill or a broadcast that a reduction reads stays outside, where `pack` finds it. So does
    what the sums start with, `x.start`: an `init` of the payload, and the fill before a loop over a reduction dim, are
    written in full, in memory. `fuse(x.start, into: i)` computes it in the loop, tile by tile.

    before:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm = tcp.matmul(%x, %w) : tensor<[M]x32xf32>
          tcp.return(%mm)
        }
    statement:
        tile(mm, [m: 6])
    after:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm.out = tcp.empty : tensor<[M]x32xf32>
          %mm.1 = gml_st.for %mm/m1 in 0 to M step 6 (%mm.2 = %mm.out) {
            %x.t = gml_st.materialize(%x) tile [%mm/m1, 0] [min(6, M - %mm/m1), 64]
                : tensor<[min(6, M - %mm/m1)]x64xf32>
            %mm.3 = tcp.matmul(%x.t, %w) : tensor<[min(6, M - %mm/m1)]x32xf32> name "mm"
            gml_st.yield(%mm.3, %mm.2) tile [%mm/m1, 0] [min(6, M - %mm/m1), 32]
          } : tensor<[M]x32xf32>
          tcp.return(%mm.1)
        }
    """

    name = "tile"
    category = Category.TILING
    parameters = (
        Parameter("target", OP, doc="the operation to tile"),
        Parameter("sizes", DIM_STEPS, doc="tile sizes by dim; the order is the order of the loops"),
        Parameter("parallel", BOOL, False, doc="distribute the iterations over threads; those of all dims as one grid"),
        Parameter(
            "tail", enum("none", "pad", "peel", "scalar", "shift"), "none", doc="how to handle a shorter last tile"
        ),
        Parameter(
            "num_threads", INTS, None, doc="the largest number of tiles along each dim; makes the loops parallel"
        ),
    )
    results = (Result.LOOPS,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        op = args.op("target")
        if not isinstance(op, Tileable):
            raise ctx.fail(f"%{op.name} cannot be tiled", op=op, required="the Tiling interface", found=op.opcode)
        check_on_tensors(ctx, op)
        parallel, tail = args.bool("parallel") or args.given("num_threads"), args.string("tail")
        steps = _shared(ctx, op, args) if args.given("num_threads") else args.steps("sizes")
        last = {step.dim: step for step in steps}
        for step in steps:
            _check(ctx, op, step, parallel, tail if last[step.dim] is step else "none")
        loops: list[Loop] = []
        here: Tileable = op
        full: dict[str, int] = {}
        for step in steps:
            ends = tail if last[step.dim] is step else "none"
            if here.iterator(step.dim).is_reduction:
                here = pad(ctx.rewriter, here, full)
            _warn(ctx, here, step.dim, step.size, ends)
            _check_order(ctx, here, step.dim)
            loop, here = tile(ctx.rewriter, here, step.dim, step.size, parallel, ends == "shift")
            loops.append(loop)
            if ends == "pad" and isinstance(step.size, int):
                full[step.dim] = step.size
        if tail == "pad":
            here = pad(ctx.rewriter, here, full)
        elif tail in ("peel", "scalar"):
            for step, loop in reversed([*zip(steps, loops, strict=True)]):
                if last[step.dim] is step:
                    peel(ctx.rewriter, loop, scalar=tail == "scalar")
        results: list[Operation] = list(loops)
        return tuple(results)


def _warn(ctx: TransformContext, op: Tileable, dim: str, size: Dim, tail: str) -> None:
    """Remark on a loop with one iteration, whose tiles are wider than the dim or than the enclosing tiles."""
    extent, here = op.size_of(dim), context_at(op)
    most, least = here.upper_bound(extent), here.lower_bound(size)
    around = loops_stepping(op, dim)
    source = f"the step of the loop {around[-1].name} round it" if around else f"the extent of `{dim}`"
    if most is not None and least is not None and least > most:
        ctx.warn(
            f"the tile of `{dim}` is wider than the dim of %{source_name(op)}",
            op,
            required=f"at most {most}, {source}",
            found=f"{dim}: {to_text(size)}" + (f", of which {least - most} are padding" if tail == "pad" else ""),
            fix=f"[{dim}: {most}]" if tail != "pad" and most > 0 and not around else None,
            cause="padding" if tail == "pad" else "",
        )
    elif around and here.is_less_equal(extent, size) is True:
        ctx.warn(
            f"the loop over `{dim}` of %{source_name(op)} has one iteration",
            op,
            required=f"tiles of less than {to_text(around[-1].var.step)}, {source}",
            found=f"{dim}: {to_text(size)}",
            fix=Direction(f"`{ctx.name_of(op)}.loop({dim})` is that loop"),
        )


def _check_order(ctx: TransformContext, op: Tileable, dim: str) -> None:
    """A reduction that is not commutative keeps the order of its dims: the loop over the first is outermost."""
    outer = Reduction(op).reduced_before(dim) if isinstance(op, Structured) and op.iterator(dim).is_reduction else None
    if outer is not None:
        raise ctx.fail(
            f"a loop over `{dim}` round `{outer}` changes the order in which %{op.name} reduces",
            op=op,
            required=f"tiles of 1 of `{outer}` first, or a combiner that is declared `commutative`",
            found=f"`{outer}` of {to_text(op.size_of(outer))}",
            fix=Direction(f"[{outer}: 1, {dim}: ...]"),
        )


def _shared(ctx: TransformContext, op: Tileable, args: Arguments) -> tuple[DimStep, ...]:
    """The tile size of each dim for an even distribution: multiples of the sizes."""
    steps, counts = args.steps("sizes"), args.ints("num_threads")
    dims = [step.dim for step in steps]
    if len(set(dims)) < len(dims):
        raise ctx.fail(
            "`num_threads` says how many tiles there are along each dim, of which one stands twice",
            op=op,
            required="each dim once",
            found=f"[{', '.join(map(str, steps))}]",
        )
    if len(counts) != len(steps) or any(count < 1 for count in counts):
        raise ctx.fail(
            "`num_threads` says how many tiles there are along each dim",
            op=op,
            required=f"a number of at least 1 for each of {', '.join(dims)}",
            found=f"[{', '.join(map(str, counts))}]",
        )
    extents = dict(zip((it.name for it in op.iterators()), op.extents(), strict=True))
    found: list[DimStep] = []
    for step, count in zip(steps, counts, strict=True):
        dim, size = step.dim, step.size
        if not isinstance(size, int):
            raise ctx.fail(
                f"the tile of `{dim}` is known only when the kernel runs, and nothing is rounded up to it",
                op=op,
                required="a size that is a number now, beside `num_threads`",
                found=to_text(size),
                fix=f"[{dim}: 1]",
            )
        is_known, here = dim in extents and size > 0, context_at(op)
        rounds = here.maximum(1, here.ceildiv(extents[dim], size * count)) if is_known else 1
        found.append(DimStep(dim, size * rounds))
    return tuple(found)


def _check_shifts(ctx: TransformContext, op: Tileable, dim: str, parallel: bool) -> None:
    """Elements of two tiles are computed twice: equally, and one after the other."""
    found = [f"reduction dim `{dim}`"] if op.iterator(dim).is_reduction else []
    found += ["an `init`, which it adds to"] if op.inits else []
    found += ["`parallel: true`"] if parallel else []
    if found:
        raise ctx.fail(
            f"the last tile of `{dim}` of %{op.name} cannot be shifted over the one before: both compute some elements",
            op=op,
            required="tiles that are computed of operands alone, one after the other",
            found=found[0],
            fix="tail: pad",
        )


def _check(ctx: TransformContext, op: Tileable, step: DimStep, parallel: bool, tail: str) -> None:
    """The size is positive and fits its dim."""
    dim, size = step.dim, step.size
    iterators = {it.name: it for it in op.iterators()}
    it = iterators.get(dim)
    if it is None:
        raise ctx.fail(
            f"%{op.name} has no dim `{dim}`",
            op=op,
            required=f"a dim of {op.opcode}: {', '.join(iterators) or 'none'}",
            found=dim,
            fix=did_you_mean(dim, iterators) or numbered_dim(dim, tuple(iterators)),
        )
    here = context_at(op)
    positive = here.is_less_equal(1, size)
    if positive is not True:
        never = positive is False
        raise ctx.fail(
            f"the tile size of `{dim}` is not {'' if never else 'known to be '}positive",
            op=op,
            required="at least 1",
            found=to_text(size),
            fix=None if never else Direction("max(1, ...)"),
        )
    least = here.lower_bound(size)
    if least is not None and least > LARGEST:
        raise ctx.fail(
            f"the tile size of `{dim}` is too large", op=op, required=f"at most {LARGEST}", found=to_text(size)
        )
    check_not_whole(ctx, op, dim, "cut")
    is_scatter = isinstance(op, Structured) and Scatter.of(op) is not None
    if it.is_reduction and parallel and not (isinstance(op, Structured) and Scatter(op).is_apart(dim)):
        why = "each goes on from the one before" if it.is_sequential else "iterations add into one result"
        raise ctx.fail(
            f"`{dim}` is a {it.kind.value} dim and cannot be tiled in parallel: {why}",
            op=op,
            required="a parallel dim" + (", or indices that are declared `unique`" if is_scatter else ""),
            found=f"{it.kind.value} dim `{dim}`",
            fix=None
            if it.is_sequential or is_scatter
            else Direction(f"write `split_reduction({op.name}, {dim}, parts: 4, parallel: true)`"),
        )
    if it.is_reduction and (not isinstance(op, Structured) or Reduction(op).neutrals() is None):
        raise ctx.fail(
            f"`{dim}` of %{op.name} cannot be tiled: its reduction has no neutral element",
            op=op,
            required="a reduction of the operation tree",
            found=op.opcode,
            fix=Direction("decompose the operation first") if not isinstance(op, Structured) else None,
        )
    if tail == "shift":
        _check_shifts(ctx, op, dim, parallel)
    if tail == "pad" and not isinstance(size, int):
        raise ctx.fail(
            f"the tile size of `{dim}` is known only when the kernel runs, so it cannot be padded to",
            op=op,
            required="a size that is a number now",
            found=to_text(size),
            fix="tail: none" if upper_bound(size, context_at(op).names) is None else None,
        )
