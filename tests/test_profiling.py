"""Where the time of a kernel goes: clocks of timed kernels, and what is said of them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tcpx
from tcpx.call_times import MOST, CallTimes
from tcpx.cli import main
from tcpx.costs.demand import demand_of
from tcpx.emit_c.signature import Clock
from tcpx.measure.flame import flame_svg
from tcpx.measure.limits import Limits
from tcpx.measure.profile_table import text_of
from tests.emit_c.test_saved_kernels import results
from tests.emit_c.test_state import calls, given
from tests.nets.oracle import KINDS, arguments, sizes_of
from tests.nets.payloads import RandomPayload
from tests.optional_tools import CHROMIUM, compilers
from tests.report.test_page import Page
from tests.transform.ops.test_share import layers

PRODUCT = """\
func @f(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, K, N] {
  %/layer/mm.1 = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
  %e = tcp.exp(%/layer/mm.1) : tensor<[M]x[N]xf32>
  tcp.return(%e)
}
""".replace("%/layer", "%v/layer")
NOTHING = tcpx.parse_schedule("language 1\nschedule s(root: func) { optional canonicalize(root) }")
BRANCH = tcpx.parse_schedule(
    "language 1\nschedule s(root: func) {\n  let mm = match one matmul in root\n"
    "  specialize mm when size(mm.m) >= 8 {\n    tile(mm, [m: 8])\n  } else {\n    tile(mm, [k: 2])\n  }\n}\n"
)


def arrays(m: int, k: int, n: int) -> list[np.ndarray]:
    random = np.random.default_rng(1)
    return [random.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n))]


def clock(step: float = 1.0) -> Iterator[float]:
    """Every look takes so long."""
    now = 0.0
    while True:
        now += step
        yield now


def test_statements_are_counted_with_their_functions() -> None:
    kernel = tcpx.compile(tcpx.parse(calls(3)), NOTHING, target="generic", timed=True)
    plain = tcpx.compile(tcpx.parse(calls(3)), NOTHING, target="generic")
    held = tuple(given(6))
    for _ in range(4):
        found = results(kernel, held)
    assert [a.tobytes() for a in found] == [a.tobytes() for a in results(plain, held)]
    timings = kernel.timings()
    assert [(t.clock.function, t.clock.callee, t.runs) for t in timings if t.clock.callee] == [("main", "cell", 4)] * 3
    inner = [t for t in timings if t.clock.function == "cell"]
    assert len(inner) > 2
    assert {t.runs for t in inner} == {12}
    whole = sum(t.seconds for t in timings if t.clock.function == "main")
    assert 0 < sum(t.seconds for t in inner) <= whole
    kernel.clear_timings()
    assert {(t.seconds, t.runs) for t in kernel.timings()} == {(0.0, 0)}
    assert plain.timings() == ()
    plain.clear_timings()
    assert "tcpx_now" not in plain.c_source


NUMBER = """\
func @f(%x: tensor<f32>, %y: tensor<[N]x8xf32>) -> (tensor<f32>, tensor<[N]x8xf32>) symbols [N] {
  %a = tcp.neg(%x) : tensor<f32>
  %b = tcp.exp(%y) : tensor<[N]x8xf32>
  tcp.return(%a, %b)
}
"""


def test_straight_lines_have_a_clock() -> None:
    """What has no loop writes memory, too."""
    kernel = tcpx.compile(tcpx.parse(NUMBER), NOTHING, target="generic", timed=True)
    x, y = np.full((), 3, np.float32), arrays(4, 8, 1)[0]
    assert kernel(x, y)[0] == -3
    assert [(t.clock.operation, t.runs) for t in kernel.timings()] == [("", 1), ("b/d0", 1)]
    assert [clock.kind for clock in kernel.signature.clocks[:3]] == ["pair", "empty", "kernel"]
    row = tcpx.profile(tcpx.parse(NUMBER), NOTHING, x, y, target="generic", seconds=0.0).rows[0]
    assert (row.title, row.operations, row.issued, row.parts[0].node) == ("between nests", 1, 1, "a")


def clocks_of(*held: tuple[str, str, tuple[str, ...]]) -> list[Clock]:
    """Those of a kernel @f, with these statements: function, callee, functions inside."""
    kinds = [Clock("f", "", kind=kind) for kind in ("pair", "empty", "kernel")]
    return kinds + [Clock(name, f"s{k}", callee, inside=inside) for k, (name, callee, inside) in enumerate(held)]


def test_what_clocks_cost_is_subtracted_once() -> None:
    """A clock adds 20 ns to what it measures, 100 ns to what is round it; @g has two of them in each of two calls."""
    clocks = clocks_of(("f", "g", ("g",)), ("g", "", ()), ("g", "", ()), ("f", "", ()))
    times = CallTimes(clocks, threads=1)
    call, inner, own = 2 * (1000 + 2000), 2 * 1000, 500
    statements = [[call + 2 * 20 + 4 * 100, 2], [inner + 40, 2], [2 * inner + 40, 2], [own + 20, 1]]
    kernel = call + own + 300 + 20 + 7 * 100
    for _ in range(5):
        counted = np.array([[120, 1], [20, 1], [kernel, 1], *statements], np.int64)
        times.add((kernel - 20 + 3 * 100 + 5000) * 1e-9, counted)
    found = {held.clock.operation: times.figures(held.seconds).median for held in times.statements()}
    assert found == pytest.approx({"s0": call * 1e-9, "s1": inner * 1e-9, "s2": 2 * inner * 1e-9, "s3": own * 1e-9})
    rest = {name: times.figures(held).seconds for name, held in times.rest().items()}
    assert rest == pytest.approx({"f": 300e-9, "g": 0.0}, abs=1e-12)
    assert times.figures(times.call()).seconds == pytest.approx((call + own + 300 + 5000) * 1e-9)
    assert times.figures(times.call() - times.kernel()).seconds == pytest.approx(5000e-9)
    assert times.spent_on_clocks() == pytest.approx(10 * 100e-9)


def test_means_of_statements_add_up_where_bursts_slow_the_machine() -> None:
    """The statements of a call in a burst are slow at different times: their medians do not add up to that of calls."""
    times = CallTimes(clocks_of(("f", "", ()), ("f", "", ())), threads=1)
    for k in range(20):
        a, b = 1000 * (1 + 2 * (k % 3 == 0)), 1000 * (1 + 2 * (k % 3 == 1))
        times.add((a + b) * 1e-9, np.array([[0, 1], [0, 1], [a + b, 1], [a, 1], [b, 1]], np.int64))
    call, *statements = (times.figures(s) for s in (times.call(), *(held.seconds for held in times.statements())))
    assert sum(held.seconds for held in statements) == pytest.approx(call.seconds)
    assert sum(held.median for held in statements) == pytest.approx(2000e-9)
    assert (call.minimum, call.seconds, call.median) == pytest.approx((2000e-9, 2000e-9, 4000e-9))


GELU = """\
func @f(%x: tensor<[N]x8xf32>) -> tensor<[N]x8xf32> symbols [N] {
  %half = tcp.const() {value = 0.5} : f32
  %h = tcp.broadcast(%half) {dims = []} : tensor<[N]x8xf32>
  %root = tcp.const() {value = 0.70710678} : f32
  %c = tcp.broadcast(%root) {dims = []} : tensor<[N]x8xf32>
  %one = tcp.const() {value = 1.0} : f32
  %o = tcp.broadcast(%one) {dims = []} : tensor<[N]x8xf32>
  %s = tcp.mul(%x, %c) : tensor<[N]x8xf32>
  %e = tcp.erf(%s) : tensor<[N]x8xf32>
  %p = tcp.add(%e, %o) : tensor<[N]x8xf32>
  %q = tcp.mul(%x, %p) : tensor<[N]x8xf32>
  %y = tcp.mul(%q, %h) : tensor<[N]x8xf32>
  tcp.return(%y)
}
"""


def test_a_pattern_that_is_recognized_asks_for_what_its_parts_do() -> None:
    """It is written where its last operation was; what the others ask for is no padding there."""
    found = tcpx.profile(tcpx.parse(GELU), None, arrays(16, 8, 1)[0], target="x86_avx2", seconds=0.0)
    (row,) = (row for row in found.rows if row.operations)
    assert [part.node for part in row.parts] == ["y"]
    assert row.operations > 16 * 8 * 10
    assert row.padding < 0.1 * row.operations


LAYERS = """\
func @f(%x: tensor<[M]x8xf32>) -> tensor<[M]x8xf32> symbols [M] {
  %a = tcp.mul(%x, %x) : tensor<[M]x8xf32>
  %b = tcp.add(%a, %x) : tensor<[M]x8xf32>
  %c = tcp.mul(%b, %b) : tensor<[M]x8xf32>
  %d = tcp.add(%c, %b) : tensor<[M]x8xf32>
  tcp.return(%d)
}
"""
OUTLINES = """\
language 2
schedule s(root: func) {
  for op in match some add in root {
    outline(op)
  }
  optional canonicalize(root)
}
"""


@pytest.mark.parametrize("seed", [3, 21, 46])
def test_the_operations_are_those_of_the_payload(seed: int) -> None:
    """Those of all rows together, in whole numbers."""
    drawn = RandomPayload(seed).make()
    module = tcpx.parse(drawn.text(), constants=drawn.constants)
    given = arguments(module, sizes_of(module, seed, 1)[0], KINDS[0], seed)
    found = tcpx.profile(module, None, *given, target="x86_avx2", seconds=0.0)
    assert sum(row.operations for row in found.rows) == sum(
        demand_of(module, tcpx.load_target("x86_avx2"), given).operations.values()
    )
    assert json.loads(json.dumps(found.as_json()))["rows"][0]["operations"].__class__ is int


def test_equal_functions_ask_for_what_all_their_calls_do() -> None:
    """Two operations of the payload run in one function: what both ask for is no padding of the first."""
    found = tcpx.profile(
        tcpx.parse(LAYERS), tcpx.parse_schedule(OUTLINES), arrays(16, 8, 1)[0], target="generic", seconds=0.0
    )
    (row,) = (row for row in found.rows if row.function != "f")
    assert (row.runs, row.operations, row.issued, row.padding) == (2, 2 * 16 * 8, 2 * 16 * 8, 0)
    assert sum(row.operations for row in found.rows) == 4 * 16 * 8


def test_each_call_of_a_shared_function_has_its_node() -> None:
    found = tcpx.profile(
        tcpx.parse(layers(3)),
        tcpx.parse_schedule("language 2\nschedule s(root: func) { share(match any contract in root) }\n"),
        *(np.ones(shape, np.float32) for shape in ((5, 8), (8, 8), (8, 8), (8, 8))),
        target="generic",
        seconds=0.0,
    )
    calls = [(row.node, row.place, row.runs) for row in found.rows if row.callee == "f.e0"]
    assert calls == [("e0", "<text>:3", 1), ("e1", "<text>:6", 1), ("e2", "<text>:9", 1)]
    assert {row.runs for row in found.rows if row.function == "f.e0"} == {3}


LOOP = """\
func @f(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
  %y = gml_st.for %i in 0 to 8 (%d = %x) {
    %t = gml_st.materialize(%d) tile [%i, 0] [1, 64] : tensor<1x64xf32>
    %e = tcp.call(%t) {callee = "g"} : tensor<1x64xf32>
    gml_st.yield(%e, %d) tile [%i, 0] [1, 64]
  } : tensor<8x64xf32>
  tcp.return(%y)
}
func @g(%x: tensor<1x64xf32>) -> tensor<1x64xf32> {
  %y = tcp.tanh(%x) : tensor<1x64xf32>
  tcp.return(%y)
}
"""


def test_functions_that_a_loop_calls_stand_below_it() -> None:
    found = tcpx.profile(tcpx.parse(LOOP), NOTHING, np.ones((8, 64), np.float32), target="generic", seconds=0.0)
    (loop,) = (row for row in found.rows if row.inside)
    assert (loop.function, loop.callee, loop.inside, loop.runs) == ("f", "", ("g",), 1)
    assert {row.runs for row in found.rows if row.function == "g"} == {8}
    assert [rest.function for rest in found.rest] == ["f", ""]
    picture = flame_svg(found)
    boxes = [line.partition("<title>")[2].partition(":")[0] for line in picture.splitlines() if "<title>" in line]
    assert boxes[:2] == ["@f", next(row.title for row in found.rows if row.function == "f")]
    assert boxes.index("@g") > boxes.index(loop.title)


def test_many_calls_are_thinned() -> None:
    times = CallTimes(clocks_of(("f", "", ())), threads=1)
    counted = np.array([[0, 1], [0, 1], [1, 1], [1, 1]], np.int64)
    for k in range(3 * MOST):
        times.add(float(k), counted)
    assert (times.calls, len(times.walls)) == (3 * MOST, 3 * MOST // 4)
    assert times.walls[:3] == [0.0, 4.0, 8.0]


def test_a_timed_kernel_is_saved_with_its_clocks(tmp_path: Path) -> None:
    kernel = tcpx.compile(tcpx.parse(calls(2)), NOTHING, target="generic", timed=True)
    loaded = tcpx.load_kernel(kernel.save(tmp_path))
    results(loaded, tuple(given(6)))
    assert [t.clock for t in loaded.timings()] == [t.clock for t in kernel.timings()]
    assert {t.runs for t in loaded.timings() if t.clock.callee} == {1}


@pytest.mark.parametrize("compiler", compilers())
def test_the_c_has_no_warnings(compiler: str, tmp_path: Path) -> None:
    kernel = tcpx.compile(tcpx.parse(calls(2)), target="generic", threads=2, timed=True)
    for name, text in {**kernel.sources, "whole.c": kernel.c_source}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        words = [compiler, *kernel.target.flags, "-Wall", "-Wextra", "-Werror", "-fopenmp", "-c", name, "-o", "out.o"]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("target", ["generic", "x86_avx2"])
def test_operations_and_nodes(target: str) -> None:
    seconds = clock()
    found = tcpx.profile(
        tcpx.parse(PRODUCT), NOTHING, *arrays(6, 10, 16), target=target, seconds=3, clock=lambda: next(seconds)
    )
    assert (found.kernel, found.threads, found.calls) == ("f", 1, 5)
    rows = {row.node: row for row in found.rows if row.operations}
    assert set(rows) == {"v/layer/mm.1", "e"}
    assert rows["v/layer/mm.1"].operations == 2 * 6 * 10 * 16
    assert rows["e"].operations >= 6 * 16
    assert all(row.runs == 1 and row.minimum <= row.median for row in found.rows)
    assert [(part.node, part.operations) for part in rows["e"].parts] == [("e", rows["e"].operations)]
    assert json.loads(json.dumps(found.as_json()))["rows"][0]["function"] == "f"


def test_versions_that_are_not_taken_are_not_shown() -> None:
    for rows, taken in ((16, True), (4, False)):
        found = tcpx.profile(tcpx.parse(PRODUCT), BRANCH, *arrays(rows, 4, 8), target="generic", seconds=0.0)
        assert sum(row.operations for row in found.rows if row.node == "v/layer/mm.1") == 2 * rows * 4 * 8, taken
        assert sum(part.share for row in found.rows for part in row.parts) == pytest.approx(len(found.rows))
        assert all(row.runs for row in found.rows)


def test_what_indices_decide_has_a_cost() -> None:
    text = (
        "func @rows(%x: tensor<[V]x8xf32>, %ix: tensor<[N]xsi64> in 0 to V) -> tensor<[N]x8xf32> symbols [V, N] {\n"
        "  %o = tcp.gather(%x, %ix) {dim = 0} : tensor<[N]x8xf32>\n  %y = tcp.neg(%o) : tensor<[N]x8xf32>\n"
        "  tcp.return(%y)\n}\n"
    )
    indices = np.array([2, 0, 1, 1, 2])
    found = tcpx.profile(tcpx.parse(text), NOTHING, arrays(3, 8, 1)[0], indices, target="generic", seconds=0.0)
    assert sum(row.operations for row in found.rows) >= 5 * 8


def test_a_loop_that_starts_at_an_aligned_element_has_a_cost() -> None:
    """`stream` binds the number of elements before the first cache line: a size that only a call knows."""
    text = "func @f(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {\n  %y = tcp.neg(%x) : tensor<[N]xf32>\n"
    schedule = "let y = match one neg in root\n tile(y, [d0: 16])\n peel(y.loop(d0))\n stream(y.loop(d0))"
    program = tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n {schedule}\n}}\n")
    x = np.ones(100, np.float32)
    found = tcpx.profile(tcpx.parse(f"{text}  tcp.return(%y)\n}}\n"), program, x, target="generic", seconds=0.0)
    assert sum(row.operations for row in found.rows) >= 100


@pytest.fixture
def _known_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a machine that nothing is too fast for: none is measured."""
    rates = {"fma_f32": 1e15, "read_l1": 1e15, "read_l2": 1e15, "read_l3": 1e15, "read_memory": 1e15}
    limits = Limits(1, rates, {"l1": 1 << 15, "l2": 1 << 20, "l3": 1 << 24})
    monkeypatch.setattr("tcpx.cli.profile.kept_limits", lambda _: limits)


