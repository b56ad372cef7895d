"""tcpx emit: what is written compiles, links with C and C++ headers, and is what compile makes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import tcpx

Command = Callable[..., SimpleNamespace]
ROOT = Path(__file__).resolve().parents[2]


def test_emit(files: SimpleNamespace, tcpx_command: Command) -> None:
    folder = files.folder / "made for it"
    done = tcpx_command("emit", files.payload, "-s", files.schedule, "-o", str(folder), "--target", "generic")
    assert (done.status, done.err) == (0, "")
    assert sorted(path.name for path in folder.iterdir()) == [
        "CMakeLists.txt",
        "axpy.c",
        "axpy.h",
        "axpy.json",
        "main.c",
    ]
    assert f"wrote {folder / 'axpy.c'}" in done.out
    kernel = tcpx.compile(tcpx.load(files.payload), tcpx.load_schedule(files.schedule), target="generic")
    assert (folder / "axpy.c").read_text(encoding="utf-8") == kernel.c_source
    assert f"cmake -S '{folder}' -B '{folder / 'build'}' && cmake --build '{folder / 'build'}'" in done.out
    lines = done.out.splitlines()
    command = lines[lines.index("to compile it:") + 1].strip()
    compiled = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (compiled.returncode, compiled.stderr) == (0, "")
    assert (folder / "axpy.so").is_file()


def test_the_header_agrees_with_the_source(files: SimpleNamespace, tcpx_command: Command) -> None:
    tcpx_command("emit", files.payload, "-s", files.schedule, "-o", str(files.folder), "--target", "generic")
    header = (files.folder / "axpy.h").read_text(encoding="utf-8")
    assert (
        "int axpy(const float *x, const float *y, float *out, int64_t N, const void *constants, void *workspace);"
        in (header)
    )
    both = files.write("both.c", '#include "axpy.h"\n#include "axpy.h"\n#include "axpy.c"\n')
    checked = subprocess.run(["cc", "-std=c11", "-fsyntax-only", both], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_strides_are_parameters(tmp_path: Path, tcpx_command: Command) -> None:
    payload = tmp_path / "copy.tcp"
    payload.write_text(
        "func @copy(%x: tensor<[M]x8xf32>) -> tensor<[M]x8xf32> symbols [M] { tcp.return(%x) }", encoding="utf-8"
    )
    done = tcpx_command("emit", str(payload), "--strided", "-o", str(tmp_path), "--target", "generic")
    assert (done.status, done.err) == (0, "")
    header = (tmp_path / "copy.h").read_text(encoding="utf-8")
    assert (
        "int copy(const float *x, float *out, int64_t M, int64_t x_stride0, int64_t out_stride0, "
        "const void *constants, void *workspace);" in header
    )
    assert "   x_stride0: elements from one index of dim 0 of %x to the next\n" in header
    done = tcpx_command("run", str(payload), "--strided", "--random", "0", "--size", "M=5", "--check")
    assert (done.status, done.err) == (0, "")


def test_constants_threads_and_name(files: SimpleNamespace, tcpx_command: Command) -> None:
    digits = [str(ROOT / "examples" / "digits" / "digits.tcp"), "-s", str(ROOT / "schedules" / "digits.tcps")]
    words = ["-o", str(files.folder), "--name", "classify", "--threads", "2", "--target", "x86_avx2"]
    done = tcpx_command("emit", *digits, *words)
    assert (done.status, done.err) == (0, "")
    assert "-fopenmp" in done.out
    assert "-mavx512f" not in done.out
    size = (files.folder / "classify.bin").stat().st_size
    header = (files.folder / "classify.h").read_text(encoding="utf-8")
    assert f"{size} bytes from classify.bin" in header
    assert "w1: 65536 bytes at " in header
    assert "int classify(" in header


@pytest.mark.parametrize("name", ["../../etc/x", "int"])
def test_a_name_cannot_leave_the_folder(name: str, files: SimpleNamespace, tcpx_command: Command) -> None:
    folder = files.folder / "out"
    done = tcpx_command("emit", files.payload, "-s", files.schedule, "-o", str(folder), "--name", name)
    assert (done.status, done.err) == (0, "")
    assert len(list(folder.iterdir())) == 5


def test_a_folder_that_cannot_be_made_is_1(files: SimpleNamespace, tcpx_command: Command) -> None:
    done = tcpx_command("emit", files.payload, "-s", files.schedule, "-o", files.payload)
    assert done.status == 1
    assert "File exists" in done.err
