"""`tcpx.why`: what it says of loops, for targets by name, and of what it does not know."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tcpx

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = """\
func @f(%x: tensor<6x64xf32>, %w: tensor<64x{n}xf32>) -> tensor<6x{n}xf32> {{
  %mm = tcp.matmul(%x, %w) : tensor<6x{n}xf32>
  tcp.return(%mm)
}}
"""
TILE = """\
language 2
schedule s(root: func) {{
  let mm = match one contract in root
  let i, j = tile(mm, [m: {m}, n: {n}])
  let kk = tile(mm, [k: 1])
  vectorize(j)
  hoist_accumulator(mm, out_of: kk)
}}
"""
SYMBOLIC = """\
func @f(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {
  %r = tcp.exp(%x) : tensor<[N]xf32>
  tcp.return(%r)
}
"""
TWO = """\
func @f(%x: tensor<256xf32>, %w: tensor<256x64xf32>) -> (tensor<256xf32>, tensor<64xf32>) {
  %e = tcp.exp(%x) : tensor<256xf32>
  %y = tcp.vecmat(%x, %w) : tensor<64xf32>
  tcp.return(%e, %y)
}
"""


def why(n: int, m: int, target: str) -> tcpx.Why:
    return tcpx.why(tcpx.parse(PRODUCT.format(n=n)), tcpx.parse_schedule(TILE.format(m=m, n=n)), target=target)


def test_arrays_whose_strides_nobody_gives_are_contiguous() -> None:
    text = """func @f(%x: tensor<[M]x[K]xf32> strided) -> tensor<[K]x[M]xf32> symbols [M, K] {
  %y = tcp.transpose(%x) {permutation = [1, 0]} : tensor<[K]x[M]xf32>
  tcp.return(%y)
}
"""
    strided, plain = (tcpx.parse(text.replace("strided", word)) for word in ("strided", ""))
    sizes = {"M": 64, "K": 512}
    found, expected = (tcpx.why(module, sizes=sizes, target="zen4") for module in (strided, plain))
    assert [nest.cycles for nest in found.nests] == [nest.cycles for nest in expected.nests]


def test_a_product_at_the_limit() -> None:
    assert list(why(64, 6, "sapphire_rapids").lines()) == [
        "@f for sapphire_rapids: 817 cycles, as modelled",
        "core: Intel Golden Cove",
        "",
        "100.0 %  @f mm/m1: 817 cycles",
        "  mm/k1: 97.1 % of the nest, 12.39 cycles an iteration, 64 iterations",
        "    throughput  12.00  p0 12.00 p1 1.00 p2 3.33 p3 3.33 p5 12.00 p6 1.00 p10 1.00 p11 3.33, front end 5.17, "
        "waiting 0.38",
        "    latency      4.00  fma_f32x16",
        "    bytes      L1 352, L2 0, L3 0, memory 0",
        "    bound      ports p0 and p5",
        "    next       nothing in this loop: it multiplies and adds as fast as the core can; fewer operations, or "
        "narrower ones",
    ]


def test_few_sums_wait_for_one_another() -> None:
    (nest,) = why(16, 1, "x86_avx2").nests
    (loop,) = nest.loops
    assert (loop.bound, loop.latency, loop.chain) == ("the latency of the chain fma_f32x8", 4.0, ("fma_f32x8",))
    assert loop.next == (
        "3 such chains at once: a register tile of 3 times as many results (`tile`), or `split_reduction` with 3 times"
        ' the `factor`; `unroll_and_jam((match one "mm" in root).loop(m), factor: 3)` at the end of the schedule: 2.9'
        " times as fast"
    )


def test_a_step_that_is_named_is_accepted_and_faster() -> None:
    step = '  unroll_and_jam((match one "mm" in root).loop(m), factor: 3)\n}'
    schedule = tcpx.parse_schedule(TILE.format(m=1, n=16).replace("}\n", f"{step}\n"))
    module = tcpx.parse(PRODUCT.format(n=16))
    after = tcpx.why(module, schedule, target="x86_avx2").cycles
    assert why(16, 1, "x86_avx2").cycles / after == pytest.approx(2.9, rel=0.02)


@pytest.mark.parametrize(
    ("operation", "bound", "step"),
    [
        (
            "reduce_sum(%x) {dims = [0]} : tensor<f32>",
            "the latency of the chain add_f32",
            "`vectorize`, and 3 such chains at once: a register tile of 3 times as many results (`tile`), or"
            " `split_reduction` with 3 times the `factor`",
        ),
        ("exp(%x) : tensor<4096xf32>", "ports p0, p1, p5 and p6", "the loop takes one element at a time: `vectorize`"),
    ],
)
def test_scalar_loops(operation: str, bound: str, step: str) -> None:
    made = operation.rpartition(" : ")[2]
    text = f"func @f(%x: tensor<4096xf32>) -> {made} {{\n  %r = tcp.{operation}\n  tcp.return(%r)\n}}\n"
    nothing = tcpx.parse_schedule("language 2\nschedule s(root: func) { optional canonicalize(root) }")
    (nest,) = tcpx.why(tcpx.parse(text), nothing, target="sapphire_rapids").nests
    assert (nest.loops[0].bound, nest.loops[0].next) == (bound, step)


@pytest.mark.parametrize(
    ("operation", "step"),
    [
        ("sqrt(%x)", "fewer quotients and roots: no instruction computes them faster"),
        ("pow(%x, 0.3)", "fewer values that are needed at the same time"),
    ],
)
def test_what_comes_next_fits_what_the_loop_computes(operation: str, step: str) -> None:
    """No reciprocal serves a root, and no register tile what adds up nothing."""
    type_ = "tensor<1024xf32>"
    text = f"func @f(%x: {type_}) -> {type_} {{\n  %r = tcp.{operation} : {type_}\n  tcp.return(%r)\n}}\n"
    (nest,) = tcpx.why(tcpx.parse(text), target="zen4").nests
    assert nest.loops[0].next == step


def test_loops_that_wait_for_memory() -> None:
    size = "tensor<4096x4096xf32>"
    text = f"func @f(%x: {size}) -> {size} {{\n  %r = tcp.neg(%x) : {size}\n  tcp.return(%r)\n}}\n"
    (nest, *_) = tcpx.why(tcpx.parse(text), target="sapphire_rapids").nests
    assert nest.loops[0].bound == "memory bandwidth"
    assert nest.loops[0].bytes["memory"] == nest.loops[0].bytes["l1"] > 0


def test_a_row_that_is_a_whole_operation_counts_as_its_work() -> None:
    target = tcpx.load_target(ROOT / "tests/transform/micro_kernels.yaml", allow_native=True)
    schedule = (
        "language 2\nschedule s(root: func) {\n  let mm = match one contract in root\n"
        "  let pc = tile(mm, [k: 8])\n  let jr, ir = tile(mm, [n: 16, m: 4])\n  lower_to(mm, masked_4x16)\n}\n"
    )
    text = (
        "func @f(%x: tensor<64x8xf32>, %w: tensor<8x16xf32>) -> tensor<64x16xf32> {\n"
        "  %mm = tcp.matmul(%x, %w) : tensor<64x16xf32>\n  tcp.return(%mm)\n}\n"
    )
    nest = tcpx.why(tcpx.parse(text), tcpx.parse_schedule(schedule), target=target).nests[0]
    vectors = 4 * 8 * 16 / target.lanes("f32")
    assert max(loop.ports["f0"] for loop in nest.loops) == pytest.approx(vectors / 2)  # two units multiply and add


def test_a_core_that_no_file_describes() -> None:
    found = why(64, 6, "x86_avx512")
    assert (found.core, found.is_described) == ("a usual processor", False)
    assert "core: a usual processor; that of this target is not described" in found.lines()


def test_the_nest_that_is_asked_for() -> None:
    module = tcpx.parse(TWO)
    everything = [held.name for held in tcpx.why(module, target="zen4").nests]
    assert everything
    one = tcpx.why(module, nest="e/d01", target="zen4")
    assert [(held.function, held.name) for held in one.nests] == [("f", "e/d01")]
    assert one.nests[0].share < 1.0
    assert one.nests == tcpx.why(module, nest="@f e/d01", target="zen4").nests


def test_a_function_that_is_called_several_times() -> None:
    text = (
        "func @g(%x: tensor<4096xf32>) -> tensor<4096xf32> {\n"
        "  %e = tcp.exp(%x) : tensor<4096xf32>\n  tcp.return(%e)\n}\n"
        "func @f(%x: tensor<4096xf32>) -> tensor<4096xf32> {\n"
        "  %a = tcp.call @g(%x) : tensor<4096xf32>\n  %b = tcp.call @g(%a) : tensor<4096xf32>\n  tcp.return(%b)\n}\n"
    )
    found = tcpx.why(tcpx.parse(text), target="zen4")
    assert [(nest.function, nest.runs, nest.share) for nest in found.nests] == [("g", 2, 1.0)]
    assert found.cycles == 2 * found.nests[0].cycles
    assert any(line.endswith(" cycles, 2 runs") for line in found.lines())


def test_a_nest_that_there_is_not() -> None:
    with pytest.raises(tcpx.ArgumentError) as refused:
        tcpx.why(tcpx.parse(TWO), nest="e/d1", target="zen4")
    assert str(refused.value) == (
        "definite error: @f has no nest `e/d1`\n  required: e/d01, y/n1\n  found: e/d1\n  fix: did you mean `e/d01`?"
    )


def test_a_payload_without_loops() -> None:
    text = "func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n  tcp.return(%x)\n}\n"
    found = tcpx.why(tcpx.parse(text), target="zen4")
    assert all(not nest.loops or nest.cycles for nest in found.nests)
    with pytest.raises(tcpx.ArgumentError, match="@f has no nest `n`"):
        tcpx.why(tcpx.parse(text), nest="n", target="zen4")


def test_sizes() -> None:
    module = tcpx.parse(SYMBOLIC)
    usual, few = tcpx.why(module, target="zen4"), tcpx.why(module, sizes={"N": 64}, target="zen4")
    assert (usual.sizes, few.sizes) == ({"N": 256}, {"N": 64})
    assert usual.cycles > 3 * few.cycles
    assert next(few.lines()).startswith("@f for zen4 at N = 64: ")
    with pytest.raises(tcpx.ArgumentError) as refused:
        tcpx.why(module, sizes={"M": 64}, target="zen4")
    assert str(refused.value) == "definite error: there is no size `M`\n  required: N\n  found: M"
    with pytest.raises(tcpx.ArgumentError) as refused:
        tcpx.why(module, sizes={"N": -1}, target="zen4")
    assert str(refused.value) == (
        "definite error: the size `N` is out of its range\n  required: 0 or more\n  found: -1"
    )


def test_it_is_plain_data() -> None:
    found = why(64, 6, "zen4")
    held = json.loads(json.dumps(found.as_json()))
    assert held["nests"][0]["loops"][0]["bound"] == "ports f0 and f1"
    assert repr(found) == "<Why of @f for zen4, 1 nest>"
    assert repr(found.nests[0].loops[0]) == "<WhyLoop mm/k1 24.06 cycles: ports f0 and f1>"


@pytest.mark.parametrize(
    ("file", "target"), [("examples/digits/digits.tcp", "zen5"), ("examples/attention/decode.tcp", "generic")]
)
def test_any_payload_has_a_report(file: str, target: str) -> None:
    found = tcpx.why(ROOT / file, target=target)
    assert sum(nest.share for nest in found.nests) >= 0.8
    assert all(loop.bound and loop.next for nest in found.nests for loop in nest.loops)


def test_the_loop_of_a_scan_is_named() -> None:
    text = """\
    func @f(%x: tensor<20x2000xf32>) -> tensor<20x2000xf32> {
      %r, %s = tcp.cumsum(%x) {dim = 1} : tensor<20x2000xf32>, tensor<20xf32>
      tcp.return(%r)
    }
    """
    (nest,) = tcpx.why(tcpx.parse(text), target="zen4").nests
    assert nest.loops[0].next == "`scan_in_lanes` along the dim of r/d1, or 3 rows at once"