@pytest.mark.usefixtures("_known_limits")
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    payload = tmp_path / "f.tcp"
    payload.write_text(PRODUCT, encoding="utf-8")
    np.save(tmp_path / "x.npy", arrays(5, 3, 4)[0])
    words = ["--size", "N=4", "--input", f"x={tmp_path / 'x.npy'}", "--target", "generic", "--seconds", "0.01"]
    pages = ["--json", str(tmp_path / "f.json"), "--html", str(tmp_path / "f.html")]
    assert main(["profile", str(payload), *words, *pages]) == 0
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert lines[0].startswith("@f for generic, 1 thread: ")
    assert re.search(r": median \S+ [mun]?s, min \S+ [mun]?s, of \d+ calls(; the machine was busy.*)?$", lines[0])
    columns = "share median min runs operations padding recomputed added Gop/s GB/s of limit limit statement"
    assert lines[1].split() == columns.split()
    assert "the call: arguments, checks, results" in shown
    assert re.search(r"^workspace \d+ bytes?, constants 0 bytes; without .* that the clocks took$", lines[-3])
    held = json.loads((tmp_path / "f.json").read_text(encoding="utf-8"))
    assert held["kernel"] == "f"
    assert sum(row["operations"] for row in held["rows"]) >= 2 * 5 * 3 * 4
    text = (tmp_path / "f.html").read_text(encoding="utf-8")
    page = Page(text)
    assert (page.open, set(page.addresses)) == ([], {"data:,"})
    assert text.count("<svg") == 2
    assert "Profile of @f for generic, 1 thread" in text
    assert "prefers-color-scheme: dark" in text
    assert 'title="Issued beyond, where' in text


