"""Every candidate of every study, in one SQLite file. Several tuners may share it, and each may die at any moment.

A candidate is claimed before it is tried, and finished after; both are one transaction. One whose tuner died is tried
once more, and so is one that nobody was left to try. Schema:

    studies     what is tuned: one row per key, which names payload, schedule, target, compiler, threads and machine
    candidates  one row per point of a study
    owners      when each tuner was seen last
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from time import time
from typing import Any, Final

import tcpx
from tcpx.records import brief, frozen
from tcpx.tune.ledger_errors import LedgerError, failure, newer_version, no_ledger, unknown_study, unreadable
from tcpx.tune.owner import is_alive, this_process
from tcpx.tune.space import Point, Value, point_key
from tcpx.tune.verdicts import Candidate, Comparison, Verdict

VERSION: Final = 1
LOCK_SECONDS: Final = 15.0
"""How long a write waits for other tuners."""
MOST_ATTEMPTS: Final = 2
UNSETTLED: Final = (Verdict.RUNNING.value, Verdict.WORKERS_GONE.value)
SCHEMA: Final = """
create table if not exists version (number integer not null);
create table if not exists studies (
  id integer primary key, key text not null unique, facts text not null, created real not null
);
create table if not exists candidates (
  study integer not null references studies (id), number integer not null, point text not null,
  verdict text not null, owner text not null, attempts integer not null, c_hash text not null, record text not null,
  primary key (study, number), unique (study, point)
);
create table if not exists owners (owner text primary key, seen real not null);
"""


@frozen
class StudyKey:
    """A study in the ledger. `facts` say in words what its key is made of."""

    id: int
    key: str
    facts: Mapping[str, str]
    created: float

    def __repr__(self) -> str:
        return brief("StudyKey", self.key)


class Ledger:
    """A context manager. Every method raises LedgerError where the file cannot be used."""

    def __init__(self, path: str | Path, *, owner: str | None = None, lock_seconds: float = LOCK_SECONDS) -> None:
        if "\0" in str(path):
            raise tcpx.ArgumentError(
                tcpx.Diagnostic("there is no such storage", required="a path without a NUL character", found=repr(path))
            )
        self.path = Path(path)
        self.owner = owner or this_process()
        with self._guarded():
            self._connection = sqlite3.connect(self.path, timeout=lock_seconds, isolation_level=None)
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    # -- studies -------------------------------------------------------------------------------------------------

    def study(self, key: str, facts: Mapping[str, str]) -> StudyKey:
        """The study of this key, made if it is not there."""
        with self._transaction():
            self._connection.execute(
                "insert or ignore into studies (key, facts, created) values (?, ?, ?)",
                (key, json.dumps(dict(facts)), time()),
            )
        return next(study for study in self.studies() if study.key == key)

    def studies(self) -> list[StudyKey]:
        """All studies, the oldest first."""
        rows = self._rows("select id, key, facts, created from studies order by id")
        return [StudyKey(id_, key, json.loads(facts), created) for id_, key, facts, created in rows]

    def latest(self, key: str | None = None) -> StudyKey:
        """The study whose key begins so, or the last one."""
        found = [study for study in self.studies() if key is None or study.key.startswith(key)]
        if not found:
            raise LedgerError(unknown_study(self.path, key, [study.key for study in self.studies()]))
        return found[-1]

    # -- candidates ----------------------------------------------------------------------------------------------

    def claim(self, study: StudyKey, point: Point, params: Mapping[str, Value], source: str) -> Candidate | None:
        """A new candidate, running, of this tuner; None where the study has the point already."""
        with self._transaction():
            self._seen()
            key = point_key(point)
            if self._rows("select 1 from candidates where study = ? and point = ?", (study.id, key)):
                return None
            ((last,),) = self._rows("select coalesce(max(number), -1) from candidates where study = ?", (study.id,))
            made = Candidate(
                last + 1, dict(point), dict(params), Verdict.RUNNING, source, owner=self.owner, started=time()
            )
            self._insert(study, made)
        return made

    def finish(self, study: StudyKey, candidate: Candidate) -> None:
        """Write what came of a candidate."""
        with self._transaction():
            self._seen()
            self._connection.execute(
                "update candidates set verdict = ?, c_hash = ?, record = ? where study = ? and number = ?",
                (candidate.verdict.value, candidate.c_hash, _record(candidate), study.id, candidate.number),
            )

    def release(self, study: StudyKey, candidate: Candidate) -> None:
        """Forget a candidate that was claimed and is not tried after all; leave one that was taken over as it was."""
        held = (study.id, candidate.number, Verdict.RUNNING.value)
        with self._transaction():
            if candidate.attempts == 1:
                statement = "delete from candidates where study = ? and number = ? and verdict = ?"
                self._connection.execute(statement, held)
            else:
                left = replace(candidate, owner="", attempts=candidate.attempts - 1)
                self._connection.execute(
                    "update candidates set owner = ?, attempts = ?, record = ? "
                    "where study = ? and number = ? and verdict = ?",
                    (left.owner, left.attempts, _record(left), *held),
                )

    def is_behind(self, study: StudyKey, candidate: Candidate) -> bool:
        """Whether another tuner that is alive tries a candidate that was claimed before this one."""
        seen = dict(self._rows("select owner, seen from owners"))
        earlier = self._select(study, "verdict = ? and number < ?", (Verdict.RUNNING.value, candidate.number))
        return any(c.owner != self.owner and self._is_held(c, seen) for c in earlier)

    def take_over(self, study: StudyKey, most: int | None = None) -> list[Candidate]:
        """Candidates that a tuner left when it died, or that nobody was left to try, now this tuner's; `most` of them
        at most. One that was left twice has crashed."""
        taken: list[Candidate] = []
        with self._transaction():
            self._seen()
            seen = dict(self._rows("select owner, seen from owners"))
            for candidate in self._select(study, "verdict in (?, ?)", UNSETTLED):
                is_running = candidate.verdict is Verdict.RUNNING
                if len(taken) == most or (is_running and self._is_held(candidate, seen)):
                    continue
                if candidate.attempts >= MOST_ATTEMPTS:
                    reason = f"the {'tuner' if is_running else 'workers'} died twice while it was tried"
                    made = replace(candidate, verdict=Verdict.CRASHED, reason=reason)
                else:
                    attempts = candidate.attempts + 1
                    made = replace(candidate, verdict=Verdict.RUNNING, reason="", owner=self.owner, attempts=attempts)
                    taken.append(made)
                self._connection.execute(
                    "update candidates set verdict = ?, owner = ?, attempts = ?, record = ? "
                    "where study = ? and number = ?",
                    (made.verdict.value, made.owner, made.attempts, _record(made), study.id, made.number),
                )
        return taken

    def candidates(self, study: StudyKey) -> list[Candidate]:
        """All candidates in the order in which they were claimed."""
        return list(self._select(study, "1 = 1", ()))

    def count(self, study: StudyKey) -> int:
        """How many candidates there are."""
        ((found,),) = self._rows("select count(*) from candidates where study = ?", (study.id,))
        return int(found)

    def merge(self, other: Ledger) -> tuple[int, int]:
        """Take over what another ledger has and this one has not; the numbers of studies and candidates.

        Candidates that still run, or that nobody was left to try, stay where they are. Of a point that both have, the
        one here is kept.
        """
        studies = candidates = 0
        for theirs in other.studies():
            known = any(study.key == theirs.key for study in self.studies())
            ours = self.study(theirs.key, theirs.facts)
            studies += not known
            with self._transaction():
                have = {key for (key,) in self._rows("select point from candidates where study = ?", (ours.id,))}
                ((last,),) = self._rows("select coalesce(max(number), -1) from candidates where study = ?", (ours.id,))
                found = [c for c in other.candidates(theirs) if c.is_settled]
                fresh = [c for c in found if point_key(c.point) not in have]
                numbers = {c.number: last + 1 + k for k, c in enumerate(fresh)}
                for candidate in fresh:
                    self._insert(ours, _renumbered(candidate, numbers))
                candidates += len(fresh)
        return studies, candidates

    # -- the file ------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        tables = {name for (name,) in self._connection.execute("select name from sqlite_master where type = 'table'")}
        if "version" in tables:
            ((number,),) = self._connection.execute("select number from version").fetchall()
            if number > VERSION:
                raise LedgerError(newer_version(self.path, number, VERSION))
            return
        if tables:
            raise LedgerError(no_ledger(self.path, f"a database with {', '.join(sorted(tables))}"))
        self._connection.execute("pragma journal_mode = wal")
        self._connection.execute("begin immediate")
        for statement in SCHEMA.split(";"):
            self._connection.execute(statement)
        if not self._connection.execute("select 1 from version").fetchall():
            self._connection.execute("insert into version values (?)", (VERSION,))
        self._connection.execute("commit")

    @contextmanager
    def _guarded(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise LedgerError(failure(self.path, error)) from error

    @contextmanager
    def _transaction(self) -> Generator[None]:
        with self._guarded():
            self._connection.execute("begin immediate")
            try:
                yield
                self._connection.execute("commit")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("rollback")
                raise

    def _rows(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        with self._guarded():
            return self._connection.execute(query, values).fetchall()

    def _select(self, study: StudyKey, where: str, values: tuple[object, ...]) -> Iterator[Candidate]:
        query = f"select record from candidates where study = ? and {where} order by number"
        return (self._candidate(record) for (record,) in self._rows(query, (study.id, *values)))

    def _candidate(self, record: str) -> Candidate:
        try:
            held: dict[str, Any] = json.loads(record)
            comparison = held["comparison"]
            held["comparison"] = Comparison(**comparison) if comparison is not None else None
            held["verdict"] = Verdict(held["verdict"])
            return Candidate(**held)
        except (ValueError, TypeError, KeyError) as error:
            raise LedgerError(unreadable(self.path, record)) from error

    def _insert(self, study: StudyKey, candidate: Candidate) -> None:
        self._connection.execute(
            "insert into candidates values (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                study.id,
                candidate.number,
                point_key(candidate.point),
                candidate.verdict.value,
                candidate.owner,
                candidate.attempts,
                candidate.c_hash,
                _record(candidate),
            ),
        )

    def _is_held(self, candidate: Candidate, seen: Mapping[str, float]) -> bool:
        """Whether this tuner, or another one that is alive, tries it."""
        return candidate.owner == self.owner or is_alive(candidate.owner, seen.get(candidate.owner, 0.0))

    def _seen(self) -> None:
        self._connection.execute("insert or replace into owners values (?, ?)", (self.owner, time()))


def _record(candidate: Candidate) -> str:
    return json.dumps({**asdict(candidate), "verdict": candidate.verdict.value})


def _renumbered(candidate: Candidate, numbers: Mapping[int, int]) -> Candidate:
    """With the numbers of another ledger; those of candidates that are not taken over are unknown there."""
    return replace(
        candidate,
        number=numbers[candidate.number],
        against=numbers.get(candidate.against) if candidate.against is not None else None,
        alike=numbers.get(candidate.alike) if candidate.alike is not None else None,
    )
