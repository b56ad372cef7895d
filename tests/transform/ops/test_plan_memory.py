"""plan_memory: where buffers lie, what shares memory, and how large the workspace is."""

from __future__ import annotations

import pytest

from tcpx.payload.diagnostics import VerifyError
from tcpx.payload.evaluator import evaluate_buffers
from tcpx.payload.ir import Module
from tcpx.payload.rewriter import Rewriter
from tcpx.payload.sizes import Dim, Size, evaluate
from tcpx.payload.text.parser import parse
from tcpx.payload.verifier import verify_module
from tcpx.transform.bufferization.workspace import ALIGNMENT, PAGE, pitch
from tcpx.transform.declaration import find
from tcpx.transform.ops.bufferize import bufferize
from tcpx.transform.ops.plan_memory import plan_memory
from tests.transform.payloads import RELU, arguments, refusal, run

HEAD = "func @f(%x: buffer<[M]xf32, strides [1], space argument>) symbols [M: 0..100000] {results = 0} {\n"


def buffer(rows: str, space: str = "arena") -> str:
    return f"buffer.alloc : buffer<{rows}xf32, strides [1], space {space}>"


def touch(name: str) -> str:
    return f"  buffer.prefetch(%{name}) tile [0] [1]\n"


def planned(body: str) -> Module:
    """A function with this body, planned; it verifies, parses back, and planning it again changes nothing."""
    module = parse(f"{HEAD}{body}  tcp.return\n}}\n")
    before = module.text()
    rewriter = Rewriter(module)
    mark = rewriter.mark()
    plan_memory(rewriter, module.main, 2)
    text = module.text()
    plan_memory(rewriter, module.main, 2)
    assert module.text() == text
    rewriter.rollback(mark)
    assert module.text() == before
    plan_memory(rewriter, module.main, 2)
    verify_module(module)
    assert parse(text).text() == text
    return module


def offsets(module: Module, rows: int = 1000) -> dict[str, tuple[int, int]]:
    """The offset of each buffer in the workspace, and the distance to that of the next thread."""
    found: dict[str, tuple[int, int]] = {}
    for op in module.walk():
        offset = op.attributes.get("offset")
        if isinstance(offset, int | Size):
            step = op.attributes["per_thread"]
            assert isinstance(step, int | Size)
            found[op.name] = evaluate(offset, {"M": rows}), evaluate(step, {"M": rows})
    return found


def workspace(module: Module, rows: int = 1000) -> int:
    """Bytes of the workspace; what is live at once is no more."""
    size, live = module.main.attributes["workspace"], module.main.attributes["workspace_live"]
    assert isinstance(size, int | Size)
    assert isinstance(live, int | Size)
    assert evaluate(live, {"M": rows}) <= evaluate(size, {"M": rows})
    return evaluate(size, {"M": rows})


def test_buffers_that_live_together_lie_behind_each_other() -> None:
    module = planned(
        f"  %a = {buffer('1000')}\n  %b = {buffer('1024')}\n  %c = {buffer('3')}\n"
        + touch("a")
        + touch("b")
        + touch("c")
    )
    assert offsets(module) == {"a": (0, 0), "b": (4032, 0), "c": (8192, 0)}
    assert workspace(module) == 8192 + 64
    assert module.main.attributes["threads"] == 2


def test_a_buffer_takes_the_place_of_one_that_is_dead() -> None:
    first = f"  %a = {buffer('[2*M]')}\n" + touch("a") + f"  %b = {buffer('[M]')}\n" + touch("b")
    module = planned(first + f"  %c = {buffer('[3*M]')}\n" + touch("b") + touch("c"))
    found = offsets(module)
    assert found["a"] == (0, 0)
    assert abs(found["c"][0] - found["b"][0]) >= 4000
    assert workspace(module) <= 16000 + 2 * ALIGNMENT


def test_a_place_grows_for_a_larger_buffer() -> None:
    module = planned(f"  %a = {buffer('8')}\n" + touch("a") + f"  %b = {buffer('100')}\n" + touch("b"))
    assert offsets(module) == {"a": (0, 0), "b": (0, 0)}
    assert workspace(module) == 448


