"""Operations that are short for others are these, before any step of a schedule."""

from typing import Final

from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import Module, Operation, Value
from tcpx.payload.lookup import is_a
from tcpx.payload.ops.composite import Composite
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.traits.expansion import Expansion
from tcpx.payload.traits.tree import Tree
from tcpx.payload.types import TensorType
from tcpx.transform.editing import rename_inside, source_name

ARITHMETIC: Final = (Structured, Composite)
"""The interfaces of operations that a handle may denote in place of one that is short for others."""


def expand_short_forms(rewriter: Rewriter, module: Module) -> None:
    """Replace each operation on tensors that is short for others by these, and what is short among them."""
    for func in module.funcs.values():
        for op in list(func.walk()):
            expand_short_form(rewriter, op)


def expand_short_form(rewriter: Rewriter, op: Operation) -> Operation:
    """The operation that does the arithmetic of one that is short for others, in whose place these are; it has the name
    and the handles. Itself if it is not short."""
    if (
        not isinstance(op, ARITHMETIC)
        or not Expansion(op).expands_first
        or not isinstance(op.results[0].type, TensorType)
    ):
        return op
    base, made = source_name(op), list[Structured | Composite]()

    def build(part: Operation) -> Value:
        part.stand_for(op)
        rename_inside(rewriter, part, op)
        inserted = rewriter.insert(part, InsertPoint.before(op), f"{base}/{part.opcode.rpartition('.')[2]}")
        made.extend([inserted] if isinstance(inserted, ARITHMETIC) else [])
        return inserted.results[0]

    values = op.decomposed(build) if isinstance(op, Composite) else Expansion(op).decompose(build)
    *others, anchor = made
    written = Tree(op).tree_classes()[0]
    if not is_a(anchor, written):  # only then: a reason may have to look at each weight
        anchor.written_as = op.written_as or (written, Expansion(op).reason_to_expand)
    rewriter.rename(anchor, op.name)
    rewriter.continue_as(op, anchor)
    rewriter.replace_op(op, values)
    for part in others:
        expand_short_form(rewriter, part)
    return expand_short_form(rewriter, anchor)
