"""tcpx run: inputs, outputs, the comparison with the reference evaluator."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.cli import progress, run
from tcpx.cli.differences import largest_difference
from tcpx.cli.progress import time_left
from tcpx.payload.evaluator import Array

Command = Callable[..., SimpleNamespace]
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("size", [0, 1, 7])
def test_random(size: int, files: SimpleNamespace, tcpx_command: Command) -> None:
    done = tcpx_command(
        "run",
        files.payload,
        "-s",
        files.schedule,
        "--random",
        "1",
        "--size",
        f"N={size}",
        "--check",
        "--tolerance",
        "0",
    )
    assert (done.status, done.err) == (0, "")
    assert f"in   %x: {size}x8 float32" in done.out
    assert f"out  %out: {size}x8 float32" in done.out
    assert "check %out: largest difference 0 " in done.out


def test_files_and_output(files: SimpleNamespace, tcpx_command: Command) -> None:
    x, y = np.arange(24, dtype=np.float32).reshape(3, 8), np.full((3, 8), 2, np.float32)
    for name, array in (("x", np.asfortranarray(x)), ("y", y)):
        np.save(files.folder / f"{name}.npy", array)
    inputs = [word for name in "xy" for word in ("--input", f"{name}={files.folder / name}.npy")]
    for suffix in ("npy", "npz"):
        path = files.folder / f"out.{suffix}"
        done = tcpx_command("run", files.payload, "-s", files.schedule, *inputs, "-o", str(path))
        assert (done.status, done.err) == (0, "")
        assert f"saved to {path}" in done.out
        stored = np.load(path)
        np.testing.assert_array_equal(stored if suffix == "npy" else stored["out"], x * y + y)


def test_a_file_gives_the_size_of_what_is_drawn(files: SimpleNamespace, tcpx_command: Command) -> None:
    np.save(files.folder / "x.npy", np.ones((5, 8), np.float32))
    given = ["--input", f"x={files.folder / 'x.npy'}", "--random", "0"]
    done = tcpx_command("run", files.payload, "-s", files.schedule, *given)
    assert (done.status, done.err) == (0, "")
    assert "in   %y: 5x8 float32" in done.out


def test_target_threads_and_param(files: SimpleNamespace, tcpx_command: Command) -> None:
    words = ["--random", "0", "--size", "N=9", "--target", "generic", "--threads", "2", "--param", "*/rows.height=8"]
    done = tcpx_command("run", files.payload, "-s", files.schedule, *words)
    assert (done.status, done.err) == (0, "")
    assert "@axpy for generic, 2 threads" in done.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "nothing is given for `x`, `y`"),
        (["--random", "0"], "--size N=64"),
        (["--random", "0", "--size", "M=4"], "@axpy has no size `M`"),
        (["--random", "0", "--size", "N=5000"], "required: 0..4096"),
        (["--random", "0", "--size", "N=4", "--input", "z=FOLDER/five.npy"], "@axpy has no argument `z`"),
        (["--random", "0", "--size", "N=4", "--input", "x=FOLDER/five.npy"], "required: N = 5, the array's"),
        (["--random", "0", "--size", "N=4", "--input", "x=FOLDER/absent.npy"], "No such file"),
        (["--random", "0", "--size", "N=4", "--input", "x=FOLDER/axpy.tcp"], "one array that numpy.save wrote"),
        (["--random", "0", "--size", "N=4", "--input", "x=FOLDER/two.npz"], "found: several arrays"),
        (["--random", "0", "--input", "x=FOLDER/integers.npy"], "required: dtype float32"),
        (["--random", "0", "--size", "N=4", "--param", "width=3"], "`width` (= 3) matches no knob"),
        (["--random", "0", "--size", "N=4", "-o", "FOLDER/absent/y.npy"], "No such file"),
    ],
)
def test_refused(words: list[str], message: str, files: SimpleNamespace, tcpx_command: Command) -> None:
    np.save(files.folder / "five.npy", np.ones((5, 8), np.float32))
    np.save(files.folder / "integers.npy", np.ones((4, 8), np.int32))
    np.savez(files.folder / "two.npz", a=np.ones(1), b=np.ones(1))
    given = [word.replace("FOLDER", str(files.folder)) for word in words]
    done = tcpx_command("run", files.payload, "-s", files.schedule, *given)
    assert done.status == 1
    assert message in done.err


def test_two_results(files: SimpleNamespace, tcpx_command: Command) -> None:
    text = (
        "func @two(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {\n  %a = tcp.add(%x, %x) : tensor<4xf32>\n"
        "  %b = tcp.mul(%x, %x) : tensor<4xf32>\n  tcp.return(%a, %b)\n}\n"
    )
    payload = files.write("two.tcp", text)
    schedule = files.write("two.tcps", "language 1\nschedule two(root: func) {\n  print(root)\n}\n")
    refused = tcpx_command("run", payload, "-s", schedule, "--random", "0", "-o", str(files.folder / "y.npy"))
    assert (refused.status, refused.out) == (2, "")
    assert "FILE.npz" in refused.err
    path = files.folder / "y.npz"
    done = tcpx_command("run", payload, "-s", schedule, "--random", "0", "-o", str(path), "--check")
    assert (done.status, done.err) == (0, "")
    assert done.out.count("largest difference 0 ") == 2
    assert len(np.load(path).files) == 2


def test_bf16_files_are_raw_bytes(files: SimpleNamespace, tcpx_command: Command) -> None:
    payload = files.write(
        "b.tcp",
        "func @b(%x: tensor<4xbf16>) -> tensor<4xbf16> {\n  %a = tcp.max(%x, %x) : tensor<4xbf16>\n"
        "  tcp.return(%a)\n}\n",
    )
    schedule = files.write("b.tcps", "language 1\nschedule b(root: func) {\n  print(root)\n}\n")
    path, out = files.folder / "x.npy", files.folder / "y.npy"
    x = np.array([1.5, -2, 0, 3], ml_dtypes.bfloat16)
    np.save(path, x)
    done = tcpx_command("run", payload, "-s", schedule, "--input", f"x={path}", "-o", str(out), "--check")
    assert (done.status, done.err) == (0, "")
    assert "4 bfloat16" in done.out
    np.testing.assert_array_equal(np.load(out).view(ml_dtypes.bfloat16), x)


def test_digits(tcpx_command: Command) -> None:
    words = ["--random", "0", "--size", "B=13", "--check", "--tolerance", "1e-5"]
    payload, schedule = ROOT / "examples" / "digits" / "digits.tcp", ROOT / "schedules" / "digits.tcps"
    done = tcpx_command("run", str(payload), "-s", str(schedule), *words)
    assert (done.status, done.err) == (0, "")
    assert "out  %out: 13x10 float32" in done.out


INF, NAN = np.inf, np.nan


@pytest.mark.parametrize(
    ("found", "wanted", "difference"),
    [
        (np.array([1.0, 2.0]), np.array([1.0, 2.5]), 0.5),
        (np.array([INF, NAN, -0.0]), np.array([INF, NAN, 0.0]), 0),
        (np.array([INF]), np.array([-INF]), INF),
        (np.array([NAN, 1.0]), np.array([1.0, 1.0]), NAN),
        (np.array([], np.float32), np.array([], np.float32), 0),
        (np.array([2**63 - 1]), np.array([2**63 - 2]), 1),
        (np.array([255], np.uint8), np.array([0], np.uint8), 255),
        (np.array([True]), np.array([False]), 1),
        (np.array(3.0), np.array(1.0), 2),
        (np.array([1], ml_dtypes.bfloat16), np.array([3], ml_dtypes.bfloat16), 2),
    ],
)
def test_largest_difference(found: npt.NDArray[np.generic], wanted: npt.NDArray[np.generic], difference: float) -> None:
    np.testing.assert_equal(largest_difference(found, wanted), difference)


def test_a_difference_above_the_tolerance_is_1(
    files: SimpleNamespace, tcpx_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tcpx.evaluate", lambda module, x, y, progress: x * y)
    words = ["--random", "0", "--size", "N=3", "--check"]
    assert tcpx_command("run", files.payload, "-s", files.schedule, *words, "--tolerance", "9").status == 0
    done = tcpx_command("run", files.payload, "-s", files.schedule, *words)
    assert done.status == 1
    assert re.search(
        r"required: a largest difference of at most 9\.54e-07 of the largest magnitude\n  found: 1\.96 .*\n"
        r"  note: so much is rounding, by the dtypes and the lengths of the reductions; to allow another difference: "
        r"--tolerance D or --relative-tolerance R\n$",
        done.err,
    ), done.err
    done = tcpx_command("run", files.payload, "-s", files.schedule, *words, "--tolerance", "1e-6")
    assert done.status == 1
    assert "required: a largest difference of at most 1e-06\n" in done.err


STATE = """\
func @count(%x: tensor<8xf32>, %total: inout tensor<8xf32>) -> (%total: tensor<8xf32>) {
  %s = tcp.add(%total, %x) : tensor<8xf32>
  tcp.return(%s)
}
"""
CANCELS = """\
func @c(%x: tensor<3x9xf32>, %w: tensor<9x8xf32>) -> tensor<3x8xf32> {
  %o = tcp.matmul(%x, %w) : tensor<3x8xf32>
  %a = tcp.mul(%w, 1.000001) : tensor<9x8xf32>
  %p = tcp.matmul(%x, %a) : tensor<3x8xf32>
  %d = tcp.sub(%o, %p) : tensor<3x8xf32>
  tcp.return(%d)
}
"""


def test_state_is_compared_as_it_was_before_the_call(files: SimpleNamespace, tcpx_command: Command) -> None:
    payload = files.write("count.tcp", STATE)
    done = tcpx_command("run", payload, "--target", "generic", "--random", "0", "--check")
    assert (done.status, done.err) == (0, "")
    assert "check %total: largest difference 0 " in done.out


def test_cancelled_terms_are_judged_by_what_was_cancelled(
    files: SimpleNamespace, tcpx_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is 1e-5 of its terms: it may be off by all of itself."""
    payload = files.write("c.tcp", CANCELS)
    x, w = (np.random.default_rng(0).standard_normal(shape).astype(np.float32) for shape in ((3, 9), (9, 8)))
    np.save(files.folder / "x.npy", x)
    np.save(files.folder / "w.npy", w)
    given = ["--input", f"x={files.folder / 'x.npy'}", "--input", f"w={files.folder / 'w.npy'}", "--target", "generic"]
    evaluate = tcpx.evaluate
    for error, status in ((1e-6, 0), (1e-3, 1)):

        def wrong(*arguments: Any, error: float = error, **options: Any) -> Array:
            result: Any = evaluate(*arguments, **options)
            return np.asarray(result + np.float32(error))

        monkeypatch.setattr("tcpx.evaluate", wrong)
        assert tcpx_command("run", payload, *given, "--check").status == status


