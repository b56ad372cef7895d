"""tcpx check: with a schedule, a payload, or both."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import tcpx

Command = Callable[..., SimpleNamespace]


def test_schedule_alone(files: SimpleNamespace, tcpx_command: Command) -> None:
    done = tcpx_command("check", "-s", files.schedule)
    assert (done.status, done.err) == (0, "")
    assert "nothing is wrong" in done.out
    assert tcpx_command("check", "-s", files.wrong_dim).status == 0


def test_a_schedule_of_the_library(tcpx_command: Command, tmp_path: Path) -> None:
    """A path is looked up in the library where there is no such file."""
    done = tcpx_command("check", "-s", "models/minilm.tcps")
    assert (done.status, done.err) == (0, "")
    (tmp_path / "models").mkdir()
    (tmp_path / "models/minilm.tcps").write_text("language 3")
    assert tcpx_command("check", "-s", str(tmp_path / "models/minilm.tcps")).status == 1
    assert "cannot read" in tcpx_command("check", "-s", "models/none.tcps").err
    assert "cannot read" in tcpx_command("check", "-s", f"{'long' * 1000}.tcps").err


def test_a_schedule_as_file(files: SimpleNamespace, tcpx_command: Command) -> None:
    done = tcpx_command("check", files.schedule)
    assert (done.status, done.err) == (0, "")
    assert f"{files.schedule}: nothing is wrong" in done.out
    twice = tcpx_command("check", files.schedule, "-s", files.schedule)
    assert twice.status == 2
    assert "found two schedules" in twice.err
    disguised = files.write("schedule.txt", "language 1\n")
    assert "this looks like a schedule" in tcpx_command("check", disguised).err


def test_params_of_a_schedule_alone(files: SimpleNamespace, tcpx_command: Command) -> None:
    path = files.write(
        "knobs.tcps",
        "language 1\nschedule s(root: func, wide: bool = false) {\n  let mm = match any matmul in root\n"
        "  for one in mm { rows(one) }\n}\n"
        "sequence rows(mm: op) {\n  knob mr: int = 4 in 1..8\n"
        "  tune { tile(mm, [m: mr]) } or { tile(mm, [n: mr]) }\n}\n",
    )
    for good in ("mr=2", "wide=true", "tune1=1", "*.mr=2", "*/rows.mr=2", "*r=2", "s/[ab]*/rows.mr=2"):
        assert tcpx_command("check", path, "--param", good).status == 0, good
    for bad, fix in (("mrr=2", "did you mean `mr`?"), ("?r=2", None), ("*.nr=2", None), ("tune2=1", "`tune1`?")):
        done = tcpx_command("check", path, "--param", bad)
        assert done.status == 1, bad
        assert f"the parameter `{bad.partition('=')[0]}` (= " in done.err
        assert "mr, tune1, wide" in done.err
        assert fix is None or fix in done.err


def test_payload_alone(files: SimpleNamespace, tcpx_command: Command) -> None:
    done = tcpx_command("check", files.payload)
    assert (done.status, done.err) == (0, "")
    assert "well formed" in done.out


def test_both(files: SimpleNamespace, tcpx_command: Command) -> None:
    done = tcpx_command("check", files.payload, "-s", files.schedule)
    assert (done.status, done.err) == (0, "")
    assert "2 step(s) apply to @axpy" in done.out
    assert "remark: no statement touched %r" in done.out


def test_every_static_problem_is_said(files: SimpleNamespace, tcpx_command: Command) -> None:
    path = files.write(
        "two.tcps",
        "language 1\nschedule two(root: func) {\n  let a = tyle(root)\n  let b = match one nonsense in root\n}\n",
    )
    done = tcpx_command("check", "-s", path)
    assert (done.status, done.out) == (1, "")
    assert f"{path}:3:" in done.err
    assert f"{path}:4:" in done.err
    assert "2 problem(s)" in done.err


def test_every_problem_with_a_payload_is_said(files: SimpleNamespace, tcpx_command: Command) -> None:
    path = files.write(
        "misfit.tcps",
        'language 1\nschedule s(root: func) {\n  let r = match one op "r" in root\n  tile(r, [qq: 4])\n'
        "  tile(r, [d0: 0])\n  let x = match one softmax in root\n  decompose(x)\n}\n",
    )
    done = tcpx_command("check", files.payload, "-s", path)
    assert (done.status, done.out) == (1, "")
    for line in (4, 5, 6):
        assert f"{path}:{line}:" in done.err
    assert "3 problem(s)" in done.err


def test_unknown_transform(files: SimpleNamespace, tcpx_command: Command) -> None:
    done = tcpx_command("check", files.payload, "-s", files.wrong_name)
    assert done.status == 1
    assert "fix: did you mean `tile`?" in done.err
    assert "^^^" in done.err


def test_wrong_syntax(files: SimpleNamespace, tcpx_command: Command) -> None:
    done = tcpx_command("check", "-s", files.write("s.tcps", "language 1\nschedule s(root: func) {\n  let = 3\n}\n"))
    assert done.status == 1
    assert "3 |   let = 3" in done.err


UNREAD = """language 1
import "rows.tcps" as rows
schedule s(root: func) {
  knob width: int = 4 in [4, 8]
  let r = match one op "r" in root
  tile(r, [d0: 2])
}
"""


@pytest.mark.filterwarnings("always::tcpx.ScheduleWarning")
@pytest.mark.parametrize(
    "command",
    [["check"], ["run", "--random", "0", "--size", "N=4"], ["emit", "--output"], ["explain"]],
    ids=lambda c: c[0],
)
def test_what_nothing_reads_is_a_warning_of_every_command(
    command: list[str], files: SimpleNamespace, tcpx_command: Command
) -> None:
    files.write("rows.tcps", "language 1\nsequence rows(x: op) {\n  tile(x, [d0: 4])\n}\n")
    path = files.write(f"{command[0]}.tcps", UNREAD)
    name, *options = command
    folder = [str(files.folder)] if name == "emit" else []
    done = tcpx_command(name, files.payload, "-s", path, *options, *folder)
    assert done.status == 0
    for what in ("the import `rows`", "the knob `width`"):
        assert done.err.count(f"warning: nothing reads {what}") == 1
    assert f"--> {path}:4:3" in done.err


def test_in_python_they_are_warnings_at_the_line_of_the_schedule(files: SimpleNamespace) -> None:
    text = UNREAD.replace('import "rows.tcps" as rows\n', "")
    module, schedule = tcpx.load(files.payload), tcpx.load_schedule(files.write("python.tcps", text))
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        tcpx.emit(module, schedule, target="generic")
    (warning,) = [w for w in shown if w.category is tcpx.ScheduleWarning]
    assert (Path(warning.filename).name, warning.lineno) == ("python.tcps", 3)
    assert "nothing reads the knob `width`" in str(warning.message)


TABLE = """\
name: mine
base: generic.yaml
kernels:
  - semantics: |
      func @sum8(%x: tensor<[N]x8xf32>, %y: tensor<[N]x8xf32>) -> tensor<[N]x8xf32> symbols [N: 0..4] {
        %r = tcp.add(%x, %y) : tensor<[N]x8xf32>
        tcp.return(%r)
      }
    c: for (int64_t i = 0; i < 8 * ({N}); i++) ({out})[i] = ({x})[i] + ({y})[i]
