"""Size variables that a text binds keep their names in copies of a function, and get new ones in copies of a body."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tests.transform.payloads import refusal, run

S = 'let s = match one "s" in root\n'
ROWS = """func @g(%x: tensor<[N]xf32>, %n: tensor<si32> in 0 to N + 1) -> tensor<[N]xf32> symbols [N] {
  %k = gml_st.materialize(%n) point [] : si32
  gml_st.bind(%k) {var = %k42 in 0 to N + 1}
  %y = gml_st.for %i in 0 to %k42 (%d = %x) {
    %e = gml_st.materialize(%x) point [%i] : f32
    %s = tcp.add(%e, %e) : f32
    gml_st.yield(%s, %d) point [%i]
  } : tensor<[N]xf32>
  tcp.return(%y)
}
"""
TWICE = (
    ROWS
    + """func @main(%x: tensor<[N]xf32>, %n: tensor<si32> in 0 to N + 1, %m: tensor<si32> in 0 to N + 1)
    -> tensor<[N]xf32> symbols [N] {
  %first = tcp.call(%x, %n) {callee = "g"} : tensor<[N]xf32>
  %second = tcp.call(%first, %m) {callee = "g"} : tensor<[N]xf32>
  tcp.return(%second)
}
"""
)
INLINED = "for c in match any call in root { inline(c) }"


@pytest.mark.parametrize("copied", [False, True])
def test_a_message_names_the_variable(copied: bool) -> None:
    if copied:
        program = f"language 1\nschedule main(root: func) {{\n{S}unroll(parent(s), factor: 2)\n}}"
        with pytest.raises(tcpx.TcpxError) as caught:
            tcpx.compile(tcpx.parse(ROWS), tcpx.parse_schedule(program))
        found = caught.value.diagnostic.found
    else:
        found = refusal(ROWS, S + "unroll(parent(s), factor: 2)").found
    assert found == "%k42 steps of 1 over 0..%k42"


def test_two_copies_of_a_function_have_two_variables() -> None:
    done = run(TWICE, INLINED)
    variables = [op.attributes["var"] for op in done.module.main.walk() if op.opcode == "gml_st.bind"]
    assert len({str(getattr(var, "name", "")) for var in variables} - {""}) == 2
    assert tcpx.parse(done.module.text()).text() == done.module.text()
    x = np.arange(5, dtype=np.float32)
    program = tcpx.parse_schedule(f"language 1\nschedule main(root: func) {{\n{INLINED}\n}}")
    kernel = tcpx.compile(tcpx.parse(TWICE), program)
    for n, m in ((0, 5), (3, 1), (5, 0)):
        given = (x, np.array(n, np.int32), np.array(m, np.int32))
        wanted = tcpx.evaluate(tcpx.parse(TWICE), *given)
        np.testing.assert_array_equal(wanted, np.where(np.arange(5) < n, x * 2, x) * np.where(np.arange(5) < m, 2, 1))
        np.testing.assert_array_equal(kernel(*given), wanted)


def test_two_variables_of_a_function_are_two_in_the_kernel() -> None:
    """Both had the name "" in the copy that is compiled, so both loops ran to the second."""
    text = """func @f(%x: tensor<[N]xf32>, %n: tensor<si32> in 0 to N + 1, %m: tensor<si32> in 0 to N + 1)
        -> tensor<[N]xf32> symbols [N] {
      %k = gml_st.materialize(%n) point [] : si32
      gml_st.bind(%k) {var = %a in 0 to N + 1}
      %l = gml_st.materialize(%m) point [] : si32
      gml_st.bind(%l) {var = %b in 0 to N + 1}
      %y = gml_st.for %i in 0 to %a (%d = %x) {
        %e = gml_st.materialize(%x) point [%i] : f32
        %s = tcp.add(%e, %e) : f32
        gml_st.yield(%s, %d) point [%i]
      } : tensor<[N]xf32>
      %z = gml_st.for %j in 0 to %b (%d = %y) {
        %e = gml_st.materialize(%y) point [%j] : f32
        %s = tcp.add(%e, %e) : f32
        gml_st.yield(%s, %d) point [%j]
      } : tensor<[N]xf32>
      tcp.return(%z)
    }
    """
    given = (np.ones(5, np.float32), np.array(1, np.int32), np.array(4, np.int32))
    found = tcpx.compile(tcpx.parse(text))(*given)
    np.testing.assert_array_equal(found, tcpx.evaluate(tcpx.parse(text), *given))
    np.testing.assert_array_equal(found, np.array([4, 2, 2, 2, 1], np.float32))
