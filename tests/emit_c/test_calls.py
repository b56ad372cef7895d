"""Kernels of several functions: what they compute, where arrays lie, and what the entry checks for those it calls."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import tcpx
from tcpx.payload.text.parser import parse
from tcpx.transform.language.loader import Program
from tests.emit_c.test_driver import fake_compiler
from tests.optional_tools import compilers

PLAIN = tcpx.parse_schedule("language 1\nschedule s(root: func) { optional canonicalize(root) }")
STATEFUL = """
func @main(%x: tensor<[M]x8xf32>, %y: tensor<8x[P]xf32>) -> (tensor<[M]x[P]xf32>, tensor<[P]xf32>, tensor<[M]x8xf32>)
    symbols [M, P] {
  %a, %s = tcp.call @block(%x, %w1) : tensor<[M]x8xf32>, tensor<8xf32>
  %b, %t = tcp.call @block(%a, %y) : tensor<[M]x[P]xf32>, tensor<[P]xf32>
  tcp.return(%b, %t, %a)
}
func @block(%x: tensor<[B]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> (tensor<[B]x[N]xf32>, tensor<[N]xf32>)
    symbols [B, K, N] {
  %mm = tcp.matmul(%x, %w) : tensor<[B]x[N]xf32>
  %p = tcp.softmax(%mm) {dim = 1} : tensor<[B]x[N]xf32>
  %q = tcp.call @twice(%p) : tensor<[B]x[N]xf32>
  %s = tcp.reduce_sum(%q) {dims = [0]} : tensor<[N]xf32>
  tcp.return(%q, %s)
}
func @twice(%x: tensor<[A]x[B]xf32>) -> tensor<[A]x[B]xf32> symbols [A, B] {
  %t = tcp.transpose(%x) {permutation = [1, 0]} : tensor<[B]x[A]xf32>
  %u = tcp.add(%t, %t) : tensor<[B]x[A]xf32>
  %e = tcp.exp(%u) : tensor<[B]x[A]xf32>
  %y = tcp.transpose(%e) {permutation = [1, 0]} : tensor<[A]x[B]xf32>
  tcp.return(%y)
}
""".replace("  %a, %s =", "  %w1 = tcp.const {value = 0.25} : tensor<8x8xf32>\n  %a, %s =")


def check(module: tcpx.Module, kernel: tcpx.Kernel, seed: int = 0, **sizes: int) -> None:
    """The kernel computes what the evaluator does."""
    arrays = tcpx.random_inputs(module, seed, sizes=sizes)
    found, wanted = kernel(*arrays), tcpx.evaluate(module, *arrays)
    pairs = zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]
    for a, b in pairs:
        np.testing.assert_allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("schedule", [PLAIN, None], ids=["plain", "default"])
def test_results_and_workspace(schedule: Program | None, threads: int) -> None:
    module = parse(STATEFUL)
    kernel = tcpx.compile(module, schedule, threads=threads)
    for m, p in ((1, 1), (5, 7), (0, 3), (3, 0), (33, 17)):
        check(module, kernel, M=m, P=p)
    assert kernel.c_source.count("\nstatic void block(") == 1
    assert kernel.c_source.count("\nstatic void twice(") == 1


def test_calls_at_the_same_time() -> None:
    module = parse(STATEFUL)
    kernel = tcpx.compile(module, PLAIN)
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(check, module, kernel, k, M=20 + k % 3, P=9) for k in range(20)]:
            done.result()


def test_sanitized() -> None:
    module = parse(STATEFUL)
    check(module, tcpx.compile(module, PLAIN, sanitize=True), M=5, P=3)


def test_nothing_that_is_read_is_written() -> None:
    module = parse("""
func @main(%x: tensor<[N]x[N]xf32>, %z: tensor<[N]x[N]xf32>) -> tensor<[N]x[N]xf32> symbols [N] {
  %e = tcp.exp(%x) : tensor<[N]x[N]xf32>
  %a = tcp.call @product(%e, %e) : tensor<[N]x[N]xf32>
  %b = tcp.call @product(%a, %e) : tensor<[N]x[N]xf32>
  %c = tcp.add(%b, %z) : tensor<[N]x[N]xf32>
  tcp.return(%c)
}
func @product(%x: tensor<[N]x[N]xf32>, %y: tensor<[N]x[N]xf32>) -> tensor<[N]x[N]xf32> symbols [N] {
  %y1 = tcp.matmul(%x, %y) : tensor<[N]x[N]xf32>
  tcp.return(%y1)
}
""")
    kernel = tcpx.compile(module, PLAIN)
    for n in (0, 1, 3, 8):
        check(module, kernel, N=n)


def test_arguments_and_constants_handed_on() -> None:
    module = parse(
        """
constants "c.npz"
func @main(%x: tensor<[N]x4xf32>) -> (tensor<[N]x4xf32>, tensor<[N]x4xf32>, tensor<4xf32>, tensor<2x2xf32>)
    symbols [N] {
  %c = tcp.const {constant = "c"} : tensor<4xf32>
  %a, %b, %d = tcp.call @same(%x, %c) : tensor<[N]x4xf32>, tensor<[N]x4xf32>, tensor<4xf32>
  %s = tcp.reshape(%d) : tensor<2x2xf32>
  tcp.return(%a, %b, %c, %s)
}
func @same(%x: tensor<[N]x4xf32>, %c: tensor<4xf32>) -> (tensor<[N]x4xf32>, tensor<[N]x4xf32>, tensor<4xf32>)
    symbols [N] {
  %k = tcp.const {constant = "k"} : tensor<4xf32>
  %d = tcp.mul(%c, %k) : tensor<4xf32>
  tcp.return(%x, %x, %d)
}
""",
        constants={"c": np.arange(4, dtype=np.float32), "k": np.arange(2, 6, dtype=np.float32)},
    )
    kernel = tcpx.compile(module, PLAIN)
    assert [slot.name for slot in kernel.signature.constants] == ["c", "k"]
    for n in (0, 1, 5):
        check(module, kernel, N=n)


LOOP = """
func @main(%x: tensor<[M]x8x6xf32>) -> tensor<[M]x8x6xf32> symbols [M] {
  %o = tcp.empty : tensor<[M]x8x6xf32>
  %y = LOOP %i in 0 to M step 3 (%d = %o) {
    %t = gml_st.materialize(%x) tile [%i, 0, 0] [min(3, M - %i), 8, 6] : tensor<[min(3, M - %i)]x8x6xf32>
    %e = tcp.call @rows(%t) : tensor<[min(3, M - %i)]x8x6xf32>
    gml_st.yield(%e, %d) tile [%i, 0, 0] [min(3, M - %i), 8, 6]
  } : tensor<[M]x8x6xf32>
  tcp.return(%y)
}
func @rows(%x: tensor<[R]x[K]x6xf32>) -> tensor<[R]x[K]x6xf32> symbols [R: 0..3, K] {
  %s = tcp.softmax(%x) {dim = 1} : tensor<[R]x[K]x6xf32>
  tcp.return(%s)
}
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("loop", ["gml_st.for", "gml_st.parallel"])
def test_in_a_loop(loop: str, threads: int) -> None:
    module = parse(LOOP.replace("LOOP", loop))
    kernel = tcpx.compile(module, PLAIN, threads=threads)
    for m in (0, 1, 3, 7, 200):
        check(module, kernel, M=m)
    assert (kernel.workspace_bytes({"M": 5}) > 0) or "stack" not in kernel.c_source


def test_rows_are_passed_where_they_are() -> None:
    """Tiles that lie in one run of memory, with dims of size 1, too; and results that do."""
    module = parse(
        """
func @main(%x: tensor<5x4x[N]xf32>, %s: tensor<[N]xf32>) -> (tensor<5x4x[N]xf32>, tensor<6x[N]xf32>) symbols [N] {
  %o = tcp.empty : tensor<5x4x[N]xf32>
  %e = tcp.empty : tensor<6x[N]xf32>
  %y, %z = gml_st.for %i in 0 to 5 step 1 (%d = %o, %h = %e) {
    %t = gml_st.materialize(%x) tile [%i, 3, 0] [1, 1, N] : tensor<1x1x[N]xf32>
    %a = tcp.call @rows(%t) : tensor<1x1x[N]xf32>
    %u = gml_st.materialize(%x) tile [%i, 0, 0] [1, 3, N] : tensor<1x3x[N]xf32>
    %b = tcp.call @rows(%u) : tensor<1x3x[N]xf32>
    %r = tcp.reshape(%a) : tensor<1x[N]xf32>
    gml_st.yield(%b, %d) tile [4 - %i, 1, 0] [1, 3, N]
    gml_st.yield(%r, %h) tile [%i + 1, 0] [1, N]
  } : tensor<5x4x[N]xf32>, tensor<6x[N]xf32>
  %k = gml_st.for %i in 0 to 5 step 1 (%d = %y) {
    %q = tcp.reshape(%s) : tensor<1x1x[N]xf32>
    gml_st.yield(%q, %d) tile [%i, 0, 0] [1, 1, N]
  } : tensor<5x4x[N]xf32>
  %m = gml_st.for %i in 0 to 1 step 1 (%d = %z) {
    %q = tcp.reshape(%s) : tensor<1x[N]xf32>
    gml_st.yield(%q, %d) tile [0, 0] [1, N]
  } : tensor<6x[N]xf32>
  tcp.return(%k, %m)
}
func @rows(%x: tensor<[A]x[B]x[N]xf32>) -> tensor<[A]x[B]x[N]xf32> symbols [A, B, N] {
  %e = tcp.exp(%x) : tensor<[A]x[B]x[N]xf32>
  tcp.return(%e)
}
"""
    )
    for threads in (1, 2):
        kernel = tcpx.compile(module, PLAIN, threads=threads)
        assert "/packed" not in kernel.c_source
        for n in (0, 1, 9):
            check(module, kernel, N=n)
    check(module, tcpx.compile(module, PLAIN, sanitize=True), N=3)
    bufferized = tcpx.parse_schedule("language 1\nschedule s(root: func) { bufferize(root) }")
    text = tcpx.apply_schedule(module, bufferized).module.text()
    assert tcpx.parse(text).text() == text
    check_again = tcpx.random_inputs(module, 0, sizes={"N": 4})
    for a, b in zip(tcpx.evaluate(module, *check_again), tcpx.evaluate(tcpx.parse(text), *check_again), strict=True):
        np.testing.assert_array_equal(a, b)


def test_columns_are_copied() -> None:
    module = parse(
        """
func @main(%x: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, N] {
  %o = tcp.empty : tensor<[M]x[N]xf32>
  %y = gml_st.parallel %i in 0 to N step 4 (%d = %o) {
    %t = gml_st.materialize(%x) tile [0, %i] [M, min(4, N - %i)] : tensor<[M]x[min(4, N - %i)]xf32>
    %e = tcp.call @rows(%t) : tensor<[M]x[min(4, N - %i)]xf32>
    gml_st.yield(%e, %d) tile [0, %i] [M, min(4, N - %i)]
  } : tensor<[M]x[N]xf32>
  tcp.return(%y)
}
func @rows(%x: tensor<[R]x[K]xf32>) -> tensor<[R]x[K]xf32> symbols [R, K] {
  %e = tcp.exp(%x) : tensor<[R]x[K]xf32>
  tcp.return(%e)
}
"""
    )
    for threads in (1, 2):
        kernel = tcpx.compile(module, PLAIN, threads=threads)
        for m, n in ((0, 3), (3, 0), (1, 1), (5, 9), (40, 30)):
            check(module, kernel, M=m, N=n)
    run = tcpx.apply_schedule(module, tcpx.parse_schedule("language 1\nschedule s(root: func) { bufferize(root) }"))
    assert run.module.main.attributes["remarks"] == (
        "copies %t: tensor<[M]x[min(4, N - %i)]xf32> for %e (tcp.call), because it is a part of another",
        "copies %e: tensor<[M]x[min(4, N - %i)]xf32> for %e (tcp.call), because it is a part of another",
    )


def test_strided_arguments_are_copied() -> None:
    module = parse(STATEFUL)
    kernel = tcpx.compile(module, PLAIN, strided=True)
    x, y = (np.random.default_rng(k).random((9, 12), np.float32) for k in range(2))
    found, wanted = kernel(x[:5, :8], y[:8, :3]), tcpx.evaluate(module, x[:5, :8], y[:8, :3])
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), rtol=1e-5)


