"""Running schedules: handles, knobs, matching, recovery, versions, and the errors of each."""

from __future__ import annotations

import traceback
from collections.abc import Mapping

import pytest

import tcpx
from tcpx.interp import ParamValue, Run, run_schedule
from tcpx.payload.diagnostics import Kind, ScheduleError
from tcpx.payload.ir import Module
from tcpx.payload.text.parser import parse
from tcpx.target import load_target
from tcpx.transform.language import program_of_text

PAYLOAD = """\
func @mlp(%x: tensor<[B]x64xf32>, %w: tensor<64x32xf32>, %b: tensor<[B]x32xf32>) -> tensor<[B]x32xf32> symbols [B: 1..4096] {
  %fc1 = tcp.matmul(%x, %w) : tensor<[B]x32xf32>
  %s = tcp.add(%fc1, %b) : tensor<[B]x32xf32>
  %r = tcp.max(%s, %b) : tensor<[B]x32xf32>
  tcp.return(%r)
}
"""  # noqa: E501
SEQUENCES = """
sequence rows(mm: op<contract>) -> loop {
  knob mr: int = 6 in 1..14
  let i = tile(mm, [m: mr])
  return i
}
"""


def run(body: str, params: Mapping[str, ParamValue] | None = None, module: Module | None = None) -> Run:
    text = f"language 1\n{SEQUENCES}schedule main(root: func) {{\n{body}\n}}"
    target = load_target("x86_avx512")
    return run_schedule(module or parse(PAYLOAD), program_of_text(text), target, params=params, threads=2)


def failure(body: str, params: Mapping[str, ParamValue] | None = None) -> ScheduleError:
    """The error of a schedule; the payload must be as it was."""
    module = parse(PAYLOAD)
    before = module.text()
    with pytest.raises(ScheduleError) as caught:
        run(body, params, module)
    assert module.text() == before
    return caught.value


MM = "let mm = match one contract in root\n"


def test_steps_are_traced() -> None:
    done = run(MM + "let last = epilogue(mm)\nlet i = rows(mm)\nfuse(last, into: i)")
    assert [e.transform for e in done.trace.entries] == ["tile", "fuse"]
    tile, fuse = done.trace.entries
    assert tile.statement == "let i = tile(mm, [m: mr])"
    assert dict(tile.bound) == {"target": "%fc1", "sizes": "[m: 6]"}
    assert [name for name, _ in tile.calls] == ["rows"]
    assert fuse.nest.splitlines()[:2] == ["func @mlp", "  for fc1/m1 in 0 to B step 6"]
    assert fuse.visited > 0
    assert fuse.journal[0] == tile.journal[1]
    assert done.coverage.text() == ""


def test_coverage() -> None:
    done = run(MM + "let i = rows(mm)\nif size(mm.k) == 3 { fuse(mm, into: i) }")
    assert done.coverage.untouched == ("s", "r")
    assert [where.text.strip() for where in done.coverage.never_ran] == ["if size(mm.k) == 3 { fuse(mm, into: i) }"]


# -- expressions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition"),
    [
        "7 / 2 == 3 and -7 / 2 == -4 and 7 % 4 == 3 and 7.0 / 2 == 3.5",
        "min(3, 1, 2) == 1 and max([1, 5]) == 5 and ceildiv(7, 2) == 4 and align_up(7, 4) == 8",
        "pow2(3, 20) == [4, 8, 16] and multiples(3, 10) == [3, 6, 9] and divisors(12) == [1, 2, 3, 4, 6, 12]",
        "contains([1, 2], 2) and not contains(1..3, 4) and len(1..3) == 3",
        "size(mm.k) == 64 and size(mm.n) == 32 and dtype(mm.lhs) == f32 and rank(mm) == 2",
        "size(mm.m) <= 4096 and size(mm.m) >= 1",
        "lanes(f32) == 16 and lanes(dtype(mm.acc)) == 16 and bytes(bf16) == 2 and threads == 2",
        "target.vector_registers == 32 and target.l1 > 1024 and target.name == \"x86_avx512\"",
        'target.has("avx512_vnni")',
        "footprint(mm.rhs) == 64 * 32 * 4",
        "instructions(mm) == 2 and instructions([mm, epilogue(mm)]) == 3 and instructions(match any exp in root) == 0",
        'mm.name == "fc1" and epilogue(mm).name == "r" and producer(epilogue(mm).lhs).name == "s"',
        "epilogue(mm) != mm and mm == mm and producer(epilogue(mm).lhs) != mm",
        'len(users(mm)) == 1 and parent(mm) == root and exists(mm) and not mm.scheduled',
        "(1 if size(mm.k) == 64 else 2) == 1",
    ],
)  # fmt: skip
def test_expressions(condition: str) -> None:
    run(f'{MM}require {condition} "wrong"')


