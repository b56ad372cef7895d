"""Structural matching on the operation tree: whether an operation computes what one of another class would."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations, product
from typing import TypeGuard

from tcpx.payload.comparison import same_attribute
from tcpx.payload.contexts import are_equal_at
from tcpx.payload.contraction import may_contract
from tcpx.payload.diagnostics import VerifyError
from tcpx.payload.indexing_maps import map_coefficients, map_dim, map_text
from tcpx.payload.interfaces import Elementwise, Structured
from tcpx.payload.ir import Attribute, Block, Operation, Value, operation_classes
from tcpx.payload.ops.elementwise import Binary
from tcpx.payload.ops.generic import Generic, build_again, generalize
from tcpx.payload.sizes import Dim, Symbol, Var, substitute, to_text
from tcpx.payload.traits.algebra import Rounding, algebra
from tcpx.payload.traits.expansion import Expansion
from tcpx.payload.traits.masked import Masked
from tcpx.payload.traits.positions import positions_read
from tcpx.payload.traits.rebuilding import attributes_for
from tcpx.payload.types import dtype_of, shape_of
from tcpx.plurals import counted
from tcpx.records import frozen
from tcpx.transform import new

MOST_INPUTS = 4
"""Inputs of an operation whose permutations are tried."""


@frozen
class Candidate:
    """A class that may say what an operation does: with these attributes, on the inputs in this order."""

    op_class: type[Structured]
    attributes: Mapping[str, Attribute]
    order: tuple[int, ...]

    def on(self, op: Structured, values: Sequence[Value]) -> Structured:
        """A detached operation of the class on `values`, which stand for the operands of `op`."""
        operands = [*(values[k] for k in self.order), *values[len(self.order) :]]
        return self.op_class(operands, [r.type for r in op.results], self.attributes, location=op.location)


@frozen
class Difference:
    """Why a candidate does not match; the higher the rank, the nearer it came."""

    opcode: str
    rank: int
    reason: str


def classes_called(name: str) -> list[type[Structured]]:
    """The structured classes of this name in the operation tree, or with it as the end of their opcode."""
    found = [c for c in operation_classes().values() if issubclass(c, Structured) and c.signature.region_count == 0]
    return [c for c in found if name in (c.class_name, c.opcode.split(".")[-1])]


def find_match(
    op: Structured, classes: Sequence[type[Structured]], order: Sequence[int] | None = None
) -> Candidate | list[Difference]:
    """The first candidate among `classes` that computes what `op` does; else the nearest miss of each class. `order` is
    the order of inputs that is tried first."""
    if Masked(op).valid:
        return [Difference(op_class.opcode, 0, "all of its dims count") for op_class in classes]
    mine = general(op.on_tiles(stand_ins(op), *(shape_of(r.type) for r in op.results)))
    if may_contract(op):
        mine = rounded_apart(mine)
    misses: dict[str, Difference] = {}
    for op_class in classes:
        for candidate in _candidates(op_class, op, order):
            difference = _difference(candidate, op, mine)
            if difference is None:
                return candidate
            known = misses.get(difference.opcode)
            if known is None or difference.rank > known.rank:
                misses[difference.opcode] = difference
        misses.setdefault(op_class.opcode, Difference(op_class.opcode, 0, _misfit(op_class, op)))
    return list(misses.values())


def _candidates(op_class: type[Structured], op: Structured, first: Sequence[int] | None = None) -> Iterator[Candidate]:
    inputs = len(op.inputs)
    fits = inputs == len(op_class.signature.operand_names) and (
        op.init is None or bool(op_class.signature.optional_operand)
    )
    if not fits or inputs > MOST_INPUTS or op_class.signature.result_count != len(op.results):
        return
    for order in permutations(range(inputs) if first is None else first):
        attributes = attributes_for(op_class, _Reordered.of(op, order))
        if attributes is not None:
            yield Candidate(op_class, attributes, order)


def rounded_apart(op: Structured) -> Structured:
    """A generic with a product and a sum in its body for what may round once or twice; itself if there is none."""
    if not any(_may_expand(inner) for block in op.regions for inner in block.ops):
        return op
    blocks: list[Block] = []
    for block in op.regions:
        made = Block([(arg.name, arg.type) for arg in block.args])
        values: dict[Value, Value] = dict(zip(block.args, made.args, strict=True))

        def build(part: Operation, made: Block = made) -> Value:
            return made.append(part).result

        for inner in block.ops[:-1]:
            operands = [values.get(v, v) for v in inner.operands]
            expanded = Expansion(inner).expansion(build, operands) if _may_expand(inner) else None
            if expanded is None:
                build_again([inner], values, build)
            else:
                values[inner.result] = expanded
        made.append(new.yielded([values.get(v, v) for v in block.ops[-1].operands]))
        blocks.append(made)
    return new.generic(op.operands, [r.type for r in op.results], op.attributes, blocks)


def _may_expand(op: Operation) -> TypeGuard[Elementwise]:
    """Whether an operation may be computed, and rounded, as its expansion."""
    return isinstance(op, Elementwise) and algebra(op).rounding is Rounding.ONCE_OR_EACH


class _Reordered(Generic):
    """A generic with its inputs in another order: what a class is asked for its attributes with."""

    __slots__ = ()

    @classmethod
    def of(cls, op: Structured, order: Sequence[int]) -> Generic:
        made = general(op.on_tiles(stand_ins(op), *(shape_of(r.type) for r in op.results)))
        maps = made.maps()
        held = (*(maps[k] for k in order), *made.result_maps())
        operands = [*(made.inputs[k] for k in order), *made.inits]
        return cls(operands, [r.type for r in made.results], {**made.attributes, "maps": held}, made.regions)


def _misfit(op_class: type[Structured], op: Structured) -> str:
    wanted, have = len(op_class.signature.operand_names), len(op.inputs)
    if wanted != have:
        return f"takes {wanted} operand(s), not {have}"
    if op_class.signature.result_count != len(op.results):
        return f"has {op_class.signature.result_count} result(s), not {len(op.results)}"
    return (
        "takes no `init`"
        if op.init is not None and not op_class.signature.optional_operand
        else "indexes its operands otherwise"
    )


def stand_ins(op: Operation) -> list[Value]:
    """Values of the types of the operands, in no function: what is built on them leaves no trace."""
    return Block([(value.name, value.type) for value in op.operands]).args


def structured(made: Operation) -> Structured:
    """An operation on other shapes, as one of its interface. Raises VerifyError where its class gave another."""
    if not isinstance(made, Structured):
        raise made.error("an operation on other shapes is one of its class", required="a structured operation")
    return made


def general(op: Operation) -> Structured:
    """The generic that computes what an operation does; itself if its body is in the payload."""
    if not isinstance(op, Structured):
        raise op.error("only a structured operation can be generalized", required="a structured operation")
    return op if op.regions else generalize(op)


def _difference(candidate: Candidate, op: Structured, mine: Structured) -> Difference | None:
    opcode = candidate.op_class.opcode

    def miss(rank: int, reason: str) -> Difference:
        return Difference(opcode, rank, reason)

    built = candidate.on(op, stand_ins(op))
    try:
        built.check_attributes()
        built.verify()
        other = generalize(built)
        other.verify()
        other = rounded_apart(other) if may_contract(op) else other
    except VerifyError as error:
        found = error.diagnostic
        reason = found.message.removeprefix(f"{opcode}: ")
        return miss(1, f"{reason} ({found.found})" if found.found else reason)
    found = _compared(mine, other, candidate.order)
    if found is not None:
        return miss(*found)
    return None


def _compared(mine: Structured, other: Structured, order: Sequence[int]) -> tuple[int, str] | None:
    """Where two generics first differ, the inputs of `mine` in this order, and how near they come; None if they compute
    the same. A size of `other` that is an expression may be any."""
    renamed = _renaming(mine, other, order)
    if isinstance(renamed, str):
        return 2, renamed
    for there, here in renamed.items():
        sizes = other.size_of(there), mine.size_of(here)
        if isinstance(sizes[0], int) and not are_equal_at(mine, *sizes):
            return 2, f"takes {to_text(sizes[0])} of `{here}`, not {to_text(sizes[1])}"
    if mine.attributes.get("combiner") != other.attributes.get("combiner"):
        combiners = (mine.attributes.get("combiner"), other.attributes.get("combiner"))
        return 3, f"combines with {combiners[1]}, not {combiners[0]}"
    arguments = mine.regions[0].args, other.regions[0].args
    pairs: dict[Value, Value] = {b: arguments[0][k] for k, b in zip(order, arguments[1], strict=False)}
    count = len(order)
    if len(arguments[0]) != len(arguments[1]) or len(mine.regions) != len(other.regions):
        return 3, "starts its sums otherwise"
    pairs.update(zip(arguments[1][count:], arguments[0][count:], strict=True))
    keys = ("neutral", "commutative")
    if not all(same_attribute(mine.attributes.get(key, ()), other.attributes.get(key, ())) for key in keys):
        return 3, "combines partial results in another order, or begins with others"
    for region, there in zip(mine.regions[1:], other.regions[1:], strict=True):
        pairs.update(zip(there.args, region.args, strict=True))
    ends = [(a.ops[-1].operands, b.ops[-1].operands) for a, b in zip(mine.regions, other.regions, strict=True)]
    handed_out = [pair for a, b in ends for pair in zip(a, b, strict=True)]
    reasons = (_different_bodies(a, b, pairs) for a, b in handed_out)
    reason = next((r for r in reasons if r is not None), None)
    return (4, reason) if reason is not None else None


def difference(op: Structured, other: Structured) -> str | None:
    """Why an operation, on operands of the types of those of another, does not compute what that does; None if it
    does."""
    ranks = [[len(shape_of(value.type)) for value in (*each.operands, each.result)] for each in (op, other)]
    if ranks[0] != ranks[1] or len(op.inits) != len(other.inits):
        return f"{op.opcode} of operands of rank {', '.join(map(str, ranks[0][:-1])) or '0'}"
    shape = shape_of(other.result.type)
    pair = [general(each.on_tiles(stand_ins(other), shape)) for each in (op, other)]
    if any(len(each.regions) != 1 for each in pair):
        return f"{op.opcode}, which combines partial results of its own"
    miss = _compared(pair[0], pair[1], range(len(op.inputs)))
    return None if miss is None else miss[1]


def inputs_in_order(op: Structured, other: Structured) -> tuple[Value, ...] | str:
    """What an operation reads, in the order in which another one that computes the same takes it, for any sizes that
    the types of the other leave open; else why there is no such order. Operands are read through transposes."""
    if len(op.results) != 1 or positions_read(op) or len(op.inputs) != len(other.inputs):
        return f"takes {len(other.inputs)} operand(s), and gives one result"
    wanted = general(other.on_tiles(stand_ins(other), shape_of(other.result.type)))
    dtypes = [dtype_of(value.type) for value in (*other.inputs, other.result)]
    misses: list[tuple[int, str]] = []
    for values, mine in _readings(op):
        if len(mine.regions) != 1 or len(wanted.regions) != 1:
            return "combines partial results otherwise"
        for order in permutations(range(min(len(values), MOST_INPUTS))):
            given = [dtype_of(value.type) for value in (*(values[k] for k in order), op.result)]
            wrong = next((k for k, pair in enumerate(zip(given, dtypes, strict=True)) if pair[0] != pair[1]), None)
            miss = _compared(mine, wanted, order)
            if wrong is not None:
                role = "result" if wrong == len(order) else f"operand {wrong}"
                miss = 1, f"has {dtypes[wrong]} as {role}, not {given[wrong]}"
            if miss is None:
                return tuple(values[k] for k in order)
            misses.append(miss)
    return max(misses, key=lambda known: known[0])[1]


def _readings(op: Structured) -> Iterator[tuple[list[Value], Structured]]:
    """What an operation reads, and a generic on stand-ins that computes the same of it: its inputs, and for those that
    are transposes also what they show."""
    plain = general(op.on_tiles(stand_ins(op), shape_of(op.result.type)))
    pieces = [new.whole_piece(value.defining_op) for value in op.inputs]
    choices = [(None, piece) if piece is not None and piece.permutes else (None,) for piece in pieces]
    for chosen in product(*choices):
        values, maps = list(op.inputs), list(plain.maps())
        for k, piece in enumerate(chosen):
            view = values[k].defining_op
            if piece is not None and view is not None:
                values[k] = view.operands[piece.operand]
                maps[k] = tuple(maps[k][piece.permutation.index(dim)] for dim in range(len(maps[k])))
        operands = Block([(value.name, value.type) for value in (*values, *op.inits)]).args
        attributes = {**plain.attributes, "maps": (*maps, *plain.result_maps())}
        yield values, Generic(operands, [op.result.type], attributes, plain.regions)


def _renaming(mine: Structured, other: Structured, order: Sequence[int]) -> dict[str, str] | str:
    """The dims of `mine` by those of `other`, under which kinds and maps agree; else what does not."""
    held = (positions_read(op) for op in (mine, other))
    found, wanted = ([(p.dtype, p.origin) for p in positions] for positions in held)
    if found != wanted or len(mine.results) != len(other.results):
        return f"reads {len(wanted)} position(s) of these types and origins, not {len(found)}"
    pairs = [(a, b, "the result") for a, b in zip(mine.result_maps(), other.result_maps(), strict=True)]
    pairs += [(mine.maps()[k], theirs, f"operand {k}") for k, theirs in zip(order, other.maps(), strict=True)]
    names = _paired([pair for left, right, _ in pairs for pair in zip(left, right, strict=False)])
    mine_kinds = {it.name: it.kind for it in mine.iterators()}
    other_kinds = {it.name: it.kind for it in other.iterators()}
    if len(mine_kinds) != len(other_kinds):
        return f"has {counted(len(other_kinds), 'dim')}, not {len(mine_kinds)}"
    if set(names) != set(other_kinds) or len(set(names.values())) != len(names):
        return f"its dims {', '.join(other_kinds)} do not pair with {', '.join(mine_kinds)}"
    for there, here in names.items():
        if mine_kinds[here] is not other_kinds[there]:
            return f"`{here}` is a {mine_kinds[here].value} dim, `{there}` a {other_kinds[there].value} dim"
    sizes: dict[Symbol | Var, Dim] = {Symbol(b): Symbol(a).size() for b, a in names.items()}
    read = [tuple(p.expression for p in positions_read(op)) for op in (mine, other)]
    pairs += [(*read, "its positions")]
    is_renamed = any(here != there and here in other_kinds for there, here in names.items())
    for left, right, role in pairs:
        renamed = tuple(substitute(e, sizes) for e in right)
        if left != renamed:
            where = (
                f", where the result is {map_text(mine.result_map())}" if is_renamed and role != "the result" else ""
            )
            return f"indexes {role} by {map_text(renamed)}, not {map_text(left)}{where}"
    return names


def _paired(entries: Sequence[tuple[Dim, Dim]]) -> dict[str, str]:
    """The dims on the left by those on the right, where entries of maps are dims; of sums of dims, those left."""
    names: dict[str, str] = {}
    for a, b in entries:
        here, there = map_dim(a), map_dim(b)
        if here is not None and there is not None and here not in names.values():
            names.setdefault(there, here)
    for a, b in entries:
        left = [n for n in map_coefficients(a) or {} if n not in names.values()]
        right = [n for n in map_coefficients(b) or {} if n not in names]
        if len(left) == len(right) == 1:
            names[right[0]] = left[0]
    return names


def _different_bodies(mine: Value, other: Value, pairs: Mapping[Value, Value]) -> str | None:
    """Where two scalar expressions first differ; operands of commutative operations may be swapped."""
    if other in pairs or mine.defining_op is None or other.defining_op is None:
        return None if pairs.get(other) is mine else f"the body uses {_shown(other)} where %{mine.name} is used"
    a, b = mine.defining_op, other.defining_op
    attributes = a.attributes.keys() == b.attributes.keys() and all(
        same_attribute(held, b.attributes[key]) for key, held in a.attributes.items()
    )
    if a.opcode != b.opcode or not attributes or mine.type != other.type or len(a.operands) != len(b.operands):
        return f"the body has {b.opcode}: {other.type} where %{mine.name} is {a.opcode}: {mine.type}"
    found = [_different_bodies(x, y, pairs) for x, y in zip(a.operands, b.operands, strict=True)]
    first = next((reason for reason in found if reason is not None), None)
    if first is not None and isinstance(a, Binary) and a.neutral_of(dtype_of(mine.type)) is not None:
        swapped = [_different_bodies(x, y, pairs) for x, y in zip(a.operands, reversed(b.operands), strict=True)]
        return None if swapped == [None, None] else first
    return first


def _shown(value: Value) -> str:
    return f"%{value.name}" if value.defining_op is None else value.defining_op.opcode
