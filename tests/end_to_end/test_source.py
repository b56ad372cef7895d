"""The emitted C of whole kernels: three schedules of one payload, reproducible text, what the compiler makes of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tcpx
from tcpx.target import load_target
from tests.end_to_end.payloads import LINEAR, MATMUL, PACKED, ROOT, arguments, check_product
from tests.optional_tools import compilers

NAIVE = """\
language 1
schedule naive(root: func) {
  bufferize(root)
}
"""
TILED = """\
language 1
schedule tiled(root: func) {
  let mm = match one contract in root
  let last = epilogue(mm)
  let i, j = tile(last, [d0: 32, d1: 64])
  fuse(mm, into: j)
  let k = tile(mm, [k: 64])
}
"""
SCHEDULES = {"naive": NAIVE, "tiled": TILED, "packed_gemm": PACKED}
NESTS = {
    "naive": ["mm/m", "mm/n", "mm/k", "s/d0", "s/d1", "r/d0", "r/d1"],
    "tiled": ["r/d01", "r/d11", "mm/k1"],
    "packed_gemm": [
        "mm/n1",
        "mm/k1",
        "mm.rhs/pack1",
        "mm.rhs/pack1~tail",
        "mm/m1",
        "mm.lhs/pack1",
        "mm/n2",
        "mm/m2",
        "mm/k2",
    ],
}
TEN_TWENTY_FOUR = re.sub(r"\[[MNK]\]x", "1024x", MATMUL).replace(" symbols [K, M, N]", "")


def loops_of(nest: str) -> list[str]:
    """The names of the loops of a nest, in program order."""
    return [m.group(1) for m in re.finditer(r"^\s*(?:for|parallel) (\S+) in", nest, re.MULTILINE)]


def test_three_schedules_give_the_same_numbers() -> None:
    module = tcpx.parse(LINEAR)
    requests = [tcpx.CompileRequest(module, tcpx.parse_schedule(text), name=name) for name, text in SCHEDULES.items()]
    kernels = dict(zip(SCHEDULES, tcpx.compile_many(requests, target="native"), strict=True))
    for sizes in ((13, 333, 517), (64, 64, 64), (3, 4, 0)):
        given = arguments(module, dict(zip("MNK", sizes, strict=True)))
        for kernel in kernels.values():
            check_product("linear", kernel, given)
    for name, text in SCHEDULES.items():
        run = tcpx.apply_schedule(module, tcpx.parse_schedule(text))
        nest = next(e.nest for e in reversed(run.trace.entries) if e.nest)
        assert loops_of(nest) == NESTS[name], name


EMIT = """\
import json, sys, tcpx
from pathlib import Path
payload, schedule = json.loads(sys.stdin.read())
request = tcpx.CompileRequest(tcpx.parse(payload), tcpx.parse_schedule(schedule))
for target in ("generic", "x86_avx2", "x86_avx512"):
    sys.stdout.write(tcpx.compile_many([request], target=target)[0].c_source)
"""


def test_same_request_same_source(tmp_path: Path) -> None:
    sources: list[bytes] = []
    for seed, folder in (("0", tmp_path), ("4711", ROOT)):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", EMIT],
            input=json.dumps([LINEAR, PACKED]).encode(),
            cwd=folder,
            env=environment,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        sources.append(done.stdout)
    assert sources[0] == sources[1]
    assert sources[0].count(b"/* Written by tcpx") == 3


def matmul_source(target: str) -> str:
    """The C of the product of 1024 cubed. It is compiled and loaded, not run."""
    return tcpx.compile(tcpx.parse(TEN_TWENTY_FOUR), tcpx.parse_schedule(PACKED), target=target).c_source


@pytest.mark.parametrize("compiler", compilers())
def test_strict_compilers_are_content_and_loops_have_comments(compiler: str, tmp_path: Path) -> None:
    target = load_target("x86_avx512")
    source = matmul_source("x86_avx512")
    (tmp_path / "kernel.c").write_text(source)
    flags = [f for f in target.flags if not f.startswith("-std")]
    command = [compiler, "-std=c11", *flags, "-Wall", "-Wextra", "-Werror", "-c", "-o", "kernel.o", "kernel.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line for line in source.split("\nint ", 1)[1].splitlines() if not line.lstrip().startswith("#pragma")]
    loops = [k for k, line in enumerate(lines) if line.lstrip().startswith("for (")]
    bare = [lines[k] for k in loops if not lines[k - 1].lstrip().startswith("/*")]
    assert loops
    assert bare == []
    assert re.findall(r"(?:__m\d+\w*|\w+x\d+)\s+\w+\s*\[", source) == [], "an array of vectors"


REFERENCE = re.compile(r"\((?:%rsp|%rbp)")
VECTOR = re.compile(r"%[xyz]mm\d+")


def innermost_loops(listing: str) -> list[list[str]]:
    """Backward jumps over a stretch without other backward jumps: the instructions from target to jump."""
    rows = [m.groups() for m in re.finditer(r"^\s*([0-9a-f]+):\t(.*)$", listing, re.MULTILINE)]
    place = {address: k for k, (address, _) in enumerate(rows)}
    spans: list[tuple[int, int]] = []
    for k, (_, text) in enumerate(rows):
        jump = re.match(r"j\w+\s+([0-9a-f]+)\b", text)
        if jump and jump.group(1) in place and place[jump.group(1)] <= k:
            spans.append((place[jump.group(1)], k))
    inner = [s for s in spans if not any(o != s and s[0] <= o[0] and o[1] <= s[1] for o in spans)]
    return [[text.strip() for _, text in rows[first : last + 1]] for first, last in inner]


def test_the_inner_loop_holds_what_it_computes(tmp_path: Path) -> None:
    target = load_target("x86_avx512")
    (tmp_path / "kernel.c").write_text(matmul_source("x86_avx512"))
    subprocess.run(["gcc", *target.flags, "-c", "-o", "kernel.o", "kernel.c"], cwd=tmp_path, check=True)
    done = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", "kernel.o"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    (loop,) = [body for body in innermost_loops(done.stdout) if any("vfmadd" in text for text in body)]
    fmas = [text for text in loop if text.startswith("vfmadd")]
    steps, left = divmod(len(fmas), 24)
    assert (steps, left) == (4, 0), "6 rows of 4 vectors, of four steps"
    others = [text.split()[0] for text in loop if not text.startswith("vfmadd")]
    loads = [name for name in others if name in {"vmovups", "vmovaps", "vbroadcastss"}]
    assert len(loads) <= 10 * steps, "4 vectors of one operand, 6 elements of the other"
    counting = [name for name in others if name not in {"vmovups", "vmovaps", "vbroadcastss"}]
    assert set(counting) <= {"add", "sub", "inc", "dec", "lea", "cmp", "test", "jne", "je", "jl", "jg", "jb", "ja"}
    assert len(counting) <= 6, counting
    assert [text for text in loop if VECTOR.search(text) and REFERENCE.search(text)] == []
    assert not any(text.startswith(("vmovups %zmm", "vmovaps %zmm")) for text in loop)
