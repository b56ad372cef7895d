"""What groups promise, and become: the examples of docs/groups.md, and what is refused."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from subprocess import run

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.emit_c.kernel import Kernel
from tcpx.payload.diagnostics import ArgumentError, CompileError, ScheduleError, TcpxError, VerifyError
from tcpx.payload.ops.gml_st import Loop
from tcpx.target import TargetError
from tests.optional_tools import require_cpu_of

PAGE = (Path(__file__).parents[2] / "docs" / "groups.md").read_text(encoding="utf-8")
SIZES = ((0, 3, 4), (3, 0, 4), (5, 5, 0), (1, 1, 1), (1, 5, 1), (5, 7, 9), (65, 33, 70))
PRODUCT = """\
func @product(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, K, N] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""
GROUPED = """\
func @grouped(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, K, N] {
  %g = tcp.group {PROMISE} ({
    %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
    tcp.yield(%mm)
  }) : tensor<[M]x[N]xf32>
  %e = tcp.exp(%g) : tensor<[M]x[N]xf32>
  tcp.return(%e)
}
"""
CHAIN = PRODUCT.replace("return(%mm)", "return(%e)").replace(
    "  tcp.return", "  %e = tcp.exp(%mm) : tensor<[M]x[N]xf32>\n  tcp.return"
)
BY_ROW = GROUPED.replace("PROMISE", 'promise = "row", by = "cblas_sgemm"')
MM = 'let mm = match one "mm" in root\n'
Array = npt.NDArray[np.float32]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


(MLP,) = blocks("tcp")
NEST, OWN, LIBRARY = blocks("tcps")
(BLAS,) = blocks("yaml")


def load(folder: Path, text: str = BLAS) -> tcpx.Target:
    (folder / "blas.yaml").write_text(text, encoding="utf-8")
    return tcpx.load_target(folder / "blas.yaml", allow_native=True)


@pytest.fixture(scope="module")
def blas(tmp_path_factory: pytest.TempPathFactory) -> tcpx.Target:
    return load(tmp_path_factory.mktemp("blas"))


def schedule(body: str) -> tcpx.Schedule:
    return tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n{body}\n}}")


def refused(payload: str, body: str, target: tcpx.Target | str) -> tcpx.Diagnostic:
    with pytest.raises((ScheduleError, VerifyError)) as caught:
        tcpx.compile(tcpx.parse(payload), schedule(body), target=target)
    return caught.value.diagnostic


def whole_numbers(*shape: int) -> Array:
    """Random numbers whose sums are exact in any order."""
    return np.random.default_rng(shape).integers(-4, 5, shape).astype(np.float32)


def check_mlp(kernel: Kernel) -> None:
    module = tcpx.parse(MLP)
    for m, k, n in SIZES:
        arrays = whole_numbers(m, k), whole_numbers(k, n), whole_numbers(n), whole_numbers(n, n)
        np.testing.assert_array_equal(kernel(*arrays), tcpx.evaluate(module, *arrays))


def check_grouped(kernel: Kernel, module: tcpx.Module) -> None:
    for m, k, n in SIZES:
        arrays = whole_numbers(m, k), whole_numbers(k, n)
        found, wanted = (np.asarray(r, np.float32) for r in (kernel(*arrays), tcpx.evaluate(module, *arrays)))
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


# -- one loop nest -------------------------------------------------------------------------------------------------


