"""Operations between transposes, computed in the order in which their operands are stored."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from tcpx.payload.interfaces import Elementwise, Tileable
from tcpx.payload.ir import DIM_NAMES, Operation, Value
from tcpx.payload.ops.composite import AlongDims
from tcpx.payload.ops.movement import inverse
from tcpx.payload.ops.reduce import Reduce
from tcpx.payload.ops.tuple_reduce import TupleReduce
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.traits.constant import Constant
from tcpx.payload.traits.dims import by_dims
from tcpx.payload.traits.positions import positions_read
from tcpx.payload.traits.signature import given_operands
from tcpx.payload.types import dtype_of, like, shape_of
from tcpx.transform import new
from tcpx.transform.editing import erase_dead, replace_with, source_name
from tcpx.transform.elementwise import fills, repeats
from tcpx.transform.layouts.orders import Order, stored_shape
from tcpx.transform.vectors.pieces import transposed

REDUCING = (AlongDims, Reduce, TupleReduce)
"""Operations with positions of dims, `dim` or `dims`, along which they reduce."""
OF_TILES = ("origins", "extents")
"""Attributes of a part of a larger operation, which counts positions in the order of its dims."""


def cancel_transposes(rewriter: Rewriter, root: Operation) -> int:
    """Compute what stands between transposes on what these read, where fewer tensors are transposed then. Returns how
    many groups of operations were moved."""
    count = 0
    for op in list(root.walk()):
        if op.func is None or not _order_of(op):
            continue
        part = _Part.around(op)
        if part.saves > 0:
            part.move(rewriter)
            count += 1
    return count


def _order_of(op: Operation | None) -> Order:
    """For each dim of a transpose the dim of its operand that it is; empty for another operation, and where that is the
    same order."""
    found = transposed(op)
    return found[1] if found is not None and _moves(found[1]) else ()


def _moves(order: Order) -> bool:
    """Whether a transpose by this order moves a dim."""
    return list(order) != sorted(order)


def _turn_back(rewriter: Rewriter, value: Value, order: Order, moved: Collection[Operation]) -> None:
    """Let what reads a value, except for operations that are moved, read its transpose by an order; transposes become
    one with it."""
    others = [user for user in dict.fromkeys(value.users) if user not in moved]
    turned_again = [user for user in others if _order_of(user)]
    source = value.defining_op
    if len(turned_again) < len(others) and source is not None:
        turned = _of(new.transpose(value, order), source)
        rewriter.insert(turned, InsertPoint.after(source), f"{source_name(source)}.turned")
        rewriter.replace_uses(value, turned.results[0], lambda user: user in others and user not in turned_again)
    for user in turned_again:
        both = tuple(order[k] for k in _order_of(user))
        if _moves(both):
            replace_with(rewriter, user, _of(new.transpose(value, both), user))
        else:
            rewriter.replace_op(user, [value])


def _of(made: Operation, op: Operation) -> Operation:
    """A new operation that stands for another one."""
    made.stand_for(op)
    return made


@dataclass(slots=True)
class _Part:
    """The transposes by one order, `sources`, and the operations that can compute on what these read: `members`, of the
    same dims, whose results are transposed instead, and `reductions`, with fewer dims."""

    order: Order
    sources: list[Operation]
    members: set[Operation] = field(default_factory=set[Operation])
    reductions: set[Operation] = field(default_factory=set[Operation])
    computed: list[Value] = field(default_factory=list[Value])
    """The results of members that were moved."""

    @staticmethod
    def around(source: Operation) -> _Part:
        """All that is connected with a transpose."""
        part = _Part(_order_of(source), [source])
        waiting = [source]
        while waiting:
            for user in list(dict.fromkeys(waiting.pop().results[0].users)):
                if user in part.members or user in part.reductions or not part._can_move(user):
                    continue
                if len(shape_of(user.results[0].type)) < len(part.order):
                    part.reductions.add(user)
                    continue
                part.members.add(user)
                others = [v.defining_op for v in user.operands if _order_of(v.defining_op) == part.order]
                found = [op for op in dict.fromkeys(others) if op is not None and op not in part.sources]
                part.sources += found
                waiting += [user, *found]
        return part

    @property
    def saves(self) -> int:
        """How many tensors of this size fewer are transposed; 0 where one is a transpose of what would be computed in
        the other order, which is then read in both."""
        if any(source.operands[0].defining_op in self.members for source in self.sources):
            return 0
        moved = self.members | self.reductions
        spared = sum(all(user in moved for user in source.results[0].users) for source in self.sources)
        for op in self.members:
            users = [user for user in op.results[0].users if user not in moved]
            spared += sum(not _moves(self._after(_order_of(user))) for user in users if _order_of(user))
            spared -= any(not _order_of(user) for user in users)
        return spared

    def move(self, rewriter: Rewriter) -> None:
        """Compute them on what the transposes read."""
        moved, block = self.members | self.reductions, self.sources[0].parent
        replaced = [source.results[0] for source in self.sources]
        for op in [op for op in block.ops if op in moved] if block is not None else []:
            operands = list(op.operands)
            made = replace_with(rewriter, op, self._in_order(rewriter, op))
            replaced += [value for value in operands if value not in made.operands]
            order = self.order if op in self.members else self._order_of_kept(op)
            self.computed += made.results if op in self.members else []
            for value in made.results if _moves(order) else []:
                _turn_back(rewriter, value, order, moved)
        erase_dead(rewriter, replaced)

    def _can_move(self, op: Operation) -> bool:
        """Whether an operation can compute the same on operands with their dims in the other order."""
        if op.parent is not self.sources[0].parent or any(key in op.attributes for key in OF_TILES):
            return False
        if isinstance(op, Elementwise):
            return len(op.results) == 1 and not positions_read(op) and all(map(self._is_known, op.operands))
        if not isinstance(op, REDUCING) or (isinstance(op, Reduce | TupleReduce) and op.inits):
            return False
        along = [self.order[k] for k in op.reduced]
        counts_in_order = isinstance(op, TupleReduce) or bool(given_operands(op))
        return self._is_known(op.operands[0]) and (along == sorted(along) or not counts_in_order)

    def _is_known(self, value: Value) -> bool:
        """Whether a value is there in the other order, or is cheaply computed in it."""
        op = value.defining_op
        if not shape_of(value.type):
            return True
        if op is None or op.parent is not self.sources[0].parent:
            return False
        known = op in self.members or _order_of(op) == self.order
        return known or repeats(op) or fills(op) or Constant(op).stored_array is not None

    def _after(self, order: Order) -> Order:
        """The order in which a transpose of a transposed tensor shows the tensor."""
        return tuple(self.order[k] for k in order)

    def _order_of_kept(self, op: Operation) -> Order:
        """The dim of the new result that each dim of the result of a reduction is."""
        along = op.reduced if isinstance(op, REDUCING) else ()
        kept = [self.order[k] for k in range(len(self.order)) if k not in along]
        return tuple(sorted(kept).index(k) for k in kept)

    def _in_order(self, rewriter: Rewriter, op: Operation) -> Operation:
        """The detached operation on operands in the other order."""
        operands = [self._operand(rewriter, op, value) for value in op.operands]
        attributes = dict(op.attributes)
        for key in (DIM_NAMES, *(by_dims(op) if isinstance(op, Tileable) else ())):
            entries = attributes.get(key)
            if isinstance(entries, tuple):
                attributes[key] = tuple(entries[k] for k in inverse(self.order))
        if isinstance(op, REDUCING):
            key = "dim" if "dim" in attributes else "dims"
            along = tuple(sorted(self.order[k] for k in op.reduced))
            attributes[key] = along[0] if isinstance(attributes[key], int) else along
        order = self._order_of_kept(op) if op in self.reductions else self.order
        types = [like(r.type, stored_shape(inverse(order), shape_of(r.type)), dtype_of(r.type)) for r in op.results]
        return _of(type(op)(operands, types, attributes, location=op.location), op)

    def _operand(self, rewriter: Rewriter, op: Operation, value: Value) -> Value:
        """What is read instead of an operand."""
        source = value.defining_op
        if source is None or len(shape_of(value.type)) < len(self.order) or value in self.computed:
            return value
        if source in self.sources:
            return source.operands[0]
        shape = stored_shape(inverse(self.order), shape_of(value.type))
        type_ = like(value.type, shape, dtype_of(value.type))

        def add(made: Operation) -> Value:
            return rewriter.insert(_of(made, source), InsertPoint.before(op), source_name(source)).results[0]

        if fills(source):
            return add(source.on_tiles([], shape))
        if not repeats(source):
            return add(new.transpose(value, inverse(self.order)))
        result = source.result_maps()[0]
        places = [self.order[result.index(entry)] for entry in source.maps()[0]]
        held = source.operands[0]
        if places != sorted(places):
            held = add(new.transpose(held, sorted(range(len(places)), key=places.__getitem__)))
        return add(new.broadcast(held, sorted(places), type_))
