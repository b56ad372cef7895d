"""Sanitized kernels: nothing is found in what tcpx writes, and what is planted is found, with its place."""

from __future__ import annotations

import resource
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tcpx
from tcpx.cli import main
from tcpx.emit_c import kernel as kernel_module
from tcpx.emit_c.printer.file import PrintedFile, PrintRequest, print_file
from tcpx.target import Target, load_target
from tests.end_to_end.payloads import DIGITS, DIGITS_SCHEDULE, LINEAR, PACKED, arguments
from tests.optional_tools import CLANG_SANITIZERS, GCC_SANITIZERS, compilers, require_cpu_of

SOFTMAX = """\
func @rows(%x: tensor<[B]x13xf32>) -> tensor<[B]x13xf32> symbols [B] {
  %y = tcp.softmax(%x) {dim = 1} : tensor<[B]x13xf32>
  tcp.return(%y)
}
"""
SOFTMAX_ROWS = """\
language 1
import "lib/rows.tcps" as rows
schedule main(root: func) {
  decompose(match one softmax in root)
  for parts in row_clusters(match any op in root) { rows.any_rows(outermost(parts), innermost(parts)) }
}
"""
SCALE = """\
func @scale(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {
  %y = tcp.add(%x, %x) : tensor<[N]xf32>
  tcp.return(%y)
}
"""
TILED = """\
language 1
schedule main(root: func) {
  let y = match one elementwise in root
  tile(y, [d0: 4])
}
"""


@pytest.fixture(params=compilers(GCC_SANITIZERS, CLANG_SANITIZERS))
def compiler(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The compiler that $CC names for the test."""
    monkeypatch.setenv("CC", request.param)
    return request.param


@pytest.fixture(params=["generic", "x86_avx512"])
def target(request: pytest.FixtureRequest) -> Target:
    found = load_target(request.param)
    require_cpu_of(found)
    return found


def check_clean(
    module: tcpx.Module, schedule: tcpx.Schedule, target: Target, sizes: Sequence[dict[str, int]], threads: int = 1
) -> None:
    kernel = tcpx.compile(module, schedule, target=target, threads=threads, sanitize=True)
    for held in sizes:
        given = arguments(module, held)
        found, wanted = np.asarray(kernel(*given)), np.asarray(tcpx.evaluate(module, *given))
        np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("compiler")
def test_digits_is_clean(target: Target) -> None:
    schedule = tcpx.load_schedule(DIGITS_SCHEDULE)
    check_clean(tcpx.load(DIGITS), schedule, target, [{"B": n} for n in (0, 1, 13)], threads=2)


@pytest.mark.usefixtures("compiler")
def test_a_packed_product_is_clean(target: Target) -> None:
    sizes = [dict(zip("MKN", s, strict=True)) for s in ((0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 1, 1), (13, 17, 67))]
    check_clean(tcpx.parse(LINEAR), tcpx.parse_schedule(PACKED), target, sizes)


@pytest.mark.usefixtures("compiler")
def test_a_softmax_is_clean(target: Target) -> None:
    check_clean(tcpx.parse(SOFTMAX), tcpx.parse_schedule(SOFTMAX_ROWS), target, [{"B": n} for n in (0, 1, 5)])


STRIDED = """\
func @product(%x: tensor<[M]x[K]xf32> strided, %w: tensor<[K]x[N]xf32> strided) -> tensor<[M]x[N]xf32> strided
    symbols [M, N, K] {
  %mm = tcp.matmul(%x, %w) : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""


@GCC_SANITIZERS.needed  # the compiler where $CC names none
def test_strided_arrays_are_blocks_with_gaps(target: Target) -> None:
    kernel = tcpx.compile(tcpx.parse(STRIDED), target=target, sanitize=True)
    whole = np.arange(30 * 40, dtype=np.float32).reshape(30, 40) % 7
    for m, n, k in ((0, 3, 4), (3, 4, 0), (13, 17, 9)):
        x, w, out = whole[1 : 1 + m, 1 : 1 + k], whole[15 : 15 + k, 2 : 2 + n], np.zeros((30, 40), np.float32)
        kernel(x, w, out=out[2 : 2 + m, 3 : 3 + n])
        expected = np.zeros((30, 40), np.float32)
        expected[2 : 2 + m, 3 : 3 + n] = x @ w
        np.testing.assert_array_equal(out, expected)
        out[...] = 0
        kernel.bind(x, w, out=out[2 : 2 + m, 3 : 3 + n])()
        np.testing.assert_array_equal(out, expected)


def planted(monkeypatch: pytest.MonkeyPatch, change: Callable[[str], str]) -> None:
    """From now on the C of kernels is changed before it is compiled."""

    def print_wrong(
        requests: Sequence[PrintRequest], target: Target, threads: int, *, timed: bool = False
    ) -> PrintedFile:
        printed = print_file(requests, target, threads, timed=timed)
        source = change(printed.source)
        assert source != printed.source
        return replace(printed, source=source)

    monkeypatch.setattr(kernel_module, "print_file", print_wrong)


FAULTS = {
    "write behind": (
        lambda c: c.replace("*(out + ", "*(out + 1 + "),
        "the kernel leaves its memory",
        "a write of 4 byte(s), 0 byte(s) behind the end of `out` (28 bytes)",
    ),
    "read before": (
        lambda c: c.replace("*(x + ", "*(x - 1 + "),
        "the kernel leaves its memory",
        "a read of 4 byte(s), 4 byte(s) before `x` (28 bytes)",
    ),
    "overflow": (
        lambda c: c.replace("*(x + ", "*(x + (N + (INT64_MAX - 3)) / INT64_MAX - 1 + "),
        "the kernel computes something that C does not define",
        "signed integer overflow",
    ),
}


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_where_it_is(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change, message, found = FAULTS[fault]
    planted(monkeypatch, change)
    module = tcpx.parse(SCALE, "scale.tcp")
    kernel = tcpx.compile(module, tcpx.parse_schedule(TILED), target="generic", sanitize=True)
    bound = kernel.bind(np.ones(7, np.float32))
    with pytest.raises(tcpx.SanitizerError) as raised:
        bound()
    with pytest.raises(tcpx.SanitizerError) as raised:
        kernel(np.ones(7, np.float32))
    held = raised.value.diagnostic
    assert held.message.startswith(message)
    assert found in (held.found or "")
    assert held.schedule is not None
    assert (held.schedule.line, held.schedule.span) == (4, "tile(y, [d0: 4])")
    assert held.payload is not None
    assert (held.payload.file, held.payload.line) == ("scale.tcp", 2)
    assert any(note.startswith("printed for ") for note in held.notes)
    assert any(note.startswith("C at ") for note in held.notes)


@pytest.mark.usefixtures("compiler")
def test_a_move_to_where_it_overlaps(monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, lambda c: c.replace(", x", ", out + 1"))
    text = "func @same(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {\n  tcp.return(%x)\n}"
    kernel = tcpx.compile(tcpx.parse(text), target="generic", sanitize=True)
    with pytest.raises(tcpx.SanitizerError) as raised:
        kernel(np.ones(7, np.float32))
    held = raised.value.diagnostic
    assert held.message == "the kernel moves memory to where it overlaps"
    assert held.found == "from: at byte 4 of `out` (28 bytes); to: at byte 0 of `out` (28 bytes)"
    assert any(note.startswith("C at ") and "memcpy(out, out + 1, " in note for note in held.notes)


@pytest.mark.usefixtures("compiler")
def test_a_kernel_that_ends_without_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, lambda c: c.replace("memcpy(out, x", "__builtin_trap(); memcpy(out, x"))
    text = "func @ends(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {\n  tcp.return(%x)\n}"
    kernel = tcpx.compile(tcpx.parse(text), target="generic", sanitize=True)
    with pytest.raises(tcpx.TcpxError) as raised:
        kernel(np.ones(7, np.float32))
    told = raised.value.diagnostic
    assert told.message == "the sanitized @ends ended by itself"
    assert told.found in ("exit status -4", "exit status -5")  # SIGILL; SIGTRAP on other processors


@GCC_SANITIZERS.needed  # the compiler where $CC names none
@pytest.mark.usefixtures("compiler")
def test_a_limit_of_the_address_space() -> None:
    kernel = tcpx.compile(tcpx.load(DIGITS), target="generic", sanitize=True)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 36, limits[1]))
    try:
        with pytest.raises(tcpx.SanitizerError, match="has no address space") as caught:
            kernel(np.zeros((1, 64), np.float32))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    assert caught.value.diagnostic.fix == "ulimit -v unlimited"


