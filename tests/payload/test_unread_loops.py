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
