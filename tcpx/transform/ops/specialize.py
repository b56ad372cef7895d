"""specialize: write an operation as a more special class."""

from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Operation, Value
from tcpx.payload.rewriter import InsertPoint
from tcpx.transform.declaration import (
    NAME,
    OP,
    Arguments,
    Category,
    Parameter,
    Result,
    Results,
    Transform,
    TransformContext,
    register,
)
from tcpx.transform.editing import replace_with, source_name
from tcpx.transform.matching import classes_called, find_match
from tcpx.transform.windows_apart import windows_apart


@register
class Specialize(Transform):
    """Write an operation as a named, more special class: the inverse of `generalize`, and down from `contract`.

    The class fits if, for some order of the operands, it has the same iterators, indexing maps and scalar body, up to
    the names of dims. Windows that do not overlap fit as dims of their own: a convolution with one tap, or as many as
    its stride, is a `contract` of a slice or reshape. `specialize x when ...` is another statement.

    before:
        func @f(%x: tensor<[N]xf32>, %y: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {
          %r.1 = tcp.generic(%x, %y) {iterators = [["d0", "parallel"]], maps = [[d0], [d0], [d0]]} ({ (%e0: f32,
              %e1: f32):
            %e2 = tcp.mul(%e0, %e1) : f32
            tcp.yield(%e2)
          }) : tensor<[N]xf32> name "r"
          tcp.return(%r.1)
        }
    statement:
        specialize(r, to: mul)
    after:
        func @f(%x: tensor<[N]xf32>, %y: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {
          %r.2 = tcp.mul(%x, %y) : tensor<[N]xf32> name "r"
          tcp.return(%r.2)
        }
    """

    name = "specialize"
    category = Category.OPERATION_TREE
    parameters = (
        Parameter("target", OP, doc="a structured operation"),
        Parameter("to", NAME, doc="a class of the operation tree, or the end of an opcode"),
    )
    results = (Result.OP,)

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        op, wanted = args.op("target"), args.string("to")
        if not isinstance(op, Structured):
            raise ctx.fail(
                f"%{op.name} cannot be specialized", op=op, required="a structured operation", found=op.opcode
            )
        classes = classes_called(wanted)
        if not classes:
            raise ctx.fail(
                f"there is no class `{wanted}`", op=op, required="a class of the operation tree", found=wanted
            )
        if type(op) in classes:
            raise ctx.fail(
                f"%{op.name} is {wanted} already", op=op, required="an operation of another class", found=op.opcode
            )
        found, values = find_match(op, classes), list(op.operands)
        apart = windows_apart(op) if isinstance(found, list) else None
        if apart is not None:
            found = find_match(apart[0], classes)
        if isinstance(found, list):
            raise ctx.fail(
                f"%{op.name} is no {wanted}",
                op=op,
                required=f"the dims, maps and body of {wanted}",
                found=op.opcode,
                notes=tuple(f"{miss.opcode}: {miss.reason}" for miss in found),
            )
        if apart is not None:

            def build(part: Operation) -> Value:
                part.stand_for(op)
                name = f"{source_name(op)}/{part.opcode.rpartition('.')[2]}"
                return ctx.rewriter.insert(part, InsertPoint.before(op), name).results[0]

            values[: len(apart[1])] = [view.of(v, build) for v, view in zip(op.inputs, apart[1], strict=True)]
        return (replace_with(ctx.rewriter, op, found.on(op, values)),)