def test_a_view_keeps_its_buffer_alive() -> None:
    module = planned(
        f"  %a = {buffer('[2*M]')}\n"
        "  %v = buffer.reshape(%a) : buffer<2x[M]xf32, strides [M, 1], space arena>\n"
        f"  %b = {buffer('[M]')}\n" + touch("b") + "  buffer.prefetch(%v) tile [0, 0] [1, 1]\n"
    )
    found = offsets(module)
    assert found["a"][0] + 8000 <= found["b"][0]


LOOP = """\
  %o = {outer}
  gml_st.for %i in 0 to M {{
    %a = {inner}
    buffer.prefetch(%a) tile [0] [1]
    %b = {inner}
    buffer.prefetch(%b) tile [0] [1]
    buffer.prefetch(%a) tile [0] [1]
  }}
  gml_st.for %j in 0 to M {{
    %c = {inner}
    buffer.prefetch(%c) tile [0] [1]
  }}
  buffer.prefetch(%o) tile [0] [1]
"""


def test_loops_one_after_the_other_share_memory() -> None:
    module = planned(LOOP.format(outer=buffer("16"), inner=buffer("32")))
    assert offsets(module) == {"o": (0, 0), "a": (64, 0), "b": (256, 0), "c": (64, 0)}
    assert workspace(module) == 64 + 448


def test_parallel_loops_have_slots_per_thread() -> None:
    module = planned(LOOP.format(outer=buffer("16"), inner=buffer("32")).replace("gml_st.for %i", "gml_st.parallel %i"))
    assert offsets(module) == {"o": (0, 0), "a": (64, 448), "b": (256, 448), "c": (64, 0)}
    assert workspace(module) == 64 + 2 * 448 + 64


def test_a_slot_is_no_multiple_of_a_page() -> None:
    made = f"  %a = {buffer('496')}\n  %b = {buffer('528')}\n"
    module = planned(f"  gml_st.parallel %i in 0 to M {{\n{made}{touch('a')}{touch('b')}  }}\n")
    step = PAGE + ALIGNMENT
    assert offsets(module) == {"a": (0, step), "b": (1984, step)}
    assert workspace(module) == pitch(2 * step)


def test_a_parallel_loop_in_a_parallel_loop_uses_the_same_slot() -> None:
    module = planned(f"""\
  gml_st.parallel %i in 0 to M {{
    %a = {buffer("16")}
    gml_st.parallel %j in 0 to M {{
      %b = {buffer("16")}
      buffer.prefetch(%b) tile [0] [1]
    }}
    buffer.prefetch(%a) tile [0] [1]
  }}
""")
    assert offsets(module) == {"a": (0, 192), "b": (64, 192)}


def test_branches_lie_over_each_other() -> None:
    module = planned(f"""\
  gml_st.if M >= 4 {{
    %a = {buffer("100")}
    buffer.prefetch(%a) tile [0] [1]
  }} else {{
    %b = {buffer("[M]")}
    buffer.prefetch(%b) tile [0] [1]
  }}
  %s = {buffer("16", "stack")}
  buffer.prefetch(%s) tile [0] [1]
""")
    assert offsets(module) == {"a": (0, 0), "b": (0, 0)}
    assert workspace(module, 0) >= 400
    assert 400 <= workspace(module, 100_000) <= 1024  # %b has 3 rows at most


@pytest.mark.parametrize("parallel", ["true", "false"])
def test_what_holds_in_a_branch_is_not_known_of_the_others(parallel: str) -> None:
    body = f"""
let mm = match one contract in root
specialize mm when size(mm.m) >= 1000 {{
  let j = tile(mm, [n: 128], parallel: {parallel})
  let k = tile(mm, [k: 8])
  fuse(mm.start, into: k)
  promote(mm.out, at: j)
}} else {{
  let j = tile(mm, [n: 128], parallel: {parallel})
  pack(mm.rhs, [n, k], at: j)
}}
bufferize(root)
plan_memory(root)
"""
    payload = RELU.replace("[K]", "256").replace("[N]", "256").replace("M: 0.., K: 0.., N: 0..", "M: 0..100000")
    module = run(payload, body).module
    assert workspace(module, 10) >= 4 * 256 * 128  # though the first version has 1000 rows at least
    assert workspace(module, 2000) >= 4 * 128 * 2000