def test_the_entry_checks_what_callees_assert() -> None:
    module = parse("""
func @main(%x: tensor<[M]xf32>) -> tensor<[2*M]xf32> symbols [M] {
  %p = tcp.pad(%x) {value = 0.0} : tensor<[2*M]xf32>
  %y = tcp.call @f(%p) : tensor<[2*M]xf32>
  tcp.return(%y)
}
func @f(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {
  tcp.assert {any = [N <= 8], message = "N is at most 8"}
  %y = tcp.exp(%x) : tensor<[N]xf32>
  tcp.return(%y)
}
""")
    kernel = tcpx.compile(module, PLAIN)
    check(module, kernel, M=4)
    out = np.zeros(10, np.float32)
    with pytest.raises(tcpx.ArgumentError) as caught:
        kernel(np.ones(5, np.float32), out=out)
    assert caught.value.diagnostic.message == "N is at most 8"
    assert not out.any()


TABLE = 'tcp.assert {any = [P + T <= 32], message = "a table of 32"}'
ROOM = 'tcp.assert {any = [P + T <= 16], message = "the cache is full"}'


@pytest.mark.parametrize(("own", "past", "length"), [(TABLE, 31, 32), (ROOM, 15, 16), ("", 15, 16)])
@pytest.mark.parametrize("demands", [(TABLE, ROOM), (ROOM, TABLE)], ids=["table first", "room first"])
def test_what_a_caller_asserts_is_known_at_its_calls(
    demands: tuple[str, str], own: str, past: int, length: int
) -> None:
    """The tighter of two assertions about a sum bounds the sizes of a call, also where literals are at the top."""
    lines = "\n  ".join(demands)
    module = parse(f"""
func @main(%past: index as [P], %x: tensor<[T]x8xf32>) -> tensor<[T]x8xf32> symbols [P: 0..31, T: 1..32] {{
  {lines}
  %h = tcp.sigmoid(%x) : tensor<[T]x8xf32>
  %y = tcp.call @layer(%past, %h) : tensor<[T]x8xf32>
  %z = tcp.call @layer(%past, %y) : tensor<[T]x8xf32>
  tcp.return(%z)
}}
func @layer(%past: index as [P], %x: tensor<[T]x8xf32>) -> tensor<[T]x8xf32>
    symbols [P: 0..{past}, T: 1..{length}] {{
  {own}
  %y = tcp.sigmoid(%x) : tensor<[T]x8xf32>
  tcp.return(%y)
}}
""")
    kernel = tcpx.compile(module)
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    found, wanted = kernel(12, x), tcpx.evaluate(module, np.array(12), x)
    np.testing.assert_allclose(np.asarray(found, np.float64), np.asarray(wanted, np.float64), rtol=1e-5)
    with pytest.raises(tcpx.ArgumentError, match="the cache is full"):
        kernel(13, x)


