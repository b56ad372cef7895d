"""What can be asked of operations: classes, kinds of dims, attributes, neighbours, the end of an epilogue."""

from __future__ import annotations

from pathlib import Path

import pytest

import tcpx
from tcpx.interp import Run, run_schedule
from tcpx.payload.diagnostics import ScheduleError
from tcpx.payload.text.parser import parse
from tcpx.target import load_target
from tcpx.transform.language import program_of_text
from tests.transform.payloads import RELU, SOFTMAX, TWO_K, check

MM = 'let mm = match one "mm" in root\n'


def run(body: str, payload: str = RELU, head: str = "", beside: str | Path = ".") -> Run:
    program = program_of_text(f"language 1\n{head}schedule main(root: func) {{\n{body}\n}}", beside=beside)
    return run_schedule(parse(payload), program, load_target("x86_avx512"))


def failure(body: str, payload: str = RELU) -> ScheduleError:
    with pytest.raises(ScheduleError) as caught:
        run(body, payload)
    return caught.value


@pytest.mark.parametrize(
    "condition",
    [
        "mm.is_a(contract) and mm.is_a(generic) and mm.is_a(op) and not mm.is_a(elementwise)",
        'mm.m.kind == "parallel" and mm.k.kind == "reduction"',
        'len(mm.dims("reduction")) == 1 and mm.dims("parallel") == [mm.m, mm.n]',
        'mm.opcode == "tcp.matmul"',
        'len(match some elementwise in root where contains(it.dims("parallel"), it.d0)) == 2',
        '(match one op in root where opcode == "tcp.broadcast").attribute("dims") == [1]',
        "len(match some op in root where len(users(it)) == 1) == 4",
        '(match one op in root where it.is_a(elementwise) and producer(lhs).is_a(contract)).name == "s"',
        '(match one op in root where size(k) >= 0 and k.kind == "reduction") == mm',
        "(match one op in root where dtype(out) == f32 and rank(it) == 2 and it.is_a(matmul)) == mm",
        "len(match any op in root where scheduled) == 0",
    ],
)
def test_predicates(condition: str) -> None:
    run(f'{MM}require {condition} "wrong"')


def test_two_reduction_dims() -> None:
    run(f'{MM}require len(mm.dims("reduction")) == 2', TWO_K)


@pytest.mark.parametrize(
    ("body", "message", "fix"),
    [
        ('let a = mm.dims("paralel")', 'there is no kind of dim "paralel"', "did you mean `parallel`?"),
        ("let a = mm.is_a(contrct)", "there is no class `contrct` in the operation tree", "did you mean `contract`?"),
        ("let a = mm.loop(mn)", "%mm has no dim `mn`", "did you mean `n`?"),
        ("let a = mm.m.knd", "a dim has no `knd`", None),
        ('let b = match one broadcast in root\nlet a = b.attribute("dim")',
         "%bias (tcp.broadcast) has no attribute `dim`", "did you mean `dims`?"),
        ("let a = mm.is_b(contract)", "there is no `is_b(...)` to ask a handle", "did you mean `is_a`?"),
        ("let a = mm.dims(4)", "`dims` takes a string", None),
    ],
)  # fmt: skip
def test_wrong_questions(body: str, message: str, fix: str | None) -> None:
    found = failure(MM + body).diagnostic
    assert (found.message, found.fix) == (message, fix)


@pytest.mark.parametrize(
    ("old", "new", "end"),
    [
        ("", "", "r"),
        ("tcp.return(%r)", "tcp.return(%r, %s)", "s"),
        ("tcp.add(%mm, %bias)", "tcp.add(%mm, %mm)", "r"),
        ("tcp.max(%s, %zero)", "tcp.reshape(%s)", "s"),
    ],
)
def test_where_an_epilogue_ends(old: str, new: str, end: str) -> None:
    payload = RELU.replace(old, new) if old else RELU
    if "return" in old:
        payload = payload.replace("-> tensor<[M]x[N]xf32>", "-> (tensor<[M]x[N]xf32>, tensor<[M]x[N]xf32>)")
    run(f'{MM}require epilogue(mm).name == "{end}" "ends elsewhere"', payload)


