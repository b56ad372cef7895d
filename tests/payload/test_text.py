"""Printing then parsing gives the same payload, at every level; what is parsed evaluates as written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcpx.payload.builder import Builder, tensor
from tcpx.payload.contexts import context_at
from tcpx.payload.evaluator import evaluate_func
from tcpx.payload.ir import Attribute, Block, Module, Operation, operation_classes
from tcpx.payload.ops.exponential import Exp
from tcpx.payload.ops.generic import Generic, generalize
from tcpx.payload.ops.gml_st import For, Loop, Materialize
from tcpx.payload.ops.shorthand import Shorthand
from tcpx.payload.sizes import (
    CeilDiv,
    Dim,
    FloorDiv,
    Max,
    Min,
    Mod,
    Size,
    Symbol,
    Var,
    is_less_equal,
    known_divisor,
    lower_bound,
    upper_bound,
)
from tcpx.payload.sizes.predicates import Comparison, Predicate
from tcpx.payload.subsets import Tile
from tcpx.payload.text.parser import load, parse
from tcpx.payload.text.printer import print_operation
from tcpx.payload.types import SCALARS, TensorType, bf16, f32, shape_of
from tests.comparison import structurally_equal

SAMPLES = Path(__file__).parent / "samples"
DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"


def sample(name: str) -> Module:
    return load(SAMPLES / f"{name}.tcp")


def named(module: Module, name: str) -> Operation:
    return next(op for op in module.walk() if op.name == name)


@pytest.mark.parametrize("name", ["tensor", "loops", "control", "sorting", "vector", "buffer"])
def test_sample_is_printed_as_it_is_written(name: str) -> None:
    module = sample(name)
    text = module.text()
    assert text == (SAMPLES / f"{name}.tcp").read_text(encoding="utf-8")
    again = parse(text)
    assert structurally_equal(module, again) is None
    assert again.text() == text


def test_samples_show_every_operation_of_the_payload() -> None:
    shown = {op.opcode for path in SAMPLES.glob("*.tcp") for op in load(path).walk()}
    known = {k: c for k, c in operation_classes().items() if c.__module__.startswith("tcpx.payload.")}
    assert {k for k, c in known.items() if not issubclass(c, Shorthand)} - shown == set()


def test_digits_round_trip_with_constants() -> None:
    module = load(DIGITS / "digits.tcp")
    assert module.text().startswith('constants "weights.npz"\n\nfunc @digits(')
    assert structurally_equal(module, parse(module.text(), base_path=DIGITS)) is None
    assert structurally_equal(module, parse(module.text(), constants=module.constants)) is None
    x = np.random.default_rng(0).random((5, 64), dtype=np.float32)
    y = evaluate_func(module, module.main, [x])[0]
    np.testing.assert_allclose(y.sum(axis=1), np.ones(5), rtol=1e-5)


@pytest.mark.parametrize("m", [1, 3, 7])
def test_buffer_level_evaluates_the_same_after_a_round_trip(m: int) -> None:
    module = sample("buffer")
    again = parse(module.text())
    x = np.random.default_rng(m).random((m, 8), dtype=np.float32)
    results = [evaluate_func(held, held.main, [x])[0] for held in (module, again)]
    np.testing.assert_array_equal(results[0], 2 * x)
    np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.parametrize("m", [0, 1, 4, 6])
def test_vector_level_evaluates_the_same_after_a_round_trip(m: int) -> None:
    module = sample("vector")
    again = parse(module.text())
    random = np.random.default_rng(m)
    args = [random.random((m, 8), dtype=np.float32), random.random(m, dtype=np.float32)]
    first, second = (evaluate_func(held, held.main, args) for held in (module, again))
    np.testing.assert_array_equal(first[0], args[0] + args[0])
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    for start in range(0, m, 4):
        stop = min(m, start + 4)
        sums = args[0][start:stop].sum(axis=0)
        lanes = [sums[3], args[0][start, 0], sums[3], sums[3]]
        np.testing.assert_allclose(first[1][start:stop].astype(np.float64), lanes[: stop - start], rtol=1e-5)


def test_tensor_level_evaluates_the_same_after_a_round_trip() -> None:
    module = sample("tensor")
    again = parse(module.text())
    random = np.random.default_rng(0)
    args = [random.random((3, 4), dtype=np.float32) for _ in range(2)]
    args += [random.random((4, 8), dtype=np.float32)]
    args += [random.integers(-128, 128, shape).astype(np.int8) for shape in ((3, 4), (4, 8))]
    args += [random.integers(0, 2, (3, 4)).astype(np.bool_)]
    results = [evaluate_func(held, held.funcs["every_operation"], args) for held in (module, again)]
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)
    wide = args[3].astype(np.int32) @ args[4].astype(np.int32)
    np.testing.assert_array_equal(results[0][1], wide)


# -- what the text says ------------------------------------------------------------------------------------------


def test_symbols_carry_their_range() -> None:
    module = sample("tensor")
    assert [(s.name, s.lower, s.upper, s.multiple_of) for s in module.funcs["nothing"].symbols] == [
        ("free", 0, None, 1),
        ("low", 2, None, 1),
        ("range", 0, 9, 1),
        ("both", 4, 8, 4),
    ]
    k = module.funcs["every_operation"].args[0].type
    assert isinstance(k, TensorType)
    assert (known_divisor(k.shape[1]), lower_bound(k.shape[1])) == (4, 4)


def test_loop_variables_carry_their_bounds() -> None:
    module = sample("loops")
    loop = named(module, "mm/m")
    assert isinstance(loop, Loop)
    assert (loop.var.lower, str(loop.var.upper), loop.var.step) == (0, "M", 6)
    assert is_less_equal(loop.var + 1, loop.var.upper) is True
    tile_rows = named(module, "xt").result.type
    assert isinstance(tile_rows, TensorType)
    assert (lower_bound(tile_rows.shape[0]), upper_bound(tile_rows.shape[0])) == (1, 6)


def test_branches_know_their_predicate() -> None:
    module = parse(
        """func @f(%x: tensor<[M]xf32>) symbols [M: 1..100] {
          %a = gml_st.for %i in 0 to M step 1 (%o = %x) {
            gml_st.if M < 8 {
              %in = gml_st.materialize(%x) tile [%i] [1] : tensor<[M - M + 1]xf32>
              %small = tcp.fill {value = 0.0} : tensor<[M]xf32>
              %bound = tcp.fill {value = 0.0} : tensor<[%i]xf32>
            } else {
              %large = tcp.fill {value = 0.0} : tensor<[M]xf32>
            }
          } : tensor<[M]xf32>
          tcp.return
        }"""
    )
    limits = dict[str, tuple[int | None, int | None]]()
    for name in ("small", "bound", "large"):
        op = named(module, name)
        (size,) = shape_of(op.result.type)
        limits[name] = context_at(op).lower_bound(size), context_at(op).upper_bound(size)
    assert limits == {"small": (1, 7), "bound": (0, 6), "large": (8, 100)}


def test_operations_know_where_they_stand() -> None:
    for name in ("tensor", "loops", "vector", "buffer"):
        module = sample(name)
        lines = (SAMPLES / f"{name}.tcp").read_text(encoding="utf-8").split("\n")
        for op in module.walk():
            assert op.location is not None
            assert op.location.text == lines[op.location.line - 1]
            assert op.location.text[op.location.column - 1 :].startswith(
                ("%", "tcp.", "gml_st.", "vector.", "buffer.", "@")
            )


def test_names_of_operations() -> None:
    module = sample("loops")
    assert named(module, "mm/m").results[0].name == "r"
    assert named(module, "bias").results[0].name == "biased"
    assert named(sample("tensor"), "product.of/sums~main").result.name == "accumulated"


def test_strided_arguments_and_results() -> None:
    text = (
        "func @f(%x: tensor<2x[N]xf32> strided, %y: tensor<3x[N]xf32>) -> "
        "(tensor<3x[N]xf32>, tensor<2x[N]xf32> strided) symbols [N] {\n  tcp.return(%y, %x)\n}\n"
    )
    module = parse(text)
    assert module.main.attributes == {"strided": (0, 3)}
    assert module.text() == text
    assert structurally_equal(module, parse(text.replace("f32> strided,", "f32>,"))) is not None


def test_comments_and_free_layout() -> None:
    text = (
        "func@f(%x:tensor<4 x [2*N]xf32>)->tensor<4x[N*2]xf32>symbols[N]{// a comment\n%y=tcp.exp(%x)//%z\n"
        ":tensor<4x[N+N]xf32>tcp.return(%y)}"
    )
    module = parse(text)
    assert module.main.text() == (
        "func @f(%x: tensor<4x[2*N]xf32>) -> tensor<4x[2*N]xf32> symbols [N] {\n"
        "  %y = tcp.exp(%x) : tensor<4x[2*N]xf32>\n"
        "  tcp.return(%y)\n"
        "}"
    )


def test_siblings_may_share_names_and_dims_are_not_symbols() -> None:
    module = parse(
        """func @f(%x: tensor<[m]xf32>) -> tensor<[m]xf32> symbols [m] {
          %y = tcp.generic(%x) {iterators = [["m", "parallel"]], maps = [[m], [m]]} ({ (%e: f32): tcp.yield(%e) })
            : tensor<[m]xf32>
          %z = tcp.generic(%y) {iterators = [["n", "parallel"]], maps = [[n], [n]]} ({ (%e: f32): tcp.yield(%e) })
            : tensor<[m]xf32>
          tcp.return(%z)
        }"""
    )
    assert structurally_equal(module, parse(module.text())) is None
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(evaluate_func(module, module.main, [x])[0], x)


def test_expressions_are_kept_as_they_are_written() -> None:
    text = """func @f(%x: tensor<[min(6, 6*M)]x[floordiv(4*M, 4)]x[max(3, 4)]xf32>) symbols [M: 1..] {
  tcp.return
}
"""
    assert parse(text).text() == text.replace("[max(3, 4)]", "4")


def test_generalized_operations_round_trip() -> None:
    b = Builder()
    m = Symbol("M")
    with b.func("f", {"x": tensor([m, 3], f32)}, [m]) as (x,):
        made = generalize(b.insert(Exp([x], [x.type])))
        b.returns(b.insert(made, "g").result)
    module = b.finish()
    assert "maps = [[d0, d1], [d0, d1]]" in module.text()
    assert structurally_equal(module, parse(module.text())) is None


def test_a_detached_operation_prints() -> None:
    var = Var("i", 0, 8, 4)
    block = Block([("o", f32)])
    assert print_operation(For([], [f32], {"var": var}, [block], name="i")) == (
        "%unnamed = gml_st.for %i in 0 to 8 step 4 {\n} : f32"
    )
    assert (
        print_operation(Generic([], [f32], {"maps": ()}, [Block()]))
        == "%unnamed = tcp.generic {maps = []} ({\n}) : f32"
    )


# -- any attribute, any size ---------------------------------------------------------------------------------------

SYMBOLS = (Symbol("M", 1, 64), Symbol("N", 0, None, 4))
LOOP = Var("i", 0, SYMBOLS[0].size(), 3)


def calls(inner: st.SearchStrategy[Dim]) -> st.SearchStrategy[Dim]:
    """Sums, products and calls of sizes."""
    pairs = st.tuples(inner, inner)
    with_call = st.tuples(inner.filter(lambda d: isinstance(d, Size)), st.integers(1, 9))
    return st.one_of(
        pairs.map(lambda p: p[0] + p[1]),
        pairs.map(lambda p: p[0] - p[1]),
        st.tuples(inner, st.integers(-5, 5)).map(lambda p: p[0] * p[1]),
        with_call.map(lambda p: FloorDiv(*p).size()),
        with_call.map(lambda p: CeilDiv(*p).size()),
        with_call.map(lambda p: Mod(*p).size()),
        with_call.map(lambda p: Min(p).size()),
        with_call.map(lambda p: Max(p).size()),
    )


atoms = st.one_of(st.integers(-99, 99), st.sampled_from([SYMBOLS[0].size(), SYMBOLS[1].size(), LOOP.size()]))
sizes = st.recursive(atoms, calls, max_leaves=8)
tiles = st.integers(0, 3).flatmap(
    lambda rank: st.builds(
        Tile,
        st.tuples(*[sizes] * rank),
        st.tuples(*[sizes] * rank),
        st.tuples(*[sizes] * rank),
        st.sets(st.integers(0, rank - 1)).map(lambda d: tuple(sorted(d))) if rank else st.just(()),
    )
)
comparisons = st.builds(Comparison, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), sizes, sizes)
predicates = st.lists(comparisons, max_size=3).map(lambda c: Predicate(tuple(c)))
plain = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.booleans(),
    st.floats(),
    st.text(st.characters(codec="utf-8")),
    st.sampled_from(list(SCALARS.values())),
    sizes,
    tiles,
    predicates.filter(lambda p: p.comparisons != (Comparison("==", 0, 0),)),
)
attributes = st.recursive(plain, lambda a: st.lists(a, max_size=3).map(tuple), max_leaves=5)


@given(st.dictionaries(st.sampled_from(["value", "name", "tile", "x", "in", "f32.of"]), attributes, max_size=3))
def test_any_attribute_round_trips(held: dict[str, Attribute]) -> None:
    b = Builder()
    with b.func("f", {"x": tensor([SYMBOLS[0]], bf16)}, SYMBOLS) as (x,):
        with b.loop(For, "i", (0, SYMBOLS[0], 3), {"o": x}):
            whole = Tile((0,), (SYMBOLS[0].size(),))
            b.insert(Materialize([x], [x.type], {"subset": whole, **held}), "e")
        b.returns(x)
    module = b.finish()
    again = parse(module.text())
    assert structurally_equal(module, again) is None
    assert again.text() == module.text()


def test_equality_sees_every_difference() -> None:
    base = sample("loops").text()
    for old, new in [
        ("step 4", "step 5"),
        ("value = 0.0", "value = -0.0"),
        ("M < 100", "M <= 100"),
        ("tcp.add(%sum, %bb)", "tcp.add(%bb, %sum)"),
        ("%biased", "%partial"),
        ('name "bias"', 'name "other"'),
        ("M: 1..", "M: 2.."),
        ("@tiled", "@other"),
        ("gml_st.parallel", "gml_st.for"),
    ]:
        assert old in base
        changed = parse(base.replace(old, new))
        equal = structurally_equal(parse(base), changed)
        assert equal is not None, (old, new)
