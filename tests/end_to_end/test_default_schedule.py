"""Payloads that the default schedule refused: it takes them, makes vectors of most, and says what it leaves."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx import Kernel
from tcpx.interp.trace import Trace
from tcpx.target import Target

SIZES = (
    {"M": 16, "K": 13, "N": 19, "I": 5, "J": 7},
    {"M": 0, "K": 0, "N": 1, "I": 0, "J": 3},
    {"M": 16, "K": 1022, "N": 5, "I": 40, "J": 33},
    {"M": 16, "K": 1024, "N": 33, "I": 33, "J": 1},
)


def typed(*dims: str) -> str:
    return f"tensor<{'x'.join([*dims, 'f32'])}>"


def func(arguments: dict[str, str], result: str, body: str) -> str:
    """A function whose symbols are those of its arguments; M is a multiple of 16."""
    text = ", ".join(f"%{name}: {type_}" for name, type_ in arguments.items())
    names = [s for s in "MKNIJ" if any(f"[{s}]" in type_ for type_ in arguments.values())]
    symbols = f" symbols [{', '.join('M multiple_of 16' if s == 'M' else s for s in names)}]" if names else ""
    return f"func @f({text}) -> {result}{symbols} {{\n{body}\n  tcp.return(%r)\n}}\n"


def contract(maps: str) -> str:
    lhs, rhs, out = maps.replace("->", ",").split(",")
    listed = ", ".join(f"{k} = {list(v)}".replace("'", '"') for k, v in (("lhs", lhs), ("rhs", rhs), ("out", out)))
    return f"{{{listed}}}"


def padded(before: list[str], after: list[str], other: list[str], maps: str, out: list[str]) -> str:
    """A contraction of a padded factor with another one."""
    return func(
        {"x": typed(*before), "y": typed(*other)},
        typed(*out),
        f"  %p = tcp.pad(%x) {{value = 0.0}} : {typed(*after)}\n"
        f"  %r = tcp.contract(%p, %y) {contract(maps)} : {typed(*out)}",
    )


def generic(maps: str, combiner: str, body: str) -> str:
    """A contraction with another combiner and another body."""
    lhs, rhs, out = (list(part) for part in maps.replace("->", ",").split(","))
    types = [typed(*(f"[{d.upper()}]" if d != "k" else "[K]" for d in part)) for part in (lhs, rhs, out)]
    dims = sorted({*lhs, *rhs})
    iterators = ", ".join(f'["{d}", "{"parallel" if d in out else "reduction"}"]' for d in dims)
    listed = ", ".join(f"[{', '.join(part)}]" for part in (lhs, rhs, out))
    return func(
        {"x": types[0], "y": types[1]},
        types[2],
        f"  %r = tcp.generic(%x, %y) {{iterators = [{iterators}], maps = [{listed}],"
        f'  combiner = "tcp.{combiner}"}} ({{\n'
        f"    (%a: f32, %b: f32, %acc: f32):\n    %p = tcp.{body}(%a, %b) : f32\n"
        f"    %s = tcp.{combiner}(%acc, %p) : f32\n    tcp.yield(%s)\n  }}) : {types[2]}",
    )


THREE_RESULTS = func(
    {"x": typed("[N]", "64"), "w": typed("64", "32")},
    typed("[N]", "32"),
    """\
  %a0 = tcp.empty : tensor<[N]x32xf32>
  %b0 = tcp.empty : tensor<[N]x32xf32>
  %c0 = tcp.empty : tensor<[N]x32xf32>
  %a, %b, %c = gml_st.for %i in 0 to N step 4 (%p = %a0, %q = %b0, %s = %c0) {
    %xt = gml_st.materialize(%x) tile [%i, 0] [min(4, N - %i), 64] : tensor<[min(4, N - %i)]x64xf32>
    %mm = tcp.matmul(%xt, %w) : tensor<[min(4, N - %i)]x32xf32>
    %m2 = tcp.add(%mm, %mm) : tensor<[min(4, N - %i)]x32xf32>
    gml_st.yield(%mm, %p) tile [%i, 0] [min(4, N - %i), 32]
    gml_st.yield(%m2, %q) tile [%i, 0] [min(4, N - %i), 32]
    gml_st.yield(%mm, %s) tile [%i, 0] [min(4, N - %i), 32]
  } : tensor<[N]x32xf32>, tensor<[N]x32xf32>, tensor<[N]x32xf32>
  %ab = tcp.add(%a, %b) : tensor<[N]x32xf32>
  %r = tcp.add(%ab, %c) : tensor<[N]x32xf32>""",
)
VECTORS = {
    "rows by sixteens": func(
        {"x": typed("[M]", "1024"), "w": typed("1024", "4096")},
        typed("[M]", "4096"),
        f"  %r = tcp.matmul(%x, %w) : {typed('[M]', '4096')}",
    ),
    "matvec of a pad": padded(["[N]", "[K]"], ["[N]", "[K + 1]"], ["[K + 1]"], "mk,k->m", ["[N]"]),
    "dot of a pad": padded(["[K]"], ["[K + 1]"], ["[K + 1]"], "k,k->", []),
    "matmul of a pad": padded(["[M]", "[K]"], ["[M]", "[K + 1]"], ["[K + 1]", "[N]"], "mk,kn->mn", ["[M]", "[N]"]),
    "pad by three": padded(["[M]", "[K]"], ["[M]", "[K + 3]"], ["[K + 3]", "[N]"], "mk,kn->mn", ["[M]", "[N]"]),
    "pad of rows": padded(["5", "32", "5"], ["20", "32", "5"], ["20", "32", "5"], "abc,abc->a", ["20"]),
    "init is a fill": func(
        {"x": typed("[N]", "64"), "w": typed("64", "32")},
        typed("[N]", "32"),
        f"  %z = tcp.fill {{value = 1.0}} : {typed('[N]', '32')}\n"
        f"  %r = tcp.matmul(%x, %w, init = %z) : {typed('[N]', '32')}",
    ),
    **{
        f"{combiner} of {body}, {maps}": generic(maps, combiner, body)
        for maps in ("ij,kj->ik", "ij,ji->j")
        for combiner, body in (("max", "mul"), ("min", "sub"))
    },
}
LEFT = {
    **{f"{c} of {b}, i,i->": generic("i,i->", c, b) for c, b in (("max", "mul"), ("max", "sub"), ("min", "sub"))},
    "a loop of three results": THREE_RESULTS,
}


def check(kernel: Kernel, module: tcpx.Module) -> None:
    for sizes in SIZES:
        used = {s.name: sizes[s.name] for s in module.main.symbols}
        given = [np.rint(np.multiply(2, a)) for a in tcpx.random_inputs(module, 1, sizes=used)]
        np.testing.assert_array_equal(kernel(*given), tcpx.evaluate(module, *given), err_msg=str(used))


def test_nothing_is_refused(target: Target) -> None:
    modules = {name: tcpx.parse(text) for name, text in (VECTORS | LEFT).items()}
    requests = [tcpx.CompileRequest(module, name=f"f{k}") for k, module in enumerate(modules.values())]
    kernels = tcpx.compile_many(requests, target=target, threads=2)
    for (name, module), kernel in zip(modules.items(), kernels, strict=True):
        if name in VECTORS:
            assert not [remark for remark in kernel.remarks if not remark.factor], name
            assert isinstance(kernel.trace, Trace)
            assert any(entry.transform == "vectorize" for entry in kernel.trace.entries), name
        check(kernel, module)


SUM = """\
func @f(%x: tensor<[M]xf32>, %y: tensor<[M]xf32>) -> tensor<f32> symbols [M] {
  %a = tcp.mul(%x, %y) : tensor<[M]xf32>
  %b = tcp.max(%a, %y) : tensor<[M]xf32>
  %r = tcp.reduce_sum(%b) {dims = [0]} : tensor<f32>
  tcp.return(%r)
}
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_summed_to_one_number_is_not_written(threads: int) -> None:
    module = tcpx.parse(SUM)
    kernel = tcpx.compile(module, target="x86_avx2", threads=threads)
    assert not [remark for remark in kernel.remarks if not remark.factor]
    assert isinstance(kernel.trace, Trace)
    assert kernel.trace.entries[0].transform == "fuse_elementwise"
    assert not any(statement.startswith("tile(e") for statement in (e.statement for e in kernel.trace.entries))
    check(kernel, module)