@pytest.mark.parametrize(
    ("body", "message", "fix"),
    [
        ("if size(mm.m) < 4 { let a = 1 }", "`if` needs an answer now, but `B < 4` is known only when the kernel runs",
         "write `specialize mm when size(mm.m) < 4 { ... } else { ... }`"),
        ("let a = 1 / 0", "division by zero", None),
        ('if target.has("avx512_vni") { let a = 1 }', 'no target has a feature "avx512_vni"',
         "did you mean `avx512_vnni`?"),
        ("let a = mm.lsh", "%fc1 (tcp.matmul) has no `lsh`", "did you mean `lhs`?"),
        ("let a = mm.start", "%fc1 has no start", None),
        ("let a = producer(mm.lhs)", "%fc1.lhs has no producer", None),
        ("let a = instructions(root)", "%mlp has no instructions for a vector", None),
        ("let a = mm.loop(k)", "no loop steps `k` of %fc1", "tile it first: `tile(fc1, [k: ...])`"),
        ('let a = mm.copy("main")', '%fc1 has no copy "main"', None),
        ('require size(mm.k) == 3 "three"', "three", None),
        ("let a = tile(mm, [m: 4.5 > 1])", "a tile size is a number", None),
        ("let a = tile(mm, [q: 4])", "%fc1 has no dim `q`", None),
        ("let a = tile(root, [q: 4])", "`target` of `tile` has the wrong type",
             "an operation in it: `match one .. in root`"),
            ("let a = mm.n / 2", "arithmetic is on numbers", "the extent of a dim is a number: `size(..)`"),
    ],
)  # fmt: skip
def test_refused(body: str, message: str, fix: str | None) -> None:
    found = failure(MM + body).diagnostic
    assert (found.message, found.fix) == (message, fix)
    assert found.schedule is not None


def test_an_argument_has_no_producer_also_where_a_tile_of_it_is_read() -> None:
    for body in ("", "tile(mm, [m: 4])\n"):
        assert failure(f"{MM}{body}let a = producer(mm.lhs)").diagnostic.found == "%x, an argument of the function"


# -- matching ----------------------------------------------------------------------------------------------------


def test_cardinalities() -> None:
    run(
        'require len(match some elementwise in root) == 2 "some"\n'
        'require len(match any elementwise "q*" in root) == 0 "any"\n'
        'require (match one elementwise "s" in root).name == "s" "one"\n'
        'require (match one op in root where name == "r" and rank(it) == 2).name == "r" "where"\n'
        'require (match one add in root) == (match one "s" in root) "opcode"'
    )


def test_nothing_matched_lists_near_misses() -> None:
    found = failure('let a = match one elementwise "r" in root where rank(it) == 3').diagnostic
    assert found.message == 'nothing matches elementwise "r"'
    assert found.notes == (
        "%r (tcp.max): not `rank(it) == 3`",
        '%s (tcp.add): its name does not match "r"',
        "%fc1 (tcp.matmul): is matmul, not elementwise",
    )


def test_one_is_exact() -> None:
    found = failure("let a = match one elementwise in root").diagnostic
    assert (found.message, found.found) == ("2 operations match elementwise", "%s, %r")


def test_items_are_rechecked() -> None:
    done = run(
        MM + "let last = epilogue(mm)\nlet i = rows(mm)\n"
        'for e in match any elementwise in root where not scheduled { emit_remark(e, "seen")\n'
        "optional fuse(last, into: i) }"
    )
    assert [str(line).rpartition("%")[2] for line in done.trace.output] == ["s: seen"]


# -- handles -----------------------------------------------------------------------------------------------------


def test_handles_follow_copies() -> None:
    done = run(
        MM + 'let i = rows(mm)\npeel(i)\nlet k = tile(mm, [k: 8])\nrequire len(mm) == 2 and len(k) == 2 "two"\n'
        'let j = tile(mm.copy("main"), [n: 16])\nrequire len(j) == 1 "one"\nrequire len(mm in j) == 1 "in"'
    )
    assert [e.transform for e in done.trace.entries] == ["tile", "peel", "tile", "tile"]


def test_an_ended_handle_names_the_statement() -> None:
    dead = PAYLOAD.replace("  tcp.return", "  %d = tcp.add(%b, %b) : tensor<[B]x32xf32>\n  tcp.return")
    with pytest.raises(ScheduleError) as caught:
        run('let d = match one "d" in root\ndce(root)\nlet q = d.lhs', module=parse(dead))
    found = caught.value.diagnostic
    assert found.message == "%d is gone"
    assert found.notes == ("ended by: dce(root)",)
    run('let d = match one "d" in root\ndce(root)\nrequire not exists(d)', module=parse(dead))