def test_addresses_are_refused() -> None:
    kernel = tcpx.compile(tcpx.parse(SCALE), tcpx.parse_schedule(TILED), target="generic", sanitize=True)
    with pytest.raises(tcpx.ArgumentError, match="a call with arrays"):
        kernel.call_raw([0, 0], [0], 0)
    with pytest.raises(tcpx.ArgumentError, match="dtype float32"):
        kernel(np.ones(7))


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """A command line with --sanitize."""
    (tmp_path / "scale.tcp").write_text(SCALE, encoding="utf-8")
    (tmp_path / "scale.tcps").write_text(TILED, encoding="utf-8")
    files = [str(tmp_path / "scale.tcp"), "-s", str(tmp_path / "scale.tcps")]
    return ["run", *files, "--random", "0", "--size", "N=7", "--target", "generic", "--sanitize"]


@GCC_SANITIZERS.needed  # the compiler where $CC names none
def test_the_command_says_that_nothing_is_found(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--check"]) == 0
    printed = capsys.readouterr()
    assert "sanitizers (address, undefined): nothing found" in printed.out
    assert "largest difference 0 " in printed.out
    assert printed.err == ""


@GCC_SANITIZERS.needed  # the compiler where $CC names none
def test_the_command_says_what_is_found(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(monkeypatch, FAULTS["write behind"][0])
    assert main(words) == 1
    said = capsys.readouterr().err
    assert "scale.tcps:4:3 (schedule)" in said
    assert "scale.tcp:2:3 (payload)" in said
    assert "behind the end of `out`" in said


def test_a_compiler_without_the_runtime_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bare = tmp_path / "bare-cc"
    bare.write_text(
        '#!/bin/sh\ncase "$*" in *-fsanitize*) echo "cannot find -lasan" >&2; exit 1;; esac\nexec gcc "$@"\n',
        encoding="ascii",
    )
    bare.chmod(0o755)
    monkeypatch.setenv("CC", str(bare))
    assert main(words) == 1
    said = capsys.readouterr().err
    assert "error: the C compiler has no runtime for sanitizers" in said
    assert "note: cannot find -lasan" in said
    assert "fix: install it" in said