def test_a_fused_nest_opens_into_its_operations(tmp_path: Path) -> None:
    """In text, in JSON and on the page, in the same order."""
    payload = PRODUCT.replace("%v/layer/mm.1", "%mm")
    schedule = tcpx.parse_schedule(
        "language 2\nschedule s(root: func) {\n  let mm = match one matmul in root\n  let e = match one exp in root\n"
        "  let rows = tile(e, [d0: 2])\n  fuse(mm, into: rows)\n}\n"
    )
    found = tcpx.profile(tcpx.parse(payload, "f.tcp"), schedule, *arrays(6, 10, 16), target="generic", seconds=0.0)
    row = max(found.rows, key=lambda row: row.operations)
    assert [part.node for part in row.parts] == ["mm", "e"]
    assert [part.place for part in row.parts] == ["f.tcp:2", "f.tcp:3"]
    assert sum(part.operations for part in row.parts) == row.operations
    lines = list(text_of(found, ()))
    at = next(k for k, line in enumerate(lines) if line.endswith("e/d01 (f.tcp:3)"))
    assert [line.split()[-2:] for line in lines[at + 1 : at + 3]] == [["mm", "(f.tcp:2)"], ["e", "(f.tcp:3)"]]
    assert [part["node"] for part in json.loads(json.dumps(found.as_json()))["rows"][0]["parts"]] == ["mm", "e"]
    found.html(tmp_path / "f.html")
    text = (tmp_path / "f.html").read_text(encoding="utf-8")
    body = text[text.index("<tbody>") : text.index("</tbody>")]
    assert "<button>e/d01 (f.tcp:3)</button>" in body
    assert body.count('<tr class="part">') == 2
    assert body.index("mm (f.tcp:2)") < body.index("e (f.tcp:3)</td>")


@pytest.mark.slow
@CHROMIUM.needed
def test_a_browser_opens_it(tmp_path: Path) -> None:
    """A click shows the operations of a fused nest; nothing is drawn outside of its picture."""
    page = tmp_path / "f.html"
    tcpx.profile(tcpx.parse(PRODUCT), None, *arrays(6, 10, 16), target="generic", seconds=0.0).html(page)
    text = page.read_text(encoding="utf-8")
    click = "<script>for (const b of document.querySelectorAll('tbody button')) b.click();</script></body>"
    page.write_text(text.replace("</body>", click), encoding="utf-8")
    words = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run([*words, "--dump-dom", page.as_uri()], capture_output=True, text=True, check=True, timeout=60)
    assert "closed" not in done.stdout[done.stdout.index("<tbody") :].split("<script>")[0]
    assert 'aria-expanded="true"' in done.stdout