def test_printing_changes_nothing() -> None:
    plain = run(MM + "let i = rows(mm)")
    printed = run(MM + "print(root)\nlet i = rows(mm)\nprint(i, as: text)")
    assert plain.module.text() == printed.module.text()
    assert "func @mlp" in str(printed.trace.output[0])


def test_a_step_without_effect_is_an_error() -> None:
    found = failure(MM + "canonicalize(root)").diagnostic
    assert found.message == "`canonicalize` changes nothing here"
    assert found.fix == "remove the statement, or write `optional canonicalize(root)`"
    run(MM + "optional canonicalize(root)")


def test_a_list_of_dims_is_a_key_of_a_map() -> None:
    all_of = "let all = dims(mm.out)\n"
    done = run(MM + all_of + "tile(mm, [all: 8, k: 4, without(all, all): 2])\nrequire len(mm.loops(n)) == 1")
    plain = run(MM + "tile(mm, [m: 8, n: 8, k: 4])")
    assert done.module.text() == plain.module.text()
    run(MM + all_of + "let outer, i = tile(mm, [all: 8, m: 4])\nrequire len(outer) == 2 and i == mm.loop(m)")
    found = failure(MM + all_of + "pad(mm, [all: 8, m: 4])").diagnostic
    assert (found.required, found.found) == ("map from dim to size", "`m` twice")
    found = failure(MM + "tile(mm, [[1, 2]: 8])").diagnostic
    assert (found.found, found.fix) == ("[1, 2]", "list the dims: `[m, n]`")
    assert failure(MM + "tile(mm, [without(dims(mm.out), dims(mm.out)): 8])").diagnostic.message == (
        "`tile` changes nothing here"
    )


def test_handles_of_an_optional_step_that_is_left_out_denote_nothing() -> None:
    run(
        MM
        + "let a = optional fold_cast(mm.lhs)\nlet i, j = optional tile(mm, [m: 4, n: 8])\nlet k = optional rows(mm)\n"
        "require exists(i) and exists(j) and exists(k) and not exists(a)"
    )
    found = failure(MM + "let a = optional fold_cast(mm.lhs)\ndce(a)").diagnostic
    assert (found.message, found.found, found.kind) == ("%a is gone", "what gives it was left out", Kind.SILENCEABLE)
    run(MM + "let a = optional fold_cast(mm.lhs)\noptional dce(a)")


# -- recovery ----------------------------------------------------------------------------------------------------


def test_try_restores_and_goes_on() -> None:
    done = run(MM + "try { let i = tile(mm, [m: 4]); print(root); vectorize(i) } else { let j = rows(mm) }")
    assert [e.statement for e in done.trace.entries] == ["let i = tile(mm, [m: mr])"]
    (line,) = done.trace.output
    assert line.rolled_back


def test_try_without_rest_is_passed_over() -> None:
    assert run(MM + "try { let i = tile(mm, [q: 4]) }").trace.entries == []


def test_every_alternative_failed() -> None:
    found = failure(MM + 'try { tile(mm, [q: 4]) } else { tile(mm, [z: 4]) } else fail "no way"').diagnostic
    assert found.message == "no way"
    assert len(found.notes) == 2


def test_errors_carry_the_call_stack() -> None:
    error = failure(MM + "let j = rows(epilogue(mm))")
    assert error.diagnostic.message == "`mm` is declared `op<contract>`"
    deeper = failure(MM + "let i = rows(mm)", {"mr": 99})
    assert [name for name, _ in deeper.diagnostic.calls] == ["rows"]
    assert deeper.diagnostic.kind is Kind.SILENCEABLE


# -- knobs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["mr", "*/fc1/*.mr", "main/fc1/rows.mr"])
def test_overrides(key: str) -> None:
    done = run(MM + "let i = rows(mm)", {key: 4})
    (knob,) = done.knobs
    assert (knob.path, knob.value, knob.default, knob.overridden) == ("main/fc1/rows.mr", 4, 6, True)
    assert "step 4" in done.trace.entries[0].nest


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"mrr": 4}, "the parameter `mrr` (= 4) matches no knob of the schedule"),
        ({"*/fc2/*.mr": 4}, "the parameter `*/fc2/*.mr` (= 4) matches no knob of the schedule"),
        ({"mr": 15}, "the value of the knob `mr` is not in its domain"),
        ({"mr": 1.5}, "`mr` is declared `int`"),
        ({"mr": None}, "`params` cannot set mr to None"),
        ({3: 4}, "`params` cannot set 3 to 4"),
    ],
)
def test_overrides_refused(params: Mapping[str, ParamValue], message: str) -> None:
    assert failure(MM + "let i = rows(mm)", params).diagnostic.message == message


