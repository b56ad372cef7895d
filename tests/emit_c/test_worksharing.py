"""Threads are used where there is enough for them to do."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tcpx
from tcpx.emit_c.kernel import KernelRequest, build_many
from tcpx.emit_c.printer import worksharing
from tests.emit_c.payloads import GENERIC, module

PAYLOAD = """\
func @f(%x: tensor<{shape}xf32>) -> tensor<{shape}xf32>{symbols} {{
  %y = tcp.add(%x, %x) : tensor<{shape}xf32>
  tcp.return(%y)
}}
"""
SCHEDULE = """\
language 1
schedule rows(root: func) {
  let y = match one add in root
  let i = tile(y, [d0: 1], parallel: true)
}
"""


def unbroken(source: str) -> str:
    """C without line breaks in pragmas."""
    return re.sub(r" \\\n\s*", " ", source)


def pragmas(shape: str, symbols: str, threads: int) -> list[str]:
    module = tcpx.parse(PAYLOAD.format(shape=shape, symbols=symbols))
    source = tcpx.emit(module, tcpx.parse_schedule(SCHEDULE), target="generic", threads=threads).c_source
    return [
        " ".join(found.split()) for found in re.findall(r"(?:if .*\n *)?#pragma omp parallel for.*", unbroken(source))
    ]


SHARED = "#pragma omp parallel for num_threads(2) schedule(static)"
COPIED = " firstprivate(x, out)"


@pytest.mark.parametrize(
    ("shape", "symbols", "found"),
    [
        ("16x16", "", []),
        ("1024x1024", "", [SHARED + COPIED]),
        ("[M]x64", " symbols [M]", [f"if (192 * M >= 65536) {{ {SHARED}{COPIED}"]),
        ("[M]x64", " symbols [M: 1000..]", [SHARED + COPIED]),
        ("[M]x64", " symbols [M: 0..20]", []),
    ],
)
def test_threads(shape: str, symbols: str, found: list[str]) -> None:
    assert pragmas(shape, symbols, 2) == found
    assert pragmas(shape, symbols, 1) == []


def test_a_long_loop_is_printed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worksharing, "_MOST_LINES_TWICE", 4)
    assert pragmas("[M]x64", " symbols [M]", 2) == [f"{SHARED} if (192 * M >= 65536){COPIED}"]


def test_one_thread_and_two_give_the_same() -> None:
    """No region is opened for little work: a loop for one thread stands beside that for two."""
    module = tcpx.parse(PAYLOAD.format(shape="[M]x64", symbols=" symbols [M]"))
    kernel = tcpx.compile(module, tcpx.parse_schedule(SCHEDULE), target="generic", threads=2)
    assert kernel.c_source.count("y_d01 < M") == 2
    for rows in (0, 1, 341, 342, 1009):
        x = np.arange(rows * 64, dtype=np.float32).reshape(rows, 64)
        assert np.array_equal(kernel(x), x + x)


PRODUCT = """\
func @f(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, N, K: 0..64] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""
GRIDS = {
    "a grid": ("tile(mm, [m: 5, n: 16], parallel: true)", " collapse(2)"),
    "of three": ("tile(mm, [m: 20, n: 16], parallel: true)\nlet i = tile(mm, [m: 5])", " collapse(2)"),
    "an operand packed in it": (
        "let i, j = tile(mm, [m: 5, n: 16], parallel: true)\npack(mm.lhs, [k, m], at: j)",
        " collapse(2)",
    ),
    "all loops that fill a buffer": ("tile(mm, [m: 5, k: 8])\npack(mm.lhs, [m, k], parallel: true)", " collapse(2)"),
    "an operand packed between": (
        "let i, j = tile(mm, [m: 5, n: 16], parallel: true)\npack(mm.lhs, [m, k], at: i)",
        "",
    ),
    "a loop between": (
        "let i = tile(mm, [m: 5], parallel: true)\nlet k = tile(mm, [k: 8])\nlet j = tile(mm, [n: 16], parallel: true)",
        "",
    ),
    "a range that depends": ("tile(mm, [m: 8], parallel: true)\ntile(mm, [m: 2, n: 16], parallel: true)", ""),
}


@pytest.mark.parametrize("name", GRIDS)
def test_grids(name: str) -> None:
    """Parallel loops with nothing between them share their iterations as one."""
    body, collapsed = GRIDS[name]
    schedule = tcpx.parse_schedule(
        f"language 1\nschedule s(root: func) {{\nlet mm = match one matmul in root\n{body}\n}}"
    )
    kernel = tcpx.compile(tcpx.parse(PRODUCT), schedule, target="generic", threads=2)
    assert re.findall(r"#pragma omp parallel for(.*?) num_threads\(2\)", kernel.c_source) == [collapsed]
    random = np.random.default_rng(1)
    for m, n, k in ((1, 1, 1), (0, 5, 3), (7, 33, 0), (131, 67, 29)):
        x, w = (random.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k), (k, n)))
        assert np.array_equal(np.asarray(kernel(x, w)), x @ w)


