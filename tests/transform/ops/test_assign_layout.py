"""assign_layout: the order of the dims of each value of a function."""

from __future__ import annotations

import re

import pytest

from tests.transform.layout_graphs import BETWEEN, CALLED, SUM, iterators
from tests.transform.payloads import check, refusal


def convolution(name: str, x: str, w: str, shape: str) -> str:
    """A 3x3 convolution of channels, height and width, with padding."""
    maps = "[[c, h + i, j + k], [f, c, h, k], [f, i, j]]"
    its = iterators("f i j", "c h k")
    return (
        f"  %{name}.pad = tcp.pad(%{x}) {{value = 0.0, low = [0, 1, 1]}} : tensor<32x9x9xf32>\n"
        f"  %{name} = tcp.generic(%{name}.pad, %{w}) {{iterators = {its}, maps = {maps}, combiner = "
        f'"tcp.add"}} {SUM} : tensor<{shape}>\n'
    )


UNCHANGED = "`assign_layout` changes nothing here"
SHAPE = "32x7x7xf32"
HEAD = f"func @f(%x: tensor<{SHAPE}>, %w: tensor<32x32x3x3xf32>) -> tensor<{SHAPE}> {{\n"


def chain(middle: str, last: str = "z") -> str:
    """Two convolutions and what stands between them, of %y."""
    between = middle or "  %r = tcp.relu(%y) : tensor<32x7x7xf32>\n"
    return (
        HEAD
        + convolution("y", "x", "w", SHAPE)
        + between
        + convolution("z", "r", "w", SHAPE)
        + f"  tcp.return(%{last})\n}}\n"
    )


EXPLAINED = """\
3 transposes while the kernel runs
  %w: 9216 elements
  %w: 9216 elements
  %z.1: 1568 elements
orders of dims
  %y.pad: [0, 1, 2] costs 288, [1, 2, 0] 162
  %y: [1, 2, 0] costs 4.22e+04, [0, 1, 2] 8.87e+04
  %r: [1, 2, 0] costs 98, [0, 1, 2] 224
  %z.pad: [1, 2, 0] costs 162, [0, 1, 2] 288
  %z: [1, 2, 0] costs 4.22e+04, [0, 1, 2] 9.07e+04"""


@pytest.mark.parametrize("name", BETWEEN)
def test_what_passes(name: str) -> None:
    last = (
        "r" if name in ("softmax", "norm", "norm of groups", "mean") else "z"
    )  # sums of what is rounded differ by more
    payload = chain(BETWEEN[name], last) + (CALLED if name == "call" else "")
    text = check(payload, "assign_layout(root)", [{}], exact=False).module.text()
    turned = [line.split()[2] for line in text.splitlines() if "tcp.transpose" in line]
    assert {*turned} <= {"tcp.transpose(%w)", f"tcp.transpose(%{last}.1)"}, turned
    assert "tensor<7x7x32xf32>" in text


def test_a_norm_of_groups_by_reshapes_moves_nothing() -> None:
    middle = """  %c = tcp.reshape(%y) : tensor<4x392xf32>
  %n = tcp.layer_norm(%c) {dims = [1], epsilon = 1.0} : tensor<4x392xf32>
  %e = tcp.reshape(%n) : tensor<32x7x7xf32>
  %m = tcp.mul(%e, 0.5) : tensor<32x7x7xf32>
  %r = tcp.silu(%m) : tensor<32x7x7xf32>
"""
    steps = "recognize(root)\nassign_layout(root)"
    text = check(chain(middle, "r"), steps, [{}], exact=False).module.text()
    assert "tcp.reshape" not in text
    assert "{dims = [0, 1, 2], epsilon = 1.0, parts = [1, 1, 4]} : tensor<7x7x32xf32>" in text
    between = text[text.index("tcp.layer_norm") : text.index("%z")]
    assert "tcp.transpose" not in between.replace("%r.turned = tcp.transpose", "")


def test_a_handle_denotes_what_computes_its_operation() -> None:
    """A transpose that goes leaves the handle to what it reads."""
    handles = 'let y = match one "y" in root\nlet c = match one "c" in root\n'
    steps = handles + "assign_layout(root)\nrequire y.is_a(generic) and y == c"
    check(chain(BETWEEN["transposes of the payload"]), steps, [{}], exact=False)


