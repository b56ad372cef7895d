"""specialize: write an operation as a more special class."""

from tcpx.payload.interfaces import Structured
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
from tcpx.transform.editing import replace_with
from tcpx.transform.matching import classes_called, find_match


@register
class Specialize(Transform):
    """Write an operation as a named, more special class: the inverse of `generalize`, and down from `contract`.

    The class fits if, for some order of the operands, it has the same iterators, indexing maps and scalar body, up to
    the names of dims. `specialize x when ...` is another statement.

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
        found = find_match(op, classes)
        if isinstance(found, list):
            raise ctx.fail(
                f"%{op.name} is no {wanted}",
                op=op,
                required=f"the dims, maps and body of {wanted}",
                found=op.opcode,
                notes=tuple(f"{miss.opcode}: {miss.reason}" for miss in found),
            )
        return (replace_with(ctx.rewriter, op, found.on(op, op.operands)),)
