"""specialize: windows that do not overlap, and single channels of groups, as the classes without them."""

from __future__ import annotations

import pytest

from tests.transform.payloads import check, refusal

NAMES = 'input = ["n", "h+p", "v+q", "c"], filter = ["p", "q", "c", "f"], out = ["n", "h", "v", "f"]'


def convolution(x: str, w: str, y: str, more: str = "") -> str:
    return (
        f"func @f(%x: tensor<{x}xsi32>, %w: tensor<{w}xsi32>) -> tensor<{y}xsi32> symbols [N] {{\n"
        f"  %y = tcp.convolution(%x, %w) {{{NAMES}{more}}} : tensor<{y}xsi32>\n  tcp.return(%y)\n}}\n"
    )


FORMS = {
    "one tap": (convolution("[N]x[N]x4x3", "1x1x3x5", "[N]x[N]x4x5"), []),
    "one tap, every other window": (
        convolution("[N]x[2*N]x5x3", "1x1x3x5", "[N]x[N]x3x5", ", strides = [2, 2]"),
        ["tcp.slice(%x) {strides = [1, 2, 2, 1]}"],
    ),
    "as many taps as the stride": (
        convolution("[N]x[3*N]x8x3", "3x2x3x5", "[N]x[N]x4x5", ", strides = [3, 2]"),
        ["tcp.reshape(%x) : tensor<[N]x[N]x3x4x2x3xsi32>"],
    ),
    "elements that no window reads": (
        convolution("[N]x[3*N + 1]x8x3", "3x1x3x5", "[N]x[N]x4x5", ", strides = [3, 2]"),
        ["tcp.slice(%x) {strides = [1, 1, 2, 1]}", "tcp.reshape("],
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_windows_that_do_not_overlap(name: str) -> None:
    payload, views = FORMS[name]
    text = check(payload, "let y = match one convolution in root\nspecialize(y, to: contract)").module.text()
    assert "tcp.contract(" in text
    assert "tcp.convolution" not in text
    assert all(view.replace("{strides", "{offsets = [0, 0, 0, 0], strides") in text or view in text for view in views)


def test_and_back_to_a_generic() -> None:
    body = "let y = match one convolution in root\nlet z = specialize(y, to: contract)\ngeneralize(z)"
    assert "tcp.generic(" in check(FORMS["as many taps as the stride"][0], body).module.text()


def test_groups_of_one_channel_are_depthwise() -> None:
    payload = convolution("[N]x[N + 2]x5x4", "3x3x1x4", "[N]x[N]x3x4", ", groups = 4")
    text = check(payload, "let y = match one convolution in root\nfold_unit_dims(y)").module.text()
    assert '{input = ["n", "h+p", "v+q", "g"], filter = ["p", "q", "g"], out = ["n", "h", "v", "g"]}' in text


def test_windows_that_overlap() -> None:
    payload = convolution("[N]x[N + 2]x5x3", "3x3x3x5", "[N]x[N]x3x5")
    error = refusal(payload, "let y = match one convolution in root\nspecialize(y, to: contract)")
    assert error.message == "%y is no contract"
    assert error.notes == ("tcp.contract: indexes its operands otherwise",)
