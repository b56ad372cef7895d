"""Headers of vector instructions, which the compiler reads once for all C of a cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcpx.emit_c.driver import build_library
from tcpx.payload.diagnostics import CompileError
from tcpx.store.files import read_sealed
from tcpx.target import load_target
from tests.emit_c.payloads import GENERIC
from tests.emit_c.test_driver import fake_compiler

AVX2 = load_target("x86_avx2")
HEAD = "/* of a test */\n#include <stdint.h>\n#include <immintrin.h>\n"
USED = "-include"


def source(number: int, head: str = HEAD) -> str:
    return f"{head}\n__m256 f(__m256 x) {{ return _mm256_add_ps(x, _mm256_set1_ps({number})); }}\n"


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the compiler is asked for, line by line, of a cache of its own."""
    made = tmp_path / "log"
    made.touch()
    monkeypatch.setenv("TCPX_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", str(fake_compiler(tmp_path / "cc", f'echo "$*" >> {made}\nexec gcc "$@"')))
    return made


def asked(log: Path) -> list[str]:
    """Since the last look: `read`, `with` or `without` for headers compiled, and C compiled with them or not."""
    lines = [line for line in log.read_text().splitlines() if "--version" not in line]
    log.write_text("")
    return ["read" if "c-header" in line else "with" if USED in line else "without" for line in lines]


def test_headers_are_read_once_from_the_second_kernel_on(log: Path) -> None:
    build_library(source(1), AVX2, 1)
    assert asked(log) == ["without"]
    build_library(source(2), AVX2, 1)
    assert asked(log) == ["read", "with"]
    build_library(source(3), AVX2, 1)
    assert asked(log) == ["with"]
    build_library(source(3), AVX2, 2)
    assert asked(log) == ["without"], "other flags, other headers"


def test_the_machine_code_is_the_same(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bytes] = []
    for cache in ("one", "two"):
        monkeypatch.setenv("TCPX_CACHE_DIR", str(tmp_path / cache))
        if cache == "two":
            build_library(source(1), AVX2, 1)
        made.append(build_library(source(2), AVX2, 1).read_bytes())
    assert asked(log) == ["without", "without", "read", "with"]
    assert made[0] == made[1]


@pytest.mark.parametrize(
    "text",
    [
        source(2, '#pragma GCC optimize("no-tree-loop-distribution")\n' + HEAD),
        source(2, "#define X 1\n" + HEAD),
        "#include <stdint.h>\n#include <math.h>\n\ndouble f(double x) { return x; }\n",
        "double f(double x) { return x; }\n",
    ],
    ids=["a pragma before them", "a macro before them", "short ones", "none"],
)
def test_headers_that_are_read_each_time(log: Path, text: str) -> None:
    for number in (1, 2):
        build_library(f"{text}/* {number} */\n", AVX2, 1)
    assert asked(log) == ["without", "without"]


def test_what_was_cut_short_is_made_anew(log: Path, tmp_path: Path) -> None:
    for number in (1, 2):
        build_library(source(number), AVX2, 1)
    (made,) = (tmp_path / "cache").rglob("*.gch")
    made.write_bytes(made.read_bytes()[:100_000])
    asked(log)
    build_library(source(3), AVX2, 1)
    assert asked(log) == ["read", "with"]
    assert read_sealed(made, made.parent.name) is not None


def test_a_compiler_that_cannot_compile_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPX_CACHE_DIR", str(tmp_path / "cache"))
    script = 'case "$*" in *c-header*) exit 1;; esac\nexec gcc "$@"'
    monkeypatch.setenv("CC", str(fake_compiler(tmp_path / "cc", script)))
    for number in (1, 2, 3):
        assert build_library(source(number), AVX2, 1).is_file()


def test_a_compiler_that_cannot_read_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPX_CACHE_DIR", str(tmp_path / "cache"))
    script = f'case "$*" in *{USED}*) exit 1;; esac\nexec gcc "$@"'
    monkeypatch.setenv("CC", str(fake_compiler(tmp_path / "cc", script)))
    for number in (1, 2, 3):
        assert build_library(source(number), AVX2, 1).is_file()


def test_errors_are_of_the_c_as_it_is(log: Path) -> None:
    for number in (1, 2):
        build_library(source(number), AVX2, 1)
    with pytest.raises(CompileError) as caught:
        build_library(source(3) + "int answer(void) { return wrong; }\n", AVX2, 1)
    assert "'wrong' undeclared" in str(caught.value)
    assert USED not in str(caught.value)
    assert asked(log)[-2:] == ["with", "without"]


def test_generic_c_has_short_headers(log: Path) -> None:
    for number in (1, 2):
        build_library(f"#include <stdint.h>\nint64_t f(void) {{ return {number}; }}\n", GENERIC, 1)
    assert asked(log) == ["without", "without"]
