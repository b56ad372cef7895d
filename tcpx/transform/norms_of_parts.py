"""Norms of reshaped tensors become norms of the tensors, with dims in parts.

A norm of groups of channels, for one: exporters write a reshape that joins the channels of a group to the places.
"""

from tcpx.payload.contexts import are_equal_at, context_at
from tcpx.payload.interfaces import Elementwise, Structured, pieces_of_all
from tcpx.payload.ir import Operation, Value
from tcpx.payload.ops.normalization import Norm
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.sizes import Dim, as_dim, floordiv, product
from tcpx.payload.sizes.context import Context
from tcpx.payload.traits.signature import given_operands
from tcpx.payload.types import TensorType, Type, dtype_of, like, shape_of
from tcpx.records import frozen
from tcpx.transform import new
from tcpx.transform.editing import erase_dead, source_name
from tcpx.transform.elementwise import fills, repeats


@frozen
class Parts:
    """How a tensor is reshaped to rows."""

    shape: tuple[Dim, ...]
    kept: tuple[Dim, ...]
    """The dims of the reshaped tensor that count the rows: its first ones."""
    first: int
    """The dim of the tensor from which on a row has its elements."""
    count: int
    """The parts of this dim that are rows of their own."""
    here: Context
    """What is known of the sizes."""

    @property
    def by_dim(self) -> tuple[int, ...]:
        """The parts of each dim."""
        return tuple(self.count if k == self.first else 1 for k in range(len(self.shape)))

    def is_same(self, dim: int) -> bool:
        """Whether a dim of the rows is the dim of the tensor at its position."""
        pairs = zip(self.shape[: dim + 1], self.kept[: dim + 1], strict=True)
        return dim < self.first and all(self.here.is_equal(a, b) is True for a, b in pairs)

    def is_part(self, dim: int) -> bool:
        """Whether a dim of the rows counts the parts."""
        before = self.here.is_equal(product(self.kept[:dim]), product(self.shape[: self.first]))
        return before is True and self.here.is_equal(self.kept[dim], self.count) is True


def split(rewriter: Rewriter, op: Norm) -> None:
    """Let a norm of a reshape read what the reshape reads, if its results are reshaped to that shape again, perhaps
    after elementwise operations with numbers or with tensors along the dims that are not normalized."""
    source, parts = op.operand.defining_op, _parts_of(op)
    if parts is None or source is None:
        return
    after = _after(op, parts)
    last = after[-1].results[0] if after else op.result
    users = list(dict.fromkeys(last.users))
    if not users or not all(_reshapes(user) and shape_of(user.results[0].type) == parts.shape for user in users):
        return
    x, rank = source.operands[0], len(parts.shape)
    attributes = {**op.attributes, "dims": tuple(range(parts.first, rank))}
    if parts.count != 1:
        attributes["parts"] = parts.by_dim
    made: Operation = type(op)([x], [x.type], attributes, location=op.location)
    _replace(rewriter, op, made)
    computed = {op.result, *(old.results[0] for old in after)}
    for old in after:
        operands = [
            made.results[0] if value in computed else _spread(rewriter, value, parts, old) for value in old.operands
        ]
        made = old.on_tiles(operands, parts.shape)
        _replace(rewriter, old, made)
    for user in users:
        rewriter.replace_op(user, made.results)
    erase_dead(rewriter, [last, source.results[0]])


def _parts_of(op: Norm) -> Parts | None:
    """How the operand of a norm is reshaped to rows; None if its rows are no parts of the tensor."""
    source, inner = op.operand.defining_op, shape_of(op.operand.type)
    if source is None or not _reshapes(source) or given_operands(op) or op.has_parts:
        return None
    if (
        not isinstance(op.result.type, TensorType)
        or not op.reduced
        or op.reduced != tuple(range(op.reduced[0], len(inner)))
    ):
        return None
    shape, kept = tuple(shape_of(source.operands[0].type)), tuple(inner[: op.reduced[0]])
    rows, before = product(kept), as_dim(1)
    for k, extent in enumerate(shape):
        counts = [n for n in range(2, extent) if extent % n == 0] if isinstance(extent, int) else []
        for count in (1, *counts):
            if are_equal_at(op, before * count, rows):
                return Parts(shape, kept, k, count, context_at(op))
        before = before * extent
    return None


def _reshapes(op: Operation) -> bool:
    """Whether an operation shows the elements of its operand in another shape."""
    pieces = None if isinstance(op, Structured) or len(op.operands) != 1 else pieces_of_all(op)
    if pieces is None or len(pieces) != 1 or not pieces[0].reshapes:
        return False
    before, after = (product(shape_of(value.type)) for value in (op.operands[0], op.results[0]))
    return are_equal_at(op, before, after)


def _after(op: Norm, parts: Parts) -> list[Elementwise]:
    """The elementwise operations after a norm, each of which reads the one before it."""
    found, value = list[Elementwise](), op.result
    while len(value.users) == 1:
        (user,) = value.users
        others = [other for other in user.operands if other is not value]
        if not isinstance(user, Elementwise) or len(user.results) != 1 or user.parent is not op.parent:
            break
        if not all(_is_of_rows(other, parts) for other in others):
            break
        found.append(user)
        value = user.results[0]
    return found


def _is_of_rows(value: Value, parts: Parts) -> bool:
    """Whether a value is a number, or repeated along all dims but one of those that count rows."""
    made = value.defining_op
    if not repeats(made):
        return fills(made)
    along = _along(made)
    if not along:
        return True
    return len(along) == 1 and along[0] < len(parts.kept) and (parts.is_same(along[0]) or parts.is_part(along[0]))


def _along(made: Structured) -> tuple[int, ...]:
    """The dims of its result that a repeated tensor has."""
    result = made.result_maps()[0]
    return tuple(result.index(expression) for expression in made.maps()[0])


def _spread(rewriter: Rewriter, value: Value, parts: Parts, at: Operation) -> Value:
    """Such a value, repeated along the dims of the tensor."""

    def put(part: Operation) -> Value:
        part.stand_for(at)
        return rewriter.insert(part, InsertPoint.before(at), source_name(at)).results[0]

    def of(*shape: Dim) -> Type:
        return like(value.type, shape, dtype_of(value.type))

    made = value.defining_op
    if fills(made):
        return put(made.on_tiles([], parts.shape))
    if not repeats(made):
        raise TypeError(f"%{value.name} is not repeated")
    held, along = made.operands[0], _along(made)
    if along and not parts.is_same(along[0]):
        extent = parts.shape[parts.first]
        each = put(new.broadcast(held, [0], of(parts.count, floordiv(extent, parts.count))))
        held, along = put(new.reshape(each, [extent])), (parts.first,)
    return put(new.broadcast(held, along, of(*parts.shape)))


def _replace(rewriter: Rewriter, old: Operation, made: Operation) -> None:
    """Insert an operation that continues another one, whose result has another shape."""
    made.stand_for(old)
    rewriter.insert(made, InsertPoint.before(old), source_name(old))
    rewriter.continue_as(old, made)