SCORES = """\
func @f(%q: tensor<2x7x5xf32>, %past: tensor<2x[M]x5xf32>, %new: tensor<7x2x5xf32>) -> tensor<2x7x[M + 7]xf32>
    symbols [M] {
  %late = tcp.transpose(%new) {permutation = [1, 0, 2]} : tensor<2x7x5xf32>
  %keys = tcp.concat(%past, %late) {dim = 1} : tensor<2x[M + 7]x5xf32>
  %r = tcp.contract(%q, %keys) {lhs = ["h", "s", "d"], rhs = ["h", "p", "d"], out = ["h", "s", "p"]} :
      tensor<2x7x[M + 7]xf32>
  tcp.return(%r)
}
"""


def test_a_cache_with_new_rows_behind_it_is_packed() -> None:
    """New rows are transposed on their way, before the pack transposes all of them."""
    module = tcpx.parse(SCORES)
    kernel = tcpx.compile(module, target="x86_avx2")
    assert not [remark for remark in kernel.remarks if not remark.factor]
    assert isinstance(kernel.trace, Trace)
    assert "pack" in {entry.transform for entry in kernel.trace.entries}
    check(kernel, module)


def test_neutral_operations_are_not_computed() -> None:
    """A product with 1 is what it multiplies: the first matmul reads %x, and packs nothing; the second is a copy."""
    module = tcpx.parse(
        "func @f(%x: tensor<8x8xf32>, %n: tensor<[M]xsi32>) -> (tensor<8x8xf32>, tensor<[M]xsi32>) symbols [M] {\n"
        "  %a = tcp.mul(%x, 1.0) : tensor<8x8xf32>\n  %r = tcp.matmul(%a, %x) : tensor<8x8xf32>\n"
        "  %b = tcp.mul(%n, 1) : tensor<[M]xsi32>\n  %c = tcp.add(%b, 0) : tensor<[M]xsi32>\n  tcp.return(%r, %c)\n}\n"
    )
    kernel = tcpx.compile(module, target="x86_avx2")
    assert not [remark for remark in kernel.remarks if not remark.factor]
    source = "".join(kernel.sources.values())
    assert "memcpy(out_1, n" in source
    assert "buf" not in source
    x, n = np.arange(64, dtype=np.float32).reshape(8, 8), np.arange(9, dtype=np.int32)
    product, copied = kernel(x, n)
    np.testing.assert_array_equal(product, x @ x)
    np.testing.assert_array_equal(copied, n)


