"""Where the time of a kernel goes: clocks of timed kernels, and what is said of them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tcpx
from tcpx.cli import main
from tcpx.measure.limits import Limits
from tests.emit_c.test_saved_kernels import results
from tests.emit_c.test_state import calls, given
from tests.optional_tools import compilers

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
    assert all(row.runs == 1 and row.seconds > 0 for row in found.rows)
    assert json.loads(json.dumps(found.as_json()))["rows"][0]["function"] == "f"


def test_versions_that_are_not_taken_are_not_shown() -> None:
    for rows, taken in ((16, True), (4, False)):
        found = tcpx.profile(tcpx.parse(PRODUCT), BRANCH, *arrays(rows, 4, 8), target="generic", seconds=0.0)
        assert sum(row.operations for row in found.rows if row.node == "v/layer/mm.1") == 2 * rows * 4 * 8, taken
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
    assert lines[0].startswith("@f for generic, 1 thread(s): ")
    assert "fastest of" in lines[0]
    assert lines[1].split() == ["share", "time", "runs", "GFLOP/s", "GB/s", "limit", "statement"]
    assert "the call, checks and clocks" in shown
    assert "workspace " in shown
    held = json.loads((tmp_path / "f.json").read_text(encoding="utf-8"))
    assert held["kernel"] == "f"
    assert sum(row["operations"] for row in held["rows"]) >= 2 * 5 * 3 * 4
    page = (tmp_path / "f.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 2
    assert "@f for generic, 1 thread(s)" in page