def test_sizes_of_callees_that_overflow() -> None:
    module = parse("""
func @main(%x: tensor<[M]xsi8>) -> tensor<[M]xsi8> symbols [M] {
  %y = tcp.call @f(%x) : tensor<[M]xsi8>
  tcp.return(%y)
}
func @f(%x: tensor<[N]xsi8>) -> tensor<[N]xsi8> symbols [N] {
  %w = tcp.broadcast(%x) {dims = [1]} : tensor<[N]x[N]xsi8>
  %t = tcp.transpose(%w) {permutation = [1, 0]} : tensor<[N]x[N]xsi8>
  %y = tcp.reduce_max(%t) {dims = [0]} : tensor<[N]xsi8>
  tcp.return(%y)
}
""")
    kernel = tcpx.compile(module, PLAIN)
    check(module, kernel, M=7)
    if kernel.signature.has_workspace:
        assert kernel.call_raw([0, 0], [1 << 40], 0) == 2


def test_one_file_for_each_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPX_CACHE_DIR", str(tmp_path))
    module = parse(STATEFUL)
    kernel = tcpx.compile(module, PLAIN, target="generic", threads=2)
    assert list(kernel.sources) == ["main_.c", "twice.c", "block.c"]
    assert "int main_workspace" not in kernel.sources["block.c"]
    assert '__attribute__((visibility("hidden"))) void block(' in kernel.sources["main_.c"]
    objects = {path: path.stat().st_mtime_ns for path in tmp_path.glob("compiled/*/*.o")}
    assert sorted(path.stem for path in objects) == ["block", "main_", "twice"]
    other = tcpx.compile(parse(STATEFUL.replace("0.25", "0.5")), PLAIN, target="generic", threads=2)
    check(parse(STATEFUL.replace("0.25", "0.5")), other, M=3, P=2)
    again = {path: path.stat().st_mtime_ns for path in tmp_path.glob("compiled/*/*.o")}
    assert len(again) == 4
    assert objects.items() <= again.items()