def test_sums_behind_no_elements_have_no_remark() -> None:
    module = tcpx.parse(
        "func @f(%x: tensor<[C]x0x[E]xsi16>, %w: tensor<[A]x2xsi8>) -> tensor<[A]x[C]x0x[E]xsi32>\n"
        "    symbols [C: 16..4096 multiple_of 16, E multiple_of 4, A: 0..40] {\n"
        "  %c = tcp.cast(%x) : tensor<[C]x0x[E]xsi8>\n"
        '  %r = tcp.contract(%c, %w) {lhs = ["c", "b", "e"], rhs = ["a", "d"], out = ["a", "c", "b", "e", "d"]}\n'
        "    : tensor<[A]x[C]x0x[E]x2xsi32>\n"
        "  %s = tcp.reduce_sum(%r) {dims = [4]} : tensor<[A]x[C]x0x[E]xsi32>\n  tcp.return(%s)\n}\n"
    )
    kernel = tcpx.compile(module, target="generic", threads=2)
    assert not [remark for remark in kernel.remarks if not remark.factor]
    assert np.asarray(kernel(np.ones((16, 0, 4), np.int16), np.ones((3, 2), np.int8))).shape == (3, 16, 0, 4)


def test_what_has_no_elements_has_no_remark() -> None:
    module = tcpx.parse(
        "func @f(%x: tensor<16x0xf32>) -> tensor<0xf32> {\n  %i = tcp.fill {value = 2.0} : tensor<0xf32>\n"
        "  %r = tcp.reduce_max(%x, init = %i) {dims = [0]} : tensor<0xf32>\n  tcp.return(%r)\n}\n"
    )
    kernel = tcpx.compile(module, target="x86_avx2")
    assert not [remark for remark in kernel.remarks if not remark.factor]
    assert np.asarray(kernel(np.ones((16, 0), np.float32))).shape == (0,)