def test_a_reduction_ends_an_epilogue() -> None:
    payload = RELU.replace(
        "tcp.max(%s, %zero) : tensor<[M]x[N]xf32>", "tcp.reduce_sum(%s) {dims = [1]} : tensor<[M]xf32>"
    )
    payload = payload.replace("-> tensor<[M]x[N]xf32> symbols", "-> tensor<[M]xf32> symbols")
    run(f'{MM}require epilogue(mm).name == "s" "ends elsewhere"', payload)


def test_errors_of_expressions_carry_the_call_stack(tmp_path: Path) -> None:
    (tmp_path / "g.tcps").write_text("language 1\nsequence inner(x: op) { let a = x.loop(m); dce(a) }\n")
    with pytest.raises(ScheduleError) as caught:
        run(
            MM + "outer(mm)",
            head='import "g.tcps"\nsequence outer(x: op) { g.inner(x) }\n',
            beside=tmp_path,
        )
    assert [name for name, _ in caught.value.diagnostic.calls] == ["inner", "outer"]


def test_items_that_were_merged_are_skipped() -> None:
    twice = RELU.replace("  %s =", "  %also = tcp.broadcast(%b) {dims = [1]} : tensor<[M]x[N]xf32>\n  %s =")
    twice = twice.replace("tcp.max(%s, %zero)", "tcp.max(%s, %also)").replace(
        "  %zero = tcp.fill {value = 0.0} : tensor<[M]x[N]xf32>\n", ""
    )
    done = run('for b in match some broadcast in root { optional cse(root); emit_remark(b, "seen") }', twice)
    assert len(done.trace.output) == 1


def test_items_that_became_one_before_it_changed_are_skipped() -> None:
    steps = "let all = match some elementwise in root\nfuse_elementwise(all)\n"
    loop = 'for x in all { let d = innermost(dims(x.out)); transpose_result(x, [d]); emit_remark(x, "seen") }'
    assert len(run(steps + loop, RELU).trace.output) == 1


def test_language_and_the_schedule_on_one_line() -> None:
    program = program_of_text(
        "language 1; schedule main(root: func) { let y = match one softmax in root; decompose(y) }"
    )
    assert len(run_schedule(parse(SOFTMAX), program, load_target("generic")).trace.entries) == 1


CHAIN = """func @f(%x: tensor<12x64xf32>, %w: tensor<64x32xf32>, %b: tensor<12x32xf32>) -> RESULT {
  %mm = tcp.matmul(%x, %w) : tensor<12x32xf32>
  BODY
  tcp.return(%z)
}
"""
TENSOR = "tensor<12x32xf32>"


def epilogue_of_mm(body: str, result: str = TENSOR, steps: str = "") -> str:
    done = run(f"{MM}{steps}print(epilogue(mm))", CHAIN.replace("BODY", body).replace("RESULT", result))
    return str(done.trace.output[0]).partition(" = ")[0]


