"""Loops whose results nothing reads are remarks, wherever remarks are."""

from __future__ import annotations

from pathlib import Path

import pytest

import tcpx
from tcpx.cli import main
from tcpx.payload.unread_loops import unread_loops

TEXT = """\
func @f(%x: tensor<[N]x[M]xf32>, %z: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N, M] {
  %y = gml_st.for %i in 0 to N step 1 (%d = %z) {
    %s = gml_st.for %j in 0 to M step 1 (%e = %d) {
      %a = gml_st.materialize(%x) tile [%i, %j] [1, 1] drop [1] : tensor<1xf32>
      gml_st.yield(%a, %e) tile [%i] [1] combine tcp.add
    } : tensor<[N]xf32>
    gml_st.yield(READ, %d) full
  } : tensor<[N]xf32>
  tcp.return(%y)
}
"""
NOTHING = "language 1\nschedule s(root: func) {}\n"


def test_a_loop_that_is_read_is_none() -> None:
    assert not list(unread_loops(tcpx.parse(TEXT.replace("READ", "%s"))))


def test_a_loop_that_nothing_reads_is_a_remark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = tcpx.parse(TEXT.replace("READ", "%d"))
    (remark,) = unread_loops(module)
    assert remark.message == "%s is left out: nothing reads what the loop computes"
    assert remark.fix == "yield %s in the loop around it"
    assert remark in tcpx.check(tcpx.parse_schedule(NOTHING), module, target="generic")
    assert remark in tcpx.apply_schedule(module, None, target="generic").remarks
    payload = tmp_path / "f.tcp"
    payload.write_text(module.text())
    assert main(["check", str(payload)]) == 0
    assert remark.message in capsys.readouterr().err


BRANCH = """\
func @f(%x: tensor<[N]xf32>, %c: i1) -> tensor<[N]xf32> symbols [N] {
  gml_st.if %c {
    %y = tcp.exp(%x) : tensor<[N]xf32>
  }
  %z = gml_st.for %i in 0 to N step 1 (%d = %x) {
    gml_st.if %i > 3 {
      %a = gml_st.materialize(%x) tile [%i] [1] : tensor<1xf32>
      gml_st.yield(%a, %d) tile [%i] [1]
    }
  } : tensor<[N]xf32>
  tcp.return(%z)
}
"""


def test_a_branch_that_does_nothing_is_a_remark() -> None:
    (remark,) = unread_loops(tcpx.parse(BRANCH))
    assert remark.message == "gml_st.if is left out: nothing reads what its branches compute"
    assert remark.fix == "write %y = gml_st.if .. { .. tcp.yield(%y) } else { tcp.yield(..) } : tensor<[N]xf32>"
    text = BRANCH.replace("gml_st.if %c", "%u = gml_st.if %c").replace(
        "  }\n  %z", "    tcp.yield(%y)\n  } else { tcp.yield(%x) } : tensor<[N]xf32>\n  %z"
    )
    (remark,) = unread_loops(tcpx.parse(text))
    assert (remark.message, remark.fix) == (
        "%u is left out: nothing reads what its branches compute", "return %u",
    )  # fmt: skip
