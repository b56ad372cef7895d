"""Schedules in Python: the same tree and the same C as the text they print, for everything the language has."""

from __future__ import annotations

import inspect
import linecache
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tcpx
from tcpx.transform.declaration import Parameter, ParameterKind, Transform, transforms
from tcpx.transform.language.embedded import Body
from tcpx.transform.language.parser import parse_schedule
from tcpx.transform.reference import example_of
from tests.transform.language.embedded.replay import replayed

ROOT = Path(__file__).parents[4]
EXAMPLES = [t for t in transforms().values() if t.__module__.startswith("tcpx.transform.ops.")]
SHIPPED = sorted((ROOT / "schedules").rglob("*.tcps"))
MLP = """func @mlp(%x: tensor<[M]x64xf32>, %w: tensor<64x40xf32>, %b: tensor<40xf32>) -> tensor<[M]x40xf32>
    symbols [M: 0..512] {
  %y = tcp.matmul(%x, %w) : tensor<[M]x40xf32>
  %bias = tcp.broadcast(%b) {dims = [1]} : tensor<[M]x40xf32>
  %z = tcp.add(%y, %bias) : tensor<[M]x40xf32>
  %p = tcp.softmax(%z) {dim = 1} : tensor<[M]x40xf32>
  tcp.return(%p)
}
"""


def parsed(file: tcpx.ScheduleFile) -> object:
    return parse_schedule(str(file), file.tree.path)


