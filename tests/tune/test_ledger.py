"""The ledger: nothing is lost or doubled, whoever dies; what is wrong with a file is said."""

from __future__ import annotations

import csv
import io
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tcpx.tune.export import as_csv, as_json, as_table, counts
from tcpx.tune.ledger import Ledger, StudyKey
from tcpx.tune.ledger_errors import LedgerError
from tcpx.tune.owner import is_alive, this_process
from tcpx.tune.verdicts import Candidate, Comparison, Verdict

KEY, FACTS = "abc", {"payload": "f.tcp"}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "tune.db") as made:
        yield made


def ok(candidate: Candidate, relative: float = 0.9) -> Candidate:
    comparison = Comparison(relative, relative - 0.01, relative + 0.01, 9, 1e-3)
    return replace(candidate, verdict=Verdict.OK, comparison=comparison, relative=relative, against=0, c_hash="c0")


def add(ledger: Ledger, study: StudyKey, value: int) -> Candidate:
    found = ledger.claim(study, {"s.mr": value}, {"s.mr": value}, "random")
    assert found is not None
    return found


def test_a_candidate_comes_back_as_it_was(ledger: Ledger) -> None:
    study = ledger.study(KEY, FACTS)
    made = ok(add(ledger, study, 4))
    ledger.finish(study, made)
    with Ledger(ledger.path) as again:
        assert again.studies() == [study]
        assert again.candidates(study) == [made]
        assert again.latest("ab") == study


def test_a_point_is_claimed_once(ledger: Ledger) -> None:
    study = ledger.study(KEY, FACTS)
    assert [add(ledger, study, k).number for k in range(3)] == [0, 1, 2]
    assert ledger.claim(study, {"s.mr": 1}, {}, "grid") is None


def test_two_tuners_share_a_file(ledger: Ledger) -> None:
    study = ledger.study(KEY, FACTS)
    claimed: list[int] = []

    def tune() -> None:
        with Ledger(ledger.path) as own:
            for value in range(40):
                found = own.claim(study, {"s.mr": value}, {}, "grid")
                if found is not None:
                    claimed.append(value)
                    own.finish(study, ok(found))

    threads = [threading.Thread(target=tune) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claimed) == list(range(40))
    assert [c.number for c in ledger.candidates(study)] == list(range(40))


def test_the_first_of_two_tuners_is_waited_for(ledger: Ledger) -> None:
    study = ledger.study(KEY, FACTS)
    with Ledger(ledger.path, owner=f"{this_process().rpartition(':')[0]}:0") as dead:
        add(dead, study, 0)
    other = this_process().rsplit(":", 2)[0] + f":1:{start_of_process(1)}"
    mine = add(ledger, study, 1)
    assert not ledger.is_behind(study, mine)
    with Ledger(ledger.path, owner=other) as living:
        theirs = add(living, study, 2)
        last = add(ledger, study, 3)
        assert not ledger.is_behind(study, mine)
        assert ledger.is_behind(study, last)
        living.finish(study, ok(theirs))
        assert not ledger.is_behind(study, last)


def start_of_process(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]


@pytest.mark.parametrize("record", ["{}", "{oops", "[]", '{"verdict": "nice"}'])
def test_a_record_that_cannot_be_read(ledger: Ledger, record: str) -> None:
    study = ledger.study(KEY, FACTS)
    add(ledger, study, 1)
    connection = sqlite3.connect(ledger.path)
    connection.execute("update candidates set record = ?", (record,))
    connection.commit()
    connection.close()
    with pytest.raises(LedgerError, match=r"a candidate of the ledger .* cannot be read") as caught:
        ledger.candidates(study)
    assert caught.value.diagnostic.found == record


@pytest.mark.parametrize("table", ["people", "candidates", "version"])
def test_a_database_of_something_else_is_left_alone(tmp_path: Path, table: str) -> None:
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute(f"create table {table} (a int)")
    connection.commit()
    with pytest.raises(LedgerError, match="is no ledger"):
        Ledger(path)
    assert connection.execute("select name from sqlite_master").fetchall() == [(table,)]
    connection.close()


