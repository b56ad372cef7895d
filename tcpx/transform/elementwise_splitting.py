"""An elementwise generic as one operation on tensors for each of its body: the reverse of `elementwise.merged`."""

from collections.abc import Sequence

from tcpx.payload.indexing_maps import IndexingMap, dims, map_dims
from tcpx.payload.interfaces import Build, IteratorKind, Structured
from tcpx.payload.ir import Block, Operation, Value
from tcpx.payload.traits.constant import Constant
from tcpx.payload.traits.indices import Indices
from tcpx.payload.traits.positions import positions_read
from tcpx.payload.types import TensorType, dtype_of
from tcpx.transform import new
from tcpx.transform.arguments import TransformContext


def split_body(ctx: TransformContext, op: Structured, build: Build) -> list[Value]:
    """Build one operation for each of the body of an elementwise generic; returns what replaces its results."""
    serial = [f"{it.kind.value} dim `{it.name}`" for it in op.iterators() if it.is_reduction]
    on_tensors = all(isinstance(result.type, TensorType) for result in op.results)
    if serial or op.inits or Indices(op).operands or positions_read(op) or not on_tensors:
        raise ctx.fail(
            f"the body of %{op.name} is not made of operations on tensors",
            op=op,
            required="parallel dims alone, operands that maps over them index, and a body that is the same everywhere",
            found=", ".join(serial) or ", ".join(str(result.type) for result in op.results),
        )
    block = op.regions[0]
    order = _common_order(op)
    extents = dict(zip((it.name for it in op.iterators()), op.extents(), strict=True))
    shape = tuple(extents[name] for name in order)
    values: dict[Value, Value] = {}

    def spread(value: Value) -> Value:
        """A value of the body, one element for each iteration."""
        if value not in values:
            type_ = TensorType(shape, dtype_of(value.type))
            if value in block.args:
                k = block.args.index(value)
                values[value] = _read(build, op.inputs[k], op.maps()[k], order, type_)
            else:
                values[value] = build(new.broadcast(value, (), type_))
        return values[value]

    for inner in block.ops[:-1]:
        type_ = TensorType(shape, dtype_of(inner.result.type))
        number = Constant(inner).number
        made = new.fill(number, type_) if number is not None else None
        if made is None:
            made = type(inner)([spread(value) for value in inner.operands], [type_], inner.attributes)
        values[inner.result] = build(made)
    results: list[Value] = []
    for value, entries in zip(block.ops[-1].operands, op.result_maps(), strict=True):
        names = map_dims(entries) or ()
        turned = spread(value) if names == order else None
        results.append(turned or build(new.transpose(spread(value), [order.index(name) for name in names])))
    return results


def _common_order(op: Structured) -> tuple[str, ...]:
    """The dims in the order in which most of what is read and written has them."""
    orders = [map_dims(entries) or () for entries in (*op.result_maps(), *op.maps())]
    whole = [order for order in orders if len(order) == len(op.iterators())]
    return max(whole, key=whole.count)


def _read(build: Build, value: Value, entries: IndexingMap, order: Sequence[str], type_: TensorType) -> Value:
    """What each iteration reads of an operand, in the order of the results."""
    names = map_dims(entries)
    if names == tuple(order):
        return value
    if names is not None and list(names) == sorted(names, key=order.index):
        return build(new.broadcast(value, [order.index(name) for name in names], type_))
    if names is not None and len(names) == len(order):
        return build(new.transpose(value, [names.index(name) for name in order]))
    return build(_reading(value, entries, order, type_))


def _reading(value: Value, entries: IndexingMap, order: Sequence[str], type_: TensorType) -> Operation:
    """The elements of a value that a map names, one for each iteration of dims in this order."""
    block = Block([("in0", type_.dtype)])
    block.append(new.yielded(block.args))
    iterators = tuple((name, IteratorKind.PARALLEL.value) for name in order)
    return new.generic([value], [type_], {"iterators": iterators, "maps": (entries, dims(*order))}, [block])