def test_a_branch_needs_no_more_than_its_condition_bounds() -> None:
    module = planned(f"""  gml_st.if M <= 12 {{
    %a = {buffer("[M]")}
    buffer.prefetch(%a) tile [0] [1]
  }} else {{
    %b = {buffer("[M - 12]")}
    buffer.prefetch(%b) tile [0] [1]
  }}
""")
    assert workspace(module, 12) >= 48
    assert 4 * 99_988 <= workspace(module, 100_000) <= 4 * 99_988 + 4 * ALIGNMENT


def test_sizes_that_depend_on_loops_are_bounded() -> None:
    module = planned(f"""\
  gml_st.for %i in 0 to M step 8 {{
    %a = {buffer("[min(8, M - %i)]")}
    %b = {buffer("[M - %i]")}
    buffer.prefetch(%a) tile [0] [1]
    buffer.prefetch(%b) tile [0] [1]
  }}
""")
    assert workspace(module, 3) >= 2 * 64
    assert workspace(module, 1000) >= 32 + 4000


def test_an_empty_plan() -> None:
    module = planned("")
    assert workspace(module) == 0


@pytest.mark.parametrize("rows", [0, 1, 15, 16, 17, 1023, 1024, 1025, 4096, 5000])
def test_distances(rows: int) -> None:
    size: Dim = parse(f"{HEAD}  %a = {buffer('[M]')}\n  tcp.return\n}}\n").main.symbols[0].size() * 4
    for distance in (pitch(4 * rows), evaluate(pitch(size), {"M": rows})):
        assert isinstance(distance, int)
        assert distance % ALIGNMENT == 0
        assert distance >= 4 * rows
        assert distance % PAGE != 0
        assert distance < 4 * rows + 2 * ALIGNMENT


def test_the_packed_buffers_of_a_product() -> None:
    text = """
let mm = match one contract in root
let jc = tile(mm, [n: 32])
let ic = tile(mm, [m: 12], parallel: true)
let jr, ir = tile(mm, [n: 16, m: 6], tail: pad)
let bp = pack(mm.rhs, [k, n], at: jc)
let ap = pack(mm.lhs, [m, k], at: ic)
"""
    module = run(RELU.replace("K: 0..", "K: 0..64"), text + "bufferize(root)\nplan_memory(root)\n").module
    found = {op.name: op.attributes.get("per_thread") for op in module.walk() if op.opcode == "buffer.alloc"}
    assert found["mm.rhs.buf"] == 0
    assert found["mm.lhs.buf"] != 0


def test_the_evaluator_notices_a_plan_that_is_too_small() -> None:
    module = parse("""
func @f(%x: tensor<[M]x[M]xf32>) -> tensor<[M]x[M]xf32> symbols [M] {
  %s = tcp.add(%x, %x) : tensor<[M]x[M]xf32>
  %r = tcp.matmul(%s, %s) : tensor<[M]x[M]xf32>
  tcp.return(%r)
}
""")
    given = arguments(module, {"M": 5})
    rewriter = Rewriter(module)
    bufferize(rewriter, module.main)
    plan_memory(rewriter, module.main, 1)
    evaluate_buffers(module, module.main, given)
    rewriter.set_attribute(module.main, "workspace", 64)
    with pytest.raises(VerifyError, match="does not fit into the workspace"):
        evaluate_buffers(module, module.main, given)


def test_it_is_a_statement() -> None:
    assert find("plan_memory").signature() == "plan_memory(func: func)"


def test_a_function_on_tensors_is_refused() -> None:
    found = refusal(RELU, "plan_memory(root)")
    assert (found.message, found.fix) == ("@relu has no buffers to plan", "bufferize the function before")
