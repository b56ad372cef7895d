"""lower_to: rows of a target that do what an operation on tensors does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from ctypes import CDLL, c_int
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import pytest
from ml_dtypes import bfloat16

import tcpx
from tcpx.payload.diagnostics import ScheduleError, VerifyError
from tcpx.payload.traits.call import Calling
from tests.optional_tools import require_cpu, require_cpu_of
from tests.transform.payloads import RELU, TRANSPOSED, check_same

FOLDER = Path(__file__).parents[1]
PAGE = Path(__file__).parents[3] / "docs" / "micro-kernels.md"
TARGET = tcpx.load_target(FOLDER / "micro_kernels.yaml", allow_native=True)
MM = 'let mm = match one "mm" in root\n'
PADDED = (
    MM
    + """\
let jc     = tile(mm, [n: 64])
let pc     = tile(mm, [k: 8])
let ic     = tile(mm, [m: 12], parallel: true)
let jr, ir = tile(mm, [n: 16, m: 4], tail: pad)
let bp     = pack(mm.rhs, [k, n], at: pc, parallel: true)
let ap     = pack(mm.lhs, [k, m], at: ic)
fuse(mm.start, into: ir)
lower_to(mm, padded_4x16)
"""
)
MASKED = (
    MM
    + """\
let pc     = tile(mm, [k: 8])
let ic     = tile(mm, [m: 12], parallel: true)
let jr, ir = tile(mm, [n: 16, m: 4])
lower_to(mm, masked_4x16)
"""
)
OVERWRITTEN = MM + "let i = tile(mm, [m: 4], parallel: true, tail: pad)\nlower_to(mm, product_4x16)\n"
PRODUCT = """\
func @product(%x: tensor<[M]x8xf32>, %w: tensor<8x16xf32>) -> tensor<[M]x16xf32> symbols [M] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x16xf32>
  tcp.return(%mm)
}
"""
STATIC = """\
func @static(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) -> tensor<4x16xf32> {
  %mm = tcp.matmul(%x, %w) : tensor<4x16xf32>
  tcp.return(%mm)
}
"""
DIFFERENCE = """\
func @minus(%x: tensor<[N]xf32>, %y: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {
  %mm = tcp.generic(%y, %x) {iterators = [["i", "parallel"]], maps = [[i], [i], [i]]} ({ (%e: f32, %f: f32):
    %s = tcp.sub(%f, %e) : f32
    tcp.yield(%s)
  }) : tensor<[N]xf32>
  tcp.return(%mm)
}
"""
PLAIN = """\
func @plain(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, K, N] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""
NARROW = """\
func @narrow(%x: tensor<[M]x[K]xbf16>, %w: tensor<[K]x[N]xbf16>) -> tensor<[M]x[N]xf32> symbols [M, K, N] {
  %mm = tcp.contract(%x, %w) {lhs = ["m", "k"], rhs = ["k", "n"], out = ["m", "n"]} : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""
Array = npt.NDArray[np.float32]


def schedule(body: str) -> tcpx.Schedule:
    return tcpx.parse_schedule(f"language 1\nschedule main(root: func) {{\n{body}\n}}")


def applied(payload: str, body: str, target: tcpx.Target = TARGET) -> tcpx.Module:
    return tcpx.apply_schedule(tcpx.parse(payload), schedule(body), target=target, threads=2).module


def whole_numbers(*shape: int) -> Array:
    """Random numbers whose sums are exact in any order."""
    return np.random.default_rng(shape).integers(-4, 5, shape).astype(np.float32)


def refused(payload: str, body: str, target: tcpx.Target = TARGET) -> tcpx.Diagnostic:
    with pytest.raises(ScheduleError) as caught:
        applied(payload, body, target)
    return caught.value.diagnostic


# -- what becomes of the operation ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("payload", "body"), [(RELU, PADDED), (TRANSPOSED, PADDED), (RELU, MASKED)])
def test_the_operation_becomes_a_call_of_its_semantics(payload: str, body: str) -> None:
    module = applied(payload, body)
    (call,) = [op for op in module.main.walk() if op.opcode == "tcp.call"]
    assert call.name == "mm"
    assert Calling(call).callee is None  # no C is made of the semantics
    assert [func.row for func in module.funcs.values()] == [None, call.attributes["callee"]]
    again = tcpx.parse(module.text())
    assert again.text() == module.text()
    sizes = ((0, 3, 4), (1, 1, 1), (13, 0, 5), (13, 9, 33))
    check_same(payload, again, [dict(zip("MKN", values, strict=True)) for values in sizes])


@pytest.mark.parametrize("body", [PADDED, MASKED])
def test_every_step_computes_the_same(body: str) -> None:
    found = tcpx.verify_steps(tcpx.parse(RELU), schedule(body), target=TARGET, threads=2)
    assert found.wrong is None
    assert len(found.cases) > 9


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("body", [PADDED, MASKED])
def test_kernels_compute_the_same(body: str, threads: int) -> None:
    module = tcpx.parse(RELU)
    kernel = tcpx.compile(module, schedule(body), target=TARGET, threads=threads)
    for m, k, n in ((0, 5, 3), (5, 0, 3), (1, 1, 1), (4, 8, 16), (13, 17, 33), (50, 9, 65)):
        arrays = whole_numbers(m, k), whole_numbers(k, n), whole_numbers(n)
        np.testing.assert_array_equal(kernel(*arrays), tcpx.evaluate(module, *arrays))


def test_a_row_that_masks_is_given_tiles_where_they_lie() -> None:
    kernel = tcpx.compile(tcpx.parse(PLAIN), schedule(MASKED), target=TARGET)
    (call,) = re.findall(r"^ *gemm\((.*)\);", kernel.c_source, re.MULTILINE)
    assert re.fullmatch(r"\w+, \w+, \w+, x [^,]*, K, w [^,]*, N, out[^,]*, N", call)
    assert "_buf" not in kernel.c_source
    assert not [remark for remark in kernel.remarks if not remark.factor]


@pytest.mark.parametrize("strided", [False, True])
def test_a_row_may_overwrite_its_result_and_have_scratch(strided: bool) -> None:
    body = OVERWRITTEN.replace("lower_to", "let xp = pack(mm.lhs, [m, k], at: i)\nlower_to")
    kernel = tcpx.compile(tcpx.parse(PRODUCT), schedule(body), target=TARGET, threads=2, strided=False)
    assert "_Alignas(64) uint8_t mm_scratch[256];" in kernel.c_source
    for m in (0, 1, 4, 9):
        x, w = whole_numbers(m, 8), whole_numbers(8, 16)
        np.testing.assert_array_equal(kernel(x, w), x @ w)


def test_a_body_is_matched_on_any_structured_operation() -> None:
    body = MM + "let t = tile(mm, [i: 16])\nlower_to(mm, difference)"
    kernel = tcpx.compile(tcpx.parse(DIFFERENCE), schedule(body), target=TARGET)
    for n in (0, 1, 16, 37):
        x = whole_numbers(n)
        np.testing.assert_array_equal(kernel(x, x[::-1]), x - x[::-1])


def test_a_row_that_adds_gets_a_start() -> None:
    module = applied(STATIC, MM + "lower_to(mm, masked_4x16)")
    assert [op.name for op in module.main.body.ops[:2]] == ["mm.start", "mm"]
    kernel = tcpx.compile(tcpx.parse(STATIC), schedule(MM + "lower_to(mm, masked_4x16)"), target=TARGET)
    np.testing.assert_array_equal(kernel(x := whole_numbers(4, 8), w := whole_numbers(8, 16)), x @ w)


def test_what_is_written_over_is_copied_where_it_is_used_again() -> None:
    payload = """\
func @both(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>, %c: tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xf32>) {
  %d = tcp.add(%c, %c) : tensor<4x16xf32>
  %mm = tcp.matmul(%x, %w, init = %d) : tensor<4x16xf32>
  %e = tcp.mul(%d, %mm) : tensor<4x16xf32>
  tcp.return(%mm, %e)
}
"""
    run = tcpx.apply_schedule(
        tcpx.parse(payload), schedule(MM + "lower_to(mm, masked_4x16)\nbufferize(root)"), target=TARGET
    )
    (remark,) = cast("tuple[str, ...]", run.module.main.attributes["remarks"])
    assert remark.startswith("copies %d: tensor<4x16xf32> for %mm (tcp.call), because ")
    x, w, c = whole_numbers(4, 8), whole_numbers(8, 16), whole_numbers(4, 16)
    kernel = tcpx.compile(tcpx.parse(payload), schedule(MM + "lower_to(mm, masked_4x16)"), target=TARGET)
    np.testing.assert_array_equal(kernel(x, w, c), (x @ w + 2 * c, 2 * c * (x @ w + 2 * c)))


def test_inline_is_the_way_back() -> None:
    module = applied(STATIC, MM + "let c = lower_to(mm, masked_4x16)\ninline(c)")
    assert [op.opcode for op in module.main.body.ops] == ["tcp.fill", "tcp.matmul", "tcp.return"]
    assert list(module.funcs) == ["static"]


def test_outline_does_not_call_a_row() -> None:
    payload = STATIC.replace("%mm =", "%y = tcp.matmul(%x, %w) : tensor<4x16xf32>\n  %mm =").replace(
        "  tcp.return(%mm)", "  %s = tcp.add(%y, %mm) : tensor<4x16xf32>\n  tcp.return(%s)"
    )
    body = 'let y = match one "y" in root\nlower_to(y, product_4x16)\nlet c = outline([match one "mm" in root])'
    module = applied(payload, body)
    assert [func.row for func in module.funcs.values()] == [None, "product_4x16", None]


# -- what is refused by the step -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "body", "message"),
    [
        (
            STATIC.replace("f32", "f64"),
            "lower_to(mm, product_4x16)",
            "the row product_4x16 does not do what %mm does (has f32 as operand 0, not f64)",
        ),
        (
            STATIC.replace("4x", "3x"),
            "lower_to(mm, product_4x16)",
            "the row product_4x16 does not do what %mm does (takes 4 of `m`, not 3)",
        ),
        (
            PRODUCT,
            "let i = tile(mm, [m: 4])\nlower_to(mm, product_4x16)",
            "the row product_4x16 does not do what %mm does (takes 4 of `m`, not min(4, M - %mm/m1))",
        ),
        (
            STATIC,
            "lower_to(mm, padded_4x16)",
            "the row padded_4x16 does not do what %mm does (indexes operand 0 by [k, m], not [m, k])",
        ),
        (
            STATIC,
            "transpose_result(mm, [n])\nlower_to(mm, product_4x16)",
            "the row product_4x16 does not do what %mm does "
            "(indexes operand 0 by [n, k], not [m, k], where the result is [n, m])",
        ),
        (
            STATIC,
            "let k = tile(mm, [k: 8])\nlower_to(mm, product_4x16)",
            "the row product_4x16 does not do what %mm does (overwrites its result, and %mm adds to a tile of %mm)",
        ),
        (
            STATIC,
            "lower_to(mm, difference)",
            "the row difference does not do what %mm does (has 1 dim, not 3)",
        ),
        (
            DIFFERENCE.replace("tcp.sub", "tcp.add"),
            "lower_to(mm, difference)",
            "the row difference does not do what %mm does (the body has tcp.sub: f32 where %s is tcp.add: f32)",
        ),
        (
            PRODUCT,
            "lower_to(mm, masked_4x16)",
            "the row masked_4x16 does not fit: %mm (tcp.call): "
            "the size `M` of @masked_4x16 is not known to be in its range",
        ),
    ],
)
def test_rows_that_do_something_else_are_refused(payload: str, body: str, message: str) -> None:
    found = refused(payload, MM + body)
    assert found.message == message
    assert found.required
    assert found.found


def test_a_size_out_of_range_is_told_with_the_ways_out() -> None:
    found = refused(PRODUCT, MM + "lower_to(mm, masked_4x16)")
    assert (found.required, found.found) == ("0..4", "M = M")
    assert found.fix == (
        "tile it with `tail: pad`, so that every tile is whole, or give the row symbols with these bounds"
    )


def test_a_missing_row_is_refused_and_named() -> None:
    plain = tcpx.load_target("generic")
    found = refused(STATIC, MM + "lower_to(mm, product_4x16)", plain)
    assert found.message == "the target generic has no row `product_4x16`"
    assert found.required == "a target with `kernels` in its table"
    found = refused(STATIC, MM + "lower_to(mm, product_4x61)")
    assert found.required == "padded_4x16, masked_4x16, product_4x16, difference"
    assert found.fix == "did you mean `product_4x16`?"


def test_a_fallback_is_another_row_or_another_block() -> None:
    module = applied(STATIC, MM + "lower_to(mm, amx_4x16, fallback: product_4x16)")
    assert "product_4x16" in module.funcs
    found = refused(STATIC, MM + "lower_to(mm, amx_4x16, fallback: sme_4x16)")
    assert found.message == "the target micro_kernels has no row `amx_4x16` and no row `sme_4x16`"
    body = MM + "try { lower_to(mm, amx_4x16) }\nelse { let i = tile(mm, [m: 2]) }"
    assert [op.opcode for op in applied(STATIC, body).main.body.ops[1:2]] == ["gml_st.for"]


def test_only_structured_operations_on_tensors_are_lowered() -> None:
    payload = """\
func @f(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %mm = tcp.softmax(%x) {dim = 1} : tensor<4x16xf32>
  tcp.return(%mm)
}
"""
    found = refused(payload, MM + "lower_to(mm, difference)")
    assert (found.message, found.required) == ("no row does what %mm does", "a structured operation on tensors")
    body = MM + "let t = tile(mm, [i: 16], tail: pad)\nvectorize(t)\nlower_to(mm, difference)"
    assert refused(DIFFERENCE, body).found == "tcp.generic, %mm: vector<16xf32>"


def test_a_name_of_the_payload_is_not_taken() -> None:
    found = refused(STATIC.replace("@static", "@product_4x16"), MM + "lower_to(mm, product_4x16)")
    assert found.message == "the payload has another function @product_4x16"
    assert found.fix == "give the function of the payload another name"


# -- what is refused where memory is known -------------------------------------------------------------------------


def lowering_of(payload: str, body: str) -> tcpx.Diagnostic:
    with pytest.raises(VerifyError) as caught:
        tcpx.compile(tcpx.parse(payload), schedule(body), target=TARGET)
    return caught.value.diagnostic


def test_alignment_has_to_be_proved() -> None:
    found = lowering_of(STATIC, MM + "lower_to(mm, product_4x16)")
    assert found.message == "%mm (buffer.row): the result of the row product_4x16 is not known to be aligned"
    assert found.required == "an address that is a multiple of 64 bytes"
    assert str(found.found).startswith("a multiple of 4: tile [0, 0] [4, 16] of %out: buffer<")
    assert found.fix == "`pack` or `promote` it, in rows that are a multiple of that"
    assert found.schedule is not None
    assert (found.schedule.line, found.schedule.span) == (4, "lower_to(mm, product_4x16)")


def test_what_lies_otherwise_is_not_copied() -> None:
    payload = STATIC.replace("4x8xf32>, %w", "4x16xf32>, %w").replace(
        "  %mm = tcp.matmul(%x,",
        "  %t = gml_st.materialize(%x) tile [0, 0] [4, 8] [1, 2] : tensor<4x8xf32>\n  %mm = tcp.matmul(%t,",
    )
    found = lowering_of(payload, MM + "lower_to(mm, masked_4x16)")
    assert found.message == "%mm (buffer.row): %x does not lie as the row masked_4x16 takes %a"
    assert found.required == "elements of a row next to one another"
    assert found.fix == "`pack` the operand that is %a"
    payload = STATIC.replace("%x: tensor<4x8xf32>", "%x: tensor<4x8xf32> strided")
    found = lowering_of(payload, MM + "lower_to(mm, product_4x16)")
    assert found.message == "%mm (buffer.row): %x does not lie as the row product_4x16 takes %a"
    assert found.required == "elements without gaps"
    assert found.fix == "`pack` the operand that is %a, or declare %a `strided` in the row"


def test_the_row_of_the_target_has_to_be_the_one_of_the_payload() -> None:
    text = applied(STATIC, MM + "lower_to(mm, masked_4x16)").text()
    empty = tcpx.parse_schedule("language 1\nschedule main(root: func) { print(root) }")
    assert tcpx.compile(tcpx.parse(text), empty, target=TARGET)
    with pytest.raises(VerifyError, match="target generic has no row `masked_4x16`"):
        tcpx.compile(tcpx.parse(text), empty, target="generic")
    with pytest.raises(VerifyError, match="the row masked_4x16 of micro_kernels is not that of the payload"):
        tcpx.compile(tcpx.parse(text.replace("M: 0..4", "M: 0..8")), empty, target=TARGET)


# -- set-up of threads ---------------------------------------------------------------------------------------------

SET_UP = """\
name: counted
base: generic.yaml
parallel_threshold: 1
helpers:
  - define:
      counted: |
        int counted_begun, counted_ended;
        static _Thread_local int counted_now;
kernels:
  - semantics: |
      func @first(%x: tensor<1x16xf32>) -> tensor<1x16xf32> {
        %r = tcp.round(%x) : tensor<1x16xf32>
        tcp.return(%r)
      }
    c: |
      for (int i = 0; i < 16; i++) ({out})[i] = ({x})[i] * (float)counted_now; /* counted */
    set_up: |
      __atomic_fetch_add(&counted_begun, 1, __ATOMIC_SEQ_CST);
      counted_now++;
    tear_down: |
      counted_now--;
      __atomic_fetch_add(&counted_ended, 1, __ATOMIC_SEQ_CST);
  - semantics: |
      func @second(%x: tensor<1x16xf32>, %y: tensor<1x16xf32>) -> tensor<1x16xf32> {
        %r = tcp.max(%x, %y) : tensor<1x16xf32>
        tcp.return(%r)
      }
    c: |
      for (int i = 0; i < 16; i++)
        ({out})[i] = (({x})[i] < ({y})[i] ? ({y})[i] : ({x})[i]) * (float)(counted_now - 7); /* counted */
    set_up: counted_now += 8;
    tear_down: counted_now -= 8;
"""
CHAIN = """\
func @chain(%x: tensor<[M]x16xf32>, %y: tensor<1x16xf32>) -> (tensor<[M]x16xf32>, tensor<1x16xf32>) symbols [M] {
  %a = tcp.round(%x) : tensor<[M]x16xf32>
  %b = tcp.round(%y) : tensor<1x16xf32>
  tcp.return(%a, %b)
}
"""
BOTH = """\
func @both(%x: tensor<[M]x16xf32>) -> tensor<[M]x16xf32> symbols [M] {
  %a = tcp.round(%x) : tensor<[M]x16xf32>
  %b = tcp.max(%a, %x) : tensor<[M]x16xf32>
  tcp.return(%b)
}
"""
ONE_ROW = """\
let a = match one "a" in root
let b = match one "b" in root
"""


def counted(tmp_path: Path, payload: str, body: str, threads: int) -> tuple[tcpx.Kernel, CDLL]:
    (tmp_path / "counted.yaml").write_text(SET_UP, encoding="utf-8")
    target = tcpx.load_target(tmp_path / "counted.yaml", allow_native=True)
    kernel = tcpx.compile(tcpx.parse(payload), schedule(body), target=target, threads=threads)
    return kernel, CDLL(str(kernel.library_path))


def counts(library: CDLL) -> tuple[int, int]:
    return c_int.in_dll(library, "counted_begun").value, c_int.in_dll(library, "counted_ended").value


@pytest.mark.parametrize("threads", [1, 2])
def test_every_thread_is_set_up_once_in_a_loop_nest(tmp_path: Path, threads: int) -> None:
    body = ONE_ROW + "let i = tile(a, [d0: 1], parallel: true)\nlower_to(a, first)\nlower_to(b, first)"
    kernel, library = counted(tmp_path, CHAIN, body, threads)
    x, y = whole_numbers(50, 16), whole_numbers(1, 16)
    call = kernel.bind(x, y)
    for calls in (1, 2):
        first, second = call()
        np.testing.assert_array_equal(first, x)  # each call within just one set-up
        np.testing.assert_array_equal(second, y)
        assert counts(library) == (calls * (threads + 1),) * 2


def test_rows_of_other_set_ups_do_not_stand_within_one_another(tmp_path: Path) -> None:
    body = ONE_ROW + "let i = tile(b, [d0: 1], parallel: true)\nfuse(a, into: i)\n"
    body += "lower_to(a, first)\nlower_to(b, second)"
    kernel, library = counted(tmp_path, BOTH, body, 2)
    x = whole_numbers(9, 16)
    np.testing.assert_array_equal(kernel.bind(x)(), x)
    assert counts(library) == (9, 9)
    assert "#pragma omp parallel for num_threads(2)" in kernel.c_source


def test_rows_without_set_up_leave_the_loop_as_it_is(tmp_path: Path) -> None:
    body = ONE_ROW + "let i = tile(a, [d0: 1], parallel: true)\nlower_to(a, first)"
    kernel, _ = counted(tmp_path, CHAIN, body, 2)
    lines = [line.strip() for line in kernel.c_source.splitlines()]
    at = next(k for k, line in enumerate(lines) if line.startswith("#pragma omp parallel"))
    pragma = " ".join(line.rstrip("\\") for line in lines[at : lines.index("{", at)])
    assert re.fullmatch(r"#pragma omp parallel num_threads\(2\) if \(.*\) firstprivate\(.*\)", pragma)
    assert "#pragma omp for schedule(static) nowait" in lines


# -- the page, its example and the command line --------------------------------------------------------------------


def blocks(language: str) -> Sequence[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """The files of the example."""
    tables, schedules = blocks("yaml"), blocks("tcps")
    texts = (tables[0], schedules[0], RELU, tables[1], schedules[1], NARROW)
    names = ("my_kernels.yaml", "layer.tcps", "layer.tcp", "amx.yaml", "product.tcps", "product.tcp")
    for name, text in zip(names, texts, strict=True):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("threads", [1, 2])
def test_a_micro_kernel_takes_the_inner_product_of_packed_gemm(example: Path, threads: int) -> None:
    target = tcpx.load_target(example / "my_kernels.yaml", allow_native=True)
    module, steps = tcpx.load(example / "layer.tcp"), tcpx.load_schedule(example / "layer.tcps")
    kernel = tcpx.compile(module, steps, target=target, threads=threads)
    assert len(re.findall(r"^ +gemm_4x16\(", kernel.c_source, re.MULTILINE)) == 1
    assert "tcpx_load" not in kernel.c_source  # nothing else multiplies
    for m, k, n in ((0, 5, 3), (5, 0, 3), (1, 1, 1), (4, 16, 16), (13, 17, 33), (131, 300, 61)):
        arrays = whole_numbers(m, k), whole_numbers(k, n), whole_numbers(n)
        np.testing.assert_array_equal(kernel(*arrays), tcpx.evaluate(module, *arrays))
    assert not [remark for remark in kernel.remarks if not remark.factor]


def test_the_steps_of_the_example_compute_the_same(example: Path) -> None:
    target = tcpx.load_target(example / "my_kernels.yaml", allow_native=True)
    found = tcpx.verify_steps(
        tcpx.load(example / "layer.tcp"), tcpx.load_schedule(example / "layer.tcps"), target=target, threads=2
    )
    assert found.wrong is None


@pytest.mark.parametrize("threads", [1, 2])
def test_tiles_of_amx(example: Path, threads: int) -> None:
    target = tcpx.load_target(example / "amx.yaml", allow_native=True)
    require_cpu_of(target)
    if CDLL(None).syscall(158, 0x1023, 18) != 0:
        require_cpu(["amx_permission"], "programs of this system")
    module, steps = tcpx.load(example / "product.tcp"), tcpx.load_schedule(example / "product.tcps")
    kernel = tcpx.compile(module, steps, target=target, threads=threads)
    assert kernel.c_source.count("amx_begin();") == 1
    for m, k, n in ((0, 5, 3), (5, 0, 3), (1, 1, 1), (16, 32, 16), (13, 17, 33), (70, 600, 61)):
        arrays = [whole_numbers(*shape).astype(bfloat16) for shape in ((m, k), (k, n))]
        np.testing.assert_array_equal(kernel(*arrays), tcpx.evaluate(module, *arrays))
    assert tcpx.verify_rows(target) == ()


def test_functions_in_files_of_their_own_call_rows() -> None:
    body = f"{MM}let c = outline([mm])\nlet i, j = tile(mm, [m: 4, n: 16])\nlower_to(mm, masked_4x16)"
    kernel = tcpx.compile(tcpx.parse(RELU), schedule(body), target=TARGET)
    assert ["static void gemm(" in text for text in kernel.sources.values()] == [False, True]
    x, w, b = whole_numbers(5, 3), whole_numbers(3, 17), whole_numbers(17)
    np.testing.assert_array_equal(kernel(x, w, b), np.maximum(x @ w + b, 0))


def test_rows_are_verified(tmp_path: Path) -> None:
    assert tcpx.verify_rows(TARGET) == tcpx.verify_rows(TARGET, sanitize=False) == ()
    text = (FOLDER / "micro_kernels.yaml").read_text(encoding="utf-8")
    faults = (
        ("x[i] - y[i]", "y[i] - x[i]"),
        ("i < 4; i++)\n          for", "i < 5; i++)\n          for"),
        ("{b_stride0}, {c}, {c_stride0});", "{b_stride0}, {c}, {N}); (void)({c_stride0});"),
    )
    for right, wrong in faults:
        assert right in text
        text = text.replace(right, wrong)
    (tmp_path / "wrong.yaml").write_text(text, encoding="utf-8")
    target = tcpx.load_target(tmp_path / "wrong.yaml", allow_native=True)
    outside, gaps, order = tcpx.verify_rows(target)
    assert outside.message.startswith("the row padded_4x16, at K=")
    assert "overflow" in outside.render()
    assert gaps.message == "the C of the row masked_4x16 does not do what its semantics say"
    assert order.message == "the C of the row difference does not do what its semantics say"
    assert order.required == "%r = tcp.sub(%x, %y) : tensor<[N]xf32>"
    assert str(order.found).startswith("at N=1, random data: 1 of 1 element; result 0, element [0] is ")


GATHERING = """name: gathering
base: generic.yaml
kernels:
  - semantics: |
      func @rows(%t: tensor<[V]xf32>, %ix: tensor<[N]xsi64> in 0 to V) -> tensor<[N]xf32> symbols [V, N] {
        %r = tcp.gather(%t, %ix) {dim = 0} : tensor<[N]xf32>
        tcp.return(%r)
      }
    c: (void){V}; for (int64_t i = 0; i < {N}; i++) ({out})[i] = ({t})[({ix})[FIRST]];
"""


def test_rows_with_indices_are_verified_where_there_is_something_to_index(tmp_path: Path) -> None:
    found: list[int] = []
    for first in ("i", "0"):
        path = tmp_path / f"first_{first}.yaml"
        path.write_text(GATHERING.replace("FIRST", first), encoding="utf-8")
        found.append(len(tcpx.verify_rows(tcpx.load_target(path, allow_native=True), sanitize=False)))
    assert found == [0, 1]
