"""tcpx bench: workloads of the checkout, a payload alone, wrong command lines."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from types import SimpleNamespace

import pytest

from tcpx.cli import bench
from tcpx.measure.limits import Limits, Machine
from tcpx.measure.rows import read_rows

Command = Callable[..., SimpleNamespace]
QUICK = ("--rounds", "1", "--samples", "1", "--patience", "0.2", "--quick")


def test_list(tcpx_command: Command) -> None:
    done = tcpx_command("bench", "--list", "gemm/*")
    assert (done.status, done.err) == (0, "")
    assert "gemm/256" in done.out.splitlines()
    assert all(name.startswith("gemm/") for name in done.out.splitlines())


def test_random_shapes_say_their_seed(tcpx_command: Command) -> None:
    done = tcpx_command("bench", "--list", "--random", "3")
    again = tcpx_command("bench", "--list", "--random", "3")
    assert done.out == again.out
    assert done.out.startswith("seed 3: the same shapes with --random 3\n")
    assert len(done.out.splitlines()) == 51


def test_a_workload_beside_numpy(tmp_path: Path, tcpx_command: Command) -> None:
    out = tmp_path / "out.json"
    done = tcpx_command("bench", "gemm/3x5x7", "--peers", "numpy,tcpx-again", "-o", str(out), *QUICK)
    assert (done.status, done.err) == (0, "")
    assert f"wrote {out}" in done.out
    rows = read_rows(out)
    assert [row.peer for row in rows] == ["machine", "tcpx", "numpy", "tcpx-again"]
    assert all(row.status in ("measured", "unsteady") for row in rows)
    assert all(row.error is not None and row.error <= 1 for row in rows[1:])


def test_a_payload_alone(files: SimpleNamespace, tmp_path: Path, tcpx_command: Command) -> None:
    out = tmp_path / "out.json"
    done = tcpx_command("bench", files.payload, "-s", files.schedule, "--size", "N=64", "-o", str(out), *QUICK)
    assert done.err == ""
    assert "tcpx alone" in done.out
    assert [row.peer for row in read_rows(out)] == ["machine", "tcpx"]


@pytest.mark.parametrize(
    "words",
    [
        ["--threads", "0", "gemm/256"],
        ["--rounds", "-1", "gemm/256"],
        ["--samples", "0", "gemm/256"],
        ["--patience", "nan", "gemm/256"],
        ["--patience", "0", "gemm/256"],
        ["x.tcp", "gemm/256"],
        ["x.tcp", "--peers", "numpy"],
        ["x.tcp", "--against", "HEAD"],
        ["x.tcp", "--random", "0"],
        ["gemm/256", "--keep", "--random"],
        ["gemm/256", "--size", "N=4"],
        ["gemm/256", "-s", "x.tcps"],
    ],
)
def test_a_wrong_command_line_is_2(words: list[str], tcpx_command: Command) -> None:
    done = tcpx_command("bench", *words)
    assert (done.status, done.out) == (2, "")
    assert done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nope"], "no workload is called nope"),
        (["gemm/256", "--peers", "nope"], "there is no peer nope"),
        (["gemm/256", "--threads", "9999"], "more threads than CPUs"),
        (["gemm/256", "-o", "out.txt"], "cannot write the rows"),
        (["gemm/256", "--against", "nope"], "there is no revision nope"),
        (["absent.yaml"], "cannot read the workloads"),
        (["absent.tcp"], "cannot read absent.tcp"),
    ],
)
def test_what_is_refused_is_1(words: list[str], message: str, tcpx_command: Command) -> None:
    done = tcpx_command("bench", *words)
    assert done.status == 1
    assert message in done.err
    assert "required" in done.err


def test_the_page_of_what_was_kept(tmp_path: Path, tcpx_command: Command) -> None:
    page = tmp_path / "bench.html"
    done = tcpx_command("bench", "--page", str(page))
    assert (done.status, done.out, done.err) == (0, f"wrote {page}\n", "")
    assert "<title>Workloads over time</title>" in page.read_text(encoding="utf-8")


def test_without_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tcpx_command: Command) -> None:
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    done = tcpx_command("bench", "gemm/256")
    assert done.status == 1
    assert "the workloads are not installed" in done.err
    assert "tcpx bench FILE.tcp" in done.err


@pytest.mark.parametrize("quick", [True, False])
def test_what_a_quick_run_measures(
    quick: bool, files: SimpleNamespace, tcpx_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--quick` took 27 s for a kernel of 0.1 ms: all limits of the machine, before and after, of which one counts."""
    asked: list[list[str] | None] = []

    def limits(machine: Machine, only: Collection[str] | None = None) -> Limits:
        asked.append(None if only is None else list(only))
        return Limits(1, {"read_l1": 1e12, "read_l2": 1e11}, machine.caches())

    monkeypatch.setattr(Machine, "limits", limits)
    words = ["--rounds", "1", "--samples", "1", "--patience", "0.2"]
    done = tcpx_command("bench", files.payload, "--size", "N=64", *words, *(["--quick"] if quick else []))
    assert done.err == ""
    assert asked == ([["read_l1"]] if quick else [None, None])
    assert ("once (--quick)" if quick else "before and after, which takes longest") in done.out
