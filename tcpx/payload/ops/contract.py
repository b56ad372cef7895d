"""Contractions: sums of products over any dims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_letters
from typing import cast

import numpy as np
import numpy.typing as npt

from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.interfaces import (
    Build,
    IndexingMap,
    Iterator,
    Structured,
    dims,
    map_dim,
    map_dims,
    parallel,
    reduction,
)
from tcpx.payload.ir import Attribute, Value, register
from tcpx.payload.ops.elementwise import Add, Mul, cast_to
from tcpx.payload.types import dtype_of


class ContractBase(Structured):
    """result = init + sum over the reduction dims of lhs * rhs, in the dtype of the result."""

    __slots__ = ()
    class_name = "contract"
    operand_names = ("lhs", "rhs")
    optional_operand = "init"

    def neutral(self) -> float | int | None:
        return 0

    def pad_value(self, index: int, reduced: bool) -> float | int | None:
        del index, reduced
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

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        names = {it.name: ascii_letters[k] for k, it in enumerate(self.iterators())}
        spec = [
            "".join(names[map_dim(e) or ""] for e in indexing_map) for indexing_map in (*self.maps(), self.result_map())
        ]
        dtype = self.acc_type.numpy
        wide = np.dtype(np.float32) if self.acc_type.is_float and self.acc_type.bits < 32 else dtype
        lhs, rhs = (cast("npt.NDArray[np.float64]", a.astype(wide)) for a in args[:2])  # its stubs want one dtype
        if any(it.is_reduction for it in self.iterators()):
            total: Array = np.asarray(np.einsum(f"{spec[0]},{spec[1]}->{spec[2]}", lhs, rhs))
        else:
            total = np.multiply(_along(lhs, spec[0], spec[2]), _along(rhs, spec[1], spec[2]))
        if len(args) > 2:
            total = np.add(total, args[2].astype(wide))
        return (total.astype(dtype),)


def _along(array: Array, own: str, wanted: str) -> npt.NDArray[np.float64]:
    """The array with its dims, called `own`, placed among those of the result; nothing is added to it, not even 0."""
    placed = np.transpose(array, [own.index(name) for name in wanted if name in own])
    extents = dict(zip(own, array.shape, strict=True))
    return cast("npt.NDArray[np.float64]", placed.reshape([extents.get(name, 1) for name in wanted]))


@register
class Contract(ContractBase):
    """A contraction over dims named by `lhs`, `rhs` and `out`, like einsum: dims missing in `out` are summed."""

    __slots__ = ()
    opcode = "tcp.contract"

    @classmethod
    def attributes_for(cls, op: Structured) -> Mapping[str, Attribute] | None:
        found = [map_dims(m) for m in (*op.maps(), op.result_map())]
        named = [names for names in found if names is not None]
        return dict(zip(("lhs", "rhs", "out"), named, strict=True)) if len(named) == len(found) == 3 else None

    def _dims(self, key: str) -> tuple[str, ...]:
        held = self.attributes.get(key)
        if not isinstance(held, tuple):
            raise self.error(f"the attribute `{key}` is missing", required='dim names: ["m", "k"]')
        names = tuple(d for d in held if isinstance(d, str))
        if len(names) != len(held):
            wrong = next(d for d in held if not isinstance(d, str))
            raise self.error(
                f"the attribute `{key}` lists the names of dims, quoted", required='["m", "k"]', found=str(wrong)
            )
        return names

    def iterators(self) -> tuple[Iterator, ...]:
        out = self._dims("out")
        inputs = dict.fromkeys((*self._dims("lhs"), *self._dims("rhs")))
        return parallel(*out) + reduction(*(d for d in inputs if d not in out))

    def maps(self) -> tuple[IndexingMap, ...]:
        return dims(*self._dims("lhs")), dims(*self._dims("rhs"))

    def result_map(self) -> IndexingMap:
        return dims(*self._dims("out"))

    def permuted_input(self, index: int, order: Sequence[int]) -> Mapping[str, Attribute]:
        key = self.operand_names[index]
        held = self._dims(key)
        return {key: tuple(held[k] for k in order)}


@register
class Matmul(ContractBase):
    """Matrix product: lhs [m, k] times rhs [k, n], plus init [m, n]."""

    __slots__ = ()
    opcode = "tcp.matmul"
    class_name = "matmul"
    fixed_dims = ("m", "n", "k")

    def iterators(self) -> tuple[Iterator, ...]:
        return parallel("m", "n") + reduction("k")

    def maps(self) -> tuple[IndexingMap, ...]:
        return dims("m", "k"), dims("k", "n")

    def result_map(self) -> IndexingMap:
        return dims("m", "n")
