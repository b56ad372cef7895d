"""Why a tile has no static size, and the statement that gives it one."""

import re

from tcpx.payload.contexts import context_at
from tcpx.payload.diagnostics import Direction, Location
from tcpx.payload.indexing_maps import map_dim
from tcpx.payload.interfaces import Structured
from tcpx.payload.ir import TAIL, Operation, Value
from tcpx.payload.ops.gml_st import Loop, Materialize
from tcpx.payload.sizes import Dim, to_text, variables
from tcpx.payload.sizes.context import Context
from tcpx.payload.types import ScalarType
from tcpx.plurals import counted
from tcpx.records import frozen
from tcpx.target import Target
from tcpx.transform import new
from tcpx.transform.declaration import TransformContext
from tcpx.transform.editing import source_name


@frozen
class SymbolicDim:
    """A dim of an operation whose tile has no static size. `loop` makes its tiles, of which the last may be shorter,
    or all of them if they are `shifted` and the dim is short; None where nothing tiles it."""

    op: Structured
    dim: str
    size: Dim
    loop: Loop | None
    is_shifted: bool

    @property
    def found(self) -> str:
        """What is there, in words."""
        what = f"`{self.dim}` of %{source_name(self.op)}"
        if self.loop is None:
            return f"{what}, of size {to_text(self.size)}, is not tiled"
        if self.is_shifted:
            elements = counted(to_text(self.size), "element")
            return f"the tiles that the loop {self.loop.name} shifts in {what} have {elements}"
        return f"the last tile that the loop {self.loop.name} makes of {what} may be shorter"

    def statement(self, ctx: TransformContext) -> str | None:
        """The statement to write; None where it stands there."""
        where = self.loop.schedule_location if self.loop is not None else None
        is_split = where is not None and where.printed is None and re.search(r"\bsplit_reduction\(", where.span)
        if self.loop is None or is_split:
            return self._new_tile(ctx)
        padded = with_argument(where, "tile", "tail", "pad") if where is not None else None
        if where is None or padded is None:
            return f"`tail: pad` in the `tile` of `{self.dim}`" + (f" at {where}" if where is not None else "")
        return f"`{padded}` at {where}" if not where.span.endswith(padded) else None

    def _new_tile(self, ctx: TransformContext) -> str:
        """One element of a reduction, a vector of what lies side by side in the result, a few of any other dim."""
        name, target = ctx.name_of(self.op), ctx.target
        if self.op.iterator(self.dim).is_reduction:
            return f"`tile({name}, [{self.dim}: 1])` before it"
        last = self.op.result_maps()[0][-1]
        size = _lanes(target, self.op.acc_types[0]) if map_dim(last) == self.dim else 4
        tile = f"tile({name}, [{self.dim}: {size}], tail: pad)"
        return f"in place of it: `{tile}; vectorize({name}.loop({self.dim}))`"


def _lanes(target: Target, dtype: ScalarType) -> int:
    return max(1, target.vector_bits // dtype.bits)


def symbolic_dim(value: Value, facts: Context) -> SymbolicDim | None:
    """The dim to tile first where a tile has no static size, of the operation that computes or reads it: parallel dims
    go before reduction dims, whose tiling fills a first value of all the others."""
    op = _computation(value)
    if op is None:
        return None
    dims = zip(op.iterators(), op.extents(), strict=True)
    symbolic = [(it, extent) for it, extent in dims if not isinstance(facts.value(extent), int)]
    if not symbolic:
        return None
    it, extent = min(symbolic, key=lambda pair: pair[0].is_reduction)
    names = {variable.name for variable in variables(extent)}
    loop = next((a for a in op.ancestors() if isinstance(a, Loop) and a.var.name in names), None)
    shifting = next((a for a in op.ancestors() if isinstance(a, Loop) and _shifts_tiles_of(a, extent)), None)
    return SymbolicDim(op, it.name, extent, loop or shifting, loop is None and shifting is not None)


def _shifts_tiles_of(loop: Loop, extent: Dim) -> bool:
    """Whether this is the extent of the tiles of a loop with `tail: shift`: a step, or all there is if that is less."""
    length = loop.var.upper - loop.var.lower
    here = context_at(loop)
    return padded_tile(loop) is not None and here.is_equal(extent, here.minimum(loop.var.step, length)) is True


def padded_tile(loop: Loop) -> str | None:
    """The `tile` that made a loop with `tail: shift`, with `tail: pad` instead; None for any other loop."""
    where = loop.schedule_location
    if where is None or not re.search(r"\btail:\s*shift\b", where.span):
        return None
    return with_argument(where, "tile", "tail", "pad")


def _computation(value: Value) -> Structured | None:
    """The operation that computes a value, or else one that reads it, maybe padded or a part of it."""
    if isinstance(value.defining_op, Structured):
        return value.defining_op
    for user in value.users:
        if isinstance(user, Structured):
            return user
        shows = isinstance(user, Materialize) or new.padded(user) is not None
        found = _computation(user.result) if shows else None
        if found is not None:
            return found
    return None


def with_argument(where: Location, name: str, parameter: str, value: str) -> str | None:
    """The call of a transform in the statement at this place, with an argument set; None where it is no such call, or
    on several lines, or in Python."""
    call = re.search(rf"\b{name}\(.*\)$", where.span)
    if call is None or where.printed is not None:
        return None
    text = call[0]
    if re.search(rf"\b{parameter}:", text):
        return re.sub(rf"\b{parameter}:\s*[^,)]+", f"{parameter}: {value}", text)
    return f"{text[:-1]}, {parameter}: {value})"


def left_out_if_idle(where: Location | None, name: str) -> str:
    """How to write a step that changes nothing here, and may elsewhere."""
    call = re.search(rf"\b{name}\(.*\)$", where.span) if where is not None and where.printed is None else None
    return f"write `optional {call[0]}`" if call is not None else Direction(f"write `optional {name}(..)`")


def tails_round(op: Operation) -> list[Loop]:
    """The loops round an operation, innermost first, that are what is left of a peeled loop or stand in it."""
    return [loop for loop in op.ancestors() if isinstance(loop, Loop) and TAIL in dict(loop.copy_path).values()]
