"""What transformers are made of beside products and norms: attention, rotary positions, gated units."""

from collections.abc import Sequence
from math import sqrt

import numpy as np

from tcpx.payload.contexts import are_equal_at, context_at, is_less_equal_at
from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import (
    DimAttribute,
    ElementsAttribute,
    FlagAttribute,
    NamedOperand,
    NumberAttribute,
    Operand,
)
from tcpx.payload.indexing_maps import IndexingMap, dims
from tcpx.payload.interfaces import Box, Build, Iterator, IteratorKind
from tcpx.payload.ir import Attribute, Operation, Value, register
from tcpx.payload.ops.activation import Silu, silu
from tcpx.payload.ops.arithmetic import Rsqrt
from tcpx.payload.ops.composite import Composite, Wide, filled, float64, placed, rounded
from tcpx.payload.ops.contract import Contract
from tcpx.payload.ops.elementwise import Add, Div, Mul, Sub, cast_to
from tcpx.payload.ops.exponential import Exp
from tcpx.payload.ops.indexing import Iota
from tcpx.payload.ops.movement import Broadcast
from tcpx.payload.ops.normalization import softmax
from tcpx.payload.ops.reduce import ReduceMax, ReduceSum
from tcpx.payload.ops.select import GreaterEqual, Select
from tcpx.payload.ops.views import Concat, Reshape, Slice
from tcpx.payload.sizes import Dim
from tcpx.payload.types import TensorType, Type, dtype_of, i1, like, shape_of, si32, si64


