"""Tables outside of the package: native code, and rows whose semantics is an operation."""

from __future__ import annotations

from os.path import relpath
from pathlib import Path

import pytest

import tcpx
from tcpx.installed import TABLES
from tcpx.target import TargetError, load_target
from tcpx.target.kernels import placeholders_of

TABLE = """\
name: mine
base: generic.yaml
helpers:
  - define:
      mine: static void mine(float *y) { *y = 0; }
kernels:
  - semantics: |
      func @row(%x: tensor<[N]x8xf32> strided, %y: tensor<[N]x8xf32> strided) -> tensor<[N]x8xf32> symbols [N: 0..4] {
        %r = tcp.add(%x, %y) : tensor<[N]x8xf32>
        tcp.return(%r)
      }
    c: mine({x}, {x_stride0}, {y}, {y_stride0}, {out}, {N}, {scratch})
    alignment: {x: 16}
    scratch: 64
    set_up: begin();
    tear_down: end();
"""


def write(folder: Path, text: str, name: str = "mine.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_native_code_is_refused_unless_it_is_allowed(tmp_path: Path) -> None:
    path = write(tmp_path, TABLE)
    for name in (path, str(path)):
        with pytest.raises(TargetError) as caught:
            load_target(name)
        found = caught.value.diagnostic
        assert found.message == "mine.yaml brings native code"
        assert found.found == "its helpers and kernels"
        assert found.fix is not None
        assert "`load_target(path, allow_native=True)`" in found.fix
    assert load_target(path, allow_native=True).name == "mine"
    with pytest.raises(TargetError, match=r"mine\.yaml brings native code"):
        tcpx.compile(tcpx.parse("func @f(%x: tensor<4xf32>) -> tensor<4xf32> { tcp.return(%x) }"), target=str(path))


@pytest.mark.parametrize(
    "text", ["flags: [-O2]", "headers: [mine.h]", "rows: []", "types: {}", "helpers: []", "kernels: []"]
)
def test_whatever_reaches_c_or_the_compiler_is_native(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, f"name: mine\nbase: generic.yaml\n{text}\n")
    with pytest.raises(TargetError) as caught:
        load_target(path)
    assert caught.value.diagnostic.found == f"its {text.partition(':')[0]}"


def test_sizes_alone_are_no_code(tmp_path: Path) -> None:
    target = load_target(write(tmp_path, "name: mine\nbase: x86_avx512.yaml\nl2: 4096\n"))
    assert (target.l2, target.rows) == (4096, load_target("x86_avx512").rows)
    other = write(tmp_path, TABLE, "base.yaml")
    for base in ("base.yaml", str(other), relpath(other, TABLES)):
        with pytest.raises(TargetError) as caught:
            load_target(write(tmp_path, f"name: mine\nbase: {base}\n"))
        assert caught.value.diagnostic.found == "its base"


def test_rows_are_added_to_those_of_the_base(tmp_path: Path) -> None:
    text = TABLE + 'rows:\n  - {name: mine_f32, type: "f32 -> f32", semantics: exp(a) - a, c: "mine_exp({a})"}\n'
    target, base = load_target(write(tmp_path, text), allow_native=True), load_target("generic")
    assert target.rows[:-1] == base.rows
    assert target.rows[-1].name == "mine_f32"
    assert (target.flags, target.headers, target.l1) == (base.flags, base.headers, base.l1)


def test_the_row_of_an_operation(tmp_path: Path) -> None:
    row = load_target(write(tmp_path, TABLE), allow_native=True).kernel("row")
    assert (row.name, row.helpers, row.scratch, row.alignment) == ("row", ("mine",), 64, {"x": 16})
    func = row.function()
    assert func.attributes == {"strided": (0, 1), "row": "row", "alignment": (16, 0, 0), "scratch": 64}
    assert placeholders_of(func) == ["x", "y", "out", "scratch", "x_stride0", "y_stride0", "N"]
    with pytest.raises(TargetError) as caught:
        load_target("generic").kernel("row")
    assert caught.value.diagnostic.message == "target generic has no row `row`"


@pytest.mark.parametrize(
    ("old", "new", "required", "found"),
    [
        ("{x_stride0}, ", "", "the placeholders {x}, {y}, {out}, {scratch}, {x_stride0}, {y_stride0}, {N}", "'mine("),
        ("{N}", "{M}", "the placeholders {x}, {y}, ", "'mine("),
        ("tcp.add(%x, %y)", "tcp.plus(%x, %y)", "a function as payload text", "unknown operation `tcp.plus`"),
        ("tcp.add(%x, %y)", "tcp.add(%x, %x)", "one structured operation on all arguments, each once", "tcp.add(x, x)"),
        ("tcp.return(%r)", "tcp.return(%x)", "one structured operation on all arguments, each once", "tcp.return(x)"),
        ("%x", "%out", "arguments with other names than the placeholders out and scratch", "out"),
        ("    scratch: 64", "    in_place: z", "an argument of the type of the result, tensor<[N]x8xf32>", "'z'"),
        ("{x: 16}", "{x: 128}", "1, 2, 4 .. 64 bytes for one of x, y, out, scratch", "x: 128"),
        ("{x: 16}", "{z: 16}", "1, 2, 4 .. 64 bytes for one of x, y, out, scratch", "z: 16"),
        ("    scratch: 64", "    stack: 64", "one of the keys semantics, c, in_place", "'stack'"),
        ("    scratch: 64", "    scratch: 64\n    requires: amx", "a feature of the table: it has none", "amx"),
        ("    c: mine", "    C: mine", "one of the keys semantics, c", "'C'"),
    ],
)
def test_a_wrong_row_is_refused(tmp_path: Path, old: str, new: str, required: str, found: str) -> None:
    assert old in TABLE
    path = write(tmp_path, TABLE.replace(old, new))
    with pytest.raises(TargetError) as caught:
        load_target(path, allow_native=True)
    diagnostic = caught.value.diagnostic
    assert diagnostic.required is not None
    assert diagnostic.found is not None
    assert diagnostic.required.startswith(required)
    assert found in diagnostic.found
    assert diagnostic.notes[0].startswith("in mine.yaml: kernels[0]")


def test_a_row_twice_is_refused(tmp_path: Path) -> None:
    kernels = TABLE.partition("kernels:\n")[2]
    with pytest.raises(TargetError, match="malformed target table") as caught:
        load_target(write(tmp_path, TABLE + kernels), allow_native=True)
    assert (caught.value.diagnostic.required, caught.value.diagnostic.found) == ("one row named row", "two")