@pytest.mark.parametrize("shape", ["1", "1x1"])
@pytest.mark.parametrize("value", ["2.0", "N"])
def test_what_has_one_element_has_no_remark(shape: str, value: str) -> None:
    """Numbers in tensors of one element, as exporters write them, and what only gives them another shape."""
    module = tcpx.parse(
        "func @f(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {\n"
        f"  %two = tcp.fill {{value = {value}}} : tensor<{shape}xf32>\n"
        "  %one = tcp.reshape(%two) : tensor<f32>\n  %all = tcp.broadcast(%one) {dims = []} : tensor<[N]xf32>\n"
        "  %r = tcp.mul(%x, %all) : tensor<[N]xf32>\n  tcp.return(%r)\n}\n"
    )
    assert tcpx.emit(module, target="generic").remarks == ()


def test_a_remark_says_why_an_operation_cannot_join_rows() -> None:
    """Not only that it is outside of the loop over the rows."""
    payload = tcpx.parse(
        "func @f(%x: tensor<[M]x[N]xf32>) -> (tensor<[M]xf32>, tensor<[M]xf32>) symbols [M, N] {\n"
        "  %most = tcp.reduce_max(%x) {dims = [1]} : tensor<[M]xf32>\n"
        "  %sum = tcp.reduce_sum(%x) {dims = [1]} : tensor<[M]xf32>\n  tcp.return(%sum, %most)\n}\n"
    )
    schedule = tcpx.parse_schedule(
        'language 1\nimport "lib/rows.tcps" as rows\nschedule s(root: func) {\n'
        '  let most = match one "most" in root\n  let sum = match one "sum" in root\n'
        "  try {\n    let i = tile(sum, [d0: 4])\n    rows.gather_rows([most, sum], sum, i)\n  } else remark sum\n}\n"
    )
    (remark,) = tcpx.remarks_of(payload, schedule, target="generic")
    (why,) = [note for note in remark.notes if "%sum is left as it is: the loop sum/d01 does not use %most" in note]
    assert why.endswith("which takes a path from %most into sum/d01")


def test_a_remark_says_what_is_left_where_and_why() -> None:
    payload = LEFT["max of mul, i,i->"].replace(" symbols [I]", "").replace("[I]", "2001")
    kernel = tcpx.compile(tcpx.parse(payload), target="generic")
    (remark,) = kernel.remarks
    assert remark.message.startswith("`r/i` computes element by element: without that, the kernel would be ")
    assert remark.payload is not None
    (why,) = remark.notes
    assert "gemv.tcps:" in why
    assert "%r is left as it is: `i` of %r cannot be padded to whole rounds of 16" in why
    assert str(remark) in str(kernel.report())
    explanation = tcpx.explain(tcpx.parse(payload), target="generic")
    assert remark.message in "\n".join(tcpx.ExplanationText().end(explanation))


def test_what_was_asked_for_is_not_left_out() -> None:
    module = tcpx.parse(VECTORS["init is a fill"])
    with pytest.raises(tcpx.ScheduleError, match="not in its domain"):
        tcpx.compile(module, target="generic", params={"mr": 99})


UNIT = {
    "a batch of one": (
        {"x": typed("1", "[M]", "[K]"), "w": typed("1", "[K]", "[N]"), "b": typed("[N]")},
        ("1", "[M]", "[N]"),
        "batch_matmul",
        "direct_gemm.mr",
    ),
    "one column": (
        {"x": typed("[M]", "[K]"), "w": typed("[K]", "1"), "b": typed("1")},
        ("[M]", "1"),
        "matmul",
        "matvec.nt",
    ),
    "one row": (
        {"x": typed("1", "[K]"), "w": typed("[K]", "[N]"), "b": typed("[N]")},
        ("1", "[N]"),
        "matmul",
        "stream_gemm.kb",
    ),
}
"""Products with a dim of one index: arguments, result, operation, and a knob of the recipe of what is left."""


def product_of(name: str) -> str:
    arguments, result, opcode, _ = UNIT[name]
    last = len(result) - 1
    body = (
        f"  %mm = tcp.{opcode}(%x, %w) : {typed(*result)}\n"
        f"  %bb = tcp.broadcast(%b) {{dims = [{last}]}} : {typed(*result)}\n"
        f"  %s = tcp.add(%mm, %bb) : {typed(*result)}\n  %r = tcp.max(%s, 0.0) : {typed(*result)}"
    )
    return func(arguments, typed(*result), body)


