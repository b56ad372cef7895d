"""Tuned records: used when asked for, refused when something else has changed."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

import tcpx
from tcpx.tune.duel import QUICK
from tcpx.tune.study import Study
from tcpx.tuned import TunedRecord, read_records, records_of, write_record
from tests.tune.conftest import PAYLOAD, schedule_text

SCHEDULE = schedule_text("knob mr: int = 4 in 1..6\nlet mm = match one contract in root\ntile(mm, [m: mr])")
TARGET = "generic"


@pytest.fixture
def schedule() -> tcpx.Schedule:
    return tcpx.parse_schedule(SCHEDULE)


@pytest.fixture
def record(module: tcpx.Module, schedule: tcpx.Schedule) -> TunedRecord:
    return records_of(module, schedule, tcpx.load_target(TARGET), 1, {"s.mr": 5}, {"study": "abc"})[0]


@pytest.fixture
def path(tmp_path: Path, record: TunedRecord) -> Path:
    made = tmp_path / "made with it" / "s.tuned.yaml"
    write_record(made, record)
    return made


def test_a_record_is_used_only_when_asked_for(module: tcpx.Module, schedule: tcpx.Schedule, path: Path) -> None:
    plain = tcpx.compile(module, schedule, target=TARGET)
    tuned = tcpx.compile(module, schedule, target=TARGET, tuned=path)
    assert (plain.tuned, "+= 4)" in plain.c_source) == (None, True)
    assert "+= 5)" in tuned.c_source
    assert isinstance(tuned.tuned, TunedRecord)
    assert tuned.tuned.provenance == {"study": "abc"}
    assert "+= 3)" in tcpx.compile(module, schedule, target=TARGET, tuned=path, params={"s.mr": 3}).c_source


def test_a_file_holds_one_record_for_each_setting(path: Path, record: TunedRecord) -> None:
    write_record(path, replace(record, params={"s.mr": 2}))
    other = replace(record, setting=replace(record.setting, threads=2))
    write_record(path, other)
    assert read_records(path) == (replace(record, params={"s.mr": 2}), other)


@pytest.mark.parametrize(
    ("payload", "changed", "threads", "note"),
    [
        (PAYLOAD.replace("x48x", "x52x").replace("64x48", "64x52"), SCHEDULE, 1, "dim 1 is 52, not 48"),
        (PAYLOAD.replace("tcp.max", "tcp.min"), SCHEDULE, 1, "%y (tcp.min) is new"),
        (
            PAYLOAD,
            SCHEDULE.replace("1..6", "1..7"),
            1,
            "what its values reach of the schedule and its imports has changed since (",
        ),
        (PAYLOAD, SCHEDULE, 2, "threads: the record is for 1, this is 2"),
    ],
)
def test_a_stale_record_is_refused(payload: str, changed: str, threads: int, note: str, path: Path) -> None:
    with pytest.raises(tcpx.ArgumentError, match="no record for this compilation") as caught:
        tcpx.compile(tcpx.parse(payload), tcpx.parse_schedule(changed), target=TARGET, threads=threads, tuned=path)
    assert note in " ".join(caught.value.diagnostic.notes)


LIBRARY = """language 1
/// How many rows of what one sequence takes.
function rows(mm: op) -> int = 4
matcher product(mm: op<contract>) {
  require size(mm.k) > 0
}
sequence go(mm: op<contract>) {
  knob mr: int = rows(mm) in 1..6
  if mr < 6 { tile(mm, [m: mr]) } else { wide(mm) }
}
sequence wide(mm: op<contract>) { tile(mm, [m: 7]) }
sequence other(mm: op<contract>) { tile(mm, [m: 3]) }
"""
IMPORTING = """language 1
import "lib.tcps" as lib
schedule s(root: func) {
  knob is_other: bool = false
  let mm = match one lib.product in root
  if is_other { lib.other(mm) } else { lib.go(mm) }
}
"""


@pytest.mark.parametrize(
    ("old", "new", "holds"),
    [
        ("/// How many", "/// By how many", True),
        ("sequence other", "// said of it\nsequence unused(mm: op<contract>) {}\nsequence other", True),
        ("[m: 3]", "[m: 2]", True),
        ("[m: 7]", "[m: 8]", True),
        ("size(mm.k) > 0", "size(mm.k) > 1", False),
        ("= 4", "= 3", False),
        ("1..6", "1..7", False),
        ("knob mr: int = rows(mm) in 1..6\n", "knob rows_of: int = rows(mm) in 1..6\n let mr = rows_of\n", False),
    ],
)
def test_only_what_was_reached_makes_a_record_stale(
    module: tcpx.Module, tmp_path: Path, old: str, new: str, holds: bool
) -> None:
    """Not comments, sequences that the run does not call, new ones; but a function that a sequence calls, its own text,
    a matcher that the schedule names."""
    (tmp_path / "lib.tcps").write_text(LIBRARY)
    (tmp_path / "s.tcps").write_text(IMPORTING)
    schedule, target, path = tcpx.load_schedule(tmp_path / "s.tcps"), tcpx.load_target(TARGET), tmp_path / "r.yaml"
    text = module.text()
    (record,) = records_of(module, schedule, target, 1, {"s/mm/go.mr": 5}, {})
    assert module.text() == text
    write_record(path, record)
    (tmp_path / "lib.tcps").write_text(LIBRARY.replace(old, new))
    edited = tcpx.load_schedule(tmp_path / "s.tcps")
    if holds:
        assert tcpx.tuned_record(path, module, edited, target=TARGET).params == record.params
    else:
        with pytest.raises(tcpx.ArgumentError, match="no record for this compilation"):
            tcpx.tuned_record(path, module, edited, target=TARGET)


def test_the_newest_record_is_used(module: tcpx.Module, tmp_path: Path) -> None:
    """Values of one schedule that reach different sequences have one record; those of an edited one stand beside it."""
    (tmp_path / "lib.tcps").write_text(LIBRARY)
    (tmp_path / "s.tcps").write_text(IMPORTING)
    target, path = tcpx.load_target(TARGET), tmp_path / "r.yaml"

    def write(params: dict[str, int | float | bool | str]) -> None:
        schedule = tcpx.load_schedule(tmp_path / "s.tcps")
        write_record(path, records_of(module, schedule, target, 1, params, {})[0])

    write({"s/mm/go.mr": 5})
    write({"s.is_other": True})
    assert [held.params for held in read_records(path)] == [{"s.is_other": True}]
    (tmp_path / "lib.tcps").write_text(LIBRARY.replace("[m: 7]", "[m: 8]"))
    write({"s/mm/go.mr": 2})
    assert len(read_records(path)) == 2
    edited = tcpx.load_schedule(tmp_path / "s.tcps")
    assert tcpx.tuned_record(path, module, edited, target=TARGET).params == {"s/mm/go.mr": 2}


def test_names_and_comments_make_nothing_stale(path: Path) -> None:
    payload = PAYLOAD.replace("%mm", "%product").replace("%y", "%z")
    schedule = "// a comment\n" + SCHEDULE.replace("knob", "  knob")
    assert tcpx.compile(tcpx.parse(payload), tcpx.parse_schedule(schedule), target=TARGET, tuned=path).tuned is not None


def test_a_record_of_another_cpu(module: tcpx.Module, schedule: tcpx.Schedule, path: Path, record: TunedRecord) -> None:
    path.unlink()
    write_record(path, replace(record, setting=replace(record.setting, cpu="Cray-1")))
    with pytest.raises(tcpx.ArgumentError) as caught:
        tcpx.compile(module, schedule, target=TARGET, tuned=path)
    assert "cpu: the record is for Cray-1" in " ".join(caught.value.diagnostic.notes)


@pytest.mark.parametrize(
    "text",
    ["", "[1]", "records: 3", "version: 9\nrecords: []", "version: 1\nrecords: [3]", "version: 1\nrecords: [{}]", "{"],
)
def test_files_that_are_none(text: str, module: tcpx.Module, schedule: tcpx.Schedule, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(tcpx.ArgumentError, match="cannot read the tuned records"):
        tcpx.compile(module, schedule, target=TARGET, tuned=path)


def test_an_empty_file_of_records(module: tcpx.Module, schedule: tcpx.Schedule, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("version: 1\nrecords: []\n")
    with pytest.raises(tcpx.ArgumentError, match="no record for this compilation"):
        tcpx.compile(module, schedule, target=TARGET, tuned=path)


def test_a_study_is_recorded(tmp_path: Path, module: tcpx.Module, schedule: tcpx.Schedule) -> None:
    study: Study = tcpx.tune(
        module, schedule, trials=2, sizes=[{"N": 8}], sampler="grid", effort=QUICK, target=TARGET, processes=2
    )
    path = tmp_path / "s.tuned.yaml"
    record = study.record(path)
    assert read_records(path) == (record,)
    kernel = tcpx.compile(module, schedule, target=TARGET, tuned=path)
    assert isinstance(kernel.tuned, TunedRecord)
    assert kernel.tuned.params == study.params


UNREADABLE = {
    "brackets of JSON": ("[" * 100_000, "lists and mappings too deep in one another"),
    "brackets in a record": ("version: 1\nrecords: " + "{a: " * 50_000, "lists and mappings too deep in one another"),
    "a date that there is not": ("version: 1\nrecords: [2026-99-99]", "month must be in 1..12"),
    "a tag of Python": ("version: 1\nrecords: [!!python/object/apply:os.system [true]]", "could not determine"),
    "a byte": (b"records: \xff", "the byte 0xff, which is no character"),
    "a list": ("[1, 2]", "no list `records`"),
    "a word for a record": ("version: 1\nrecords: [fast]", "a record that is no mapping"),
    "a number for a name": ("version: 1\nrecords: [{1: 2}]", "a record without payload, schedule"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_a_file_that_holds_no_records(case: str, tmp_path: Path) -> None:
    content, found = UNREADABLE[case]
    path = tmp_path / "s.tuned.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(tcpx.ArgumentError) as caught:
        read_records(path)
    assert caught.value.diagnostic.message == f"cannot read the tuned records {path}"
    assert found in str(caught.value.diagnostic.found)


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("threads: 1", "threads: one", "`threads` is no number"),
        ("target: generic", "target: [generic]", "`target` is no text"),
        ("s.mr: 5", "s.mr: [5]", "`params` are no mapping of names to numbers and texts"),
        ("study: abc", "study: {a: {b: c}}", "`provenance` are no mapping of names to numbers and texts"),
    ],
)
def test_a_record_with_values_of_another_kind(path: Path, old: str, new: str, found: str) -> None:
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(tcpx.ArgumentError) as caught:
        read_records(path)
    assert found in str(caught.value.diagnostic.found)


def test_a_pipe_in_place_of_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(tcpx.ArgumentError) as caught:
        read_records(tmp_path / "pipe")
    assert caught.value.diagnostic.found == "Not a regular file"