def test_classes_are_kept() -> None:
    text = check(chain(BETWEEN["two operands"]), "assign_layout(root)", [{}], exact=False).module.text()
    assert "tcp.add(%y.1, %y.1) : tensor<7x7x32xf32>" in text
    assert text.count("tcp.generic") == 2


def test_a_reduction_of_several_results_follows_the_order() -> None:
    """Nothing is transposed while the kernel runs but the first operand."""
    head = HEAD.replace(f"-> tensor<{SHAPE}>", "-> tensor<7x7xsi64>")
    body = convolution("y", "x", "w", SHAPE) + convolution("z", "y", "w", SHAPE)
    last = "  %m, %i = tcp.reduce_argmax(%z) {dims = [0]} : tensor<7x7xf32>, tensor<7x7xsi64>\n  tcp.return(%i)\n}\n"
    text = check(head + body + last, "assign_layout(root)", [{}]).module.text()
    assert "tcp.reduce_argmax(%z.1) {dims = [2]}" in text
    assert {line.split()[2] for line in text.splitlines() if "tcp.transpose" in line} <= {"tcp.transpose(%w)"}


def test_what_cannot_pass_is_read_through_a_transpose() -> None:
    stops = """  %c = tcp.reshape(%y) : tensor<8x196xf32>
  %e = tcp.softmax(%c) {dim = 1} : tensor<8x196xf32>
  %r = tcp.reshape(%e) : tensor<32x7x7xf32>
"""
    text = check(chain(stops, "r"), "assign_layout(root)", [{}], exact=False).module.text()
    assert "%y.turned = tcp.transpose" in text


@pytest.mark.parametrize("readers", [1, 2, 3, 8])
def test_readers_share_a_transpose(readers: int) -> None:
    """What one transpose is worth, it is worth for any number of readers: it is there once."""
    softmax = """  %r{0} = tcp.reshape(%y) : tensor<8x196xf32>
  %s{0} = tcp.softmax(%r{0}) {{dim = 1}} : tensor<8x196xf32>
"""
    maps, its = "[[c, h + i, j + k], [f, c, h, k], [f, i, j]]", iterators("f i j", "c h k")
    payload = (
        "func @f(%x: tensor<2x9x9xf32>, %w: tensor<32x2x3x3xf32>) -> "
        f"({', '.join(['tensor<8x196xf32>'] * readers)}) {{\n"
        f'  %y = tcp.generic(%x, %w) {{iterators = {its}, maps = {maps}, combiner = "tcp.add"}} {SUM}'
        f" : tensor<{SHAPE}>\n{''.join(softmax.format(k) for k in range(readers))}"
        f"  tcp.return({', '.join(f'%s{k}' for k in range(readers))})\n}}\n"
    )
    text = check(payload, "assign_layout(root)", [{}], exact=False).module.text()
    assert text.count("= tcp.transpose(%y.1)") == 1


@pytest.mark.parametrize("taps", [2, 3, 4])
def test_phases_of_a_transposed_convolution_are_joined_as_they_are_computed(taps: int) -> None:
    """A concat along dims of one index passes the order of its operands on: one transpose of all remains."""
    low, high = {2: (0, 0), 3: (1, 0), 4: (1, 1)}[taps]
    payload = (
        f"func @f(%x: tensor<1x32x7x5xf32>, %w: tensor<32x16x{taps}x{taps}xf32>) -> tensor<1x16x14x10xf32> {{\n"
        '  %y = tcp.convolution_transpose(%x, %w) {input = ["n", "f", "h", "w"], filter = ["f", "c", "p", "q"],\n'
        f'      out = ["n", "c", "h+p", "w+q"], strides = [2, 2], low = [{low}, {low}], high = [{high}, {high}]}} :\n'
        "      tensor<1x16x14x10xf32>\n  %z = tcp.relu(%y) : tensor<1x16x14x10xf32>\n  tcp.return(%z)\n}\n"
    )
    text = check(payload, "assign_layout(root)", [{}], exact=False).module.text()
    turned = re.findall(r"= tcp.transpose\(.*tensor<(\S+)x", text)
    assert [shape for shape in turned if not shape.endswith("x16")] == ["1x16x14x10"], (
        turned
    )  # the others are of filters


