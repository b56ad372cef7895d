"""Branches and loops of the payload, of graphs that a model has in its nodes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from tcpx.frontends.onnx.broadcasting import same
from tcpx.frontends.onnx.node import Node, value_of
from tcpx.frontends.onnx.tidying import discard
from tcpx.frontends.onnx.values import Tensor, of_value
from tcpx.frontends.onnx.writing import Writer
from tcpx.payload.builder import tile
from tcpx.payload.ir import Block, Value
from tcpx.payload.ops.constant import Const
from tcpx.payload.ops.gml_st import For, IfValue, Loop, Materialize, StYield, While, full_like
from tcpx.payload.ops.index import Bind
from tcpx.payload.sizes import Dim, Var, variables
from tcpx.payload.types import ScalarType, TensorType, dtype_of, i1, shape_of, si64

MOST_IN_TURN: Final = 7
"""Iterations that are written one after the other where a loop is possible, too: a loop of more runs as fast, and
compiles in a fraction of the time."""
MOST_COUNTED: Final = 1 << 53
"""Iterations of a loop whose number the data say."""
DECIDED_BY_DATA: Final = "a condition that is not known: a shape must not depend on it"


@contextmanager
def inside(w: Writer, block: Block) -> Generator[None]:
    """Write to a block that may not run: what holds only there is not asserted, and no cache is changed in place. After
    an error the block is given up."""
    certain, caches = w.is_certain, w.caches
    w.is_certain, w.caches = False, {}
    try:
        with w.builder.inside(block):
            yield
    except BaseException:
        discard(block)
        raise
    finally:
        w.is_certain, w.caches = certain, caches


def scalar(n: Node, value: Value) -> Value:
    """The element of a value that has one. Raises OnnxError for a value that may have several."""
    w, dims = n.w, [dim for dim in shape_of(value.type) if dim != 1]
    if dims:
        raise n.error("one element decides what runs", "one element", f"%{value.name}: {value.type}", ones=dims)
    flat = w.reshape(value, ())
    return w.insert(Materialize([flat], [dtype_of(value.type)], {"subset": full_like(flat)}))


def number(w: Writer, value: int | bool, dtype: ScalarType) -> Value:
    """A scalar."""
    return w.insert(Const([], [dtype], {"value": value}))


def count(n: Node, value: Value) -> Dim:
    """The element of a value as a number of iterations, 0 of a negative one."""
    w = n.w
    found = scalar(n, w.cast(value, si64))
    for opcode, bound in (("max", 0), ("min", MOST_COUNTED - 1)):
        found = w.on_scalars(opcode, found, number(w, bound, si64))
    var = Var(w.builder.fresh_name(f"{w.prefix}.count"), 0, MOST_COUNTED)
    w.builder.insert(Bind.of(found, var)).location = w.place
    return var.size()


def branch(
    n: Node, condition: Value, sides: Sequence[Callable[[], Sequence[Tensor]]], deciding: frozenset[str]
) -> list[Tensor]:
    """What one of two branches gives, by a scalar. Where the shapes of results differ, raises NotConstant for the
    inputs of the model in `deciding`, which decide the condition, and Unsupported where there are none."""
    w, blocks = n.w, (Block(), Block())
    results: list[Sequence[Tensor]] = []
    for block, side in zip(blocks, sides, strict=True):
        with inside(w, block):
            results.append(side())
    if len(results[0]) != len(results[1]):
        raise n.error("the branches have as many results", str(len(results[0])), str(len(results[1])))
    pairs = list(zip(*results, strict=True))
    for a, b in pairs:
        if a.dtype != b.dtype or not _have_one_shape(a, b):
            raise n.depends(f"branches with results of other shapes, {a} and {b}, and {DECIDED_BY_DATA}", deciding)
    decided = [pair for pair in pairs if not _are_one(*pair)]
    for k, block in enumerate(blocks):
        with inside(w, block):
            w.builder.hands_out(*(_of_shape(w, pair[k], pair[0]) for pair in decided))
    types = [TensorType(a.shape, a.dtype) for a, _ in decided]
    if not decided:
        for block in blocks:
            discard(block)
        return [a for a, _ in pairs]
    made = IfValue([condition], types, {}, blocks)
    w.insert(made)
    chosen = iter(made.results)
    return [a if _are_one(a, b) else of_value(a.name, next(chosen), frozenset(a.sources | b.sources)) for a, b in pairs]


def _are_one(a: Tensor, b: Tensor) -> bool:
    """Whether both branches give what is known outside of them."""
    if a.array is not None and b.array is not None:
        return a.array.tobytes() == b.array.tobytes()
    if a.sizes is not None and b.sizes is not None:
        return a.sizes.ravel().tolist() == b.sizes.ravel().tolist()
    return a is b


def _have_one_shape(a: Tensor, b: Tensor) -> bool:
    return a.rank == b.rank and all(same(x, y) for x, y in zip(a.shape, b.shape, strict=True))


def _of_shape(w: Writer, tensor: Tensor, like: Tensor) -> Value:
    """A tensor in the words for sizes of another one, of the same shape."""
    value = value_of(w, tensor)
    return value if shape_of(value.type) == like.shape else w.reshape(value, like.shape)


class Output(NamedTuple):
    """What an iteration gives of a result that has one part for each, along an axis, at an index."""

    tensor: Tensor
    axis: int
    at: Dim


class Iteration(NamedTuple):
    """What an iteration gives: whether there is another one, the values for that, and parts of results."""

    goes_on: Tensor | None
    state: Sequence[Tensor]
    outputs: Sequence[Output]


def repeat(
    n: Node,
    length: Dim,
    first: Value | None,
    state: Sequence[Tensor],
    iterate: Callable[[Var, Sequence[Tensor]], Iteration],
    deciding: frozenset[str] = frozenset(),
) -> list[Value]:
    """A loop of so many iterations, or fewer where a condition, `first` at first, ends it: the last state, then the
    results that have a part for each iteration. Where a shape would depend on the number of iterations, raises
    NotConstant for the inputs of the model in `deciding`, which decide that, and Unsupported where there are none."""
    w, inits = n.w, [value_of(n.w, tensor) for tensor in state]
    var = Var(w.builder.fresh_name(f"{w.prefix}.step"), 0, length)
    body = Block([(w.builder.fresh_name(f"{w.prefix}.state"), value.type) for value in inits])
    before = list(body.args)
    with inside(w, body):
        made = iterate(var, [of_value(t.name, v, t.sources | deciding) for t, v in zip(state, before, strict=True)])
        goes_on = made.goes_on
        deciding = deciding | goes_on.sources if goes_on is not None else deciding
        pairs = zip(made.state, state, before, strict=True)
        after = [_next_state(n, new, old, dest, deciding) for new, old, dest in pairs]
    if goes_on is not None and goes_on.array is not None and bool(goes_on.array.all()):
        goes_on = None
    is_counted = first is None and goes_on is None
    if made.outputs and (not is_counted or variables(length)):
        raise n.depends("a result with a part for each iteration of a loop whose length the data decide", deciding)
    for output in made.outputs:
        shape = list(output.tensor.shape)
        if any(var in variables(d) for d in shape):
            raise n.depends(
                f"a result whose part for an iteration has another shape in each: {output.tensor}", deciding
            )
        shape.insert(output.axis, length)
        inits.append(w.op("empty", shape=tuple(shape), dtype=output.tensor.dtype))
        body.args.append(Value(w.builder.fresh_name(f"{w.prefix}.all"), inits[-1].type, body))
    if not inits and is_counted:
        discard(body)
        return []
    if not is_counted:
        inits.insert(0, number(w, True, i1) if first is None else first)
        body.args.insert(0, Value(w.builder.fresh_name(f"{w.prefix}.goes_on"), i1, body))
    with inside(w, body):
        places = body.args[0 if is_counted else 1 :]
        for output, dest in zip(made.outputs, places[len(before) :], strict=True):
            _yield_part(w, output, dest)  # before the state changes, which it may be a part of; so may the condition
        if not is_counted:
            w.builder.yields(number(w, True, i1) if goes_on is None else scalar(n, value_of(w, goes_on)), body.args[0])
        for new, old in zip(after, before, strict=True):
            if new is not old:
                w.builder.yields(new, old)
    cls: type[Loop] = For if is_counted else While
    loop = cls.over(var, inits, body)
    w.insert(loop)
    return loop.results[0 if is_counted else 1 :]


def _next_state(n: Node, new: Tensor, old: Tensor, dest: Value, deciding: frozenset[str]) -> Value:
    """What a carried value becomes; a copy of another carried value, which may be overwritten first."""
    if new.dtype != old.dtype or not _have_one_shape(new, old):
        raise n.depends(f"a loop that carries {old} and then {new}: its shape would depend on the data", deciding)
    value = _of_shape(n.w, new, old)
    if value is not dest and value.owner is n.w.builder.block:
        return n.w.insert(Materialize.of(value, full_like(value)))
    return value


def _yield_part(w: Writer, output: Output, dest: Value) -> None:
    shape, axis = output.tensor.shape, output.axis
    offsets: list[Dim] = [0] * len(shape)
    offsets.insert(axis, output.at)
    sizes = list(shape)
    sizes.insert(axis, 1)
    w.builder.insert(StYield.of(value_of(w, output.tensor), dest, tile(offsets, sizes, drop=[axis])))