CLAIM = """
import os, sys
from tcpx.tune.ledger import Ledger
ledger = Ledger(sys.argv[1])
study = ledger.study("abc", {})
if len(sys.argv) > 2:
    ledger.take_over(study)
else:
    ledger.claim(study, {"s.mr": 1}, {}, "grid")
os.kill(os.getpid(), 9)
"""


def test_what_a_dead_tuner_left_is_tried_once_more(ledger: Ledger) -> None:
    def die(*words: str) -> None:
        done = subprocess.run([sys.executable, "-c", CLAIM, str(ledger.path), *words], check=False)
        assert done.returncode == -signal.SIGKILL

    study = ledger.study(KEY, FACTS)
    mine = add(ledger, study, 2)
    die()
    die("again")
    (left,) = [c for c in ledger.candidates(study) if c.number != mine.number]
    assert (left.verdict, left.attempts) == (Verdict.RUNNING, 2)
    assert ledger.take_over(study) == []
    (left,) = [c for c in ledger.candidates(study) if c.number != mine.number]
    assert left.verdict is Verdict.CRASHED
    assert "died twice" in left.reason


def test_what_was_taken_over_and_not_tried_is_left_to_the_next(ledger: Ledger) -> None:
    subprocess.run([sys.executable, "-c", CLAIM, str(ledger.path)], check=False)
    study = ledger.study(KEY, FACTS)
    for _ in range(3):
        (taken,) = ledger.take_over(study)
        assert (taken.verdict, taken.attempts) == (Verdict.RUNNING, 2)
        ledger.release(study, taken)
    claimed = ledger.claim(study, {"s.mr": 7}, {}, "grid")
    assert claimed is not None
    ledger.release(study, claimed)
    assert [c.number for c in ledger.candidates(study)] == [taken.number]


def test_what_nobody_was_left_to_try_is_tried_once_more(ledger: Ledger) -> None:
    study = ledger.study(KEY, FACTS)
    gone = [replace(add(ledger, study, k), verdict=Verdict.WORKERS_GONE, reason="gone") for k in range(3)]
    for candidate in gone:
        ledger.finish(study, candidate)
    assert ledger.claim(study, {"s.mr": 1}, {}, "grid") is None
    first = ledger.take_over(study, 2)
    assert [(c.number, c.verdict, c.reason, c.attempts) for c in first] == [
        (0, Verdict.RUNNING, "", 2),
        (1, Verdict.RUNNING, "", 2),
    ]
    ledger.finish(study, ok(first[0]))
    ledger.finish(study, replace(first[1], verdict=Verdict.WORKERS_GONE, reason="gone"))
    assert [c.number for c in ledger.take_over(study)] == [2]
    found = ledger.candidates(study)
    assert [c.verdict for c in found] == [Verdict.OK, Verdict.CRASHED, Verdict.RUNNING]
    assert found[1].reason == "the workers died twice while it was tried"


def test_the_first_heir_goes_on_with_it(ledger: Ledger) -> None:
    subprocess.run([sys.executable, "-c", CLAIM, str(ledger.path)], check=False)
    study = ledger.study(KEY, FACTS)
    (taken,) = ledger.take_over(study)
    assert (taken.attempts, taken.owner) == (2, ledger.owner)
    with Ledger(ledger.path, owner="elsewhere:boot:1:2") as other:
        assert other.take_over(study) == []


def test_owners() -> None:
    assert is_alive(this_process(), 0.0)
    machine, pid, start = this_process().rsplit(":", 2)
    assert not is_alive(f"{machine}:{pid}:{int(start) + 1}", 0.0)
    assert not is_alive("elsewhere:boot:1:2", 0.0)


