"""The C compiler and the build cache."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tcpx.emit_c.compiler import find_compiler
from tcpx.emit_c.driver import build_library
from tcpx.payload.diagnostics import CompileError
from tcpx.store.place import cache_directory
from tcpx.target import load_target
from tests.emit_c.payloads import GENERIC

pytestmark = pytest.mark.optimized

SOURCE = "int answer(void) { return 42; }\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TCPX_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def fake_compiler(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_a_library_is_built_once(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    compiler = fake_compiler(tmp_path / "cc", f'echo "$@" >> {log}\nexec gcc "$@"')
    monkeypatch.setenv("CC", str(compiler))
    library = build_library(SOURCE, GENERIC, 1)
    before = log.read_text()
    monkeypatch.chdir(tmp_path)
    assert build_library(SOURCE, GENERIC, 1) == library
    assert log.read_text() == before
    assert build_library(SOURCE + "\n", GENERIC, 1) != library
    assert build_library(SOURCE, GENERIC, 2) != library
    assert sorted({p.suffix for p in cache.glob("compiled/*/*")}) == [".c", ".so"], "no scratch folder is left"
    assert library.with_suffix(".c").read_text() == SOURCE


def test_the_compiler_is_part_of_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []
    for name in ("one", "two"):
        script = f'test "$1" = --version && echo {name} && exit\nexec gcc "$@"'
        monkeypatch.setenv("CC", str(fake_compiler(tmp_path / name, script)))
        made.append(build_library(SOURCE, GENERIC, 1))
    monkeypatch.setenv("CC", f"{tmp_path / 'two'} -g")
    made.append(build_library(SOURCE, GENERIC, 1))
    assert len(set(made)) == 3


def test_builds_at_the_same_time() -> None:
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: build_library(SOURCE, GENERIC, 1), range(4)))
    assert len(set(made)) == 1


def test_a_compiler_that_breaks_down_is_asked_for_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        'case "$*" in *-O1*|*--version*) exec gcc "$@";; esac\n'
        'echo "k.c:7:5: internal compiler error: in isel" >&2\nexit 1'
    )
    monkeypatch.setenv("CC", str(fake_compiler(tmp_path / "cc", script)))
    with pytest.warns(RuntimeWarning, match=r"broke down, and compiled the kernel with -O1 instead: k.c:7:5: internal"):
        made = build_library(SOURCE, GENERIC, 1)
    assert build_library(SOURCE, GENERIC, 1) == made, "the library is in the cache"


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(CompileError) as caught:
        find_compiler()
    assert str(caught.value) == (
        "definite error: there is no C compiler\n"
        "  required: one of gcc, cc, clang\n"
        "  found: none of that name in /nowhere\n"
        "  fix: install gcc (Debian: apt-get install gcc libc6-dev), or set CC to a C compiler"
    )


def test_a_compiler_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -O1")
    with pytest.raises(CompileError, match=r"required: the compiler that \$CC names: no-such-compiler"):
        find_compiler()


def test_a_compiler_that_fails() -> None:
    with pytest.raises(CompileError) as caught:
        build_library("int answer(void) { return wrong; }", GENERIC, 1)
    text = str(caught.value)
    assert "the C compiler refused the code" in text
    assert "-std=c11" in text
    assert "found: exit status 1" in text
    assert "'wrong' undeclared" in text


def test_a_library_that_cannot_be_loaded(cache: Path) -> None:
    from tcpx.emit_c.binding import Library

    cache.mkdir()
    broken = cache / "broken.so"
    broken.write_bytes(b"not a library")
    with pytest.raises(CompileError, match="the compiled kernel cannot be loaded"):
        Library(broken, [])


def test_where_the_cache_is() -> None:
    assert cache_directory({"TCPX_CACHE_DIR": "/a/b", "XDG_CACHE_HOME": "/c"}) == Path("/a/b")
    assert cache_directory({"XDG_CACHE_HOME": "/c", "HOME": "/d"}) == Path("/c/tcpx")
    assert cache_directory({"XDG_CACHE_HOME": "relative", "HOME": "/d"}) == Path("/d/.cache/tcpx")
    assert cache_directory({"HOME": "/d"}) == Path("/d/.cache/tcpx")


def test_a_cache_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TCPX_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(CompileError, match="set TCPX_CACHE_DIR to a directory of your own that can be written to"):
        build_library(SOURCE, GENERIC, 1)


def test_the_source_depends_on_nothing_but_the_request(tmp_path: Path) -> None:
    """Another hash seed, another folder: the same bytes."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "from tests.emit_c.payloads import *; from tcpx.emit_c.printer.file import PrintRequest, print_file;"
        "made = [module(t, constants=MEMORY_CONSTANTS) for t in (COPY, AXPY, MATMUL, BRANCHES, MEMORY)];"
        "requests = [PrintRequest(m.main, m.constants, m.main.name) for m in made];"
        "sys.stdout.write(print_file(requests, GENERIC, 2).source)"
    )
    root = Path(__file__).resolve().parents[2]
    outputs: set[bytes] = set()
    for seed, folder in (("0", tmp_path), ("1", root), ("77", Path("/"))):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", script, str(root)]
        outputs.add(subprocess.run(command, check=True, capture_output=True, cwd=folder, env=environment).stdout)
    assert len(outputs) == 1
    assert b"#pragma omp" in outputs.pop()


def test_a_compiler_that_makes_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/bin/true")
    with pytest.raises(CompileError) as caught:
        build_library("int f(void) { return 0; }\n", load_target("generic"), 1)
    found = caught.value.diagnostic
    assert found.message == "the C compiler made nothing that can be loaded"
    assert found.required is not None
    assert found.required.startswith("a C compiler, which writes the file behind -o: /")
    assert (found.found, found.fix) == ("exit status 0, and no such file", "set CC to a C compiler, such as gcc")
    assert not list(cache.rglob("*.so"))
