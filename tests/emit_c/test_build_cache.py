"""The build cache: entries that are damaged, compilers that write no library, directories that cannot be trusted.

What used to end the interpreter runs in a process of its own.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

import tcpx
from tcpx.emit_c.compiler import find_compiler
from tcpx.emit_c.driver import build_library
from tcpx.payload.diagnostics import CompileError
from tcpx.store import store
from tcpx.store.files import seal
from tcpx.store.place import cache_directory
from tests.emit_c.payloads import GENERIC

ROOT = Path(__file__).parents[2]
LIMIT_S = 120
SOURCE = "int answer(void) { return 42; }\n"
TEXT = """
func @f(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {
  %y = tcp.add(%x, %x) : tensor<[N]xf32>
  tcp.return(%y)
}
"""
CALL = f"""
import numpy as np, tcpx
kernel = tcpx.compile(tcpx.parse({TEXT!r}), target="generic")
np.testing.assert_array_equal(kernel(np.arange(5, dtype=np.float32)), 2 * np.arange(5, dtype=np.float32))
print(kernel.library_path)
"""


def start(environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """A process that compiles and calls a kernel."""
    return subprocess.Popen(
        [sys.executable, "-c", CALL],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[Path, str]:
    """Where its library lies, and what it wrote to the terminal."""
    found, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, said
    return Path(found.strip()), said


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "TCPX_CACHE_DIR": str(tmp_path / "cache")}


@pytest.fixture
def homeless(tmp_path: Path) -> dict[str, str]:
    """A user whose home cannot be written to, with temporary files."""
    (tmp_path / "tmp").mkdir()
    kept = {k: v for k, v in os.environ.items() if k not in ("TCPX_CACHE_DIR", "XDG_CACHE_HOME")}
    return {**kept, "HOME": "/dev/null", "TMPDIR": str(tmp_path / "tmp")}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that no test changes: this process may not load what a test cuts short."""
    return finish(start({**os.environ, "TCPX_CACHE_DIR": str(tmp_path_factory.mktemp("cache"))}))[0]


@pytest.fixture
def entry(built: Path, environment: dict[str, str]) -> Path:
    """A copy in the cache of one test."""
    copied = Path(environment["TCPX_CACHE_DIR"], *built.parts[-3:])
    copied.parent.mkdir(mode=0o700, parents=True)
    shutil.copy(built, copied)
    return copied


def directory(entry: Path) -> None:
    entry.unlink()
    entry.mkdir()
    (entry / "file").write_text("")


def pipe(entry: Path) -> None:
    entry.unlink()
    os.mkfifo(entry)


def dangling(entry: Path) -> None:
    entry.unlink()
    entry.symlink_to("nowhere")


def another_library(entry: Path) -> None:
    """One that is intact, and has none of the functions."""
    source = entry.with_name("other.c")
    source.write_text("int other(void) { return 1; }\n")
    subprocess.run([*find_compiler().command, "-shared", "-o", str(entry), str(source)], check=True)
    seal(entry, entry.parent.name)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda entry: entry.write_bytes(b""),
    "garbage": lambda entry: entry.write_bytes(b"no library " * 1000),
    "headers alone": lambda entry: os.truncate(entry, 1000),
    "cut in its pages": lambda entry: os.truncate(entry, 4096),
    "cut at its end": lambda entry: os.truncate(entry, entry.stat().st_size - 1),
    "another byte": lambda entry: entry.write_bytes(entry.read_bytes().replace(b"GNU", b"gnu", 1)),
    "a directory": directory,
    "a pipe": pipe,
    "a dangling link": dangling,
    "not sealed": lambda entry: os.truncate(entry, entry.stat().st_size - 48),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_built_again(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPX_CACHE_DIR", str(tmp_path))
    entry = build_library(SOURCE, GENERIC, 1)
    intact = entry.read_bytes()
    DAMAGES[damage](entry)
    assert build_library(SOURCE, GENERIC, 1) == entry
    assert entry.read_bytes() == intact
    assert {path.suffix for path in tmp_path.glob("compiled/*/*")} == {".c", ".so"}


@pytest.mark.parametrize("damage", [lambda entry: os.truncate(entry, 4096), another_library])
def test_a_kernel_whose_entry_is_damaged(
    damage: Callable[[Path], object], entry: Path, environment: dict[str, str]
) -> None:
    damage(entry)
    assert finish(start(environment)) == (entry, "")


def test_an_intact_entry_is_not_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPX_CACHE_DIR", str(tmp_path))
    entry = build_library(SOURCE, GENERIC, 1)
    before = entry.stat()
    assert build_library(SOURCE, GENERIC, 1) == entry
    assert (entry.stat().st_ino, entry.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_objects_are_linked_though_a_full_cache_removes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One was compiled long ago, and goes while the other is compiled."""
    monkeypatch.setenv("TCPX_CACHE_DIR", str(tmp_path))
    parts = {"a.c": "int a(void) { return 1; }\n"}
    build_library("int b(void) { return 2; }\n", GENERIC, 1, parts=parts)
    (known,) = tmp_path.glob("compiled/*/a.o")

    def full(_: Path, written: Path) -> None:
        if (written / "kernel.o").is_file():
            known.unlink()

    monkeypatch.setattr(store, "keep_to_limit", full)
    assert build_library("int c(void) { return 3; }\n", GENERIC, 1, parts=parts).is_file()
    assert known.is_file()


def test_processes_that_find_a_damaged_entry_at_once(entry: Path, environment: dict[str, str]) -> None:
    os.truncate(entry, 4096)
    assert {finish(process) for process in [start(environment) for _ in range(3)]} == {(entry, "")}


COMPILERS = {
    "garbage": 'echo garbage > "$out"',
    "nothing": ': > "$out"',
    "a part": 'gcc "$@" && head -c 9000 "$out" > "$out.part" && mv "$out.part" "$out"',
    "an object file": 'gcc "$@" -c',
    "another library": 'echo "int other(void) { return 1; }" | gcc -shared -fPIC -o "$out" -x c -',
}


@pytest.mark.parametrize("case", COMPILERS)
def test_what_is_no_library_does_not_stay_in_the_cache(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = 'out=; last=; for word; do [ "$last" = -o ] && out=$word; last=$word; done'
    compiler = tmp_path / "cc"
    compiler.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec gcc --version\n{script}\n{COMPILERS[case]}\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setenv("TCPX_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(CompileError, match=r"can(not)? be loaded"):
        tcpx.compile(tcpx.parse(TEXT), target="generic")
    assert [path for path in (tmp_path / "cache").glob("compiled/*/*") if path.suffix != ".c"] == []


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/dev/full refuses every byte."""
    monkeypatch.setenv("TCPX_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(Path, "write_text", lambda path, text, **_: Path("/dev/full").write_bytes(text.encode()))
    with pytest.raises(CompileError) as caught:
        build_library(SOURCE, GENERIC, 1)
    found = caught.value.diagnostic
    assert (found.message, found.required) == (
        "the compiled kernel cannot be stored",
        f"space and permission in {tmp_path}",
    )
    assert "No space left on device" in str(found.found)


@pytest.mark.parametrize("fault", ["a directory that every user can write to", "a directory of another user"])
def test_a_directory_that_others_can_write_to(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    if "every" in fault:
        shared.chmod(0o777)
    elif os.geteuid() == 0:
        os.chown(shared, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    monkeypatch.setenv("TCPX_CACHE_DIR", str(shared))
    with pytest.raises(CompileError) as caught:
        build_library(SOURCE, GENERIC, 1)
    found = caught.value.diagnostic
    assert (found.message, found.found) == ("there is no place for compiled kernels", fault)
    assert list(shared.iterdir()) == []


def test_a_default_directory_that_others_can_write_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is loaded from there; libraries go to a private one."""
    monkeypatch.delenv("TCPX_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    entry = build_library(SOURCE, GENERIC, 1)
    assert entry.parents[2] == tmp_path / "tcpx"
    entry.parents[2].chmod(0o777)
    with pytest.warns(RuntimeWarning, match=r"\(a directory that every user can write to\)"):
        private = build_library(SOURCE, GENERIC, 1)
    assert private.parents[2] == tmp_path / f"tcpx-{os.geteuid()}"


def test_without_a_home_libraries_lie_among_the_temporary_files(homeless: dict[str, str], tmp_path: Path) -> None:
    entry, said = finish(start(homeless))
    private = tmp_path / "tmp" / f"tcpx-{os.geteuid()}"
    assert entry.parents[2] == private
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert said.count("RuntimeWarning") == 1
    assert "set TCPX_CACHE_DIR to a directory of your own" in said
    before = entry.stat().st_ino
    assert finish(start(homeless))[0].stat().st_ino == before, "the next process finds it there"


def a_link(private: Path) -> None:
    private.with_name("elsewhere").mkdir()
    private.symlink_to(private.with_name("elsewhere"))


def an_open_directory(private: Path) -> None:
    private.mkdir()
    private.chmod(0o777)


TAKEN: dict[str, Callable[[Path], object]] = {
    "a link": a_link,
    "an open directory": an_open_directory,
    "a file": lambda private: private.write_text(""),
}


@pytest.mark.parametrize("case", TAKEN)
def test_a_private_directory_whose_name_is_taken(case: str, homeless: dict[str, str], tmp_path: Path) -> None:
    """One of this process alone is used, and removed at its end."""
    private = tmp_path / "tmp" / f"tcpx-{os.geteuid()}"
    TAKEN[case](private)
    entry, _ = finish(start(homeless))
    assert entry.parents[3] == tmp_path / "tmp"
    assert entry.parents[2] != private
    assert not entry.parents[2].exists()
    assert not private.is_dir() or list(private.iterdir()) == []


def test_a_home_of_nobody() -> None:
    with pytest.raises(CompileError, match="there is no place for compiled kernels") as caught:
        cache_directory({"TCPX_CACHE_DIR": "~no-such-user/cache"})
    assert "~no-such-user/cache" in str(caught.value.diagnostic.required)


def test_a_quote_in_cc_that_is_not_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", 'gcc "-O2')
    with pytest.raises(CompileError) as caught:
        find_compiler()
    found = caught.value.diagnostic
    assert (found.message, found.found) == ("$CC cannot be split into words", 'gcc "-O2: No closing quotation')


def test_a_compiler_whose_path_has_spaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "my tools" / "c c"
    compiler.parent.mkdir()
    compiler.write_text('#!/bin/sh\nexec gcc "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("TCPX_CACHE_DIR", str(tmp_path / 'it\'s a "cache"\n'))
    monkeypatch.setenv("CC", f'"{compiler}" -O1')
    assert build_library(SOURCE, GENERIC, 1).is_file()
    monkeypatch.setenv("CC", str(compiler))
    with pytest.raises(CompileError, match=r"the compiler that \$CC names: .*/my\n"):
        find_compiler()


@pytest.mark.parametrize("command", ["{folder}/text", "{folder}/script", "/bin/false"])
def test_a_compiler_that_does_not_run(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in (("text", "no program"), ("script", "#!/no/such/shell\n")):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("CC", command.format(folder=tmp_path))
    with pytest.raises(CompileError, match=r"the C compiler (cannot be run|refused the code)"):
        find_compiler()


def test_a_directory_that_cffi_cannot_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCPX_CACHE_DIR", f"{tmp_path}/\udcff")
    with pytest.raises(CompileError, match="the compiled kernel cannot be loaded"):
        tcpx.compile(tcpx.parse(TEXT), target="generic")


def test_a_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setenv("TCPX_CACHE_DIR", str(tmp_path / "cache"))
    assert build_library(SOURCE, GENERIC, 1).is_file()
    monkeypatch.setenv("TCPX_CACHE_DIR", "relative")
    with pytest.raises(CompileError, match="there is no place for compiled kernels"):
        build_library(SOURCE, GENERIC, 1)


def test_without_docstrings(environment: dict[str, str]) -> None:
    command = [sys.executable, "-OO", "-c", CALL]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