def test_transposes_of_one_value_have_their_own_orders() -> None:
    """All are stored as that value is, and read in the orders of their types."""
    turned = "tensor<7x32x7xf32>"
    text = (
        HEAD.replace(f"-> tensor<{SHAPE}>", f"-> (tensor<{SHAPE}>, {turned}, tensor<{SHAPE}>)")
        + convolution("y", "x", "w", SHAPE)
        + f"  %t = tcp.transpose(%y) {{permutation = [1, 0, 2]}} : {turned}\n"
        + convolution("z", "y", "w", SHAPE)
        + "  tcp.return(%y, %t, %z)\n}\n"
    )
    check(text, "assign_layout(root)", [{}], exact=False)


def test_transposes_of_a_transposed_result_of_a_branch() -> None:
    """The result has another type at the end; what is read of it stands in the function, after the branch."""
    text = (
        HEAD.replace(") ->", ", %c: tensor<f32>) ->").replace(
            f"-> tensor<{SHAPE}>", f"-> (tensor<7x32x7xf32>, tensor<{SHAPE}>)"
        )
        + "  %e = gml_st.materialize(%c) point [] : f32\n  %o = tcp.const {value = 0.5} : f32\n"
        + "  %more = tcp.greater(%e, %o) : i1\n  %y = gml_st.if %more {\n"
        + convolution("a", "x", "w", SHAPE)
        + "  tcp.yield(%a)\n  } else {\n"
        + convolution("b", "x", "w", SHAPE)
        + f"  %n = tcp.neg(%b) : tensor<{SHAPE}>\n  tcp.yield(%n)\n  }} : tensor<{SHAPE}>\n"
        + "  %t = tcp.transpose(%y) {permutation = [1, 2, 0]} : tensor<7x7x32xf32>\n"
        + "  %u = tcp.transpose(%t) {permutation = [0, 2, 1]} : tensor<7x32x7xf32>\n"
        + convolution("z", "y", "w", SHAPE)
        + "  tcp.return(%u, %z)\n}\n"
    )
    check(text, "assign_layout(root)", [{}], exact=False)


def test_pinned() -> None:
    text = check(chain(""), 'assign_layout(root, pin: [match one "r" in root])', [{}], exact=False).module.text()
    assert "%r = tcp.relu(%y.turned) : tensor<32x7x7xf32>" in text


def test_a_pinned_order() -> None:
    steps = 'let r = match one "r" in root\ntranspose_result(r, [d1])\nassign_layout(root, pin: [r])'
    text = check(chain(""), steps, [{}], exact=False).module.text()
    assert ": tensor<7x32x7xf32>" in text


def test_what_has_no_order_cannot_be_pinned() -> None:
    found = refusal(chain(""), "assign_layout(root, pin: [root])")
    assert found.message == "@f has no result whose order could be pinned"
    assert found.required == "an operation whose result is a tensor"
    assert found.found == "@f"


def calls(second: str = "g", third: str = "") -> str:
    """A call of @g with what a convolution gives, before another one, and one or two calls of an argument."""
    return (
        HEAD.replace(f"-> tensor<{SHAPE}>", f"-> (tensor<{SHAPE}>, tensor<{SHAPE}>)")
        + convolution("y", "x", "w", SHAPE)
        + f"  %r = tcp.call @g(%y) : tensor<{SHAPE}>\n  %s = tcp.call @{second}(%x) : tensor<{SHAPE}>\n"
        + (f"  %t = tcp.call @{third}(%s) : tensor<{SHAPE}>\n" if third else "")
        + convolution("z", "r", "w", SHAPE)
        + f"  tcp.return(%z, %{'t' if third else 's'})\n}}\n"
        + CALLED
    )


LAST = """func @last(%y: tensor<[M]x7x7xf32>) -> tensor<[M]x7x7xf32> symbols [M] {
  %e = tcp.softmax(%y) {dim = 0} : tensor<[M]x7x7xf32>
  tcp.return(%e)
}
"""


def functions(text: str) -> dict[str, str]:
    """By function: the type of its first argument."""
    return dict(re.findall(r"^func @(\S+)\(%\w+: tensor<(\S+)xf32>", text, re.MULTILINE))


