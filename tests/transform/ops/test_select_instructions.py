"""select_instructions: every operation has a row that fits it, and the numbers stay the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

import tcpx
from tcpx.payload.diagnostics import ScheduleError
from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.fields import Operand
from tcpx.payload.interfaces import Elementwise
from tcpx.payload.ir import Module, Operation, register
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.text.parser import parse
from tcpx.payload.types import BufferType, Type, VectorType, dtype_of
from tcpx.payload.verifier import verify_module
from tcpx.target import LaneType, load_target
from tcpx.target.rows import KINDS
from tcpx.transform.vectors.lowering import lower_vectors
from tcpx.transform.vectors.selection import select_instructions
from tests.transform.payloads import refusal

TARGETS = ("x86_avx512", "x86_avx2", "generic")
Sizes = Mapping[str, int]


def buffer(shape: str, dtype: str = "f32", strides: str = "") -> str:
    """A buffer type from `[M]x64`; contiguous, of rank 1 or 2, where no strides are given."""
    last = shape.rsplit("x", maxsplit=1)[-1].strip("[]")
    return f"buffer<{shape}x{dtype}, strides [{strides or (f'{last}, 1' if 'x' in shape else '1')}], space argument>"


def code(root: Operation) -> list[Operation]:
    """The operations in a function or loop and in loops and branches in it."""
    found: list[Operation] = []
    for block in root.regions:
        for op in block.ops:
            found.append(op)
            if op.opcode.startswith("gml_st"):
                found += code(op)
    return found


def lane_type(type_: Type) -> LaneType:
    return LaneType(dtype_of(type_).name, type_.shape[0] if isinstance(type_, VectorType) else 1)


def selected(text: str, target: str = "x86_avx512") -> Module:
    """The payload after lowering and selection: it verifies, rows fit their operations, rollback restores it."""
    module = parse(text)
    before = module.text()
    rewriter = Rewriter(module)
    known = load_target(target)
    lower_vectors(rewriter, module.main, known)
    select_instructions(rewriter, module.main, known)
    verify_module(module)
    after = module.text()
    for op in code(module.main):
        check_row(op, target)
    select_instructions(rewriter, module.main, known)
    assert module.text() == after
    rewriter.rollback(0)
    assert module.text() == before
    lower_vectors(rewriter, module.main, known)
    select_instructions(rewriter, module.main, known)
    assert module.text() == after
    return module


def check_row(op: Operation, target: str) -> None:
    """The types of an operation are those of its row."""
    name = op.attributes.get("row")
    values = [v for v in (*op.operands, *op.results) if not isinstance(v.type, BufferType)]
    if name is None:
        assert op.opcode.startswith("gml_st") or op.is_terminator or not values, op.text()
        return
    if name == "literal":
        return
    row = load_target(target).row(str(name))
    operands = [lane_type(v.type) for v in op.operands if not isinstance(v.type, BufferType)]
    results = [lane_type(v.type) for v in op.results]
    assert results == ([row.result] if row.result is not None else []), op.text()
    if KINDS[row.kind].has_semantics:
        assert operands == list(row.operands), op.text()
    assert len(operands) == len([p for p in row.placeholders if p in "abcv"]), op.text()


def run(module: Module, sizes: Sizes, seed: int = 0) -> list[np.ndarray]:
    """Evaluate a function on random buffers of these sizes; its arguments afterwards."""
    evaluation = Evaluation(module.constants, sizes, seed)
    random = np.random.default_rng(seed)
    arrays: list[np.ndarray] = []
    for arg in module.main.args:
        dtype, shape = dtype_of(arg.type), evaluation.shape(arg.type)
        made = random.uniform(-3, 3, shape) if dtype.is_float else random.integers(0, 100, shape)
        arrays.append(made.astype(dtype.numpy))
    with np.errstate(all="ignore"):
        evaluation.run_block(module.main.body, arrays)
    return arrays


def check(text: str, sizes: Sequence[Sizes] = ({},), tolerance: float = 1e-6) -> None:
    """The same results before and after, on every target."""
    for target in TARGETS:
        module = selected(text, target)
        for chosen in sizes:
            for a, b in zip(run(parse(text), chosen), run(module, chosen), strict=True):
                wanted, found = a.astype(np.float64), b.astype(np.float64)
                np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance, err_msg=f"{target} {chosen}")


def kinds(module: Module, target: str = "x86_avx512") -> Counter[str]:
    names = [str(op.attributes["row"]) for op in code(module.main) if "row" in op.attributes]
    return Counter("literal" if n == "literal" else load_target(target).row(n).kind for n in names)


def rows(module: Module) -> Counter[str]:
    return Counter(str(op.attributes["row"]) for op in code(module.main) if "row" in op.attributes)


def pointwise(body: str, extent: str = "[N]", tile: int = 16, dtype: str = "f32", result: str = "") -> str:
    """A loop over `tile` elements of %x at a time; `body` computes %r from %v."""
    return f"""
    func @f(%x: {buffer("[N]", dtype)}, %y: {buffer("[N]", result or dtype)}) symbols [N] {{
      gml_st.for %i in 0 to {extent.strip("[]")} step {tile} {{
        %v = vector.read(%x) tile [%i] [min({tile}, N - %i)] : vector<{tile}x{dtype}>
        {body}
        vector.write(%r, %y) tile [%i] [min({tile}, N - %i)]
      }}
      tcp.return
    }}
    """


RELU = pointwise("""
        %zero = tcp.const {value = 0.0} : f32
        %z = tcp.broadcast(%zero) {dims = []} : vector<16xf32>
        %w = tcp.const {value = 0.0} : vector<16xf32>
        %s = tcp.add(%v, %w) : vector<16xf32>
        %r = tcp.max(%s, %z) : vector<16xf32>""")


def test_masked_accesses_and_a_maximum_with_a_number() -> None:
    check(RELU, [{"N": n} for n in (0, 1, 16, 37)])
    assert rows(selected(RELU)) == {
        "literal": 1,
        "splat_f32x16": 1,
        "masked_load_f32x16": 1,
        "add_f32x16": 1,
        "max_b_number_f32x16": 1,
        "masked_store_f32x16": 1,
    }


def test_provably_full_accesses_are_plain() -> None:
    found = rows(selected(RELU.replace("symbols [N]", "symbols [N multiple_of 16]")))
    assert (found["load_f32x16"], found["store_f32x16"]) == (1, 1)


def test_equal_literals_stand_once_before_the_loops() -> None:
    func = selected(RELU).main
    assert [op.opcode for op in func.body.ops] == ["tcp.const", "tcp.broadcast", "gml_st.for", "tcp.return"]


def test_literals_stay_inside_parallel_loops() -> None:
    func = selected(RELU.replace("gml_st.for", "gml_st.parallel")).main
    parallel = func.body.ops[0]
    assert [op.opcode for op in parallel.regions[0].ops[:2]] == ["tcp.const", "tcp.broadcast"]


def test_operands_of_a_maximum_are_swapped_for_a_cheaper_row() -> None:
    text = pointwise(
        """
        %z = tcp.const {value = 0.0} : vector<8xf32>
        %r = tcp.min(%v, %z) : vector<8xf32>""",
        tile=8,
    )
    check(text, [{"N": n} for n in (8, 13)])
    for target in ("x86_avx512", "x86_avx2"):
        assert any("number" in name for name in rows(selected(text, target)))


def test_a_maximum_that_may_meet_nan_keeps_it() -> None:
    text = pointwise("""
        %n = tcp.const {value = nan} : vector<16xf32>
        %r = tcp.max(%v, %n) : vector<16xf32>""").replace("value = nan", "value = 1.0")
    module = parse(text)
    next(op for op in code(module.main) if op.name == "n").attributes["value"] = float("nan")
    rewriter, target = Rewriter(module), load_target("x86_avx512")
    lower_vectors(rewriter, module.main, target)
    select_instructions(rewriter, module.main, target)
    assert rows(module)["max_f32x16"] == 1


def test_an_exponential_is_expanded_where_there_is_no_instruction() -> None:
    text = pointwise("%r = tcp.exp(%v) : vector<32xf32>", tile=32)
    check(text, [{"N": n} for n in (32, 41)])
    found = rows(selected(text))
    assert found["fma_f32x16"] >= 2 * 7
    assert found["shift_left_ui32x16"] == 2
    assert found["literal"] == found["splat_f32x16"] + found["splat_ui32x16"] <= 18
    assert "fma_f32x4" not in rows(selected(text, "generic"))


def test_a_scalar_exponential_is_the_library_function() -> None:
    text = pointwise("%r = tcp.exp(%v) : vector<1xf32>", tile=1)
    check(text, [{"N": 3}])
    assert rows(selected(text))["exp_f32"] == 1


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_halves_are_computed_with_in_f32(dtype: str) -> None:
    text = pointwise(f"%r = tcp.add(%v, %v) : vector<32x{dtype}>", tile=32, dtype=dtype)
    check(text, [{"N": n} for n in (32, 5)], tolerance=1e-2)


@pytest.mark.parametrize(
    ("source", "dest"),
    [
        ("si8", "f32"),
        ("ui8", "f64"),
        ("si16", "si64"),
        ("f32", "si32"),
        ("bf16", "f64"),
        ("si64", "si8"),
        ("si32", "f16"),
    ],
)
def test_casts_find_a_way(source: str, dest: str) -> None:
    text = pointwise(f"%r = tcp.cast(%v) : vector<16x{dest}>", dtype=source, result=dest)
    check(text, [{"N": n} for n in (16, 19)], tolerance=1e-3)


def test_what_has_no_row_goes_lane_by_lane() -> None:
    text = pointwise("%r = tcp.floordiv(%v, %v) : vector<16xsi64>", dtype="si64", result="si64")
    check(text, [{"N": 18}])
    assert rows(selected(text, "x86_avx512"))["floordiv_si64"] == 16


def test_what_goes_lane_by_lane_has_a_remark() -> None:
    module = parse(pointwise("%r = tcp.floordiv(%v, %v) : vector<16xsi64>", dtype="si64", result="si64"))
    rewriter, target = Rewriter(module), load_target("x86_avx512")
    lower_vectors(rewriter, module.main, target)
    (remark,) = select_instructions(rewriter, module.main, target)
    assert remark.message == "tcp.floordiv of si64 is computed lane by lane"
    assert remark.required == "an instruction of x86_avx512 for 8 lanes, or simpler operations that have one"


def test_lanes_a_masked_read_does_not_reach_hold_its_value() -> None:
    text = f"""
    func @f(%x: {buffer("[M]x[N]")}, %y: {buffer("3x40")}) symbols [M: 1..3, N: 0..40] {{
      %v = vector.read(%x) tile [0, 0] [M, N] {{value = -7.5}} : vector<3x40xf32>
      %w = tcp.add(%v, %v) : vector<3x40xf32>
      %s = vector.read(%x) tile [0, 0] [1, min(1, N)] drop [0] {{value = 2.5}} : vector<1xf32>
      vector.write(%w, %y) tile [0, 0] [3, 40]
      vector.write(%s, %y) tile [0, 39] [1, 1] drop [0]
      tcp.return
    }}
    """
    check(text, [{"M": m, "N": n} for m, n in ((3, 40), (1, 0), (2, 17), (2, 39))])
    found = kinds(selected(text))
    assert found["masked_load"] > 0
    reads = [op for op in code(selected(text).main) if op.opcode == "vector.read"]
    assert all(op.attributes["value"] == 0 for op in reads if "masked" in str(op.attributes["row"]))


def test_fixed_masks_are_made_once_before_the_loops() -> None:
    text = f"""
    func @f(%x: {buffer("[M]x10")}, %y: {buffer("[M]")}) symbols [M] {{
      gml_st.for %i in 0 to M step 1 {{
        %v = vector.read(%x) tile [%i, 0] [1, 10] {{value = -inf}} : vector<1x10xf32>
        %w = tcp.add(%v, %v) : vector<1x10xf32>
        %m = tcp.reduce_max(%w) {{dims = [1]}} : vector<1xf32>
        vector.write(%m, %y) tile [%i] [1]
      }}
      tcp.return
    }}
    """
    check(text, [{"M": m} for m in (0, 1, 3)])
    module = selected(text)
    masks = [op for op in code(module.main) if str(op.attributes.get("row", "")).startswith("lane_mask")]
    assert len(masks) == 1
    assert masks[0].parent is module.main.body
    assert kinds(module)["horizontal_max"] == 1


def test_reductions_of_lanes_have_a_row_or_a_tree() -> None:
    text = f"""
    func @f(%x: {buffer("32")}, %y: {buffer("3")}) {{
      %v = vector.read(%x) tile [0] [32] : vector<32xf32>
      %s = tcp.reduce_sum(%v) {{dims = [0]}} : f32
      %p = tcp.generic(%v) {{iterators = [["d", "reduction"]], maps = [[d], []], combiner = "tcp.mul"}} ({{
        (%e: f32, %m: f32):
        %t = tcp.mul(%m, %e) : f32
        tcp.yield(%t)
      }}) : f32
      vector.write(%s, %y) tile [0] [1] drop [0]
      vector.write(%p, %y) tile [1] [1] drop [0]
      tcp.return
    }}
    """
    check(text, tolerance=1e-4)
    found = selected(text)
    assert kinds(found)["horizontal_add"] == 1
    assert rows(found)["mul_f32"] == 15


def test_strided_accesses() -> None:
    text = f"""
    func @f(%x: {buffer("[N]x5")}, %y: {buffer("[N]x3", "si8")}, %z: {buffer("[N]x3", "si8")}) symbols [N] {{
      gml_st.for %i in 0 to N step 16 {{
        %v = vector.read(%x) tile [%i, 2] [min(16, N - %i), 1] drop [1] : vector<16xf32>
        %w = tcp.add(%v, %v) : vector<16xf32>
        vector.write(%w, %x) tile [%i, 3] [min(16, N - %i), 1] drop [1]
        %b = vector.read(%y) tile [%i, 1] [min(16, N - %i), 1] drop [1] : vector<16xsi8>
        %c = tcp.cast(%b) : vector<16xsi32>
        %d = tcp.add(%c, %c) : vector<16xsi32>
        %e = tcp.cast(%d) : vector<16xsi8>
        vector.write(%e, %z) tile [%i, 0] [min(16, N - %i), 1] drop [1]
      }}
      tcp.return
    }}
    """
    check(text, [{"N": n} for n in (16, 21)])
    assert kinds(selected(text))["masked_strided_load"] >= 1


@pytest.mark.parametrize("target", ["x86_avx2", "x86_avx512"])
def test_every_second_element_is_shuffled(target: str) -> None:
    """Of elements two apart, as pixels of a pooling are, whole vectors are loaded; of others, lanes."""
    lanes = load_target(target).lanes("f32")
    text = f"""
    func @f(%x: {buffer("[N]")}, %y: {buffer("[2*N]")}, %z: {buffer("[3*N]")}) symbols [N] {{
      gml_st.for %i in 0 to N step {lanes} {{
        %a = vector.read(%y) tile [2*%i] [min({lanes}, N - %i)] [2] : vector<{lanes}xf32>
        %b = vector.read(%z) tile [3*%i] [min({lanes}, N - %i)] [3] : vector<{lanes}xf32>
        %c = tcp.add(%a, %b) : vector<{lanes}xf32>
        vector.write(%c, %x) tile [%i] [min({lanes}, N - %i)]
      }}
      tcp.return
    }}
    """
    check(text, [{"N": n} for n in (0, 1, lanes, lanes + 5)])
    found = rows(selected(text, target))
    assert found[f"masked_second_load_f32x{lanes}"] == found[f"masked_strided_load_f32x{lanes}"] == 1


def test_prefetches_and_operations_on_scalars() -> None:
    text = f"""
    func @f(%x: {buffer("8x64")}, %y: {buffer("1")}) {{
      buffer.prefetch(%x) tile [0, 0] [8, 64] {{write = true}}
      %a = vector.read(%x) tile [0, 0] [1, 1] drop [0, 1] : f32
      %b = tcp.broadcast(%a) {{dims = []}} : f32
      %c = tcp.mul(%b, %a) : f32
      %d = tcp.add(%c, %a) : f32
      vector.write(%d, %y) tile [0] [1] drop [0]
      tcp.return
    }}
    """
    check(text)
    found = rows(selected(text))
    assert (found["prefetch_write"], found["fma_f32"]) == (1, 1)


# -- what has no instruction ----------------------------------------------------------------------------------------


@register
class Odd(Elementwise):
    """An operation no target has a row for."""

    __slots__ = ()
    opcode = "test.odd"
    operand = Operand()
    semantics = "tanh(a) + a"

    def evaluate(self, args: Sequence[Array], evaluation: Evaluation) -> tuple[Array, ...]:
        return (np.tanh(args[0]) + args[0],)


def refused(text: str) -> str:
    module = parse(text)
    rewriter, target = Rewriter(module), load_target("x86_avx512")
    lower_vectors(rewriter, module.main, target)
    before, mark = module.text(), rewriter.mark()
    with pytest.raises(ScheduleError) as caught:
        select_instructions(rewriter, module.main, target)
    rewriter.rollback(mark)
    assert module.text() == before
    assert caught.value.diagnostic.payload is not None
    return str(caught.value)


def test_an_operation_without_any_row_is_named() -> None:
    message = refused(pointwise("%r = test.odd(%v) : vector<16xf32>"))
    assert "(test.odd) has no instruction on the target x86_avx512" in message
    assert "tanh(a) + a" in message


def test_tensors_are_refused() -> None:
    message = refused("""
    func @f(%x: tensor<16xf32>) -> tensor<16xf32> {
      %r = tcp.exp(%x) : tensor<16xf32>
      tcp.return(%r)
    }
    """)
    assert "%r (tcp.exp) is not lowered to scalars and 1-D vectors" in message
    assert "apply bufferize" in message


def test_what_has_an_instruction_is_not_lowered_again() -> None:
    """Lowering follows each schedule, also one that chose the instructions itself."""
    payload = """func @f(%x: tensor<3x8xf32>) -> tensor<8xf64> {
      %s = tcp.reduce_sum(%x) {dims = [0]} : tensor<8xf32>
      %y = tcp.cast(%s) : tensor<8xf64>
      tcp.return(%y)
    }
    """
    schedule = """language 1
    schedule s(root: func) {
      let s = match one "s" in root
      let y = match one "y" in root
      let i = tile(y, [d0: 4])
      fuse(s, into: i)
      vectorize(i)
      lower_vectors(root)
      bufferize(root)
      select_instructions(root)
    }
    """
    module, program = tcpx.parse(payload), tcpx.parse_schedule(schedule)
    chosen = [op.attributes.get("row") for op in tcpx.apply_schedule(module, program, target="generic").module.walk()]
    kernel = tcpx.compile(module, program, target="generic")
    x = np.arange(24, dtype=np.float32).reshape(3, 8)
    np.testing.assert_array_equal(kernel(x), x.sum(axis=0))
    assert "load_f32x2" in chosen
    assert "tcpx_load_f32x2" in kernel.c_source


def test_what_has_instructions_keeps_its_lanes() -> None:
    """Of a product of integers of 64 bits the sums have 4 lanes; lowered again, they are not taken apart."""
    payload = """func @f(%x: tensor<[M]x12xf32>, %w: tensor<12x32xsi64>) -> tensor<[M]x32xf32> symbols [M] {
  %z = tcp.fill {value = 0.25} : tensor<[M]x32xf32>
  %y = tcp.matmul(%x, %w, init = %z) : tensor<[M]x32xf32>
  tcp.return(%y)
}
"""
    schedule = """language 1