def gemm() -> tcpx.ScheduleFile:
    """Some of schedules/lib/gemm.tcps, as a user writes it."""
    file = tcpx.ScheduleFile("mlp.tcps")
    movement = file.imports("lib/movement.tcps")
    with file.sequence("packed_gemm", results=["loop", "loop"], doc="Blocked and packed.") as s:
        mm = s.param("op<contract>")
        last = s.param("op", mm)
        nv = s.knob("int", s.min(4, s.target.vector_registers // 8), s.range(1, 6), doc="vectors per row")
        mr = s.knob("int", s.min(6, (s.target.vector_registers - nv - 1) // nv), s.range(1, 14))
        kc = s.knob("int", 512, s.pow2(64, 1024))
        nr = nv * s.lanes(s.dtype(mm.acc))
        mb = s.max(mr, s.align_up(s.ceildiv(s.size(mm.m), s.threads), mr))
        s.require(mr * nv + nv + 1 <= s.target.vector_registers, "the register tile does not fit")
        pc = s.tile(mm, {"k": kc})
        ic = s.tile(mm, {"m": mb}, parallel=True)
        jr, ir = s.tile(mm, {"n": nr, "m": mr}, tail="pad")
        s.pack(mm.rhs, ["k", "n"], at=pc, parallel=True)
        s.pack(mm.lhs, ["m", s.dim("k").padded_to(16)], at=ic)
        s.fuse(mm.start, into=ir)
        with s.if_(last != mm):
            s.fuse(last, into=ir)
        kk = s.tile(mm, {"k": 1})
        s.vectorize(ir)
        s.hoist_accumulator(mm, out_of=kk)
        s.prefetch(mm.out, at=ir, for_="write")
        s.return_(ic, jr)
    with file.schedule("mlp") as s:
        root = s.param("func")
        for mm in s.match_some("contract", root):
            last = s.epilogue(mm)
            with s.specialize_when([mm, last], s.size(mm.m) < 8):
                s.packed_gemm(mm)
            with s.else_():
                s.packed_gemm(mm, last)
        for x in s.match_any("transpose", root):
            movement.transposed(x)
    return file


def test_a_schedule_prints_as_the_text_of_the_same_tree() -> None:
    file = gemm()
    assert parsed(file) == file.tree
    text = str(file)
    assert "  let jr, ir = tile(mm, [n: nr, m: mr], tail: pad)\n" in text
    assert "  prefetch(mm.out, at: ir, for: write)\n" in text
    assert "  pack(mm.lhs, [m, k pad 16], at: ic)\n" in text
    assert "  if last != mm { fuse(last, into: ir) }\n" in text
    assert "    movement.transposed(x)" in text or "{ movement.transposed(x) }" in text


def test_the_c_is_byte_identical() -> None:
    file, module = gemm(), tcpx.parse(MLP)
    ours = tcpx.emit(module, file, target="generic")
    theirs = tcpx.emit(module, tcpx.parse_schedule(str(file), "mlp.tcps"), target="generic")
    assert ours.c_source == theirs.c_source
    assert "(mlp.tcps:" in ours.c_source


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.name)
def test_every_shipped_schedule_can_be_recorded(path: Path) -> None:
    tree = parse_schedule(path.read_text(encoding="utf-8"), str(path))
    file = replayed(tree, [path.parent])
    assert file.tree == tree
    assert parsed(file) == tree


def the_same_c(text: str, payload: str, target: str) -> None:
    """The schedule and its twin give the same text and the same C, or the same refusal of the payload."""
    tree = parse_schedule(text, "s.tcps")
    file = replayed(tree)
    assert file.tree == tree
    ours, theirs = (
        c_or_refusal(payload, schedule, target) for schedule in (file, tcpx.parse_schedule(str(file), "s.tcps"))
    )
    assert ours == theirs


def c_or_refusal(payload: str, schedule: tcpx.ScheduleFile | tcpx.Schedule, target: str) -> str:
    module = tcpx.parse(payload)
    try:
        return tcpx.emit(module, schedule, target=target).c_source
    except tcpx.TcpxError as error:
        return error.diagnostic.message


@pytest.mark.parametrize("path", [p for p in SHIPPED if p.parent.name == "schedules"], ids=lambda p: p.name)
@pytest.mark.parametrize("target", ["generic", "x86_avx512"])
def test_a_recorded_shipped_schedule_gives_the_same_c(path: Path, target: str) -> None:
    the_same_c(path.read_text(encoding="utf-8"), MLP, target)


@pytest.mark.parametrize("transform", EXAMPLES, ids=lambda t: t.name)
def test_a_recorded_transform_gives_the_same_c(transform: type[Transform]) -> None:
    """On the example of its page."""
    example = example_of(transform)
    assert example is not None
    body = f"{example.bindings()}\n{example.statement}"
    the_same_c(f"language 2\nschedule s(root: func) {{\n{body}\n}}", example.before, "x86_avx512")


EVERYTHING = """language 2

/// Rows of a register tile.
function rows(nv: int, regs: int = target.vector_registers) -> int = (regs - nv - 1) / nv if nv > 0 else 1

/// A ReLU of a sum.
matcher relu_of(r: op<max>) -> (op<add>, op<contract>) {
  let a = producer(r.lhs)
  let mm = producer(a.lhs)
  require len(users(mm)) == 1 "the product has another reader"
  return a, mm
}

sequence two(mm: op, count: int = 2) -> (loop, loop) {
  knob separate b: int = 4 in [2, 4]   /// a size
  let outer, inner = tile(mm, [n: 64, d: b], tail: pad)
  for k in 1..3 { print(mm) }
  return outer, inner
}

schedule s(root: func) expects "a.tcp" {
  let mm = match one contract "fc*" in root where size(m) % 4 == 0 and (not scheduled or it.constant)
  let number = -2 + 3 * (4 - mm.count) / 2 if rank(mm) == 2 else 2 ** mm.count ** 2
  let packed, other = optional two(mm)
  let some = dims(mm.out)
  tile(mm, [without(some, [mm.n]): 1, n: 4])
  let turned = optional fold_cast(mm.lhs)
  let inside = mm.copy("main") in mm.loop(k)
  require number > rows(2) - rows(nv: 1, regs: 3) "positive"
  for r, a, x in match any relu_of "r*" in root where it.is_a(relu_of) { two(x) }
  case mm {
    matmul "fc1" where size(m) > 4 => { dce(mm) }
    contract => { cse(mm) }
    else => fail "neither"
  }
  try { vectorize(mm.loop(k)) } else { unroll(mm.loop(k), factor: 2) } else fail "no"
  tune { two(mm) } or { optional two(mm, count: 3) }
  knob depth: int = 64 in pow2(16, 256) up_to size(mm.k)
  tune recipe = "wide" if size(mm.n) > 64 else "high" { high => { dce(mm) } wide where size(mm.n) > 8 => { cse(mm) } }
  if number == 1 { dce(root) } else if target.has("avx2") or number < 5 { cse(root) } else { canonicalize(root) }
  specialize [mm] when size(mm.m) < 8 { dce(mm) } else when size(mm.m) < 16 { cse(mm) } else { canonicalize(mm) }
}
"""


def test_every_construct_can_be_recorded() -> None:
    tree = parse_schedule(EVERYTHING, "all.tcps")
    file = replayed(tree)
    assert file.tree == tree
    assert parsed(file) == tree


def argument(s: Body, kind: ParameterKind, parameter: Parameter, op: Any, loop: object) -> object:
    """Something that fits a parameter."""
    values: dict[ParameterKind, object] = {
        ParameterKind.LOOP: loop, ParameterKind.LOOPS: [loop], ParameterKind.OPS: [op], ParameterKind.DIM: "n",
        ParameterKind.VALUE: op.rhs, ParameterKind.DIMS: ["k", "n"], ParameterKind.DIM_SIZES: {"n": 8, "m": 4},
        ParameterKind.DIM_STEPS: {"n": 8, "m": 4},
        ParameterKind.LAYOUT: ["k", s.dim("n") // 4, s.dim("n") % 4], ParameterKind.INT: 3, ParameterKind.SIZE: 64,
        ParameterKind.INTS: [1, 2], ParameterKind.FLOAT: 0.5, ParameterKind.BOOL: True, ParameterKind.STRING: "a b",
        ParameterKind.NAME: "matmul", ParameterKind.DTYPE: s.f32, ParameterKind.PREDICATE: op.m == 4,
    }  # fmt: skip
    if kind is ParameterKind.ENUM:
        return parameter.type.choices[-1]
    return values.get(kind, op)


@pytest.mark.parametrize("transform", transforms().values(), ids=lambda t: t.name)
@pytest.mark.parametrize("by_name", [False, True], ids=["positional", "named"])
def test_every_transform_is_a_method_with_its_declaration(transform: type[Transform], by_name: bool) -> None:
    file = tcpx.ScheduleFile("f.tcps")
    with file.schedule("f") as s:
        root = s.param("func")
        op = s.match_one("contract", root)
        loop = op.loop("k")
        step = getattr(s, transform.name)
        assert inspect.getdoc(step) == inspect.getdoc(transform)
        names = [p.name for p in transform.parameters]
        assert [n.removesuffix("_") for n in inspect.signature(step).parameters] == [n.removesuffix("_") for n in names]
        given = {
            p.name: root if p.type.kind is ParameterKind.FUNC else argument(s, p.type.kind, p, op, loop)
            for p in transform.parameters
        }
        if by_name:
            step(**{f"{n}_" if n in ("for", "as", "in") else n: v for n, v in given.items()})
        else:
            step(*given.values())
    assert parsed(file) == file.tree
    assert f"  {transform.name}(" in str(file)


def test_an_assignment_is_a_let_and_a_taken_name_gets_a_number() -> None:
    file = tcpx.ScheduleFile("f.tcps")
    with file.schedule("f") as s:
        root = s.param("func")
        mm = s.match_one("contract", root)
        size = s.size(mm.m) * 2
        loop = s.tile(mm, {"m": size})
        loop = s.tile(mm, {"n": 4})
        (only,) = s.tile(mm, {"k": 4})
        made = [s.tile(mm, {"m": 2})]
        s.named("given").tile(mm, {"n": 2})
        s.unroll(made[0])
        s.unroll(loop)
        s.unroll(only)
    assert str(file).splitlines()[3:-1] == [
        "  let mm = match one contract in root",
        "  let size_2 = size(mm.m) * 2",
        "  let loop = tile(mm, [m: size_2])",
        "  let loop_2 = tile(mm, [n: 4])",
        "  let only = tile(mm, [k: 4])",
        "  let loop_3 = tile(mm, [m: 2])",
        "  let given = tile(mm, [n: 2])",
        "  unroll(loop_3)",
        "  unroll(loop_2)",
        "  unroll(only)",
    ]


def recorded(file: tcpx.ScheduleFile, record: Callable[[Any, Any, Any], object]) -> None:
    with file.schedule("f") as s:
        root = s.param("func")
        record(s, root, s.match_one("contract", root))


def wrong(record: Callable[[Any, Any, Any], object]) -> tcpx.Diagnostic:
    """What is said of a body that ends at its first mistake."""
    file = tcpx.ScheduleFile("f.tcps")
    with pytest.raises(tcpx.ScheduleError) as caught:
        recorded(file, record)
    return caught.value.diagnostic


def unfinished(s: Any, root: Any, mm: Any) -> None:
    with s.tune():
        s.dce(root)
    s.cse(root)


def left_early(s: Any, root: Any, mm: Any) -> None:
    for x in s.match_some("contract", root):
        s.dce(x)
        break
    s.cse(root)


@pytest.mark.parametrize(
    ("record", "message", "fix"),
    [
        (lambda s, root, mm: s.tlie(mm, {"n": 4}), "there is no transform, sequence or function `tlie`",
         "did you mean `tile`?"),
        (lambda s, root, mm: s.tile(mm, {"n": 4}, tial="pad"), "`tile` has no parameter `tial`",
         "did you mean `tail`?"),
        (lambda s, root, mm: s.tile(mm, {"n": 4}, tail="pda"), "`tail` of `tile` cannot be `pda`",
         "did you mean `pad`?"),
        (lambda s, root, mm: s.tile(mm), "`tile` needs `sizes`", None),
        (
            lambda s, root, mm: s.peel(mm),
            "`loop` of `peel` has the wrong type",
            "a loop that steps one of its dims: `x.loop(..)`",
        ),
        (lambda s, root, mm: s.tile(mm, None), "this is no value of a schedule", None),
        (lambda s, root, mm: s.tile(mm, {"n": float("nan")}), "a schedule has finite numbers only", None),
        (lambda s, root, mm: s.pack(mm.rhs, ["k pad 16"], at=mm.loop("k")), "this is no name", None),
        (lambda s, root, mm: s.require(s.size(mm.m) > 3 and s.size(mm.n) > 3),
         "a condition is decided when the schedule runs, not while Python records it",
         "write `with s.if_(..):`; join conditions by `&`, `|` and `~`; compare one pair at a time"),
        (lambda s, root, mm: s.require(s.len(s.match_some("contrct", root)) > 1),
         "there is no class `contrct` in the operation tree", "did you mean `contract`?"),
        (lambda s, root, mm: s.else_(), "`else_` continues nothing", None),
        (lambda s, root, mm: list(mm.loops("k")), "how many there are is known when the schedule runs", None),
        (lambda s, root, mm: [x for _, x in enumerate(mm.loops("k"))],
         "how many there are is known when the schedule runs", None),
        (unfinished, "`tune` lacks its last block", None),
        (left_early, "a recorded loop has no `break`", None),
    ],
)  # fmt: skip
def test_wrong_use_is_refused_at_its_line(
    record: Callable[[Any, Any, Any], object], message: str, fix: str | None
) -> None:
    found = wrong(record)
    assert (found.message, found.fix) == (message, fix)
    assert found.schedule is not None
    assert found.schedule.file == __file__
    assert found.schedule.text.strip()


def test_a_step_that_fails_shows_the_line_of_python() -> None:
    file = tcpx.ScheduleFile("f.tcps")
    with file.schedule("f") as s:
        root = s.param("func")
        mm = s.match_one("contract", root)
        s.tile(mm, {"q": 4})
    with pytest.raises(tcpx.ScheduleError) as caught:
        tcpx.apply_schedule(tcpx.parse(MLP), file)
    place = caught.value.diagnostic.schedule
    assert place is not None
    assert place.file == __file__
    assert place.text.strip() == 's.tile(mm, {"q": 4})'
    assert place.caret().splitlines()[1].endswith("^" * len('s.tile(mm, {"q": 4})'))


def without_return(file: tcpx.ScheduleFile) -> None:
    with file.sequence("f", results=["loop"]) as s:
        mm = s.param("op")
        s.tile(mm, {"m": 4})


def test_what_is_wrong_as_a_whole_is_found_where_the_body_ends() -> None:
    file = tcpx.ScheduleFile("f.tcps")
    with pytest.raises(tcpx.ScheduleError, match="does not return what it declares"):
        without_return(file)
    assert "sequence" not in str(file)


def test_a_function_is_one_expression() -> None:
    file = tcpx.ScheduleFile("f.tcps")
    with file.function("rows", result="int", doc="Rows of a tile.") as s:
        nv = s.param("int")
        regs = s.param("int", s.target.vector_registers)
        left = regs - nv - 1
        s.return_(left // nv)
    assert parsed(file) == file.tree
    assert str(file).splitlines()[1:] == [
        "/// Rows of a tile.",
        "function rows(nv: int, regs: int = target.vector_registers) -> int = (regs - nv - 1) / nv",
    ]


def a_step(s: Any, mm: Any) -> None:
    s.tile(mm, {"m": 4})


def a_block(s: Any, mm: Any) -> None:
    with s.if_(s.rank(mm) > 1):
        s.return_(1)


def two_results(s: Any, mm: Any) -> None:
    s.return_(s.rank(mm))
    s.return_(2)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (a_step, "a function only binds names and returns a value"),
        (a_block, "a function only binds names and returns a value"),
        (two_results, "a function gives one expression"),
        (lambda s, mm: s.rank(mm), "a function gives one expression"),
        (lambda s, mm: s.return_(mm), "the returned value has the wrong type"),
    ],
)
def test_what_is_no_function(record: Callable[[Any, Any], object], message: str) -> None:
    file = tcpx.ScheduleFile("f.tcps")

    def declare() -> None:
        with file.function("f", result="int") as s:
            record(s, s.param("op", name="mm"))

    with pytest.raises(tcpx.ScheduleError) as caught:
        declare()
    assert caught.value.diagnostic.message == message
    assert "function" not in str(file)


def test_an_import_that_is_not_there() -> None:
    file = tcpx.ScheduleFile("f.tcps")
    with pytest.raises(tcpx.ScheduleError) as caught:
        file.imports("lib/gem.tcps")
    assert caught.value.diagnostic.schedule is not None
    assert caught.value.diagnostic.schedule.file == __file__


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "python-schedules.md").read_text(encoding="utf-8")
    example = page.split("```python\n")[1].split("```")[0].replace("kernel = tcpx.compile", "checked = tcpx.check")
    path = tmp_path / "page.py"
    path.write_text(example.replace("(payload, file)", "(file)"), encoding="utf-8")
    namespace = runpy.run_path(str(path), {"payload": None})
    assert [d for d in namespace["checked"] if d.kind.value != "warning"] == []
    assert parsed(namespace["file"]) == namespace["file"].tree


# ---- names ---------------------------------------------------------------------------------------------------------


def test_names_are_those_that_the_source_text_assigns_to() -> None:
    file = tcpx.ScheduleFile("f.tcps")
    with file.schedule("f") as s:
        root: Any = s.param("func")
        first = s.match_one("contract", root)
        mm: Any = (
            s
            .match_one(
                "contract",
                root,
            )
        )  # fmt: skip
        count = s.size(mm.m)
        count += 1
        rows, depth = s.size(mm.n) // 2, s.size(mm.k)
        chosen: Any = s.epilogue(mm) if file else None
        s.print(taken := s.match_one("softmax", root))
        s.print(taken)
        many = [s.rank(one) for one in s.match_any("elementwise", root)]
        s.require((count > rows) & (depth > 1))
        s.print(first)
        s.print(chosen)
        s.tile(mm, {"m": 4})
        outer, inner = s.tile(mm, {"n": 8, "k": 4})
    del many, outer, inner
    assert str(file).splitlines()[3:-1] == [
        "  let first = match one contract in root",
        "  let mm = match one contract in root",
        "  let count = size(mm.m)",
        "  let count_2 = count + 1",
        "  let rows = size(mm.n) / 2",
        "  let depth = size(mm.k)",
        "  let chosen = epilogue(mm)",
        "  let taken = match one softmax in root",
        "  print(taken)",
        "  print(taken)",
        "  for one in match any elementwise in root {}",
        "  require count_2 > rows and depth > 1",
        "  print(first)",
        "  print(chosen)",
        "  tile(mm, [m: 4])",
        "  let outer, inner = tile(mm, [n: 8, k: 4])",
    ]


WITHOUT_TEXT = """
with file.schedule("f") as s:
    root = s.param("func", name="root")
    mm = s.let(s.match_one("contract", root), name="mm")
    rows = s.knob("int", 4, name="rows")
    loop = s.tile(mm, {"m": rows * 2})
    jr, ir = s.named("jr", "ir").tile(mm, {"n": 8, "k": 4})
    for x in s.each(s.match_any("softmax", root), "x"):
        s.print(x)
    s.unroll(ir)
    s.unroll(loop)
"""


def test_without_source_text_names_are_said() -> None:
    file = tcpx.ScheduleFile("f.tcps")
    exec(WITHOUT_TEXT, {"file": file})  # noqa: S102
    assert str(file).splitlines()[3:-1] == [
        "  let mm = match one contract in root",
        "  knob rows: int = 4",
        "  let loop = tile(mm, [m: rows * 2])",
        "  let jr, ir = tile(mm, [n: 8, k: 4])",
        "  for x in match any softmax in root { print(x) }",
        "  let loop_2 = unroll(ir)",
        "  let loop_3 = unroll(loop)",
    ]


@pytest.mark.parametrize(
    ("line", "message", "found", "fix"),
    [
        ("x = s.param('op')", "this parameter has no name", "no source text of this line", 'say it: `name=".."`'),
        ("x = s.let(s.threads)", "this `let` has no name", "no source text of this line", 'say it: `name=".."`'),
        (
            "x = s.match_one('contract', root)\ns.dce(root)\ns.vectorize(x.loop('k'))",
            "`match one contract in root` is used behind a later statement, and has no name",
            "made at <string>:1:1",
            'write `x = s.let(.., name="x")`',
        ),
        (
            "for x in s.match_some('contract', root):\n    s.print(x)",
            "Python has no source text here that names what a loop goes through",
            "`match some contract in root` gone through",
            'write `for x in s.each(.., "x"):`',
        ),
        ("s.each(s.match_some('contract', root))", "this loop has no variable", "none", 'write `s.each(.., "x")`'),
    ],
)
def test_without_source_text_what_needs_a_name_is_refused(line: str, message: str, found: str, fix: str) -> None:
    file = tcpx.ScheduleFile("f.tcps")

    def record() -> None:
        with file.schedule("f") as s:
            root = s.param("func")
            exec(line, {"s": s, "root": root})  # noqa: S102

    with pytest.raises(tcpx.ScheduleError) as caught:
        record()
    diagnostic = caught.value.diagnostic
    assert (diagnostic.message, diagnostic.found, diagnostic.fix) == (message, found, fix)


def test_what_is_kept_of_another_string_is_not_the_source_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.13 keeps the text of `python -c` by the name that `exec` gives its code too."""
    text = "other = s.match_one('contract', root)\n"
    monkeypatch.setitem(linecache.cache, "<string>", (len(text), None, [text], "<string>"))
    file = tcpx.ScheduleFile("f.tcps")
    with file.schedule("f") as s:
        root = s.param("func")
        exec("mm = s.match_one('contract', root)", {"s": s, "root": root})  # noqa: S102
    assert "other" not in str(file)


def test_a_text_that_changed_since_it_was_compiled_names_nothing(tmp_path: Path) -> None:
    path = tmp_path / "changed.py"
    path.write_text("root = 1", encoding="utf-8")
    code = compile("mine = s.param('func')", str(path), "exec")
    path.write_text("your = s.param('func')", encoding="utf-8")
    file = tcpx.ScheduleFile("f.tcps")

    def record() -> None:
        with file.schedule("f") as s:
            exec(code, {"s": s})  # noqa: S102

    with pytest.raises(tcpx.ScheduleError, match="this parameter has no name"):
        record()


def refusal_of(record: Callable[[Body], None]) -> tcpx.Diagnostic:
    """What is refused while Python records this."""
    file = tcpx.ScheduleFile("s.tcps")

    def body() -> None:
        with file.schedule("s") as s:
            record(s)

    with pytest.raises(tcpx.ScheduleError) as caught:
        body()
    return caught.value.diagnostic


def test_numbers_beyond_64_bits_are_refused_where_they_are_recorded() -> None:
    def record(s: Body) -> None:
        mm = s.match_one("matmul", s.param("func", name="root"))
        s.tile(mm, {"m": 2**70})

    found = refusal_of(record)
    assert (found.message, found.required) == ("the number is too large", "at most 9223372036854775807")
    assert found.found == "1180591620717411303424"
    assert found.schedule is not None
    assert found.schedule.span == 's.tile(mm, {"m": 2**70})'


@pytest.mark.parametrize("name", ["for", "a b", "3x", "a-b", "it's"])
@pytest.mark.parametrize("kind", ["schedule", "sequence", "param", "knob", "dim"])
def test_what_no_text_can_call_something_is_refused(kind: str, name: str) -> None:
    file = tcpx.ScheduleFile("s.tcps")

    def record() -> None:
        declared: dict[str, Any] = {"schedule": file.schedule, "sequence": file.sequence}
        with declared.get(kind, file.schedule)(name if kind in declared else "s") as s:
            root = s.param("func", name=name if kind == "param" else "root")
            mm = s.match_one("matmul", root)
            s.knob("int", 4, name=name if kind == "knob" else "mr")
            s.tile(mm, {name if kind == "dim" else "m": 4})

    with pytest.raises(tcpx.ScheduleError) as caught:
        record()
    found = caught.value.diagnostic
    assert (found.message, found.found) == ("this is no name", f'"{name}"')
    assert found.schedule is not None
    assert found.schedule.file == __file__


def test_a_name_that_python_alone_allows_is_changed() -> None:
    file = tcpx.ScheduleFile("s.tcps")
    with file.schedule("s") as s:
        root = s.param("func")
        mm = s.match_one("matmul", root)
        é = s.tile(mm, {"m": 4})  # noqa: PLC2401
        s.print(é)
    assert "let _é = tile(mm, [m: 4])" in str(file)
    assert parsed(file) == file.tree


def test_a_value_behind_the_end_of_its_block_is_refused_where_it_is_used() -> None:
    def record(s: Body) -> None:
        mm = s.match_one("matmul", s.param("func", name="root"))
        with s.if_(s.size(mm.n) == 32):
            i = s.tile(mm, {"m": 4})
        s.unroll(i)

    found = refusal_of(record)
    assert found.message == "`i` is used behind the end of its block"
    assert found.required == "a value that this block binds, or one round it"
    assert found.found is not None
    assert found.found.startswith(f"bound at {__file__}:")
    assert found.schedule is not None
    assert found.schedule.span == "s.unroll(i)"


def test_a_value_of_another_body_is_refused_where_it_is_used() -> None:
    first = tcpx.ScheduleFile("a.tcps")
    with first.schedule("a") as s:
        root = s.param("func")
        mm = s.match_one("matmul", root)
        s.print(mm)

    def record(t: Body) -> None:
        t.param("func", name="root")
        t.tile(mm, {"m": 4})

    found = refusal_of(record)
    assert (found.message, found.required) == ("`mm` belongs to another body", "a value of the body that is recorded")
    assert found.schedule is not None
    assert found.schedule.span == 't.tile(mm, {"m": 4})'
    with pytest.raises(tcpx.ScheduleError, match="`mm` is used behind the end of its block"):
        mm.loop("k")
    with pytest.raises(tcpx.ScheduleError, match="the body is recorded already"):
        s.require(s.threads > 1)


def test_is_a_takes_classes_and_matchers() -> None:
    file = tcpx.ScheduleFile("s.tcps")
    with file.matcher("tall") as s:
        s.require(s.size(s.param("op<contract>", name="mm").m) > 100)
    with file.schedule("s") as s:
        for mm in s.match_any("contract", s.param("func", name="root"), where=s.it.is_a("matmul")):
            s.require(mm.is_a("tall") | mm.is_a("contract"))
    assert "root where it.is_a(matmul)" in str(file)
    assert "require mm.is_a(tall) or mm.is_a(contract)" in str(file)
    assert parsed(file) == file.tree
