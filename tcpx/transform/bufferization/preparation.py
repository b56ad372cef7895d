"""Brings a function into the form bufferization expects: composites decomposed, arguments and results in memory,
no operation that computes on tensors and vectors at once."""

from tcpx.payload.indexing_maps import map_dim
from tcpx.payload.interfaces import Structured, Tileable
from tcpx.payload.ir import FuncOp, Operation, Value
from tcpx.payload.ops.composite import Composite
from tcpx.payload.ops.gml_st import Loop, Materialize, never_runs, runs_at_most_once
from tcpx.payload.ops.vector import Read, ToTensor
from tcpx.payload.rewriter import InsertPoint, Rewriter
from tcpx.payload.subsets import Tile
from tcpx.payload.traits.call import Calling
from tcpx.payload.traits.view import ViewLike
from tcpx.payload.types import BufferType, TensorType, VectorType, dtype_of, shape_of
from tcpx.transform import new
from tcpx.transform.bufferization.program_order import operations
from tcpx.transform.editing import builder_at, erase_dead, show_views, source_name
from tcpx.transform.simplification import simplify_in


def prepare(rewriter: Rewriter, func: FuncOp) -> None:
    """Prepare a function; it computes what it did before."""
    _tensor_arguments(rewriter, func)
    _only_iterations(rewriter, func)
    while composites := [op for op in operations(func.body) if isinstance(op, Composite)]:
        for op in composites:
            _decompose(rewriter, op)
    show_views(rewriter, operations(func.body))
    for op in list(operations(func.body)):
        if op.parent is None:
            continue
        if isinstance(op, Tileable):
            _one_kind(rewriter, op)
        if isinstance(op, Structured):
            _pad_last(rewriter, op)
        elif isinstance(op, Materialize):
            _read_register(rewriter, op)


def _tensor_arguments(rewriter: Rewriter, func: FuncOp) -> None:
    """Arguments that are scalars or vectors come in memory. Numbers that sizes are known by are these sizes."""
    for position, arg in enumerate(func.args):
        type_ = arg.type
        if isinstance(type_, TensorType | BufferType):
            continue
        if position in func.numbers:
            if any(Calling(user).callee is None for user in arg.users):
                size = new.index_value(func.numbers[position].size(), dtype_of(type_))
                made = rewriter.insert(size, InsertPoint.start(func.body), arg.name).result
                rewriter.replace_uses(arg, made, lambda user: Calling(user).callee is None)
            continue
        shape = shape_of(type_)
        point = InsertPoint.start(func.body)
        rewriter.set_type(arg, TensorType(shape, dtype_of(type_)))
        read = rewriter.insert(Read.of(arg, Tile.full(shape), type_), point, arg.name).result
        rewriter.replace_uses(arg, read, lambda user, made=read.defining_op: user is not made)


def _only_iterations(rewriter: Rewriter, func: FuncOp) -> None:
    """The variable of a loop of at most one iteration is where its range begins: no loop is peeled or split later.

    One that has none is left out.
    """
    for loop in [op for op in func.walk() if isinstance(op, Loop)]:
        if loop.func is None:  # left out with one round it
            continue
        if never_runs(loop):
            for op in loop.walk():
                rewriter.end(op, "its loop has no iteration")
            inits = list(loop.operands)
            rewriter.replace_op(loop, inits)
            erase_dead(rewriter, inits)
        elif runs_at_most_once(loop):
            body = list(loop.body.ops)
            rewriter.substitute(body, {loop.var: loop.var.lower})
            simplify_in(rewriter, body)


def _decompose(rewriter: Rewriter, op: Composite) -> None:
    results = op.decomposed(builder_at(rewriter, op, source_name(op)))
    anchor = results[-1].defining_op
    if anchor is None:
        raise op.error(
            "a composite decomposes into operations", required="values made by operations", found=f"%{results[-1].name}"
        )
    rewriter.rename(anchor, op.name)
    rewriter.continue_as(op, anchor)
    rewriter.replace_op(op, results)


def _one_kind(rewriter: Rewriter, op: Operation) -> None:
    """Vectors that a tensor is computed from are stored; tensors that a vector is computed from are read."""
    result = op.results[0].type
    for index, value in enumerate(list(op.operands)):
        made: Operation | None = None
        if isinstance(result, TensorType) and isinstance(value.type, VectorType):
            made = ToTensor.of(value)
        elif isinstance(result, VectorType) and isinstance(value.type, TensorType):
            made = Read.of(value, Tile.full(shape_of(value.type)), _vector(op, value))
        if made is not None:
            rewriter.set_operand(op, index, rewriter.insert(made, InsertPoint.before(op), value.name).result)


def _pad_last(rewriter: Rewriter, op: Structured) -> None:
    """The transpose of a padded value is the padded transpose: what is written lies in its last place already."""
    padded = op.operands[0].defining_op if op.is_movement and len(op.operands) == 1 else None
    piece = new.whole_piece(padded)
    rest = ViewLike(padded).rest if isinstance(padded, Tileable) else None
    if not isinstance(padded, Tileable) or piece is None or rest is None or len(padded.result.uses) != 1:
        return
    if not isinstance(op.result.type, TensorType):
        return
    order, read = [map_dim(e) for e in op.result_map()], [map_dim(e) for e in op.maps()[0]]
    if None in read or len(set(read)) != len(order) or len(read) != len(order):
        return
    inner = shape_of(padded.operands[0].type)
    places = [read.index(name) for name in order]
    moved = op.on_tiles([padded.operands[0]], [inner[k] for k in places])
    moved = rewriter.insert(moved, InsertPoint.before(op), op.result.name)
    low, interior = [piece.first[k] for k in places], [piece.spacing[k] - 1 for k in places]
    again = new.pad(moved.results[0], shape_of(op.result.type), rest, low, interior)
    again = rewriter.insert(again, InsertPoint.before(op), op.result.name)
    rewriter.continue_as(op, moved)
    rewriter.continue_as(padded, again)
    rewriter.rename(moved, op.name)
    rewriter.rename(again, padded.name)
    rewriter.replace_op(op, [again.results[0]])
    rewriter.erase(padded)


def _vector(op: Operation, value: Value) -> VectorType:
    static = tuple(d for d in shape_of(value.type) if isinstance(d, int))
    if len(static) != len(shape_of(value.type)):
        raise op.error(
            "a vector is computed from static shapes", required="a static shape", found=f"%{value.name}: {value.type}"
        )
    return VectorType(static, dtype_of(value.type))


def _read_register(rewriter: Rewriter, op: Materialize) -> None:
    """A subset of a tensor as a vector or scalar is a read; all of a vector or scalar is that itself."""
    source = op.operands[0]
    if isinstance(source.type, TensorType) and not isinstance(op.result.type, TensorType):
        read = rewriter.insert(Read.of(source, op.subset, op.result.type), InsertPoint.before(op), op.result.name)
        rewriter.continue_as(op, read)
        rewriter.replace_op(op, [read.result])
    elif not isinstance(source.type, TensorType) and op.is_of_all:
        rewriter.end(op, "a subset that is all of a value is the value")
        rewriter.replace_op(op, [source])
