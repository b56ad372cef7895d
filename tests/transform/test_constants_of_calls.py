"""Arguments that are constant in every call are constant in the function."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from tcpx.payload.ops.gml_st import Loop

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


MIXED = TWO.replace(
    "%y = tcp.matmul(%g, %v)", "%z = tcp.call @layer(%g, %q, %b2) : tensor<[M]x64xf32>\n  %y = tcp.matmul(%z, %v)"
).replace("%v: tensor", "%q: tensor<64x64xf32>, %v: tensor")
UNKNOWN = FOLD.replace("mm.rhs.constant and ", "not mm.rhs.constant and ")


@pytest.mark.parametrize("same", [False, True], ids=["two constants", "one constant"])
def test_calls_with_constants_get_a_copy(same: bool) -> None:
    """Where other calls pass what is known only when the kernel runs, these go on with the function as it was."""
    module = tcpx.parse(MIXED.replace("(%h, %w2, %b2)", "(%h, %w1, %b2)") if same else MIXED, constants=CONSTANTS)
    run = tcpx.apply_schedule(module, tcpx.parse_schedule(UNKNOWN))
    done = run.module
    assert {name: [call.name for call in func.callers()] for name, func in done.funcs.items()} == {
        "net": [], "layer": ["z"], "layer.1": ["h", "g"],
    }  # fmt: skip
    loops = {name: sum(isinstance(op, Loop) for op in func.walk()) for name, func in done.funcs.items()}
    assert loops == {"net": 0, "layer": 2, "layer.1": 1}, "the loop that packs is left in one"
    assert len(done.funcs["layer.1"].args) == (3 if same else 4)
    again = tcpx.parse(done.text(), constants=done.constants)
    assert again.text() == done.text()
    kernel = tcpx.compile(module, tcpx.parse_schedule(UNKNOWN))
    close(module, kernel)
    report = kernel.report()
    assert (report.functions, report.clones) == (2, 1)
    close(module, tcpx.compile(module))


def test_versions_are_folded_in_one_copy() -> None:
    """An operation that is there in several versions is one step, which makes one copy of the function."""
    branches = 'annotate(mm, "rows", "few") } else { annotate(mm, "rows", "many") }\n  constant_fold'
    schedule = UNKNOWN.replace("constant_fold", "specialize [bp, jr] when size(mm.m) <= 8 { " + branches)
    module = tcpx.parse(MIXED, constants=CONSTANTS)
    done = tcpx.apply_schedule(module, tcpx.parse_schedule(schedule)).module
    loops = {name: sum(isinstance(op, Loop) for op in func.walk()) for name, func in done.funcs.items()}
    assert loops == {"net": 0, "layer": 4, "layer.1": 2}
    kernel = tcpx.compile(module, tcpx.parse_schedule(schedule))
    close(module, kernel)
    assert (kernel.report().functions, kernel.report().clones) == (2, 1)


def test_a_clone_that_is_there_is_used() -> None:
    """The copies that the schedule made are folded one by one; the call without a constant keeps its own."""
    module = tcpx.parse(MIXED, constants=CONSTANTS)
    body = UNKNOWN.replace("let mm =", 'let z = match one "z" in root\n  clone(z)\n  let mm =')
    own = body.replace("require not mm.rhs.constant", "require (mm in h).rhs.constant").replace(
        "let z =", 'let h = match one "h" in root\n  let z ='
    )
    run = tcpx.apply_schedule(module, tcpx.parse_schedule(own.replace("constant_fold(bp)", "constant_fold(bp in h)")))
    assert list(run.module.funcs) == ["net", "layer", "layer.1"]
    assert [len(func.args) for func in run.module.funcs.values()][1:] == [4, 3]


def test_no_call_passes_a_constant() -> None:
    text = MIXED.replace("%w1, %b1", "%q, %b1").replace("%w2, %b2", "%q, %b2")
    module = tcpx.parse(text, constants=CONSTANTS)
    with pytest.raises(tcpx.ScheduleError) as caught:
        tcpx.apply_schedule(module, tcpx.parse_schedule(UNKNOWN))
    found = caught.value.diagnostic
    assert found.message == "no call passes constants for all that %mm.rhs/pack1 reads"
    assert (found.required, found.found) == ("a constant for %w in a call of @layer", "%q: tensor<64x64xf32>")
