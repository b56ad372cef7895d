"""Frozen schedules do what the schedules did that they were made of."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

import tcpx

ROOT = Path(__file__).resolve().parents[1]
PAYLOAD = """\
func @f(%x: tensor<8x32xf32>, %w: tensor<32x32xf32>) -> tensor<8x32xf32> {
  %a = tcp.matmul(%x, %w) : tensor<8x32xf32>
  %b = tcp.matmul(%a, %w) : tensor<8x32xf32>
  tcp.return(%b)
}
"""
SCHEDULE = """\
language 1
sequence rows(mm: op<contract>) {
  knob separate mr: int = 2 in 1..8  /// rows
  tune { tile(mm, [m: mr]) } or { tile(mm, [n: 4, m: mr]) }
}
schedule s(root: func) {
  knob kc: int = 8 in pow2(4, 32)
  for mm in match some contract in root { tile(mm, [k: kc])
    rows(mm) }
}
"""


def c_of(module: tcpx.Module, schedule: tcpx.Schedule, params: dict[str, int] | None = None) -> str:
    return re.sub(r"/\*.*?\*/", "", tcpx.emit(module, schedule, target="x86_avx2", params=params).c_source)


@pytest.mark.parametrize(
    "params", [{}, {"kc": 16, "mr": 4}, {"s/a/rows.mr": 4, "s/b/rows.mr": 8}, {"tune1": 1, "s/b/rows.mr": 1}]
)
def test_values_are_written_in(params: dict[str, int]) -> None:
    module, schedule = tcpx.parse(PAYLOAD), tcpx.parse_schedule(SCHEDULE)
    text = tcpx.freeze(module, schedule, params=params, target="x86_avx2", provenance={"made": "for\na test"})
    frozen = tcpx.parse_schedule(text)
    assert text.startswith("// made: for a test\n")
    assert "knob" not in text
    assert "tune" not in text
    assert "/// rows" in text
    assert c_of(module, frozen) == c_of(module, schedule, params=params)
    assert not tcpx.apply_schedule(module, frozen, target="x86_avx2").knobs
    assert tcpx.format_schedule(text) == text


def test_what_only_knobs_have_read_is_left_out() -> None:
    """In turn, too; but no step, and not what the schedule itself does not read."""
    text = """\
language 1
schedule s(root: func) {
  let mm = match one "a" in root
  let half = size(mm.k) / 2
  let most = min(half, 64)
  let kept = tile(mm, [k: 16])
  knob kc: int = 8 in pow2(4, most)
  tile(mm, [k: kc])
}
"""
    module, schedule = tcpx.parse(PAYLOAD), tcpx.parse_schedule(text, "s.tcps")
    made = tcpx.freeze(module, schedule, target="x86_avx2")
    assert "half" not in made
    assert "most" not in made
    assert "let kept = tile(mm, [k: 16])" in made


RECIPES = """\
language 1
sequence by(way: string, mm: op<contract>) {
  tune recipe = way {
    rows => { tile(mm, [m: 2]) }
    columns => { tile(mm, [n: 4]) }
  }
}
schedule s(root: func) {
  for mm in match some contract in root {
    specialize mm when size(mm.m) < 4 { by("columns", mm) }
    else                              { by("rows", mm) }
  }
}
"""


@pytest.mark.parametrize("params", [{}, {"recipe": "columns"}, {"recipe": "rows"}])
def test_a_recipe_for_each_version(params: dict[str, str]) -> None:
    text = PAYLOAD.replace("tensor<8x32xf32>", "tensor<[M]x32xf32>").replace(" {\n", " symbols [M] {\n", 1)
    module, schedule = tcpx.parse(text), tcpx.parse_schedule(RECIPES)
    emitted = [
        re.sub(r"/\*.*?\*/", "", tcpx.emit(module, s, target="x86_avx2", params=p).c_source)
        for s, p in (
            (schedule, params),
            (tcpx.parse_schedule(tcpx.freeze(module, schedule, params=params, target="x86_avx2")), {}),
        )
    ]
    assert emitted[0] == emitted[1]


def test_imports_are_copied(tmp_path: Path) -> None:
    """Of the library, whose sequences are then of the file itself and have no warnings."""
    module = tcpx.load(ROOT / "examples/digits/digits.tcp")
    schedule = tcpx.load_schedule(ROOT / "schedules/digits.tcps")
    params = {"*/fc1/packed_gemm.kc": 64, "*/fc2/packed_gemm.mr": 4}
    path = tmp_path / "frozen.tcps"
    path.write_text(tcpx.freeze(module, schedule, params=params, target="x86_avx2", folder=tmp_path))
    assert "import" not in path.read_text()
    assert 'let kc = 64 if mm.name == "fc1" else ' in path.read_text()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frozen = tcpx.load_schedule(path)
        tcpx.check(frozen)
    assert c_of(module, frozen) == c_of(module, schedule, params=params)


def test_a_contract_is_found_from_the_new_folder(tmp_path: Path) -> None:
    (tmp_path / "f.tcp").write_text(PAYLOAD)
    old = tmp_path / "s.tcps"
    old.write_text(SCHEDULE.replace("(root: func)", '(root: func) expects "f.tcp"'))
    folder = tmp_path / "made"
    folder.mkdir()
    module = tcpx.load(tmp_path / "f.tcp")
    text = tcpx.freeze(module, tcpx.load_schedule(old), target="generic", folder=folder)
    assert 'expects "../f.tcp"' in text
    (folder / "s.tcps").write_text(text)
    assert tcpx.check(tcpx.load_schedule(folder / "s.tcps"), module, target="generic") == ()


def test_uses_that_names_do_not_tell_apart() -> None:
    payload = PAYLOAD.replace(
        "%b = tcp.matmul(%a, %w) : tensor<8x32xf32>", '%b = tcp.matmul(%a, %w) : tensor<8x32xf32> name "a"'
    )
    module = tcpx.parse(payload)
    schedule = tcpx.parse_schedule(SCHEDULE.replace("knob separate mr", "knob mr"))
    assert "let mr = 4" in tcpx.freeze(module, schedule, params={"mr": 4}, target="generic")


def test_the_default_schedule() -> None:
    module = tcpx.parse("""\
func @f(%x: tensor<[M]x64xf32>, %w: tensor<64x48xf32>) -> tensor<48x[M]xf32> symbols [M] {
  %y = tcp.matmul(%x, %w) : tensor<[M]x48xf32>
  %s = tcp.softmax(%y) {dim = 1} : tensor<[M]x48xf32>
  %t = tcp.transpose(%s) {permutation = [1, 0]} : tensor<48x[M]xf32>
  tcp.return(%t)
}
""")
    text = tcpx.freeze(module, target="x86_avx2")  # which compares the C
    assert "import" not in text
    assert ".is_a(some_products)" in text
