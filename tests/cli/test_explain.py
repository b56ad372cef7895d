"""tcpx explain: every step, also those before a failure; as text, as a page, again on every save."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tcpx.cli.watching import POLL_SECONDS, run_on_save

Command = Callable[..., SimpleNamespace]


def test_explain(files: SimpleNamespace, tcpx_command: Command) -> None:
    done = tcpx_command("explain", files.payload, "-s", files.schedule, "--param", "height=8")
    assert (done.status, done.err) == (0, "")
    for expected in (
        "step 1: let i = tile(s, [d0: height])",
        f"  at {files.schedule}:6:3",
        f"  in rows, called from {files.schedule}:12:",
        "  target = %s",
        "  sizes = [d0: 8]",
        "  -> i = %s/d01",
        "  | func @axpy",
        " in 0 to N step 8  (axpy.tcps:6)",
        "    @@ -1,5 +1,11 @@",
        "    -   %s = tcp.add(%r, %y) : tensor<[N]x8xf32>",
        "    +     gml_st.yield(",
        "step 2: print(i)",
        "step 3: canonicalize(root)",
        "  after the schedule, for lack of a statement",
        "  height = 8 (overridden)",
        "no statement touched %r",
        " lines of C",
    ):
        assert expected in done.out, expected
    assert "\x1b[" not in done.out
    first = done.out.partition("\nstep 2")[0]
    new = [line.strip() for line in first.splitlines() if line.startswith("  + ")]
    assert len(new) == 1
    assert " in 0 to N step 8" in new[0]


def test_why(files: SimpleNamespace, tcpx_command: Command, tmp_path: Path) -> None:
    page = tmp_path / "why.json"
    options = ("-s", files.schedule, "--target", "zen4", "--size", "N=64", "--json", str(page))
    done = tcpx_command("explain", files.payload, "--why", *options)
    assert (done.status, done.err) == (0, "")
    head, core, *lines = done.out.splitlines()
    assert head.startswith("@axpy for zen4 at N = 64: ")
    assert core == "core: AMD Zen 4"
    assert lines[-1] == f"wrote {page}"
    for word in ("throughput", "latency", "bytes", "bound", "next"):
        assert any(line.startswith(f"    {word}") for line in lines), word
    held = json.loads(page.read_text())
    assert held["sizes"] == {"N": 64}
    name = held["nests"][0]["name"]
    assert tcpx_command("explain", files.payload, "--why", name, *options[:-2]).out.count(f" {name}: ") == 1
    done = tcpx_command("explain", files.payload, "--why", "nest", *options[:-2])
    assert done.status == 1
    assert "@axpy has no nest `nest`" in done.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--json", "x.json"), "--json writes what --why says: add --why"),
        (("--why", "--step", "1"), "--why shows no steps: leave out --step"),
    ],
)
def test_what_does_not_go_together_with_why(
    files: SimpleNamespace, tcpx_command: Command, options: tuple[str, ...], message: str
) -> None:
    done = tcpx_command("explain", files.payload, *options)
    assert done.status == 2
    assert message in done.err


def test_colours_where_they_are_asked_for(files: SimpleNamespace, tcpx_command: Command) -> None:
    done = tcpx_command("explain", files.payload, "-s", files.schedule, "--color", "always")
    assert "\x1b[32m+" in done.out
    assert "\x1b[31m-" in done.out


def test_only_some_steps(files: SimpleNamespace, tcpx_command: Command) -> None:
    def shown(*options: str) -> list[str]:
        done = tcpx_command("explain", files.payload, "-s", files.schedule, *options)
        assert done.status == 0
        return [line.partition(":")[0] for line in done.out.splitlines() if line.startswith("step ")]

    assert shown("--only", "tile") == ["step 1"]
    assert shown("--only", "tile", "--only", "print") == ["step 1", "step 2"]
    assert shown("--step", "2") == ["step 2"]
    assert shown("--func", "axpy", "--step", "1") == ["step 1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--step", "99"],
            "definite error: there is no step 99 (--step)\n  required: 1 to 7\n  found: 7 steps\n",
        ),
        (
            ["--only", "unroll"],
            "definite error: no step is of `unroll` (--only)\n  required: a transform that ran\n"
            "  found: tile, print, canonicalize",
        ),
        (
            ["--step", "2", "--only", "tile"],
            "definite error: no step is one of --step and of a transform of --only\n"
            "  required: a step that is both\n  found: step 2 is of `print`\n",
        ),
    ],
)
def test_steps_that_are_not_there(
    options: list[str], message: str, files: SimpleNamespace, tcpx_command: Command
) -> None:
    done = tcpx_command("explain", files.payload, "-s", files.schedule, *options)
    assert done.status == 1
    assert done.err.startswith(message)


def test_wrong_options(files: SimpleNamespace, tcpx_command: Command) -> None:
    unknown = tcpx_command("explain", files.payload, "-s", files.schedule, "--only", "tyle")
    assert unknown.status == 2
    assert "there is no transform `tyle`" in unknown.err
    assert tcpx_command("explain", files.payload, "--step", "0").status == 2
    for chosen in (("--step", "1"), ("--only", "tile")):
        both = tcpx_command("explain", files.payload, "-s", files.schedule, "--html", "page.html", *chosen)
        assert both.status == 2
        assert "a page (--html) shows all steps and has a filter of its own: leave out --step and --only" in both.err
    missing = tcpx_command("explain", files.payload, "-s", files.schedule, "--func", "axpi")
    assert missing.status == 1
    assert "did you mean `axpy`" in missing.err


def test_steps_before_a_failure_are_shown(files: SimpleNamespace, tcpx_command: Command) -> None:
    text = (
        'language 1\nschedule f(root: func) {\n  let s = match one elementwise in root where name == "s"\n'
        "  let i = tile(s, [d0: 4])\n  let j = tile(s, [d0: 0])\n}\n"
    )
    done = tcpx_command("explain", files.payload, "-s", files.write("f.tcps", text))
    assert done.status == 1
    assert "step 1: let i = tile(s, [d0: 4])" in done.out
    assert "step 2" not in done.out
    assert "let j = tile(s, [d0: 0])" in done.err


def test_a_try_goes_back_to_what_was_before_it(files: SimpleNamespace, tcpx_command: Command) -> None:
    text = (
        'language 1\nschedule f(root: func) {\n  let s = match one elementwise in root where name == "s"\n'
        "  try { let i = tile(s, [d0: 4])\n  let j = tile(s, [d0: 0]) } else { let k = tile(s, [d1: 2]) }\n}\n"
    )
    done = tcpx_command("explain", files.payload, "-s", files.write("f.tcps", text), "--only", "tile")
    assert done.status == 0
    taken = done.out.rpartition("\nstep 1: let k")[2]
    assert "step 4" not in taken
    assert "    -   %s = tcp.add(%r, %y) : tensor<[N]x8xf32>" in taken


def test_marks(files: SimpleNamespace, tcpx_command: Command) -> None:
    text = (
        'language 1\nschedule f(root: func) {\n  let s = match one elementwise in root where name == "s"\n'
        "  let i = tile(s, [d0: 4])\n  fuse(producer(s.lhs), into: i)\n}\n"
    )
    done = tcpx_command("explain", files.payload, "-s", files.write("f.tcps", text))
    assert (done.status, done.err) == (0, "")
    parts = done.out.split("\nstep ")[:3]
    nests = [[line[2:] for line in part.splitlines() if line[2:4] in ("| ", "+ ", "~ ")] for part in parts]
    assert [[line[0] for line in nest if line] for nest in nests] == [
        ["|", "|", "|"],
        ["|", "|", "+", "~"],
        ["|", "|", "~", "|"],
    ]


def test_a_page(files: SimpleNamespace, tcpx_command: Command, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = tcpx_command("explain", files.payload, "-s", files.schedule, "--html", str(page))
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(f"wrote {page}: 7 steps, ")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_watch_runs_again_on_a_save_and_ends_cleanly(files: SimpleNamespace) -> None:
    imported = files.write("part.tcps", "language 1\nsequence part(s: op) { let i = tile(s, [d0: 4]) }\n")
    main = files.write(
        "main.tcps",
        'language 1\nimport "part.tcps" as part\nschedule s(root: func) {\n'
        '  let s = match one elementwise in root where name == "s"\n  part.part(s)\n}\n',
    )
    command = [sys.executable, "-m", "tcpx.cli", "explain", files.payload, "-s", main, "--watch", "--step", "1"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        assert process.stdout is not None

        def read_until(wanted: str) -> str:
            lines: list[str] = []
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line)
                if wanted in line:
                    return "".join(lines)
            raise AssertionError("".join(lines))

        try:
            assert "in 0 to N step 4" in read_until("watching 3 file(s)")
            Path(imported).write_text(
                "language 1\nsequence part(s: op) { let i = tile(s, [d0: 16]) }\n", encoding="utf-8"
            )
            assert "in 0 to N step 16" in read_until("watching 3 file(s)")
            Path(main).write_text("language 1\nschedule s(root: func) { tyle(root) }\n", encoding="utf-8")
            assert "`tyle`" in read_until("watching")
            process.send_signal(signal.SIGINT)
            assert "Traceback" not in process.stdout.read()
        finally:
            process.kill()  # one that is done already does not mind
    assert process.returncode == 0


def test_a_file_that_is_emptied_before_it_is_filled_is_read_once(tmp_path: Path) -> None:
    file = tmp_path / "main.tcps"
    file.write_text("first", encoding="utf-8")
    read: list[str] = []

    def save() -> None:
        file.write_text("", encoding="utf-8")
        time.sleep(POLL_SECONDS / 2)
        file.write_text("second", encoding="utf-8")

    def run() -> list[Path]:
        read.append(file.read_text(encoding="utf-8"))
        if len(read) == 2:
            raise KeyboardInterrupt
        saver.start()
        return []

    saver = threading.Thread(target=save)
    assert run_on_save(run, [file]) == 0
    saver.join()
    assert read == ["first", "second"]


def test_what_ran_is_named_and_what_the_library_has_for_others_is_counted(
    files: SimpleNamespace, tcpx_command: Command
) -> None:
    """By the default policy it printed forty lines of the library that never ran, and not what did."""
    product = files.write(
        "product.tcp",
        "func @f(%x: tensor<128x256xf32>, %w: tensor<256x256xf32>) -> tensor<128x256xf32> {\n"
        "  %mm = tcp.matmul(%x, %w) : tensor<128x256xf32>\n  tcp.return(%mm)\n}\n",
    )
    done = tcpx_command("explain", product, "--target", "x86_avx512")
    assert (done.status, done.err) == (0, "")
    assert "never ran" not in done.out
    end = done.out.partition("\nran:\n")[2]
    assert end.startswith(
        "  default.tcps: default, whole, rest\n  attention.tcps: masks, attention\n"
        "  contractions.tcps: read_as_stored, read_untransposed, widen_left, as_matrices, with_epilogue, "
    )
    assert "\n  panel_gemm.tcps: tile_gemm\n" in end
    assert re.search(r"\nleft alone:\n  \d+ statements of the library are for other payloads or threads \(", end)
    assert len(end.splitlines()) < 14

    own = files.write(
        "own.tcps",
        'language 1\nimport "lib/small_gemm.tcps" as small\n'
        "sequence unused(x: op) { dce(x) }\n"
        "schedule s(root: func) {\n  let mm = match one contract in root\n"
        "  if threads > 64 { dce(mm) }\n  small.direct_gemm(mm)\n}\n",
    )
    done = tcpx_command("explain", product, "-s", own, "--target", "x86_avx512")
    assert (done.status, done.err) == (0, "")
    end = done.out.partition("\nran:\n")[2]
    assert end.startswith("  own.tcps: s\n  small_gemm.tcps: direct_gemm\n")
    assert f"  never ran: {own}:6:21: if threads > 64 {{ dce(mm) }}\n" in end
    assert f"  never ran: {own}:3:1: sequence unused(x: op) {{ dce(x) }}\n" in end
    assert end.count("never ran") == 2
