"""stream: writes past the caches, from where a cache line begins."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.target import Target, load_target
from tests.optional_tools import require_cpu_of
from tests.transform.bufferized import check_bufferized
from tests.transform.payloads import MM, check, refusal, run

LINE = """\
func @f(%x: tensor<[N]xDTYPE>) -> tensor<[N]xDTYPE> symbols [N] {
  %y = tcp.add(%x, %x) : tensor<[N]xDTYPE>
  tcp.return(%y)
}
"""
STATE = """\
func @f(%h: inout tensor<[N]xf32>) -> %h: tensor<[N]xf32> symbols [N] {
  %y = tcp.add(%h, %h) : tensor<[N]xf32>
  tcp.return(%y)
}
"""
PRODUCT = """\
func @f(%x: tensor<[M]x8xf32>, %w: tensor<8x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M, N] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""
ALONG = """\
language 1
schedule s(root: func) {
  let y = match one add in root
  let i = tile(y, [d0: 64], tail: pad, parallel: threads > 1)
  peel(i)
  stream(y.copy("main").loop(d0))
  vectorize(y.loop(d0))
}
"""


@pytest.fixture(scope="module", params=["generic", "x86_avx2", "x86_avx512"])
def target(request: pytest.FixtureRequest) -> Target:
    found = load_target(request.param)
    require_cpu_of(found)
    return found


@pytest.mark.parametrize("dtype", ["f32", "f64", "si8"])
@pytest.mark.parametrize("threads", [1, 2])
def test_results_that_begin_anywhere_in_a_cache_line(target: Target, threads: int, dtype: str) -> None:
    module = tcpx.parse(LINE.replace("DTYPE", dtype))
    kernel = tcpx.compile(module, tcpx.parse_schedule(ALONG), target=target, threads=threads)
    streams = kernel.c_source.count("_stream_")
    assert streams > 0 if target.name != "generic" else streams == 0
    assert kernel.c_source.count("_mm_sfence()") == (threads if target.name != "generic" else 0)  # printed twice
    for n in (0, 1, 63, 64, 65, 128, 200, 1024):
        (x,) = tcpx.random_inputs(module, sizes={"N": n})
        for lead in (0, 1, 4, 15):
            room = np.zeros(n + 64, x.dtype)
            kernel(x, out=room[lead : lead + n])
            np.testing.assert_array_equal(room[lead : lead + n], np.add(x, x))
            assert not room[:lead].any()
            assert not room[lead + n :].any()


def test_state_that_is_read_in_the_loop_is_not_written_twice() -> None:
    kernel = tcpx.compile(tcpx.parse(STATE), tcpx.parse_schedule(ALONG))
    for n in (64, 200, 1000):
        room = np.arange(n + 16, dtype=np.float32)
        for lead in (0, 1, 4):
            wanted = 2 * room[lead : lead + n]
            kernel(room[lead : lead + n])
            np.testing.assert_array_equal(room[lead : lead + n], wanted)


CARRIED = """\
func @f(%u: inout tensor<[M]x[N]xf32>) -> %u: tensor<[M]x[N]xf32> symbols [M: 1.., N] {
  %y = gml_st.for %i in 1 to M step 1 (%d = %u) {
    %row = tcp.slice(%d) {offsets = [%i, 0]} : tensor<1x[N]xf32>
    %x = tcp.reshape(%row) : tensor<[N]xf32>
    %s = tcp.add(%x, %x) : tensor<[N]xf32>
    %r = tcp.reshape(%s) : tensor<1x[N]xf32>
    gml_st.yield(%r, %d) tile [%i, 0] [1, N]
  } : tensor<[M]x[N]xf32>
  tcp.return(%y)
}
"""


def test_a_row_that_a_loop_carries_is_computed_once_each_where_views_read_it() -> None:
    """No iteration overlaps another one: the row is updated where it lies, and nothing is copied."""
    done = run(
        CARRIED, 'let s = match one add in root\nlet i = tile(s, [d0: 16])\npeel(i)\nstream(s.copy("main").loop(d0))'
    )
    assert "stream = true" in done.module.text()
    assert "buffer.lead" not in done.module.text()
    assert check_bufferized(done.module).remarks == ()


def test_every_step_computes_the_same() -> None:
    tail = 'let i = tile(mm, [n: 16], tail: pad)\npeel(i)\nstream(mm.copy("main").loop(n))'
    text = check(PRODUCT, MM + tail).module.text()
    assert text.count("stream = true") == 1
    assert "buffer.lead" in text


REPEATED = """\
func @f(%z: tensor<[M]xf32>, %x: tensor<[N]xf32>) -> tensor<[M]x4x[N]xf32> symbols [M, N] {
  %y = tcp.broadcast(%z) {dims = [0]} : tensor<[M]x4x[N]xf32>
  tcp.return(%y)
}
"""


def test_what_was_computed_before_the_loop_is_copied_past_the_caches() -> None:
    """The loops that made it are outside: the place of what they wrote is not where this one writes."""
    head = 'let y = match one "y" in root\nlet b, a = tile(y, [d2: 16, d0: 4], tail: scalar)\nlicm(b)\n'
    text = check(REPEATED, f"{head}stream(b)").module.text()
    assert "buffer.lead" in text
    assert all("%y/d2" in line for line in text.splitlines() if "stream = true" in line)


def test_steps_that_are_no_cache_lines_are_not_moved() -> None:
    text = check(PRODUCT, MM + "let i = tile(mm, [n: 6])\nstream(i)").module.text()
    assert text.count("stream = true") == 1
    assert "buffer.lead" not in text


@pytest.mark.parametrize(
    ("body", "message", "required", "found", "fix"),
    [
        (
            "let k = tile(mm, [k: 4])\nstream(k)",
            "mm/k1 reads what it writes of %mm",
            "a result that is not read in the loop",
            "gml_st.materialize",
            "hoist the accumulator, or stream a loop round it that writes each element once",
        ),
        (
            "let i = tile(mm, [m: 4])\nstream(i)\nstream(i)",
            "mm/m1 writes past the caches already",
            "other writes",
            "none",
            None,
        ),
        (
            "let i = tile(mm, [m: 4])\nbufferize(root)\nstream(i)",
            "the body of mm/m1 is on buffers",
            "a loop that yields what it computes",
            "vector.read",
            "do this before `bufferize`",
        ),
    ],
)
def test_refusals(body: str, message: str, required: str, found: str, fix: str | None) -> None:
    error = refusal(PRODUCT, MM + body)
    assert (error.message, error.required, error.found, error.fix) == (message, required, found, fix)


def test_a_loop_without_whole_steps() -> None:
    """Nothing is aligned, as nothing runs."""
    text = """func @f(%x: tensor<[M]x8xf32>) -> tensor<[M]x8xf32> symbols [M: 0..] {
  %y = tcp.exp(%x) : tensor<[M]x8xf32>
  tcp.return(%y)
}
"""
    steps = 'let y = match one "y" in root\ntile(y, [d0: 1])\nlet i = tile(y, [d1: 64])\npeel(i)\nstream(i)'
    check(text, steps)
