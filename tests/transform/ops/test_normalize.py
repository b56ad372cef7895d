"""normalize: one form for operations that compute the same."""

from __future__ import annotations

import pytest

from tcpx.payload.ops.generic import Generic
from tests.transform.payloads import INTEGERS, MIN_PLUS, MM, RELU, ROWS, TRANSPOSED, TWO_K, check, refusal, run

GENERALIZED = 'generalize(match one "{}" in root)\nnormalize(root)'


@pytest.mark.parametrize(
    ("payload", "name", "opcode"),
    [
        (RELU, "mm", "tcp.matmul"),
        (RELU, "r", "tcp.max"),
        (INTEGERS, "mm", "tcp.matmul"),
        (TWO_K, "mm", "tcp.contract"),
        (TRANSPOSED, "t", "tcp.transpose"),
        (ROWS, "s", "tcp.reduce_sum"),
    ],
)
def test_a_generic_becomes_what_computes_it(payload: str, name: str, opcode: str) -> None:
    found = check(payload, GENERALIZED.format(name)).module
    assert not any(isinstance(op, Generic) for op in found.walk())
    assert [op.opcode for op in found.walk() if op.name == name or op.name.startswith(f"{name}.")] == [opcode]


def test_handles_stay_and_nothing_is_scheduled() -> None:
    text = MM + "let g = generalize(mm)\nnormalize(root)\nrequire g == mm and mm.is_a(matmul)"
    check(RELU, text)
    permuted = RELU.replace("tcp.matmul(%x, %w)", PERMUTED)
    run(permuted, 'normalize(root)\nrequire not (match one "mm" in root).scheduled')


PERMUTED = """tcp.generic(%w, %x) {iterators = [["r", "reduction"], ["c", "parallel"], ["n", "parallel"]],
      maps = [[r, c], [n, r], [n, c]], combiner = "tcp.add"} ({ (%e: f32, %d: f32, %acc: f32):
    %p = tcp.mul(%d, %e) : f32
    %t = tcp.add(%acc, %p) : f32
    tcp.yield(%t)
  })"""


def test_dims_that_no_class_names_have_one_order() -> None:
    """Those of the result, then those that are reduced as they are stored."""
    for order in ("[k, m, n]", "[n, m, k]"):
        found = check(MIN_PLUS, f'interchange(match one "mm" in root, {order})\nnormalize(root)').module
        assert [it.name for op in found.walk() if isinstance(op, Generic) for it in op.iterators()] == ["m", "n", "k"]
    assert refusal(MIN_PLUS, "normalize(root)").message == "`normalize` changes nothing here"


WINDOWS = """\
func @f(%x: tensor<9x8x4xf32>, %w: tensor<3x2x4xf32>) -> tensor<7x7xf32> {{
  %y = tcp.generic({given}) {{iterators = {iterators}, maps = [{maps}, [h, v]], combiner = "tcp.add"}}
      ({{ (%a: f32, %b: f32, %acc: f32):
    %p = tcp.mul(%a, %b) : f32
    %s = tcp.add(%acc, %p) : f32
    tcp.yield(%s)
  }}) : tensor<7x7xf32>
  tcp.return(%y)
}}
"""
ITERATORS = {d: f'["{d}", "{"parallel" if d in "hv" else "reduction"}"]' for d in "hvpqc"}
OPERANDS = {"%x": "[h + p, v + q, c]", "%w": "[p, q, c]"}


@pytest.mark.parametrize("operands", [("%x", "%w"), ("%w", "%x")])
@pytest.mark.parametrize("order", ["hvpqc", "cqpvh", "qhcvp"])
def test_windows_have_one_order(operands: tuple[str, ...], order: str) -> None:
    maps = ", ".join(OPERANDS[name] for name in operands)
    iterators = f"[{', '.join(ITERATORS[d] for d in order)}]"
    text = WINDOWS.format(given=", ".join(operands), iterators=iterators, maps=maps)
    asked = 'outermost(operands(y)) == y.input and y.dims("reduction") == [y.p, y.q, y.c]'
    found = check(text, f"optional normalize(root)\nlet y = match one generic in root\nrequire {asked}")
    one = '(%x, %w) {input = ["h+p", "v+q", "c"], filter = ["p", "q", "c"], out = ["h", "v"]}'
    assert f"tcp.convolution{one}" in found.module.text()