@register
class Attention(Composite):
    """softmax(scale * queries keys^T + mask) values: queries [.., h, t, d], keys [.., g, u, d], values [.., g, u, e] to
    [.., h, t, e]. Every h / g heads of the queries share one of the keys and values.

    `mask` applies along the last dims of [.., h, t, u], or along `mask_dims` of them: numbers, which are added, or
    booleans, where false excludes a key. `causal` excludes later keys: those with u > t + `offset`. The result of a
    query with all keys excluded is NaN.
    """

    __slots__ = ()
    opcode = "tcp.attention"
    class_name = "attention"
    queries, keys, values, mask = Operand(), Operand(), Operand(), NamedOperand()
    scale = NumberAttribute(default=0)
    """What scores are multiplied by: else 1 / sqrt(d)."""
    causal = FlagAttribute()
    offset = DimAttribute(default=0)
    """How far the keys reach before the first query."""
    mask_dims = ElementsAttribute(int, "a list of ints", default=())

    @property
    def group(self) -> int:
        """How many heads of the queries share one of the keys."""
        if self._rank < 3:
            return 1
        own, shared = (shape_of(value.type)[self._rank - 3] for value in (self.queries, self.keys))
        if isinstance(own, int) and isinstance(shared, int) and shared and own % shared == 0:
            return own // shared
        return 1

    @property
    def _rank(self) -> int:
        return len(shape_of(self.queries.type))

    def iterators(self) -> tuple[Iterator, ...]:
        """The dims of the result, then u and d, then g where heads share keys; these heads are never cut."""
        rank = self._rank
        found = list(self._numbered(rank + 2 + (self.group > 1), (rank, rank + 1, rank + 2)))
        if self.group > 1:
            found[rank - 3] = Iterator(found[rank - 3].name, IteratorKind.WHOLE)
        return tuple(found)

    def result_map(self) -> IndexingMap:
        return dims(*(it.name for it in self.iterators()[: self._rank]))

    def maps(self) -> tuple[IndexingMap, ...]:
        *lead, t, e = self.result_map()
        u, d, *g = dims(*(it.name for it in self.iterators()[self._rank :]))
        shared = [*lead[:-1], *g] if g else lead
        found = ((*lead, t, d), (*shared, u, d), (*shared, u, e))
        scores = (*lead, t, u)
        return (*found, tuple(scores[k] for k in self._mask_places())) if self.mask is not None else found

    def _mask_places(self) -> tuple[int, ...]:
        """The positions of the dims of the mask among those of the scores."""
        if self.mask is None:
            return ()
        rank = len(shape_of(self.mask.type))
        return self.mask_dims or tuple(range(max(0, self._rank - rank), self._rank))

    def verify(self) -> None:
        ranks = {len(shape_of(value.type)) for value in (*self.operands[:3], self.result)}
        if len(ranks) > 1 or self._rank < 2:
            raise self.error(
                "queries, keys, values and result have one rank",
                required="2 dims or more each, as [.., h, t, d]",
                found=", ".join(str(value.type) for value in self.operands[:3]),
            )
        places = self._mask_places()
        if list(places) != sorted(set(places)) or any(not 0 <= k < self._rank for k in places):
            required = f"rising dims of the scores, 0 or more, and below {self._rank}"
            raise self.error("`mask_dims` places the dims of the mask", required, str(list(places)))
        super().verify()

    def check_dtypes(self) -> None:
        operands, dtype = self.operands[:3], dtype_of(self.result.type)
        if not dtype.is_float or any(dtype_of(value.type) != dtype for value in operands):
            found = ", ".join(dtype_of(value.type).name for value in (*operands, self.result))
            raise self.error("operands and result have one float type", "f64, f32, f16 or bf16", found)
        if self.mask is not None and dtype_of(self.mask.type) not in (dtype, i1):
            raise self.error("the mask has numbers, or truth values", f"{dtype} or i1", f"{self.mask.type}")

    def on_box(self, operands: Sequence[Value], box: Box) -> Operation:
        made, first = super().on_box(operands, box), box.offsets[self._rank - 2]
        if self.causal and first != 0:
            made.attributes["offset"] = self.offset + first
        return made

    def _grouped(self, build: Build, value: Value, at: int) -> Value:
        """A value whose dim `at` is that of the heads, as groups of heads that share keys."""
        shape = shape_of(value.type)
        if self.group == 1:
            return value
        shared = shape_of(self.keys.type)[self._rank - 3]
        return build(Reshape.of(value, (*shape[:at], shared, self.group, *shape[at + 1 :])))

    def decompose(self, build: Build) -> Value:
        heads = ["g", "r"] if self.group > 1 else ["h"]
        lead = [f"b{k}" for k in range(self._rank - 3)]
        own, shared = (lead + heads, [*lead, heads[0]]) if self._rank > 2 else ([], [])
        q = self._grouped(build, self.queries, self._rank - 3)
        *outer, t, d = shape_of(q.type)
        scores = self._product(
            build, (q, self.keys), ([*own, "t", "d"], [*shared, "u", "d"], [*own, "t", "u"]),
            (*outer, t, shape_of(self.keys.type)[-2]),
        )  # fmt: skip
        scores = build(Mul.of(scores, self._factor(build, d, scores)))
        scores = self._masked(build, scores)
        kept = tuple(range(len(own) + 1))
        small = like(scores.type, shape_of(scores.type)[:-1], self.wide)
        last = {"dims": (len(own) + 1,)}
        largest = build(Broadcast.of(build(ReduceMax([scores], [small], last)), kept, scores.type))
        powers = build(Exp.of_at_most_0(build(Sub.of(scores, largest))))
        total = build(ReduceSum([powers], [small], last))
        has_keys = context_at(self).is_less_equal(1, shape_of(self.keys.type)[-2]) is True
        if not has_keys:  # a sum over nothing is 0, a quotient of two such sums is none
            powers = build(Div.of(powers, build(Broadcast.of(total, kept, powers.type))))
        made = self._product(
            build, (powers, self.values), ([*own, "t", "u"], [*shared, "u", "e"], [*own, "t", "e"]),
            (*outer, t, shape_of(self.values.type)[-1]),
        )  # fmt: skip
        if has_keys:
            made = build(Div.of(made, build(Broadcast.of(total, kept, made.type))))
        made = cast_to(build, made, dtype_of(self.result.type))
        return made if self.group == 1 else build(Reshape.of(made, shape_of(self.result.type)))

    def _product(
        self, build: Build, factors: tuple[Value, Value], names: Sequence[Sequence[str]], shape: Sequence[Dim]
    ) -> Value:
        """A contraction in the dtype of the sums."""
        named: dict[str, Attribute] = {key: tuple(held) for key, held in zip(("lhs", "rhs", "out"), names, strict=True)}
        return build(Contract(factors, [TensorType(tuple(shape), self.wide)], named))

    def _factor(self, build: Build, d: Dim, scores: Value) -> Value:
        if self.scale or isinstance(d, int):
            return filled(
                build,
                float(self.scale) if self.scale else 1 / sqrt(max(1, d if isinstance(d, int) else 1)),
                scores.type,
            )
        number = build(Rsqrt.of(filled(build, d, TensorType((), self.wide))))
        return build(Broadcast.of(number, (), scores.type))

    def _masked(self, build: Build, scores: Value) -> Value:
        """The scores with the mask added, and -inf where a key is left out."""
        nothing = filled(build, -np.inf, scores.type)
        if self.mask is not None:
            at, places = self._rank - 3, self._mask_places()
            held = self._grouped(build, self.mask, places.index(at)) if at in places else self.mask
            if self.group > 1:
                places = tuple(n for k in places for n in ((k, k + 1) if k == at else (k + (k > at),)))
            is_truth = dtype_of(held.type) == i1
            wide = placed(build, held, places, scores.type, i1 if is_truth else self.wide)
            scores = build(Select.of(wide, scores, nothing) if is_truth else Add.of(scores, wide))
        if self.causal:
            t, u = shape_of(scores.type)[-2:]
            is_short = all(is_less_equal_at(self, end, 2**31 - 1) for end in (t, u, t + self.offset))
            type_ = like(scores.type, shape_of(scores.type), si32 if is_short else si64)
            rank = len(shape_of(type_))
            query, key = (build(Iota([], [type_], {"dim": dim})) for dim in (rank - 2, rank - 1))
            if self.offset != 0:
                query = build(Add.of(query, filled(build, self.offset, type_)))
            seen = build(GreaterEqual([query, key], [like(type_, shape_of(type_), i1)]))
            scores = build(Select.of(seen, scores, nothing))
        return scores

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        q, k, v = map(float64, args[:3])
        if self.group > 1:
            k, v = (np.repeat(x, self.group, axis=-3) for x in (k, v))
        factor = float(self.scale) or 1 / sqrt(max(1, q.shape[-1]))
        scores: Wide = np.asarray(np.matmul(q, np.swapaxes(k, -1, -2)) * factor)
        t, u = args[0].shape[-2], args[1].shape[-2]
        if self.mask is not None:
            spread = tuple(n for n in range(scores.ndim) if n not in self._mask_places())
            mask = np.expand_dims(args[3], spread)
            scores = np.where(mask, scores, -np.inf) if args[3].dtype == np.bool_ else scores + float64(mask)
        if self.causal:
            last = np.arange(t, dtype=np.int64) + evaluation.size(self.offset)
            seen = np.less_equal(np.arange(u, dtype=np.int64), np.expand_dims(last, 1))
            scores = np.where(seen, scores, -np.inf)
        return rounded(softmax(scores, (scores.ndim - 1,)) @ v, dtype_of(self.result.type))


