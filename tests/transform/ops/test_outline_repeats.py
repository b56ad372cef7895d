"""outline_repeats: which operations repeat, where the parts begin, and what stays as it is."""

from __future__ import annotations

import numpy as np
import pytest

import tcpx
from benchmarks.transformer import INNER, WEIGHTS, WIDTH, transformer
from tests.transform.payloads import check, refusal

ROWS = "tensor<[M]x4xf32>"
HEAD = f"func @f(%x: {ROWS}, %z: {ROWS}) -> {ROWS} symbols [M] {{"


def payload(parts: int, before: str = "", first: str = "x", between: str = "") -> str:
    """Parts of four operations, each handing on one value."""
    lines, last = [HEAD, before], first
    for k in range(parts):
        lines += [
            f"  %a{k} = tcp.add(%{last}, %z) : {ROWS}",
            f"  %b{k} = tcp.exp(%a{k}) : {ROWS}",
            f"  %c{k} = tcp.mul(%a{k}, %b{k}) : {ROWS}",
            f"  %d{k} = tcp.sub(%c{k}, %z) : {ROWS}",
            between if k == 1 else "",
        ]
        last = f"d{k}"
    return "\n".join([*filter(None, lines), f"  tcp.return(%{last})", "}", ""])


def opcodes(module: tcpx.Module) -> list[str]:
    return [op.opcode.partition(".")[2] for op in module.main.body.ops]


def test_parts_become_calls_and_handles_denote_all_of_them() -> None:
    body = """outline_repeats(root, least: 8)
    let all = match some op in root where it.is_a(exp)
    require len(all) == 1
    let i = tile(b1, [d0: 3])
    fuse(a2, into: i, recompute: true)"""
    body = 'let b1 = match one "b1" in root\nlet a2 = match one "a2" in root\n' + body.replace("where it.is_a(exp)", "")
    done = check(payload(3), body.replace("require len(all) == 1", "require len(all) == 7"), exact=False)
    assert opcodes(done.module) == ["call", "call", "call", "return"]
    assert len(done.module.funcs) == 2


def test_parts_may_begin_before_or_behind() -> None:
    """What stands before looks like the end of a part; of `mul`, the operands are others."""
    before = f"  %e = tcp.mul(%x, %x) : {ROWS}\n  %g = tcp.sub(%e, %z) : {ROWS}"
    done = check(payload(3, before, "g"), "outline_repeats(root, least: 8)", exact=False)
    assert opcodes(done.module) == ["mul", "call", "call", "call", "sub", "return"]


def test_other_operations_in_between() -> None:
    done = check(payload(4, between=f"  %d1 = tcp.max(%q, %z) : {ROWS}").replace("%d1 = tcp.sub", "%q = tcp.sub"),
                 "outline_repeats(root, least: 4)", exact=False)  # fmt: skip
    assert opcodes(done.module) == ["call", "call", "max", "call", "call", "return"]


def test_what_reads_nothing_is_computed_in_each() -> None:
    before = "  %two = tcp.const {value = 2.0} : f32"
    text = payload(3, before).replace("f32\n", f"f32\n  %z1 = tcp.broadcast(%two) {{dims = []}} : {ROWS}\n", 1)
    done = check(text.replace(", %z)", ", %z1)"), "outline_repeats(root, least: 8)", exact=False)
    assert opcodes(done.module) == ["call", "call", "call", "return"]
    assert "%two" in next(func.text() for name, func in done.module.funcs.items() if name != "f")


def test_what_does_not_repeat_stays() -> None:
    found = refusal(payload(1), "outline_repeats(root)")
    assert found.message == "`outline_repeats` changes nothing here"
    found = refusal(payload(3), "outline_repeats(root, least: 9)")
    assert found.message == "`outline_repeats` changes nothing here"
    alike = payload(2).replace("tcp.mul(%a1, %b1)", "tcp.mul(%b1, %a1)").replace("(%a0, %b0)", "(%a0, %a0)")
    assert refusal(alike, "outline_repeats(root, least: 4)").message == "`outline_repeats` changes nothing here"


def test_on_memory_nothing_is_outlined() -> None:
    found = refusal(payload(3), "bufferize(root)\noutline_repeats(root, least: 4)")
    assert found.message == "`outline_repeats` changes nothing here"


@pytest.mark.parametrize("threads", [1, 2])
def test_a_transformer_is_one_block_that_packs_each_weight_once(threads: int) -> None:
    module = transformer(3)
    kernel = tcpx.compile(module, threads=threads)
    assert [*kernel.sources] == ["transformer.c", "transformer_y_0_q_0.c", "transformer_y_0.c"]
    once = tcpx.compile(transformer(1), threads=threads)
    assert len(kernel.sources["transformer_y_0.c"]) < 1.1 * len(once.sources["transformer.c"])
    assert len(kernel.sources["transformer.c"]) < 20_000 + 3 * 4_000
    slots = kernel.signature.constants
    assert len(slots) == 3 * len(WEIGHTS), "masks are computed"
    assert not [slot for slot in slots if slot.name.partition(".")[0] in ("wq", "wk", "wv", "wo", "w1", "w2")]
    elements = 3 * (4 * WIDTH * WIDTH + 2 * WIDTH * INNER + 5 * WIDTH + INNER)
    assert kernel.signature.constants_bytes == 4 * elements
    for batch, length in ((1, 1), (2, 5), (3, 17)):
        x = np.random.default_rng(length).standard_normal((batch, length, WIDTH), dtype=np.float32)
        np.testing.assert_allclose(
            *(np.asarray(held, np.float64) for held in (kernel(x), tcpx.evaluate(module, x))), rtol=1e-3, atol=1e-4
        )


