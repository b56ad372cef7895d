"""How an operation class may be used, found out from its declaration: which dims index its operands, which dtypes go
together, which attributes it needs. An operation that is new is found like the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, permutations

import tcpx
from tcpx.payload.diagnostics import TcpxError
from tcpx.payload.indexing_maps import map_dim
from tcpx.payload.interfaces import Elementwise, Structured, Tileable
from tcpx.payload.ir import Attribute, Block, Operation, Value, operation_class
from tcpx.payload.ops.constant import Const
from tcpx.payload.ops.generic import Generic, Yield
from tcpx.payload.ops.shorthand import Shorthand
from tcpx.payload.sizes import Dim, Symbol, substitute, symbols
from tcpx.payload.traits.rebuilding import attributes_for
from tcpx.payload.types import SCALARS, ScalarKind, ScalarType, TensorType, f32, i1, si32, si64

NUMBERS = tuple(t for t in SCALARS.values() if t.kind is not ScalarKind.INDEX)
WHOLE_OPERANDS = {"tcp.scale2": 1}
"""Operands that are defined on whole numbers only, by opcode."""
Names = tuple[str, ...]
Shape = tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Structure:
    """Extents of operands and result as expressions over named dims, and of what kind the indexing is."""

    operands: tuple[Shape, ...]
    result: Shape
    reduced: Names = ()
    indices: tuple[Shape, ...] = ()
    """Indexing expressions of the operands where they are not just the dims of their shape."""
    others: tuple[Shape, ...] = ()
    """Of the results behind the first."""

    @property
    def results(self) -> tuple[Shape, ...]:
        return (self.result, *self.others)

    @property
    def maps(self) -> tuple[Shape, ...]:
        return self.indices or self.operands

    @property
    def dims(self) -> Names:
        """All dims: those of the result, then the reduced ones."""
        held = [map_dim(d) for d in self.result]
        return (*(d for d in held if d is not None), *self.reduced)


@dataclass(frozen=True, slots=True)
class Use:
    """One way to use an operation class."""

    cls: type[Operation]
    structure: Structure
    dtypes: tuple[ScalarType, ...]
    """Of the operands, then of each result."""
    attributes: tuple[tuple[str, Attribute], ...] = ()
    takes_init: bool = False

    @property
    def result_dtypes(self) -> tuple[ScalarType, ...]:
        return self.dtypes[len(self.structure.operands) :]

    def results(self, extents: dict[str, Dim]) -> list[TensorType]:
        """The types of the results, with dims of these extents."""
        shapes = (shape_at(shape, extents) for shape in self.structure.results)
        return [TensorType(shape, dtype) for shape, dtype in zip(shapes, self.result_dtypes, strict=True)]

    @property
    def name(self) -> str:
        shown = [",".join(map(str, s)) for s in self.structure.operands]
        types = " ".join(t.name for t in self.dtypes)
        return f"{self.cls.opcode} {' '.join(f'[{s}]' for s in shown)} {types}"


def _named(*names: str) -> Shape:
    return tuple(Symbol(n).size() for n in names)


def _letters(word: str) -> Shape:
    return _named(*word)


def _by_letters(spec: str) -> Structure:
    """`mk,kn->mn`."""
    inputs, _, out = spec.partition("->")
    words = inputs.split(",") if inputs else []
    reduced = dict.fromkeys(letter for word in words for letter in word if letter not in out)
    return Structure(tuple(map(_letters, words)), _letters(out), tuple(reduced))


INDEXED = {2: "tj,m->mj it,m->im mj,m->tj im,m->it".split(), 3: "tuj,m,m->mj itu,m,m->im tu,mj,mj->mj".split()}
"""An operand, or the result, has dims of its own where other operands say the indices; by how many there are."""
CONTRACTIONS = (
    "mk,kn->mn mk,nk->mn km,kn->mn mk,kn->nm mk,k->m k,kn->n k,k-> bmk,bkn->bmn bk,bk->b mkj,kjn->mn bm,bn->bmn"
).split()  # fmt: skip


@cache
def structures(inputs: int) -> tuple[Structure, ...]:
    """The shapes of iteration that operations of the field have, for so many inputs."""
    found: list[Structure] = []
    for rank in range(4):
        names = _named(*(f"d{k}" for k in range(rank)))
        found.append(Structure((names,) * inputs, names))
        if inputs == 1:
            words = tuple(f"d{k}" for k in range(rank))
            found += [Structure((_named(*order),), names) for order in permutations(words) if order != words]
            for count in range(rank):
                found += [Structure((_named(*kept),), names) for kept in combinations(words, count)]
            for count in range(1, rank + 1):
                for gone in combinations(words, count):
                    kept = _named(*(w for w in words if w not in gone))
                    found.append(Structure((names,), kept, gone))
    if inputs == 2:
        found += [_by_letters(spec) for spec in CONTRACTIONS]
        for stride, spread in ((1, 1), (2, 1), (1, 2)):
            i, w = Symbol("i").size(), Symbol("w").size()
            indices = ((i * stride + w * spread,), (w,))
            found.append(Structure(((i * stride + w * spread,), (w,)), (i,), ("w",), indices))
            found.append(Structure(((_read(stride, spread),), (w,)), (i,), ("w",), indices))
    if inputs == 1:
        i, w = Symbol("i").size(), Symbol("w").size()
        found += [Structure(((_read(s, d),),), (i,), ("w",), ((i * s + w * d,),)) for s, d in ((1, 1), (2, 1), (1, 2))]
    return tuple(found)


def _read(stride: int, spread: int) -> Dim:
    """How many elements windows read: `i` windows of `w` taps."""
    i, w = Symbol("i").size(), Symbol("w").size()
    return (i - 1) * stride + (w - 1) * spread + 1


SHORT = ("tcp.convolution_transpose", "tcp.pooling_argmax")
"""Classes that are short for others whatever their attributes: no step sees one, and they have tests of their own."""


def payload_classes() -> dict[str, type[Operation]]:
    """The operations a payload is written in: those of the `tcp` family that compute values, as many as they say."""
    return {
        opcode: cls
        for opcode, cls in tcpx.ops().items()
        if opcode.startswith("tcp.")
        and opcode not in SHORT
        and not cls.is_terminator
        and (cls.signature.result_count or issubclass(cls, Shorthand))
    }


def result_count(cls: type[Operation]) -> int:
    """How many results an operation of the class has here."""
    return cls.signature.result_count or 2


EXTENTS = {name: size for size, name in zip((5, 7, 3, 11), ("m", "n", "k", "b"), strict=True)} | {
    "j": 2, "i": 6, "w": 3, "t": 4, "u": 3, "d0": 5, "d1": 7, "d2": 3
}  # fmt: skip


def shape_at(shape: Shape, extents: dict[str, Dim]) -> Shape:
    """A shape with its dims replaced."""
    return tuple(substitute(d, {s: extents[s.name] for s in symbols(d)}) for d in shape)


def plain_generic(structure: Structure, operands: Sequence[Value], result: ScalarType) -> Generic:
    """A generic of this structure that hands out its accumulator, its first input, or zero: it has maps, no meaning."""
    block = Block([(f"e{k}", v.type.dtype) for k, v in enumerate(operands) if not isinstance(v.type, ScalarType)])
    if structure.reduced:
        block.args.append(Value("acc", result, block))
    if block.args:
        block.append(Yield([block.args[-1]]))
    else:
        block.append(Yield([block.append(Const.literal(1, result)).result]))
    alone = {map_dim(d) for shape in (*structure.maps, structure.result) for d in shape}
    kinds = [
        (d, "reduction" if d in structure.reduced else "parallel", *(() if d in alone else (EXTENTS[d],)))
        for d in structure.dims
    ]
    attributes: dict[str, Attribute] = {"iterators": tuple(kinds), "maps": (*structure.maps, structure.result)}
    if structure.reduced:
        attributes["combiner"] = "tcp.add"
    shape = shape_at(structure.result, dict(EXTENTS))
    return Generic(operands, [TensorType(shape, result)], attributes, [block])


def _values(shapes: Sequence[Shape], dtypes: Sequence[ScalarType]) -> list[Value]:
    block = Block()
    made = [
        Value(f"a{k}", TensorType(shape_at(s, dict(EXTENTS)), t), block)
        for k, (s, t) in enumerate(zip(shapes, dtypes, strict=False))
    ]
    block.args += made
    return made


def _fits(use: Use) -> bool:
    """Whether an operation used so is one: its rules hold."""
    shapes = [*use.structure.operands, *(use.structure.results if use.takes_init else [])]
    dtypes = use.dtypes[: len(use.structure.operands)]
    values = _values(shapes, [*dtypes, *(use.result_dtypes if use.takes_init else [])])
    made = use.cls(values, use.results(dict(EXTENTS)), dict(use.attributes))
    try:
        if isinstance(made, Shorthand):
            return bool(made.expanded())
        made.verify()
        if isinstance(made, Tileable):
            made.domain()
    except TcpxError:
        return False
    return True


def _wider(source: ScalarType, result: ScalarType) -> bool:
    return source.kind == result.kind and source.bits < result.bits


def _dtypes(cls: type[Operation], count: int) -> Iterator[tuple[ScalarType, ...]]:
    """Dtypes of operands and results: those of one result, and others of its dtype, or indices."""
    more = result_count(cls) - 1
    for dtypes in _dtypes_of_one(cls, count):
        for other in dict.fromkeys((dtypes[-1], si64, si32)) if more else (dtypes[-1],):
            yield (*dtypes, *(other,) * more)


def _dtypes_of_one(cls: type[Operation], count: int) -> Iterator[tuple[ScalarType, ...]]:
    """Dtypes of operands and result: equal, a wider result, a condition first, a comparison, a conversion."""
    lanewise = issubclass(cls, Elementwise)
    for t in NUMBERS:
        yield (t,) * (count + 1)
        for e in NUMBERS if count else ():
            if e != t and ((lanewise and count == 1) or (lanewise and e == i1) or _wider(t, e)):
                yield (*(t,) * count, e)
        if count > 1:
            yield (i1, *(t,) * count)
        if not lanewise and count:
            yield (t, *(si64,) * (count - 1), t)


def _attributes(
    cls: type[Operation], structure: Structure, dtypes: tuple[ScalarType, ...]
) -> list[dict[str, Attribute]]:
    """What the class derives from an operation of this structure; for a class outside the tree, the usual words that
    it has."""
    if issubclass(cls, Structured):
        derived = attributes_for(cls, plain_generic(structure, _values(structure.operands, dtypes), dtypes[-1]))
        needed = {field.key for field in cls.signature.attribute_fields if field.default is None}
        if derived is None or needed <= derived.keys():
            return [] if derived is None else [dict(derived)]
    rank = max((len(s) for s in structure.operands), default=0)
    one: list[dict[str, Attribute]] = [{"dim": k} for k in range(max(rank, len(structure.result)))]
    one += [{**held, "out_of_range": word} for held in one for word in ("clamp", "fill")]
    one += [{"dim": k, key: held} for k in range(rank) for key, held in (("exclusive", True), ("repeats", 2))]
    one.append({"repeats": (2,) * rank})
    value: Attribute = 0.0 if dtypes[-1].is_float else 0
    usual = [{}, *one, *({"dims": (k,)} for k in range(rank)), {"value": value}]
    usual += [{"value": value, "low": (1,) * rank}, {"value": value, "interior": (1,) * rank}] if rank else []
    names = cls.signature.attribute_names
    return [held for held in usual if names is None or held.keys() <= set(names)]


def _other_shapes(structure: Structure) -> Iterator[Structure]:
    """For a class outside the tree: the same, larger ones, one of lower rank with as many elements; of two, one as long
    as both; of three, one twice as long as the two others."""
    yield structure
    if structure.others:
        for at, dim in enumerate(structure.result):
            wide = (*structure.result[:at], len(structure.results) * dim, *structure.result[at + 1 :])
            yield replace(structure, operands=(wide,) * len(structure.operands))
        return
    if len(structure.operands) == 2 and structure.operands == (structure.result,) * 2:
        for at, dim in enumerate(structure.result):
            yield Structure(structure.operands, (*structure.result[:at], 2 * dim, *structure.result[at + 1 :]))
    if len(structure.operands) == 3 and structure.operands[0] == structure.result and structure.result:
        *outer, last = structure.result
        yield Structure(((*outer, 2 * last), *structure.operands[1:]), (*outer, 2 * last))
    if len(structure.operands) == 1 and structure.operands[0] == structure.result:
        shape = structure.result
        for at in range(len(shape)):
            yield Structure(structure.operands, (*shape[:at], shape[at] + 3, *shape[at + 1 :]))
            yield Structure(structure.operands, (*shape[:at], 2 * shape[at], *shape[at + 1 :]))
        if shape:
            yield Structure(structure.operands, tuple(2 * dim + 1 for dim in shape))
            yield Structure(structure.operands, tuple(2 * dim for dim in shape))
        for at in range(len(shape) - 1):
            yield Structure(structure.operands, (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]))
        if shape:
            yield Structure(structure.operands, (1, *shape))


def _candidates(cls: type[Operation], dtypes: tuple[ScalarType, ...], inputs: int) -> Iterator[Use]:
    for structure in _of_several(cls, (*structures(inputs), *map(_by_letters, INDEXED.get(inputs, ())))):
        for shaped in [structure] if issubclass(cls, Structured) else _other_shapes(structure):
            for attributes in _attributes(cls, shaped, dtypes):
                yield Use(cls, shaped, dtypes, tuple(attributes.items()))


def _of_several(cls: type[Operation], found: Sequence[Structure]) -> Iterator[Structure]:
    """The structures with as many results: all of one shape, or the first as long as the operand."""
    count = result_count(cls)
    for structure in found:
        yield replace(structure, others=(structure.result,) * (count - 1))
        if count > 1 and structure.reduced and structure.operands:
            yield replace(structure, result=structure.operands[0], others=(structure.result,) * (count - 1))


@cache
def uses_of(cls: type[Operation]) -> tuple[tuple[Use, ...], tuple[tuple[ScalarType, ...], ...]]:
    """The structures a class takes (on one choice of dtypes), and the dtypes it takes (on one structure)."""
    if cls is Generic:
        return _uses_of_generic()
    inputs = len(cls.signature.operand_names) + (2 if cls.signature.variadic else 0)
    kept: tuple[Use, ...] = ()
    for dtypes in ((f32,) * (inputs + result_count(cls)), *_dtypes(cls, inputs)):
        kept = tuple(use for use in _candidates(cls, dtypes, inputs) if _fits(use))
        if kept:
            break
    if not kept:
        return (), ()
    first = kept[-1]
    pairs = [dtypes for dtypes in _dtypes(cls, inputs) if _fits(_with_dtypes(first, dtypes))]
    return kept, tuple(pairs)


def _uses_of_generic() -> tuple[tuple[Use, ...], tuple[tuple[ScalarType, ...], ...]]:
    kept = [Use(Generic, s, (f32,) * (n + 1)) for n in (1, 2, 3) for s in structures(n) if s.operands]
    return tuple(kept), tuple((t,) for t in NUMBERS if t != i1)


def _with_dtypes(use: Use, dtypes: tuple[ScalarType, ...]) -> Use:
    attributes = tuple(
        (k, (float(v) if dtypes[-1].is_float else int(v)) if k == "value" and isinstance(v, int | float) else v)
        for k, v in use.attributes
    )
    return Use(use.cls, use.structure, dtypes, attributes, use.takes_init)


def with_dtypes(use: Use, dtypes: tuple[ScalarType, ...], takes_init: bool = False) -> Use | None:
    """The same use at other dtypes, with an `init` if asked for; None if the rules of the class forbid it."""
    made = _with_dtypes(use, dtypes)
    made = Use(made.cls, made.structure, made.dtypes, made.attributes, takes_init)
    return made if use.cls is Generic or _fits(made) else None


@cache
def scalar_classes(dtype: ScalarType, inputs: int) -> tuple[type[Operation], ...]:
    """The operations of one lane with so many operands and a result, all of this dtype."""
    return tuple(
        cls
        for cls in payload_classes().values()
        if issubclass(cls, Elementwise)
        and cls.opcode not in WHOLE_OPERANDS
        and len(cls.signature.operand_names) == inputs
        and (dtype,) * (inputs + 1) in uses_of(cls)[1]
    )


@cache
def combiners(dtype: ScalarType) -> tuple[str, ...]:
    """The opcodes of the associative operations of a dtype."""
    found: list[str] = []
    for opcode, cls in payload_classes().items():
        neutral_of = getattr(cls, "neutral_of", None)
        if neutral_of is not None and cls in scalar_classes(dtype, 2) and neutral_of(dtype) is not None:
            found.append(opcode)
    return tuple(found)


def class_of(opcode: str) -> type[Operation]:
    """The registered class; it is there."""
    found = operation_class(opcode)
    if found is None:
        raise KeyError(opcode)
    return found
