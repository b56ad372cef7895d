"""The cores of processors: what their files say, and what instructions the C of rows is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

import tcpx
from tcpx.target.cores import USUAL, available_cores, core_named, instruction_classes
from tcpx.target.traces import Traces

TARGETS = ("generic", "x86_avx2", "x86_avx512+avx512_vnni+avx512_bf16")


def instructions(target: str, row: str) -> list[str]:
    found = tcpx.load_target(target)
    return [op.name for op in Traces(found).of(found.row(row)).instructions if op.name]


@pytest.mark.parametrize("name", TARGETS)
def test_every_row_has_a_cost_on_every_core(name: str) -> None:
    target = tcpx.load_target(name)
    traces = Traces(target)
    needed = {op.name for row in target.rows for op in traces.of(row).instructions if op.name}
    assert needed
    for core in available_cores():
        assert needed <= {held for held, _ in core_named(core).costs}, core


def test_cores_have_the_same_classes() -> None:
    assert {name for name, _ in core_named("zen3").costs} == set(instruction_classes())
    for core in available_cores():
        assert {name for name, _ in core_named(core).costs} == set(instruction_classes()), core


@pytest.mark.parametrize(
    ("target", "core"),
    [("sapphire_rapids", "golden_cove"), ("zen3", "zen3"), ("zen4", "zen4"), ("zen5", "zen5"), ("x86_avx512", USUAL)],
)
def test_a_target_names_its_core(target: str, core: str) -> None:
    assert tcpx.load_target(target).core == core


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("fma_f32x16", ["fma"]),
        ("load_f32x16", ["load"]),
        ("store_f32x16", ["store"]),
        ("zero_f32x16", []),
        ("abs_f32x16", ["logic_f"]),  # the mask is a constant
        ("bitcast_f32x16_si32x16", []),
        ("max_f32x16", ["compare_f_mask", "max_f"]),
        ("cast_ui8x16_f32x16", ["widen", "convert"]),
        ("dot_si32x16", ["dot"]),
        ("mul_si64x8", ["mul_i64"]),
        ("add_f32", ["add_f"]),
        ("add_si64", ["alu"]),
        ("masked_load_f32x16", ["alu", "alu", "select", "select", "bits_below", "mask_from_scalar", "masked_load"]),
        ("cast_f32x16_si32x16", ["compare_f_mask", "convert", "compare_f_mask", "broadcast_scalar"]),
    ],
)
def test_the_c_of_a_row(row: str, expected: list[str]) -> None:
    assert instructions("x86_avx512+avx512_vnni", row) == expected


def test_helpers_are_followed() -> None:
    halves = ["extract_part", "add_f", "unpack", "add_f", "shuffle", "add_f"]
    assert instructions("x86_avx2", "horizontal_add_f32x8") == halves
    gathered = instructions("x86_avx2", "gather_f32x8_si32x8")  # the way of a step of one element
    assert gathered.count("gather") == 1
    assert "multiply" not in gathered
    assert instructions("x86_avx2", "exp_f32") == ["call"]


def test_loops_of_helpers_run_as_often_as_they_say() -> None:
    names = instructions("x86_avx512", "masked_strided_load_si32x8")
    assert names.count("store") == 8
    assert names.count("load") == 9


def test_costs_by_width() -> None:
    core = core_named("golden_cove")
    assert core.cost("fma", 256).uses[0].ports == {"p0", "p1"}
    assert core.cost("fma", 512).uses[0].ports == {"p0", "p5"}
    assert core.cost("alu", 64).uses[0].ports == {"p0", "p1", "p5", "p6", "p10"}
    store = core.cost("store", 512)  # its address and its data enter the core together
    assert (store.places, [(sorted(use.ports), use.cycles) for use in store.uses]) == (
        1,
        [(["p4", "p9"], 2.0), (["p7", "p8"], 1.0)],
    )


def test_an_unknown_core_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "mine.yaml"
    table.write_text("name: mine\nbase: x86_avx512.yaml\ncore: zen6\n", encoding="utf-8")
    with pytest.raises(tcpx.TargetError) as refused:
        tcpx.load_target(table)
    assert str(refused.value) == (
        "definite error: unknown core 'zen6'\n  required: any, golden_cove, zen3, zen4, zen5\n"
        "  found: zen6\n  note: in mine.yaml: core\n  fix: did you mean 'zen5'?"
    )
