"""bufferize: put tensors into memory."""

from tcpx.payload.diagnostics import Diagnostic
from tcpx.payload.ir import FuncOp
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.strided import STRIDED
from tcpx.records import frozen
from tcpx.transform.bufferization.lowering import Lowering
from tcpx.transform.bufferization.preparation import prepare
from tcpx.transform.bufferization.slots import placed_in_slots
from tcpx.transform.declaration import (
    FUNC,
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.grouping import dissolve_all


@register
class Bufferize(Transform):
    """Put every tensor of a function, and of its callees, into memory: arguments, results, the stack, the workspace.

    A loop updates its destinations in place; a yielded or returned value is computed at its destination. Arguments
    become buffers. Each result becomes one more argument. The outer strides of a `strided` tensor become symbols.
    Operations that are still on tensors become loop nests over their elements; composites are decomposed. What cannot
    be in place is copied. State that each iteration of a loop of the payload would copy takes turns in the slots of one
    array instead: it is copied before the loop and behind it. Each copy is a remark in the function's attribute
    `remarks`, which names the two uses that conflict.

    An `inout` argument is overwritten where the result of its name is computed, after its last read.

    Existing loops remain. A handle to an operation that becomes a loop nest denotes the arithmetic in that nest.
    Compilation applies this step if the schedule does not.

    before:
        func @f(%x: tensor<[N]xf32>, %y: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {
          %r = tcp.mul(%x, %y) : tensor<[N]xf32>
          tcp.return(%r)
        }
    statement:
        bufferize(root)
    after:
        func @f(%x: buffer<[N]xf32, strides [1], space argument>, %y: buffer<[N]xf32,
            strides [1], space argument>, %out: buffer<[N]xf32, strides [1], space result>) symbols [N]
            {results = 1} {
          gml_st.for %r/d0 in 0 to N step 1 {
            %r.1 = vector.read(%x) tile [%r/d0] [1] drop [0] {value = 0.0} : f32
            %r.2 = vector.read(%y) tile [%r/d0] [1] drop [0] {value = 0.0} : f32
            %r = tcp.mul(%r.1, %r.2) : f32
            vector.write(%r, %out) tile [%r/d0] [1] drop [0]
          }
          tcp.return
        }
    """

    name = "bufferize"
    category = Category.CLEANUP_AND_LOWERING
    parameters = (Parameter("func", FUNC, doc="the function to bufferize"),)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        func = args.func("func")
        dissolve_all(ctx, func)
        for called in ctx.rewriter.module.reached(func):
            copies = bufferize_one(ctx.rewriter, called)
            for remark in copies.texts:
                ctx.remark(remark)
            ctx.warnings += copies.unasked
        return ()


@frozen
class Copies:
    """The copies that a function on buffers makes: a line about each, and the remarks on those that no statement asked
    for."""

    texts: tuple[str, ...] = ()
    unasked: tuple[Diagnostic, ...] = ()


def bufferize(rewriter: Rewriter, func: FuncOp) -> tuple[str, ...]:
    """Put every tensor of `func`, and of its callees, into memory; buffers stay as they are.

    Returns a remark for each copy. Raises VerifyError, located, for an operation on tensors that is neither structured
    nor composite.
    """
    called = rewriter.module.reached(func)
    return tuple(text for each in called for text in bufferize_one(rewriter, each).texts)


def bufferize_one(rewriter: Rewriter, func: FuncOp) -> Copies:
    """The same for one function whose callees are already on buffers."""
    if "results" in func.attributes:
        return Copies()
    prepare(rewriter, func)
    placement = placed_in_slots(rewriter, func)
    rewriter.visited += placement.conflicts.looked_at
    lowering = Lowering(rewriter, func, placement)
    lowering.run()
    rewriter.set_attribute(func, STRIDED, None)
    rewriter.set_attribute(func, "results", len(lowering.effects.results) - len(func.states))
    if lowering.remarks:
        rewriter.set_attribute(func, "remarks", tuple(lowering.remarks))
    return Copies(tuple(lowering.remarks), tuple(lowering.unasked))