def test_calls_in_two_orders_run_two_functions() -> None:
    text = check(calls(), "assign_layout(root)", [{}], exact=False).module.text()
    assert functions(text) == {"f": "32x7x7", "g": "7x7x32", "g.1": "32x7x7"}
    assert re.findall(r"%(\w) = tcp.call @(\S+)\(", text) == [("r", "g"), ("s", "g.1")]
    assert [line.split()[2] for line in text.splitlines() if "tcp.transpose" in line] == [
        *["tcp.transpose(%w)"] * 2,
        "tcp.transpose(%z.1)",
    ]


def test_calls_of_one_order_share_a_function() -> None:
    text = check(calls(third="g"), "assign_layout(root)", [{}], exact=False).module.text()
    assert functions(text) == {"f": "32x7x7", "g": "7x7x32", "g.1": "32x7x7"}
    assert re.findall(r"%(\w) = tcp.call @(\S+)\(", text) == [("r", "g"), ("s", "g.1"), ("t", "g.1")]


def test_the_name_of_a_copy_is_free() -> None:
    payload = calls(third="g.1") + CALLED.replace("@g", "@g.1")
    text = check(payload, "assign_layout(root)", [{}], exact=False).module.text()
    assert functions(text) == {"f": "32x7x7", "g": "7x7x32", "g.1": "32x7x7", "g.2": "32x7x7"}
    assert re.findall(r"%(\w) = tcp.call @(\S+)\(", text) == [("r", "g"), ("s", "g.2"), ("t", "g.1")]


def test_a_function_of_one_call_is_not_copied() -> None:
    text = check(calls("g.1") + CALLED.replace("@g", "@g.1"), "assign_layout(root)", [{}], exact=False).module.text()
    assert functions(text) == {"f": "32x7x7", "g": "7x7x32", "g.1": "32x7x7"}


def test_functions_that_a_function_calls_are_copied_with_it() -> None:
    payload = calls().replace("%r = tcp.relu(%x)", "%r = tcp.call @last(%x)") + LAST
    text = check(payload, "assign_layout(root)", [{}], exact=False).module.text()
    assert functions(text) == {
        "f": "32x7x7",
        "g": "7x7x32",
        "last": "7x7x[M]",
        "g.1": "32x7x7",
        "last.1": "[M]x7x7",
    }


def test_an_operation_of_both_functions() -> None:
    """A handle denotes it in both; a call says in which."""
    handles = 'let s = match one "s" in root\nlet e = match one relu in s\n'
    text = check(calls(), handles + "assign_layout(root)\ntile(e in s, [d0: 4])", [{}], exact=False).module.text()
    first, second = text.index("func @g("), text.index("func @g.1(")
    assert "gml_st.for" not in text[first:second]
    assert "gml_st.for" in text[second:]


def test_weights_are_turned_by_the_compiler() -> None:
    numbers = ", ".join(["1.0"] * (14 * 32 * 9))
    payload = (
        f"func @f(%x: tensor<{SHAPE}>) -> tensor<14x7x7xf32> {{\n  %flat = tcp.const {{value = [{numbers}]}} :"
        " tensor<4032xf32>\n  %w = tcp.reshape(%flat) : tensor<14x32x3x3xf32>\n"
        f"{convolution('y', 'x', 'w', '14x7x7xf32')}  tcp.return(%y)\n}}\n"
    )
    text = check(payload, "assign_layout(root)\nevaluate_constants(root)", [{}]).module.text()
    assert [line.split()[2] for line in text.splitlines() if "tcp.transpose" in line] == ["tcp.transpose(%y.1)"]


def test_small_work_is_not_worth_transposes() -> None:
    maps, its = "[[c, i + k], [c, k], [c, i]]", iterators("c i", "k")
    payload = (
        "func @f(%x: tensor<64x66xf32>, %w: tensor<64x3xf32>) -> tensor<64x64xf32> {\n"
        f'  %y = tcp.generic(%x, %w) {{iterators = {its}, maps = {maps}, combiner = "tcp.add"}} {SUM}'
        " : tensor<64x64xf32>\n  tcp.return(%y)\n}\n"
    )
    assert refusal(payload, "assign_layout(root)").message == UNCHANGED


