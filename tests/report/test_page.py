"""The page: whole, small, on its own, and with the links between steps and lines of C both ways."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

import tcpx
from tests.end_to_end.payloads import ROOT

VOID = {"meta", "link", "input", "br", "img"}


class Page(HTMLParser):
    """Tags, their nesting, the data and every address that something would be loaded from."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.addresses: list[str] = []
        self.scripts: list[tuple[str, str]] = []
        self.styles: list[str] = []
        self._kind = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        if held.get("id"):
            self.ids.add(str(held["id"]))
        self.addresses += [str(held[key]) for key in ("src", "href", "srcset", "action") if held.get(key)]
        if tag == "script":
            self._kind = held.get("type") or "script"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append((self._kind, data))
        if self.open and self.open[-1] == "style":
            self.styles.append(data)

    @property
    def run(self) -> dict[str, Any]:
        (data,) = (text for kind, text in self.scripts if kind == "application/json")
        return json.loads(data)


@pytest.fixture(scope="module")
def explanation() -> tcpx.Explanation:
    return tcpx.explain(
        tcpx.load(ROOT / "examples/digits/digits.tcp"),
        tcpx.load_schedule(ROOT / "schedules/digits.tcps"),
        target="x86_avx512",
        threads=2,
    )


@pytest.fixture(scope="module")
def text(explanation: tcpx.Explanation) -> str:
    return tcpx.html_page(explanation)


def test_one_small_file_that_loads_nothing(text: str) -> None:
    page = Page(text)
    assert page.open == []
    assert len(text.encode()) < 2_000_000
    assert page.addresses == ["data:,"]
    assert "default-src 'none'" in text
    for style in page.styles:
        assert not re.search(r"@import|url\(", style)
    for kind, script in page.scripts:
        if kind == "script":
            assert not re.search(r"\b(fetch|import|XMLHttpRequest|innerHTML|eval|document\.write)\b", script)
            for used in re.findall(r'\$\$\("([\w-]+)"\)', script):
                assert used in page.ids


def test_the_data_gives_the_payload_after_every_step(text: str, explanation: tcpx.Explanation) -> None:
    run = Page(text).run
    lines = run["before"]
    for step in run["steps"]:
        made: list[int] = []
        at = 0
        for start, removed, added in step["edits"]:
            made += lines[at:start] + added
            at = start + removed
        lines = made + lines[at:]
    assert len(run["steps"]) == len(explanation.steps) > 50
    last = [run["texts"][k] for k in lines]
    assert last[0].startswith("func @digits(%x: buffer<")
    assert last[-1] == "}"


def test_steps_and_lines_of_c_are_linked(text: str, explanation: tcpx.Explanation) -> None:
    run = Page(text).run
    assert explanation.source is not None
    c = explanation.source.c_source.rstrip("\n").split("\n")
    assert [run["texts"][line[0]] for line in run["c"]] == c
    names = {k + 1: step.transform for k, step in enumerate(explanation.steps)}
    loop = next(k for k, line in enumerate(c, 1) if "for (int64_t fc1_m" in line)
    steps = explanation.steps_of_line(loop)
    assert names[steps[0]] == "tile"
    assert run["c"][loop - 1][2] == list(steps)
    assert run["texts"][run["c"][loop - 1][1]].startswith("fc1/m")
    fma = next(k for k, line in enumerate(c, 1) if "_mm512_fmadd_ps" in line)
    through = [names[number] for number in explanation.steps_of_line(fma)]
    for wanted in ("tile", "vectorize", "lower_vectors", "select_instructions"):
        assert wanted in through
    linked = sum(bool(explanation.steps_of_line(k + 1)) for k in range(len(c)))
    assert linked > 0.8 * len(c)
    for step in explanation.source.origins.values():
        assert all(1 <= number <= len(names) for number in step.steps)
        assert list(step.steps) == sorted(set(step.steps))


def test_nests_have_places_and_marks(text: str) -> None:
    run = Page(text).run
    texts = run["texts"]
    made = [s for s in run["steps"] if s["made"] and s["made"][0][0] == "ic" and s["made"][0][1].startswith("%fc1/")]
    new = [row for row in made[-1]["nest"] if row[0] == "+"]
    lines = (ROOT / "schedules/lib/gemm.tcps").read_text().splitlines()
    number = next(k for k, line in enumerate(lines, start=1) if line.lstrip().startswith("let ic "))
    name = made[-1]["made"][0][1].removeprefix("%")
    assert [(row[2], texts[row[3]], texts[row[5]]) for row in new] == [("for", name, f"gemm.tcps:{number}")]
    assert {row[2] for row in run["steps"][-6]["nest"]} >= {"func", "for", "if", "else", "vector", "parallel"}


def test_a_run_that_fails_has_the_steps_before_and_the_error() -> None:
    module = tcpx.load(ROOT / "examples/digits/digits.tcp")
    lines = "let s = match one softmax in root\n  let y = decompose(s)\n  let i = tile(y, [d0: 0])"
    schedule = tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n  {lines}\n}}\n")
    explanation = tcpx.explain(module, schedule, target="generic")
    assert [step.transform for step in explanation.steps] == ["decompose"]
    assert explanation.error is not None
    assert explanation.source is None
    run = Page(tcpx.html_page(explanation)).run
    assert run["c"] == []
    assert "error" in run["error"]


def test_one_of_several_functions() -> None:
    body = "(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %r = tcp.exp(%x) : tensor<4xf32>\n  tcp.return(%r)\n}\n"
    module = tcpx.parse(f"func @first{body}func @second{body}")
    schedule = tcpx.parse_schedule("language 1\nschedule s(root: func) { print(root) }\n")
    explanation = tcpx.explain(module, schedule, target="generic", func="second")
    assert explanation.func == "second"
    assert explanation.source is not None
    with pytest.raises(tcpx.ArgumentError, match="no function @third"):
        tcpx.explain(module, schedule, target="generic", func="third")
