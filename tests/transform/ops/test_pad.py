"""pad: operations on full static sizes."""

from __future__ import annotations

import pytest

from tests.transform.payloads import MM, PAYLOADS, RELU, SOFTMAX, Sizes, check, refusal

SIZES: tuple[Sizes, ...] = tuple(
    {"M": m, "N": n, "K": k} for m, n, k in ((0, 1, 5), (1, 0, 3), (7, 17, 0), (13, 17, 5), (12, 16, 4))
)


@pytest.mark.parametrize("payload", ["relu", "integers", "two_k", "transposed", "min_plus"])
@pytest.mark.parametrize(
    "body",
    [
        "let i = tile(mm, [m: 6])\nlet p = pad(mm, [m: 6])",
        "let i = tile(mm, [m: 6])\nlet p = pad(mm, [m: 8])",
        "let i, k = tile(mm, [m: 6, k: 2])\nlet p = pad(mm, [k: 4, m: 6])",
        "let k = tile(mm, [k: 2])\nlet p = pad(mm, [k: 2])",
    ],
)
def test_computes_the_same(body: str, payload: str) -> None:
    check(PAYLOADS[payload], MM + body, SIZES)


POWERS = """\
func @powers(%x: tensor<[M]x[K]xf32>, %y: tensor<[K]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [K, M, N] {
  %e = tcp.exp(%x) : tensor<[M]x[K]xf32>
  %g = tcp.exp(%y) : tensor<[K]x[N]xf32>
  %mm = tcp.matmul(%e, %g) : tensor<[M]x[N]xf32>
  tcp.return(%mm)
}
"""


def test_producers_fused_into_a_padded_reduction() -> None:
    """exp(0) is 1: the products beyond k are only lost if the operands are padded after exp, not before."""
    body = "let k = tile(mm, [k: 4], tail: pad)\n"
    body += "".join(f'fuse(match one "{name}" in root, into: k)\n' for name in "eg")
    check(POWERS, MM + body, SIZES, exact=False)


@pytest.mark.parametrize(
    ("payload", "body", "message"),
    [
        (RELU, "pad(mm, [m: 6])", "`m` of %mm may be larger than 6"),
        (RELU, "let i = tile(mm, [m: 6])\npad(mm, [m: size(mm.n)])",
         "`m` cannot be padded to a size known only when the kernel runs"),
        (RELU, "let i = tile(mm, [m: 6], tail: pad)\npad(mm, [m: 6])", "%mm has these sizes already"),
    ],
)  # fmt: skip
def test_refused(payload: str, body: str, message: str) -> None:
    assert refusal(payload, MM + body).message == message


LONGER = """func @f(%x: tensor<[2*N + 9]x[N]xf32>, %w: tensor<[N]x5xf32>) -> tensor<[N]xf32> symbols [N: 0..] {
  %s = tcp.generic(%x, %w) {iterators = [["i", "parallel"], ["j", "reduction"]],
                            maps = [[2*j + i, i], [i, j], [i]], combiner = "tcp.add"} ({ (%a: f32, %b: f32, %acc: f32):
    %p = tcp.mul(%a, %b) : f32
    %r = tcp.add(%acc, %p) : f32
    tcp.yield(%r) }) : tensor<[N]xf32>
  tcp.return(%s)
}
"""


@pytest.mark.parametrize("body", ["let t = tile(s, [i: 4])\npad(s, [i: 4])", "tile(s, [i: 4], tail: pad)"])
def test_of_an_operand_that_is_longer_than_what_is_read(body: str) -> None:
    check(LONGER, f'let s = match one "s" in root\n{body}', [{"N": n} for n in (0, 1, 4, 7)])


def test_a_softmax_is_not_padded_along_its_dim() -> None:
    """It is computed under no mask: e to the padding would be in its sums."""
    found = refusal(SOFTMAX.replace("[N]", "3").replace(", N: 0..", ""), 'pad(match one "y" in root, [d1: 4])')
    assert found.message == "%y (tcp.softmax): there is nothing to pad an operand with"


def test_a_wider_result_has_no_neutral_element_among_narrower_operands() -> None:
    """The smallest si32 is not what a maximum in si16 can be padded with: the maximum is masked."""
    payload = """func @f(%x: tensor<[M]x[N]xsi16>) -> tensor<[M]xsi32> symbols [M: 0.., N: 0..12] {
  %s = tcp.reduce_max(%x) {dims = [1]} : tensor<[M]xsi32>
  tcp.return(%s)
}
"""
    sizes = [{"M": m, "N": n} for m in (0, 5) for n in (0, 3)]
    check(payload, 'pad(match one "s" in root, [d1: 12])', sizes)
    check(payload, 'tile(match one "s" in root, [d0: 4], tail: pad)', sizes)


@pytest.mark.parametrize("read", ["floordiv(k, 4), mod(k, 4)", "floordiv(k, 4)", "mod(k, 4)"])
def test_a_reduction_dim_that_an_operand_has_by_digits_is_masked(read: str) -> None:
    shape = "".join("3x" if part.startswith("floordiv") else "4x" for part in read.split("), "))
    payload = f"""func @f(%x: tensor<8x{shape}f32>, %w: tensor<10x8xf32>) -> tensor<8xf32> {{
  %y = tcp.generic(%x, %w) {{iterators = [["i", "parallel"], ["k", "reduction"]], maps = [[i, {read}], [k, i], [i]],
      combiner = "tcp.add"}} ({{ (%a: f32, %b: f32, %acc: f32):
    %p = tcp.mul(%a, %b) : f32
    %s = tcp.add(%acc, %p) : f32
    tcp.yield(%s)
  }}) : tensor<8xf32>
  tcp.return(%y)
}}
"""
    check(payload, 'pad(match one "y" in root, [k: 12])')


def test_what_is_gathered_is_padded_behind() -> None:
    """What fills it is no index."""
    payload = """\
func @f(%i: tensor<1x[N]xsi64>, %x: tensor<1x[N]xf64>) -> tensor<[N]xf64> symbols [N: 0..] {
  %v = tcp.gather_elements(%x, %i) {dim = 0, out_of_range = "clamp"} : tensor<1x[N]xf64>
  %r = tcp.reduce_max(%v) {dims = [0]} : tensor<[N]xf64>
  tcp.return(%r)
}
"""
    check(payload, 'pad(match one "r" in root, [d0: 2])', [{"N": 0}, {"N": 5}])


def test_a_dim_on_all_of_which_elements_depend_is_not_padded() -> None:
    text = """func @f(%x: tensor<[N]x16xf32>, %c: tensor<[N]x8xf32>, %s: tensor<[N]x8xf32>) -> tensor<[N]x16xf32> symbols [N: 0..13] {
  %v = tcp.rope(%x, %c, %s) {dims = [0]} : tensor<[N]x16xf32>
  tcp.return(%v)
}
"""  # noqa: E501
    error = refusal(text, 'let v = match one "v" in root\npad(v, [d0: 16, d1: 40])')
    assert error.message == "`d1` of %v is never padded: each element depends on all of it"
    assert (error.required, error.found) == ("another dim", "whole dim `d1`")
    assert error.fix == "decompose the operation first"
    check(text, 'let v = match one "v" in root\npad(v, [d0: 16])', [{"N": n} for n in (0, 1, 13)])
