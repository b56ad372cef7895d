"""Operations that are written for others: text and builder put those in their place, and no payload has them."""

from collections.abc import Iterator, Sequence

from tcpx.payload.broadcasting import have_equal_extents
from tcpx.payload.contexts import are_equal_at, is_less_equal_at
from tcpx.payload.fields import DimAttribute, DimsAttribute, IntAttribute, Operand
from tcpx.payload.interfaces import check_dim
from tcpx.payload.ir import Operation, Value, register
from tcpx.payload.ops.movement import Broadcast
from tcpx.payload.ops.views import Reshape, Slice
from tcpx.payload.sizes import Dim, is_equal, to_text
from tcpx.payload.types import dtype_of, like, shape_of
from tcpx.plurals import counted


class Shorthand(Operation):
    """Interface `Shorthand`: a detached operation that says what it is written for."""

    __slots__ = ()
    operand = Operand()

    def written_for(self) -> Sequence[Value]:
        """What its results are: values of detached operations. Raises VerifyError."""
        raise self.error("it says nothing that it is written for", required="an operation with this interface")

    def demands(self) -> Sequence[Operation]:
        """Detached assertions, for the start of the function: what they say of sizes holds where this is computed."""
        return ()

    def expanded(self) -> Sequence[Value]:
        """The same, of an operation that is used no more, which no value is read by then."""
        if len(self.operands) != 1:
            raise self.error("it has one operand", required="one value", found=f"{len(self.operands)}")
        self.check_attributes()
        made = self.written_for()
        for index, value in enumerate(self.operands):
            value.uses.remove((self, index))
        return made

    def verify(self) -> None:
        raise self.error(
            "the operation is written for others, and no payload has it",
            required="an operation that is made by a text, or by `Builder.values`",
            found="an operation that was made by its class",
        )

    def _check(self, result: Value, shape: Sequence[Dim]) -> None:
        """Raise VerifyError unless a result provably has a shape, and the dtype of the operand."""
        right = like(self.operand.type, tuple(shape), dtype_of(self.operand.type))
        have = shape_of(result.type)
        if dtype_of(result.type) != dtype_of(right) or not have_equal_extents(have, shape):
            raise self.error(
                f"%{result.name} has another type than what it is",
                required=str(right),
                found=str(result.type),
                fix=f"write `: {', '.join(str(right if r is result else r.type) for r in self.results)}`",
                unproven=len(have) == len(shape)
                and all(is_equal(a, b) is not False for a, b in zip(have, shape, strict=True)),
            )


@register
class Split(Shorthand):
    """Consecutive parts of the operand along `dim`, each of the size of its result: NumPy's `split`. Shorthand for a
    `tcp.slice` of each."""

    __slots__ = ()
    opcode = "tcp.split"
    result_count = None
    dim = IntAttribute(example="0")
    """The dim along which they follow one another."""

    def written_for(self) -> Sequence[Value]:
        shape = shape_of(self.operand.type)
        check_dim(self, self.dim, len(shape))
        begin: Dim = 0
        made: list[Value] = []
        for result in self.results:
            part = shape_of(result.type)[self.dim : self.dim + 1] or (0,)
            self._check(result, (*shape[: self.dim], *part, *shape[self.dim + 1 :]))
            offsets = tuple(begin if k == self.dim else 0 for k in range(len(shape)))
            made.append(Slice.of(self.operand, offsets, shape_of(result.type)).result)
            begin = begin + part[0]
        if not are_equal_at(self, begin, shape[self.dim]):
            raise self.error(
                f"the parts are not as long as dim {self.dim} of %{self.operand.name}",
                required=f"{counted(to_text(shape[self.dim]), 'element')}",
                found=f"{to_text(begin)}: {', '.join(f'%{v.name}: {v.type}' for v in self.results)}",
                unproven=is_equal(begin, shape[self.dim]) is None,
            )
        return made


class Repeating(Shorthand):
    """One that has its operand several times: a broadcast along new dims, which are joined with those there are."""

    __slots__ = ()

    def repeated(self, counts: Sequence[Dim], behind: bool) -> Sequence[Value]:
        """The operand `counts[k]` times along each dim: one element as often, where the new dim lies `behind`, or all
        of them."""
        shape = shape_of(self.operand.type)
        if not all(is_less_equal_at(self, 0, count) for count in counts):
            found = ", ".join(map(to_text, counts))
            raise self.error("nothing is there fewer than 0 times", required="0 or more", found=found)
        self._check(self.result, [n * count for n, count in zip(shape, counts, strict=True)])
        wide: list[Dim] = []
        places: list[int] = []
        for n, count in zip(shape, counts, strict=True):
            both = [n] if count == 1 else [n, count] if behind else [count, n]
            places.append(len(wide) + (0 if behind else len(both) - 1))
            wide += both
        type_ = like(self.operand.type, tuple(wide), dtype_of(self.operand.type))
        spread = Broadcast.of(self.operand, places, type_).result
        return [Reshape.of(spread, shape_of(self.result.type)).result]


@register
class Repeat(Repeating):
    """Each element of the operand repeated `repeats` times along `dim`, adjacently: NumPy's `repeat`. Shorthand for a
    `tcp.broadcast` and a `tcp.reshape`."""

    __slots__ = ()
    opcode = "tcp.repeat"
    dim = IntAttribute(example="0")
    """The dim along which they are repeated."""
    repeats = DimAttribute(example="2")
    """How often each is there."""

    def written_for(self) -> Sequence[Value]:
        rank = len(shape_of(self.operand.type))
        check_dim(self, self.dim, rank)
        return self.repeated([self.repeats if k == self.dim else 1 for k in range(rank)], behind=True)


@register
class TileOfAll(Repeating):
    """The whole operand repeated `repeats[k]` times along each dim k: NumPy's `tile`. Shorthand for a `tcp.broadcast`
    and a `tcp.reshape`."""

    __slots__ = ()
    opcode = "tcp.tile"
    repeats = DimsAttribute(example="[2, 1]")
    """How often it is there along each dim."""

    def written_for(self) -> Sequence[Value]:
        rank = len(shape_of(self.operand.type))
        if len(self.repeats) != rank:
            wanted = f"[{', '.join(map(str, (*(1,) * (rank - 1), 2)[:rank]))}]"
            raise self.error(
                "`repeats` has a number for each dim",
                required=f"{rank} of them",
                found=f"[{', '.join(map(to_text, self.repeats))}]",
                fix=f"{{repeats = {wanted}}}",
            )
        return self.repeated(self.repeats, behind=False)


def standing_nowhere(op: Operation) -> Iterator[Operation]:
    """The operations that make operands of one and stand in no block yet, in order."""
    for value in op.operands:
        made = value.defining_op
        if made is not None and made.parent is None:
            yield from standing_nowhere(made)
            yield made