def pooled(dtype: str, stride: int, window: int = 3, size: int = 33) -> str:
    out = (size - window) // stride + 1
    return (
        f"func @f(%x: tensor<32x{size}x{size}x{dtype}>) -> tensor<32x{out}x{out}x{dtype}> {{\n"
        f"  %y = tcp.pooling(%x) {{window = [{window}, {window}], strides = [{stride}, {stride}]}}"
        f" : tensor<32x{out}x{out}x{dtype}>\n"
        "  tcp.return(%y)\n}\n"
    )


def test_every_second_element_is_not_worth_transposes() -> None:
    """Where the target loads these with a shuffle. Others are loaded one by one."""
    assert refusal(pooled("f32", 2), "assign_layout(root)").message == UNCHANGED
    for payload in (pooled("f32", 3), pooled("si16", 2)):
        assert "tcp.transpose" in check(payload, "assign_layout(root)", [{}]).module.text()


def test_separable_windows_are_not_worth_transposes() -> None:
    """Of 5x5 elements, 5 + 5 are combined, in any order of dims."""
    assert refusal(pooled("f32", 1, 5, 60), "assign_layout(root)").message == UNCHANGED


def test_explained() -> None:
    done = check(chain(""), "assign_layout(root)", [{}], exact=False)
    (line,) = done.trace.output
    assert line.text == EXPLAINED


def test_symbolic_sizes() -> None:
    payload = (
        chain("")
        .replace("32x7x7", "32x[H]x7")
        .replace("32x9x9", "32x[H + 2]x9")
        .replace("-> tensor<32x[H]x7xf32> {", "-> tensor<32x[H]x7xf32> symbols [H: 0..64] {")
    )
    check(payload, "assign_layout(root)", [{"H": 5}, {"H": 0}, {"H": 1}], exact=False)


RESIZED = {
    "nearest": """\
  %b = tcp.broadcast(%a) {dims = [0, 1, 3]} : tensor<5x7x2x7x2xf32>
  %z = tcp.reshape(%b) : tensor<5x14x14xf32>
""",
    "by places": """\
  %i = tcp.iota {dim = 0} : tensor<14xsi32>
  %p = tcp.floordiv(%i, 2) : tensor<14xsi32>
  %z = tcp.gather(%a, %p) {dim = 2, out_of_range = "clamp"} : tensor<5x7x14xf32>
""",
    "narrower": """\
  %m = tcp.reduce_max(%a) {dims = [2]} : tensor<5x7xf32>
  %z = tcp.broadcast(%m) {dims = [0, 1]} : tensor<5x7x7xf32>
""",
}


@pytest.mark.parametrize("name", RESIZED)
def test_between_transposes_of_the_payload(name: str) -> None:
    height, width = {"nearest": (14, 14), "by places": (7, 14), "narrower": (7, 7)}[name]
    payload = f"""\
func @f(%x: tensor<7x7x5xf32>) -> tensor<{height}x{width}x5xf32> {{
  %a = tcp.transpose(%x) {{permutation = [2, 0, 1]}} : tensor<5x7x7xf32>
{RESIZED[name]}  %r = tcp.relu(%z) : tensor<5x{height}x{width}xf32>
  %y = tcp.transpose(%r) {{permutation = [1, 2, 0]}} : tensor<{height}x{width}x5xf32>
  tcp.return(%y)
}}
"""
    assert "tcp.transpose" not in check(payload, "assign_layout(root)", [{}]).module.text()


def test_transposes_beside_products_stay() -> None:
    payload = """\
func @f(%x: tensor<7x3x16xf32>, %w: tensor<3x16x7xf32>) -> tensor<7x3x7xf32> {
  %a = tcp.transpose(%x) {permutation = [1, 0, 2]} : tensor<3x7x16xf32>
  %c = tcp.contract(%a, %w) {lhs = ["b", "m", "k"], rhs = ["b", "k", "n"], out = ["b", "m", "n"]} : tensor<3x7x7xf32>
  %y = tcp.transpose(%c) {permutation = [1, 0, 2]} : tensor<7x3x7xf32>
  tcp.return(%y)
}
"""
    assert refusal(payload, "assign_layout(root)").message == UNCHANGED


def test_a_function_without_windows() -> None:
    payload = (
        "func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %y = tcp.relu(%x) : tensor<4xf32>\n  tcp.return(%y)\n}\n"
    )
    assert refusal(payload, "assign_layout(root)").message == UNCHANGED
