"""plan_memory: place the buffers in the workspace."""

from tcpx.payload.diagnostics import Direction
from tcpx.payload.ir import FuncOp
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.runs import threads_of
from tcpx.transform.bufferization.workspace import plan
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


@register
class PlanMemory(Transform):
    """Assign each buffer an offset in the workspace, in bytes, and the function the size of the workspace.

    Buffers that are not live at the same time share memory, and so do the workspaces of callees. A buffer in a parallel
    loop exists once per thread, at a distance of `per_thread` bytes. The function gets the size of its `workspace`, and
    `workspace_live`: the largest number of bytes that are live at once, the minimum of any plan. Each buffer starts at
    a multiple of 64 bytes, but not at a multiple of 4 KiB from the start of the one below.

    It requires `bufferize`. Compilation applies this step if the schedule does not.

    before:
        func @f(%x: buffer<[N]x[N]xf32, strides [N, 1], space argument>, %out: buffer<[N]x[N]xf32,
            strides [N, 1], space result>) symbols [N] {results = 1} {
          %h.buf = buffer.alloc : buffer<[N]x[N]xf32, strides [N, 1], space arena>
          gml_st.for %h/d0 in 0 to N step 1 {
            gml_st.for %h/d1 in 0 to N step 1 {
              %h.1 = vector.read(%x) tile [%h/d0, %h/d1] [1, 1] drop [0, 1] {value = 0.0} : f32
              %h = tcp.exp(%h.1) : f32
              vector.write(%h, %h.buf) tile [%h/d0, %h/d1] [1, 1] drop [0, 1]
            }
          }
          gml_st.for %r/m in 0 to N step 1 {
            gml_st.for %r/n in 0 to N step 1 {
              %r.1 = tcp.const {value = 0.0} : f32
              %r.2 = gml_st.for %r/k in 0 to N step 1 (%r.3 = %r.1) {
                %r.4 = vector.read(%h.buf) tile [%r/m, %r/k] [1, 1] drop [0, 1] {value = 0.0} : f32
                %r.5 = vector.read(%x) tile [%r/k, %r/n] [1, 1] drop [0, 1] {value = 0.0} : f32
                %r.6 = tcp.mul(%r.4, %r.5) : f32
                %r = tcp.add(%r.3, %r.6) : f32
                gml_st.yield(%r, %r.3) tile [] []
              } : f32
              vector.write(%r.2, %out) tile [%r/m, %r/n] [1, 1] drop [0, 1]
            }
          }
          tcp.return
        }
    statement:
        plan_memory(root)
    after:
        func @f(%x: buffer<[N]x[N]xf32, strides [N, 1], space argument>, %out: buffer<[N]x[N]xf32,
            strides [N, 1], space result>) symbols [N] {results = 1,
            workspace = 128*ceildiv(N*N + 16, 32) - 64, workspace_live = 4*N*N, threads = 2} {
          %h.buf = buffer.alloc {offset = 0, per_thread = 0} : buffer<[N]x[N]xf32, strides [N, 1], space arena>
          ...
        }
    """

    name = "plan_memory"
    category = Category.CLEANUP_AND_LOWERING
    parameters = (Parameter("func", FUNC, doc="the function to plan"),)
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        func = args.func("func")
        if "results" not in func.attributes:
            raise ctx.fail(
                f"@{func.name} has no buffers to plan",
                op=func,
                required="a function on buffers",
                found="a function on tensors",
                fix=Direction("bufferize the function before"),
            )
        plan_memory(ctx.rewriter, func, ctx.threads)
        return ()


def plan_memory(rewriter: Rewriter, func: FuncOp, threads: int = 1) -> None:
    """Plan the workspace of a function on buffers, for `threads` threads. Callees use parts of it."""
    for held in rewriter.module.reached(func):
        plan_one(rewriter, held, threads)


def plan_one(rewriter: Rewriter, func: FuncOp, threads: int) -> None:
    """The same for one function whose callees are planned."""
    threads = threads_of(func, threads)
    planned = plan(func, threads)
    for op, place in planned.places.items():
        rewriter.set_attribute(op, "offset", place.offset)
        rewriter.set_attribute(op, "per_thread", place.step)
    rewriter.set_attribute(func, "workspace", planned.size)
    rewriter.set_attribute(func, "workspace_live", planned.live)
    rewriter.set_attribute(func, "threads", threads)