"""


def test_a_table_of_a_target(files: SimpleNamespace, tcpx_command: Command) -> None:
    table = files.write("mine.yaml", TABLE)
    refused = tcpx_command("check", table)
    assert refused.status == 1
    assert "mine.yaml brings native code" in refused.err
    assert "`--allow-native` on the command line" in refused.err
    done = tcpx_command("check", table, "--allow-native")
    assert (done.status, done.err) == (0, "")
    assert f"{table}: the table is well formed; 1 row(s) do what their semantics say" in done.out
    wrong = files.write("wrong.yaml", TABLE.replace("] + (", "] - ("))
    done = tcpx_command("check", wrong, "--allow-native")
    assert done.status == 1
    assert "the C of the row sum8 does not do what its semantics say" in done.err
    assert tcpx_command("check", table, "-s", files.schedule).status == 2
    sizes = files.write("sizes.yaml", "name: small\nbase: generic.yaml\nl2: 65536\n")
    assert "0 row(s)" in tcpx_command("check", sizes).out


def test_the_rows_of_a_table_that_is_the_target(files: SimpleNamespace, tcpx_command: Command) -> None:
    table, wrong = files.write("mine.yaml", TABLE), files.write("wrong.yaml", TABLE.replace("] + (", "] - ("))
    for words in ((files.payload,), (files.payload, "-s", files.schedule), ("-s", files.schedule)):
        refused = tcpx_command("check", *words, "--target", table)
        assert (refused.status, "mine.yaml brings native code" in refused.err) == (1, True)
    done = tcpx_command("check", files.payload, "--target", table, "--allow-native")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("mine: the table is well formed; 1 row(s) do what their semantics say\n")
    done = tcpx_command("check", files.payload, "-s", files.schedule, "--target", wrong, "--allow-native")
    assert done.status == 1
    assert "the C of the row sum8 does not do what its semantics say" in done.err


def test_a_payload_alone_says_that_the_default_was_not_run(files: SimpleNamespace, tcpx_command: Command) -> None:
    done = tcpx_command("check", files.payload)
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"{files.payload}: the payload is well formed; no schedule was run over it, not the default one either:",
        f"  `tcpx explain {files.payload}` says what that copies and leaves alone",
    ]


def test_a_table_as_target(files: SimpleNamespace, tcpx_command: Command) -> None:
    table = files.write("mine.yaml", TABLE)
    schedule = files.write(
        "rows.tcps",
        'language 1\nschedule s(root: func) {\n  let s = match one "s" in root\n  let i = tile(s, [d0: 4])\n'
        "  lower_to(s, sum8)\n}\n",
    )
    command = ("run", files.payload, "-s", schedule, "--random", "1", "--size", "N=5", "--target", table)
    assert tcpx_command(*command).status == 1
    done = tcpx_command(*command, "--allow-native")
    assert (done.status, done.err) == (0, "")
    assert tcpx_command("run", files.payload, "--target", "cray").status == 2
    tuned = tcpx_command("tune", files.payload, "-s", schedule, "--target", table, "--allow-native")
    assert tuned.status == 2
    assert "required an installed target" in tuned.err