@pytest.mark.parametrize(
    ("body", "result", "end"),
    [
        (f"%a = tcp.add(%mm, %b) : {TENSOR}\n  %z = tcp.exp(%a) : {TENSOR}", TENSOR, "z"),
        (f"%a = tcp.add(%mm, %b) : {TENSOR}\n  %z = tcp.add(%a, %a) : {TENSOR}", TENSOR, "z"),
        (f"%a = tcp.exp(%mm) : {TENSOR}\n  %c = tcp.exp(%mm) : {TENSOR}\n  %z = tcp.add(%a, %c) : {TENSOR}", TENSOR,
         "z"),
        (f"%a = tcp.exp(%mm) : {TENSOR}\n  %z = tcp.cast(%a) : tensor<12x32xbf16>", "tensor<12x32xbf16>", "z"),
        ("%z = tcp.reduce_sum(%mm) {dims = [1]} : tensor<12xf32>", "tensor<12xf32>", "mm"),
        (f"%t = tcp.transpose(%b) {{permutation = [1, 0]}} : tensor<32x12xf32>\n"
         f"  %u = tcp.transpose(%t) {{permutation = [1, 0]}} : {TENSOR}\n  %z = tcp.add(%mm, %u) : {TENSOR}", TENSOR,
         "z"),
        ("%z = tcp.transpose(%mm) {permutation = [1, 0]} : tensor<32x12xf32>", "tensor<32x12xf32>", "mm"),
    ],
    ids=["chain", "one reader twice", "meeting", "another dtype", "a reduction", "computed between", "a reshape"],
)  # fmt: skip
def test_the_end_of_an_epilogue(body: str, result: str, end: str) -> None:
    """And fusing up to there is possible."""
    assert epilogue_of_mm(body, result) == end
    steps = "let last = epilogue(mm)\nlet i = tile(mm, [m: 6])\nif last != mm { fuse(last, into: i) }\n"
    assert epilogue_of_mm(body, result, steps) == end


def test_an_epilogue_ends_where_dominance_does() -> None:
    """An op in a loop of its own, or in one version, is no part of it."""
    chain = f"%a = tcp.add(%mm, %b) : {TENSOR}\n  %z = tcp.exp(%a) : {TENSOR}"
    assert epilogue_of_mm(chain, steps='let z = match one "z" in root\nlet i = tile(z, [d0: 4])\n') == "a"
    version = "specialize z when size(z.d0) < 4 { tile(z, [d0: 1]) } else { tile(z, [d0: 2]) }\n"
    text = CHAIN.replace("BODY", chain).replace("RESULT", f"{TENSOR} symbols [M]").replace("12x", "[M]x")
    done = run(f'{MM}let z = match one "z" in root\n{version}print(epilogue(mm))', text)
    assert str(done.trace.output[0]).startswith("a = ")


def test_versions_are_scheduled_one_by_one() -> None:
    done = run(MM + 'specialize mm when size(mm.m) < 4 { tile(mm, [m: 2]) } else { emit_remark(mm, "alone") }')
    assert [n for n in done.coverage.untouched if n.startswith("mm")] == ["mm"]
    both = MM + "specialize mm when size(mm.m) < 4 { tile(mm, [m: 2]) } else { require not mm.scheduled }\n"
    assert run(both + "require mm.scheduled")


def test_coverage_reaches_into_imported_sequences_and_versions(tmp_path: Path) -> None:
    (tmp_path / "g.tcps").write_text(
        "language 1\nsequence f(mm: op<contract>) {\n  if threads > 64 {\n    tile(mm, [m: 4])\n    dce(mm)\n  }\n}\n"
    )
    done = run(
        MM + "g.f(mm)\nspecialize [mm, epilogue(mm)] when size(mm.m) < 4 { let i = tile(mm, [m: 2]) } else { }",
        head='import "g.tcps"\nsequence unused(x: op) { dce(x) }\n',
        beside=tmp_path,
    )
    assert {"bias", "s", "r", "s~when0"} <= set(done.coverage.untouched)
    shown = [(Path(where.file).name, where.line) for where in done.coverage.never_ran]
    assert shown == [("g.tcps", 4), ("g.tcps", 5), ("<schedule>", 3)]


SCALED = """\
func @scaled(%x: tensor<[N]x[K]xf32>, %s: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N, K] {
  %e = tcp.exp(%x) : tensor<[N]x[K]xf32>
  %mm = tcp.generic(%e, %s) {iterators = [["i", "parallel"], ["k", "reduction"]], maps = [[i, k], [i], [i]],
      combiner = "tcp.add"} ({ (%a: f32, %b: f32, %acc: f32):
    %p = tcp.mul(%a, %b) : f32
    %sum = tcp.add(%acc, %p) : f32
    tcp.yield(%sum)
  }) : tensor<[N]xf32>
  tcp.return(%mm)
}
"""


