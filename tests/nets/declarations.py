"""Random operations, declared as a user would: each is a class made from drawn data, with a plain loop over its
iterations for its reference, and a function that has it as %v between a producer %p and a consumer %c.

All numbers are whole and small, so that sums are exact in any order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from random import Random
from typing import Any, ClassVar

import numpy as np

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import DimsAttribute, Operand, OptionalOperand, Result
from tcpx.payload.indexing_maps import IndexingMap, element_of
from tcpx.payload.interfaces import Build, Iterator, IteratorKind, Position, Ragged, Structured
from tcpx.payload.ir import Attribute, Value, register
from tcpx.payload.ops.constant import splat
from tcpx.payload.ops.elementwise import Add, Cast, Max, Min, Mul, Sub
from tcpx.payload.ops.select import Less, Select
from tcpx.payload.sizes import Dim, Symbol
from tcpx.payload.traits.reduction import Reduction
from tcpx.payload.types import f32, si32

PARALLEL, REDUCTION, SEQUENTIAL = IteratorKind.PARALLEL, IteratorKind.REDUCTION, IteratorKind.SEQUENTIAL
DTYPES = {"f32": f32, "si32": si32}
BUILT = {"add": Add, "sub": Sub, "mul": Mul, "max": Max, "min": Min}
RISING = -1
"""The constant of an index that falls, where the operand is a tile that already shows it backwards."""

Tree = tuple[Any, ...]
"""An expression: ("arg", 0), ("number", 3), ("add", a, b), or ("select", a, b, c, d), c where a < b and else d."""


@dataclass(frozen=True)
class Index:
    """An entry of a map: the sum of dims times factors and of a constant, or the element of operand `element`."""

    factors: Mapping[str, int]
    constant: int = 0
    element: int | None = None

    @property
    def dim(self) -> str | None:
        """The dim, if it is one alone."""
        return next(iter(self.factors)) if not self.constant and [*self.factors.values()] == [1] else None

    @property
    def falls(self) -> bool:
        return len(self.factors) == 1 and min(self.factors.values()) < 0

    @property
    def cannot_be_cut(self) -> bool:
        """Whether no tile of its dims is one of the operand."""
        return len(self.factors) > 1 and min(self.factors.values()) < 0

    def expression(self, constant: Dim) -> Dim:
        """As an entry of an indexing map."""
        if self.element is not None:
            return element_of(self.element)
        if self.falls and constant == RISING:
            return Symbol(next(iter(self.factors))).size()
        total: Dim = constant
        for name, factor in self.factors.items():
            total = total + factor * Symbol(name).size()
        return total

    def at(self, point: Mapping[str, int], constant: int, elements: Sequence[int]) -> int:
        """Its value in an iteration, where these are the elements of the operands that are indices."""
        if self.element is not None:
            return elements[self.element]
        if self.falls and constant == RISING:
            return point[next(iter(self.factors))]
        return constant + sum(factor * point[name] for name, factor in self.factors.items())


@dataclass(frozen=True)
class Argument:
    """An operand: its map, the text of its extents, what it holds, and what of it the function declares."""

    name: str
    map: tuple[Index, ...]
    extents: tuple[str, ...]
    holds: str = "numbers"
    """Else "indices" or "bounds"."""
    below: str = ""
    """What the indices or bounds are below."""


@dataclass(frozen=True)
class Declaration:
    """What was drawn."""

    number: int
    dtype: str
    kinds: Mapping[str, IteratorKind]
    extents: Mapping[str, str]
    declared: Mapping[str, int]
    operands: tuple[Argument, ...]
    results: tuple[tuple[Index, ...], ...]
    positions: tuple[Index, ...]
    ragged: tuple[str, int, int] | None
    bodies: tuple[Tree, ...]
    combiner: str
    """How a reduction combines: an operation, two of them, or "largest", "last", "affine"."""
    has_init: bool
    clamps: bool
    symbols: tuple[str, ...]
    written: str
    """The extent of what a scatter writes."""

    @property
    def opcode(self) -> str:
        return f"drawn.op{self.number}"

    @property
    def reduces(self) -> bool:
        return any(kind is not PARALLEL for kind in self.kinds.values())

    @property
    def is_sequential(self) -> bool:
        return SEQUENTIAL in self.kinds.values()

    @property
    def is_commutative(self) -> bool:
        return not self.is_sequential and self.combiner not in ("last", "affine")

    @property
    def scatters(self) -> bool:
        return any(e.element is not None for e in self.results[0])

    @property
    def is_irregular(self) -> bool:
        return self.scatters or self.ragged is not None

    @property
    def constants(self) -> tuple[tuple[int, int], ...]:
        """The operand and the entry of each index that is no dim alone: its constant is another in a tile."""
        return tuple(
            (k, n)
            for k, operand in enumerate(self.operands)
            for n, e in enumerate(operand.map)
            if e.element is None and e.dim is None
        )

    @property
    def cut(self) -> tuple[str, ...]:
        """The dims of which there are tiles."""
        entries = [e for operand in self.operands for e in operand.map]
        return tuple(d for d in self.kinds if not any(d in e.factors and e.cannot_be_cut for e in entries))

    def names(self, result: int = 0) -> tuple[str | None, ...]:
        """The dim of each entry of the map of a result; None where an element says."""
        return tuple(e.dim for e in self.results[result])

    def shape(self, result: int) -> str:
        """The type of a result in the text."""
        extents = [self.written if name is None else self.extents[name] for name in self.names(result)]
        return f"tensor<{''.join(f'{extent}x' for extent in extents)}{self.dtype}>"

    def payload(self) -> str:
        """The function."""
        args: list[str] = []
        for operand in self.operands:
            dtype = self.dtype if operand.holds == "numbers" else "si64"
            declares = operand.holds == "bounds" or (operand.holds == "indices" and not self.clamps)
            range_ = f" in 0 to {operand.below}" if declares else ""
            args.append(f"%{operand.name}: tensor<{''.join(f'{e}x' for e in operand.extents)}{dtype}>{range_}")
        types = [self.shape(k) for k in range(len(self.results))]
        args += [f"%z{k}: {type_}" for k, type_ in enumerate(types)]
        first = args[0].split(": ", 1)[1]
        given = ", ".join(["%p", *(f"%{o.name}" for o in self.operands[1:])])
        inits = [f"%z{k}" for k in range(len(types))]
        init = f", init = {inits[0] if len(inits) == 1 else '(' + ', '.join(inits) + ')'}" if self.has_init else ""
        attributes: dict[str, Sequence[int]] = {}
        if self.declared:
            attributes["size"] = list(self.declared.values())
        if self.constants:
            attributes["constants"] = [self.operands[k].map[n].constant for k, n in self.constants]
        held = f" {{{', '.join(f'{key} = {value}' for key, value in attributes.items())}}}" if attributes else ""
        made = ", ".join(("%v", "%w")[: len(types)])
        least = 1 if self.clamps else 0
        symbols = ", ".join(f"{s}: {least if s == 'V' else 0}..1000" for s in self.symbols)
        return (
            f"func @f({', '.join(args)}) -> ({', '.join(types)})"
            + (f" symbols [{symbols}]" if symbols else "")
            + f" {{\n  %p = tcp.add(%x0, %x0) : {first}\n"
            + f"  {made} = {self.opcode}({given}{init}){held} : {', '.join(types)}\n"
            + f"  %c = tcp.add(%v, %z0) : {types[0]}\n  tcp.return({', '.join(['%c', '%w'][: len(types)])})\n}}\n"
        )

    def arguments(self, sizes: Mapping[str, int]) -> list[Array]:
        """Whole numbers for the function at these sizes."""
        random = np.random.default_rng([self.number, *sizes.values()])

        def size(text: str) -> int:
            return int(eval(text.strip("[]"), {"__builtins__": {}}, dict(sizes)))  # noqa: S307 - drawn here

        made: list[Array] = []
        for operand in self.operands:
            shape = tuple(size(e) for e in operand.extents)
            if operand.holds == "numbers":
                made.append(random.integers(-3, 4, shape).astype(DTYPES[self.dtype].numpy))
                continue
            below = size(operand.below)
            low, high = (-2, below + 3) if self.clamps and operand.holds == "indices" else (0, max(below, 1))
            made.append(random.integers(low, high, shape).astype(np.int64))
        for k in range(len(self.results)):
            shape = tuple(size(self.written if n is None else self.extents[n]) for n in self.names(k))
            made.append(random.integers(-3, 4, shape).astype(DTYPES[self.dtype].numpy))
        return made


class Drawn(Structured):
    """An operation that was drawn."""

    __slots__ = ()
    class_name = "drawn"
    drawn: ClassVar[Declaration]
    size, constants, begins, starts = DimsAttribute(), DimsAttribute(), DimsAttribute(), DimsAttribute("origins")
    init = OptionalOperand()

    def _extents(self) -> Mapping[str, Dim]:
        return dict(zip(self.drawn.declared, self.size, strict=True))

    def _constants(self) -> Mapping[tuple[int, int], Dim]:
        return dict(zip(self.drawn.constants, self.constants, strict=True))

    @classmethod
    def attributes_for(cls, op: Structured) -> Mapping[str, Attribute] | None:
        return None  # others are in the package, and tests beside these ask for the nearest class

    def iterators(self) -> tuple[Iterator, ...]:
        extents = self._extents()
        return tuple(Iterator(name, kind, extents.get(name)) for name, kind in self.drawn.kinds.items())

    def maps(self) -> tuple[IndexingMap, ...]:
        held = self._constants()
        return tuple(
            tuple(e.expression(held.get((k, n), 0)) for n, e in enumerate(operand.map))
            for k, operand in enumerate(self.drawn.operands)
        )

    def result_maps(self) -> tuple[IndexingMap, ...]:
        return tuple(tuple(e.expression(0) for e in entries) for entries in self.drawn.results)

    def result_map(self) -> IndexingMap:
        return self.result_maps()[0]

    def declaring(self, extents: Mapping[str, Dim]) -> Mapping[str, Attribute]:
        return {"size": tuple(extents[name] for name in self.drawn.declared)} if self.drawn.declared else {}

    def reading_by(self, index: int, indexing_map: IndexingMap) -> Mapping[str, Attribute] | None:
        held = dict(self._constants())
        for n, (e, wanted) in enumerate(zip(self.drawn.operands[index].map, indexing_map, strict=True)):
            if (index, n) in held:
                fitting = [c for c in (held[index, n], 0, RISING) if e.expression(c) == wanted]
                if not fitting:
                    return None
                held[index, n] = fitting[0]
        return {"constants": tuple(held.values())}

    def positions(self) -> tuple[Position, ...]:
        origins = self.starts or (0,) * len(self.drawn.positions)
        return tuple(
            Position(e.expression(e.constant), si32, o) for e, o in zip(self.drawn.positions, origins, strict=True)
        )

    @property
    def clamps_indices(self) -> bool:  # type: ignore[override]
        return self.drawn.clamps

    @property
    def is_commutative(self) -> bool:
        return self.drawn.is_commutative

    def ragged(self) -> Mapping[str, Ragged]:
        if self.drawn.ragged is None:
            return {}
        name, first, end = self.drawn.ragged
        return {name: Ragged(first, end, *self.begins)}

    def ragged_from(self, origins: Mapping[str, Dim]) -> Mapping[str, Attribute]:
        return {"begins": tuple(origins.values())}

    def neutrals(self) -> tuple[float | int, ...] | None:
        if not self.drawn.reduces:
            return None
        return self._neutrals()

    def neutral(self) -> float | int | None:
        return self._neutrals()[0] if self.drawn.reduces else None

    def _neutrals(self) -> tuple[float | int, ...]:
        dtype, combiner = self.acc_types[0], self.drawn.combiner
        number = {"add": 0, "max": dtype.minimum, "min": dtype.maximum}
        if self.drawn.is_sequential:
            return (0,) * len(self.results)
        tuples = {"largest": (dtype.minimum, dtype.maximum), "last": (0, 0), "affine": (1, 0)}
        return tuples[combiner] if combiner in tuples else tuple(number[c] for c in combiner.split())

    def combine(self, build: Build, lhs: Value, rhs: Value) -> Value:
        return build(BUILT[self.drawn.combiner].of(lhs, rhs))

    def joined(self, build: Build, lhs: Sequence[Value], rhs: Sequence[Value]) -> tuple[Value, ...]:
        (a, *i), (b, *j) = lhs, rhs
        match self.drawn.combiner:
            case "largest":
                first = build(Select.of(build(Less.of(b, a)), i[0], build(Min.of(i[0], j[0]))))
                return build(Max.of(a, b)), build(Select.of(build(Less.of(a, b)), j[0], first))
            case "last":
                given = build(Less.of(splat(build, 0, b.type), b))
                return build(Max.of(a, b)), build(Select.of(given, j[0], i[0]))
            case "affine":
                return build(Mul.of(a, b)), build(Add.of(build(Mul.of(i[0], b)), j[0]))
            case combiner:
                pairs = zip(combiner.split(), lhs, rhs, strict=True)
                return tuple(build(BUILT[name].of(x, y)) for name, x, y in pairs)

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        return self.elements(build, args, () if acc is None else (acc,))[0]

    def elements(self, build: Build, args: Sequence[Value], accumulators: Sequence[Value]) -> tuple[Value, ...]:
        dtype = DTYPES[self.drawn.dtype]
        numbers = [x for x, o in zip(args, self.drawn.operands, strict=False) if o.holds == "numbers"]
        for x in args[len(self.drawn.operands) :]:
            numbers.append(x if dtype is si32 else build(Cast.of(x, dtype)))
        made = tuple(_build(build, body, numbers) for body in self.drawn.bodies)
        if self.drawn.is_sequential:
            place = next(k for k in range(len(self.results)) if Reduction(self).has_accumulator(k))
            return tuple(self.combine(build, accumulators[place], made[0]) for _ in self.results)
        return self.joined(build, accumulators, made) if accumulators else made

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return run(self, args, evaluation)


def _build(build: Build, tree: Tree, numbers: Sequence[Value]) -> Value:
    match tree:
        case ("arg", int(k)):
            return numbers[k]
        case ("number", number):
            return splat(build, number, numbers[0].type)
        case ("select", *parts):
            a, b, c, d = (_build(build, part, numbers) for part in parts)
            return build(Select.of(build(Less.of(a, b)), c, d))
        case (name, *parts):
            return build(BUILT[name].of(*(_build(build, part, numbers) for part in parts)))
        case _:
            raise ValueError(tree)


def _number(tree: Tree, numbers: Sequence[int]) -> int:
    match tree:
        case ("arg", k):
            return numbers[k]
        case ("number", number):
            return int(number)
        case (name, *parts):
            a, b, *rest = (_number(part, numbers) for part in parts)
            if name == "select":
                return rest[0] if a < b else rest[1]
            return _simple(name, a, b)
        case _:
            raise ValueError(tree)


def _simple(name: str, a: Any, b: Any) -> Any:
    return {"add": a + b, "sub": a - b, "mul": a * b, "max": max(a, b), "min": min(a, b)}[name]


def _join(combiner: str, lhs: Sequence[Any], rhs: Sequence[Any]) -> list[Any]:
    """Two partial results as one, in numbers of Python."""
    match combiner:
        case "largest":
            return list(max((lhs, rhs), key=lambda pair: (pair[0], -pair[1])))
        case "last":
            return [max(lhs[0], rhs[0]), rhs[1] if rhs[0] > 0 else lhs[1]]
        case "affine":
            return [lhs[0] * rhs[0], lhs[1] * rhs[0] + rhs[1]]
        case _:
            return [_simple(name, a, b) for name, a, b in zip(combiner.split(), lhs, rhs, strict=True)]


def run(op: Drawn, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
    """What the operation computes, an iteration at a time."""
    drawn = op.drawn
    inputs, inits = args[: len(drawn.operands)], args[len(drawn.operands) :]
    numpy_dtype = DTYPES[drawn.dtype].numpy
    held = dict(zip(drawn.constants, map(evaluation.size, op.constants), strict=True))
    shapes = [evaluation.shape(result.type) for result in op.results]
    extents: dict[str, int] = {}
    for entries, shape in [
        *zip(drawn.results, shapes, strict=True),
        *((o.map, x.shape) for o, x in zip(drawn.operands, inputs, strict=True)),
    ]:
        for e, extent in zip(entries, shape, strict=True):
            if e.element is None and e.dim is not None:
                extents.setdefault(e.dim, extent)
    extents |= dict(zip(drawn.declared, map(evaluation.size, op.size), strict=True))
    origins = [evaluation.size(o) for o in op.starts] or [0] * len(drawn.positions)
    begin = evaluation.size(op.begins[0]) if op.begins else 0
    if inits:
        made = [x.astype(object) for x in inits]
    elif drawn.reduces:
        made = [np.full(shape, n, object) for shape, n in zip(shapes, op._neutrals(), strict=True)]
    else:
        made = [np.zeros(shape, object) for shape in shapes]
    carried = None
    if drawn.is_sequential:
        carried = next(k for k, m in enumerate(drawn.results) if "s" not in {e.dim for e in m})

    def read(k: int, point: Mapping[str, int], elements: Sequence[int]) -> int:
        at = [e.at(point, held.get((k, n), 0), elements) for n, e in enumerate(drawn.operands[k].map)]
        if drawn.clamps:
            at = [min(max(i, 0), n - 1) for i, n in zip(at, inputs[k].shape, strict=True)]
        assert all(0 <= i < n for i, n in zip(at, inputs[k].shape, strict=True)), (at, inputs[k].shape)
        return int(inputs[k][tuple(at)])

    names = list(drawn.kinds)
    for values in product(*(range(extents[name]) for name in names)):
        point = dict(zip(names, values, strict=True))
        elements = [read(k, point, ()) if o.holds != "numbers" else 0 for k, o in enumerate(drawn.operands)]
        if drawn.ragged is not None:
            name, first, end = drawn.ragged
            if not elements[first] <= point[name] + begin < elements[end]:
                continue
        numbers = [read(k, point, elements) for k, o in enumerate(drawn.operands) if o.holds == "numbers"]
        numbers += [e.at(point, e.constant, ()) + o for e, o in zip(drawn.positions, origins, strict=True)]
        given = [_number(body, numbers) for body in drawn.bodies]
        places: list[tuple[int, ...]] = []
        for entries, shape in zip(drawn.results, shapes, strict=True):
            place = [e.at(point, 0, elements) for e in entries]
            if drawn.clamps:
                place = [min(max(i, 0), n - 1) for i, n in zip(place, shape, strict=True)]
            places.append(tuple(place))
        if carried is not None:
            new = _simple(drawn.combiner, made[carried][places[carried]], given[0])
            given = [new] * len(made)
        elif drawn.reduces:
            given = _join(drawn.combiner, [m[place] for m, place in zip(made, places, strict=True)], given)
        for m, place, number in zip(made, places, given, strict=True):
            m[place] = number
    return tuple(m.astype(numpy_dtype) for m in made)


class _Draw:
    """One draw."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.random = Random(number)
        self.symbols: list[str] = []
        self.kinds: dict[str, IteratorKind] = {}
        self.extents: dict[str, str] = {}
        self.declared: dict[str, int] = {}
        self.operands: list[Argument] = []

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def static(self, name: str) -> int | None:
        """The extent of a dim, if it is a number."""
        return int(self.extents[name]) if self.extents[name].isdigit() else None

    def declaration(self) -> Declaration:
        random = self.random
        dtype = random.choice(["f32", "si32"])
        shape = random.choices(["parallel", "reduction", "sequential"], [2, 5, 2])[0]
        names = ["i", "j", "l"][: random.choices([1, 2, 3], [2, 4, 1])[0]]
        kinds = dict.fromkeys(names, PARALLEL)
        if shape == "sequential":
            kinds["s"] = SEQUENTIAL
        elif shape == "reduction":
            kinds |= dict.fromkeys(["r", "t"][: 2 if self.chance(0.35) and len(names) < 3 else 1], REDUCTION)
        order = list(kinds)
        random.shuffle(order)
        kind = random.choices(["", "gather", "scatter", "ragged"], [3, 4, 3, 4])[0]
        if kind == "ragged":  # behind a dim that may bound it
            order.remove(names[0])
            order.insert(0, names[0])
        self.kinds = {name: kinds[name] for name in order}
        for name in order:
            draw = random.random()
            if draw < (0.3 if kinds[name] is REDUCTION else 0.1):
                self.declared[name] = random.randint(2, 4)
                self.extents[name] = str(self.declared[name])
            elif draw < 0.4:
                self.extents[name] = str(random.choice([3, 4, 6, 7, 11]))
            else:
                self.symbols.append(name.upper())
                self.extents[name] = f"[{name.upper()}]"
        count = random.choices([1, 2, 3], [3, 4, 1])[0]
        maps = [self._map() for _ in range(count)]
        if self.chance(0.5):
            maps[0] = [Index({name: 1}) for e in maps[0] for name in [*e.factors][:1]]
        named = {e.dim for entries in maps for e in entries}
        lone = [n for n in order if kinds[n] is not PARALLEL and n not in self.declared]
        used = {n for entries in maps for e in entries for n in e.factors}
        for name in self.kinds:
            if name not in named and (name in lone or name not in used):
                maps[random.randrange(count)].append(Index({name: 1}))
        reduced = [n for n in order if kinds[n] is REDUCTION]
        clamps, written, element = False, "", None
        ragged: tuple[str, int, int] | None = None
        if kind == "gather":
            places = [(k, n) for k, m in enumerate(maps) for n, e in enumerate(m) if e.dim is not None]
            free = [(k, n) for k, n in places if sum(maps[k][n].dim == maps[a][b].dim for a, b in places) > 1]
            free += [(k, n) for k, n in places if self.kinds[maps[k][n].dim or ""] is PARALLEL]
            if free:
                clamps = self.chance(0.3)
                k, n = random.choice(free)
                by = [maps[k][n].dim or "", *(["i"] if self.chance(0.3) and maps[k][n].dim != "i" else [])]
                maps[k][n] = Index({}, element=count)
                self.symbols.append("V")
        self.operands = [Argument(f"x{k}", tuple(m), tuple(self._extent(e) for e in m)) for k, m in enumerate(maps)]
        if self.symbols and self.symbols[-1] == "V" and kind == "gather":
            self._more(by, "indices", "V")
        if kind == "scatter" and reduced:
            by = [random.choice(reduced), *(["i"] if self.chance(0.3) else [])]
            element, written = count, "[V]"
            self.symbols.append("V")
            self._more(by, "indices", "V")
        if kind == "ragged":
            name = random.choice(reduced) if reduced else ""
            before = [n for n in order[: order.index(name)] if kinds[n] is PARALLEL] if reduced else []
            if before:
                by = [random.choice(before)]
                ragged = (name, count, count + 1)
                bound = self.extents[name].strip("[]") + " + 1"
                self._more(by, "bounds", bound)
                self._more(by, "bounds", bound)
        has_two = self.chance(0.4)
        parallel = [n for n, k in self.kinds.items() if k is PARALLEL]
        results = [self._result(parallel, element)]
        if has_two:
            more = ["s"] if shape == "sequential" else []
            results.append(self._result([*parallel, *more], element))
            if shape == "sequential" and self.chance(0.5):
                results.reverse()
        positions = tuple(self._position() for _ in range(random.choices([0, 1, 2], [6, 3, 1])[0]))
        leaves = count + len(positions)
        bodies = [self._tree(leaves) for _ in results]
        combiner = random.choice(["add", "add", "max", "min"])
        if has_two and shape == "reduction":
            pair = f"{combiner} {random.choice(['add', 'max', 'min'])}"
            combiner = random.choice([pair, pair, "largest", "last", "affine"])
            one, zero = ("number", 1), ("number", 0)
            if combiner == "last":
                bodies = [("select", zero, bodies[0], one, zero), ("select", zero, bodies[0], bodies[1], zero)]
            elif combiner == "affine":
                bodies[0] = ("max", ("number", -1), ("min", one, bodies[0]))
        is_commutative = shape != "parallel" and combiner != "last" and self.chance(0.3)
        symbols = tuple(dict.fromkeys(self.symbols))
        return Declaration(
            self.number,
            dtype,
            self.kinds,
            self.extents,
            self.declared,
            tuple(self.operands),
            tuple(results),
            positions,
            ragged,
            tuple(bodies),
            combiner,
            is_commutative,
            clamps,
            symbols,
            written,
        )

    def _map(self) -> list[Index]:
        random = self.random
        names = random.sample([*self.kinds], random.randint(1, min(3, len(self.kinds))))
        return [self._entry(name) for name in names]

    def _entry(self, name: str) -> Index:
        random, extent = self.random, self.static(name)
        draw = random.random()
        others = [n for n in self.kinds if n != name and SEQUENTIAL not in (self.kinds[n], self.kinds[name])]
        if draw < 0.2 and others:
            taps = [n for n in others if n in self.declared] or others
            return Index({name: random.choice([1, 1, 2, 3]), random.choice(taps): 1}, random.choice([0, 0, 1]))
        if draw < 0.28:
            return Index({name: random.choice([1, 2])}, random.choice([1, 2]))
        if draw < 0.5 and extent is not None:
            factor = random.choice([1, 1, 2])
            return Index({name: -factor}, factor * (extent - 1) + random.choice([0, 0, 1]))
        if draw < 0.7 and extent is not None:
            fixed = [n for n in others if self.static(n) is not None]
            if fixed:
                return Index({random.choice(fixed): 1, name: -1}, extent - 1)
        return Index({name: 1})

    def _extent(self, e: Index) -> str:
        """The text of an extent that has all that is read."""
        if e.element is not None:
            return "[V]"
        if e.dim is not None:
            more = self.random.choice([0, 0, 1]) if e.dim in self.declared else 0
            return str(self.declared[e.dim] + more) if more else self.extents[e.dim]
        constant, terms = e.constant, list[str]()
        for name, factor in e.factors.items():
            extent = self.static(name)
            if extent is not None:
                constant += max(0, factor * (extent - 1))
            else:
                terms.append(f"{factor}*{name.upper()}")
        constant += 0 if terms else 1
        return f"[{' + '.join([*terms, str(constant)])}]" if terms else str(constant)

    def _more(self, by: Sequence[str], holds: str, below: str) -> None:
        entries = tuple(Index({name: 1}) for name in by)
        name = f"k{len(self.operands)}"
        self.operands.append(Argument(name, entries, tuple(self.extents[n] for n in by), holds, below))

    def _result(self, names: Sequence[str], element: int | None) -> tuple[Index, ...]:
        entries = [Index({name: 1}) for name in names]
        if element is not None:
            entries.append(Index({}, element=element))
        if self.chance(0.6):
            self.random.shuffle(entries)
        return tuple(entries)

    def _position(self) -> Index:
        names = self.random.sample([*self.kinds], min(len(self.kinds), self.random.choice([1, 1, 2])))
        return Index({name: self.random.choice([1, 1, 2]) for name in names})

    def _tree(self, leaves: int) -> Tree:
        """Products only of sums, and of no products: what is summed stays small."""
        random = self.random

        def leaf() -> Tree:
            return ("arg", random.randrange(leaves)) if self.chance(0.85) else ("number", random.randint(-2, 2))

        def sum_() -> Tree:
            return leaf() if self.chance(0.6) else (random.choice(["add", "sub", "max", "min"]), leaf(), leaf())

        name = random.choice(["add", "mul", "max", "sub", "select", "arg"])
        first = ("arg", random.randrange(leaves))
        match name:
            case "arg":
                return first
            case "select":
                return ("select", first, sum_(), sum_(), leaf())
            case _:
                return (name, first, sum_())


@cache
def declared(number: int) -> type[Drawn]:
    """The class of this number, which the parser knows from now on."""
    drawn = _Draw(number).declaration()
    body: dict[str, Any] = {"__slots__": (), "opcode": drawn.opcode, "drawn": drawn}
    body |= {"__doc__": f"Drawn from {number}.", "fixed_dims": tuple(drawn.kinds), "__module__": __name__}
    body |= {operand.name: Operand() for operand in drawn.operands}
    if len(drawn.results) > 1:
        body |= {"first": Result(), "second": Result()}
    return register(type(f"Drawn{number}", (Drawn,), body))
