"""Where a read, write or prefetch touches memory: pointer, lanes and the condition under which it does."""

from __future__ import annotations

from tcpx.emit_c.printer.context import FunctionContext
from tcpx.emit_c.printer.scopes import Scope
from tcpx.payload.ir import Operation, Value
from tcpx.payload.sizes import Dim, Size, Symbol, Var, product
from tcpx.payload.subsets import Tile
from tcpx.payload.types import BufferType
from tcpx.records import frozen_for_checkers


@frozen_for_checkers
class Access:
    """A subset of a buffer: one lane per element of the dim that is kept, or of rows that lie one behind the other; a
    single element if none is."""

    value: Value
    buffer: BufferType
    tile: Tile

    @staticmethod
    def of(op: Operation, context: FunctionContext) -> Access:
        """The access of an operation whose last operand is a buffer."""
        if not op.operands:
            raise op.error(
                "an access to memory needs a buffer", required="an operand of buffer type", found="no operands"
            )
        tile = op.attributes.get("subset")
        buffer = context.buffer_type(op.operands[-1], op)
        if not isinstance(tile, Tile) or not tile.rank == len(buffer.shape) == len(buffer.strides):
            raise op.error(
                "a subset has an offset and a size per dim of the buffer",
                required=f"rank {len(buffer.shape)} of {buffer}",
                found=tile.text() if isinstance(tile, Tile) else "no subset",
            )
        return Access(op.operands[-1], buffer, tile)

    @property
    def lanes(self) -> Dim | None:
        """The number of lanes; None for a single element."""
        return product(self.tile.shape) if self.tile.kept else None

    @property
    def step(self) -> Dim:
        """The distance of neighbouring lanes, in elements."""
        dim = self.tile.kept[-1]
        return self.tile.strides[dim] * self.buffer.strides[dim]

    @property
    def dropped_sizes(self) -> list[Dim]:
        """Sizes of the dims that are not in the value; the access takes place where all are positive."""
        return [self.tile.sizes[dim] for dim in self.tile.dropped]

    def pointer(self, context: FunctionContext, scope: Scope, moved: tuple[tuple[str, Dim], ...] = ()) -> str:
        """The address of the first element, moved by C variables times elements: `x + x_row + j + 16`."""
        base = context.read(self.value)
        constant, texts, last = 0, [base], list[str]()
        for offset, stride in zip(self.tile.offsets, self.buffer.strides, strict=True):
            rest = offset
            if isinstance(stride, int):
                ahead = _constant_part(offset)
                constant += ahead * stride
                rest -= ahead
            here = _computed_here(rest, scope)
            for part, place in ((rest - here, texts), (here, last)):
                if part != 0 and stride != 0:
                    place.append(context.sizes.product(part, stride, f"{base}_row", scope))
        texts += last
        for variable, distance in moved:
            texts.append(variable if distance == 1 else f"{variable} * {context.sizes.factor(distance, scope)}")
        if constant:
            texts.append(str(constant))
        first, *rest = texts
        return first + "".join(f" - {t[1:]}" if t.startswith("-") else f" + {t}" for t in rest)


def _constant_part(offset: Dim) -> int:
    """What an offset is beyond its variables, so that elements at a fixed distance are read so from one pointer; 0
    where they may make it smaller: C has no pointers before an array."""
    if isinstance(offset, int):
        return offset
    return max(0, offset.constant) if all(c > 0 for _, c in offset.terms) else 0


def _computed_here(offset: Dim, scope: Scope) -> Dim:
    """The terms of an offset for which this block computes something, such as the quotient by an outer loop's variable,
    if the others are known outside of it: added last, they leave a pointer that does not change here. 0 if there are
    none."""
    home = scope.home([offset])
    if isinstance(offset, int) or home is None:
        return 0
    computed = [t for t in offset.terms if not all(isinstance(atom, Symbol | Var) for atom in t[0])]
    here = [t for t in computed if scope.home([Size((t,))]) is home]
    rest = [t for t in offset.terms if t not in here]
    return Size(tuple(here)) if here and rest and scope.home([Size(tuple(rest))]) is not home else 0
