"""How threads wait for one another: briefly, unless the user says otherwise, and without a trace in the environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tcpx.emit_c import openmp
from tcpx.measure.pinned_threads import available_cpus

CODE = """
import ctypes, os
import tcpx

TEXT = '''
func @product(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %y = tcp.matmul(%x, %w) : tensor<64x64xf32>
  tcp.return(%y)
}
'''
before = dict(os.environ)
kernel = tcpx.compile(tcpx.parse(TEXT), target="generic", threads=THREADS)
getenv = ctypes.CDLL(None).getenv
getenv.restype = ctypes.c_char_p
print(os.environ == before, getenv(b"GOMP_SPINCOUNT"))
"""


def run(threads: int, **variables: str) -> tuple[str, str]:
    """What a process says of its environment, and what libgomp says about itself when it is loaded."""
    given = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_"))}
    environment = {**given, "CC": "gcc", "OMP_DISPLAY_ENV": "verbose", **variables}
    command = [sys.executable, "-c", CODE.replace("THREADS", str(threads))]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True, timeout=120)
    return done.stdout.strip(), done.stderr


def setting(text: str, name: str) -> str:
    found = re.search(rf"{name} *= *'(.*)'", text)
    assert found is not None, text
    return found[1]


def test_threads_wait_briefly() -> None:
    """libgomp's own 300,000 turns are milliseconds of a CPU that another thread, or program, could use."""
    environment, shown = run(2)
    assert setting(shown, "GOMP_SPINCOUNT") == str(openmp.spin_count())
    assert environment == "True None"  # nothing is left behind: not for Python, C, or child processes


def test_threads_wait_longer_in_a_virtual_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as it takes to wake one: there, a CPU that sleeps is woken by way of the host."""
    monkeypatch.setattr(openmp, "cpu_flags", lambda: frozenset({"avx2"}))
    assert openmp.spin_count() == 500
    monkeypatch.setattr(openmp, "cpu_flags", lambda: frozenset({"avx2", "hypervisor"}))
    assert openmp.spin_count() == 2000


def test_where_one_cpu_is_usable_nobody_else_is_waited_for() -> None:
    """A kernel for two threads starts none there; where there are two CPUs, it does."""
    call = "x = np.ones((512, 512), np.float32)\nkernel(x, x)\nprint(len(os.listdir('/proc/self/task')))"
    pinned = "import os\nimport numpy as np\nos.sched_setaffinity(0, list(os.sched_getaffinity(0))[:CPUS])\n"
    code = CODE.replace("64x64", "512x512").replace("THREADS", "2")
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}

    def tasks(cpus: int) -> int:
        command = [sys.executable, "-c", pinned.replace("CPUS", str(cpus)) + code + call]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True, timeout=120)
        return int(done.stdout.split()[-1])

    assert tasks(2) - tasks(1) == min(len(available_cpus()), 2) - 1


@pytest.mark.parametrize(
    ("variables", "count"),
    [({"GOMP_SPINCOUNT": "77"}, "77"), ({"OMP_WAIT_POLICY": "passive"}, "0"), ({"OMP_WAIT_POLICY": "active"}, None)],
)
def test_what_the_user_sets_counts(variables: dict[str, str], count: str | None) -> None:
    environment, shown = run(2, **variables)
    found = setting(shown, "GOMP_SPINCOUNT")
    assert found == count if count is not None else int(found) > 1_000_000
    given = variables.get("GOMP_SPINCOUNT")
    assert environment == f"True {given.encode() if given is not None else None}"


def test_one_thread_loads_no_runtime() -> None:
    environment, shown = run(1)
    assert (environment, shown) == ("True None", "")