def test_a_difference_relative_to_the_largest_magnitude(
    files: SimpleNamespace, tcpx_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "xy":
        np.save(files.folder / f"{name}.npy", np.full((3, 8), 1000, np.float32))
    inputs = [word for name in "xy" for word in ("--input", f"{name}={files.folder / name}.npy")]
    monkeypatch.setattr("tcpx.evaluate", lambda module, x, y, progress: x * y)
    words = ["run", files.payload, "-s", files.schedule, *inputs, "--check"]
    line = "check %out: largest difference 1e+03 (0.001 of the largest magnitude 1e+06) from the reference evaluator\n"
    for allowed in (["--relative-tolerance", "0.001"], ["--tolerance", "500", "--relative-tolerance", "0.0005"]):
        done = tcpx_command(*words, *allowed)
        assert (done.status, done.err) == (0, "")
        assert line in done.out
    done = tcpx_command(*words, "--tolerance", "1", "--relative-tolerance", "0.0009")
    assert done.status == 1
    assert done.err == (
        "definite error: the result `out` is not what the reference evaluator computes\n"
        "  required: a largest difference of at most 1 + 0.0009 of the largest magnitude\n"
        "  found: 1e+03 (0.001 of the largest magnitude 1e+06)\n"
    )
    assert tcpx_command(*words, "--relative-tolerance", "-1").status == 2


@pytest.mark.parametrize("terminal", [False, True])
def test_a_long_check_shows_how_far_it_is(
    terminal: bool, files: SimpleNamespace, tcpx_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A convolution was checked for minutes without a word: stderr says what is computed, and how long it will take."""
    shown = Event()

    def described(seconds: float, fraction: float) -> str:
        if fraction == 1:
            shown.set()
        return time_left(seconds, fraction)

    def slow(module: tcpx.Module, *arrays: Array, progress: tcpx.EvaluationProgress) -> object:
        results = evaluate(module, *arrays, progress=progress)
        assert shown.wait(60)
        return results

    evaluate = tcpx.evaluate
    monkeypatch.setattr(progress, "FIRST_ELSEWHERE", 0.001)
    monkeypatch.setattr(progress, "FIRST_ON_TERMINAL", 0.001)
    monkeypatch.setattr(run, "time_left", described)
    monkeypatch.setattr("tcpx.evaluate", slow)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    done = tcpx_command("run", files.payload, "-s", files.schedule, "--random", "1", "--size", "N=7", "--check")
    assert done.status == 0
    assert "check %out: largest difference" in done.out
    assert re.search(r"reference evaluator at %\w+ \(tcp\.\w+\): ", done.err)
    assert done.err.endswith("\r\x1b[K" if terminal else "\n")
    assert ("\n" in done.err) != terminal  # one line that is written over, cleared in the end


def test_a_short_check_shows_nothing(files: SimpleNamespace, tcpx_command: Command) -> None:
    done = tcpx_command("run", files.payload, "-s", files.schedule, "--random", "1", "--size", "N=7", "--check")
    assert (done.status, done.err) == (0, "")


def test_time_left() -> None:
    assert time_left(7, 0.001) == "7 s so far"
    assert time_left(10, 0.25) == "25% after 10 s, about 30 s left"
    assert time_left(100, 0.1) == "10% after 100 s, about 15 min left"
    assert time_left(3600, 0.1) == "10% after 3600 s, about 9.0 h left"
