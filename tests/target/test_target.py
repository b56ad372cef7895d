"""Loading targets: names, features, types, selection of rows, and what a malformed table is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcpx.payload.diagnostics import TcpxError
from tcpx.processor import parse_cpu_information
from tcpx.target import LaneType, TargetError, available_targets, load_target, parse_lane_type
from tcpx.target.loader import native_target
from tcpx.target.reading import read_target
from tcpx.target.rows import KINDS

AVX2 = frozenset({"avx2", "fma", "f16c", "bmi2"})
AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl"}


def test_the_installed_targets() -> None:
    assert available_targets() == ("generic", "sapphire_rapids", "x86_avx2", "x86_avx512", "zen3", "zen4", "zen5")


@pytest.mark.parametrize("name", available_targets())
def test_a_table_is_whole(name: str) -> None:
    target = load_target(name)
    assert target.name == name
    assert target.l1 < target.l2 < target.l3
    assert target.l3_rate > 0
    assert target.parallel_threshold > 0
    assert {"-O3", "-std=c11", "-ffp-contract=off"} <= set(target.flags)
    assert not any("fast" in flag or "unsafe" in flag or "finite" in flag for flag in target.flags)
    assert len({row.name for row in target.rows}) == len(target.rows)
    assert (
        {"prefetch_read", "prefetch_write", "compute", "masked_store"}
        <= {row.kind for row in target.rows}
        <= set(KINDS)
    )
    for row in target.rows:
        assert target.row(row.name) is row
        assert set(row.helpers) <= set(target.helpers)
        for type_ in (*row.operands, *((row.result,) if row.result else ())):
            assert target.has_type(*type_)


@pytest.mark.parametrize(
    ("name", "f32", "f64", "si8"), [("generic", 4, 2, 16), ("x86_avx2", 8, 4, 32), ("x86_avx512", 16, 8, 64)]
)
def test_lanes_follow_from_the_vector_width(name: str, f32: int, f64: int, si8: int) -> None:
    target = load_target(name)
    assert (target.lanes("f32"), target.lanes("f64"), target.lanes("si8")) == (f32, f64, si8)
    assert target.c_type("f32", 1) == "float"
    assert target.has_type("f32", f32)
    with pytest.raises(TargetError, match="no vector type f32x3"):
        target.c_type("f32", 3)
    with pytest.raises(TargetError, match="did you mean 'f32'"):
        target.lanes("f33")


def test_lanes_of_the_part_of_a_register_that_holds_so_many_elements() -> None:
    avx512, avx2 = load_target("x86_avx512"), load_target("x86_avx2")
    assert [avx512.lanes("f32", n) for n in (0, 1, 2, 8, 9, 16, 100)] == [16, 16, 8, 8, 16, 16, 16]
    assert [avx512.lanes("f64", n) for n in (2, 4, 5)] == [4, 4, 8]
    assert [avx512.narrowed(["f32", "si8"], 16, n) for n in (5, 9)] == [8, 16]
    # A half register of AVX2 is only what conversions give and take.
    assert [avx2.lanes("f32", n) for n in (2, 4, 8)] == [8, 8, 8]


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(TargetError, match="did you mean 'x86_avx512'"):
        load_target("x86_avx51")
    with pytest.raises(TcpxError, match="unknown target 'cray'"):
        load_target("cray")
    with pytest.raises(ValueError, match="unknown target 'cray'"):
        load_target("cray")
    with pytest.raises(TargetError, match="did you mean 'avx512_vnni'"):
        load_target("x86_avx512", ("avx512_vni",))
    with pytest.raises(TargetError, match="did you mean 'fma_f32x16'"):
        load_target("x86_avx512").row("fma_f32x61")


def test_features_add_rows_and_flags() -> None:
    plain, full = load_target("x86_avx512", ()), load_target("x86_avx512")
    assert not plain.has("avx512_vnni")
    assert full.has("avx512_vnni")
    assert set(full.flags) - set(plain.flags) == {"-mavx512vnni", "-mavx512bf16"}
    assert (plain.dot_width("ui8", "si8", "si32"), full.dot_width("ui8", "si8", "si32")) == (1, 4)
    assert (plain.dot_width("bf16", "bf16", "f32"), full.dot_width("bf16", "bf16", "f32")) == (1, 2)
    assert plain.dot_width("si16", "si16", "si32") == 2
    assert {r.name for r in full.rows} - {r.name for r in plain.rows} == {
        "dot_si32x16",
        "dot_si32x8",
        "dot_halves_si32x16",
        "dot_halves_si32x8",
        "dot_f32x16",
        "dot_f32x8",
    }


@pytest.mark.parametrize(
    ("cpu", "name", "features"),
    [
        (frozenset[str](), "generic", ()),
        (AVX2 - {"fma"}, "generic", ()),
        (AVX2, "x86_avx2", ()),
        (AVX512, "x86_avx512", ()),
        (AVX512 | {"avx512_vnni"}, "x86_avx512", ("avx512_vnni",)),
        (AVX512 | {"avx512_bf16"}, "x86_avx512", ("avx512_bf16",)),
        (AVX512 | {"avx512_fp16", "serialize", "avx512_bf16", "avx512_vnni"}, "sapphire_rapids", ("avx512_vnni",)),
    ],
)
def test_native_is_the_widest_that_runs(cpu: frozenset[str], name: str, features: tuple[str, ...]) -> None:
    target = native_target(cpu)
    assert (target.name, target.features) == (name, features)


def test_the_rows_of_sapphire_rapids_are_those_of_avx512() -> None:
    base = load_target("x86_avx512")
    assert load_target("sapphire_rapids", base.features).rows == base.rows
    assert load_target("sapphire_rapids").rows == load_target("x86_avx512", ("avx512_vnni",)).rows


def test_native_is_one_of_the_targets() -> None:
    assert load_target("native").name in available_targets()


def test_cpu_flags_are_those_every_cpu_has() -> None:
    text = "processor : 0\nflags\t\t: fpu avx2 fma\n\nprocessor : 1\nflags\t\t: fpu avx2\n"
    assert parse_cpu_information(text) == {"fpu", "avx2"}
    assert parse_cpu_information("processor : 0\nFeatures : asimd\n") == frozenset()


def test_finds_rows_by_meaning_and_type() -> None:
    target = load_target("x86_avx512")
    vector = LaneType("f32", 16)
    fma = target.find("compute", "fma(a,b,c)", vector, (vector,) * 3)
    assert fma is not None
    assert fma.name == "fma_f32x16"
    assert fma.render(a="acc", b="x", c="y") == "_mm512_fmadd_ps(acc, x, y)"
    assert target.find("compute", "fma(a, b, c)", ("f32", 16)) is fma
    assert target.find("compute", "exp(a)", vector) is None
    assert target.find("compute", "exp(a)", ("f32", 1)) is target.row("exp_f32")
    assert {r.is_slow for r in load_target("generic").rows if r.semantics == "fma(a, b, c)"} == {True}
    with pytest.raises(TargetError, match="did you mean 'compute'"):
        target.find("computes")
    with pytest.raises(TargetError, match="did you mean 'max'"):
        target.find("compute", "maxx(a, b)")


def test_a_condition_selects_the_cheaper_row() -> None:
    target = load_target("x86_avx512")
    wanted = ("compute", "max(a, b)", ("f32", 16), (("f32", 16), ("f32", 16)))
    assert target.find(*wanted) is target.row("max_f32x16")
    assert target.find(*wanted, conditions=("a_not_nan",)) is target.row("max_a_number_f32x16")
    assert target.find(*wanted, conditions=("b_not_nan",)) is target.row("max_b_number_f32x16")


def test_render_takes_exactly_the_placeholders() -> None:
    row = load_target("x86_avx512").row("masked_load_f32x16")
    assert row.placeholders == ("p", "n")
    assert row.render(p="A + i", n="left") == "_mm512_maskz_loadu_ps((__mmask16)tcpx_lane_mask(left), A + i)"
    with pytest.raises(TargetError, match="rendered with other arguments"):
        row.render(p="A")


def test_helpers_come_with_what_they_need_in_order() -> None:
    target = load_target("generic")
    row = target.row("floor_f32x4")
    assert row.helpers.index("f32x4") < row.helpers.index("tcpx_round_f32x4") < row.helpers.index("tcpx_floor_f32x4")
    code = target.helper_code([target.row("load_f32x4"), row, row])
    assert len(code) == len(set(code)) == len({*row.helpers, *target.row("load_f32x4").helpers})
    assert target.helper_code([load_target("x86_avx2").row("add_f32x8")]) == ()


def test_lane_types() -> None:
    assert parse_lane_type("f32x16") == ("f32", 16)
    assert (str(LaneType("f32", 16)), str(LaneType("si8", 1))) == ("f32x16", "si8")
    for text in ("f32x0", "f33", "x16", "f32 x 16"):
        with pytest.raises(TargetError, match="not a lane type"):
            parse_lane_type(text)


TABLE = """
name: tiny
vector_bits: 128
vector_registers: 16
l1: 1
l2: 2
l3: 3
l3_rate: 5
parallel_threshold: 4
headers: [math.h]
flags: [-O3]
types: {float: [f32], v4: [f32x4]}
features: {fast_dot: {cpu_flags: [fd], flags: [-mfd]}}
rows:
  - for: [{T: f32}, {T: f32x4}]
    rows:
      - {name: add_$T, type: "$T, $T -> $T", semantics: a + b, c: "{a} + {b}"}
