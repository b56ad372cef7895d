"""`language 1` and `language 2`: a file says which, its statements mean that, and an upgrade keeps their meaning."""

from __future__ import annotations

from pathlib import Path

import pytest

import tcpx
from tcpx.payload.text.printer import print_module
from tcpx.transform.language.loader import program_of_text
from tcpx.transform.language_versions import DIFFERENCES, NEWEST, table

DOCS = Path(__file__).parents[3] / "docs" / "language.md"
BLUR = """\
func @blur(%x: tensor<[N + 2]xf32>, %z: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N: 0..] {
  %p = tcp.exp(%x) : tensor<[N + 2]xf32>
  %a = tcp.slice(%p) {offsets = [0]} : tensor<[N]xf32>
  %b = tcp.slice(%p) {offsets = [1]} : tensor<[N]xf32>
  %c = tcp.slice(%p) {offsets = [2]} : tensor<[N]xf32>
  %s = tcp.add(%a, %b) : tensor<[N]xf32>
  %t = tcp.add(%s, %z) : tensor<[N]xf32>
  %y = tcp.add(%t, %c) : tensor<[N]xf32>
  tcp.return(%y)
}
"""
BODY = """\
  let y = match one "y" in root
  let i = tile(y, [d0: 4])
  fuse(match one "t" in root, into: i)
  fuse(match one "p" in root, into: i)
"""
COPIES = "each iteration of y/d01 computes %p 3 times"


def _text(language: int, body: str = BODY) -> str:
    return f"language {language}\n\nschedule s(root: func) {{\n{body}}}\n"


def _payload_after(text: str, beside: str | Path = ".") -> str:
    program = program_of_text(text, beside=beside)
    return print_module(tcpx.apply_schedule(tcpx.parse(BLUR), program, target="x86_avx2").module)


def test_copies_are_remarked_on_in_1_and_refused_in_2() -> None:
    done = tcpx.apply_schedule(tcpx.parse(BLUR), tcpx.parse_schedule(_text(1)), target="x86_avx2")
    assert [remark.message for remark in done.remarks] == [COPIES]
    with pytest.raises(tcpx.ScheduleError) as caught:
        _payload_after(_text(2))
    said = caught.value.diagnostic
    assert (said.message, said.schedule and said.schedule.line) == (COPIES, 7)
    assert said.required == "a producer that the loop reads at one offset, `offsets: true` or `recompute: true`"
    for argument in ("offsets", "recompute"):
        assert _payload_after(_text(2, BODY.replace('"p" in root, into: i', f'"p" in root, into: i, {argument}: true')))


def test_an_optional_fusion_is_left_out_in_2() -> None:
    body = BODY.replace('fuse(match one "p"', 'optional fuse(match one "p"')
    assert "%p = tcp.exp" in _payload_after(_text(2, body))
    assert "%p = tcp.exp" not in _payload_after(_text(1, body))


@pytest.mark.parametrize("own", [1, 2])
def test_statements_mean_what_their_own_file_says(own: int, tmp_path: Path) -> None:
    (tmp_path / "lib.tcps").write_text(
        f"language {own}\nsequence into(p: op, i: loop) {{ optional fuse(p, into: i) }}\n"
    )
    main = f'language {3 - own}\nimport "lib.tcps" as lib\nschedule s(root: func) {{\n{BODY}}}\n'
    text = main.replace('fuse(match one "p" in root, into: i)', 'lib.into(match one "p" in root, i)')
    assert ("%p = tcp.exp" in _payload_after(text, beside=tmp_path)) == (own == 2)


@pytest.mark.parametrize("version", [0, 3, 17])
def test_unknown_versions(version: int) -> None:
    with pytest.raises(tcpx.ScheduleError) as caught:
        tcpx.parse_schedule(_text(version))
    said = caught.value.diagnostic
    assert said.message == "this version of the language is not known"
    assert (said.required, said.found, said.fix) == (
        "language 1 or 2",
        f"language {version}",
        "write `language 2`",
    )


def test_a_version_that_is_no_number() -> None:
    with pytest.raises(tcpx.ParseError) as caught:
        tcpx.parse_schedule(_text(2).replace("language 2", "language two"))
    assert caught.value.diagnostic.fix == "write `language 2`"


LIKE = """\
  let y = match one "y" in root
  let t = match one "t" in root
  let d = like(dims(y.out), t)
  tile(t, [d: 4])
"""


def test_like_is_gone_in_2() -> None:
    assert tcpx.check(tcpx.parse_schedule(_text(1, LIKE))) == ()
    (said,) = tcpx.check(tcpx.parse_schedule(_text(2, LIKE)))
    assert said.message == "`like` is no function of `language 2`"
    assert said.found == "`like`, which is gone since `language 2`"
    with pytest.raises(tcpx.ScheduleError, match="`like` is no function of `language 2`"):
        tcpx.upgrade_schedules({"a.tcps": _text(1, LIKE)})


