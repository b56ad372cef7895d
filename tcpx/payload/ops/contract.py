"""Contractions: sums of products over any dims."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import ClassVar

import numpy as np

from tcpx.payload.contexts import are_equal_at
from tcpx.payload.diagnostics import Direction, statements_to_write
from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import ElementsAttribute, Operand, OptionalOperand
from tcpx.payload.indexing_maps import DimDigit, IndexingMap, dims, map_digit, map_dim, map_dims, map_name
from tcpx.payload.interfaces import Build, Iterator, Structured, parallel, reduction
from tcpx.payload.ir import Attribute, Value, operation_classes, register
from tcpx.payload.ops.elementwise import Add, Mul, cast_to, converted
from tcpx.payload.ops.sums_of_products import sum_of_products
from tcpx.payload.sizes import Dim, Symbol
from tcpx.payload.types import ScalarType, accumulator_of, dtype_of, shape_of


class SumOfProducts(Structured):
    """A reduction by `+` whose body multiplies the elements of its two inputs, in the dtype of the result."""

    __slots__ = ()

    @property
    def accumulators(self) -> tuple[ScalarType, ...]:
        return (accumulator_of(self.acc_type),)

    def neutral(self) -> float | int | None:
        return 0

    def combine(self, build: Build, lhs: Value, rhs: Value) -> Value:
        return build(Add.of(lhs, rhs))

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        lhs, rhs = (cast_to(build, a, self.acc_type) for a in args)
        product = build(Mul.of(lhs, rhs))
        return product if acc is None else build(Add.of(acc, product))

    def verify(self) -> None:
        for value in self.operands[2:]:
            if dtype_of(value.type) != self.acc_type:
                raise self.error(
                    "`init` has the dtype of the result", required=self.acc_type.name, found=str(value.type)
                )
        super().verify()

    def factors(self, args: Sequence[Array]) -> list[Array]:
        """The first two arguments as the body multiplies them, in the dtype in which products are added."""
        wide = accumulator_of(self.acc_type).numpy
        pairs = zip(args[:2], self.operands[:2], strict=True)
        return [converted(array, dtype_of(value.type), self.acc_type).astype(wide) for array, value in pairs]


class ContractBase(SumOfProducts):
    """result = init + sum over the reduction dims of lhs * rhs, in the dtype of the result."""

    __slots__ = ()
    attribute_names = ()
    class_name = "contract"
    lhs, rhs, init = Operand(), Operand(), OptionalOperand()

    def pad_value(self, index: int, reduced: bool) -> float | int | None:
        del index, reduced
        return 0

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        extents = {it.name: evaluation.extent(d) for it, d in zip(self.iterators(), self.domain(), strict=True)}
        lhs, rhs = (_by_dim(a, m, extents) for a, m in zip(self.factors(args), self.maps(), strict=True))
        total = summed_products(lhs, rhs, [map_dim(e) or "" for e in self.result_map()], extents)
        if len(args) > 2:
            total = np.add(total, args[2].astype(total.dtype))
        return (total.astype(self.acc_type.numpy),)


def summed_products(
    lhs: tuple[Array, list[str]], rhs: tuple[Array, list[str]], out: Sequence[str], extents: Mapping[str, int]
) -> Array:
    """The sums of the products of two arrays, each with the names of its dims, over those of `extents` that are not in
    `out`."""
    reduced = {name: extent for name, extent in extents.items() if name not in out}
    if reduced:
        return sum_of_products(*_repeated(*lhs, reduced), *_repeated(*rhs, reduced), out)
    return np.multiply(_along(*lhs, out), _along(*rhs, out))


def _by_dim(array: Array, indexing_map: IndexingMap, extents: Mapping[str, int]) -> tuple[Array, list[str]]:
    """The array with one axis for each dim, and the names of these: it may hold a dim by digits, or be read along a
    diagonal."""
    array, names = _without_digits(array, indexing_map, extents)
    for again in reversed([k for k, name in enumerate(names) if name in names[:k]]):
        first = names.index(names.pop(again))
        array = np.moveaxis(array.diagonal(0, first, again), -1, first)
    return array, names


def _without_digits(array: Array, indexing_map: IndexingMap, extents: Mapping[str, int]) -> tuple[Array, list[str]]:
    """The array with every dim that it holds by digits as one, and the names of its dims."""
    names: list[str] = [map_dim(e) or "" for e in indexing_map]
    for quotient in [digit for e in indexing_map if (digit := map_digit(e)) is not None and not digit.is_remainder]:
        digits = [map_digit(e) if not name else None for e, name in zip(indexing_map, names, strict=True)]
        at, inner = (next(k for k, d in enumerate(digits) if d == wanted) for wanted in (quotient, quotient.partner))
        order = [k for k in range(array.ndim) if k != inner]
        order.insert(order.index(at) + 1, inner)
        array, names = array.transpose(order), [names[k] for k in order]
        indexing_map = tuple(indexing_map[k] for k in order)
        at = order.index(at)
        array = array.reshape(*array.shape[:at], array.shape[at] * array.shape[at + 1], *array.shape[at + 2 :])
        array = array[(*(slice(None),) * at, slice(extents[quotient.dim]))]
        names[at : at + 2] = [quotient.dim]
        indexing_map = (*indexing_map[:at], Symbol(quotient.dim).size(), *indexing_map[at + 2 :])
    return array, names


def _repeated(array: Array, own: list[str], reduced: Mapping[str, int]) -> tuple[Array, list[str]]:
    """A factor and its dims with every reduction dim: one that it lacks is repeated."""
    lacking = [name for name in reduced if name not in own]
    shape = (*array.shape, *(reduced[name] for name in lacking))
    wider = array.reshape(*array.shape, *(1 for _ in lacking))
    return np.broadcast_to(wider, shape), own + lacking


def _along(array: Array, own: list[str], wanted: Sequence[str]) -> Array:
    """The array with its dims, called `own`, placed among those of the result; nothing is added to it, not even 0."""
    placed = np.transpose(array, [own.index(name) for name in wanted if name in own])
    extents = dict(zip(own, array.shape, strict=True))
    return placed.reshape([extents.get(name, 1) for name in wanted])


@register
class Contract(ContractBase):
    """A contraction over dims named by `lhs`, `rhs` and `out`, like einsum: dims missing in `out` are summed.

    An operand may split the index of a dim into digits, `["k/4", "n", "k%4"]`: quotient and remainder by one number.
    """

    __slots__ = ()
    opcode = "tcp.contract"
    lhs_dims = ElementsAttribute(str, "a list of the names of dims, quoted", "lhs", '["m", "k"]')
    rhs_dims = ElementsAttribute(str, "a list of the names of dims, quoted", "rhs", '["k", "n"]')
    out_dims = ElementsAttribute(str, "a list of the names of dims, quoted", "out", '["m", "n"]')

    @classmethod
    def attributes_for(cls, op: Structured) -> Mapping[str, Attribute] | None:
        out = map_dims(op.result_map())
        found = [_names(m) for m in op.maps()]
        named = [names for names in found if names is not None]
        if out is None or len(found) != 2 or len(named) != 2:
            return None
        return {"lhs": named[0], "rhs": named[1], "out": out}

    def usual_attribute(self, key: str) -> str:
        """The names, listed and quoted, where they are given otherwise."""
        match self.attributes.get(key):
            case str(text):
                return json.dumps(list(text))
            case tuple(entries):
                return json.dumps([str(entry) for entry in entries])
            case _:
                return ""

    def check_attributes(self) -> None:
        """As of any operation; each name is that of a dim, or of a digit of one where an operand is indexed."""
        super().check_attributes()
        lists = {"lhs": self.lhs_dims, "rhs": self.rhs_dims, "out": self.out_dims}
        for key, names in lists.items():
            wrong = next((n for n in names if not n.isidentifier() and (key == "out" or not _DIGIT.fullmatch(n))), None)
            if wrong is not None:
                raise self.error(
                    f"`{key}` lists {json.dumps(wrong)}, which is no dim",
                    required='names of dims, such as "k"'
                    + ("" if key == "out" else ', or digits of one, "k/4" and "k%4"'),
                    found=json.dumps(wrong),
                    fix=_dim_meant(wrong, key == "out"),
                )

    def iterators(self) -> tuple[Iterator, ...]:
        out = self.out_dims
        read = (map_name(e) for m in self.maps() for e in m)
        inputs = dict.fromkeys(name for name in read if name is not None)
        return parallel(*out) + reduction(*(d for d in inputs if d not in out))

    def maps(self) -> tuple[IndexingMap, ...]:
        return tuple(map(_expression, self.lhs_dims)), tuple(map(_expression, self.rhs_dims))

    def result_map(self) -> IndexingMap:
        return dims(*self.out_dims)

    def reading_by(self, index: int, indexing_map: IndexingMap) -> Mapping[str, Attribute] | None:
        names = _names(indexing_map)
        return {self.signature.operand_names[index]: names} if names is not None else None

    def verify(self) -> None:
        read = dict.fromkeys(name for m in self.maps() for e in m if (name := map_name(e)) is not None)
        out = self.out_dims
        wrong = next((d for d in out if out.count(d) > 1 or d not in read), None)
        if wrong is not None:
            raise self.error(
                f"`out` lists `{wrong}`" + (" twice" if out.count(wrong) > 1 else ", which no operand has"),
                required=f"dims of the operands, each once: {', '.join(read) or 'there are none'}",
                found=", ".join(f'"{d}"' for d in out),
                fix=None if wrong in read else Direction(f"tcp.broadcast the result along `{wrong}`"),
            )
        for key, indexing_map in zip(self.signature.operand_names, self.maps(), strict=True):
            digits = [digit for e in indexing_map if (digit := map_digit(e)) is not None]
            alone = next((d for d in digits if digits.count(d) > 1 or digits.count(d.partner) != 1), None)
            if alone is not None:
                raise self.error(
                    f"`{key}` holds `{alone.dim}` by its digits, which are a quotient and a remainder",
                    required=f'"{alone}" and "{alone.partner}", each once',
                    found=", ".join(f'"{d}"' for d in digits if d.dim == alone.dim),
                )
        super().verify()


_DIGIT = re.compile(r"([^\W\d]\w*)\s*([/%])\s*([1-9][0-9]*)")
_DIGIT_AS_CALL = re.compile(r"(floordiv|mod)\(\s*([^\W\d]\w*)\s*,\s*([1-9][0-9]*)\s*\)")


@cache
def _expression(name: str) -> Dim:
    """The indexing expression of a name in an attribute: a dim, or `k/4`, `k%4`."""
    parts = _DIGIT.fullmatch(name)
    if parts is None:
        return Symbol(name).size()
    return DimDigit(parts.group(1), int(parts.group(3)), parts.group(2) == "%").size()


def _dim_meant(text: str, is_dim: bool) -> str:
    """What to write in place of a text that is no dim, and no digit of one if `is_dim` is false."""
    plain = text.strip()
    call = _DIGIT_AS_CALL.fullmatch(plain)
    digit = f"{call[2]}{'/' if call[1] == 'floordiv' else '%'}{call[3]}" if call is not None else plain
    if plain.isidentifier():
        return f'write "{plain}"'
    if _DIGIT.fullmatch(digit) and not is_dim:
        return Direction(f'write "{digit}"')  # its other digit may be missing, too
    return Direction('name the dim by letters, digits and underscores, such as "k"')


def _names(indexing_map: IndexingMap) -> tuple[str, ...] | None:
    """The names for an attribute of a map that selects dims or digits; None if it does anything else."""
    found = [map_digit(e) or map_dim(e) for e in indexing_map]
    names = tuple(str(name) for name in found if name is not None)
    return names if len(set(names)) == len(indexing_map) else None


class NamedContract(ContractBase):
    """A contraction over fixed dims: `letters` are those of lhs, rhs and result."""

    __slots__ = ()
    letters: ClassVar[tuple[str, str, str]]

    def iterators(self) -> tuple[Iterator, ...]:
        lhs, _, out = self.letters
        return parallel(*out) + reduction(*(letter for letter in lhs if letter not in out))

    def maps(self) -> tuple[IndexingMap, ...]:
        return dims(*self.letters[0]), dims(*self.letters[1])

    def result_map(self) -> IndexingMap:
        return dims(*self.letters[2])

    def _correction(self) -> str | None:
        """The named contraction of factors of these ranks, what NumPy's matmul would be, or that of a factor that lies
        there transposed."""
        ranks = [len(shape_of(value.type)) for value in self.inputs]
        if 0 in ranks:
            return None
        operands = ", ".join(f"%{value.name}" for value in self.inputs)
        init = f", init = %{self.init.name}" if self.init is not None else ""
        named = (c for c in operation_classes().values() if issubclass(c, NamedContract) and self._fits(c.letters))
        other = next(named, None)
        if other is not None:
            return statements_to_write([f"%{self.result.name} = {other.opcode}({operands}{init}) : {self.result.type}"])
        found = next((names for names in _as_numpy(*ranks) if self._fits(names)), None)
        if found is None:
            return None
        listed = ", ".join(
            f"{key} = {json.dumps(names)}" for key, names in zip(("lhs", "rhs", "out"), found, strict=True)
        )
        text = f"%{self.result.name} = tcp.contract({operands}{init}) {{{listed}}} : {self.result.type}"
        return statements_to_write([text])

    def _fits(self, names: Sequence[Sequence[str]]) -> bool:
        """Whether the dims of these names have one extent each."""
        known: dict[str, Dim] = {}
        shapes = [shape_of(value.type) for value in (*self.inputs, self.result)]
        return all(
            len(shape) == len(dims_)
            and all(are_equal_at(self, known.setdefault(d, e), e) for d, e in zip(dims_, shape, strict=True))
            for shape, dims_ in zip(shapes, names, strict=True)
        )


@register
class Matmul(NamedContract):
    """Matrix product: lhs [m, k] times rhs [k, n], plus init [m, n]."""

    __slots__ = ()
    opcode = "tcp.matmul"
    class_name = "matmul"
    fixed_dims = ("m", "n", "k")
    letters = ("mk", "kn", "mn")


@register
class BatchMatmul(NamedContract):
    """A matrix product for each b: lhs [b, m, k] times rhs [b, k, n], plus init [b, m, n]."""

    __slots__ = ()
    opcode = "tcp.batch_matmul"
    class_name = "batch_matmul"
    fixed_dims = ("b", "m", "n", "k")
    letters = ("bmk", "bkn", "bmn")


@register
class Matvec(NamedContract):
    """A matrix times a vector: lhs [m, k] times rhs [k], plus init [m]."""

    __slots__ = ()
    opcode = "tcp.matvec"
    class_name = "matvec"
    fixed_dims = ("m", "k")
    letters = ("mk", "k", "m")


@register
class Vecmat(NamedContract):
    """A vector times a matrix: lhs [k] times rhs [k, n], plus init [n]."""

    __slots__ = ()
    opcode = "tcp.vecmat"
    class_name = "vecmat"
    fixed_dims = ("n", "k")
    letters = ("k", "kn", "n")


@register
class Dot(NamedContract):
    """The inner product of two vectors [k], plus init."""

    __slots__ = ()
    opcode = "tcp.dot"
    class_name = "dot"
    fixed_dims = ("k",)
    letters = ("k", "k", "")


def _as_numpy(left: int, right: int) -> list[tuple[list[str], list[str], list[str]]]:
    """The names of the dims of lhs, rhs and result for factors of these ranks: as NumPy has them, then transposed."""
    count = max(left, right, 2) - 2
    batch = ["b"] if count == 1 else [f"b{k}" for k in range(count)]
    lhs, rhs = (["m", "k"] if left > 1 else ["k"]), (["k", "n"] if right > 1 else ["k"])
    out = [*batch, *(name for name in ("m", "n") if name in (*lhs, *rhs))]
    leading = [batch[count - max(rank - 2, 0) :] for rank in (left, right)]
    return [([*leading[0], *a], [*leading[1], *b], out) for b in (rhs, rhs[::-1]) for a in (lhs, lhs[::-1])]
