"""annotate: attach a note that later statements can read."""

from tcpx.transform.declaration import (
    OP_OR_LOOP,
    STRING,
    Arguments,
    Category,
    Parameter,
    Results,
    Transform,
    TransformContext,
    register,
)


@register
class Annotate(Transform):
    """Attach a note to an operation or loop. `x.attribute("name")` gives its text, also in the `where` of a match.

    The note is copied with every later copy of its target, and goes with what the operation is lowered to; in the C it
    is a comment. It is not part of the payload: it changes neither the payload text, nor what `cse` merges, nor the
    fingerprint. A note of the same name is replaced.

    before:
        func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x32xf32>, %v: tensor<32x8xf32>)
            -> tensor<[M]x8xf32> symbols [M] {
          %a = tcp.matmul(%x, %w) : tensor<[M]x32xf32>
          %b = tcp.matmul(%a, %v) : tensor<[M]x8xf32>
          tcp.return(%b)
        }
    statement:
        annotate(b, "width", "narrow")
        for x in match some contract in root where it.attribute("width") == "narrow" { print(x) }
    output:
        b = tcp.matmul
    """

    name = "annotate"
    category = Category.INSPECTION
    needs_count = False
    parameters = (
        Parameter("target", OP_OR_LOOP, doc="the operation or loop"),
        Parameter("note", STRING, doc="its name"),
        Parameter("text", STRING, "", doc="the text of the note; may be empty"),
    )
    marks = False

    def apply(self, ctx: TransformContext, args: Arguments) -> Results:
        op, note = args.op("target"), args.string("note")
        if note in op.attributes:
            raise ctx.fail(
                f"%{op.name} has an attribute `{note}` already",
                op=op,
                required="a name that none of its attributes has",
                found=", ".join(op.attributes),
            )
        ctx.rewriter.set_note(op, note, args.string("text"))
        return ()