TILED = """language 1
schedule s(root: func) {
  let e = match one exp in root
  tile(e, [d0: SIZE])
}"""


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """What the compiler was asked for since the last look: the files, `link` among them for a library."""
    log = tmp_path / "log"
    log.touch()
    monkeypatch.setenv("TCPX_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", str(fake_compiler(tmp_path / "cc", f'echo "$*" >> {log}\nexec gcc "$@"')))

    def asked() -> list[str]:
        calls = [line for line in log.read_text().splitlines() if "--version" not in line]
        log.write_text("")
        names = [re.findall(r"/(\w+)\.o(?= )", line) for line in calls]
        return sorted("link" if len(found) > 1 else "".join(found) for found in names)

    return asked


def test_a_change_of_one_function_compiles_that_one(compiled: Callable[[], list[str]]) -> None:
    before = parse(STATEFUL)
    tcpx.compile(before, PLAIN, target="generic")
    assert compiled() == ["block", "link", "main_", "twice"]
    edited = parse(STATEFUL.replace("tcp.exp(", "tcp.tanh("))
    check(edited, tcpx.compile(edited, PLAIN, target="generic"), M=3, P=2)
    assert compiled() == ["link", "twice"]
    for size, wanted in (("4", ["link", "main_", "twice"]), ("3", ["link", "twice"])):
        tiled = tcpx.compile(before, tcpx.parse_schedule(TILED.replace("SIZE", size)), target="generic")
        assert compiled() == wanted, "the first caller is compiled where it places other memory"
        check(before, tiled, M=9, P=2)
    tcpx.compile(before, PLAIN, target="generic")
    assert compiled() == [], "as it was"


