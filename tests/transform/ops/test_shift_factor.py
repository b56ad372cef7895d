"""shift_factor: the same integers for either factor, any order of dims, and where it is refused."""

from __future__ import annotations

import pytest

from tests.transform.payloads import INTEGERS, MM, RELU, Sizes, check, refusal

SIZES: tuple[Sizes, ...] = ({"M": 0, "N": 3, "K": 5}, {"M": 4, "N": 3, "K": 0}, {"M": 5, "N": 7, "K": 9})
FORMS = {
    "plain": INTEGERS,
    "transposed": INTEGERS.replace("[K]x[N]xsi8", "[N]x[K]xsi8").replace('["k", "n"]', '["n", "k"]'),
    "result transposed": INTEGERS.replace("tensor<[M]x[N]xsi32>", "tensor<[N]x[M]xsi32>").replace(
        'out = ["m", "n"]', 'out = ["n", "m"]'
    ),
    "batches": """func @f(%x: tensor<[B]x[M]x[K]xsi8>, %w: tensor<[N]x[K]x[B]xsi8>) -> tensor<[B]x[N]x[M]xsi32> symbols [B: 0.., M: 0.., N: 0.., K: 0..] {
  %mm = tcp.contract(%x, %w) {lhs = ["b", "m", "k"], rhs = ["n", "k", "b"], out = ["b", "n", "m"]} : tensor<[B]x[N]x[M]xsi32>
  tcp.return(%mm)
}
""",  # noqa: E501
    "accumulating": INTEGERS.replace(
        "%w: tensor<[K]x[N]xsi8>", "%w: tensor<[K]x[N]xsi8>, %c: tensor<[M]x[N]xsi32>"
    ).replace("contract(%x, %w)", "contract(%x, %w, init = %c)"),
}


@pytest.mark.parametrize("factor", ["lhs", "rhs"])
@pytest.mark.parametrize("form", FORMS)
def test_computes_the_same(form: str, factor: str) -> None:
    sizes = [{"B": 2, **s} if form == "batches" else s for s in SIZES]
    done = check(FORMS[form], MM + f"shift_factor(mm.{factor}, by: 128, to: ui8)", sizes)
    assert "xui8" in done.module.text()


def test_both_factors() -> None:
    check(INTEGERS, MM + "shift_factor(mm.lhs, by: 128, to: ui8)\nshift_factor(mm.rhs, by: -7, to: si16)", SIZES)


def test_a_sum_too_narrow_for_the_number() -> None:
    payload = INTEGERS.replace("si32", "si8")
    check(payload, MM + "shift_factor(mm.lhs, by: 128, to: ui8)", SIZES)


def test_in_loops() -> None:
    check(INTEGERS, MM + "tile(mm, [m: 2, k: 4])\nlet s = shift_factor(mm.lhs, by: 128, to: ui8)", SIZES)


def test_the_difference_belongs_to_the_epilogue() -> None:
    body = "shift_factor(mm.lhs, by: 128, to: ui8)\nlet i = tile(epilogue(mm), [d0: 4])\nfuse(mm, into: i)"
    check(INTEGERS, MM + body, SIZES)


@pytest.mark.parametrize(
    ("payload", "statement", "message"),
    [
        (RELU, "shift_factor(mm.lhs, by: 128, to: ui8)", "%mm does not add integers"),
        (INTEGERS, "generalize(mm)\nshift_factor(mm.lhs, by: 128, to: ui8)", "%mm is no contraction by name"),
        (INTEGERS, "shift_factor(mm.lhs, by: 127, to: ui8)", "ui8 does not hold every si8 and 127 more"),
        (INTEGERS, "shift_factor(mm.lhs, by: 1, to: f32)", "f32 does not hold every si8 and 1 more"),
        (INTEGERS, "shift_factor(mm.out, by: 1, to: si16)", "the factor of a contraction is an operand, not a value"),
    ],
)
def test_refused(payload: str, statement: str, message: str) -> None:
    assert refusal(payload, MM + statement).message == message


def test_a_factor_that_is_summed_over_more_than_the_other() -> None:
    payload = INTEGERS.replace("tensor<[M]x[K]xsi8>", "tensor<[M]x[K]x3xsi8>").replace('["m", "k"]', '["m", "k", "j"]')
    found = refusal(payload, MM + "shift_factor(mm.lhs, by: 128, to: ui8)")
    assert found.message == "the other factor of %mm is not summed over all that the product is"
