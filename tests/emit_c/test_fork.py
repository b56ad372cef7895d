"""Child processes of one that called kernels on two threads: they return, with the numbers of the parent.

libgomp and LLVM's runtime differ here, so each compiler has its turn. Every process has a time limit: what these tests
guard against is a wait without end.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tcpx.emit_c.memory import HUGE_PAGE, aligned_block
from tests.optional_tools import CLANG_OPENMP, GCC_OPENMP, compilers

LIMIT_S = 120
PRELUDE = """
import multiprocessing, os, sys, threading, warnings
import numpy as np
import tcpx

TEXT = '''
func @product(%x: tensor<[M]x[K]xf32>, %w: tensor<[K]x640xf32>) -> tensor<[M]x640xf32> symbols [M, K] {
  %y = tcp.matmul(%x, %w) : tensor<[M]x640xf32>
  tcp.return(%y)
}
'''
kernel = tcpx.compile(tcpx.parse(TEXT), target="generic", threads=2)
assert "#pragma omp parallel" in kernel.c_source
x = np.arange(96 * 640, dtype=np.float32).reshape(96, 640) % 7
w = np.arange(640 * 640, dtype=np.float32).reshape(640, 640) % 5
expected = x @ w

def check(call):
    np.testing.assert_array_equal(call(), expected)

def warned(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check(call)
    print(os.path.basename(caught[0].filename) if caught else "silent", flush=True)

def child(work):
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0

plain = lambda: kernel(x, w)
bound = kernel.bind(x, w)
"""


@pytest.fixture(params=compilers(GCC_OPENMP, CLANG_OPENMP))
def compiler(request: pytest.FixtureRequest) -> str:
    return request.param


def run(script: str, compiler: str = "gcc") -> list[str]:
    """The words that a program printed."""
    environment = {**os.environ, "CC": compiler}
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def once(compiler: str) -> str:
    """What `warned` prints for the first call in a child."""
    return "<string>" if compiler == "gcc" else "silent"


def test_plain_and_bound_calls_in_children_and_grandchildren(compiler: str) -> None:
    script = """
check(plain)
def work():
    warned(bound)
    warned(plain)
    child(lambda: (warned(plain), warned(bound)))
child(work)
child(lambda: (warned(plain), warned(bound)))
warned(plain)
"""
    first = once(compiler)
    assert run(script, compiler) == [first, "silent", "silent", "silent", first, "silent", "silent"]


def test_a_pool_of_forked_processes(compiler: str) -> None:
    script = """
def work(_):
    return kernel(x, w)
check(plain)
warnings.simplefilter("ignore")
with multiprocessing.get_context("fork").Pool(2) as pool:
    for found in pool.map(work, range(4)):
        np.testing.assert_array_equal(found, expected)
print("done")
"""
    assert run(script, compiler) == ["done"]


def test_addresses_in_a_child() -> None:
    script = """
def raw():
    out = np.zeros_like(expected)
    space = np.zeros(kernel.workspace_bytes({"M": 96, "K": 640}) + 64, np.uint8)
    start = -space.ctypes.data % 64
    assert kernel.call_raw([a.ctypes.data for a in (x, w, out)], [96, 640], space.ctypes.data + start) == 0
    return out
check(raw)
child(lambda: warned(raw))
"""
    assert run(script) == ["<string>"]


def test_a_thread_that_never_called_a_kernel_keeps_its_threads() -> None:
    """Of a child, a new thread; and the one that forks, where only others called kernels."""
    script = """
def in_thread(work):
    failed = []
    def run():
        try:
            work()
        except BaseException as error:
            failed.append(error)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not failed, failed
check(plain)
child(lambda: in_thread(lambda: warned(plain)))
in_thread(lambda: child(lambda: warned(plain)))
"""
    assert run(script) == ["silent", "silent"]


def test_a_child_of_a_process_that_only_compiled() -> None:
    assert run("child(lambda: (warned(plain), child(lambda: warned(plain))))") == ["silent", "<string>"]


def test_a_child_has_workspaces_of_its_own() -> None:
    """Large blocks are pages of their own; shared ones would be written to by parent and child at once."""
    block = aligned_block(HUGE_PAGE)
    block[:] = 1
    pid = os.fork()
    if pid == 0:
        block[:] = 2
        os._exit(0)
    os.waitpid(pid, 0)
    np.testing.assert_array_equal(block[:: mmap.PAGESIZE], 1)
