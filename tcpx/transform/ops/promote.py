"""promote: compute what an iteration writes in a private buffer, then copy it to its destination."""

from collections.abc import Iterator

from tcpx.payload.diagnostics import Direction, ScheduleError
from tcpx.payload.distances import distance
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.ops.gml_st import Conditional, Loop, Materialize, OnSubset, StYield
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.traits.memory import Memory
from tcpx.payload.types import BufferType
from tcpx.transform import new
from tcpx.transform.declaration import (
    LOOP,
    VALUE,
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    register,
    value_of,
)
from tcpx.transform.editing import erase_dead, first_of, source_name, whole_of
from tcpx.transform.payload_names import payload_name


@register
class Promote(Transform):
    """Compute the part of a result that an iteration of a loop writes in a private buffer, and copy it to its
    destination when it is complete.

    Sums that every reduction step loads and stores are then in memory of one thread. Without the buffer, two threads
    share cache lines where their parts of the result meet, and contend for them in every step. The rows of the buffer
    are contiguous. Sums that continue from a value from outside the loop are refused: start them in the loop
    (`fuse(mm.start, into: ..)`), before a loop over a reduction dim is peeled or split.

    before:
        func @f(%x: tensor<8x64xf32>, %w: tensor<64x32xf32>) -> tensor<8x32xf32> {
          %mm.out = tcp.empty : tensor<8x32xf32>
          %mm.1 = gml_st.parallel %mm/n1 in 0 to 32 step 16 (%mm.2 = %mm.out) {
            %mm.start.out = tcp.empty : tensor<8x16xf32>
            %mm.4 = gml_st.for %mm/k1 in 0 to 64 step 4 (%mm.5 = %mm.start.out) {
              %x.t = gml_st.materialize(%x) tile [0, %mm/k1] [8, 4] : tensor<8x4xf32>
              %w.t = gml_st.materialize(%w) tile [%mm/k1, %mm/n1] [4, 16] : tensor<4x16xf32>
              %mm.start = gml_st.if %mm/k1 == 0 {
                %zero = tcp.fill {value = 0.0} : tensor<8x16xf32>
                tcp.yield(%zero)
              } else {
                %mm.acc = gml_st.materialize(%mm.5) tile [0, 0] [8, 16] : tensor<8x16xf32>
                tcp.yield(%mm.acc)
              } : tensor<8x16xf32>
              %mm.6 = tcp.matmul(%x.t, %w.t, init = %mm.start) : tensor<8x16xf32> name "mm"
              gml_st.yield(%mm.6, %mm.5) tile [0, 0] [8, 16]
            } : tensor<8x16xf32>
            gml_st.yield(%mm.4, %mm.2) tile [0, %mm/n1] [8, 16]
          } : tensor<8x32xf32>
          tcp.return(%mm.1)
        }
    statement:
        promote(mm.out, at: mm.loop(n))
    after:
        func @f(%x: tensor<8x64xf32>, %w: tensor<64x32xf32>) -> tensor<8x32xf32> {
          %mm.out = tcp.empty : tensor<8x32xf32>
          %mm.1 = gml_st.parallel %mm/n1 in 0 to 32 step 16 (%mm.2 = %mm.out) {
            %mm.own = tcp.empty {own = true} : tensor<8x16xf32>
            %mm.4 = gml_st.for %mm/k1 in 0 to 64 step 4 (%mm.5 = %mm.own) {
              %x.t = gml_st.materialize(%x) tile [0, %mm/k1] [8, 4] : tensor<8x4xf32>
              %w.t = gml_st.materialize(%w) tile [%mm/k1, %mm/n1] [4, 16] : tensor<4x16xf32>
              %mm.start = gml_st.if %mm/k1 == 0 {
                %zero = tcp.fill {value = 0.0} : tensor<8x16xf32>
                tcp.yield(%zero)
              } else {
                %mm.acc = gml_st.materialize(%mm.5) tile [0, 0] [8, 16] : tensor<8x16xf32>
                tcp.yield(%mm.acc)
              } : tensor<8x16xf32>
              %mm.6 = tcp.matmul(%x.t, %w.t, init = %mm.start) : tensor<8x16xf32> name "mm"
              gml_st.yield(%mm.6, %mm.5) tile [0, 0] [8, 16]
            } : tensor<8x16xf32>
            gml_st.yield(%mm.4, %mm.2) tile [0, %mm/n1] [8, 16]
          } : tensor<8x32xf32>
          tcp.return(%mm.1)
        }
    """

    name = "promote"
    category = Category.LAYOUT_AND_MEMORY
    needs_count = False
    parameters = (
        Parameter("value", VALUE, doc="`x.out`: a result that several steps in `at` compute"),
        Parameter("at", LOOP, doc="the loop whose iterations each have a buffer"),
    )

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        loop, value = args.loop("at"), value_of(args.value("value"))
        store = _store(ctx, loop, value)
        written = whole_of(store.operands[0])
        maker = written.defining_op
        if not isinstance(maker, Loop):
            raise _at_once(ctx, loop, value, store, maker)
        if loop.is_parallel and maker.is_parallel:
            raise ctx.fail(
                f"{loop.name} and {maker.name} are a grid: what runs in parallel is an iteration of both",
                op=maker,
                required="the innermost loop of the grid",
                found=loop.name,
                fix=Direction(f"promote in {maker.name}"),
            )
        index = maker.results.index(written)
        start = maker.operands[index]
        made = start.defining_op
        if made is not None and Memory(made).has_own_memory:
            raise ctx.fail(
                f"%{payload_name(value)} is promoted in {loop.name} already",
                op=maker,
                required="a result without a buffer of its own",
                found="one in memory of its own",
            )
        if not _is_undefined(start):
            raise _goes_on(ctx, maker, value, start)
        own = new.empty(start.type, own=True)
        own.schedule_location = ctx.location
        ctx.rewriter.insert(own, InsertPoint.before(maker), f"{_name(value)}.own")
        ctx.rewriter.set_operand(maker, index, own.result)
        erase_dead(ctx.rewriter, [start])
        return ()


