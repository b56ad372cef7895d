"""Arguments that are constant in every call are constant in the function."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx

TWO = """\
func @net(%x: tensor<[M]x64xf32>, %v: tensor<64x48xf32>) -> tensor<[M]x48xf32> symbols [M] {
  %w1 = tcp.const {constant = "w1"} : tensor<64x64xf32>
  %w2 = tcp.const {constant = "w2"} : tensor<64x64xf32>
  %b1 = tcp.const {constant = "b1"} : tensor<64xf32>
  %b2 = tcp.const {constant = "b2"} : tensor<64xf32>
  %h = tcp.call @layer(%x, %w1, %b1) : tensor<[M]x64xf32>
  %g = tcp.call @layer(%h, %w2, %b2) : tensor<[M]x64xf32>
  %y = tcp.matmul(%g, %v) : tensor<[M]x48xf32>
  tcp.return(%y)
}
func @layer(%x: tensor<[B]x64xf32>, %w: tensor<64x64xf32>, %b: tensor<64xf32>) -> tensor<[B]x64xf32> symbols [B] {
  %mm = tcp.matmul(%x, %w) : tensor<[B]x64xf32>
  %bb = tcp.broadcast(%b) {dims = [1]} : tensor<[B]x64xf32>
  %s = tcp.add(%mm, %bb) : tensor<[B]x64xf32>
  tcp.return(%s)
}
"""
DRAW = np.random.default_rng(0)
CONSTANTS = {name: DRAW.standard_normal((64, 64)).astype(np.float32) for name in ("w1", "w2")}
CONSTANTS |= {name: DRAW.standard_normal(64).astype(np.float32) for name in ("b1", "b2")}
FOLD = """language 1
schedule s(root: func) {
  let mm = match one "mm" in root
  require mm.rhs.constant and not mm.lhs.constant
  let jr = tile(mm, [n: 16])
  let bp = pack(mm.rhs, [k, n])
  constant_fold(bp)
}"""


def close(module: tcpx.Module, kernel: tcpx.Kernel) -> None:
    for m in (0, 1, 5, 37):
        arrays = tcpx.random_inputs(module, m, sizes={"M": m})
        found, wanted = kernel(*arrays), tcpx.evaluate(module, *arrays)
        np.testing.assert_allclose(np.asarray(found, np.float64), np.asarray(wanted, np.float64), rtol=1e-3, atol=1e-2)


def test_each_call_hands_over_its_own_packed_constant() -> None:
    module = tcpx.parse(TWO, constants=CONSTANTS)
    run = tcpx.apply_schedule(module, tcpx.parse_schedule(FOLD))
    layer = run.module.funcs["layer"]
    assert [str(value.type) for value in layer.args[3:]] == ["tensor<4x64x16xf32>"]
    given = [call.operands[3].defining_op for call in layer.callers()]
    names = [made.attributes["constant"] for made in given if made is not None]
    assert len(set(names)) == 2
    kernel = tcpx.compile(module, tcpx.parse_schedule(FOLD))
    close(module, kernel)
    assert {slot.name for slot in kernel.signature.constants} == {"b1", "b2", *names}


@pytest.mark.parametrize("threads", [1, 2])
def test_default_schedule(threads: int) -> None:
    module = tcpx.parse(TWO, constants=CONSTANTS)
    kernel = tcpx.compile(module, threads=threads)
    close(module, kernel)
    assert not {"w1", "w2"} & {slot.name for slot in kernel.signature.constants}


def test_one_constant_stays_inside() -> None:
    module = tcpx.parse(TWO.replace("(%h, %w2, %b2)", "(%h, %w1, %b2)"), constants=CONSTANTS)
    run = tcpx.apply_schedule(module, tcpx.parse_schedule(FOLD))
    assert len(run.module.funcs["layer"].args) == 3
    assert [op.opcode for op in run.module.funcs["layer"].body.ops].count("tcp.const") == 1
    close(module, tcpx.compile(module, tcpx.parse_schedule(FOLD)))


def test_a_call_with_another_value() -> None:
    text = TWO.replace(
        "%y = tcp.matmul(%g, %v)", "%z = tcp.call @layer(%g, %q, %b2) : tensor<[M]x64xf32>\n  %y = tcp.matmul(%z, %v)"
    )
    module = tcpx.parse(text.replace("%v: tensor", "%q: tensor<64x64xf32>, %v: tensor"), constants=CONSTANTS)
    with pytest.raises(tcpx.ScheduleError) as caught:
        tcpx.apply_schedule(module, tcpx.parse_schedule(FOLD.replace("mm.rhs.constant and ", "")))
    found = caught.value.diagnostic
    assert found.message.endswith("reads an argument that is not constant in every call")
    assert (found.required, found.found) == ("a constant for %w in every call of @layer", "%q: tensor<64x64xf32>")
    close(module, tcpx.compile(module))