SUMS = """
func @sums(%x: buffer<8x[N]xf32, strides [N, 1], space argument>, %r: buffer<8xf32, strides [1], space result>)
    symbols [N] {results = 1} {
  %last = buffer.alloc : buffer<8xf32, strides [1], space stack>
  %again = buffer.alloc : buffer<8xf32, strides [1], space stack>
  %first = tcp.const {value = 1.5, row = "literal"} : f32
  gml_st.parallel %i in 0 to 8 {
    %sum = gml_st.for %j in 0 to N - max(0, N - 7) (%s = %first) {
      %v = vector.read(%x) tile [%i, %j + max(0, N - 7)] [1, 1] drop [0, 1] {row = "load_f32"} : f32
      %t = tcp.add(%v, %s) {row = "add_f32"} : f32
      gml_st.yield(%t, %s) tile [] []
    } : f32
    vector.write(%sum, %last) tile [%i] [1] drop [0] {row = "store_f32"}
    gml_st.for %j in 0 to N {
      vector.write(%sum, %again) tile [%i] [1] drop [0] {row = "store_f32"}
    }
  }
  gml_st.for %i in 0 to 8 {
    %v = vector.read(%last) tile [%i] [1] drop [0] {row = "load_f32"} : f32
    vector.write(%v, %r) tile [%i] [1] drop [0] {row = "store_f32"}
  }
  tcp.return
}
"""


def test_each_thread_has_copies_of_what_it_reads() -> None:
    """Arguments, sizes and numbers from outside of the loop; an array is shared by the threads."""
    (kernel,) = build_many([KernelRequest(module(SUMS))], GENERIC, threads=2)
    assert unbroken(kernel.c_source).count("firstprivate(x, N, first, size)\n") == 1
    assert re.findall(r"float (last|again)\[8\];", kernel.c_source) == ["last", "again"]
    for n in (0, 9, 20000):
        x = np.random.default_rng(n).integers(-4, 5, (8, n)).astype(np.float32)
        assert np.array_equal(np.asarray(kernel(x)), 1.5 + x[:, max(0, n - 7) :].sum(1))


@pytest.mark.parametrize("name", ["unroll", "GCC", "firstprivate", "schedule", "omp", "collapse"])
def test_words_of_pragmas_are_no_variables(name: str) -> None:
    module = tcpx.parse(f"""
func @f(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x[N]xf32>) -> (tensor<[M]x[K]xf32>, tensor<[M]x[N]xf32>)
    symbols [M, N, K] {{
  %{name} = tcp.add(%x, %x) : tensor<[M]x[K]xf32>
  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
  tcp.return(%{name}, %mm)
}}""")
    schedule = tcpx.parse_schedule("""language 1
schedule s(root: func) {
  let mm = match one matmul in root
  tile(mm, [m: 4, n: 4], parallel: true)
  let k = tile(mm, [k: 1])
  unroll(k, factor: 4, explicit: false)
}""")
    kernel = tcpx.compile(module, schedule, target="generic", threads=2)
    assert re.search(rf"collapse\(2\) num_threads\(2\) .*firstprivate\((?!.*\b{name}\b)", unbroken(kernel.c_source))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    twice, product = kernel(x, x.T.copy())
    assert np.array_equal(np.asarray(twice), 2 * x)
    assert np.array_equal(np.asarray(product), x @ x.T)


def test_lines_of_pragmas_are_short() -> None:
    """What a line of C has no room for follows on the next."""
    names = [f"an_argument_with_a_long_name_{k}" for k in range(6)]
    arguments = ", ".join(f"%{name}: tensor<[M]x64xf32>" for name in names)
    sums = [
        f"  %s{k} = tcp.add(%{f's{k - 1}' if k > 1 else names[0]}, %{names[k]}) : tensor<[M]x64xf32>"
        for k in range(1, 6)
    ]
    body = "\n".join(sums)
    module = tcpx.parse(f"func @f({arguments}) -> tensor<[M]x64xf32> symbols [M] {{\n{body}\n  tcp.return(%s5)\n}}")
    schedule = tcpx.parse_schedule("""language 1
schedule rows(root: func) {
  let y = match one "s5" in root
  let i = tile(y, [d0: 1], parallel: true)
  fuse(producer(y.lhs), into: i)
}""")
    kernel = tcpx.compile(module, schedule, target="generic", threads=2)
    lines = kernel.c_source.splitlines()
    pragma = next(k for k, line in enumerate(lines) if "omp parallel" in line)
    assert lines[pragma].endswith(" \\")
    assert all(len(line) <= 120 for line in lines[pragma : pragma + 2])
    given = [np.full((1500, 64), k, np.float32) for k in range(6)]
    assert np.array_equal(np.asarray(kernel(*given)), np.full((1500, 64), 15, np.float32))