def test_an_upgrade_keeps_the_meaning() -> None:
    """Without a payload for all payloads, with one for it, and then with fewer arguments."""
    before = _payload_after(_text(1))
    everywhere = tcpx.upgrade_schedules({"a.tcps": _text(1)})["a.tcps"]
    assert everywhere.text == _text(2, BODY.replace("into: i)", "into: i, offsets: true)"))
    assert everywhere.changes == (
        "1: language 2, was 1",
        "6: offsets: true, which `fuse` did in language 1",
        "7: offsets: true, which `fuse` did in language 1",
    )
    known = tcpx.upgrade_schedules({"a.tcps": _text(1)}, [tcpx.parse(BLUR)])["a.tcps"]
    assert known.text == _text(2, BODY.replace('"p" in root, into: i)', '"p" in root, into: i, offsets: true)'))
    assert _payload_after(everywhere.text) == _payload_after(known.text) == before
    again = tcpx.upgrade_schedules({"a.tcps": known.text}, [tcpx.parse(BLUR)])["a.tcps"]
    assert (again.text, again.changes) == (known.text, ())


def test_what_is_kept_visible_is_upgraded_too() -> None:
    body = BODY.replace('"p" in root, into: i)', '"p" in root, into: i, keep: true)')
    text = BLUR.replace("-> tensor<[N]xf32>", "-> (tensor<[N]xf32>, tensor<[N]xf32>)").replace(
        "tcp.return(%y)", "tcp.return(%y, %a)"
    )
    made = tcpx.upgrade_schedules({"a.tcps": _text(1, body)})["a.tcps"].text
    assert "keep: true, offsets: true" in made
    assert tcpx.check(tcpx.parse_schedule(made), tcpx.parse(text)) == ()


@pytest.mark.parametrize(
    ("call", "upgraded"),
    [
        ("fuse(p, i)", "fuse(p, i, offsets: true)"),
        ("fuse(p, i, false)", "fuse(p, i, false, offsets: true)"),
        ("fuse(p, into: i, offsets: false)", "fuse(p, into: i, offsets: true)"),
        ("fuse(p, i, true)", "fuse(p, i, true)"),
        ("fuse(p, into: i, recompute: true)", "fuse(p, into: i, recompute: true)"),
        ("optional fuse(p, into: i,)", "optional fuse(p, into: i, offsets: true,)"),
        ("fuse(p,\n    into: i  // not (p)\n  )", "fuse(p,\n    into: i, offsets: true  // not (p)\n  )"),
        ('print("fuse(p, i)")', 'print("fuse(p, i)")'),
    ],
)
def test_how_calls_are_upgraded(call: str, upgraded: str) -> None:
    def text(language: int, statement: str) -> str:
        body = f"  print(i)\n  {statement}  // what\n"
        return f"language {language}  // first\nsequence f(p: op, i: loop) {{\n{body}}}"

    made = tcpx.upgrade_schedules({"a.tcps": text(1, call)})["a.tcps"].text
    assert made == tcpx.format_schedule(text(2, upgraded))
    tcpx.parse_schedule(made)


def test_libraries_are_upgraded_with_those_that_use_them(tmp_path: Path) -> None:
    lib, main, payload = tmp_path / "lib.tcps", tmp_path / "main.tcps", tmp_path / "blur.tcp"
    payload.write_text(BLUR)
    lib.write_text("language 1\n\nsequence into(p: op, i: loop) {\n  fuse(p, into: i)\n}\n")
    text = _text(1).replace('fuse(match one "p" in root, into: i)', 'lib.into(match one "p" in root, i)')
    head = 'import "lib.tcps"\n\nschedule s(root: func) expects "blur.tcp"'
    main.write_text(text.replace("schedule s(root: func)", head))
    done = tcpx.upgrade_schedules({str(path): path.read_text() for path in (lib, main)})
    assert done[str(lib)].changes[1:] == ("4: offsets: true, which `fuse` did in language 1",)
    assert done[str(main)].changes == ("1: language 2, was 1",)


def test_a_text_without_a_version_is_not_upgraded() -> None:
    with pytest.raises(tcpx.ScheduleError) as caught:
        tcpx.upgrade_schedules({"a.tcps": _text(1).removeprefix("language 1\n")})
    assert caught.value.diagnostic.fix == "write `language 2` above"


def test_frozen_files_of_two_versions(tmp_path: Path) -> None:
    (tmp_path / "lib.tcps").write_text("language 2\nsequence into(p: op, i: loop) { optional fuse(p, into: i) }\n")
    main = f'language 1\nimport "lib.tcps" as lib\nschedule s(root: func) {{\n{BODY}}}\n'
    mixed = main.replace('fuse(match one "p" in root, into: i)', 'lib.into(match one "p" in root, i)')
    with pytest.raises(tcpx.ScheduleError) as caught:
        tcpx.freeze(tcpx.parse(BLUR), program_of_text(mixed, beside=tmp_path), target="x86_avx2", folder=tmp_path)
    said = "the files of the schedule mean something else in one version of the language"
    assert caught.value.diagnostic.message == said
    same = mixed.replace('match one "p" in root, i', 'match one "s" in root, i')
    text = tcpx.freeze(tcpx.parse(BLUR), program_of_text(same, beside=tmp_path), target="x86_avx2", folder=tmp_path)
    assert text.startswith("language 1\n")


def test_schedules_in_python_are_in_the_newest_version() -> None:
    assert tcpx.ScheduleFile("a.tcps").to_text() == f"language {NEWEST}\n"
    assert tcpx.ScheduleFile("a.tcps", language=1).to_text() == "language 1\n"


def test_the_docs_have_every_difference() -> None:
    assert table() in DOCS.read_text(encoding="utf-8")
    assert {each.since for each in DIFFERENCES} == {NEWEST}