@pytest.mark.parametrize("name", UNIT)
def test_products_are_computed_without_dims_of_one_index(name: str) -> None:
    module = tcpx.parse(product_of(name))
    kernel = tcpx.compile(module, target="x86_avx2")
    assert not [remark for remark in kernel.remarks if not remark.factor]
    assert isinstance(kernel.trace, Trace)
    steps = [entry.transform for entry in kernel.trace.entries]
    assert steps[: steps.index("tile")].count("fold_unit_dims") >= 3, "the product, its bias and the maximum"
    knobs = tcpx.apply_schedule(tcpx.parse(product_of(name)), None, target="x86_avx2").knobs
    assert any(knob.path.endswith(UNIT[name][3]) for knob in knobs)
    check(kernel, module)


def test_beside_reductions_dims_of_one_index_stay() -> None:
    module = tcpx.parse(
        "func @f(%x: tensor<1x7xf32>, %w: tensor<7x[N]xf32>) -> tensor<1x[N]xf32> symbols [N] {\n"
        "  %mm = tcp.matmul(%x, %w) : tensor<1x[N]xf32>\n  %r = tcp.softmax(%mm) {dim = 1} : tensor<1x[N]xf32>\n"
        "  tcp.return(%r)\n}\n"
    )
    kernel = tcpx.compile(module, target="generic")
    assert isinstance(kernel.trace, Trace)
    assert "fold_unit_dims" not in [entry.transform for entry in kernel.trace.entries]


@pytest.mark.parametrize("columns", [768, 2304, 3072])
def test_panels_of_one_row_divide_the_columns(columns: int) -> None:
    """A product of one row reads its constant once: what panels are padded with is read with it."""
    text = (
        f"func @f(%x: tensor<1x64xf32>) -> tensor<1x{columns}xf32> {{\n"
        f'  %w = tcp.const {{constant = "w"}} : tensor<64x{columns}xf32>\n'
        f"  %y = tcp.matmul(%x, %w) : tensor<1x{columns}xf32>\n  tcp.return(%y)\n}}\n"
    )
    module = tcpx.parse(text, constants={"w": np.ones((64, columns), np.float32)})
    source = tcpx.emit(module, target="x86_avx512").c_source
    assert f": {64 * columns * 4} bytes at 0" in source


GENERICS = {
    "windows to two results": """\
func @f(%x: tensor<[N]xf32>) -> (tensor<[N - 2]xf32>, tensor<[N - 2]xf32>) symbols [N: 2..] {
  %s, %p = tcp.generic(%x) {iterators = [["o", "parallel"], ["k", "reduction", 3]], maps = [[o + k], [o], [o]],
      neutral = [0.0, -inf], commutative = true} ({ (%e: f32):
    tcp.yield(%e, %e)
  }, { (%a: f32, %b: f32, %c: f32, %d: f32):
    %u = tcp.add(%a, %c) : f32
    %v = tcp.max(%b, %d) : f32
    tcp.yield(%u, %v)
  }) : tensor<[N - 2]xf32>, tensor<[N - 2]xf32>
  tcp.return(%s, %p)
}
""",
    "rows that a generic sums": """\
func @f(%x: tensor<[N]x40xf32>) -> (tensor<[N]xf32>, tensor<[N]x40xf32>) symbols [N] {
  %z = tcp.mul(%x, 0.5) : tensor<[N]x40xf32>
  %y = tcp.generic(%z) {iterators = [["i", "parallel"], ["j", "reduction"]], maps = [[i, j], [i]],
      combiner = "tcp.add"} ({ (%e: f32, %acc: f32):
    %next = tcp.fma(%e, %e, %acc) : f32
    tcp.yield(%next)
  }) : tensor<[N]xf32>
  %d = tcp.sub(%z, broadcast(%y, [0])) : tensor<[N]x40xf32>
  tcp.return(%y, %d)
}
""",
}


@pytest.mark.parametrize("text", GENERICS.values(), ids=GENERICS.keys())
def test_generic_reductions_are_vectorized(text: str) -> None:
    module = tcpx.parse(text)
    run = tcpx.apply_schedule(module, None, target="x86_avx512")
    assert not [remark for remark in run.remarks if not remark.factor]
    assert not run.coverage.untouched
    x = np.random.default_rng(1).standard_normal((19, 40), np.float32)
    x = x[:, 0] if "N - 2" in text else x
    for found, wanted in zip(tcpx.evaluate(run.module, x), tcpx.evaluate(module, x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