@register
class Rope(Composite):
    """Rotary positions (Su et al., 2021): pairs of elements of the last dim, rotated by angles given as `cos` and `sin`
    for the dims `dims` and half the last one. The elements of a pair are half of the dim apart, or adjacent with
    `interleaved`."""

    __slots__ = ()
    opcode = "tcp.rope"
    class_name = "rope"
    operand, cos, sin = Operand(), Operand(), Operand()
    table_dims = ElementsAttribute(int, "a list of ints", key="dims", example="[0]")
    """The dims of the operand that the tables have, without the last."""
    interleaved = FlagAttribute()

    @property
    def _last(self) -> int:
        return len(shape_of(self.operand.type)) - 1

    def iterators(self) -> tuple[Iterator, ...]:
        return self._numbered(self._last + 2, (self._last, self._last + 1), IteratorKind.WHOLE)

    def result_map(self) -> IndexingMap:
        return dims(*(it.name for it in self.iterators()[:-1]))

    def maps(self) -> tuple[IndexingMap, ...]:
        *own, half = dims(*(it.name for it in self.iterators()))
        table = (*(own[k] for k in self.table_dims), half)
        return tuple(own), table, table

    def verify(self) -> None:
        if (
            self._last < 0
            or any(not 0 <= k < self._last for k in self.table_dims)
            or list(self.table_dims) != sorted(set(self.table_dims))
        ):
            required = f"rising dims of the operand, 0 or more, and below {max(0, self._last)}"
            raise self.error("`dims` places the dims of the tables", required, str(list(self.table_dims)))
        super().verify()
        whole, half = shape_of(self.operand.type)[-1], shape_of(self.cos.type)[-1]
        if not are_equal_at(self, whole, 2 * half):
            raise self.error(
                "the last dim of the tables is half of that of the operand",
                required=f"2 * {half} elements",
                found=f"%{self.operand.name}: {self.operand.type}",
            )

    def decompose(self, build: Build) -> Value:
        x, half = cast_to(build, self.operand, self.wide), shape_of(self.cos.type)[-1]
        shape = (*shape_of(x.type)[:-1], half)
        type_ = like(x.type, shape, self.wide)
        first, second = (self._part(build, x, number, type_) for number in (0, 1))
        places = (*self.table_dims, self._last)
        cos, sin = (placed(build, table, places, type_, self.wide) for table in (self.cos, self.sin))

        def turned(op: type[Add | Sub], a: Value, b: Value) -> Value:
            return build(op.of(build(Mul.of(a, cos)), build(Mul.of(b, sin))))

        parts = [turned(Sub, first, second), turned(Add, second, first)]
        if not self.interleaved:
            made = build(Concat.of(parts, self._last, shape_of(x.type)))
        else:
            parts = [build(Reshape.of(part, (*shape, 1))) for part in parts]
            made = build(Reshape.of(build(Concat.of(parts, self._last + 1, (*shape, 2))), shape_of(x.type)))
        return cast_to(build, made, dtype_of(self.result.type))

    def _part(self, build: Build, x: Value, number: int, type_: Type) -> Value:
        """The first elements of the pairs, or the second ones."""
        half = shape_of(type_)[-1]
        start: Dim = number if self.interleaved else number * half
        attributes = {"offsets": (*(0 for _ in range(self._last)), start)}
        strides = {"strides": (*(1 for _ in range(self._last)), 2)} if self.interleaved else {}
        return build(Slice([x], [type_], {**attributes, **strides}))

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        x, cos, sin = map(float64, args)
        spread = tuple(k for k in range(self._last) if k not in self.table_dims)
        cos, sin = np.expand_dims(cos, spread), np.expand_dims(sin, spread)
        half = x.shape[-1] // 2
        a, b = (x[..., ::2], x[..., 1::2]) if self.interleaved else (x[..., :half], x[..., half:])
        parts: list[Wide] = [a * cos - b * sin, b * cos + a * sin]
        made = np.stack(parts, -1).reshape(x.shape) if self.interleaved else np.concatenate(parts, -1)
        return rounded(made, dtype_of(self.result.type))


@register
class Swiglu(Composite):
    """silu(gate) * up: the gated unit of Shazeer (2020), without its matrix products."""

    __slots__ = ()
    opcode = "tcp.swiglu"
    class_name = "swiglu"
    gate, up = Operand(), Operand()

    def iterators(self) -> tuple[Iterator, ...]:
        return self._numbered(len(shape_of(self.result.type)))

    def maps(self) -> tuple[IndexingMap, ...]:
        return self.result_map(), self.result_map()

    def decompose(self, build: Build) -> Value:
        gate, up = (cast_to(build, value, self.wide) for value in self.operands)
        return cast_to(build, build(Mul.of(build(Silu.of(gate)), up)), dtype_of(self.result.type))

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        gate, up = map(float64, args)
        return rounded(silu(gate) * up, dtype_of(self.result.type))
