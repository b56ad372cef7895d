"""lower_vectors: the numbers of the n-D payload on odd, unit and empty sizes, and the pieces that were promised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from tcpx.payload.constants import Constants
from tcpx.payload.diagnostics import ScheduleError
from tcpx.payload.evaluator import Evaluation, evaluate_func
from tcpx.payload.ir import FuncOp, Module, Operation
from tcpx.payload.ops.gml_st import Loop
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.text.parser import parse
from tcpx.payload.types import VectorType, dtype_of
from tcpx.payload.verifier import verify_module
from tcpx.target import load_target
from tcpx.transform.vectors.lowering import lower_vectors

TARGETS = ("x86_avx512", "x86_avx2", "generic")
Sizes = Mapping[str, int]


def buffer(shape: str, dtype: str = "f32", strides: str = "") -> str:
    """A buffer type from `[M]x64`; contiguous, of rank 1 or 2, where no strides are given."""
    last = shape.rsplit("x", maxsplit=1)[-1].strip("[]")
    return f"buffer<{shape}x{dtype}, strides [{strides or (f'{last}, 1' if 'x' in shape else '1')}], space argument>"


def run(module: Module, sizes: Sizes, seed: int = 0) -> list[np.ndarray]:
    """Evaluate a function on random buffers of these sizes; its arguments afterwards."""
    func = module.main
    evaluation = Evaluation(module.constants, sizes, seed)
    random = np.random.default_rng(seed)
    arrays: list[np.ndarray] = []
    for arg in func.args:
        dtype, shape = dtype_of(arg.type), evaluation.shape(arg.type)
        if dtype.is_float:
            arrays.append(random.uniform(-2, 2, shape).astype(dtype.numpy))
        else:
            arrays.append(random.integers(0, 100, shape).astype(dtype.numpy))
    with np.errstate(all="ignore"):
        evaluation.run_block(func.body, arrays)
    return arrays


def values_in(root: Operation) -> list[object]:
    """The types of all values in code: not in bodies of operations."""
    found: list[object] = []
    for op in code(root):
        found += [v.type for v in (*op.operands, *op.results)]
        found += [a.type for block in op.regions for a in block.args] if isinstance(op, Loop) else []
    return found


def code(root: Operation) -> list[Operation]:
    """The operations in a function or loop and in loops and branches in it."""
    found: list[Operation] = []
    for block in root.regions:
        for op in block.ops:
            found.append(op)
            if op.opcode.startswith("gml_st"):
                found += code(op)
    return found


def lowered(text: str, target: str = "x86_avx512", constants: Constants | None = None) -> Module:
    """The payload after lower_vectors: it verifies, has 1-D vectors only, lowering it again changes nothing, and
    rolling back restores every byte."""
    module = parse(text, constants=constants)
    before = module.text()
    rewriter = Rewriter(module)
    numbers = module.next_origin
    origins = {o: list(ops) for o, ops in rewriter.origins.items()}
    lower_vectors(rewriter, module.main, load_target(target))
    verify_module(module)
    after = module.text()
    parse(after, constants=module.constants)
    known = load_target(target)
    for type_ in values_in(module.main):
        if isinstance(type_, VectorType):
            assert len(type_.shape) == 1
            assert known.has_type(type_.dtype.name, type_.shape[0])
    again = rewriter.mark()
    lower_vectors(rewriter, module.main, known)
    assert module.text() == after
    rewriter.rollback(again)
    assert module.text() == after
    rewriter.rollback(0)
    assert (module.text(), module.next_origin) == (before, numbers)
    assert {o: list(ops) for o, ops in rewriter.origins.items() if ops} == origins
    assert not rewriter.ended
    lower_vectors(rewriter, module.main, known)
    assert module.text() == after
    return module


def check(text: str, sizes: Sequence[Sizes], targets: Sequence[str] = TARGETS, tolerance: float = 2e-5) -> None:
    """The same results before and after, on every target and for every choice of sizes."""
    for target in targets:
        module = lowered(text, target)
        for chosen in sizes:
            wanted, found = run(parse(text), chosen), run(module, chosen)
            for a, b in zip(wanted, found, strict=True):
                np.testing.assert_allclose(
                    b.astype(np.float64), a.astype(np.float64), rtol=tolerance, atol=tolerance, err_msg=f"{chosen}"
                )


def opcodes(root: Operation) -> Counter[str]:
    return Counter(op.opcode for op in code(root))


def loop(module: Module, name: str) -> Loop:
    return next(op for op in code(module.main) if isinstance(op, Loop) and op.name == name)


GEMM = f"""
func @gemm(%a: {buffer("[M]x[K]")}, %b: {buffer("[K]x[N]")}, %bias: {buffer("[N]")}, %c: {buffer("[M]x[N]")})
  symbols [M, N, K] {{
  %zero = tcp.const {{value = 0.0}} : f32
  gml_st.for %j in 0 to N step 64 {{
    gml_st.for %i in 0 to M step 6 {{
      %z = tcp.fill {{value = 0.0}} : vector<6x64xf32>
      %mm = gml_st.for %k in 0 to K step 1 (%acc = %z) {{
        %av = vector.read(%a) tile [%i, %k] [min(6, M - %i), 1] {{value = 0.0}} : vector<6x1xf32>
        %bv = vector.read(%b) tile [%k, %j] [1, min(64, N - %j)] {{value = 0.0}} : vector<1x64xf32>
        %mm.v = tcp.matmul(%av, %bv, init = %acc) : vector<6x64xf32>
        gml_st.yield(%mm.v, %acc) tile [0, 0] [6, 64]
      }} : vector<6x64xf32>
      %biasv = vector.read(%bias) tile [%j] [min(64, N - %j)] {{value = 0.0}} : vector<64xf32>
      %biast = tcp.broadcast(%biasv) {{dims = [1]}} : vector<6x64xf32>
      %sum = tcp.add(%mm, %biast) : vector<6x64xf32>
      %zt = tcp.broadcast(%zero) {{dims = []}} : vector<6x64xf32>
      %r = tcp.max(%sum, %zt) : vector<6x64xf32>
      vector.write(%r, %c) tile [%i, %j] [min(6, M - %i), min(64, N - %j)]
    }}
  }}
  tcp.return
}}
"""


def test_a_register_tile_with_masks_and_an_epilogue_keeps_its_numbers() -> None:
    sizes = [(6, 64, 2), (7, 70, 3), (1, 1, 1), (5, 63, 0), (0, 5, 2)]
    check(GEMM, [{"M": m, "N": n, "K": k} for m, n, k in sizes])


def test_a_register_tile_has_the_pieces_of_the_design() -> None:
    module = lowered(GEMM)
    inner = loop(module, "k")
    assert opcodes(inner) == {"vector.read": 4 + 6, "tcp.broadcast": 6, "tcp.fma": 24, "gml_st.yield": 24}
    assert Counter(str(op.result.type) for op in code(inner) if op.opcode == "vector.read") == {
        "vector<16xf32>": 4,
        "f32": 6,
    }
    assert [str(d.type) for d in inner.destinations] == ["vector<16xf32>"] * 24
    whole = opcodes(module.main)
    assert (whole["tcp.add"], whole["tcp.max"], whole["vector.write"], whole["tcp.fill"]) == (24, 24, 24, 0)
    assert whole["vector.read"] == 10 + 4


@pytest.mark.parametrize(("columns", "lanes"), [(7, 8), (8, 8), (9, 16)])
def test_a_short_vector_takes_the_part_of_a_register_that_holds_it(columns: int, lanes: int) -> None:
    text = GEMM.replace("64", str(columns))
    found = {str(op.result.type) for op in code(lowered(text).main) if op.opcode == "tcp.fma"}
    assert found == {f"vector<{lanes}xf32>"}
    check(
        text, [{"M": m, "N": n, "K": k} for m, n, k in [(6, columns, 2), (7, 2 * columns + 3, 3), (1, 1, 1), (0, 5, 2)]]
    )


def test_rows_are_guarded_and_lanes_masked() -> None:
    writes = [op.text() for op in code(lowered(GEMM).main) if op.opcode == "vector.write"]
    assert "tile [%i, %j] [1, min(16, N - %j)] drop [0]" in writes[0]
    assert "tile [%i + 5, %j + 48] [min(1, max(0, M - %i - 5)), min(16, max(0, N - %j - 48))] drop [0]" in writes[-1]


def test_full_tiles_have_constant_sizes() -> None:
    text = GEMM.replace("symbols [M, N, K]", "symbols [M multiple_of 6, N multiple_of 64, K]")
    for op in code(lowered(text).main):
        if op.opcode in ("vector.read", "vector.write"):
            assert "min(" not in op.text()


def test_handles_denote_all_pieces_of_the_arithmetic() -> None:
    module = parse(GEMM)
    rewriter = Rewriter(module)
    product = next(op for op in module.walk() if op.name == "mm.v")
    moved = next(op for op in module.walk() if op.name == "biast")
    (origin,), (gone,) = product.origins, moved.origins
    lower_vectors(rewriter, module.main, load_target("x86_avx512"))
    assert [op.opcode for op in rewriter.origins[origin]] == ["tcp.fma"] * 24
    assert "data movement" in rewriter.ended[gone]
    assert not rewriter.origins[gone]


TENSORS = """
func @f(%a: tensor<[M]x[K]xf32>, %b: tensor<[K]x[N]xf32>, %s: tensor<[N]xf32>)
  -> (tensor<[M]x[N]xf32>, tensor<[M]x[N]xf32>) symbols [M, N, K] {
  %e = tcp.empty : tensor<[M]x[N]xf32>
  %e2 = tcp.empty : tensor<[M]x[N]xf32>
  %y, %y2 = gml_st.parallel %i in 0 to M step 2 (%yi = %e, %y2i = %e2) {
    %yn, %y2n = gml_st.for %j in 0 to N step 32 (%yj = %yi, %y2j = %y2i) {
      %z = tcp.fill {value = 1.0} : vector<2x32xf32>
      %acc = gml_st.for %k in 0 to K step 2 (%c = %z) {
        %av = vector.read(%a) tile [%i, %k] [min(2, M - %i), min(2, K - %k)] {value = 0.0} : vector<2x2xf32>
        %bv = vector.read(%b) tile [%k, %j] [min(2, K - %k), min(32, N - %j)] {value = 0.0} : vector<2x32xf32>
        %p = tcp.contract(%av, %bv, init = %c) {lhs = ["m", "k"], rhs = ["k", "n"], out = ["m", "n"]} : vector<2x32xf32>
        gml_st.yield(%p, %c) tile [0, 0] [2, 32]
      } : vector<2x32xf32>
      gml_st.yield(%acc, %yj) tile [%i, %j] [min(2, M - %i), min(32, N - %j)]
      %d = tcp.exp(%acc) : vector<2x32xf32>
      gml_st.yield(%d, %y2j) tile [%i, %j] [min(2, M - %i), min(32, N - %j)]
    } : tensor<[M]x[N]xf32>, tensor<[M]x[N]xf32>
    gml_st.yield(%yn, %yi) tile [0, 0] [M, N]
    gml_st.yield(%y2n, %y2i) tile [0, 0] [M, N]
  } : tensor<[M]x[N]xf32>, tensor<[M]x[N]xf32>
  tcp.return(%y, %y2)
}
"""


def test_tensors_are_read_and_yielded_piece_by_piece() -> None:
    text = TENSORS.replace("gml_st.parallel", "gml_st.for")
    for target in TARGETS:
        module = lowered(text, target)
        for m, n, k in ((2, 32, 2), (3, 33, 5), (1, 1, 1), (4, 70, 0)):
            random = np.random.default_rng(0)
            arrays = [random.normal(size=s).astype(np.float32) for s in ((m, k), (k, n), (n,))]
            wanted = evaluate_func(parse(text), parse(text).main, arrays)
            found = evaluate_func(module, module.main, arrays)
            for a, b in zip(wanted, found, strict=True):
                np.testing.assert_allclose(b.astype(np.float64), a.astype(np.float64), rtol=1e-5, atol=1e-5)


SOFTMAX = f"""
func @softmax(%x: {buffer("[M]x[N]")}, %y: {buffer("[M]x[N]")}) symbols [M, N: 1..40] {{
  gml_st.for %i in 0 to M step 3 {{
    %v = vector.read(%x) tile [%i, 0] [min(3, M - %i), N] {{value = -inf}} : vector<3x40xf32>
    %most = tcp.reduce_max(%v) {{dims = [1]}} : vector<3xf32>
    %mostb = tcp.broadcast(%most) {{dims = [0]}} : vector<3x40xf32>
    %d = tcp.sub(%v, %mostb) : vector<3x40xf32>
    %e = tcp.exp(%d) : vector<3x40xf32>
    %total = tcp.reduce_sum(%e) {{dims = [1]}} : vector<3xf32>
    %totalb = tcp.broadcast(%total) {{dims = [0]}} : vector<3x40xf32>
    %r = tcp.div(%e, %totalb) : vector<3x40xf32>
    vector.write(%r, %y) tile [%i, 0] [min(3, M - %i), N]
  }}
  tcp.return
}}
"""


def test_softmax_of_rows() -> None:
    check(SOFTMAX, [{"M": m, "N": n} for m, n in ((3, 40), (4, 33), (1, 1), (2, 16), (5, 39))])


def test_a_row_reduction_combines_lanes_once_per_row() -> None:
    module = lowered(SOFTMAX)
    found = opcodes(module.main)
    assert found["tcp.generic"] == 3 + 3
    assert (found["tcp.max"], found["tcp.add"]) == (3 * 2 + 3 * 0, 3 * 2)
    assert found["tcp.select"] == 3 + 3
    assert found["vector.extract"] == found["vector.from_elements"] == 0


@pytest.mark.parametrize("k", [1, 5, 32])
def test_a_transposed_operand(k: int) -> None:
    text = f"""
    func @f(%a: {buffer(f"4x{k}")}, %b: {buffer(f"[N]x{k}")}, %c: {buffer("4x[N]")}) symbols [N] {{
      gml_st.for %j in 0 to N step 20 {{
        %av = vector.read(%a) tile [0, 0] [4, {k}] : vector<4x{k}xf32>
        %bv = vector.read(%b) tile [%j, 0] [min(20, N - %j), {k}] : vector<20x{k}xf32>
        %cv = vector.read(%c) tile [0, %j] [4, min(20, N - %j)] : vector<4x20xf32>
        %p = tcp.contract(%av, %bv, init = %cv)
          {{lhs = ["m", "k"], rhs = ["n", "k"], out = ["m", "n"]}} : vector<4x20xf32>
        vector.write(%p, %c) tile [0, %j] [4, min(20, N - %j)]
      }}
      tcp.return
    }}
    """
    check(text, [{"N": n} for n in (20, 1, 37)])


def test_a_transpose_reads_with_a_stride_and_writes_whole_vectors() -> None:
    text = f"""
    func @f(%a: {buffer("[M]x[N]")}, %c: {buffer("[N]x[M]")}) symbols [M, N] {{
      gml_st.for %i in 0 to M step 32 {{
        gml_st.for %j in 0 to N step 2 {{
          %v = vector.read(%a) tile [%i, %j] [min(32, M - %i), min(2, N - %j)] : vector<32x2xf32>
          %t = tcp.transpose(%v) {{permutation = [1, 0]}} : vector<2x32xf32>
          vector.write(%t, %c) tile [%j, %i] [min(2, N - %j), min(32, M - %i)]
        }}
      }}
      tcp.return
    }}
    """
    check(text, [{"M": m, "N": n} for m, n in ((32, 2), (33, 3), (5, 1))])
    module = lowered(text)
    reads = [op.text() for op in code(module.main) if op.opcode == "vector.read"]
    assert len(reads) == 4
    assert "tile [%i + 16, %j + 1] [min(16, max(0, M - %i - 16)), min(1, N - %j - 1)] drop [1]" in reads[-1]


def test_an_integer_product_with_casts_has_one_lane_count() -> None:
    text = f"""
    func @f(%a: {buffer("4x[K]", "ui8")}, %b: {buffer("[K]x[N]", "si8")}, %c: {buffer("4x[N]", "si32")})
      symbols [N, K] {{
      gml_st.for %j in 0 to N step 32 {{
        %z = tcp.fill {{value = 0}} : vector<4x32xsi32>
        %mm = gml_st.for %k in 0 to K step 2 (%acc = %z) {{
          %av = vector.read(%a) tile [0, %k] [4, min(2, K - %k)] : vector<4x2xui8>
          %bv = vector.read(%b) tile [%k, %j] [min(2, K - %k), min(32, N - %j)] : vector<2x32xsi8>
          %p = tcp.matmul(%av, %bv, init = %acc) : vector<4x32xsi32>
          gml_st.yield(%p, %acc) tile [0, 0] [4, 32]
        }} : vector<4x32xsi32>
        vector.write(%mm, %c) tile [0, %j] [4, min(32, N - %j)]
      }}
      tcp.return
    }}
    """
    check(text, [{"N": n, "K": k} for n, k in ((32, 4), (40, 3), (7, 0))], tolerance=0)
    reads = [op for op in code(loop(lowered(text), "k")) if op.opcode == "vector.read"]
    assert Counter(str(op.result.type) for op in reads) == {"vector<16xsi8>": 4, "ui8": 8}


MIN_PLUS = f"""
func @f(%a: {buffer("4x[K]")}, %b: {buffer("[K]x[N]")}, %c: {buffer("4x[N]")}) symbols [N, K] {{
  gml_st.for %j in 0 to N step 24 {{
    %z = vector.read(%c) tile [0, %j] [4, min(24, N - %j)] : vector<4x24xf32>
    %mm = gml_st.for %k in 0 to K step 1 (%acc = %z) {{
      %av = vector.read(%a) tile [0, %k] [4, 1] : vector<4x1xf32>
      %bv = vector.read(%b) tile [%k, %j] [1, min(24, N - %j)] : vector<1x24xf32>
      %p = tcp.generic(%av, %bv, init = %acc) {{
        iterators = [["i", "parallel"], ["j", "parallel"], ["k", "reduction"]],
        maps = [[i, k], [k, j], [i, j]], combiner = "tcp.min"
      }} ({{ (%x: f32, %y: f32, %m: f32):
        %s = tcp.add(%x, %y) : f32
        %t = tcp.min(%m, %s) : f32
        tcp.yield(%t)
      }}) : vector<4x24xf32>
      gml_st.yield(%p, %acc) tile [0, 0] [4, 24]
    }} : vector<4x24xf32>
    vector.write(%mm, %c) tile [0, %j] [4, min(24, N - %j)]
  }}
  tcp.return
}}
"""


def test_a_min_plus_product_is_lowered_as_a_generic() -> None:
    check(MIN_PLUS, [{"N": n, "K": k} for n, k in ((24, 4), (25, 3), (7, 0))])
    found = opcodes(loop(lowered(MIN_PLUS), "k"))
    assert (found["tcp.add"], found["tcp.min"], found["tcp.generic"]) == (8, 8, 0)


def test_a_window_reads_unaligned_and_with_a_step() -> None:
    text = f"""
    func @f(%x: {buffer("75")}, %w: {buffer("3")}, %y: {buffer("36")}) {{
      %xv = vector.read(%x) tile [0] [73] : vector<73xf32>
      %wv = vector.read(%w) tile [0] [3] : vector<3xf32>
      %p = tcp.generic(%xv, %wv) {{
        iterators = [["o", "parallel"], ["r", "reduction"]], maps = [[2*o + r], [r], [o]], combiner = "tcp.add"
      }} ({{ (%e: f32, %f: f32, %m: f32):
        %s = tcp.mul(%e, %f) : f32
        %t = tcp.add(%m, %s) : f32
        tcp.yield(%t)
      }}) : vector<36xf32>
      vector.write(%p, %y) tile [0] [36]
      tcp.return
    }}
    """
    check(text, [{}])
    strided = [op for op in code(lowered(text).main) if op.text().startswith("%xv")]
    assert len(strided) == 3 * 3


def test_a_carried_row_reduction_combines_lanes_after_the_loop() -> None:
    text = f"""
    func @f(%x: {buffer("[M]x[N]")}, %s: {buffer("[M]")}, %t: {buffer("[M]")}) symbols [M, N] {{
      gml_st.for %i in 0 to M step 2 {{
        %z = vector.read(%s) tile [%i] [min(2, M - %i)] : vector<2xf32>
        %o = tcp.fill {{value = -3.0}} : vector<2xf32>
        %sum, %most = gml_st.for %j in 0 to N step 32 (%acc = %z, %top = %o) {{
          %v = vector.read(%x) tile [%i, %j] [min(2, M - %i), min(32, N - %j)] : vector<2x32xf32>
          %p = tcp.reduce_sum(%v, init = %acc) {{dims = [1]}} : vector<2xf32>
          gml_st.yield(%p, %acc) tile [0] [2]
          %u = vector.read(%x) tile [%i, %j] [min(2, M - %i), min(32, N - %j)] {{value = -inf}} : vector<2x32xf32>
          %q = tcp.reduce_max(%u, init = %top) {{dims = [1]}} : vector<2xf32>
          gml_st.yield(%q, %top) tile [0] [2]
        }} : vector<2xf32>, vector<2xf32>
        vector.write(%sum, %s) tile [%i] [min(2, M - %i)]
        vector.write(%most, %t) tile [%i] [min(2, M - %i)]
      }}
      tcp.return
    }}
    """
    check(text, [{"M": m, "N": n} for m, n in ((2, 64), (3, 33), (1, 0), (5, 7))])
    module = lowered(text)
    inner = loop(module, "j")
    assert [str(d.type) for d in inner.destinations] == ["vector<16xf32>"] * 4
    assert opcodes(inner)["tcp.generic"] == opcodes(inner)["vector.shuffle"] == 0
    assert opcodes(module.main)["tcp.generic"] == 0
    assert opcodes(module.main)["vector.shuffle"] == 2 * 4 * 2  # two rows in four stages of two, of sums and maxima


@pytest.mark.parametrize("dtype", ["f32", "f64", "si32"])
@pytest.mark.parametrize("rows", [2, 3, 5, 8, 16, 19])
def test_the_lanes_of_several_rows_are_combined_together(rows: int, dtype: str) -> None:
    lowest = "-inf" if dtype != "si32" else "-2147483648"
    text = f"""
    func @f(%x: {buffer(f"{rows}x40", dtype)}, %s: {buffer(f"{rows}", dtype)}, %t: {buffer(f"{rows}", dtype)}) {{
      %z = vector.read(%s) tile [0] [{rows}] : vector<{rows}x{dtype}>
      %v = vector.read(%x) tile [0, 0] [{rows}, 40] : vector<{rows}x40x{dtype}>
      %p = tcp.reduce_sum(%v, init = %z) {{dims = [1]}} : vector<{rows}x{dtype}>
      vector.write(%p, %s) tile [0] [{rows}]
      %u = vector.read(%x) tile [0, 0] [{rows}, 37] {{value = {lowest}}} : vector<{rows}x37x{dtype}>
      %q = tcp.reduce_max(%u) {{dims = [1]}} : vector<{rows}x{dtype}>
      vector.write(%q, %t) tile [0] [{rows}]
      tcp.return
    }}
    """
    check(text, [{}])
    assert opcodes(lowered(text).main)["tcp.generic"] == 0


def test_a_carried_scalar_reduction() -> None:
    text = f"""
    func @f(%x: {buffer("[N]", "f64")}, %s: {buffer("1", "f64")}) symbols [N] {{
      %z = tcp.const {{value = 0.5}} : f64
      %sum = gml_st.for %j in 0 to N step 32 (%acc = %z) {{
        %v = vector.read(%x) tile [%j] [min(32, N - %j)] : vector<32xf64>
        %p = tcp.reduce_sum(%v, init = %acc) {{dims = [0]}} : f64
        gml_st.yield(%p, %acc) tile [] []
      }} : f64
      vector.write(%sum, %s) tile [0] [1] drop [0]
      tcp.return
    }}
    """
    check(text, [{"N": n} for n in (64, 33, 0, 1)])
    assert [str(d.type) for d in loop(lowered(text), "j").destinations] == ["vector<8xf64>"]


def test_vectors_without_dims_are_scalars() -> None:
    text = f"""
    func @f(%x: {buffer("[N]")}, %s: {buffer("1")}) symbols [N] {{
      %z = tcp.fill {{value = 0.5}} : vector<f32>
      %sum = gml_st.for %j in 0 to N step 3 (%acc = %z) {{
        %v = vector.read(%x) tile [%j] [min(3, N - %j)] : vector<3xf32>
        %p = tcp.reduce_sum(%v) {{dims = [0]}} : vector<f32>
        %q = tcp.add(%p, %acc) : vector<f32>
        gml_st.yield(%q, %acc) tile [] []
      }} : vector<f32>
      vector.write(%sum, %s) tile [0] [1] drop [0]
      tcp.return
    }}
    """
    check(text, [{"N": n} for n in (6, 4, 0)])
    assert [str(d.type) for d in loop(lowered(text), "j").destinations] == ["f32"]


def test_a_read_moves_down_to_its_first_use_past_a_loop_that_only_carries_values() -> None:
    bias = "%biasv = vector.read(%bias) tile [%j] [min(64, N - %j)] {value = 0.0} : vector<64xf32>"
    text = GEMM.replace(bias, "").replace("%z = tcp.fill", f"{bias}\n%z = tcp.fill")
    check(text, [{"M": 7, "N": 70, "K": 3}])
    body = [op.opcode for op in loop(lowered(text), "i").body.ops]
    assert body.index("gml_st.for") < body.index("vector.read")


def test_reductions_over_short_computed_rows_mask_the_last_lanes() -> None:
    text = f"""
    func @f(%x: {buffer("[M]x10")}, %y: {buffer("[M]")}, %z: {buffer("[M]")}) symbols [M] {{
      gml_st.for %i in 0 to M step 4 {{
        %v = vector.read(%x) tile [%i, 0] [min(4, M - %i), 10] : vector<4x10xf32>
        %w = tcp.div(%v, %v) : vector<4x10xf32>
        %s = tcp.reduce_sum(%w) {{dims = [1]}} : vector<4xf32>
        %t = tcp.reduce_max(%v) {{dims = [1]}} : vector<4xf32>
        vector.write(%s, %y) tile [%i] [min(4, M - %i)]
        vector.write(%t, %z) tile [%i] [min(4, M - %i)]
      }}
      tcp.return
    }}
    """
    check(text, [{"M": m} for m in (4, 6, 1)])


def test_branches_yield_pieces() -> None:
    text = f"""
    func @f(%x: {buffer("[M]x40")}, %y: {buffer("[M]x40")}, %z: {buffer("[M]x1")}) symbols [M] {{
      gml_st.for %i in 0 to M step 2 {{
        %r, %q = gml_st.if %i < 2 {{
          %a = tcp.fill {{value = 2.0}} : vector<2x40xf32>
          %o = vector.read(%x) tile [%i, 0] [min(2, M - %i), 1] : vector<2x1xf32>
          tcp.yield(%a, %o)
        }} else {{
          %b = vector.read(%x) tile [%i, 0] [min(2, M - %i), 40] : vector<2x40xf32>
          %c = tcp.add(%b, %b) : vector<2x40xf32>
          %p = tcp.fill {{value = 7.0}} : vector<2x1xf32>
          tcp.yield(%c, %p)
        }} : vector<2x40xf32>, vector<2x1xf32>
        vector.write(%r, %y) tile [%i, 0] [min(2, M - %i), 40]
        vector.write(%q, %z) tile [%i, 0] [min(2, M - %i), 1]
      }}
      tcp.return
    }}
    """
    check(text, [{"M": m} for m in (1, 2, 5)])


def test_a_read_stays_before_a_write_to_the_same_memory() -> None:
    text = f"""
    func @f(%x: {buffer("64")}, %y: {buffer("64")}) {{
      %a = vector.read(%x) tile [0] [64] : vector<64xf32>
      %b = vector.read(%y) tile [0] [64] : vector<64xf32>
      vector.write(%b, %x) tile [0] [64]
      vector.write(%a, %y) tile [0] [64]
      tcp.return
    }}
    """
    check(text, [{}], tolerance=0)


def test_lanes_and_elements_of_vectors() -> None:
    text = f"""
    func @f(%x: {buffer("32")}, %y: {buffer("3")}) {{
      %a = vector.read(%x) tile [0] [32] : vector<32xf32>
      %s = tcp.add(%a, %a) : vector<32xf32>
      %e = vector.extract(%a) {{lane = 20}} : f32
      %g = vector.extract(%s) {{lane = 31}} : f32
      %v = vector.from_elements(%g, %e, %e) : vector<3xf32>
      %w = tcp.add(%v, %v) : vector<3xf32>
      vector.write(%w, %y) tile [0] [3]
      tcp.return
    }}
    """
    check(text, [{}])


def test_half_floats_are_unrolled_to_what_the_target_has() -> None:
    text = f"""
    func @f(%x: {buffer("[N]", "bf16")}, %y: {buffer("[N]", "f32")}) symbols [N] {{
      gml_st.for %i in 0 to N step 32 {{
        %a = vector.read(%x) tile [%i] [min(32, N - %i)] : vector<32xbf16>
        %c = tcp.cast(%a) : vector<32xf32>
        vector.write(%c, %y) tile [%i] [min(32, N - %i)]
      }}
      tcp.return
    }}
    """
    check(text, [{"N": n} for n in (32, 45)])


def test_a_loop_is_lowered_before_bufferization_of_the_rest() -> None:
    module = parse(TENSORS.replace("gml_st.parallel", "gml_st.for"))
    rewriter = Rewriter(module)
    lower_vectors(rewriter, loop(module, "j"), load_target("x86_avx512"))
    verify_module(module)
    assert all(len(t.shape) == 1 for t in values_in(module.main) if isinstance(t, VectorType))


@pytest.mark.parametrize("lanes", [2, 3, 8, 12, 16])
@pytest.mark.parametrize(("part", "wide"), [(1, "f32"), (2, "f32"), (2, "f64")])
def test_lanes_that_are_replaced_and_shuffled(lanes: int, part: int, wide: str) -> None:
    count = lanes // part
    order = list(reversed(range(lanes - count // 2, lanes - count // 2 + count)))
    check(
        f"""
    func @f(%a: {buffer(str(lanes))}, %b: {buffer(str(count))}) {{
      %v = vector.read(%a) tile [0] [{lanes}] : vector<{lanes}xf32>
      %x = vector.read(%a) tile [1] [1] drop [0] : f32
      %wide = tcp.cast(%v) : vector<{lanes}x{wide}>
      %p = tcp.cast(%wide) : vector<{lanes}xf32>
      %i = vector.insert(%p, %x) {{lane = {lanes - 1}}} : vector<{lanes}xf32>
      %s = vector.shuffle(%i, %v) {{lanes = {order}}} : vector<{count}xf32>
      %t = tcp.exp(%s) : vector<{count}xf32>
      vector.write(%t, %b) tile [0] [{count}]
      tcp.return
    }}
    """,
        [{}],
    )


def test_a_lane_inserted_before_a_cast_to_wider_lanes_stays_one_instruction() -> None:
    text = f"""
    func @f(%a: {buffer("4")}, %b: {buffer("4", "f64")}) {{
      %x = vector.read(%a) tile [1] [1] drop [0] : f32
      %s = tcp.broadcast(%x) {{dims = []}} : vector<4xf32>
      %i = vector.insert(%s, %x) {{lane = 2}} : vector<4xf32>
      %w = tcp.cast(%i) : vector<4xf64>
      vector.write(%w, %b) tile [0] [4]
      tcp.return
    }}
    """
    assert lowered(text, "x86_avx2").text() == parse(text).text()


# -- what cannot be lowered -----------------------------------------------------------------------------------------


def refused(text: str, root: str = "") -> str:
    """The message for a payload that cannot be lowered; the payload is as it was after rolling back."""
    module = parse(text)
    rewriter, before = Rewriter(module), module.text()
    place: FuncOp | Loop = loop(module, root) if root else module.main
    with pytest.raises(ScheduleError) as caught:
        lower_vectors(rewriter, place, load_target("x86_avx512"))
    rewriter.rollback(0)
    assert module.text() == before
    assert caught.value.diagnostic.payload is not None
    return str(caught.value)


CASTS = f"""
func @f(%x: {buffer("64", "si8")}, %y: {buffer("64", "f64")}) {{
  gml_st.for %i in 0 to 64 step 32 {{
    %v = vector.read(%x) tile [%i] [32] {{value = 0}} : vector<32xsi8>
    %c = tcp.cast(%v) : vector<32xf64>
    %e = tcp.add(%c, %c) : vector<32xf64>
    vector.write(%e, %y) tile [%i] [32]
  }}
  tcp.return
}}
"""


def test_dtypes_without_equally_many_lanes_have_a_remark() -> None:
    module = parse(CASTS)
    first, second = lower_vectors(Rewriter(module), module.main, load_target("x86_avx2"))
    assert first.message == "%c of si8 and f64 is computed lane by lane"
    assert first.required == "vectors of x86_avx2 of equally many lanes of each dtype"
    assert first.found == "si8: 1, 8, 32; f64: 1, 4"
    assert first.payload is not None
    assert first.payload.line == 5
    assert second.message == "%e of f64 and si8 is computed lane by lane"


def test_where_there_are_equally_many_lanes_there_is_no_remark() -> None:
    module = parse(CASTS)
    assert lower_vectors(Rewriter(module), module.main, load_target("x86_avx512")) == ()


def test_a_vector_that_becomes_a_tensor_is_refused() -> None:
    message = refused("""
    func @f(%x: tensor<4x32xf32>) -> tensor<4x32xf32> {
      %v = vector.read(%x) tile [0, 0] [4, 32] : vector<4x32xf32>
      %t = vector.to_tensor(%v) : tensor<4x32xf32>
      tcp.return(%t)
    }
    """)
    assert "%t (vector.to_tensor) puts a vector into storage" in message
    assert "bufferize first" in message


def test_a_vector_from_outside_of_the_loop_is_refused() -> None:
    message = refused(GEMM, root="k")
    assert "%mm.v" in message or "%acc" in message
    assert "apply lower_vectors to an enclosing loop" in message


def test_a_loop_that_carries_a_vector_without_dims_is_refused() -> None:
    message = refused(
        """
    func @f(%x: tensor<[K]xf32>) -> tensor<f32> symbols [K: 1..] {
      %a = tcp.fill {value = 0.0} : vector<f32>
      %s = gml_st.for %k in 0 to K step 16 (%acc = %a) {
        %v = vector.read(%x) tile [%k] [min(16, K - %k)] {value = 0.0} : vector<16xf32>
        %t = tcp.reduce_sum(%v, init = %acc) {dims = [0]} : vector<f32>
        gml_st.yield(%t, %acc) tile [] []
      } : vector<f32>
      %r = vector.to_tensor(%s) : tensor<f32>
      tcp.return(%r)
    }
    """,
        root="k",
    )
    assert "%k (gml_st.for) carries a vector of another width than instructions have" in message
    assert "found: %acc: vector<f32>" in message
    assert "apply lower_vectors to an enclosing loop" in message
