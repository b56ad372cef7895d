"""Layouts that hold a dim by two digits, its quotient and its remainder: `[k/4, n, k%4]`."""

from collections.abc import Sequence

from tcpx.payload.contexts import context_at
from tcpx.payload.diagnostics import Direction
from tcpx.payload.indexing_maps import DimDigit, IndexingMap, dims, grows, map_digit, map_dim, map_name, map_symbols
from tcpx.payload.interfaces import Box, Structured
from tcpx.payload.ir import Attribute, Block, CloneMap, Operation, Value
from tcpx.payload.ops.generic import Generic, Yield
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.sizes import Dim, Symbol, align_up, ceildiv, substitute, upper_bound
from tcpx.payload.traits.rebuilding import Rebuilding
from tcpx.payload.traits.tree import Tree
from tcpx.payload.types import TensorType, dtype_of, shape_of
from tcpx.transform.arguments import Digit, TransformContext
from tcpx.transform.editing import replace_with
from tcpx.transform.matching import Candidate, classes_called, find_match, general, stand_ins, structured
from tcpx.transform.tiling import pad


def layout_map(ctx: TransformContext, op: Structured, index: int, layout: Sequence[Digit]) -> IndexingMap:
    """The map by which `op` reads input `index` in this layout. Raises ScheduleError if the layout does not hold each
    dim of the operand once, whole or by a quotient and a remainder of one divisor."""
    windows = [digit.window for digit in layout if digit.window is not None]
    read = [entry for entry in op.maps()[index] if entry not in windows]
    names = list(dict.fromkeys(name for entry in read for name in _dims_read(ctx, op, entry)))
    parts = [(digit, _part(ctx, op, digit)) for digit in layout if digit.window is None]
    held = dict.fromkeys(digit.dim for digit, _ in parts)
    for digit, part in parts:
        if part is not None:
            _check_partner(ctx, op, digit, part, parts)
    for part in filter(None, map(map_digit, op.maps()[index])):
        _check_same(ctx, op, part, [other for entry, other in parts if entry.dim == part.dim])
    whole = [digit.dim for digit, part in parts if part is None]
    if sorted(held) != sorted(names) or any(whole.count(name) > 1 for name in whole):
        raise ctx.fail(
            f"the layout [{', '.join(map(str, layout))}] does not fit the operand",
            op=op,
            required=f"dims of {', '.join(names)}, each at most once, whole or by its digits",
            found=", ".join(map(str, layout)) or "no dims",
        )
    stored = {digit: Symbol(digit.dim).size() if part is None else part.size() for digit, part in parts}
    return tuple(stored[digit] if digit.window is None else digit.window for digit in layout)


def _dims_read(ctx: TransformContext, op: Structured, entry: Dim) -> tuple[str, ...]:
    name = map_name(entry)
    if name is None and not grows(entry):
        raise ctx.fail(
            f"%{op.name} reads the operand at `{entry}`",
            op=op,
            required="an index that is a dim, a digit of one, or a sum of dims times positive numbers",
            found=f"`{entry}`, of {', '.join(map_symbols(entry)) or 'none'}",
        )
    return map_symbols(entry)


def _part(ctx: TransformContext, op: Structured, digit: Digit) -> DimDigit | None:
    """The digit that an entry of a layout is; None for a whole dim."""
    if digit.floordiv is not None and digit.mod is not None:
        raise ctx.fail(
            f"`{digit}` is a digit in the middle of `{digit.dim}`",
            op=op,
            required=f"a quotient `{digit.dim}/4` and a remainder `{digit.dim}%4`: a dim has two digits",
            found=str(digit),
        )
    radix = digit.floordiv or digit.mod
    if radix is None:
        return None
    extent = upper_bound(op.size_of(digit.dim), context_at(op).names)
    if radix < 2 or (extent is not None and radix > max(extent, 1)):
        raise ctx.fail(
            f"the digit `{digit}` does not split `{digit.dim}`",
            op=op,
            required=f"a divisor from 2 to the {extent} of `{digit.dim}` in the tile" if extent else "a divisor from 2",
            found=str(radix),
            fix=Direction(f"store `{digit.dim}` whole, or tile it by more"),
        )
    return DimDigit(digit.dim, radix, digit.mod is not None)


def _check_partner(
    ctx: TransformContext,
    op: Structured,
    digit: Digit,
    part: DimDigit,
    parts: Sequence[tuple[Digit, DimDigit | None]],
) -> None:
    others = [other for entry, other in parts if entry.dim == digit.dim and entry is not digit]
    if others == [part.partner]:
        return
    radices = sorted({other.radix for other in others if other is not None} | {part.radix})
    if len(others) == 1 and others[0] is not None and len(radices) == 2:
        raise ctx.fail(
            f"the digits of `{digit.dim}` have two divisors, {radices[0]} and {radices[1]}",
            op=op,
            required=f"one divisor: {part} and {part.partner}",
            found=f"{part} and {others[0]}",
        )
    raise ctx.fail(
        f"`{digit}` is only a part of `{digit.dim}`" if not others else f"`{digit.dim}` is stored more than once",
        op=op,
        required=f"{part} and {part.partner}, each once, and `{digit.dim}` nowhere else",
        found=", ".join(str(entry) for entry, _ in parts if entry.dim == digit.dim),
        fix=Direction(f"add {part.partner}") if not others else None,
    )


