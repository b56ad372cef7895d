"""share: which operations become one function, what goes with them, and what stays as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcpx
from tcpx.payload.constants import Constants
from tcpx.payload.text.parser import parse
from tests.transform.payloads import check, refusal

ROWS = "tensor<[M]x8xf32>"
NOTHING = "`share` changes nothing here"


def layers(count: int, between: str = "tcp.softmax({}) {{dim = 1}}", after: str = "tcp.exp({})") -> str:
    """Products, each with an epilogue, and with something between."""
    args = ", ".join(f"%w{k}: tensor<8x8xf32>" for k in range(count))
    lines, last = [f"func @f(%x: {ROWS}, {args}) -> {ROWS} symbols [M: 0..] {{"], "%x"
    for k in range(count):
        lines += [
            f"  %p{k} = tcp.matmul({last}, %w{k}) : {ROWS}",
            f"  %e{k} = {after.format(f'%p{k}')} : {ROWS}",
            f"  %s{k} = {between.format(f'%e{k}')} : {ROWS}",
        ]
        last = f"%s{k}"
    return "\n".join([*lines, f"  tcp.return({last})", "}", ""])


def products(shapes: list[tuple[int, int]], after: str = "tcp.relu({})") -> str:
    """Products of a vector for each pair of sizes, one after the other, each with an epilogue."""
    args = ", ".join(f"%w{k}: tensor<{rows}x{columns}xf32>" for k, (rows, columns) in enumerate(shapes))
    lines, last = [f"func @f(%x: tensor<1x{shapes[0][0]}xf32>, {args}) -> tensor<1x{shapes[-1][1]}xf32> {{"], "%x"
    for k, (_, columns) in enumerate(shapes):
        type_ = f"tensor<1x{columns}xf32>"
        lines.append(f"  %p{k} = tcp.matmul({last}, %w{k}) : {type_}\n  %e{k} = {after.format(f'%p{k}')} : {type_}")
        last = f"%e{k}"
    return "\n".join([*lines, f"  tcp.return({last})", "}", ""])


def opcodes(module: tcpx.Module) -> list[str]:
    return opcodes_of(module, module.main.name)


def opcodes_of(module: tcpx.Module, name: str) -> list[str]:
    return [op.opcode.partition(".")[2] for op in module.funcs[name].body.ops]


ALL = "share(match any contract in root)"


def test_equal_operations_become_calls_with_their_epilogues() -> None:
    done = check(layers(3), ALL, exact=False)
    assert opcodes(done.module) == ["call", "softmax", "call", "softmax", "call", "softmax", "return"]
    made = done.module.funcs["f.e0"]
    assert [op.opcode for op in made.body.ops] == ["tcp.matmul", "tcp.exp", "tcp.return"]
    assert [value.name for value in made.args] == ["x", "w0"]


def test_steps_on_the_function_are_steps_on_all() -> None:
    done = check(layers(2), f"{ALL}\nlet p = match one contract in root\nlet i = tile(p, [m: 3])", exact=False)
    assert opcodes_of(done.module, "f.e0") == ["empty", "for", "exp", "return"]


NAMED = 'let p0 = match one "p0" in root\nlet p1 = match one "p1" in root\n'


def test_a_step_on_what_one_call_computes_copies_the_function() -> None:
    done = check(layers(3), f"{NAMED}{ALL}\nlet i = tile(p1, [m: 3])\nlet j = tile(p1, [n: 2])\nunroll(j)", exact=False)
    assert [call.attributes["callee"] for call in done.module.main.call_operations()] == ["f.e0", "f.e0.1", "f.e0"]
    assert opcodes_of(done.module, "f.e0") == ["matmul", "exp", "return"]
    assert opcodes_of(done.module, "f.e0.1") == ["empty", "for", "exp", "return"]


def test_a_loop_of_one_call_is_in_its_function() -> None:
    body = f"{NAMED}{ALL}\nlet p = match one contract in root\ntile(p, [m: 4])\npeel(p1.loop(m))"
    done = check(layers(3), body, exact=False)
    assert opcodes_of(done.module, "f.e0") == ["empty", "for", "exp", "return"]
    assert opcodes_of(done.module, "f.e0.1") == ["empty", "for", "for", "exp", "return"]


def test_a_step_that_fails_copies_nothing() -> None:
    body = f"{NAMED}{ALL}\ntry {{ tile(p1, [m: 3])\nrequire false\n}} else {{ }}"
    done = check(layers(3), body, exact=False)
    assert [*done.module.funcs] == ["f", "f.e0"]


def test_handles_of_all_calls_are_of_the_function() -> None:
    """Each call gets its own copy, but for the last one, which has the function for itself."""
    body = f"{NAMED}{ALL}\ntile(p0, [m: 3])\ntile(p1, [m: 4])"
    done = check(layers(2), body, exact=False)
    assert [*done.module.funcs] == ["f", "f.e0", "f.e0.1"]


RECIPE = """\
language 2
sequence rows(x: op) {
  knob count: int = 2 in [2, 3, 4]
  let i = tile(x, [m: count])
}
schedule main(root: func) {
  share(match any contract in root)
  for x in match any contract in root { rows(x) }
}
"""


@pytest.mark.parametrize(("key", "values"), [
    ("rows.count", {"@f.e0:main/p0": 4}),
    ("p0/rows.count", {"@f.e0:main/p0": 4}),
    ("@f.e0:*.count", {"@f.e0:main/p0": 4}),
    ("p1/rows.count", {"@f.e0:main/p0": 2, "main/p1": 4}),
    ("main/p2/rows.count", {"@f.e0:main/p0": 2, "main/p2": 4}),
    ("*/p1/*.count", {"@f.e0:main/p0": 2, "main/p1": 4}),
])  # fmt: skip
def test_a_param_of_one_operation_sets_that(key: str, values: dict[str, int]) -> None:
    """The paths that operations had before they were shared, which a record of the tuner has, still set their knobs."""
    run = tcpx.apply_schedule(parse(layers(3)), tcpx.parse_schedule(RECIPE), params={key: 4})
    assert {use.path: use.value for use in run.knobs} == {f"{path}/rows.count": n for path, n in values.items()}


def test_what_leads_to_an_operation_alone_goes_with_it() -> None:
    text = layers(2).replace("matmul(%x", "matmul(%n0").replace("matmul(%s0", "matmul(%n1")
    for k, before in enumerate(("%x", "%s0")):
        led = f"  %m{k} = tcp.neg({before}) : {ROWS}\n  %n{k} = tcp.abs(%m{k}) : {ROWS}\n"
        text = text.replace(f"  %p{k} =", f"{led}  %p{k} =")
    done = check(text, ALL, exact=False)
    assert opcodes(done.module) == ["call", "softmax", "call", "softmax", "return"]
    assert opcodes_of(done.module, "f.e0") == ["neg", "abs", "matmul", "exp", "return"]


def test_what_several_read_is_an_argument() -> None:
    text = layers(2).replace("tcp.exp(%p0)", "tcp.add(%p0, %n)").replace("tcp.exp(%p1)", "tcp.add(%p1, %n)")
    done = check(text.replace("  %p0 =", f"  %n = tcp.neg(%x) : {ROWS}\n  %p0 ="), ALL, exact=False)
    assert opcodes(done.module) == ["neg", "call", "softmax", "call", "softmax", "return"]
    assert len(done.module.funcs["f.e0"].args) == 3


def test_a_padding_of_the_result_goes_with_it() -> None:
    pad = (
        "tcp.pad({}) {{value = 0.0, low = [0, 1]}} : tensor<[M]x10xf32>\n  %u{} = tcp.slice(%t{}) {{offsets = [0, 0]}}"
    )
    text = layers(2)
    for k in range(2):
        padded = f"  %t{k} = {pad.format(f'%e{k}', k, k)} : {ROWS}\n  %s{k} = tcp.softmax(%u{k})"
        text = text.replace(f"  %s{k} = tcp.softmax(%e{k})", padded)
    done = check(text, ALL, exact=False)
    assert opcodes(done.module) == ["call", "slice", "softmax", "call", "slice", "softmax", "return"]
    assert opcodes_of(done.module, "f.t0") == ["matmul", "exp", "pad", "return"]


def test_an_epilogue_of_two_products_goes_with_the_first() -> None:
    text = f"""func @f(%x: {ROWS}, %v: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> {ROWS} symbols [M: 0..] {{
  %p = tcp.matmul(%x, %v) : {ROWS}
  %q = tcp.matmul(%x, %w) : {ROWS}
  %r = tcp.add(%p, %q) : {ROWS}
  %s = tcp.softmax(%r) {{dim = 1}} : {ROWS}
  %t = tcp.matmul(%s, %v) : {ROWS}
  %u = tcp.matmul(%s, %w) : {ROWS}
  %y = tcp.add(%t, %u) : {ROWS}
  tcp.return(%y)
}}
"""
    done = check(text, ALL, exact=False)
    assert opcodes(done.module) == ["call", "call", "softmax", "call", "call", "return"]
    assert sorted(opcodes_of(done.module, name) for name in done.module.funcs if name != "f") == [
        ["matmul", "add", "return"], ["matmul", "return"]
    ]  # fmt: skip


def test_compiled_they_are_one_c_function() -> None:
    module = parse(layers(3))
    program = tcpx.parse_schedule(f"language 2\nschedule main(root: func) {{ {ALL} }}\n")
    rng = np.random.default_rng(0)
    x, *weights = (rng.standard_normal(shape, np.float32) for shape in ((5, 8), (8, 8), (8, 8), (8, 8)))
    kernel: Any = tcpx.compile(module, program)
    wanted = x
    for w in weights:
        exps = np.exp(np.exp(wanted @ w) - np.exp(wanted @ w).max(1, keepdims=True))
        wanted = exps / exps.sum(1, keepdims=True)
    np.testing.assert_allclose(kernel(x, *weights), wanted, rtol=1e-4)
    assert [*kernel.sources] == ["f.c", "f_e0.c"]
    assert "\n/* @f.e0, for e0, e1, e2 */\n" in kernel.sources["f_e0.c"]


def test_the_default_schedule_shares() -> None:
    kernel = tcpx.compile(parse(layers(3, between="tcp.softmax({}) {{dim = 0}}")))
    assert [*kernel.sources] == ["f.c", "f_e0.c"]


STORED = """\
func @f(%x: tensor<[M]x2xf32>, %v: tensor<2x2xf32>) -> tensor<[M]x2xf32> symbols [M: 0..] {
  %w = tcp.const {value = [[0.0, 1.0], [1.0, 2.0]]} : tensor<2x2xf32>
  %p = tcp.matmul(%x, %w) : tensor<[M]x2xf32>
  %s = tcp.softmax(%p) {dim = 1} : tensor<[M]x2xf32>
  %q = tcp.matmul(%s, %v) : tensor<[M]x2xf32>
  tcp.return(%q)
}
"""
CONCAT = """\
func @f(%x: tensor<[M]x4xf32>, %v: tensor<4x4xf32>) -> tensor<[M]x8xf32> symbols [M: 0..] {
  %p = tcp.matmul(%x, %v) : tensor<[M]x4xf32>
  %q = tcp.matmul(%p, %v) : tensor<[M]x4xf32>
  %y = tcp.concat(%p, %q) {dim = 1} : tensor<[M]x8xf32>
  tcp.return(%y)
}
"""


STRIDED = """\
func @f(%x: tensor<[M]x8xf32> strided, %y: tensor<[M]x8xf32> strided, %v: tensor<8x8xf32>)
    -> (tensor<[M]x8xf32>, tensor<[M]x8xf32>) symbols [M: 0..] {
  %p = tcp.matmul(%x, %v) : tensor<[M]x8xf32>
  %q = tcp.matmul(%y, %v) : tensor<[M]x8xf32>
  tcp.return(%p, %q)
}
"""
PARTS = """\
func @f(%x: tensor<[M]x16xf32>, %v: tensor<8x8xf32>) -> (tensor<[M]x8xf32>, tensor<[M]x8xf32>) symbols [M: 0..] {
  %a = tcp.slice(%x) {offsets = [0, 0]} : tensor<[M]x8xf32>
  %b = tcp.slice(%x) {offsets = [0, 8]} : tensor<[M]x8xf32>
  %p = tcp.matmul(%a, %v) : tensor<[M]x8xf32>
  %q = tcp.matmul(%b, %v) : tensor<[M]x8xf32>
  tcp.return(%p, %q)
}
"""


@pytest.mark.parametrize("text", [
    layers(1),
    layers(2).replace("tcp.exp(%p1)", "tcp.abs(%p1)"),
    products([(64, 96), (96, 48)]),
    STORED,
    CONCAT,
    STRIDED,
    PARTS,
], ids=[
    "one", "another epilogue", "another shape", "of one, a factor is constant", "pieces of a concat",
    "rows any distance apart", "parts of a value",
])  # fmt: skip
def test_what_differs_stays(text: str) -> None:
    assert refusal(text, ALL).message == NOTHING


def test_operations_in_loops_stay() -> None:
    body = 'let p0 = match one "p0" in root\nlet i = tile(p0, [m: 2])\n'
    assert refusal(layers(2), body + ALL).message == NOTHING


def test_on_memory_nothing_is_shared() -> None:
    body = 'let p0 = match one "p0" in root\nlet p1 = match one "p1" in root\nbufferize(root)\nshare([p0, p1])'
    assert refusal(layers(2), body).message == NOTHING


LAYER = """\
func @layer(%x: tensor<4x64xf32>, %v: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<4x64xf32> {
  %p = tcp.matmul(%x, %v) : tensor<4x64xf32>
  %a = tcp.softmax(%p) {dim = 0} : tensor<4x64xf32>
  %q = tcp.matmul(%a, %w) : tensor<4x64xf32>
  %b = tcp.softmax(%q) {dim = 0} : tensor<4x64xf32>
  tcp.return(%b)
}
func @net(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %a = tcp.const {constant = "a"} : tensor<64x64xf32>
  %b = tcp.const {constant = "b"} : tensor<64x64xf32>
  %c = tcp.const {constant = "c"} : tensor<64x64xf32>
  %y = tcp.call @layer(%x, %a, %b) : tensor<4x64xf32>
  %z = tcp.call @layer(%y, %b, %c) : tensor<4x64xf32>
  tcp.return(%z)
}
"""


def test_constants_that_calls_hand_on_are_folded_where_they_are_stored() -> None:
    """The function of both products turns its factor, of which each call in the layer passes an argument of that."""
    rng = np.random.default_rng(0)
    weights = {name: rng.standard_normal((64, 64), np.float32) for name in "abc"}
    body = """share(match any contract in root)
    let p = match one "p" in root
    let turned = pack(p.rhs, [n, k])
    constant_fold(turned)"""
    program = tcpx.parse_schedule(f"language 2\nschedule main(root: func) {{ {body} }}\n")
    module = parse(LAYER, constants=Constants(weights))
    kernel: Any = tcpx.compile(module, program)
    x = rng.standard_normal((4, 64), np.float32)
    wanted: Any = tcpx.evaluate(module, x)
    np.testing.assert_allclose(kernel(x), wanted, rtol=1e-5)
    made = tcpx.apply_schedule(module, program).module
    assert "gml_st.for" not in made.funcs["layer.p"].text()
    assert len({*made.constants} - {*"abc"}) == 3


FAMILY = "share(match any contract in root, family: true)"


def test_a_family_is_a_function_of_sizes() -> None:
    text = products([(64, 96), (96, 48), (48, 7), (7, 32)])
    made = check(text, FAMILY, exact=False).module
    assert opcodes(made) == ["call", "call", "matmul", "relu", "matmul", "relu", "return"]
    symbols = [(s.name, s.lower, s.upper, s.multiple_of) for s in made.funcs["f.e0"].symbols]
    assert symbols == [("s0", 64, 96, 32), ("s1", 48, 96, 48)]


MINOR = "share(match any contract in root, minor: {})"


def test_what_takes_little_time_is_a_family() -> None:
    large, small = [(256, 512), (512, 256)], [(256, 32), (32, 64), (64, 32)]
    made = check(products([*large, *small]), MINOR.format(0.04), exact=False).module
    assert opcodes(made) == ["matmul", "relu", "matmul", "relu", "call", "call", "call", "return"]
    assert [*made.funcs] == ["f", "f.e2"]
    assert refusal(products([*large, *small]), MINOR.format(0.001)).message == NOTHING


def test_equal_shapes_are_shared_whatever_they_take() -> None:
    shapes = [(256, 256), (256, 256), (256, 32), (32, 256)]
    made = check(products(shapes), MINOR.format(0.04), exact=False).module
    assert opcodes(made) == ["call", "call", "matmul", "relu", "matmul", "relu", "return"]


def test_what_has_other_sizes_than_numbers_is_no_family() -> None:
    text = products([(64, 96), (96, 48)]).replace("1x", "[M]x").replace("> {", "> symbols [M: 0..] {")
    assert refusal(text, MINOR.format(0.9)).message == NOTHING


VERSIONS = """\
let p = match one contract in root
specialize [p] when size(p.n) * size(p.k) <= {} {{
  let i = tile(p, [n: 8])
}} else {{
  let i = tile(p, [n: 16])
}}"""


@pytest.mark.parametrize(("most", "asserted", "loops"), [(7000, 1, 1), (4000, 0, 1), (5000, 0, 2)])
def test_versions_that_no_call_takes_are_left_out(most: int, asserted: int, loops: int) -> None:
    """The factors have 6144, 4608 and 6912 elements, which no range says; what all take is a fact of the function."""
    text = products([(64, 96), (96, 48), (48, 144)])
    made = check(text, f"{FAMILY}\n{VERSIONS.format(most)}", exact=False).module.funcs["f.e0"]
    found = [op.opcode for op in made.walk()]
    assert (found.count("tcp.assert"), found.count("gml_st.for")) == (asserted, loops)


def test_what_calls_decide_is_not_checked() -> None:
    program = f"language 2\nschedule main(root: func) {{ {FAMILY}\n{VERSIONS.format(7000)} }}\n"
    kernel = tcpx.compile(parse(products([(64, 96), (96, 48), (48, 144)])), tcpx.parse_schedule(program))
    assert kernel.signature.assertions == ()


def test_a_family_pads_by_the_same_number() -> None:
    text = """\
func @f(%x: tensor<32x32xf32>, %y: tensor<64x64xf32>) -> (tensor<34x34xf32>, tensor<66x66xf32>) {
  %p = tcp.matmul(%x, %x) : tensor<32x32xf32>
  %a = tcp.pad(%p) {value = 0.0, low = [1, 1]} : tensor<34x34xf32>
  %q = tcp.matmul(%y, %y) : tensor<64x64xf32>
  %b = tcp.pad(%q) {value = 0.0, low = [1, 1]} : tensor<66x66xf32>
  tcp.return(%a, %b)
}
"""
    made = check(text, FAMILY, exact=False).module
    assert str(made.funcs["f.a"].returned[0].type) == "tensor<[s0 + 2]x[s0 + 2]xf32>"


def test_what_holds_for_these_sizes_alone_is_no_family() -> None:
    """The result of the first is 3 times as long as its factor, of the second 2 times."""
    text = """\
func @f(%x: tensor<32x32xf32>, %y: tensor<64x64xf32>) -> (tensor<1056xf32>, tensor<4160xf32>) {
  %p = tcp.matmul(%x, %x) : tensor<32x32xf32>
  %a = tcp.pad(%p) {value = 0.0, low = [1, 0]} : tensor<33x32xf32>
  %c = tcp.reshape(%a) : tensor<1056xf32>
  %q = tcp.matmul(%y, %y) : tensor<64x64xf32>
  %b = tcp.pad(%q) {value = 0.0, low = [1, 0]} : tensor<65x64xf32>
  %d = tcp.reshape(%b) : tensor<4160xf32>
  tcp.return(%c, %d)
}
"""
    made = check(text, FAMILY, exact=False).module
    assert [*made.funcs] == ["f", "f.a"]


@pytest.mark.parametrize("target", ["generic", "x86_avx2"])
def test_small_code_is_one_function_for_all_sizes(target: str) -> None:
    text = products([(64, 96), (96, 48), (48, 80), (80, 32)])
    kernels: list[Any] = [tcpx.compile(parse(text), size=size, target=target) for size in ("fast", "small")]
    assert [len(kernel.sources) for kernel in kernels] == [1, 2]
    rng = np.random.default_rng(0)
    x, *weights = (rng.standard_normal(value.shape, np.float32) for value in kernels[0].signature.arguments)
    np.testing.assert_allclose(*(kernel(x, *weights) for kernel in kernels), rtol=1e-4)


def test_another_size_of_code_is_refused() -> None:
    with pytest.raises(tcpx.TcpxError, match="there are no such sizes of code"):
        tcpx.emit(parse(layers(2)), size="tiny")


def test_constants_of_a_family_are_packed_by_the_compiler() -> None:
    """Each call tells the sizes of its constant, and passes it packed."""
    shapes = [(64, 96), (96, 48), (48, 80)]
    head, *body = products(shapes).replace("tensor<1x", "tensor<40x").splitlines()
    stored = [
        f'  %w{k} = tcp.const {{constant = "w{k}"}} : tensor<{rows}x{columns}xf32>'
        for k, (rows, columns) in enumerate(shapes)
    ]
    text = "\n".join([f"{head.partition(', %w0')[0]}) ->{head.partition(') ->')[2]}", *stored, *body, ""])
    rng = np.random.default_rng(0)
    weights = {f"w{k}": rng.standard_normal(shape, np.float32) for k, shape in enumerate(shapes)}
    kernel: Any = tcpx.compile(parse(text, constants=Constants(weights)), size="small", target="x86_avx2")
    assert len(kernel.sources) == 2
    assert all("/pack" not in source for source in kernel.sources.values())
    wanted = x = rng.standard_normal((40, 64), np.float32)
    for weight in weights.values():
        wanted = np.maximum(wanted @ weight, 0)
    np.testing.assert_allclose(kernel(x), wanted, rtol=1e-4, atol=1e-4)