def test_caches_are_state_of_the_function() -> None:
    """Each layer writes into a cache at a place that a number says: nothing is copied."""
    cache = "tensor<[C]x4xf32>"
    lines, last = [], "x"
    for k in range(3):
        lines += [
            f"  %a{k} = tcp.add(%{last}, %{last}) : tensor<1x4xf32>",
            f"  %c{k} = gml_st.for %i{k} in 0 to 1 step 1 (%d{k} = %cache{k}) {{",
            f"    gml_st.yield(%a{k}, %d{k}) tile [T, 0] [1, 4]",
            f"  }} : {cache}",
            f"  %s{k} = tcp.reduce_sum(%c{k}) {{dims = [0]}} : tensor<4xf32>",
            f"  %y{k} = tcp.mul(broadcast(%s{k}, [1]), %a{k}) : tensor<1x4xf32>",
        ]
        last = f"y{k}"
    inputs = ", ".join(f"%cache{k}: inout {cache}" for k in range(3))
    results = ", ".join(f"%cache{k}: {cache}" for k in range(3))
    text = f"""func @f(%x: tensor<1x4xf32>, %n: index as [T], {inputs}) -> (tensor<1x4xf32>, {results})
    symbols [T: 0..31, C: 32..64] {{
{chr(10).join(lines)}
  tcp.return(%y2, %c0, %c1, %c2)
}}
"""
    schedule = tcpx.parse_schedule("language 1\nschedule s(root: func) { outline_repeats(root, least: 8) }")
    module = tcpx.parse(text)
    done = tcpx.apply_schedule(module, schedule).module
    assert opcodes(done) == ["call", "call", "call", "return"]
    assert "(%x: tensor<1x4xf32>, %cache0: inout tensor<[C]x4xf32>, %n: index as [T])" in done.text()
    kernel = tcpx.compile(module, schedule, target="generic")
    assert not [remark for remark in kernel.remarks if not remark.factor]
    x, caches = np.ones((1, 4), np.float32), [np.ones((40, 4), np.float32) for _ in range(3)]
    wanted = tcpx.evaluate(module, x, np.array(5), *caches)
    found = kernel(x, 5, *caches)
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_a_block_with_state_packs_each_weight_once() -> None:
    """The weights as they were written are not handed over, and so are no constants of the kernel."""
    cache, rows, weight = "tensor<[C]x64xf32>", "tensor<[M]x64xf32>", "tensor<64x64xf32>"
    lines, last = [], "x"
    for k in range(3):
        lines += [
            f'  %w{k} = tcp.const {{constant = "w{k}"}} : {weight}',
            f'  %a{k} = tcp.contract(%{last}, %w{k}) {{lhs = ["m", "k"], rhs = ["k", "n"], out = ["m", "n"]}} : {rows}',
            f"  %c{k} = gml_st.for %i{k} in 0 to 1 step 1 (%d{k} = %cache{k}) {{",
            f"    gml_st.yield(%a{k}, %d{k}) tile [T, 0] [M, 64]",
            f"  }} : {cache}",
            f"  %s{k} = tcp.reduce_max(%c{k}) {{dims = [0]}} : tensor<64xf32>",
            f"  %y{k} = tcp.sub(%a{k}, broadcast(%s{k}, [1])) : {rows}",
        ]
        last = f"y{k}"
    inputs = ", ".join(f"%cache{k}: inout {cache}" for k in range(3))
    results = ", ".join(f"%cache{k}: {cache}" for k in range(3))
    drawn = np.random.default_rng(3)
    constants = {f"w{k}": drawn.standard_normal((64, 64), dtype=np.float32) for k in range(3)}
    text = f"""func @f(%x: {rows}, %n: index as [T], {inputs}) -> ({rows}, {results})
    symbols [M: 1..8, T: 0..8, C: 16..64] {{
{chr(10).join(lines)}
  tcp.return(%y2, %c0, %c1, %c2)
}}
"""
    module = tcpx.parse(text, constants=constants)
    body = "{\n  outline_repeats(root, least: 2)\n  default.rest(root)\n}"
    schedule = tcpx.parse_schedule(f'language 1\nimport "default.tcps" as default\nschedule s(root: func) {body}')
    kernel = tcpx.compile(module, schedule)
    assert len(kernel.sources) == 2
    assert not [remark for remark in kernel.remarks if not remark.factor]
    masks = [slot for slot in kernel.signature.constants if slot.name.startswith("true_")]
    assert len(kernel.signature.constants) == 3 + len(masks)
    x, caches = drawn.standard_normal((5, 64), dtype=np.float32), [np.zeros((20, 64), np.float32) for _ in range(3)]
    wanted = tcpx.evaluate(module, x, np.array(7), *caches)
    for ours, theirs in zip(kernel(x, 7, *caches), wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
