"""prefetch: ask for the memory a loop's iteration will write or read, ahead of its computation."""

from __future__ import annotations

from tcpx.payload.ir import Operation, Value
from tcpx.payload.ops.gml_st import Loop, Materialize
from tcpx.payload.ops.memory import Prefetch as PrefetchOp
from tcpx.payload.ops.vector import Read
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.subsets import Tile
from tcpx.payload.types import TensorType
from tcpx.transform.declaration import (
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
)


@register
class Prefetch(Transform):
    """Prefetch, at the start of the body of `at`, the subsets of its destinations that the iteration writes
    (`for: write`), or the subset of an operand that it reads (`for: read`).

    before:
        %y.1 = gml_st.for %mm/m2 in 0 to M step 6 (%y.2 = ...) { ...; gml_st.yield(%s, %y.2) tile ... }
    statement:
        prefetch(mm.out, at: ir, for: write)
    after:
        %y.1 = gml_st.for %mm/m2 in 0 to M step 6 (%y.2 = ...) { buffer.prefetch(%y.2) tile ... ; ... }
    """

    name = "prefetch"
    category = Category.LOOPS
    parameters = (
        Parameter("value", VALUE, doc="`x.out`: what the iterations of `at` write; or an operand `x.lhs`"),
        Parameter("at", LOOP, doc="the loop at the start of whose body to prefetch"),
        Parameter("for", enum("read", "write"), "read", doc="what the memory is wanted for"),
    )

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        loop, write = args.loop("at"), args.string("for") == "write"
        held = args.value("value")
        targets = _written(loop) if write else _read(held.value if isinstance(held, OperandRef) else held, loop)
        if not targets:
            raise ctx.fail(
                f"the body of {loop.name} {'writes' if write else 'reads'} no subset that could be prefetched",
                op=loop,
                required="a loop whose body yields to its destinations" if write else "an operand read from memory",
                found="none",
            )
        for value, subset in targets:
            op: Operation = PrefetchOp([value], [], {"subset": subset, "write": write})
            op.schedule_location = ctx.location
            ctx.rewriter.insert(op, InsertPoint.start(loop.body))
        return ()


def _written(loop: Loop) -> list[tuple[Value, Tile]]:
    found: dict[Value, Tile] = {}
    for index, dest in enumerate(loop.destinations):
        if isinstance(dest.type, TensorType):
            for store in loop.yields_to(index):
                found.setdefault(dest, store.subset)
    return list(found.items())


def _read(value: Value, loop: Loop) -> list[tuple[Value, Tile]]:
    op = value.defining_op
    while op is not None and op.operands and not isinstance(op, Materialize | Read):
        op = op.operands[0].defining_op
    if isinstance(op, Materialize | Read) and op.parent is loop.body:
        return [(op.operands[0], op.subset)]
    return []
