"""hoist_accumulator: carry an accumulator in registers through a reduction loop."""

from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Block, Value
from tcpx.payload.ops.gml_st import Loop, StYield
from tcpx.payload.types import TensorType
from tcpx.transform.declaration import (
    LOOP,
    OP,
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.vectorization import hoist_accumulator


@register
class HoistAccumulator(Transform):
    """Make the accumulator of a vectorized operation a value the loop carries, instead of memory it reads and writes.

    An operation with several results has several accumulators; results along a sequential dim are none. Where several
    loops step reduction dims, those inside `out_of` carry it too.

    before:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm.out = tcp.empty : tensor<[M]x32xf32>
          %mm.1 = gml_st.for %mm/m1 in 0 to M step 6 (%mm.2 = %mm.out) {
            %mm.start.v = tcp.fill {value = 0.0} : vector<6x32xf32> name "mm.start"
            %mm/k1.1 = vector.to_tensor(%mm.start.v) : tensor<6x32xf32>
            %mm.5 = gml_st.for %mm/k1 in 0 to 64 step 1 (%mm.6 = %mm/k1.1) {
              %x.v = vector.read(%x) tile [%mm/m1, %mm/k1] [min(6, M - %mm/m1), 1] {value = 0.0} : vector<6x1xf32>
              %w.v = vector.read(%w) tile [%mm/k1, 0] [1, 32] {value = 0.0} : vector<1x32xf32>
              %mm.v = vector.read(%mm.6) tile [0, 0] [6, 32] {value = 0.0} : vector<6x32xf32>
              %mm.v.1 = tcp.matmul(%x.v, %w.v, init = %mm.v) : vector<6x32xf32> name "mm"
              gml_st.yield(%mm.v.1, %mm.6) tile [0, 0] [6, 32]
            } : tensor<6x32xf32>
            %mm.v.2 = vector.read(%mm.5) tile [0, 0] [6, 32] {value = 0.0} : vector<6x32xf32>
            gml_st.yield(%mm.v.2, %mm.2) tile [%mm/m1, 0] [min(6, M - %mm/m1), 32]
          } : tensor<[M]x32xf32>
          tcp.return(%mm.1)
        }
    statement:
        hoist_accumulator(mm, out_of: mm.loop(k))
    after:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>) -> tensor<[M]x32xf32> symbols [M] {
          %mm.out = tcp.empty : tensor<[M]x32xf32>
          %mm.1 = gml_st.for %mm/m1 in 0 to M step 6 (%mm.2 = %mm.out) {
            %mm.start.v = tcp.fill {value = 0.0} : vector<6x32xf32> name "mm.start"
            %mm.5 = gml_st.for %mm/k1 in 0 to 64 step 1 (%mm.6 = %mm.start.v) {
              %x.v = vector.read(%x) tile [%mm/m1, %mm/k1] [min(6, M - %mm/m1), 1] {value = 0.0} : vector<6x1xf32>
              %w.v = vector.read(%w) tile [%mm/k1, 0] [1, 32] {value = 0.0} : vector<1x32xf32>
              %mm.v.1 = tcp.matmul(%x.v, %w.v, init = %mm.6) : vector<6x32xf32> name "mm"
              gml_st.yield(%mm.v.1, %mm.6) tile [0, 0] [6, 32]
            } : vector<6x32xf32>
            gml_st.yield(%mm.5, %mm.2) tile [%mm/m1, 0] [min(6, M - %mm/m1), 32]
          } : tensor<[M]x32xf32>
          tcp.return(%mm.1)
        }
    """

    name = "hoist_accumulator"
    category = Category.VECTOR
    parameters = (
        Parameter("target", OP, doc="the operation that accumulates"),
        Parameter("out_of", LOOP, doc="the outermost reduction loop to carry its accumulator through"),
    )

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        op, loop = args.op("target"), args.loop("out_of")
        numbers = [k for k in range(len(op.results)) if not isinstance(op, Structured) or op.has_accumulator(k)]
        chains = [_carried_out_of(op.results[k], loop) for k in numbers]
        carried = [link for chain in chains for link in chain]
        if carried and all(not isinstance(outer.destinations[k].type, TensorType) for outer, k in carried):
            raise ctx.fail(
                f"{loop.name} carries the accumulator of %{op.name} in registers already",
                op=op,
                required="an accumulator in memory",
                found=_found(loop),
            )
        if not carried or not all(chains):
            raise ctx.fail(
                f"%{op.name} does not accumulate into a destination of {loop.name}",
                op=op,
                required="an operation whose result the loop yields to a tensor destination",
                found=_found(loop),
                fix="tile a reduction dim by this loop, then vectorize the loop round it",
            )
        for inner, index in carried:
            if inner.is_parallel:
                raise ctx.fail(
                    f"{inner.name} is parallel: its iterations hand no value to the next",
                    op=inner,
                    required="a sequential loop",
                    found=inner.opcode,
                    fix="hoist before `parallelize`, or do without `parallel`",
                )
            if isinstance(inner.destinations[index].type, TensorType):
                hoist_accumulator(ctx, inner, index)
        return ()


def _carried_out_of(value: Value, loop: Loop) -> list[tuple[Loop, int]]:
    """The loops that carry a result, each with which destination it is, innermost first, out to `loop`; none where
    `loop` does not carry it."""
    found: list[tuple[Loop, int]] = []
    while True:
        moved = value.users[0] if len(value.users) == 1 else None
        if isinstance(moved, Structured) and moved.is_movement:  # a result in another order of dims
            value = moved.result
            continue
        stores = [u for u in value.users if isinstance(u, StYield) and u.operands[0] is value]
        dest = stores[0].operands[1] if len(stores) == 1 else None
        inner = dest.owner.parent if dest is not None and isinstance(dest.owner, Block) else None
        if dest is None or not isinstance(inner, Loop):
            return []
        index = inner.destinations.index(dest)
        found.append((inner, index))
        if inner is loop:
            return found
        value = inner.results[index]


def _found(loop: Loop) -> str:
    types = ", ".join(f"%{d.name}: {d.type}" for d in loop.destinations)
    return f"destinations {types}" if types else "a loop without destinations"