helpers:
  - define:
      v4: typedef float v4 __attribute__((vector_size(16)));
"""


def write(folder: Path, text: str) -> Path:
    """A table file."""
    path = folder / "tiny.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_table_leaves_to_its_base_what_it_does_not_say(tmp_path: Path) -> None:
    write(tmp_path, TABLE)
    close = tmp_path / "close.yaml"
    close.write_text("name: close\nbase: tiny.yaml\nl2: 7\n", encoding="utf-8")
    base, target = read_target(tmp_path / "tiny.yaml"), read_target(close)
    assert (target.name, target.l2, target.l3, target.l3_rate) == ("close", 7, 3, 5)
    assert target.rows == base.rows


@pytest.mark.parametrize(
    ("text", "required", "found"),
    [
        ("name: far\nbase: close.yaml\n", "a table that says all itself", "tiny.yaml as its base"),
        ("name: far\nbase: tiny.yaml\ninclude: []\n", "one of the keys name, base, flags", "'include'"),
        ("name: far\nbase: tiny.yaml\nslow: [quick]\n", "a feature of the table: fast_dot", "quick"),
        ("base: tiny.yaml\n", "the key name", "none"),
        ("name: far\nbase: nowhere.yaml\n", "a target table", "No such file"),
        (TABLE + "include: [nowhere.yaml]\n", "a target table", "No such file"),
    ],
)
def test_a_wrong_base_is_refused(tmp_path: Path, text: str, required: str, found: str) -> None:
    write(tmp_path, TABLE)
    (tmp_path / "close.yaml").write_text("name: close\nbase: tiny.yaml\n", encoding="utf-8")
    (tmp_path / "far.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(TargetError) as caught:
        read_target(tmp_path / "far.yaml")
    assert (caught.value.diagnostic.required or "").startswith(required)
    assert found in (caught.value.diagnostic.found or "")


def test_a_small_table_loads(tmp_path: Path) -> None:
    target = read_target(write(tmp_path, TABLE))
    assert [row.name for row in target.rows] == ["add_f32", "add_f32x4"]
    assert target.row("add_f32").helpers == ()
    assert target.row("add_f32x4").helpers == ("v4",)
    assert target.row("add_f32x4").signature == "f32x4, f32x4 -> f32x4"


@pytest.mark.parametrize(
    ("old", "new", "required", "found"),
    [
        ("l1: 1", "l1: big", "a whole number", "'big'"),
        ("l1: 1", "l0: 1", "one of the keys", "l0"),
        ("vector_bits: 128\n", "", "the key vector_bits", "none"),
        ("flags: [-O3]", "flags: -O3", "a list", "-O3"),
        ("[f32], v4", "[f31], v4", "a dtype and a lane count", "f31"),
        ("v4: [f32x4]}", "v4: [f32x4, f32x4]}", "one C type for f32x4", "v4"),
        ("a + b, c", "a +, c", "not an expression", "a +"),
        ("a + b, c", "mix(a), c", "unknown function 'mix'", "did you mean"),
        ("a + b, c", "neg(a), c", "as many operands as 'neg(a)' reads", "f32, f32 -> f32"),
        ("a + b, c", "a + b, kind: compte, c", "unknown kind of row", "did you mean 'compute'"),
        ("a + b, c", "a + b, kind: store, c", "no result, as a store", "f32, f32 -> f32"),
        ("a + b, c", "a + b, requires: magic, c", "a feature of the table: fast_dot", "magic"),
        ("a + b, c", "a + b, condition: a_is_one, c", "a condition among", "a_is_one"),
        ("a + b, c", "a + b, cost: 1, c", "one of the keys", "cost"),
        ("a + b, c", "a + b, lanes: [0], c", "no lanes, as a compute", "0"),
        ("semantics: a + b, c", "kind: shuffle, lanes: [0, 9], c", "1 number of lanes below 2", "0, 9"),
        ("semantics: a + b, c", "kind: shuffle, c", "1 number of lanes below 2", "none"),
        ("{a} + {b}", "{a} + {a}", "the placeholders a, b", "{a} + {a}"),
        ("$T, $T -> $T", "$T, $T", "a type such as", "f32, f32"),
        ("$T, $T -> $T", "$T, $T -> si8", "a C type for si8", "none"),
        ("name: add_$T", "name: add", "one row named add", "two"),
        ("name: add_$T", "name: add_$Q", "variables among T", "'Q'"),
        ("  - define:", "  - defined:", "one of the keys for, define", "defined"),
        ("l1: 1", "l1: [1", "not YAML", "mapping"),
        ("l1: 1", "l1: 1\nl1: 2", "not YAML", "the key l1 stands twice"),
        ("flags: [-O3]", f"flags: {'-O3' * 1000}", "a list", " .."),
    ],
)
def test_a_malformed_table_is_told_where_and_what(
    tmp_path: Path, old: str, new: str, required: str, found: str
) -> None:
    assert old in TABLE
    with pytest.raises(TargetError) as caught:
        read_target(write(tmp_path, TABLE.replace(old, new, 1)))
    message = str(caught.value)
    assert required in message
    assert found in message
    assert "tiny.yaml" in message


def test_helpers_in_a_circle_are_refused(tmp_path: Path) -> None:
    circle = (
        TABLE
        + "      first: int first(void) { return second(); }\n      second: int second(void) { return first(); }\n"
    )
    with pytest.raises(TargetError, match="in a circle"):
        read_target(write(tmp_path, circle))
