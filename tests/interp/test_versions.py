"""`versions`: the versions of `specialize` that one block makes, by limits of a size or by the items of a list."""

from __future__ import annotations

import pytest

import tcpx
from tcpx.interp import Run, run_schedule
from tcpx.payload.diagnostics import ScheduleError
from tcpx.payload.text.parser import parse
from tcpx.target import load_target
from tcpx.transform.language import program_of_text
from tests.transform.payloads import RELU, check

LIMITS = """versions mm by size(mm.m) at [8, 256] {
  let i = tile(mm, [m: 6 if upper_bound(size(mm.m), 999) > 8 else 2])
  fuse(epilogue(mm), into: i)
}"""
BRANCHES = """specialize [mm, epilogue(mm)] when size(mm.m) <= 8 {
  let i = tile(mm, [m: 2])
  fuse(epilogue(mm), into: i)
} else when size(mm.m) <= 256 {
  let i = tile(mm, [m: 6])
  fuse(epilogue(mm), into: i)
} else {
  let i = tile(mm, [m: 6])
  fuse(epilogue(mm), into: i)
}"""
ITEMS = """let ways = ["short", "long", "rest"]
versions [mm, epilogue(mm)] for way in ways when size(mm.m) <= (8 if way == "short" else 256) {
  let i = tile(mm, [m: 2 if way == "short" else 6])
  fuse(epilogue(mm), into: i)
}"""


def text_of(body: str) -> str:
    sequence = f"sequence f(mm: op<contract>) {{\n{body}\n}}\n"
    return f"language 1\n{sequence}schedule s(root: func) {{\nlet mm = match one contract in root\nf(mm)\n}}"


def run(body: str, payload: str = RELU) -> Run:
    return run_schedule(parse(payload), program_of_text(text_of(body)), load_target("x86_avx512"))


def failure(body: str) -> str:
    with pytest.raises(ScheduleError) as caught:
        run(body)
    return str(caught.value)


@pytest.mark.parametrize("body", [LIMITS, ITEMS])
def test_they_are_those_of_specialize(body: str) -> None:
    assert run(body).module.text() == run(BRANCHES).module.text()


def test_numbers() -> None:
    check(RELU, "let mm = match one contract in root\n" + LIMITS)


def test_what_is_decided_makes_no_version() -> None:
    small = RELU.replace("[M]", "7").replace("M: 0.., ", "")
    assert "gml_st.if" not in run(LIMITS, small).module.text()
    assert "gml_st.if" not in run('versions mm for way in ["rest"] when false { tile(mm, [m: 4]) }').module.text()
    assert "gml_st.if" not in run("versions mm by size(mm.m) at [] { tile(mm, [m: 4]) }").module.text()


def test_each_version_has_knobs_of_its_own() -> None:
    body = "versions mm by size(mm.m) at [8] {\n  knob separate mr: int = 6 in 1..14\n  tile(mm, [m: mr])\n}"
    knobs = run(body).knobs
    assert [use.path for use in knobs] == ["s/mm/f/when1.mr", "s/mm/f/else.mr"]
    schedule = tcpx.parse_schedule(text_of(body))
    frozen = tcpx.freeze(parse(RELU), schedule, target="x86_avx512")
    assert "versions mm by size(mm.m) at [8] {" in frozen
    assert "let mr = 6" in frozen


WRONG = {
    "versions mm by size(mm.m) at 48 { tile(mm, [m: 4]) }": "versions are made for the items of a list\n",
    "versions mm by size(mm.m) at [0.5] { tile(mm, [m: 4]) }": "versions are made for items that are known\n",
    "versions mm for x in [mm] when true { tile(mm, [m: 4]) }": "versions are made for items that are known\n",
    "versions threads by size(mm.m) at [48] { tile(mm, [m: 4]) }": "versions are made of operations\n",
    "versions mm by [1] at [48] { tile(mm, [m: 4]) }": "arithmetic is on numbers\n",
    "versions mm by size(mm.m) at [48] { return mm }": "`return` cannot stand in a branch of `specialize`\n",
    "versions mm for mm in [1, 2] when true { vectorize(mm) }": "`mm` is bound twice\n",
}


@pytest.mark.parametrize(("body", "message"), WRONG.items())
def test_refused(body: str, message: str) -> None:
    assert message in failure(body)


def test_in_python() -> None:
    file = tcpx.ScheduleFile("v.tcps")
    with file.sequence("f") as s:
        mm = s.param("op<contract>")
        with s.versions(mm, by=s.size(mm.m), at=[8, 256]):
            s.tile(mm, {"m": 4})
        with (
            s.versions_for(mm, "way", ["a", "b"], lambda way: (way == "a") & (s.size(mm.n) > 4)) as way,
            s.if_(way == "a"),
        ):
            s.tile(mm, {"n": 8})
    assert "  versions mm by size(mm.m) at [8, 256] {" in str(file)
    assert '  versions mm for way in ["a", "b"] when way == "a" and size(mm.n) > 4 {' in str(file)


def test_a_result_that_nobody_needs() -> None:
    run("let _, i = tile(mm, [n: 8, m: 4])\nrequire i == mm.loop(m)\nlet _, _ = tile(mm, [n: 4, m: 2])")
    assert "`_` is not bound" in failure("let _ = tile(mm, [m: 4])\nvectorize(_)")
