"""group, isolate and dissolve."""

from __future__ import annotations

import pytest

import tcpx
from tcpx.payload.diagnostics import Kind
from tests.transform.payloads import MM, RELU, check, refusal, run

LAST = 'let last = match one "r" in root\n'
GROUP = f"{MM}{LAST}let g = group([mm, last])\n"
NEST = f"{MM}{LAST}let g = group([mm, last], promise: nest)\n"
FUSED = "let i = tile(mm, [m: 6])\nfuse(last, into: i)\n"


def test_a_group_holds_what_lies_between_and_computes_the_same() -> None:
    done = check(RELU, GROUP)
    (group,) = [op for op in done.module.walk() if op.opcode == "tcp.group"]
    assert [op.opcode for op in group.regions[0].ops] == ["tcp.matmul", "tcp.add", "tcp.max", "tcp.yield"]
    check(RELU, GROUP + FUSED)


def test_its_operations_are_found_in_it() -> None:
    body = f"{GROUP}let own = match some op in g\nrequire len(own) == 3 and (mm in g) == mm and parent(mm) == g\n"
    run(
        RELU,
        body + "let again = match one group in root\nrequire again == g\nspecialize g when size(mm.m) < 4 { } else { }",
    )


def test_dissolve_ends_the_group_alone() -> None:
    before, after = run(RELU, MM + LAST + FUSED).module, check(RELU, f"{GROUP}{FUSED}dissolve(g)").module
    assert [op.opcode for op in after.walk()] == [op.opcode for op in before.walk()]
    found = refusal(RELU, f"{GROUP}dissolve(g)\nisolate(g)")
    assert found.message == "%r.group is gone" or found.kind is Kind.DEFINITE


def test_a_promise_that_is_kept_and_one_that_is_not() -> None:
    check(RELU, NEST + FUSED + "dissolve(g)")
    found = refusal(RELU, NEST + "let i = tile(mm, [m: 6])\ndissolve(g)")
    assert found.message == "the group %r.group has not become one loop nest, as it promises"
    assert found.required == "one loop, with all that the group computes inside it"
    schedule = tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{\n{NEST}}}")
    with pytest.raises(tcpx.ScheduleError) as caught:
        tcpx.compile(tcpx.parse(RELU), schedule, target="generic")
    assert caught.value.diagnostic.message == found.message
    assert str(caught.value.diagnostic.schedule) == "<schedule>:5:1"


@pytest.mark.parametrize("grouped", ["[mm, last]", "[last]", "[mm]"])
def test_memory_is_not_grouped(grouped: str) -> None:
    found = refusal(RELU, f"{MM}{LAST}bufferize(root)\nlet g = group({grouped})")
    assert found.message.endswith("is in a function on buffers: it cannot be grouped")
    assert found.fix == "group before `bufferize`"


def test_an_isolated_group_takes_nothing_in() -> None:
    tiled = "let g = group([last])\nlet i = tile(last, [d0: 6])\n"
    run(RELU, MM + LAST + tiled + "fuse(mm, into: i)")
    found = refusal(RELU, MM + LAST + tiled + "isolate(g)\nfuse(mm, into: i)")
    assert found.message == "%mm is outside the isolated group %r.group"
    assert found.fix == "group it with the others, or `dissolve` %r.group first"
    assert refusal(RELU, GROUP + "isolate(g)\nisolate(g)").message == "%r.group is isolated already"


def test_cse_stops_at_an_isolated_group() -> None:
    payload = """
func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %a = tcp.exp(%x) : tensor<8xf32>
  %b = tcp.exp(%x) : tensor<8xf32>
  %c = tcp.add(%a, %b) : tensor<8xf32>
  tcp.return(%c)
}
"""
    body = 'let b = match one "b" in root\nlet c = match one "c" in root\nlet g = group([b, c])\n'
    assert [op.opcode for op in run(payload, body + "cse(root)").module.walk()].count("tcp.exp") == 1
    assert refusal(payload, body + "isolate(g)\ncse(root)").message == "`cse` changes nothing here"


def test_only_a_group_is_dissolved() -> None:
    found = refusal(RELU, MM + "dissolve(mm)")
    assert "op<group>" in (found.required or "")
    assert refusal(RELU, "let g = group([])").message == "there is nothing to make one piece of"


def test_the_kernel_is_that_without_the_group() -> None:
    def source(body: str) -> str:
        schedule = tcpx.parse_schedule(f"language 1\nschedule s(root: func) {{ {body} }}")
        text = tcpx.emit(tcpx.parse(RELU), schedule, target="generic").c_source
        return "\n".join(line for line in text.splitlines() if "/*" not in line)

    assert source(GROUP + FUSED) == source(MM + LAST + FUSED)