def test_merging(ledger: Ledger, tmp_path: Path) -> None:
    study = ledger.study(KEY, FACTS)
    ledger.finish(study, ok(add(ledger, study, 1), 0.5))
    with Ledger(tmp_path / "other.db") as other:
        theirs = other.study(KEY, FACTS)
        for value in (1, 2, 3):
            ledger_candidate = ok(add(other, theirs, value), 0.7)
            if value != 3:
                other.finish(theirs, ledger_candidate)
        assert other.finish(other.study("new", {}), ok(add(other, other.study("new", {}), 9))) is None
        assert ledger.merge(other) == (1, 2)
        assert ledger.merge(other) == (0, 0)
    found = ledger.candidates(study)
    assert [(c.number, c.point["s.mr"], c.relative, c.against) for c in found] == [(0, 1, 0.5, 0), (1, 2, 0.7, None)]


def test_export(ledger: Ledger) -> None:
    study = ledger.study(KEY, FACTS)
    ledger.finish(study, ok(add(ledger, study, 1)))
    ledger.finish(study, replace(add(ledger, study, 2), verdict=Verdict.CRASHED, reason="signal SIGSEGV"))
    found = ledger.candidates(study)
    rows = list(csv.DictReader(io.StringIO(as_csv(found))))
    assert [(row["verdict"], row["relative"], row["s.mr"]) for row in rows] == [
        ("ok", "0.9", "1"),
        ("crashed", "", "2"),
    ]
    assert [row["reason"] for row in json.loads(as_json(found))] == ["", "signal SIGSEGV"]
    assert counts(found) == "2 candidates: 1 ok, 1 crashed"
    assert "crashed: signal SIGSEGV" in as_table(found)
    assert counts([]) == "0 candidates"


def refused(path: Path, message: str) -> LedgerError:
    with pytest.raises(LedgerError, match=message) as caught:
        Ledger(path, lock_seconds=0.1).study(KEY, FACTS)
    assert caught.value.diagnostic.required
    assert caught.value.diagnostic.found
    return caught.value


def test_a_file_of_a_newer_version(ledger: Ledger) -> None:
    with sqlite3.connect(ledger.path) as connection:
        connection.execute("update version set number = 99")
    assert "update tcpx" in str(refused(ledger.path, "newer version"))


def test_a_file_that_is_no_ledger(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_text("not a database, but long enough to be read as the header of one" * 20)
    refused(path, "is no ledger")
    refused(tmp_path / "absent" / "x.db", "cannot be used")


def test_a_file_that_is_locked(ledger: Ledger) -> None:
    holder = sqlite3.connect(ledger.path, isolation_level=None)
    holder.execute("begin immediate")
    refused(ledger.path, "is locked")
    holder.execute("rollback")
    holder.close()
    assert ledger.study(KEY, FACTS).key == KEY


def fill(ledger: Ledger, study: StudyKey) -> None:
    for value in range(2, 400):
        add(ledger, study, value)


def test_a_full_disk(ledger: Ledger) -> None:
    study = ledger.study(KEY, FACTS)
    ledger.finish(study, ok(add(ledger, study, 1)))
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(ledger.path), hard))
    try:
        with pytest.raises(LedgerError, match="cannot be written") as caught:
            fill(ledger, study)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert "--resume" in (caught.value.diagnostic.fix or "")
    found = ledger.candidates(study)
    assert found[0].relative == 0.9
    assert [c.number for c in found] == list(range(len(found)))


def test_no_such_study(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="is empty"):
        ledger.latest()
    ledger.study(KEY, FACTS)
    with pytest.raises(LedgerError, match="has no study x"):
        ledger.latest("x")


def test_a_file_that_is_damaged(tmp_path: Path) -> None:
    with Ledger(tmp_path / "tune.db") as made:
        add(made, made.study(KEY, FACTS), 4)
    damaged = bytearray((tmp_path / "tune.db").read_bytes())
    damaged[4096:] = b"\xff" * (len(damaged) - 4096)
    (tmp_path / "tune.db").write_bytes(damaged)
    with pytest.raises(LedgerError, match=r"the ledger .* is damaged"), Ledger(tmp_path / "tune.db") as made:
        made.studies()
