"""Transforms from another package: the complete example of docs/plugins.md, installed; packages that do not work."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text(encoding="utf-8")
EXAMPLE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
ENTRY = re.findall(r'entry-points\."(.*?)"\]\n(\w+) = "(.*?)"', PAGE)[0]

PAYLOAD = """func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %s = tcp.add(%x, %y) : tensor<4xf32>
  tcp.return(%s)
}
"""
SCHEDULE = """language 1
schedule f(root: func) {
  let s = match one elementwise in root
  let t = commute(s)
}
"""


def install(folder: Path, package: str, module: str, source: str, entry: str = "") -> None:
    """A distribution as pip leaves it in `site-packages`."""
    (folder / f"{module}.py").write_text(source, encoding="utf-8")
    info = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", encoding="utf-8")
    group, name, _ = ENTRY
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {entry or module}\n", encoding="utf-8")


def python(folder: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code in a Python that finds the folder: this one has looked for plugins already."""
    prelude = f"import sys; sys.path.insert(0, {str(folder)!r})\n"
    command = [sys.executable, "-c", prelude + code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=folder)


def tcpx(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, in a Python that finds the folder."""
    return python(folder, "from tcpx.cli import main; sys.exit(main())", *arguments)


@pytest.fixture
def acme(tmp_path: Path) -> Path:
    install(tmp_path, "acme-tcpx", ENTRY[2], EXAMPLE)
    (tmp_path / "f.tcp").write_text(PAYLOAD, encoding="utf-8")
    (tmp_path / "f.tcps").write_text(SCHEDULE, encoding="utf-8")
    return tmp_path


def test_checks_and_runs_from_a_schedule(acme: Path) -> None:
    done = tcpx(acme, "check", "f.tcps")
    assert (done.returncode, done.stderr) == (0, "")
    code = """
import tcpx
run = tcpx.apply_schedule(tcpx.load("f.tcp"), tcpx.load_schedule("f.tcps"))
print(run.module.main.text())
"""
    done = python(acme, code)
    assert (done.returncode, done.stderr) == (0, "")
    assert "tcp.add(%y, %x)" in done.stdout


def test_runs_from_python(acme: Path) -> None:
    code = """
import inspect
import tcpx
file = tcpx.ScheduleFile("f.tcps")
with file.schedule("f") as s:
    root = s.param("func")
    op = s.match_one("elementwise", root)
    t = s.commute(op)
    print(inspect.signature(s.commute), inspect.getdoc(s.commute).splitlines()[0])
print(tcpx.apply_schedule(tcpx.load("f.tcp"), file).module.main.text())
print(file)
"""
    (acme / "f.py").write_text(code, encoding="utf-8")
    done = python(acme, "import runpy; runpy.run_path('f.py')")
    assert (done.returncode, done.stderr) == (0, "")
    assert "(target: 'op') Swap the operands" in done.stdout
    assert "tcp.add(%y, %x)" in done.stdout
    assert "let t = commute(op)" in done.stdout


def test_is_listed_and_has_a_page(acme: Path) -> None:
    assert "\n  commute(target: op) -> op\n      Swap the operands" in tcpx(acme, "ops", "--transforms").stdout
    assert "an elementwise operation with two operands" in tcpx(acme, "ops", "commute").stdout


def test_wrong_use_is_found_as_of_a_built_in_transform(acme: Path) -> None:
    (acme / "wrong.tcps").write_text(SCHEDULE.replace("commute(s)", "commute(s, targt: s)"), encoding="utf-8")
    done = tcpx(acme, "check", "wrong.tcps")
    assert done.returncode == 1
    assert "`commute` has no parameter `targt`" in done.stderr + done.stdout
    assert "did you mean `target`?" in done.stderr + done.stdout


def test_the_example_of_its_page_holds(acme: Path) -> None:
    code = """
import inspect, re, textwrap
import tcpx
page = inspect.cleandoc(tcpx.transforms()["commute"].__doc__)
before, statement, after = map(textwrap.dedent, re.split(r"\\n(?:before|statement|after):\\n", page)[1:])
schedule = f"language 1\\nschedule f(root: func) {{ let s = match one \\"s\\" in root; {statement.strip()} }}\\n"
run = tcpx.apply_schedule(tcpx.parse(before), tcpx.parse_schedule(schedule))
assert run.module.main.text() == tcpx.parse(after).main.text(), run.module.main.text()
"""
    done = python(acme, code)
    assert (done.returncode, done.stderr) == (0, "")


LIST = """
import warnings
import tcpx
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    known = tcpx.transforms()
print("tile" in known, "commute" in known, tcpx.transforms()["tile"].__module__)
for warning in caught:
    print(warning.message)
print(len(tcpx.transform.plugin_problems()))
"""


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import not_there\n", "ModuleNotFoundError: No module named 'not_there'"),
        ("x = (\n", "SyntaxError"),
        (EXAMPLE.replace('"commute"', '"tile"'), "two transforms are called `tile`"),
        (EXAMPLE.replace('name = "commute"', ""), "has no name"),
        (EXAMPLE.replace('"commute"', '"size"'), "`size`"),
        (EXAMPLE.replace('"commute"', '"other"') + "\nraise OSError('no licence')\n", "OSError: no licence"),
    ],
    ids=["missing", "syntax", "taken", "nameless", "hidden", "late"],
)
def test_a_package_that_does_not_work_is_named_and_left_out(source: str, found: str, tmp_path: Path) -> None:
    install(tmp_path, "broken-tcpx", "broken_tcpx", source)
    install(tmp_path, "acme-tcpx", ENTRY[2], EXAMPLE)
    done = python(tmp_path, LIST)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "True True tcpx.transform.ops.tile"
    assert lines[1] == "warning: the transforms of the package broken-tcpx 1.0 cannot be used"
    assert found in done.stdout
    assert "`acme = broken_tcpx` of the group tcpx.transforms" in done.stdout
    assert lines[-1] == "1"
    if "size" not in found:
        assert "broken_tcpx.py" in lines[2]


def test_the_warning_is_at_the_line_that_asked(tmp_path: Path) -> None:
    install(tmp_path, "broken-tcpx", "broken_tcpx", "import not_there\n")
    (tmp_path / "asks.py").write_text("import tcpx\n\nknown = tcpx.transforms()\n", encoding="utf-8")
    done = python(tmp_path, "import asks")
    assert done.returncode == 0
    assert done.stderr.splitlines()[0].endswith(
        "asks.py:3: PluginWarning: warning: the transforms of the package broken-tcpx 1.0 cannot be used"
    )
    assert done.stderr.splitlines()[-1] == "  known = tcpx.transforms()"


def test_the_command_shows_no_line_of_python(tmp_path: Path) -> None:
    install(tmp_path, "broken-tcpx", "broken_tcpx", "import not_there\n")
    done = tcpx(tmp_path, "ops", "--transforms")
    assert done.returncode == 0
    assert done.stderr.splitlines()[0] == "warning: the transforms of the package broken-tcpx 1.0 cannot be used"
    assert "PluginWarning" not in done.stderr
    assert "warnings.warn" not in done.stderr


def test_an_unknown_name_tells_of_the_package_that_failed(tmp_path: Path) -> None:
    install(tmp_path, "broken-tcpx", "broken_tcpx", "import not_there\n")
    (tmp_path / "f.tcps").write_text(SCHEDULE, encoding="utf-8")
    done = tcpx(tmp_path, "check", "f.tcps")
    assert done.returncode == 1
    assert "there is no transform, sequence or function `commute`" in done.stdout + done.stderr
    assert "note: the transforms of the package broken-tcpx 1.0 cannot be used" in done.stdout + done.stderr


def test_a_schedule_of_known_names_loads_no_package(tmp_path: Path) -> None:
    install(tmp_path, "broken-tcpx", "broken_tcpx", "import not_there\n")
    (tmp_path / "f.tcp").write_text(PAYLOAD, encoding="utf-8")
    code = """
import sys
import tcpx
text = "language 1; sequence commute(x: op) { tile(x, [d0: 2]) }"
text += "; schedule f(root: func) { let s = match one elementwise in root; commute(s) }"
schedule = tcpx.parse_schedule(text)
print(tcpx.check(schedule), tcpx.check(schedule, tcpx.load("f.tcp")), "tcpx.transform.plugins" in sys.modules)
"""
    done = python(tmp_path, code)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "() () False\n"


def test_a_sequence_hides_a_transform_of_a_package(acme: Path) -> None:
    sequence = "sequence commute(x: op) -> loop { let i = tile(x, [d0: 2]); return i }"
    (acme / "f.tcps").write_text(SCHEDULE.replace("schedule", f"{sequence}\nschedule"), encoding="utf-8")
    code = """
import tcpx
print([e.transform for e in tcpx.apply_schedule(tcpx.load("f.tcp"), tcpx.load_schedule("f.tcps")).trace.entries])
"""
    done = python(acme, code)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "['tile']\n")


def test_a_name_of_tcpx_is_taken_before_its_transform_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(EXAMPLE.replace('"commute"', '"unroll"'), encoding="utf-8")
    done = python(tmp_path, "import mine")
    assert "two transforms are called `unroll`" in done.stderr
    assert "found: `unroll` in tcpx.transform.ops.unroll and in mine" in done.stderr


def test_an_entry_point_may_name_a_class(tmp_path: Path) -> None:
    source = EXAMPLE.replace("@register\n", "")
    install(tmp_path, "acme-tcpx", ENTRY[2], source, f"{ENTRY[2]}:Commute")
    assert python(tmp_path, LIST).stdout.splitlines()[0] == "True True tcpx.transform.ops.tile"
