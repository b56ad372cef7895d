"""Arguments that are numbers which sizes are known by: a cache with room for more than is in it."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.payload.diagnostics import Diagnostic
from tcpx.payload.structure import fingerprint
from tcpx.source import emit
from tests.emit_c.test_state import PLAIN, in_tuple, numbers

CACHE = """\
func @step(%q: tensor<8xf32>, %n: index as [T], %k: tensor<8xf32>, %cache: inout tensor<[C]x8xf32>)
    -> (tensor<[T]xf32>, %cache: tensor<[C]x8xf32>) symbols [T: 0..4096, C: 1..4096] {
  tcp.assert {any = [T + 1 <= C], message = "the cache is full"}
  %used = gml_st.materialize(%cache) tile [0, 0] [T, 8] : tensor<[T]x8xf32>
  %s = tcp.contract(%used, %q) {lhs = ["t", "e"], rhs = ["e"], out = ["t"]} : tensor<[T]xf32>
  %p = tcp.softmax(%s) {dim = 0} : tensor<[T]xf32>
  %row = tcp.reshape(%k) : tensor<1x8xf32>
  %c = gml_st.for %i in 0 to 1 step 1 (%d = %cache) {
    gml_st.yield(%row, %d) tile [T, 0] [1, 8]
  } : tensor<[C]x8xf32>
  tcp.return(%p, %c)
}
"""
CALLED = """\
func @main(%q: tensor<8xf32>, %n: index as [U], %k: tensor<8xf32>, %cache: inout tensor<[C]x8xf32>)
    -> (%cache: tensor<[C]x8xf32>, tensor<[U]xf32>) symbols [U: 1..4096, C: 1..4096] {
  %p, %c = tcp.call @step(%q, %n, %k, %cache) : tensor<[U]xf32>, tensor<[C]x8xf32>
  tcp.return(%c, %p)
}
"""


def check(text: str, schedule: object = PLAIN) -> None:
    """A cache that is filled from the start to its end is what the evaluator makes of it, and the same array."""
    module = tcpx.parse(text)
    assert tcpx.parse(module.text()).text() == module.text()
    kernel = tcpx.compile(module, schedule, target="generic")  # pyright: ignore[reportArgumentType]
    mine, cache, q, k = numbers((5, 8), (5, 8), (8,), (8,))
    mine[:] = cache
    place = kernel.signature.inputs[2].state
    assert place is not None
    for used in range(1, 5):
        wanted = in_tuple(tcpx.evaluate(module, q, np.array(used), k, cache))
        found = in_tuple(kernel(q, used, k, mine))
        assert found[place] is mine
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), rtol=1e-5, atol=1e-6)
        cache = np.asarray(wanted[place]).astype(np.float32)


@pytest.mark.parametrize("schedule", [PLAIN, None], ids=["plain", "default"])
def test_a_cache(schedule: object) -> None:
    check(CACHE, schedule)
    check(CALLED + CACHE, schedule)


def test_one_call_of_a_kernel() -> None:
    module = tcpx.parse(CACHE)
    source = emit(module, PLAIN, target="generic")
    assert "(const float *q, const float *k, float *cache, float *out, int64_t T, int64_t C," in source.header
    assert str(source.signature).startswith("@step(%q: tensor<8xf32>, %n: index as [T], %k:")
    kernel = tcpx.compile(module, PLAIN)
    q, k, cache = numbers((8,), (8,), (5, 8))
    first = in_tuple(kernel(q, 3, k, cache.copy()))[0]
    for number in (np.int64(3), np.uint8(3), np.array(3)):
        assert np.array_equal(np.asarray(in_tuple(kernel(q, number, k, cache.copy()))[0]), np.asarray(first))
    assert np.array_equal(np.asarray(in_tuple(kernel(q, cache=cache.copy(), k=k, n=3))[0]), np.asarray(first))
    bound = kernel.bind(q, 3, k, cache)
    assert np.array_equal(np.asarray(in_tuple(bound())[0]), np.asarray(first))
    assert tcpx.random_inputs(module, sizes={"T": 2, "C": 5})[1] == 2
    assert tcpx.random_inputs(module, given={"n": np.array(4)}, sizes={"C": 5})[1] == 4


def test_a_number_that_is_computed_with() -> None:
    module = tcpx.parse("""