def _store(ctx: TransformContext, loop: Loop, value: Value) -> StYield:
    """The yield of a loop that writes its part of a value."""
    if any(isinstance(op, OnSubset) and isinstance(op.subset_of.type, BufferType) for op in loop.walk()):
        raise ctx.fail(
            f"the body of {loop.name} is on buffers",
            op=loop,
            required="a loop that yields what it computes",
            found="vector.write",
            fix=Direction("do this before `bufferize`"),
        )
    stores = [s for k in range(len(loop.destinations)) for s in loop.yields_to(k)]
    found = [s for s in stores if any(v is value for v in _ways_to(s.operands[0]))]
    if not found:
        raise ctx.fail(
            f"no iteration of {loop.name} writes %{payload_name(value)}",
            op=loop,
            required="the result of an operation in the loop that it yields",
            found=", ".join(f"%{payload_name(s.value)}" for s in stores) or "nothing",
        )
    return found[0]


def _at_once(ctx: TransformContext, loop: Loop, value: Value, store: StYield, maker: Operation | None) -> ScheduleError:
    """The error if no loop computes what an iteration writes."""
    required = f"a loop in {loop.name} that computes it in several steps"
    if isinstance(maker, Conditional):
        return ctx.fail(
            f"%{payload_name(value)} is computed in branches, of which an iteration of {loop.name} takes one",
            op=store,
            required=required,
            found=maker.opcode,
            fix=Direction("promote before `specialize`"),
        )
    return ctx.fail(
        f"an iteration of {loop.name} writes %{payload_name(value)} at once",
        op=store,
        required=required,
        found=maker.opcode if maker is not None else f"%{payload_name(store.value)}",
    )


def _goes_on(ctx: TransformContext, maker: Loop, value: Value, start: Value) -> ScheduleError:
    """The error if a loop adds to a value from before it."""
    first = whole_of(start)
    round_it = first.owner.parent if isinstance(first.owner, Block) else None
    given = _given(first)
    found, todo = f"%{payload_name(first)} at first", ""
    if given is not None:
        found = f"%{payload_name(given)} at first"
        todo = f"add %{payload_name(given)} to the sums when they are done, instead of starting from it"
    elif isinstance(round_it, Loop):
        found = f"what an iteration of {round_it.name} leaves to the next"
        todo = f"promote in a loop round {round_it.name}"
    elif isinstance(first.defining_op, Loop):
        found = f"what {first.defining_op.name} computes"
        todo = "promote before the loop is peeled or split"
    elif isinstance(first.defining_op, Structured):
        todo = f"fuse the start of the sums into {maker.name}"
    return ctx.fail(
        f"{maker.name} goes on from what is there before",
        op=maker,
        required=f"a loop that computes %{payload_name(value)} from the start",
        found=found,
        fix=Direction(todo) if todo else None,
    )


def _is_undefined(value: Value) -> bool:
    """Whether no element of a value has been computed yet."""
    op = value.defining_op
    if not isinstance(op, Materialize):
        return op is not None and Memory(op).leaves_undefined
    source = op.operands[0]
    loop = source.owner.parent if isinstance(source.owner, Block) else None
    if not isinstance(loop, Loop):
        return _is_undefined(source)
    index = loop.destinations.index(source)
    return (
        all(store.subset == op.subset for store in loop.yields_to(index))
        and distance(loop, op.subset).is_zero
        and _is_undefined(loop.operands[index])
    )


def _given(value: Value) -> Value | None:
    """The value that sums continue from, unless they start undefined or from the same number everywhere."""
    op: Operation | None = value.defining_op
    match op:
        case None:
            first = first_of(value)
            return _given(whole_of(first)) if first is not None else value
        case Loop():
            return _given(whole_of(op.operands[op.results.index(value)]))
        case _:
            return value if op.operands else None


def _name(value: Value) -> str:
    """The name of a buffer for a value."""
    return source_name(value.defining_op) if value.defining_op is not None else value.name


def _ways_to(value: Value) -> Iterator[Value]:
    """A value, and the values that it consists of through loops, branches and subsets alone."""
    yield value
    op: Operation | None = value.defining_op
    match op:
        case Loop():
            index = op.results.index(value)
            for store in op.yields_to(index):
                yield from _ways_to(store.operands[0])
            if isinstance(whole_of(op.operands[index]).defining_op, Loop):
                yield from _ways_to(op.operands[index])
        case Conditional():
            for block in op.regions:
                if block.terminator is not None:
                    yield from _ways_to(block.terminator.operands[op.results.index(value)])
        case Materialize():
            yield from _ways_to(op.operands[0])
        case _:
            pass