def _check_same(ctx: TransformContext, op: Structured, part: DimDigit, stored: Sequence[DimDigit | None]) -> None:
    """A dim that is packed by digits already keeps them."""
    if part not in stored:
        raise ctx.fail(
            f"`{part.dim}` is packed by its digits already",
            op=op,
            required=f"{part} and {part.partner}, in any order",
            found=", ".join(str(other or part.dim) for other in stored),
        )


def padded_to_digits(ctx: TransformContext, op: Structured, layout: IndexingMap) -> Structured:
    """`op` on dims padded to multiples of what the layout divides them by."""
    sizes: dict[str, Dim] = {}
    for digit in filter(None, map(map_digit, layout)):
        extent, here = op.size_of(digit.dim), context_at(op)
        if here.is_equal(here.mod(extent, digit.radix), 0) is not True:
            sizes[digit.dim] = align_up(extent, digit.radix, here.names)
    if not sizes:
        return op
    return structured(pad(ctx.rewriter, op, sizes))


def digit_extents(op: Structured, index: int, layout: IndexingMap) -> tuple[Dim, ...]:
    """The extents of the digits of a layout of input `index`."""
    extents: list[Dim] = []
    held = dict(zip(op.maps()[index], op.operand_tile(index, Box.at_origin(op.extents())).sizes, strict=True))
    for expression in layout:
        digit = map_digit(expression)
        if digit is None and map_dim(expression) is None:
            extents.append(held[expression])
        elif digit is None:
            extents.append(op.size_of(map_dim(expression) or ""))
        else:
            extents.append(digit.radix if digit.is_remainder else ceildiv(op.size_of(digit.dim), digit.radix))
    return tuple(extents)


def split_digits(value: Value, held_by: IndexingMap, stored_by: IndexingMap, sizes: Sequence[Dim]) -> Operation:
    """A detached copy of a tensor whose dims are `held_by`, laid out by `stored_by`, of which these are the sizes:
    whole dims of the one are digits in the other, or windows the dims they move along."""
    extents = dict(zip(held_by, shape_of(value.type), strict=True))
    shape: list[Dim] = []
    places: dict[Dim, Dim] = {}
    for place, (expression, size) in enumerate(zip(stored_by, sizes, strict=True)):
        digit, index = map_digit(expression), Symbol(f"d{place}").size()
        if digit is None or expression in extents:
            whole, factor, extent = expression, 1, extents.get(expression, size)
        else:
            whole = Symbol(digit.dim).size()
            factor = 1 if digit.is_remainder else digit.radix
            extent = digit.radix if digit.is_remainder else ceildiv(extents.get(whole, size * digit.radix), digit.radix)
        places[whole] = places.get(whole, 0) + index * factor
        shape.append(extent)
    moved = {Symbol(name): index for whole, index in places.items() if (name := map_dim(whole)) is not None}
    block = Block([("e0", dtype_of(value.type))])
    block.append(Yield([block.args[0]]))
    names = [f"d{k}" for k in range(len(shape))]
    attributes: dict[str, Attribute] = {
        "iterators": tuple((name, "parallel") for name in names),
        "maps": (tuple(places[e] if e in places else substitute(e, {**moved}) for e in held_by), dims(*names)),
    }
    return Generic([value], [TensorType(tuple(shape), dtype_of(value.type))], attributes, [block])


def reread(rewriter: Rewriter, op: Structured, index: int, value: Value, layout: IndexingMap) -> Structured:
    """Let `op` read input `index` as `value`, by the map `layout`: in its class if that can say so, else in the
    nearest class above it that can."""
    attributes = Rebuilding(op).reading_by(index, layout)
    if attributes is not None:
        rewriter.set_operand(op, index, value)
        for key, held in attributes.items():
            rewriter.set_attribute(op, key, held)
        return op
    operands = [value if k == index else operand for k, operand in enumerate(op.operands)]
    body = general(op.on_tiles(stand_ins(op), *(shape_of(result.type) for result in op.results)))
    attributes = {**body.attributes, **(Rebuilding(body).reading_by(index, layout) or {})}

    def reading(operands: Sequence[Value]) -> Generic:
        regions = [region.clone(CloneMap(), lambda name: name) for region in body.regions]
        return Generic(operands, [result.type for result in op.results], attributes, regions)

    values = Block([(v.name, v.type) for v in operands]).args
    for name in Tree(op).tree_classes()[1:]:
        found = find_match(reading(values), classes_called(name))
        if isinstance(found, Candidate):
            return replace_with(rewriter, op, found.on(op, operands))
    return replace_with(rewriter, op, reading(operands))
