"""Functions on buffers that no C is written for, with the exact messages."""

from __future__ import annotations

import pytest

import tcpx
from tcpx.emit_c.printer.file import PrintRequest, print_file
from tcpx.target import load_target

NUMBERS = "%{0}: buffer<[N]xf32, strides [1], space {1}>"
ARGUMENTS = f"{NUMBERS.format('x', 'argument')}, {NUMBERS.format('y', 'result')}"
DEMANDS = (
    f"func @g({ARGUMENTS}) symbols [N: 1..] {{results = 1}} {{\n"
    '  tcp.assert {any = [N >= 2], message = "two"}\n  tcp.return\n}\n'
)
OF_SEVEN = '%v = tcp.const {value = 0.0, row = "literal"} : vector<7xf32>'
REFUSED = {
    ("results = 5", ""): "%f (func): `results` is the number of trailing result arguments",
    ("results = 1, workspace = 1.5", ""): "%f (func): the attribute `workspace` is a size in bytes",
    ("results = 1, workspace = 64, threads = 7", ""): (
        "%f (func): the workspace of @f is planned for another number of threads"
    ),
    ("results = 1", "gml_st.for %i in 0 to N step 1 { buffer.call @g(%x, %y) {sizes = [%i + 1]} }"): (
        "tcp.assert: @g demands something of its sizes and is called with those of a loop"
    ),
    ("results = 1", 'buffer.prefetch(%x) tile [0] [16] {write = false, row = "add_f32x16"}'): (
        "buffer.prefetch: the row add_f32x16 does not fit its operands"
    ),
    ("results = 1", f"{OF_SEVEN} vector.write(%v, %y) tile [0] [7] {{row = 'store_f32x16'}}".replace("'", '"')): (
        "%v (tcp.const): the target lacks an instruction"
    ),
}


def refusal(text: str) -> str:
    module = tcpx.parse(text)
    with pytest.raises(tcpx.VerifyError) as caught:
        print_file([PrintRequest(module.main, module.constants, "f")], load_target("x86_avx512"), 1)
    return caught.value.diagnostic.message


@pytest.mark.parametrize(("attributes", "body"), REFUSED)
def test_a_function_that_is_not_printed(attributes: str, body: str) -> None:
    text = f"func @f({ARGUMENTS}) symbols [N: 16..] {{{attributes}}} {{\n  {body}\n  tcp.return\n}}\n"
    assert refusal(text + DEMANDS * ("@g" in body)) == REFUSED[attributes, body]


def test_a_function_on_tensors_is_not_printed() -> None:
    assert refusal("func @f(%x: tensor<4xf32>) { tcp.return }") == "%f (func): memory is accessed through buffers"
