"""The C itself: no warnings from gcc and clang; what cannot be printed is an error that says why."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tcpx
from tcpx.emit_c.kernel import KernelRequest, build_kernel, build_many
from tcpx.emit_c.printer.file import PrintRequest, print_file
from tcpx.payload.diagnostics import TcpxError
from tcpx.target import Target, load_target
from tests.emit_c.payloads import (
    AXPY,
    BRANCHES,
    COPY,
    GENERIC,
    MATMUL,
    MEMORY,
    MEMORY_CONSTANTS,
    lanes_of,
    module,
)
from tests.emit_c.test_variables import Program
from tests.guard_pages import run_guarded
from tests.optional_tools import compilers

WARNINGS = ("-Wall", "-Wextra", "-Werror")


def source_of(texts: list[str], target: Target, threads: int) -> str:
    made = [module(text, lanes_of(target), MEMORY_CONSTANTS) for text in texts]
    return print_file([PrintRequest(m.main, m.constants, m.main.name) for m in made], target, threads).source


def compile_strictly(source: str, compiler: str, target: Target, tmp_path: Path) -> None:
    (tmp_path / "kernel.c").write_text(source)
    command = [compiler, *target.flags, *WARNINGS, "-fopenmp", "-c", "-o", "kernel.o", "kernel.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("compiler", compilers())
@pytest.mark.parametrize("name", ["generic", "x86_avx2", "x86_avx512"])
def test_no_warnings(name: str, compiler: str, tmp_path: Path) -> None:
    target = load_target(name)
    texts = [COPY, AXPY, MATMUL, BRANCHES, *([MEMORY] if name == "generic" else [])]
    compile_strictly(source_of(texts, target, 2), compiler, target, tmp_path)


@pytest.mark.parametrize("compiler", compilers())
def test_no_warnings_about_random_programs(compiler: str, tmp_path: Path) -> None:
    texts = [Program(1000 + k).text(f"p{k}") for k in range(40)]
    compile_strictly(source_of(texts, GENERIC, 1), compiler, GENERIC, tmp_path)


def test_only_what_is_used_is_defined() -> None:
    """Sizes that peeling named are gone where the loop they bound is."""
    text = (
        "func @f(%x: tensor<[N]x3xf32>, %y: tensor<3x8xf32>) -> tensor<[N]x8xf32> symbols [N] {\n"
        "  %r = tcp.matmul(%x, %y) : tensor<[N]x8xf32>\n  tcp.return(%r)\n}\n"
    )
    for name in ("x86_avx512", "x86_avx2", "generic"):
        source = tcpx.emit(tcpx.parse(text), target=name).c_source
        helpers = set(re.findall(r"\btcpx_size_\w+", source))
        assert helpers
        assert all(source.count(f"{helper}(") > 1 for helper in helpers)


ROWS = """
func @f(%x: buffer<[N]x8xf32, strides [8, 1], space argument>, %r: buffer<[N]x8xf32, strides [8, 1], space result>)
    symbols [N] {results = 1} {
  gml_st.for %i in 0 to N {
    %v = vector.read(%x) tile [OFFSET, 3] [1, 1] drop [0, 1] {row = "load_f32"} : f32
    vector.write(%v, %r) tile [%i, 0] [1, 1] drop [0, 1] {row = "store_f32"}
  }
  tcp.return
}
"""


@pytest.mark.parametrize(
    ("offset", "pointer"),
    [
        ("%i + 2", "x + i * 8 + 19"),  # at a fixed distance from the row `i`
        ("%i - 1", "x + (i - 1) * 8 + 3"),  # no pointer before the array, not even on the way
        ("7 - %i", "x + (7 - i) * 8 + 3"),
        ("N - %i", "x + (N - i) * 8 + 3"),
        ("5", "x + 43"),
    ],
)
def test_rows_at_a_fixed_distance(offset: str, pointer: str) -> None:
    assert f"*({pointer})" in source_of([ROWS.replace("OFFSET", offset)], GENERIC, 1)


@pytest.mark.parametrize(
    ("offset", "pointer"),
    [
        ("%i + floordiv(%k, 4)", "x + i * 8 + k_index * 8 + 3"),  # `x + i * 8` does not change in the loop over k
        ("floordiv(%k, 4)", "x + k_index * 8 + 3"),
        ("%i + %k", "x + (i + k) * 8 + 3"),
        ("%k + floordiv(%k, 4)", "x + (k + k_index) * 8 + 3"),
        ("%i + floordiv(%i, 4)", "x + (i + i_index) * 8 + 3"),
    ],
)
def test_what_changes_in_a_loop_is_added_last(offset: str, pointer: str) -> None:
    body = ROWS[ROWS.index("    %v") : ROWS.index("  }\n")]
    inner = f"    gml_st.for %k in 0 to 9 {{\n{body.replace('OFFSET', offset)}    }}\n"
    assert f"*({pointer})" in source_of([ROWS.replace(body, inner)], GENERIC, 1)


def test_several_kernels_in_one_library() -> None:
    first, second, again = build_many(
        [KernelRequest(module(COPY)), KernelRequest(module(AXPY), "copy_workspace"), KernelRequest(module(COPY))],
        GENERIC,
    )
    assert first.library_path == second.library_path == again.library_path
    names = [k.signature.c_name for k in (first, second, again)]
    assert names == ["copy", "copy_workspace_2", "copy_2"]
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(np.asarray(again(x)), x)
    assert build_many([], GENERIC) == []


def test_a_read_outside_of_an_array_is_seen() -> None:
    text = COPY.replace("tile [%i]", "tile [%i + 1]", 1)
    kernel = build_kernel(module(text), GENERIC)
    x = np.zeros(1024, dtype=np.float32)
    with pytest.raises(AssertionError, match="SIGSEGV"):
        run_guarded(kernel, x)


def test_a_write_outside_of_an_array_is_seen() -> None:
    text = COPY.replace("vector.write(%v, %r) tile [%i]", "vector.write(%v, %r) tile [%i - 1]")
    kernel = build_kernel(module(text), GENERIC)
    with pytest.raises(AssertionError, match="all lie at the front"):
        run_guarded(kernel, np.zeros(8, dtype=np.float32))


HEAD = "func @f(%x: buffer<[N]xf32, strides [1], space argument>, %r: buffer<[N]xf32, strides [1], space result>)"
READ = "%v = vector.read(%x) tile [0] [1] drop [0]"
REFUSED: dict[str, tuple[str, str]] = {
    "no row": (
        f"{READ} : f32 vector.write(%v, %r) tile [0] [1] drop [0]",
        "%v (vector.read): an operation without an instruction cannot be printed as C",
    ),
    "unknown row": (
        f'{READ} {{row = "laod_f32"}} : f32 vector.write(%v, %r) tile [0] [1] drop [0] {{row = "store_f32"}}',
        "fix: did you mean 'load_f32'?",
    ),
    "no mask": (
        '%v = vector.read(%x) tile [0] [min(4, N)] {row = "load_f32x4"} : vector<4xf32> '
        'vector.write(%v, %r) tile [0] [4] {row = "store_f32x4"}',
        "an access that may be shorter than the vector needs a masked row",
    ),
    "not planned": (
        "%b = buffer.alloc : buffer<4xf32, strides [1], space arena> "
        f'{READ} {{row = "load_f32"}} : f32 vector.write(%v, %b) tile [0] [1] drop [0] {{row = "store_f32"}}',
        "%b (buffer.alloc): a buffer of the workspace has no place in it",
    ),
    "large stack": (
        "%b = buffer.alloc : buffer<[N]xf32, strides [1], space stack> "
        f'{READ} {{row = "load_f32"}} : f32 vector.write(%v, %b) tile [0] [1] drop [0] {{row = "store_f32"}}',
        "%b (buffer.alloc): a buffer on the stack has a static shape",
    ),
    "2-D vector": (
        '%v = tcp.const {value = 0.0, row = "literal"} : vector<2x2xf32> '
        "%b = buffer.alloc : buffer<2x2xf32, strides [2, 1], space stack> "
        'vector.write(%v, %b) tile [0, 0] [2, 2] {row = "store_f32x4"}',
        "only scalars and 1-D vectors can be held in registers",
    ),
    "no such vector": (
        '%v = tcp.const {value = 0.0, row = "zero_f32x4"} : vector<3xf32> '
        'vector.write(%v, %r) tile [0] [3] {row = "store_f32x4"}',
        "target generic has no vector type f32x3",
    ),
}


@pytest.mark.parametrize(
    ("x", "y"),
    [("[100, 1]", "[8, 1]"), ("[1, S]", "[8, 1]"), ("[S, 1]", "[S, 1]"), ("[N, 1]", "[8, 1]"), ("[2*S, 1]", "[8, 1]")],
)
def test_strides_that_no_caller_gives(x: str, y: str) -> None:
    text = (
        f"func @f(%x: buffer<[N]x8xf32, strides {x}, space argument>, "
        f"%y: buffer<[N]x8xf32, strides {y}, space argument>) symbols [N, S] {{results = 0}} {{ tcp.return }}"
    )
    with pytest.raises(TcpxError) as caught:
        source_of([text], GENERIC, 1)
    held = caught.value.diagnostic
    assert held.message == "%f (func): the strides of %x are not those of a caller's array"
    assert held.required == "row-major strides, or a symbol of its own for each dim but the innermost, and 1 for that"
    assert held.found == f"buffer<[N]x8xf32, strides {x}, space argument>"


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_printed(case: str) -> None:
    body, message = REFUSED[case]
    with pytest.raises(TcpxError) as caught:
        source_of([f"{HEAD} symbols [N: 1..] {{results = 1}} {{ {body} tcp.return }}"], GENERIC, 1)
    assert message in str(caught.value)


def test_a_loop_of_at_most_one_iteration_is_a_branch() -> None:
    payload = """func @f(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N: 0..7] {
  %y = tcp.exp(%x) : tensor<[N]xf32>
  tcp.return(%y)
}
"""
    schedule = 'language 1\nschedule s(root: func) {\n  tile(match one "y" in root, [d0: 8])\n}'
    kernel = tcpx.compile(tcpx.parse(payload), tcpx.parse_schedule(schedule), target="generic")
    assert "/* y/d01, at most once (<schedule>:3) */\n  if (0 < N) {" in kernel.c_source
    for n in (0, 1, 7):
        assert np.array_equal(np.asarray(kernel(np.zeros(n, np.float32))), np.ones(n, np.float32))
