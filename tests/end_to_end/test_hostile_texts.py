"""Names, notes and places of schedule lines are copied into C: whatever they hold, the C stays what it is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import tcpx

COMMENTS = (
    '*/ system("x"); /*',
    "ends in a backslash \\",
    "??/ trigraph",
    "// line",
    "\u2028 \N{SNOWMAN} \u202e",
    "%s%n",
)
PAYLOAD = """\
func @f(%x: tensor<[M]x8xf32>, %w: tensor<8x8xf32>) -> tensor<[M]x8xf32> symbols [M: 0..] {{
  %p = tcp.mul(%x, %x) : tensor<[M]x8xf32> name {hostile}
  %mm = tcp.matmul(%p, %w) : tensor<[M]x8xf32> name {other}
  tcp.return(%mm)
}}
"""
SCHEDULE = """\
language 1
schedule s(root: func) {{
  let mm = match one contract in root
  let p = match one elementwise in root
  emit_remark(mm, {note})
  let i = tile(mm, [m: 4])
  let j = tile(p, [d0: 2])
  emit_remark(i, {note})
  annotate(i, {note}, {note})
}}
"""


def code_of(c_source: str) -> str:
    """The C as a compiler sees it, after the comments are gone: backslashes at ends of lines join lines first."""
    joined = c_source.replace("??/", "\\").replace("\\\n", "")
    return re.sub(r"/\*.*?\*/", " ", joined, flags=re.DOTALL)


@pytest.mark.parametrize("text", COMMENTS)
@pytest.mark.parametrize("ending", ["", "\\"], ids=["", "backslash"])
def test_names_notes_and_files(text: str, ending: str) -> None:
    hostile = text + ending
    payload = PAYLOAD.format(hostile=json.dumps(hostile, ensure_ascii=False), other=json.dumps(f"mm {hostile}"[:60]))
    note = json.dumps(hostile, ensure_ascii=False)
    file = f"folder/{hostile}\n*/ #error\r\n??/.tcps"
    module, schedule = tcpx.parse(payload), tcpx.parse_schedule(SCHEDULE.format(note=note), file)
    plain = tcpx.parse(PAYLOAD.format(hostile='"p"', other='"mm"'))
    source = tcpx.emit(module, schedule, target="generic")
    code = code_of(source.c_source)
    assert "system" not in re.findall(r"(\w+)\s*\(", code)
    assert "#error" not in code
    assert code.isascii()
    assert "\\" not in source.c_source
    assert source.c_source.count("/*") == source.c_source.count("*/")
    kernel = tcpx.compile(module, schedule, target="generic")
    arrays = tcpx.random_inputs(plain, sizes={"M": 7})
    np.testing.assert_allclose(
        np.asarray(kernel(*arrays), np.float32), np.asarray(tcpx.evaluate(plain, *arrays), np.float32), 1e-5, 1e-5
    )


def test_names_that_mangle_alike_stay_apart() -> None:
    names = ("a/b", "a.b", "a~b", "a_b")
    lines = [f"  %{name} = tcp.add(%x, %k{k}) : tensor<[N]xf32>" for k, name in enumerate(names)]
    first = "a/b"
    for name in names[1:]:
        lines.append(f"  %s/{name} = tcp.mul(%{first}, %{name}) : tensor<[N]xf32>")
        first = f"s/{name}"
    arguments = ", ".join(f"%{name}: tensor<[N]xf32>" for name in ("x", "k0", "k1", "k2", "k3"))
    payload = f"func @f({arguments}) -> tensor<[N]xf32> symbols [N: 0..] {{\n" + "\n".join(lines)
    module = tcpx.parse(f"{payload}\n  tcp.return(%{first})\n}}\n")
    kernel = tcpx.compile(module, target="generic")
    arrays = tcpx.random_inputs(module, sizes={"N": 19})
    np.testing.assert_allclose(
        np.asarray(kernel(*arrays), np.float32), np.asarray(tcpx.evaluate(module, *arrays), np.float32), 1e-5
    )


def test_the_page_of_an_explanation(tmp_path: Path) -> None:
    hostile = '</script><script>alert("x")</script><!-- <img src=x onerror=alert(1)>'
    payload = PAYLOAD.format(hostile=json.dumps(hostile), other='"mm"')
    schedule = tcpx.parse_schedule(SCHEDULE.format(note=json.dumps(hostile)), f"{hostile}.tcps")
    page = tcpx.html_page(tcpx.explain(tcpx.parse(payload), schedule, target="generic"))
    assert "alert(" in page
    assert page.count("<script") == page.count("</script") == 2
    assert "<img" not in page
    assert "<!--" not in page
