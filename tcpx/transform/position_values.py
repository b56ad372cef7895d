"""What the elements of a value are, where that follows from their positions: numbers, indices, one of two numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from tcpx.payload.constants import Constants
from tcpx.payload.indexing_maps import IndexingMap, dim_symbol, map_coefficients, map_dim
from tcpx.payload.interfaces import Elementwise, Position, Structured, pieces_of_all
from tcpx.payload.ir import Operation, Value
from tcpx.payload.sizes import Dim, Size, Symbol, is_less_equal, substitute
from tcpx.payload.traits.algebra import algebra
from tcpx.payload.traits.constant import Constant
from tcpx.payload.traits.positions import positions_read
from tcpx.payload.types import TensorType, dtype_of, i1, shape_of, si32, si64
from tcpx.records import frozen
from tcpx.transform.algebra import number_of
from tcpx.transform.bodies import Body, applied, factors_of_sum
from tcpx.transform.elementwise import fills, is_pointwise


def place(dim: int) -> Symbol:
    """The position along a dim of a value. No payload has a size of this name."""
    return Symbol(f"at {dim}")


def places(rank: int) -> IndexingMap:
    """The position of an element."""
    return tuple(place(k).size() for k in range(rank))


@frozen
class Index:
    """A sum of positions and sizes."""

    expression: Dim


@frozen
class Data:
    """The element of a value at this index: what does not follow from positions."""

    value: Value
    index: IndexingMap


@frozen
class Condition:
    """Holds where each of `bounds` is 0 or more, and all of `data` holds."""

    bounds: tuple[Dim, ...] = ()
    data: tuple[Data, ...] = ()

    @property
    def opposite(self) -> Condition | None:
        """What holds where it does not; None if that is no such condition."""
        return Condition((-self.bounds[0] - 1,)) if len(self.bounds) == 1 and not self.data else None

    def joined(self, other: Condition) -> Condition:
        """Holds where both do."""
        bounds = dict.fromkeys((*self.bounds, *other.bounds))
        return Condition(tuple(bounds), tuple(dict.fromkeys((*self.data, *other.data))))


@frozen
class Cases:
    """One number where a condition holds, another where it does not."""

    condition: Condition
    yes: float
    no: float


DEEPEST: Final = 64
"""Operations that the form of a value is followed through."""
Form = float | Index | Data | Cases


class Forms:
    """The forms of values, by positions in them."""

    def __init__(self, constants: Constants) -> None:
        self.constants = constants
        self.known: dict[Value, Form] = {}
        self.depth = 0

    def of(self, value: Value) -> Form:
        """What the elements of a value are, as far as a few operations say."""
        if value not in self.known:
            data = Data(value, places(len(shape_of(value.type))))
            if self.depth == DEEPEST:
                return data
            self.depth += 1
            found = self._of(value)
            self.depth -= 1
            self.known[value] = data if found is None else found
        return self.known[value]

    def counts(self, value: Value) -> bool:
        """Whether the elements of a value are positions, whatever the data are."""
        own = places(len(shape_of(value.type)))
        return isinstance(value.type, TensorType) and self.position(value, own, own) is not None

    def position(self, value: Value, index: IndexingMap, dims: IndexingMap) -> Position | None:
        """The element of a value at an index over these dims, if that is a sum of positions and a size."""
        dtype = dtype_of(value.type)
        form = self.of(value) if dtype in (si32, si64) else None
        if not isinstance(form, Index):
            return None
        expression = substitute(form.expression, {place(k): entry for k, entry in enumerate(index)})
        names = [name for name in map(map_dim, dims) if name is not None]
        origin = substitute(expression, {dim_symbol(name): 0 for name in names})
        moving = map_coefficients(expression - origin)
        return Position(expression - origin, dtype, origin) if moving is not None else None

    def _of(self, value: Value) -> Form | None:
        op = value.defining_op
        if op is None or Constant(op).number is not None or number_of(value) is not None:
            return None if op is None else number_of(value)
        stored = Constant(op).stored_array
        if stored is not None:
            array = self.constants.get(stored)
            return None if array is None else _stored(array)
        repeated = op.attributes.get("value")
        if fills(op) and isinstance(repeated, Size):
            return Index(repeated)
        if is_pointwise(op):
            return self._computed(op, op.results.index(value))
        return self._shown(op, value)

    def _computed(self, op: Structured, number: int) -> Form | None:
        """What a pointwise operation makes of what it reads."""
        own = places(len(op.result_maps()[number]))
        at: dict[Symbol, Dim] = {}
        for entry, here in zip(op.result_maps()[number], own, strict=True):
            at[dim_symbol(map_dim(entry) or "")] = here
        body, found = Body.of(op), dict[Value, Form | None]()
        for element, value, indexing_map in zip(body.elements, op.inputs, op.maps(), strict=True):
            found[element] = _read(self.of(value), tuple(substitute(entry, {**at}) for entry in indexing_map))
        for element, position in zip(body.positions, positions_read(op), strict=True):
            found[element] = Index(position.at(at))
        for inner in body.ops:
            found[inner.result] = number_of(inner.result)
            if found[inner.result] is None and isinstance(inner, Elementwise):
                found[inner.result] = _applied(inner, [found.get(v, number_of(v)) for v in inner.operands])
        return found.get(body.results[number], number_of(body.results[number]))

    def _shown(self, op: Operation, value: Value) -> Form | None:
        """What a view of one tile shows."""
        pieces, shape = pieces_of_all(op), shape_of(value.type)
        if pieces is None or len(pieces) != 1 or pieces[0].tile.dropped or not pieces[0].fills(shape):
            return None
        piece = pieces[0]
        before = [piece.tile.sizes[k] for k in piece.permutation]
        own = places(len(shape))
        inner: list[Dim] = list(own)
        if piece.reshapes:
            here = [at for at, size in zip(own, shape, strict=True) if size != 1]
            if [size for size in before if size != 1] != [size for size in shape if size != 1]:
                return None
            inner = [0 if size == 1 else here.pop(0) for size in before]
        index: list[Dim] = [0] * len(before)
        for at, k in zip(inner, piece.permutation, strict=True):
            index[k] = piece.tile.offsets[k] + at * (piece.tile.strides[k] if piece.tile.strides else 1)
        return _read(self.of(op.operands[piece.operand]), tuple(index))


def _read(form: Form, index: IndexingMap) -> Form:
    """The form of an element at an index."""
    at = {place(k): entry for k, entry in enumerate(index)}
    match form:
        case Index():
            return Index(substitute(form.expression, {**at}))
        case Data():
            return _data_at(form, at)
        case Cases():
            held = form.condition
            bounds = tuple(substitute(bound, {**at}) for bound in held.bounds)
            return _cases(Condition(bounds, tuple(_data_at(d, at) for d in held.data)), form.yes, form.no)
        case _:
            return form


def _data_at(data: Data, at: Mapping[Symbol, Dim]) -> Data:
    return Data(data.value, tuple(substitute(entry, {**at}) for entry in data.index))


def _cases(condition: Condition, yes: float, no: float) -> Form:
    """The cases that there are: positions are 0 or more."""
    bounds = tuple(bound for bound in condition.bounds if is_less_equal(0, bound) is not True)
    if yes == no or not (bounds or condition.data):
        return yes
    if any(is_less_equal(bound, -1) is True for bound in bounds):
        return no
    return Cases(Condition(bounds, condition.data), yes, no)


def _stored(array: np.ndarray) -> Form | None:
    """A number that an array repeats, or two of them on the sides of a diagonal."""
    first = array.flat[0] if array.size else None
    if first is None or array.size == 1:
        return None if first is None else float(first)
    dims = [k for k, size in enumerate(array.shape) if size > 1]
    if len(dims) != 2:
        return None
    rows = array.reshape(array.shape[dims[0]], array.shape[dims[1]])
    others = [edge for edge in (rows[0, -1], rows[-1, 0]) if edge != first]
    for low, high in [(first, others[0]), (others[0], first)] if others else []:
        is_low = rows == low
        offset = int(is_low[0].sum()) - 1 if is_low[0, 0] else -int(is_low[:, 0].argmax())
        if (
            np.array_equal(is_low, np.tri(rows.shape[0], rows.shape[1], offset, dtype=np.bool_))
            and (is_low | (rows == high)).all()
        ):
            at = places(array.ndim)
            return Cases(Condition((at[dims[0]] + offset - at[dims[1]],)), float(low), float(high))
    return None


def _applied(op: Elementwise, forms: Sequence[Form | None]) -> Form | None:
    """What an operation makes of elements of these forms."""
    held = [Cases(Condition((), (f,)), 1.0, 0.0) if isinstance(f, Data) and _is_truth(f) else f for f in forms]
    if any(isinstance(f, Index) for f in held):
        return _of_indices(op, held)
    conditions = dict.fromkeys(f.condition for f in held if isinstance(f, Cases))
    if any(f is None or isinstance(f, Data) for f in held) or len(conditions) > 2:
        return None

    def made(*chosen: bool) -> float:
        truth = dict(zip(conditions, chosen, strict=True))
        return applied(op, [_number(f, truth) for f in held])

    match [*conditions]:
        case []:
            return made()
        case [one]:
            return _cases(one, made(True), made(False))
        case [one, two]:
            return _of_two(
                one, two, [made(a, b) for a, b in ((True, True), (True, False), (False, True), (False, False))]
            )
        case _:
            return None


def _is_truth(data: Data) -> bool:
    return dtype_of(data.value.type) == i1


def _number(form: Form | None, truth: Mapping[Condition, bool]) -> float:
    match form:
        case Cases():
            return form.yes if truth[form.condition] else form.no
        case int() | float():
            return form
        case _:
            raise TypeError(form)


def _of_two(one: Condition, two: Condition, numbers: Sequence[float]) -> Form | None:
    """Numbers where both conditions hold, the first, the second, none, as those of one condition."""
    both, first, second, none = numbers
    if both == first and second == none:
        return _cases(one, both, none)
    if both == second and first == none:
        return _cases(two, both, none)
    for a, b, number, rest in (
        (one, two, both, (first, second, none)),
        (one, two.opposite, first, (both, second, none)),
        (one.opposite, two, second, (both, first, none)),
        (one.opposite, two.opposite, none, (both, first, second)),
    ):
        if a is not None and b is not None and len({*rest}) == 1:
            return _cases(a.joined(b), number, rest[0])
    return None


def _of_indices(op: Elementwise, forms: Sequence[Form | None]) -> Form | None:
    """Sums, differences and multiples of indices, and comparisons of them."""
    terms: list[Dim] = []
    for form in forms:
        if isinstance(form, Index):
            terms.append(form.expression)
        elif isinstance(form, int | float) and form == int(form):
            terms.append(int(form))
        else:
            return None
    if algebra(op).holds_for and len(terms) == 2:
        return _compared(algebra(op).holds_for, terms[0] - terms[1])
    if dtype_of(op.result.type) != si64:  # others wrap around
        return None
    if algebra(op).converts is not None:
        return Index(terms[0])
    factors = factors_of_sum(op)
    if factors is not None:
        total: Dim = 0
        for number, term in zip(factors, terms, strict=True):
            total = total + number * term
        return Index(total)
    factor = next((k for k, term in enumerate(terms) if isinstance(term, int)), None)
    if op.semantics == "a * b" and factor is not None:
        return Index(terms[factor] * terms[1 - factor])
    return None


def _compared(signs: Sequence[int], difference: Dim) -> Form | None:
    """Whether a difference has one of these signs."""
    match sorted(signs):
        case [0, 1]:
            bounds: tuple[Dim, ...] = (difference,)
        case [1]:
            bounds = (difference - 1,)
        case [-1, 0]:
            bounds = (-difference,)
        case [-1]:
            bounds = (-difference - 1,)
        case [0] | [-1, 1]:
            bounds = (difference, -difference)
        case _:
            return None
    holds = float(0 in signs or len(signs) == 1)
    return _cases(Condition(bounds), holds, 1.0 - holds)
