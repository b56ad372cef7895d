"""The replay gate: a change that is called a refactor gives the same C for everything under schedules/."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.replay.cases import LIBRARY_CALLS, SCHEDULES, Case, cases, digest, file_name, without_comments

HASHES = Path(__file__).with_name("hashes")
SUBJECTS = tuple(dict.fromkeys(case.subject for case in cases()))
HEAD = "# case, SHA-256 of its C, SHA-256 of its C without comments; written by `pytest --update-golden tests/replay`\n"
ADVICE = """
To see what changed: `python -m tests.replay.cases after` here, `python -m tests.replay.cases before` in a worktree of
the commit before, then `diff -r before after`. If the change is meant, say so in the commit and in CHANGELOG.md, and
write the hashes with `pytest --update-golden tests/replay`."""


def line_of(case: Case) -> str:
    source = case.c_source()
    return f"{case.name} {digest(source)} {digest(without_comments(source))}"


def by_case(text: str) -> dict[str, list[str]]:
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {name: hashes for name, *hashes in rows}


def difference(kept: dict[str, list[str]], found: dict[str, list[str]]) -> list[str]:
    """One line for each case that is not as it was."""
    lines: list[str] = []
    for name in sorted(kept.keys() | found.keys()):
        if name not in found:
            lines.append(f"{name}: there is no such case any more")
        elif name not in kept:
            lines.append(f"{name}: a new case, without a hash")
        elif kept[name] != found[name]:
            lines.append(f"{name}: {'the comments' if kept[name][1] == found[name][1] else 'the code'} changed")
    return lines


@pytest.mark.parametrize("subject", SUBJECTS)
def test_the_c_is_what_it_was(subject: str, update_golden: bool) -> None:
    path = HASHES / f"{file_name(subject)}.txt"
    text = HEAD + "".join(f"{line_of(case)}\n" for case in cases() if case.subject == subject)
    if update_golden:
        HASHES.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), f"{path.name} is missing: run pytest --update-golden tests/replay"
    changed = difference(by_case(path.read_text(encoding="utf-8")), by_case(text))
    if changed:
        pytest.fail("\n".join([f"the C of {len(changed)} cases is not what it was:", *changed, ADVICE]), pytrace=False)


def test_no_file_of_hashes_is_left_over() -> None:
    assert sorted(path.stem for path in HASHES.glob("*.txt")) == sorted(map(file_name, SUBJECTS))


def sequences(path: Path) -> list[str]:
    return re.findall(r"^sequence (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)


def test_everything_under_schedules_has_a_case() -> None:
    files = {p.relative_to(SCHEDULES).as_posix(): sequences(p) for p in SCHEDULES.rglob("*.tcps")}
    there = {f"{file}:{name}" for file, names in files.items() for name in names}
    texts = "".join(path.read_text(encoding="utf-8") for path in SCHEDULES.rglob("*.tcps"))
    called = {key for key in there if len(re.findall(rf"\b{key.partition(':')[2]}\(", texts)) > 1}
    named = {":".join(key.split(":")[:2]) for key in LIBRARY_CALLS}  # a third word tells calls of one sequence apart
    assert named <= there, "LIBRARY_CALLS of tests/replay/cases.py has sequences that are gone"
    assert there <= named | called, "a sequence that nothing calls is not in LIBRARY_CALLS"
    covered = {case.file for case in cases()}
    assert set(files) == covered, "tests/replay/cases.py has not the files of schedules/"


def test_a_change_is_named() -> None:
    kept = by_case("# head\na/1 x y\nb/1 x y\nc/1 x y\nd/1 x y\n")
    found = by_case("a/1 x y\nb/1 z y\nc/1 z z\ne/1 x y\n")
    assert difference(kept, found) == [
        "b/1: the comments changed",
        "c/1: the code changed",
        "d/1: there is no such case any more",
        "e/1: a new case, without a hash",
    ]
