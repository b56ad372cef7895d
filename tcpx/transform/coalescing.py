"""Adjacent dims of an operation as one dim, over the same elements in the same order."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from tcpx.payload.broadcasting import have_equal_extents
from tcpx.payload.contexts import are_equal_at
from tcpx.payload.diagnostics import Direction, ScheduleError
from tcpx.payload.indexing_maps import DimDigit, IndexingMap, dim_symbol, is_linear_in, map_dim, map_symbols
from tcpx.payload.interfaces import Elementwise, Structured
from tcpx.payload.ir import DIM_NAMES, Attribute, Block, Operation, Value
from tcpx.payload.memory_effects import MoveKind
from tcpx.payload.ops.generic import positions_of_sizes
from tcpx.payload.ops.gml_st import Materialize, OnSubset, StYield
from tcpx.payload.reshaped_tiles import reshaped
from tcpx.payload.rewriter import InsertPoint
from tcpx.payload.sizes import Dim, Symbol, Var, product, substitute, to_text
from tcpx.payload.strided import strided_positions
from tcpx.payload.traits.indices import Indices
from tcpx.payload.traits.masked import Masked
from tcpx.payload.traits.memory import Memory
from tcpx.payload.traits.positions import positions_read
from tcpx.payload.traits.ragged import is_irregular
from tcpx.payload.types import dtype_of, like, shape_of
from tcpx.transform import new
from tcpx.transform.algebra import number_of
from tcpx.transform.arguments import TransformContext
from tcpx.transform.chains import epilogue_of, prologue_of
from tcpx.transform.editing import erase_dead, first_change, rename_inside, source_name, still_holds
from tcpx.transform.matching import find_match, general, stand_ins, structured
from tcpx.transform.tiling import check_on_tensors

SAME_ANYWHERE: Final = "a body that computes the same wherever it is, and indices that maps say"
MAPPED_INDICES: Final = "indices that maps say"


def is_the_same_anywhere(op: Structured) -> bool:
    """Whether the body does not read where it is, and elements are at places that maps say."""
    return not positions_read(op) and has_mapped_indices(op)


def has_mapped_indices(op: Structured) -> bool:
    """Whether all elements are at places that maps say."""
    return not (Indices(op).operands or is_irregular(op))


def coalesce_dims(
    ctx: TransformContext, op: Operation, names: Sequence[str] | None, copies: bool = False, repeats: bool = False
) -> Structured:
    """Let one dim of `op` stand for the dims `names`, which lie next to each other in every operand and result that has
    them; reshapes round the operation show these so. All its dims if no names are given. With `copies`, operands may be
    views, whose reshapes are copies; with `repeats`, they may lack the last of these dims."""
    if not isinstance(op, Structured):
        raise ctx.fail(
            f"the dims of %{op.name} cannot be one", op=op, required="a structured operation", found=op.opcode
        )
    check_on_tensors(ctx, op)
    names = [it.name for it in op.iterators()] if names is None else names
    _check(ctx, op, names, repeats)
    read = _merged_positions(ctx, op, names)
    _check_memory(ctx, op, names, copies)
    return under_other_shapes(
        ctx,
        op,
        lambda shape, entries: _merged(shape, entries, names),
        lambda operands, shapes: _on_one_dim(ctx, op, names, read, operands, shapes),
        lambda value, entries: _repeated(ctx, op, names, value, entries),
    )


def _repeated(
    ctx: TransformContext, op: Structured, names: Sequence[str], value: Value, entries: IndexingMap
) -> Value | None:
    """An operand that repeats what it reads, such as a broadcast, with one dim for these, so that no reshape is behind
    it; None for any other, and where what it reads has some of them."""
    made, own = value.defining_op, _dims_of_repeated(value, entries, names)
    if not isinstance(made, Structured) or not own or _is_repeated_along_some(made, own):
        return None
    shape = _merged(shape_of(value.type), made.result_map(), own)
    inputs = [
        _reshaped(ctx, v, _merged(shape_of(v.type), m, own), op) if len(set(map(map_dim, m)) & set(own)) > 1 else v
        for v, m in zip(made.inputs, made.maps(), strict=True)
    ]
    alone = _generic_on_one_dim(made, own, inputs, [shape])
    found = find_match(alone, [type(made)])
    other = structured(alone.on_tiles(inputs, shape)) if isinstance(found, list) else found.on(alone, inputs)
    return ctx.rewriter.insert(other, InsertPoint.before(op), value.name).result


def _dims_of_repeated(value: Value, entries: IndexingMap, names: Sequence[str]) -> list[str]:
    """What these dims of a reader are called in the operation that repeats what it reads; empty if it does not."""
    made = value.defining_op
    if not isinstance(made, Structured) or not made.is_movement or len(made.results) != 1 or made.inits:
        return []
    along = [own for own, entry in zip(made.result_map(), entries, strict=True) if map_dim(entry) in names]
    own = [name for entry in along if (name := map_dim(entry)) is not None]
    read = {map_dim(entry) for m in made.maps() for entry in m}
    is_simple = None not in read and is_the_same_anywhere(made) and len(own) == len(along) > 1
    return own if is_simple and len(read) < len(made.iterators()) else []


def _is_repeated_along_some(made: Structured, names: Sequence[str]) -> bool:
    """Whether what it reads has some of these dims, or has them apart."""
    for entries in made.maps():
        run = [map_dim(entry) for entry in entries]
        inside = [k for k, name in enumerate(run) if name in names]
        if inside and run[inside[0] : inside[-1] + 1] != list(names):
            return True
    return False


def coalesce_chains(
    ctx: TransformContext, op: Operation, names: Sequence[str] | None, copies: bool = False, repeats: bool = False
) -> Structured:
    """The same, and of the elementwise operations that lead to its operands alone, or follow its result, in these dims:
    no reshape is between them. Raises ScheduleError if one of them cannot have them as one dim."""
    chains = _chains(op, names) if isinstance(op, Structured) and len(op.results) == 1 else []
    for each, dims in chains:
        _check_repeated(ctx, each, dims)
    made = coalesce_dims(ctx, op, names, copies, repeats)
    for each, dims in chains:
        coalesce_dims(ctx, each, dims, repeats=repeats)
    return made


def _chains(op: Structured, names: Sequence[str] | None) -> list[tuple[Structured, Sequence[str]]]:
    """The elementwise operations before and after another one that have several of its dims, and what these are called
    in each."""
    found = list[tuple[Structured, Sequence[str]]]()
    wanted = [it.name for it in op.iterators()] if names is None else names
    before = [(each, m) for v, m in zip(op.inputs, op.maps(), strict=True) for each in prologue_of(op, v)]
    for each, entries in (*before, *((each, op.result_map()) for each in epilogue_of(op))):
        shared = [own for own, entry in zip(each.result_map(), entries, strict=True) if map_dim(entry) in wanted]
        dims = [name for entry in shared if (name := map_dim(entry)) is not None]
        found += [(each, dims)] if len(dims) > 1 else []
    return found


def _check_repeated(ctx: TransformContext, op: Structured, names: Sequence[str]) -> None:
    """Of what is repeated along some of the dims only, another shape would be a copy."""
    for value, entries in zip(op.inputs, op.maps(), strict=True):
        source, own = value.defining_op, _dims_of_repeated(value, entries, names)
        if isinstance(source, Structured) and own and _is_repeated_along_some(source, own):
            raise ctx.fail(
                f"%{value.name} is repeated along some of the dims only: under another shape it would be a copy",
                op=op,
                required=f"an operand that is repeated along all of {', '.join(names)}, or along none of them",
                found=source.opcode,
                fix=Direction("no `chains`, and without the dims that are repeated"),
            )


def under_other_shapes(
    ctx: TransformContext,
    op: Structured,
    other: Callable[[Sequence[Dim], IndexingMap], Sequence[Dim]],
    make: Callable[[Sequence[Value], Sequence[Sequence[Dim]]], Structured],
    repeated: Callable[[Value, IndexingMap], Value | None] | None = None,
) -> Structured:
    """Let what `make` gives stand for `op`: a detached operation on its operands under other shapes, with results of
    other shapes. Reshapes round it show these, but for operands for which `repeated` gives another value; there is none
    between two operations that have one shape."""
    rewriter, inputs = ctx.rewriter, list(op.operands)

    def shown(value: Value, entries: IndexingMap) -> Value:
        shape = other(shape_of(value.type), entries)
        if tuple(shape) == shape_of(value.type):
            return value
        return (repeated and repeated(value, entries)) or _reshaped(ctx, value, shape, op)

    operands = [shown(value, entries) for value, entries in zip(op.inputs, op.maps(), strict=True)]
    operands += [shown(value, entries) for value, entries in zip(op.inits, op.result_maps(), strict=bool(op.inits))]
    shapes = [other(shape_of(r.type), m) for r, m in zip(op.results, op.result_maps(), strict=True)]
    made = make(operands, shapes)
    made.stand_for(op)
    rename_inside(rewriter, made, op)
    rewriter.insert(made, InsertPoint.before(op), source_name(op))
    rewriter.rename(made, op.name)
    rewriter.continue_as(op, made)
    back = [
        rewriter.insert(new.reshape(result, shape_of(old.type)), InsertPoint.before(op), f"{source_name(op)}.t").result
        for result, old in zip(made.results, op.results, strict=True)
    ]
    rewriter.replace_op(op, back)
    again = [(user, result) for value, result in zip(back, made.results, strict=True) for user in value.users]
    for user, result in again:
        if reshapes(user) and have_equal_extents(shape_of(user.result.type), shape_of(result.type)):
            rewriter.replace_op(user, [result])
    erase_dead(rewriter, [*inputs, *back])
    return made


def _check(ctx: TransformContext, op: Structured, names: Sequence[str], repeats: bool) -> None:
    its = {name: op.iterator(name) for name in names}
    if len(its) < max(2, len(names)):
        raise ctx.fail(
            f"there are not two dims of %{op.name} to be one",
            op=op,
            required="two dims or more, each once",
            found=", ".join(names) or "none",
        )
    kinds = {it.kind: it.name for it in its.values()}
    if len(kinds) > 1 or any(it.is_sequential for it in its.values()):
        found = ", ".join(f"{kind.value} dim `{name}`" for kind, name in kinds.items())
        raise _error(ctx, op, names, "parallel dims, or reduction dims", found)
    if not has_mapped_indices(op) or set(names) & set(Masked(op).valid):
        raise _error(ctx, op, names, MAPPED_INDICES, op.opcode)
    values = [*zip(op.inputs, op.maps(), strict=True), *zip(op.results, op.result_maps(), strict=True)]
    for value, entries in values:
        run = [k for k, entry in enumerate(entries) if map_dim(entry) in its]
        touched = [entry for entry in entries if not its.keys().isdisjoint(map_symbols(entry))]
        beside = [map_dim(entry) for entry in entries[run[0] : run[-1] + 1]] if run else []
        run_of = list(names[: len(beside)]) if repeats and _times(op, names, entries) else list(names)
        if touched and (beside != run_of or len(touched) > len(run_of)):
            raise ctx.fail(
                f"{' and '.join(names)} do not lie next to each other in %{value.name}",
                op=op,
                required=f"[.., {', '.join(names)}, ..], or none of them",
                found=f"[{', '.join(map(str, entries))}]",
                fix=Direction("transpose_result, or fewer dims") if len(run) == len(touched) == len(names) else None,
            )


def _times(op: Structured, names: Sequence[str], entries: IndexingMap) -> int | None:
    """How many times in a row each element of an operand counts that has the first of these dims only; None for one
    that has all or none, or where that is no number."""
    count = sum(map_dim(entry) in names for entry in entries)
    found = product([op.size_of(name) for name in names[count:]])
    return found if 0 < count < len(names) and isinstance(found, int) and found > 0 else None


def _error(ctx: TransformContext, op: Operation, names: Sequence[str], required: str, found: str) -> ScheduleError:
    return ctx.fail(f"{' and '.join(names)} of %{op.name} cannot be one dim", op=op, required=required, found=found)


def _merged_positions(ctx: TransformContext, op: Structured, names: Sequence[str]) -> IndexingMap:
    """The positions that the body reads, in the one dim. It reads these dims, if at all, as one row-major index."""
    extents = [op.size_of(name) for name in names]
    whole: Dim = 0
    for name, extent in zip(names, extents, strict=True):
        whole = whole * extent + dim_symbol(name).size()
    found: list[Dim] = []
    for position in positions_read(op):
        factors = _factors(position.expression, names)
        last = factors[-1] if factors else 0
        is_row_major = all(
            are_equal_at(op, factor, last * product(extents[k + 1 :])) for k, factor in enumerate(factors or ())
        )
        if factors is None or not is_row_major:
            required = f"a body that reads them as one position, `{to_text(whole)}`"
            raise _error(ctx, op, names, required, f"the position `{to_text(position.expression)}`")
        rest = substitute(position.expression, _all_at(names, 0))
        found.append(rest + last * dim_symbol(names[0]).size())
    return tuple(found)


def _factors(expression: Dim, names: Sequence[str]) -> Sequence[Dim] | None:
    """What each of these dims is multiplied by in an expression; None if it is not linear in them."""
    if not is_linear_in(expression, names):
        return None
    rest = substitute(expression, _all_at(names, 0))
    return [substitute(expression, {**_all_at(names, 0), dim_symbol(name): 1}) - rest for name in names]


def _all_at(names: Sequence[str], place: int) -> dict[Symbol | Var, Dim]:
    return {dim_symbol(name): place for name in names}


def _check_memory(ctx: TransformContext, op: Structured, names: Sequence[str], copies: bool) -> None:
    """Of rows that lie apart, and of what a view shows, another shape would be a copy."""
    func = ctx.rewriter.func_of(op)
    apart, count = strided_positions(func), len(func.args)
    given = [*zip(op.inputs, op.maps(), strict=True), *zip(op.inits, op.result_maps(), strict=bool(op.inits))]
    for own, entries in (*given, *zip(op.results, op.result_maps(), strict=True)):
        value = _whole(own, InsertPoint.before(op))
        places = [count + k for user, k in own.uses if user is func.body.terminator]
        places += [func.args.index(value)] if value in func.args else []
        made = value.defining_op if own not in op.results else None
        is_shown = not copies and made is not None and new.pieces_of_all(made) is not None and not reshapes(made)
        if not {map_dim(entry) for entry in entries} & set(names):
            continue
        if not copies:
            _check_subsets(ctx, op, value, entries, names)
        if is_shown or set(places) & set(apart):
            raise ctx.fail(
                f"{' and '.join(names)} of %{value.name} do not lie one behind the other in memory",
                op=op,
                required="an operand or result without gaps",
                found=f"%{value.name} = {made.opcode}"
                if is_shown and made is not None
                else f"%{value.name} is `strided`",
                fix=Direction("leave it out, or make it a tensor of its own"),
            )


def _check_subsets(
    ctx: TransformContext, op: Structured, value: Value, entries: IndexingMap, names: Sequence[str]
) -> None:
    """Of rows with gaps between them, as a loop reads and yields them of what it carries, another shape is a copy."""
    made = value.defining_op
    parts: list[OnSubset] = [made] if isinstance(made, Materialize) else []
    if made is op:
        parts += [user for user in value.users if isinstance(user, StYield) and user.value is value]
    for part in parts:
        whole, shape = part.subset_of, _merged(shape_of(value.type), entries, names)
        if reshaped(part.subset, shape_of(whole.type), shape) is None:
            raise ctx.fail(
                f"{' and '.join(names)} of %{value.name} do not lie one behind the other in memory",
                op=op,
                required="an operand or result without gaps",
                found=f"{part.subset.text()} of %{whole.name}: {whole.type}",
                fix=Direction("leave it out, or make it a tensor of its own"),
            )


def _merged(shape: Sequence[Dim], entries: IndexingMap, names: Sequence[str]) -> tuple[Dim, ...]:
    """A shape with the product of what is indexed by these dims in place of the first of them."""
    found: list[Dim] = []
    for extent, entry in zip(shape, entries, strict=True):
        if map_dim(entry) in names[1:]:
            found[-1] = found[-1] * extent
        else:
            found.append(extent)
    return tuple(found)


def _reshaped(ctx: TransformContext, value: Value, shape: Sequence[Dim], before: Operation) -> Value:
    """A value under another shape: what it is a reshape of, or a reshape of it that is there, where that has it. A
    number is filled in."""
    at, number = InsertPoint.before(before), number_of(value)
    if number is not None:
        filled = new.fill(number, like(value.type, tuple(shape), dtype_of(value.type)))
        return ctx.rewriter.insert(filled, at, f"{value.name.split('.')[0]}.t").result
    value = _whole(value, at)
    made = value.defining_op
    near = [made.operands[0]] if made is not None and reshapes(made) else []
    beside = [u for u in value.users if reshapes(u) and u.parent is before.parent and u.order < before.order]
    near += [u.result for u in beside if first_change(u, at) is None]
    for other in near:
        if have_equal_extents(shape_of(other.type), shape):
            return other
    return ctx.rewriter.insert(new.reshape(value, shape), at, f"{value.name.split('.')[0]}.t").result


def _whole(value: Value, at: InsertPoint) -> Value:
    """What a value is all of, where it is a subset by its type only: a branch round it says that sizes are equal. What
    the destination of a loop holds may have changed before `at`."""
    made = value.defining_op
    tiles = (
        [move.source_tile for move in Memory(made).moves() if move.kind is MoveKind.SUBSET] if made is not None else []
    )
    if made is None or not tiles or tiles[0] is None or tiles[0].dropped or not tiles[0].is_at_origin:
        return value
    if isinstance(made, Materialize) and not still_holds(made, at):
        return value
    sizes = zip(tiles[0].sizes, shape_of(made.operands[0].type), strict=True)
    return _whole(made.operands[0], at) if all(are_equal_at(made, size, extent) for size, extent in sizes) else value


def reshapes(op: Operation) -> bool:
    """Whether an operation shows the elements of its operand under another shape."""
    return any(move.kind is MoveKind.RESHAPE for move in Memory(op).moves())


def _on_one_dim(
    ctx: TransformContext,
    op: Structured,
    names: Sequence[str],
    read: IndexingMap,
    operands: Sequence[Value],
    shapes: Sequence[Sequence[Dim]],
) -> Structured:
    """The detached operation on operands in which the dims are one: of its class where that has dims of any number."""
    if isinstance(op, Elementwise) and not any(_times(op, names, entries) for entries in op.maps()):
        return structured(op.on_tiles(operands, *shapes))
    made = _generic_on_one_dim(op, names, operands, shapes)
    if read:
        made.attributes["positions"] = read
    of_class = _of_class(op, made, operands)
    if of_class is None and positions_of_sizes(made):
        found = f"the position `{', '.join(map(to_text, read))}`"
        raise _error(ctx, op, names, "positions of numbers and dims, no sizes", found)
    return of_class or structured(made.on_tiles(operands, *shapes))


def _generic_on_one_dim(
    op: Structured, names: Sequence[str], operands: Sequence[Value], shapes: Sequence[Sequence[Dim]]
) -> Structured:
    """The generic of the operation, on values that stand in for its operands."""
    extents = [op.iterator(name).extent for name in names]
    whole = product([e for e in extents if e is not None]) if None not in extents else None
    first = op.iterator(names[0])
    entry = (first.name, first.kind.value) if whole is None else (first.name, first.kind.value, whole)
    given = Block([(v.name, v.type) for v in operands]).args
    made = without_dims(op, names[1:], given, shapes, {first.name: entry})
    times = [_times(op, names, entries) for entries in (*op.maps(), *op.result_maps())]
    if any(times):
        maps = zip((*made.maps(), *made.result_maps()), times, strict=True)
        made.attributes["maps"] = tuple(_by_quotient(m, first.name, count) if count else m for m, count in maps)
    return made


def _by_quotient(entries: IndexingMap, name: str, times: int) -> IndexingMap:
    """A map that has a dim as its quotient by a number."""
    quotient = DimDigit(name, times, is_remainder=False).size()
    return tuple(quotient if map_dim(entry) == name else entry for entry in entries)


def _of_class(op: Structured, made: Structured, operands: Sequence[Value]) -> Structured | None:
    """The operation of the class of `op` that computes what the generic `made` does, where its dims are called so."""
    found = find_match(made, [type(op)]) if not op.regions else []
    if isinstance(found, list):
        return None
    names = tuple(it.name for it in made.iterators())
    own = {DIM_NAMES: names} if DIM_NAMES in op.attributes else {}

    def on(values: Sequence[Value]) -> Structured:
        same = found.on(made, values)
        same.attributes |= own
        return same

    return on(operands) if tuple(it.name for it in on(stand_ins(made)).iterators()) == names else None


def without_dims(
    op: Structured,
    left_out: Collection[str],
    operands: Sequence[Value],
    shapes: Sequence[Sequence[Dim]],
    entries: Mapping[str, Attribute],
) -> Structured:
    """The detached generic that does what `op` does, on operands and with results that lack some dims. `entries` are
    the iterators, as attributes, that others of its dims have then."""
    alone = general(op.on_tiles(stand_ins(op), *(shape_of(result.type) for result in op.results)))
    made = structured(alone.on_tiles(operands, *shapes))
    its = [entries.get(it.name, it.entry) for it in op.iterators() if it.name not in left_out]
    maps = [tuple(e for e in m if map_dim(e) not in left_out) for m in (*op.maps(), *op.result_maps())]
    made.attributes |= {"iterators": tuple(its), "maps": tuple(maps)}
    return made