def test_inputs_of_a_generic_are_numbered() -> None:
    body = "let i = tile(mm, [i: 4], tail: pad)\nlet k = tile(mm, [k: 4])\npack(mm.in0, [k, i], at: k)"
    check(SCALED, f'{MM}require producer(mm.in0).name == "e" "wrong"\n{body}\npack(mm.in1, [i], at: i)', exact=False)


def test_what_was_never_there_does_not_exist() -> None:
    asked = 'require not exists(mm.start) and not exists(mm.init) "wrong"\nlet k = tile(mm, [k: 2])\n'
    run(f'{MM}{asked}require exists(mm.start) and exists(mm.init) "wrong"')
    assert failure(f"{MM}let c = producer(mm.init)").diagnostic.message == "%mm (tcp.matmul) has no `init`"


def test_an_operand_or_a_dim_exists_or_not() -> None:
    asked = "exists(mm.lhs) and exists(mm.m) and exists(mm.out) and not exists(mm.operand) and not exists(mm.in0)"
    run(f'{MM}require {asked} and not exists(mm.d0) "wrong"\ntile(mm, [m: 2])')


def test_a_parent_stands_where_a_loop_does() -> None:
    """What it is, is known when the schedule runs."""
    text = 'let r = match one "r" in root\nlet i = tile(r, [d0: 4, d1: 4], tail: pad)\n'.replace("let i", "let i, j")
    run(text + "require parent(r) == j and parent(parent(r)) == i\nvectorize(parent(r))")
    found = failure('let r = match one "r" in root\nvectorize(parent(r))').diagnostic
    assert (found.message, found.required, found.found) == (
        "@relu is a function",
        "a loop or an operation",
        "func",
    )


def test_users_are_seen_through_loops_and_padding() -> None:
    body = """tile(mm, [m: 4, k: 3])
    let i, j = tile(match one max in root, [d0: 4, d1: 8], tail: pad)
    peel(i)
    for x in users(mm) { emit_remark(x, "reads it") }
    for x in users(match one "s" in root) { emit_remark(x, "reads the sum") }"""
    said = [line.text.partition(": %")[2] for line in run(MM + body).trace.output]
    assert said == ["s: reads it", "r: reads the sum", "r~tail: reads the sum"]
    run(f'{MM}{body}\nrequire len(users(match one "s" in root)) == 1')


def test_users_are_seen_through_loops_that_write_into_a_value_or_add_to_it() -> None:
    body = """let k = tile(mm, [k: 3])
    for x in users(mm.start) { emit_remark(x, "adds to the start") }
    let i = tile(match one "s" in root, [d0: 4], tail: peel)
    for x in users(match one "s" in root) { emit_remark(x, "reads the sum") }
    for x in users((match one "s" in root).copy("main")) { emit_remark(x, "reads the sum of the main copy") }"""
    said = [line.text.partition(": %")[2] for line in run(MM + body).trace.output]
    assert said == ["mm: adds to the start", "r: reads the sum", "r: reads the sum of the main copy"]


def test_users_of_a_copy_are_copies_too() -> None:
    body = """let s = match one "s" in root
    let i = tile(match one max in root, [d0: 4])
    fuse(s, into: i)
    peel(i)
    for x in users(s.copy("main")) { emit_remark(x, "of the main copy") }
    for x in users(mm) { emit_remark(x.copy("main"), "of what has no copies") }"""
    said = [line.text.partition(": %")[2] for line in run(MM + body).trace.output]
    assert said == ["r: of the main copy", "s: of what has no copies"]


def test_versions_of_a_loop_by_its_own_iteration_are_refused() -> None:
    found = failure(MM + "let i = tile(mm, [m: 4])\nspecialize i when size(mm.m) < 4 { } else { }").diagnostic
    assert found.message == "the condition is about an iteration of a loop, and the versions are made outside that loop"
    assert found.found == "the loop variable %mm/m1"
    run(MM + "let i = tile(mm, [m: 4])\nspecialize mm when size(mm.m) < 4 { } else { tile(mm, [n: 8]) }")