def test_a_block_can_be_a_knob() -> None:
    body = MM + "tune { let i = tile(mm, [m: 2]) } or { let i = tile(mm, [m: 8]) }"
    assert "step 2" in run(body).trace.entries[0].nest
    assert "step 8" in run(body, {"tune1": 1}).trace.entries[0].nest


def test_case() -> None:
    done = run(
        MM + "case mm { elementwise => { tile(mm, [d0: 2]) }\ncontract where size(k) == 64 => { tile(mm, [m: 3]) }\n"
        'else => fail "neither" }'
    )
    assert "step 3" in done.trace.entries[0].nest
    found = failure(MM + 'case mm { elementwise => { tile(mm, [d0: 2]) }\n else => fail "neither" }').diagnostic
    assert (found.message, found.notes) == ("neither", ("elementwise: %fc1 (tcp.matmul): is matmul, not elementwise",))


# -- versions ----------------------------------------------------------------------------------------------------


def test_specialize() -> None:
    done = run(
        MM + "let last = epilogue(mm)\n"
        "specialize [mm, last] when size(mm.m) % 6 == 0 { let i = tile(mm, [m: 6])\nfuse(last, into: i) }\n"
        'else { let i = tile(mm, [n: 16]) }\nlet k = tile(mm, [k: 8])\nrequire len(mm) == 2 "both"'
    )
    assert done.trace.entries[-1].nest.splitlines() == [
        "func @mlp",
        "  if mod(B, 6) == 0",
        "    for fc1/m1 in 0 to B step 6",
        "      fc1.start = tcp.fill",
        "      for fc1/k1 in 0 to 64 step 8",
        "        fc1~when0 = tcp.matmul",
        "      s~when0 = tcp.add",
        "      r~when0 = tcp.max",
        "  else",
        "    for fc1/n1 in 0 to 32 step 16",
        "      fc1.start.1 = tcp.fill",
        "      for fc1/k2 in 0 to 64 step 8",
        "        fc1 = tcp.matmul",
        "    s = tcp.add",
        "    r = tcp.max",
    ]
    assert "tensor<6x32xf32>" in done.module.text()


def test_a_branch_sees_its_own_copies() -> None:
    body = "specialize mm when size(mm.m) < 4 { let a = match one contract in root\nlet i = tile(a, [m: 2]) }"
    done = run(MM + body + " else { require len(mm) == 1 }")
    assert len(done.trace.entries) == 2
    assert "for fc1/m1 in 0 to B step 2" in done.trace.entries[1].nest


def test_the_parent_in_a_branch_is_what_chooses_the_branch() -> None:
    body = """specialize mm when size(mm.m) < 4 {
      let c = parent(mm)
      require c != root and parent(c) == root and len(match any contract in c) == 1
      print(c)
    }
    else { tile(mm, [m: 6]); require parent(parent(mm)) != root }"""
    done = run(MM + body)
    assert done.trace.output[0].text.startswith("if B < 4\n  fc1~when0 = tcp.matmul\nelse")


def test_a_loop_round_the_versions_is_outside_each_of_them() -> None:
    body = "let i = tile(mm, [m: 6])\nspecialize mm when size(mm.m) < 4 { print(i) } else { }"
    found = failure(MM + body).diagnostic
    assert found.message == "no copy of %fc1/m1 is selected here"
    assert found.required == "a copy inside this branch of `specialize`"
    assert found.fix == "take this step outside the `specialize`"


def test_specialize_of_a_static_condition_makes_no_version() -> None:
    done = run(
        MM + "specialize mm when size(mm.k) == 64 { let i = tile(mm, [m: 6]) } else { let i = tile(mm, [m: 7]) }"
    )
    assert [e.transform for e in done.trace.entries] == ["tile"]
    assert "step 6" in done.trace.entries[0].nest


def test_a_branch_that_is_never_taken() -> None:
    found = failure(
        MM + "specialize mm when size(mm.m) < 2 * 4 { tile(mm, [m: 2]) } else when size(mm.m) < 4 { tile(mm, [m: 1]) }"
        " else { tile(mm, [m: 6]) }"
    ).diagnostic
    assert (found.message, found.found) == ("this branch is never taken", "B < 4 after B < 8")


def test_an_uncaught_error_says_its_message_once() -> None:
    """It printed the same diagnostic three times, with the frames of each."""
    text = "language 1\nschedule s(root: func) {\n  let a = match one exp in root\n  tile(a, [q: 4])\n}\n"
    payload = "func @f(%x: tensor<8xf32>) -> tensor<8xf32> {\n  %y = tcp.exp(%x) : tensor<8xf32>\n  tcp.return(%y)\n}\n"
    with pytest.raises(ScheduleError) as caught:
        tcpx.emit(tcpx.parse(payload), tcpx.parse_schedule(text), target="generic")
    printed = "".join(traceback.format_exception(caught.value))
    assert printed.count("%y has no dim `q`") == 1