def test_one_nest_and_what_is_none() -> None:
    check_mlp(tcpx.compile(tcpx.parse(MLP), tcpx.parse_schedule(NEST), target="generic"))
    found = refused(MLP, NEST.partition("{")[2].replace("fuse(relu, into: i)\n}", "require i == i"), "generic")
    (shown,) = re.findall(r"^```\nerror: (the group.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert shown == f"{found.message}\n  required: {found.required}\n  found: {found.found}\n  hint: {found.fix}\n"


ROWS = """\
func @rows(%x: tensor<[M]x[N]xf32>) -> (tensor<[N]x[M]xf32>, tensor<[M]x[N]xf32>) symbols [M, N] {
  %t = tcp.group {promise = "nest"} ({
    %a = tcp.add(%x, %x) : tensor<[M]x[N]xf32>
    %b = tcp.transpose(%a) {permutation = [1, 0]} : tensor<[N]x[M]xf32>
    tcp.yield(%b)
  }) : tensor<[N]x[M]xf32>
  %s = tcp.group {promise = "nest"} ({
    %p = tcp.softmax(%x) {dim = 1} : tensor<[M]x[N]xf32>
    tcp.yield(%p)
  }) : tensor<[M]x[N]xf32>
  tcp.return(%t, %s)
}
"""


def test_by_default_a_group_of_a_payload_becomes_one_nest() -> None:
    module = tcpx.parse(GROUPED.replace("PROMISE", 'promise = "nest"'))
    kernel = tcpx.compile(module, target="generic", threads=2)
    assert not [remark for remark in kernel.remarks if not remark.factor]
    check_grouped(kernel, module)
    module = tcpx.parse(ROWS)
    kernel = tcpx.compile(module, target="generic")
    assert not [remark for remark in kernel.remarks if not remark.factor]
    x = whole_numbers(7, 5)
    for found, wanted in zip(kernel(x), tcpx.evaluate(module, x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("shape", "statements"),
    [
        ("[M]", "%a = tcp.exp(%x) : T  %c = tcp.mul(%a, %x) : T  %y = tcp.add(%c, %a) : T"),
        ("[M]x5", "%a = tcp.exp(%x) : T  %c = tcp.max(%a, 0.5) : T  %y = tcp.sub(%c, %x) : T"),
        (
            "[M]x[N]",
            "%m = tcp.reduce_sum(%x) {dims = [1]} : tensor<[M]xf32>  "
            "%a = tcp.sub(%x, broadcast(%m, [0])) : T  %y = tcp.exp(%a) : T",
        ),
    ],
)
def test_by_default_operations_that_read_each_other_are_one_nest(shape: str, statements: str, threads: int) -> None:
    type_ = f"tensor<{shape}xf32>"
    group = f'%y.g = tcp.group {{promise = "nest"}} ({{ {statements}  tcp.yield(%y) }}) : T  tcp.return(%y.g)'
    text = f"func @f(%x: T) -> T symbols [{'M, N' if 'N' in shape else 'M'}] {{ {group} }}".replace(" T", f" {type_}")
    module = tcpx.parse(text)
    run = tcpx.apply_schedule(module, None, target="x86_avx512", threads=threads)
    assert not [remark for remark in run.remarks if not remark.factor]
    assert len([op for op in run.module.main.body.ops if isinstance(op, Loop)]) == 1
    for size in (0, 1, 3, 37):
        arrays = tcpx.random_inputs(module, sizes={"M": size, "N": 5} if "N" in shape else {"M": size})
        found, wanted = (np.asarray(tcpx.evaluate(each, *arrays), np.float32) for each in (run.module, module))
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_by_default_a_group_of_unrelated_operations_is_left_with_a_remark() -> None:
    module = tcpx.parse("""
    func @f(%x: tensor<[M]xf32>, %y: tensor<[N]xf32>) -> (tensor<[M]xf32>, tensor<[N]xf32>) symbols [M, N] {
      %a, %b = tcp.group {promise = "nest"} ({
        %p = tcp.exp(%x) : tensor<[M]xf32>
        %q = tcp.exp(%y) : tensor<[N]xf32>
        tcp.yield(%p, %q)
      }) : tensor<[M]xf32>, tensor<[N]xf32>
      tcp.return(%a, %b)
    }
    """)
    (remark,) = tcpx.apply_schedule(module, None, target="generic").remarks
    assert "has not become one loop nest, as it promises" in remark.message


# -- a function ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sanitize", [False, True])
def test_a_function_has_a_schedule_and_a_target_of_its_own(sanitize: bool) -> None:
    target = tcpx.load_target("x86_avx512", ())
    require_cpu_of(target)
    kernel = tcpx.compile(tcpx.parse(MLP), tcpx.parse_schedule(OWN), target=target, sanitize=sanitize)
    check_mlp(kernel)
    whole, part = kernel.sources.values()
    assert list(kernel.sources) == ["mlp.c", "mlp_relu.c"]
    assert "_mm512_fmadd_ps" in whole
    assert "_mm256_fmadd_ps" in part
    assert "_mm512" not in part
    assert part.count("= c_s;") == 12  # six rows of two vectors: 16 registers
    assert "mlp_relu.c  for x86_avx2" in str(kernel.report())


def test_every_step_computes_the_same() -> None:
    found = tcpx.verify_steps(tcpx.parse(MLP), tcpx.parse_schedule(OWN), target="x86_avx512")
    assert found.wrong is None


def test_a_group_in_which_something_prefetches_becomes_a_function() -> None:
    module = tcpx.parse(GROUPED.replace("PROMISE", 'promise = "function"'))
    kernel = tcpx.compile(module, target="generic")
    assert not [remark for remark in kernel.remarks if not remark.factor]
    _, own = kernel.sources.values()
    assert "__builtin_prefetch" in own
    check_grouped(kernel, module)


@pytest.mark.parametrize("sanitize", [False, True])
def test_helpers_of_two_tables_stand_in_one_file(sanitize: bool) -> None:
    payload = """\
func @f(%x: tensor<[N]xf32>, %y: tensor<[M]x[N]xf32>) -> tensor<[N]xf32> symbols [N, M] {
  %a = tcp.exp(%x) : tensor<[N]xf32>
  %s = tcp.reduce_max(%y) {dims = [0]} : tensor<[N]xf32>
  %b = tcp.add(%a, %s) : tensor<[N]xf32>
  %d = tcp.exp(%b) : tensor<[N]xf32>
  tcp.return(%d)
}
"""
    target = tcpx.load_target("x86_avx512", ())
    require_cpu_of(target)
    body = """
sequence lanewise(x: op) {
  let i = tile(x, [d0: lanes(f32)], tail: pad)
  vectorize(i)
}
schedule s(root: func) {
  let a = match one "a" in root
  let d = match one "d" in root
  group([a], promise: function, target: x86_avx2)
  lanewise(a)
  lanewise(d)
}"""
    program = tcpx.parse_schedule(f"language 1{body}")
    module = tcpx.parse(payload)
    kernel = tcpx.compile(module, program, target=target, sanitize=sanitize)
    assert re.search(r"static inline \w+ tcpx_\w+_x86_avx2\(", kernel.c_source)
    arrays = whole_numbers(21) / 8, whole_numbers(3, 21)
    a, b = kernel(*arrays), tcpx.evaluate(module, *arrays)
    np.testing.assert_allclose(np.asarray(a, np.float32), np.asarray(b, np.float32), rtol=1e-6)


def test_a_sequence_takes_the_function_and_its_target() -> None:
    text = f"""language 1
sequence inside(f: func, wide: int) {{
  require lanes(f32) == 8 and target.vector_registers == 16 and wide == 16
  let mm = match one contract in f
  tile(mm, [m: 4, n: lanes(f32)])
}}
schedule s(root: func) {{
  {MM}
  let g = group([mm], promise: function, target: x86_avx2)
  dissolve(g)
  inside(parent(mm), lanes(f32))
}}"""
    payload = GROUPED.replace(" {PROMISE}", "")
    module = tcpx.apply_schedule(tcpx.parse(payload), tcpx.parse_schedule(text), target="x86_avx512").module
    func = module.funcs["grouped.mm"]
    assert func.text().splitlines()[0].endswith('{promise = "function", target = "x86_avx2"} {')
    assert tcpx.parse(module.text()).text() == module.text()


def test_a_function_of_a_payload_has_a_target() -> None:
    module = tcpx.apply_schedule(
        tcpx.parse(PRODUCT),
        schedule(f"{MM}let g = group([mm], promise: function, target: x86_avx2)\ndissolve(g)"),
        target="x86_avx512",
    ).module
    again = tcpx.compile(tcpx.parse(module.text()), target="x86_avx512")
    assert [source.count("_mm512_") > 0 for source in again.sources.values()] == [False, False]
    assert "for x86_avx2" in str(again.report())


def test_equal_groups_of_one_promise_become_one_function() -> None:
    payload = """\
func @f(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {
  %a = tcp.exp(%x) : tensor<[N]xf32>
  %b = tcp.exp(%a) : tensor<[N]xf32>
  %c = tcp.exp(%b) : tensor<[N]xf32>
  tcp.return(%c)
}
"""
    body = "".join(
        f'let {n} = match one "{n}" in root\ngroup([{n}], promise: function{own})\n'
        for n, own in (("a", ", target: x86_avx2"), ("b", ", target: x86_avx2"), ("c", ""))
    )
    kernel = tcpx.compile(tcpx.parse(payload), schedule(body), target="x86_avx512")
    assert len(kernel.sources) == 3


@pytest.mark.parametrize(
    ("body", "target", "message"),
    [
        ("target: x86_avx512", "x86_avx2", "tcp.group: what runs code for x86_avx2 need not run code for x86_avx512"),
        ("target: x86_avx3", "generic", "tcp.group: unknown target 'x86_avx3'"),
        ("by: x86_avx2", "generic", "tcp.group: a group promises something that it can become"),
    ],
)
def test_a_target_that_cannot_be(body: str, target: str, message: str) -> None:
    found = refused(PRODUCT, f"{MM}group([mm], promise: function, {body})", target)
    assert found.message == message
    payload = GROUPED.replace("PROMISE", 'promise = "function", target = "x86_avx3"')
    found = refused(payload, "", "generic")
    assert found.message == "%g (tcp.group): unknown target 'x86_avx3'"
    assert found.payload is not None


def test_a_promise_of_a_function_that_is_broken() -> None:
    body = f"{MM}let g = group([mm], promise: function)\ndissolve(g)\nlet c = match one call in root\ninline(c)"
    found = refused(PRODUCT, body, "generic")
    assert found.message == "@product.mm stays a function, as the group promised that it was made of"
    inside = (
        'let e = match one "e" in root\nlet i = tile(e, [d0: 6])\nfuse(mm, into: i)\ngroup([mm], promise: function)'
    )
    found = refused(CHAIN, f"{MM}{inside}", "generic")
    assert found.message.startswith("the group %mm.group has not become a function, as it promises: no function can be")
    assert str(found.schedule) == "<schedule>:7:1"


# -- a library -----------------------------------------------------------------------------------------------------


def test_a_library_does_it(blas: tcpx.Target) -> None:
    assert tcpx.verify_rows(blas) == ()
    kernel = tcpx.compile(tcpx.parse(MLP), tcpx.parse_schedule(LIBRARY), target=blas)
    check_mlp(kernel)
    (shown,) = blocks("c")
    lines = [line.strip() for line in kernel.c_source.splitlines()]
    first = lines.index("if (M > 0 && N > 0 && K > 0) {")
    assert lines[first : first + 3] == [line.strip() for line in shown.splitlines()]
    assert kernel.c_source.count("  scipy_cblas_sgemm64_(") == 2
    (library,) = blas.kernels["cblas_sgemm"].link
    assert f"linked with {library}" in str(kernel.report())
    found = tcpx.verify_steps(tcpx.parse(MLP), tcpx.parse_schedule(LIBRARY), target=blas)
    assert found.wrong is None


def test_a_function_that_nothing_declares_is_refused(tmp_path: Path) -> None:
    """The compiler would pass `alpha` as an int."""
    helpers = re.search(r"^helpers:.*?^(?=kernels:)", BLAS, re.MULTILINE | re.DOTALL)
    assert helpers is not None
    undeclared = load(tmp_path, BLAS.replace(helpers[0], ""))
    with pytest.raises(CompileError) as caught:
        tcpx.compile(tcpx.parse(PRODUCT), schedule(f"{MM}lower_to(mm, cblas_sgemm)"), target=undeclared)
    assert "implicit declaration of function" in str(caught.value)


def test_a_function_that_no_library_has_is_named(tmp_path: Path) -> None:
    unlinked = load(tmp_path, BLAS.replace("scipy_cblas_sgemm64_", "no_cblas_sgemm"))
    with pytest.raises(CompileError) as caught:
        tcpx.compile(tcpx.parse(PRODUCT), schedule(f"{MM}lower_to(mm, cblas_sgemm)"), target=unlinked)
    fix = "define `no_cblas_sgemm` in the `helpers` of the target, or `link` the library that has it"
    assert caught.value.diagnostic.fix == fix


def test_the_command_line(tmp_path: Path, blas: tcpx.Target) -> None:
    del blas
    for name, text in (("blas.yaml", BLAS), ("mlp.tcp", MLP), ("library.tcps", LIBRARY)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    tool = [sys.executable, "-m", "tcpx.cli"]
    for words in ("check blas.yaml", "emit mlp.tcp -s library.tcps --target blas.yaml -o out"):
        done = run([*tool, *words.split()], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert "native code" in done.stderr, done
        done = run([*tool, *words.split(), "--allow-native"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    lines = done.stdout.strip().splitlines()
    command = lines[lines.index("to compile it:") + 1].strip()
    assert "libscipy_openblas64_" in command
    run(command, cwd=tmp_path, shell=True, check=True)


def test_a_group_of_the_payload_is_kept_before_the_schedule_of_the_library(tmp_path: Path) -> None:
    target = load(tmp_path, BLAS.replace("generic.yaml", "x86_avx512.yaml"))
    kernel = tcpx.compile(tcpx.parse(BY_ROW), target=target)
    assert not [remark for remark in kernel.remarks if not remark.factor]
    assert "scipy_cblas_sgemm64_(101" in kernel.c_source


def test_strides_are_checked_when_the_kernel_is_called(blas: tcpx.Target) -> None:
    body = f"{MM}lower_to(mm, cblas_sgemm)"
    kernel = tcpx.compile(tcpx.parse(PRODUCT), schedule(body), target=blas, strided=True)
    for m, k, n in SIZES:
        x, w = whole_numbers(m, k + 3)[:, :k], whole_numbers(k, n + 2)[:, :n]
        out = np.full((m, n + 1), np.nan, np.float32)[:, :n]
        np.testing.assert_array_equal(kernel(x, w, out=out), tcpx.evaluate(tcpx.parse(PRODUCT), x, w))
    repeated = np.broadcast_to(whole_numbers(1, 4), (3, 4))
    with pytest.raises(ArgumentError, match=r"rows of %x overlap: the row cblas_sgemm does not take such"):
        kernel(repeated, whole_numbers(4, 5))
    np.testing.assert_array_equal(
        kernel(repeated[:1], np.ones((4, 5), np.float32)), repeated[:1].sum() * np.ones((1, 5))
    )
    assert "_check(M, K, N, (uint64_t)K, (uint64_t)N, (uint64_t)N) != 0) return SIZE_MAX" in kernel.c_source
    found = tcpx.verify_steps(tcpx.parse(PRODUCT), schedule(body), target=blas)
    assert found.wrong is None


def test_a_library_takes_tiles_of_loops(blas: tcpx.Target) -> None:
    body = f"{MM}tile(mm, [m: 6, k: 5])\nlower_to(mm, cblas_sgemm)"
    kernel = tcpx.compile(tcpx.parse(PRODUCT), schedule(body), target=blas)
    for m, k, n in SIZES:
        x, w = whole_numbers(m, k), whole_numbers(k, n)
        np.testing.assert_array_equal(kernel(x, w), tcpx.evaluate(tcpx.parse(PRODUCT), x, w))


def test_its_threads_are_not_started_by_threads(blas: tcpx.Target) -> None:
    found = refused(PRODUCT, f"{MM}tile(mm, [m: 6], parallel: true)\nlower_to(mm, cblas_sgemm)", blas)
    assert found.message == "%mm (buffer.row): the row cblas_sgemm has threads of its own"
    assert found.found == "a call in the parallel loop mm/m1"


def test_what_a_library_does_not_do_is_refused(blas: tcpx.Target) -> None:
    both = f'{MM}let e = match one "e" in root\n'
    found = refused(CHAIN, f"{both}group([mm, e], promise: row, by: cblas_sgemm)", blas)
    assert found.message == "the group %e.group has not become a call of the row cblas_sgemm, as it promises"
    assert found.found == "%mm (tcp.matmul), %e (tcp.exp)"
    found = refused(CHAIN, f"{both}group([e], promise: row, by: cblas_sgemm)", blas)
    assert found.message.startswith("the row cblas_sgemm does not do what %e does")
    found = refused(BY_ROW, "", "generic")
    assert found.message == "the target generic has no row `cblas_sgemm`"
    assert refused(PRODUCT, f"{MM}group([mm], promise: row)", blas).found == "promise = row"
    wide = PRODUCT.replace("f32", "f64")
    assert refused(wide, f"{MM}group([mm], promise: row, by: cblas_sgemm)", blas).message.startswith(
        "the row cblas_sgemm"
    )


@pytest.mark.parametrize(
    ("old", "new", "required"),
    [
        ("libscipy_openblas64_*", "libnone_*", "a flag of the linker, or the path of a library, with `*` for any text"),
        ("own_threads", "threads", "words among nonempty, disjoint_rows, own_threads"),
        ("    in_place: c\n", "", "nonempty for a row that adds to its result, in_place"),
    ],
)
def test_a_description_that_is_wrong(tmp_path: Path, old: str, new: str, required: str) -> None:
    with pytest.raises(TargetError) as caught:
        load(tmp_path, BLAS.replace(old, new))
    assert caught.value.diagnostic.required == required


def test_a_description_that_lies_is_found(tmp_path: Path) -> None:
    (found,) = tcpx.verify_rows(load(tmp_path, BLAS.replace("1, {a}, {a_stride0}", "2, {a}, {a_stride0}")))
    assert found.message == "the C of the row cblas_sgemm does not do what its semantics say"


def test_a_library_that_has_no_such_function(tmp_path: Path) -> None:
    target = load(tmp_path, BLAS.replace("scipy_cblas_sgemm64_", "no_such_function"))
    with pytest.raises(TcpxError):
        tcpx.compile(tcpx.parse(PRODUCT), schedule(f"{MM}lower_to(mm, cblas_sgemm)"), target=target)
