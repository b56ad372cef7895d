"""Operations whose declaration is wrong: the payload that has one is refused where it is read, with its place."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import numpy as np
import pytest

import tcpx
from tcpx.payload import ir
from tcpx.payload.builder import Builder, tensor
from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import FlagAttribute, Operand
from tcpx.payload.indexing_maps import IndexingMap, dims
from tcpx.payload.interfaces import Build, Iterator, Structured, parallel, reduction
from tcpx.payload.ir import Value
from tcpx.payload.ops.elementwise import Add
from tcpx.payload.sizes import Symbol
from tcpx.payload.types import f32


class Plain(Structured):
    """Rows are added up."""

    __slots__ = ()
    opcode = "wrong.sum"
    class_name = "wrong_sum"
    operand = Operand()

    def iterators(self) -> tuple[Iterator, ...]:
        return (*parallel("i"), *reduction("j"))

    def maps(self) -> tuple[IndexingMap, ...]:
        return (dims("i", "j"),)

    def result_map(self) -> IndexingMap:
        return dims("i")

    def neutral(self) -> float | int | None:
        return 0

    def combine(self, build: Build, lhs: Value, rhs: Value) -> Value:
        return build(Add.of(lhs, rhs))

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        return args[0] if acc is None else self.combine(build, acc, args[0])

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (args[0].sum(1),)


class OtherMap(Plain):
    """A map of a dim that there is none of."""

    __slots__ = ()

    def maps(self) -> tuple[IndexingMap, ...]:
        return (dims("i", "k"),)


class OtherSum(Plain):
    """A map of a sum of which one dim is none."""

    __slots__ = ()

    def maps(self) -> tuple[IndexingMap, ...]:
        return ((dims("i")[0], Symbol("j").size() + Symbol("w").size()),)


class OtherResult(Plain):
    """A result along a dim that there is none of."""

    __slots__ = ()

    def result_map(self) -> IndexingMap:
        return dims("m")

    def maps(self) -> tuple[IndexingMap, ...]:
        return (dims("i", "j"),)


class Failing(Plain):
    """A body that cannot be built."""

    __slots__ = ()

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        raise KeyError("scale")


class TooFew(Plain):
    """A body of more inputs than there are."""

    __slots__ = ()

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        return build(Add.of(args[0], args[1]))


class Nothing(Plain):
    """A body that returns nothing."""

    __slots__ = ()

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        return None  # pyright: ignore[reportReturnType]


class Two(Plain):
    """A body with a result too many."""

    __slots__ = ()

    def elements(self, build: Build, args: Sequence[Value], accumulators: Sequence[Value]) -> tuple[Value, ...]:
        return args[0], args[0]


class NotCombined(Plain):
    """Partial results that cannot be combined."""

    __slots__ = ()

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        return args[0] if acc is None else build(Add.of(acc, args[0]))

    def combine(self, build: Build, lhs: Value, rhs: Value) -> Value:
        raise NotImplementedError


class NoBody(Plain):
    """Without a body: it can be evaluated."""

    __slots__ = ()

    def scalar_body(self, build: Build, args: Sequence[Value], acc: Value | None) -> Value:
        return Structured.scalar_body(self, build, args, acc)


TEXT = """\
func @f(%x: tensor<[M]x[N]xf32>) -> tensor<[M]xf32> symbols [M, N] {
  %v = wrong.sum(%x) : tensor<[M]xf32>
  tcp.return(%v)
}
"""
VALUE, PARTIAL = (f"1 value, one for each result, of {given}" for given in
                  ("the elements of its inputs", "two partial results"))  # fmt: skip
FAILS = "correct `scalar_body`: it fails at "
WRONG: dict[type[Plain], tuple[str, str, str, str]] = {
    OtherMap: (
        "`operand` is indexed by `k`, which is no dim of the operation",
        "dims among i, j",
        "[i, k]",
        "list `k` in `iterators` of its declaration, or correct the map",
    ),
    OtherSum: (
        "`operand` is indexed by `w`, which is no dim of the operation",
        "dims among i, j",
        "[i, j + w]",
        "list `w` in `iterators` of its declaration, or correct the map",
    ),
    OtherResult: (
        "`result` is indexed by `m`, which is no dim of the operation",
        "dims among i, j",
        "[m]",
        "list `m` in `iterators` of its declaration, or correct the map",
    ),
    Failing: ("`scalar_body` of its declaration fails", VALUE, "KeyError: 'scale'", FAILS),
    TooFew: (
        "`scalar_body` of its declaration fails",
        VALUE,
        "IndexError: list index out of range",
        FAILS,
    ),
    Nothing: (
        "`scalar_body` of its declaration gives no value for each result",
        VALUE,
        "`None`",
        "correct `scalar_body`",
    ),
    Two: ("`elements` of its declaration gives no value for each result", VALUE, "2 values", "correct `elements`"),
    NotCombined: (
        "`combine` of its declaration fails",
        PARTIAL,
        "NotImplementedError",
        FAILS.replace("scalar_body", "combine"),
    ),
}


def _declare(monkeypatch: pytest.MonkeyPatch, declared: type[Plain]) -> None:
    monkeypatch.setitem(ir._REGISTRY, declared.opcode, declared)


@pytest.mark.parametrize("declared", WRONG, ids=lambda c: c.__name__)
def test_what_is_wrong_is_said_of_the_operation(declared: type[Plain], monkeypatch: pytest.MonkeyPatch) -> None:
    _declare(monkeypatch, declared)
    message, required, found, fix = WRONG[declared]
    with pytest.raises(tcpx.VerifyError) as caught:
        tcpx.parse(TEXT, "f.tcp")
    said = caught.value.diagnostic
    assert (said.message, said.required, said.found) == (f"%v (wrong.sum): {message}", required, found)
    assert said.fix is not None
    assert said.fix.startswith(fix)
    assert str(said.payload) == "f.tcp:2:3"
    if fix.endswith("at "):
        lines, first = inspect.getsourcelines(declared)
        place, _, line = said.fix.removeprefix(fix).rpartition(":")
        assert place == __file__
        assert first < int(line) < first + len(lines)


@pytest.mark.parametrize("name", ["steps", "name", "result", "inputs", "opcode", "domain", "neutral"])
def test_a_field_that_hides_what_stages_ask_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=rf"Hiding: the field `{name}` hides `\w+\.{name}`; call it something else"):
        type("Hiding", (Plain,), {"__slots__": (), name: Operand()})


def test_a_field_may_answer_what_a_class_says(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = type("Clamping", (Plain,), {"__slots__": (), "clamps_indices": FlagAttribute()})
    _declare(monkeypatch, declared)
    assert "clamps_indices" in str(tcpx.parse(TEXT.replace("(%x)", "(%x) {clamps_indices = true}")).text())


def test_it_is_said_of_what_a_builder_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    _declare(monkeypatch, Failing)
    m, n, b = Symbol("M"), Symbol("N"), Builder()
    with b.func("f", {"x": tensor([m, n], f32)}, [m, n]) as (x,):
        b.returns(b.op(Failing, [x], tensor([m], f32)))
    with pytest.raises(tcpx.VerifyError, match="`scalar_body` of its declaration fails"):
        b.finish()


def test_a_right_one_and_one_without_a_body_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones((2, 3), np.float32)
    for declared in (Plain, NoBody):
        _declare(monkeypatch, declared)
        assert np.array_equal(np.asarray(tcpx.evaluate(tcpx.parse(TEXT), x)), [3, 3])
