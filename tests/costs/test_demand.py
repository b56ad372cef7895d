"""What a payload has to do at given sizes."""

from __future__ import annotations

import pytest

import tcpx
from tcpx.costs.demand import Demand, demand_of
from tcpx.costs.forwarding import PayloadPlaces
from tcpx.costs.visits import runs
from tcpx.costs.work import asked_for
from tcpx.drafts import draft
from tcpx.measure.limits import Limits
from tcpx.measure.roofline import Bound
from tcpx.payload.evaluator import bind_symbols
from tcpx.tune.roof import least_seconds


def demand(text: str, target: str = "generic", **sizes: int) -> Demand:
    module = tcpx.parse(text)
    return demand_of(module, tcpx.load_target(target), tcpx.random_inputs(module, sizes=sizes))


PRODUCT = """\
func @f(%x: tensor<[M]x7x{a}>, %w: tensor<7x5x{b}>) -> tensor<[M]x5x{c}> symbols [M] {{
  %y = tcp.matmul(%x, %w) : tensor<[M]x5x{c}>
  tcp.return(%y)
}}
"""


@pytest.mark.parametrize(
    ("types", "target", "peak", "bytes_"),
    [
        (("f32", "f32", "f32"), "generic", "fma_f32", 4 * (3 * 7 + 7 * 5 + 3 * 5)),
        (("f64", "f64", "f64"), "generic", "fma_f64", 8 * (3 * 7 + 7 * 5 + 3 * 5)),
        (("ui8", "si8", "si32"), "generic", "fma_f32", 3 * 7 + 7 * 5 + 4 * 3 * 5),
    ],
)
def test_a_product(types: tuple[str, str, str], target: str, peak: str, bytes_: int) -> None:
    a, b, c = types
    found = demand(PRODUCT.format(a=a, b=b, c=c), target, M=3)
    assert found == Demand({peak: 2 * 3 * 7 * 5}, bytes_)


def test_an_operation_with_two_results() -> None:
    text = """\
    func @f(%x: tensor<[M]x5x{dtype}>) -> tensor<[M]xsi64> symbols [M] {
      %v, %y = tcp.reduce_argmax(%x) {dims = [1]} : tensor<[M]x{dtype}>, tensor<[M]xsi64>
      tcp.return(%y)
    }
    """
    found = {dtype: demand(text.replace("{dtype}", dtype), M=3) for dtype in ("f32", "f64")}
    assert [list(each.operations) for each in found.values()] == [["fma_f32"], ["fma_f64"]]
    assert found["f32"].bytes == 3 * 5 * 4 + 3 * 8


def test_movement_computes_nothing_and_what_stays_inside_is_no_memory() -> None:
    text = """\
    func @f(%x: tensor<[N]x4xf32>) -> tensor<4x[N]xf32> symbols [N] {
      %y = tcp.exp(%x) : tensor<[N]x4xf32>
      %z = tcp.transpose(%y) {permutation = [1, 0]} : tensor<4x[N]xf32>
      tcp.return(%z)
    }
    """
    assert demand(text.replace("exp", "neg"), N=9) == Demand({"fma_f32": 36}, 2 * 36 * 4)
    assert demand(text, N=9).operations["fma_f32"] > 10 * 36  # what it is expanded to


def test_loops_of_the_payload_count_with_the_sizes_of_their_first_iterations() -> None:
    text = """\
    func @f(%x: tensor<[N]x4xf32>) -> tensor<[N]x4xf32> symbols [N] {
      %y = gml_st.for %i in 0 to N step 3 (%d = %x) {
        %r = gml_st.materialize(%x) tile [%i, 0] [min(3, N - %i), 2] : tensor<[min(3, N - %i)]x2xf32>
        %s = tcp.neg(%r) : tensor<[min(3, N - %i)]x2xf32>
        gml_st.yield(%s, %d) tile [%i, 0] [min(3, N - %i), 2]
      } : tensor<[N]x4xf32>
      tcp.return(%y)
    }
    """
    assert demand(text, N=8).operations == {"fma_f32": 3 * 3 * 2}


WHOLE = PRODUCT.replace("7", "64").replace("x5x", "x48x")
"""Of sizes that tiles fit into."""
ATTENTION = """\
func @f(%q: tensor<1x[M]x64xf32>, %k: tensor<1x64x64xf32>, %v: tensor<1x64x64xf32>) -> tensor<1x[M]x64xf32>
    symbols [M] {
  %y = tcp.attention(%q, %k, %v) : tensor<1x[M]x64xf32>
  tcp.return(%y)
}
"""
SOFTMAX = """\
func @f(%x: tensor<[M]x64xf32>) -> tensor<[M]x64xf32> symbols [M] {
  %y = tcp.softmax(%x) {dim = 1} : tensor<[M]x64xf32>
  tcp.return(%y)
}
"""


@pytest.mark.parametrize(
    ("text", "target", "peak", "least", "more"),
    [
        (WHOLE.format(a="f32", b="f32", c="f32"), "x86_avx512", "fma_f32", 2 * 48 * 48 * 64, 0.0),
        (WHOLE.format(a="f64", b="f64", c="f64"), "generic", "fma_f64", 2 * 48 * 48 * 64, 0.0),
        (WHOLE.format(a="ui8", b="si8", c="si32"), "x86_avx512", "dot_ui8_si8", 2 * 48 * 48 * 64, 0.0),
        (WHOLE.format(a="ui8", b="si8", c="si32"), "x86_avx2", "dot_si16", 2 * 48 * 48 * 64, 0.0),
        (SOFTMAX, "x86_avx2", "fma_f32", 20 * 48 * 64, 0.25),
        (ATTENTION, "x86_avx2", "fma_f32", 48 * 64 * (2 * 2 * 64 + 20), 0.25),
    ],
    ids=["product", "f64", "bytes", "widened bytes", "softmax", "attention"],
)
def test_a_payload_and_its_kernel_are_counted_alike(
    text: str, target: str, peak: str, least: float, more: float
) -> None:
    """What tune measures a winner by, and what profile measures a statement by: the kernel may do more than the payload
    asks for, in tiles that are padded or computed twice, by `more` at most."""
    module, chosen = tcpx.parse(text), tcpx.load_target(target)
    arrays = tcpx.random_inputs(module, sizes={"M": 48})
    asked = demand_of(module, chosen, arrays).operations
    kernel = draft(module, target=target).run.module.main
    sizes = bind_symbols(module.main, arrays)
    wanted, made = asked_for(module.main, sizes, chosen), list(runs(kernel, bind_symbols(kernel, arrays), chosen))
    found = PayloadPlaces.of(module).account(wanted, made)
    assert sum(work.asked.total() for places in found.values() for work in places.values()) == asked[peak]
    done = sum(work.issued for places in found.values() for work in places.values())
    assert set(asked) == {peak}
    assert least <= asked[peak] <= done <= (1 + more) * asked[peak]


def test_the_least_time() -> None:
    limits = Limits(1, {"fma_f32": 100.0, "dot_bf16": 400.0, "read_l1": 10.0}, {"l1": 1000})
    assert least_seconds(Demand({"fma_f32": 100, "dot_bf16": 800}, 1), limits) == Bound(3.0, "dot_bf16")
    assert least_seconds(Demand({"dot_ui8_si8": 100}, 500), limits) == Bound(50.0, "read_l1")
    assert least_seconds(Demand({}, 0), limits) is None
    assert least_seconds(Demand({"fma_f32": 1}, 0), limits) == Bound(0.01, "fma_f32")