@pytest.mark.parametrize("compiler", compilers())
def test_no_warnings(compiler: str, tmp_path: Path) -> None:
    for name in ("generic", "x86_avx512"):
        kernel = tcpx.compile(parse(STATEFUL), target=name, threads=2)
        for file, text in {**kernel.sources, "whole.c": kernel.c_source}.items():
            (tmp_path / file).write_text(text)
            flags = [*tcpx.load_target(name).flags, "-Wall", "-Wextra", "-Werror", "-fopenmp", "-O0", "-c"]
            done = subprocess.run([compiler, *flags, "-o", "x.o", file], cwd=tmp_path, capture_output=True, check=False)
            assert done.returncode == 0, done.stderr.decode()


OWN = """
func @main(%x: tensor<[N]x4xf32>) -> tensor<[N]x4xf32> symbols [N] {
  MORE
  %y = tcp.call @outer(%a) : tensor<[N]x4xf32>
  tcp.return(%y)
}
func @outer(%x: tensor<[N]x4xf32>) -> tensor<[N]x4xf32> symbols [N] {
  %y = tcp.call @scaled(%x) : tensor<[N]x4xf32>
  %k = tcp.const {constant = "k"} : tensor<4xf32>
  %r = tcp.broadcast(%k) {dims = [1]} : tensor<[N]x4xf32>
  %z = tcp.add(%y, %r) : tensor<[N]x4xf32>
  tcp.return(%z)
}
func @scaled(%x: tensor<[N]x4xf32>) -> tensor<[N]x4xf32> symbols [N] {
  %k = tcp.const {constant = "k"} : tensor<4xf32>
  %s = tcp.const {constant = "s"} : tensor<4xf32>
  %r = tcp.broadcast(%k) {dims = [1]} : tensor<[N]x4xf32>
  %q = tcp.broadcast(%s) {dims = [1]} : tensor<[N]x4xf32>
  %p = tcp.mul(%r, %q) : tensor<[N]x4xf32>
  %y = tcp.mul(%x, %p) : tensor<[N]x4xf32>
  tcp.return(%y)
}
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_the_c_of_a_function_is_the_same_wherever_its_constants_lie(threads: int) -> None:
    arrays = {name: np.arange(1, 5, dtype=np.float32) * k for k, name in enumerate("kst", 1)}
    lines = [
        '%t = tcp.const {constant = "t"} : tensor<4xf32>',
        "%r = tcp.broadcast(%t) {dims = [1]} : tensor<[N]x4xf32>",
    ]
    more = "\n  ".join([*lines, "%a = tcp.add(%x, %r) : tensor<[N]x4xf32>"])
    sources: list[dict[str, str]] = []
    for text, names in ((OWN.replace("MORE", more), "kst"), (OWN.replace("  MORE\n", "").replace("%a", "%x"), "ks")):
        module = parse(text, constants={name: arrays[name] for name in names})
        kernel = tcpx.compile(module, PLAIN, threads=threads)
        assert sorted(slot.name for slot in kernel.signature.constants) == sorted(names)
        check(module, kernel, N=7)
        sources.append(kernel.sources)
    for name in ("outer.c", "scaled.c"):
        assert sources[0][name] == sources[1][name]
    check(module, tcpx.compile(module, PLAIN, threads=threads, sanitize=True), N=3)


BOTH = LOOP.replace("LOOP", "gml_st.parallel").replace("@rows(%t)", "@outer(%t)").replace(
    "  tcp.return(%y)\n",
    "  %z = tcp.call @wide(%y) : tensor<[M]x8x6xf32>\n  tcp.return(%z)\n",
).replace("@rows", "@outer").replace(
    "%s = tcp.softmax(%x) {dim = 1}", "%s = tcp.call @wide(%x)"
) + """
func @wide(%x: tensor<[A]x[B]x6xf32>) -> tensor<[A]x[B]x6xf32> symbols [A, B] {
  %e = tcp.exp(%x) : tensor<[A]x[B]x6xf32>
  %s = tcp.softmax(%e) {dim = 1} : tensor<[A]x[B]x6xf32>
  tcp.return(%s)
}
"""  # fmt: skip
SHARED = tcpx.parse_schedule("""language 1
schedule s(root: func) {
  let e = match one exp in root
  let i = tile(e, [d0: 1], parallel: true)
}""")


def test_in_a_parallel_loop_a_function_runs_on_one_thread() -> None:
    module = parse(BOTH)
    kernel = tcpx.compile(module, SHARED, threads=2)
    assert set(kernel.sources) == {"main_.c", "wide.c", "wide_1.c", "outer.c"}
    assert "#pragma omp parallel" in kernel.sources["wide.c"]
    assert "omp" not in kernel.sources["wide_1.c"]
    assert "wide_1(" in kernel.sources["outer.c"]
    for m in (0, 1, 7, 200):
        check(module, kernel, M=m)
    assert set(tcpx.compile(module, SHARED, threads=1).sources) == {"main_.c", "wide.c", "outer.c"}
    alone = parse(BOTH.replace("  %z = tcp.call @wide(%y) : tensor<[M]x8x6xf32>\n  tcp.return(%z)", "  tcp.return(%y)"))
    kernel = tcpx.compile(alone, SHARED, threads=2)
    assert "omp" not in kernel.sources["wide.c"]
    check(alone, kernel, M=50)