schedule s(root: func) {
  let y = match one "y" in root
  let m, n = tile(y, [m: 3, n: 16], tail: pad)
  fuse(match one "z" in root, into: n)
  tile(y, [k: 4])
  vectorize(n)
  hoist_accumulator(y, out_of: y.loop(k))
  lower_vectors(root)
  bufferize(root)
  select_instructions(root)
}
"""
    module, target = tcpx.parse(payload), load_target("x86_avx2")
    done = tcpx.apply_schedule(module, tcpx.parse_schedule(schedule), target=target.name)
    before, rewriter = done.module.text(), Rewriter(done.module)
    lower_vectors(rewriter, done.module.main, target)
    assert done.module.text() == before


LOADS = "load or masked_load or masked_load_from or strided_load or masked_strided_load or masked_strided_load_from"
PRODUCT = pointwise("%r = tcp.mul(%v, %v) : vector<16xf32>", extent="[N]").replace(
    "symbols [N]", "symbols [N multiple_of 16]"
)


@pytest.mark.parametrize(
    ("named", "wrong", "required"),
    [
        ("mul_f32x16", "add_f32x16", "a row of kind compute, a * b: f32x16, f32x16 -> f32x16"),
        ("mul_f32x16", "mul_f32", "a row of kind compute, a * b: f32x16, f32x16 -> f32x16"),
        ("mul_f32x16", "load_f32x16", "a row of kind compute, a * b: f32x16, f32x16 -> f32x16"),
        ("mul_f32x16", "literal", "a row of kind compute, a * b: f32x16, f32x16 -> f32x16"),
        ("load_f32x16", "load_f64x8", f"a row of kind {LOADS}: -> f32x16"),
        ("store_f32x16", "load_f32x16", "a row of kind store or masked_store or stream_store: f32x16 ->"),
    ],
)  # fmt: skip
def test_a_row_of_another_operation_is_refused(named: str, wrong: str, required: str) -> None:
    """A row in a payload was the instruction, whatever the operation: a sum for a product."""
    text = selected(PRODUCT).text()
    assert text.count(f'"{named}"') == 1
    assert tcpx.compile(tcpx.parse(text), target="x86_avx512").c_source
    with pytest.raises(ScheduleError) as caught:
        tcpx.compile(tcpx.parse(text.replace(f'"{named}"', f'"{wrong}"')), target="x86_avx512")
    error = caught.value.diagnostic
    assert error.message.endswith("names an instruction that does something else")
    assert error.required == required
    assert (error.found or "").startswith(wrong)
    assert error.payload is not None
    assert wrong in error.payload.span


def test_a_row_that_the_target_does_not_have_is_refused() -> None:
    text = selected(PRODUCT).text()
    with pytest.raises(ScheduleError) as caught:
        tcpx.compile(tcpx.parse(text), target="generic")
    error = caught.value.diagnostic
    assert error.message == "%v (vector.read) names an instruction that the target generic does not have"
    assert error.fix == "leave the attribute `row` out: `select_instructions` sets it"


@pytest.mark.parametrize("row", ["add_f32x16", "mul_f32x16"])
def test_a_row_on_tensors_is_refused(row: str) -> None:
    text = f"""func @f(%x: tensor<16xf32>) -> tensor<16xf32> {{
  %y = tcp.mul(%x, %x) {{row = "{row}"}} : tensor<16xf32>
  tcp.return(%y)
}}
"""
    with pytest.raises(tcpx.TcpxError) as caught:
        tcpx.compile(tcpx.parse(text), target="x86_avx512")
    error = caught.value.diagnostic
    assert error.message == "%y (tcp.mul): the attribute `row` names an instruction, and no instruction is of tensors"
    assert error.found == "%x: tensor<16xf32>"
    assert error.payload is not None


def test_lanes_that_are_not_lowered_are_refused() -> None:
    text = """func @f(%x: tensor<[K]x[M]xsi32>) -> tensor<[M]xsi32> symbols [K: 0.., M: 0..] {
  %r = tcp.reduce_sum(%x) {dims = [0]} : tensor<[M]xsi32>
  tcp.return(%r)
}
"""
    steps = 'let r = match one "r" in root\nlet i, k = tile(r, [d1: 1, d0: 1])\nvectorize(i)\nbufferize(root)\n'
    error = refusal(text, f"{steps}lower_vectors(k)\nselect_instructions(root)")
    assert error.message == "%r.start (tcp.fill) is not lowered to operations on scalars and lanes"
    assert (error.found, error.fix) == ("vector<1xsi32>", "apply lower_vectors before")
