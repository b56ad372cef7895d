"""The loops behind the limits, the roofline, the rows."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

import tcpx
from tcpx.measure.instruction_loops import PRODUCT, instruction_loops, source_of
from tcpx.measure.limits import MOST_SAMPLES, Limits, Machine, cache_sizes
from tcpx.measure.output import checked_output
from tcpx.measure.pinned_threads import PinnedThreads, available_cpus
from tcpx.measure.roofline import Work, bound
from tcpx.measure.rows import Row, read_rows, write_rows

EVERYWHERE = {"fma_f32", "product_f32", "fma_f64", "add_min_f32", "read", "copy", "stream_copy"}


@pytest.mark.parametrize("name", tcpx.targets())
def test_every_target_has_loops_that_compile(name: str) -> None:
    target = tcpx.load_target(name)
    loops = instruction_loops(target)
    names = {loop.name for loop in loops}
    dots = {"dot_bf16": "avx512_bf16", "dot_ui8_si8": "avx512_vnni"}
    assert names == EVERYWHERE | {dot for dot, feature in dots.items() if target.has(feature)}
    assert tcpx.build_library(source_of(target, loops), target, 1).is_file()


def test_the_inner_loop_is_the_instruction() -> None:
    target = tcpx.load_target("x86_avx512")
    (loop,) = [loop for loop in instruction_loops(target) if loop.name == "fma_f32"]
    assert loop.code.count("_mm512_fmadd_ps") == 12
    assert loop.per_round == 12 * 2 * 16


def test_the_load_is_that_of_a_register_tile() -> None:
    target = tcpx.load_target("x86_avx512")
    (loop,) = [loop for loop in instruction_loops(target) if loop.kind == PRODUCT]
    inside = loop.code[loop.code.index("for (") :]
    inside = inside[: inside.index("const double end")]
    counts = {name: inside.count(name) for name in ("_mm512_fmadd_ps", "_mm512_loadu_ps", "_mm512_set1_ps")}
    assert counts == {"_mm512_fmadd_ps": 12, "_mm512_loadu_ps": 2, "_mm512_set1_ps": 12}


def test_cache_sizes_of_the_system(tmp_path: Path) -> None:
    target = tcpx.load_target("generic")
    assert cache_sizes(target, tmp_path / "absent") == {"l1": target.l1, "l2": target.l2, "l3": target.l3}
    held = [("Data", "1", "48K"), ("Instruction", "1", "32K"), ("Unified", "2", "2048K")]
    for k, (kind, level, size) in enumerate(held):
        folder = tmp_path / "cpu0" / "cache" / f"index{k}"
        folder.mkdir(parents=True)
        for name, value in (("type", kind), ("level", level), ("size", size)):
            (folder / name).write_text(value + "\n")
    assert cache_sizes(target, tmp_path) == {"l1": 48 << 10, "l2": 2 << 20, "l3": target.l3}


LIMITS = Limits(
    2,
    {"fma_f32": 100.0, "read_l1": 50.0, "read_l2": 20.0, "read_l3": 10.0, "read_memory": 4.0},
    {"l1": 64, "l2": 1024, "l3": 4096},
)


@pytest.mark.parametrize(
    ("work", "seconds", "by"),
    [
        (Work(1000, 64), 10.0, "fma_f32"),
        (Work(10, 64), 64 / 50, "read_l1"),
        (Work(10, 65), 65 / 20, "read_l2"),
        (Work(10, 4096), 409.6, "read_l3"),
        (Work(10, 4097), 4097 / 4, "read_memory"),
        (Work(0, 10), 0.2, "read_l1"),
    ],
)
def test_roofline(work: Work, seconds: float, by: str) -> None:
    found = bound(work, LIMITS)
    assert found is not None
    assert (found.seconds, found.by) == (pytest.approx(seconds), by)


def test_no_roofline_without_the_instruction_or_the_work() -> None:
    assert bound(Work(10, 10, "dot_bf16"), LIMITS) is None
    assert bound(Work(0, 0), LIMITS) is None


def test_the_best_limits_of_two_times() -> None:
    later = Limits(2, {"fma_f32": 90.0, "read_l1": 60.0}, LIMITS.caches)
    best = LIMITS.with_best(later)
    assert (best.rates["fma_f32"], best.rates["read_l1"], best.rates["read_l2"]) == (100, 60, 20)


def test_rows_are_a_json_list(tmp_path: Path) -> None:
    rows = [Row("a", 1, "x", median_s=1.5, error=float("inf"), facts={"flags": "-O3"}), Row("b", 2, "y")]
    path = tmp_path / "rows.json"
    write_rows(path, rows)
    held = json.loads(path.read_text())
    assert [set(row) for row in held] == [{made.name for made in fields(Row)}] * 2
    assert (held[0]["median_s"], held[0]["error"]) == (1.5, None)
    assert read_rows(path)[1] == rows[1]


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", '[{"workload": "a"}]', '[{"workload": "a", "threads": 1, "peer": "x", "z": 0}]']
)
def test_a_file_of_other_things_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(text)
    with pytest.raises(tcpx.ArgumentError, match="cannot read the rows") as caught:
        read_rows(path)
    assert caught.value.diagnostic.required is not None


@pytest.mark.parametrize("name", ["out.txt", "absent/out.json"])
def test_where_rows_cannot_go(name: str, tmp_path: Path) -> None:
    with pytest.raises(tcpx.ArgumentError, match="cannot write the rows"):
        checked_output(str(tmp_path / name))


def test_a_limit_is_the_highest_of_all_samples_where_the_machine_is_never_steady() -> None:
    with PinnedThreads(available_cpus()[:1]) as threads:
        machine = Machine(tcpx.load_target("generic"), threads)
        machine.calibration.probe = lambda: 0.0
        rates = iter([1.0, 3.0, *[2.0] * MOST_SAMPLES])
        assert machine._best(lambda: next(rates)) == 3.0