TWO_PRODUCTS = """\
func @f(%x: tensor<8x16xf32>, %w: tensor<16x32xf32>, %v: tensor<32x24xf32>) -> tensor<8x24xf32> {
  %fc1 = tcp.matmul(%x, %w) : tensor<8x32xf32>
  %fc2 = tcp.matmul(%fc1, %v) : tensor<8x24xf32>
  tcp.return(%fc2)
}
"""
BOTH = 'let one = match one "fc1" in root\nlet fc2 = match one "fc2" in root\n'


@pytest.mark.parametrize(
    "body",
    [
        "let d = fc2.k\ntile(one, [d: 3])",
        "let d = fc2.k\nlet i = tile(one, [m: 2])\npack(one.lhs, [m, d % 4], at: i)",
        "let d = fc2.k\ninterchange(one, [d, m, n])",
        "tile(one, [n: 4])\nlet i = one.loop((fc2.k))",
        "for d in fc2.dims(\"reduction\") { split_reduction(one, d, parts: 2) }",
    ],
)  # fmt: skip
def test_a_dim_of_another_operation_is_not_taken_by_its_name(body: str) -> None:
    found = failure(BOTH + body, TWO_PRODUCTS).diagnostic
    assert found.message == "`k` is a dim of %fc2, not of %fc1"
    assert (found.required, found.found) == ("a dim of %fc1: m, n, k", "%fc2.k")
    assert found.fix == "`one.m`, `one.n` or `one.k`"
    assert found.schedule is not None
    assert found.payload is not None
    assert found.payload.line == 2


def test_a_dim_of_another_operation_is_refused_in_a_sequence_with_its_calls() -> None:
    rows = "sequence rows(mm: op, d: dim) { tile(mm, [d: 2]) }\n"
    with pytest.raises(ScheduleError) as caught:
        run(BOTH + "rows(one, fc2.m)", TWO_PRODUCTS, rows)
    assert caught.value.diagnostic.fix == "`mm.m`, `mm.n` or `mm.k`"
    assert [name for name, _ in caught.value.diagnostic.calls] == ["rows"]


@pytest.mark.parametrize(
    "body",
    [
        "let d = one.k\ngeneralize(one)\ntile(one, [d: 4])",
        'let d = one.m\nlet i = tile(one, [m: 3])\npeel(i)\ntile(one.copy("tail"), [d: 1])\nlet j = one.loop(d)',
        'let i = tile(one, [m: 3])\npeel(i)\nlet d = one.copy("main").k\ntile(one, [d: 4])',
        "for x in [one, fc2] { rows(x, k) }",
    ],
)
def test_a_dim_follows_its_operation(body: str) -> None:
    run(BOTH + body, TWO_PRODUCTS, "sequence rows(mm: op, d: dim) { tile(mm, [d: 2]) }\n")


def test_dims_of_merged_operations_are_dims_of_both() -> None:
    payload = TWO_PRODUCTS.replace("tcp.matmul(%fc1, %v) : tensor<8x24xf32>", "tcp.matmul(%x, %w) : tensor<8x32xf32>")
    payload = payload.replace("tensor<8x24xf32> {", "tensor<8x32xf32> {").replace(
        "  tcp.return(%fc2)", "  %s = tcp.add(%fc1, %fc2) : tensor<8x32xf32>\n  tcp.return(%s)"
    )
    run(BOTH + "let d = fc2.k\ncse(root)\ntile(one, [d: 4])", payload)


def test_the_place_of_an_operation_that_nobody_wrote_is_what_it_stands_in() -> None:
    module = tcpx.parse(TWO_PRODUCTS)
    for op in module.main.body.ops:
        op.location = None
    schedule = tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n{BOTH}let d = fc2.k\ntile(one, [d: 3])\n}}")
    with pytest.raises(tcpx.ScheduleError) as caught:
        tcpx.apply_schedule(module, schedule)
    assert caught.value.diagnostic.payload == module.main.location is not None