func @f(%n: index as [T], %x: tensor<4xf32>) -> tensor<4xindex> symbols [T: 0..100] {
  %b = tcp.broadcast(%n) {dims = []} : tensor<4xindex>
  %y = tcp.add(%b, %b) : tensor<4xindex>
  tcp.return(%y)
}
""")
    x = np.ones(4, np.float32)
    assert np.asarray(tcpx.compile(module, PLAIN)(7, x)).tolist() == [14] * 4
    assert np.asarray(tcpx.evaluate(module, np.array(7), x)).tolist() == [14] * 4


def refused(kernel: tcpx.Kernel, *arrays: object) -> Diagnostic:
    with pytest.raises(tcpx.ArgumentError) as caught:
        kernel(*arrays)
    return caught.value.diagnostic


def test_numbers_that_do_not_fit() -> None:
    module = tcpx.parse(CACHE.replace("T: 0..4096", "T: 2..4096"))
    kernel = tcpx.compile(module, PLAIN)
    q, k, cache = numbers((8,), (8,), (5, 8))
    assert refused(kernel, q, 5, k, cache).message == "the cache is full"
    for number in (1, -1, 4097, 2**63, 2**70, -(2**70)):
        with pytest.raises(tcpx.ArgumentError, match="the size `T` is out of its range") as caught:
            tcpx.evaluate(module, q, np.asarray(number), k, cache)
        assert (caught.value.diagnostic.required, caught.value.diagnostic.found) == ("2..4096", f"T = {number}")
        found = refused(kernel, q, number, k, cache)
        assert (found.message, found.required, found.found) == (
            "the size `T` is out of its range",
            "2..4096",
            str(number),
        )
    for number in (2.0, "2", np.array([2]), None):
        assert refused(kernel, q, number, k, cache).message == "argument `n` is a size"
    assert refused(kernel, q, 2, k).required == (
        "%q: tensor<8xf32>, %n: index as [T], %k: tensor<8xf32>, %cache: inout tensor<[C]x8xf32>"
    )
    wide = tcpx.compile(tcpx.parse(CACHE.replace("T: 0..4096", "T")), PLAIN)
    assert refused(wide, q, 2**70, k, cache).required == "at most 140737488355328"


def test_a_size_that_an_array_has_too() -> None:
    text = "func @f(%n: index as [T], %x: tensor<[T]xf32>) -> tensor<[T]xf32> symbols [T] { tcp.return(%x) }"
    module = tcpx.parse(text)
    x = np.ones(4, np.float32)
    kernel = tcpx.compile(module, PLAIN)
    assert np.array_equal(np.asarray(kernel(4, x)), x)
    assert refused(kernel, 3, x).required == "T = 4"
    with pytest.raises(tcpx.ArgumentError, match="4, as the size `T` is"):
        tcpx.evaluate(module, np.array(3), x)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%n: index as [U], %x: tensor<[T]xf32>", "there is no symbol `U`"),
        ("%n: si64 as [T], %x: tensor<[T]xf32>", "a size is known by a number"),
        ("%n: tensor<index> as [T], %x: tensor<[T]xf32>", "a size is known by a number"),
        ("%n: index as [T], %m: index as [T], %x: tensor<4xf32>", "`numbers` is the arguments that sizes are known by"),
    ],
)
def test_heads_that_are_refused(text: str, message: str) -> None:
    with pytest.raises(tcpx.TcpxError) as caught:
        tcpx.parse(
            f"func @f({text}) -> tensor<2xf32> symbols [T] {{ %y = tcp.fill {{value = 0.0}} : tensor<2xf32>\n"
            "  tcp.return(%y) }"
        )
    assert message in caught.value.diagnostic.message
    assert caught.value.diagnostic.payload is not None


def test_calls_with_numbers() -> None:
    literal = CALLED.replace("%n, %k", "%m, %k").replace("  %p, %c", "  %m = tcp.const {value = 3} : index\n  %p, %c")
    module = tcpx.parse(literal.replace("[U]xf32>", "3xf32>") + CACHE)
    q, k, cache = numbers((8,), (8,), (5, 8))
    wanted = in_tuple(tcpx.evaluate(module, q, np.array(2), k, cache))
    found = in_tuple(tcpx.compile(module, PLAIN)(q, 2, k, cache))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), rtol=1e-5, atol=1e-6)
    computed = CALLED.replace("%n, %k", "%m, %k").replace("  %p, %c", "  %m = tcp.add(%n, %n) : index\n  %p, %c")
    with pytest.raises(tcpx.VerifyError) as caught:
        tcpx.parse(computed + CACHE)
    assert "the size `T` of @step is not known by %m" in caught.value.diagnostic.message
    with pytest.raises(tcpx.VerifyError) as caught:
        tcpx.parse(CALLED.replace("U: 1..4096", "U: 1..5000") + CACHE)
    assert "the size `T` of @step is not known to be in its range" in caught.value.diagnostic.message


def test_numbers_count_in_the_structure() -> None:
    text = "func @f(%n: index as [T], %x: tensor<[T]xf32>) -> tensor<[T]xf32> symbols [T] { tcp.return(%x) }"
    assert fingerprint(tcpx.parse(text).main) != fingerprint(tcpx.parse(text.replace(" as [T]", "")).main)
