"""cancel_transposes: what stands between transposes is computed in the order in which it is stored."""

from __future__ import annotations

import re

import pytest

import tcpx
from tests.transform.payloads import Sizes, check, refusal

SIZES: tuple[Sizes, ...] = ({"M": 0, "N": 3}, {"M": 5, "N": 0}, {"M": 1, "N": 1}, {"M": 7, "N": 9})
CANCEL = "cancel_transposes(root)"
X, T = "tensor<[M]x[N]xf32>", "tensor<[N]x[M]xf32>"


def payload(body: str, result: str = X, arguments: str = f"%x: {X}") -> str:
    """%t is %x transposed."""
    return (
        f"func @f({arguments}) -> {result} symbols [M: 0.., N: 0..] {{\n"
        f"  %t = tcp.transpose(%x) {{permutation = [1, 0]}} : {T}\n{body}"
    ) + ("" if "return" in body else "  tcp.return(%r)\n}\n")


BACK = f"  %r = tcp.transpose(%s) {{permutation = [1, 0]}} : {X}\n"
ROWS, COLUMNS = "tensor<[M]xf32>", "tensor<[N]xf32>"
CHOSEN = f"  %r, %at = tcp.reduce_argmax(%t) {{dims = [0]}} : {ROWS}, tensor<[M]xsi64>\n"
TWO_USES = f"  %e = tcp.exp(%t) : {T}\n  %s = tcp.mul(%e, %t) : {T}\n{BACK}"
BIASED = f"  %s = tcp.add(%t, broadcast(%b, [1])) : {T}\n{BACK}"
SCALED = f"  %s = tcp.layer_norm(%t, scale = %b) {{dims = [1]}} : {T}\n{BACK}"
CUT = f"  %z = tcp.fill {{value = 0.5}} : {T}\n  %s = tcp.max(%t, %z) : {T}\n{BACK}"
BESIDE = f"  %r = tcp.reduce_sum(%t) {{dims = [1]}} : {COLUMNS}\n  tcp.return(%r, %t)\n}}\n"
BY_PARTS = (
    f"  %g = tcp.reduce_max(%t) {{dims = [1]}} : {COLUMNS}\n  %d = tcp.sub(%t, broadcast(%g, [0])) : {T}\n"
    f"  %s = tcp.exp(%d) : {T}\n{BACK}"
)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (payload(f"  %s = tcp.softmax(%t) {{dim = 1}} : {T}\n{BACK}"), "tcp.softmax(%x) {dim = 0}"),
        (payload(f"  %s = tcp.log_softmax(%t) {{dim = [0, 1]}} : {T}\n{BACK}"), "tcp.log_softmax(%x) {dim = [0, 1]}"),
        (payload(SCALED, arguments=f"%x: {X}, %b: {ROWS}"), "tcp.layer_norm(%x, scale = %b) {dims = [0]}"),
        (
            payload(f"  %r = tcp.reduce_sum(%t) {{dims = [1]}} : {COLUMNS}\n", COLUMNS),
            "tcp.reduce_sum(%x) {dims = [0]}",
        ),
        (payload(TWO_USES), "tcp.mul(%e.1, %x)"),
        (payload(BIASED, arguments=f"%x: {X}, %b: {ROWS}"), "tcp.broadcast(%b) {dims = [0]}"),
        (payload(CUT), f"tcp.fill {{value = 0.5}} : {X}"),
        (payload(BY_PARTS), "tcp.reduce_max(%x) {dims = [0]}"),
    ],
)
def test_no_transpose_is_left(text: str, left: str) -> None:
    found = check(text, CANCEL, SIZES).module.text()
    assert "tcp.transpose" not in found
    assert left in found


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (payload(f"  %r = tcp.reduce_mean(%t) {{dims = [0]}} : {ROWS}\n", ROWS), "tcp.reduce_mean(%x) {dims = [1]}"),
        (payload(CHOSEN, ROWS), "tcp.reduce_argmax(%x) {dims = [1]}"),
    ],
)
def test_reductions_of_elements_that_there_are(text: str, left: str) -> None:
    found = check(text.replace("0..", "1.."), CANCEL, SIZES[2:]).module.text()
    assert "tcp.transpose" not in found
    assert left in found


def test_the_parts_of_a_norm_go_with_its_dims() -> None:
    text = payload(f"  %s = tcp.layer_norm(%t) {{dims = [0, 1], parts = [1, 2]}} : {T}\n{BACK}").replace("[M]", "6")
    found = check(text.replace("M: 0.., ", ""), CANCEL, ({"N": 1}, {"N": 5})).module.text()
    assert "tcp.transpose" not in found
    assert "tcp.layer_norm(%x) {dims = [0, 1], parts = [2, 1]}" in found


def test_a_transposed_operand_beside_another_one() -> None:
    both = f"  %u = tcp.transpose(%y) {{permutation = [1, 0]}} : {T}\n  %s = tcp.mul(%t, %u) : {T}\n{BACK}"
    found = check(payload(both, arguments=f"%x: {X}, %y: {X}"), CANCEL, SIZES).module.text()
    assert "tcp.transpose" not in found


NCHW = """func @f(%x: tensor<2x[C]x[H]x5xf32>, %b: tensor<5x[C]xf32>) -> {result} symbols [C: 0.., H: 0..] {{
  %t = tcp.transpose(%x) {{permutation = [0, 2, 3, 1]}} : tensor<2x[H]x5x[C]xf32>
{body}
  tcp.return(%r)
}}
"""
IMAGES: tuple[Sizes, ...] = ({"C": 0, "H": 3}, {"C": 3, "H": 1}, {"C": 5, "H": 4})


def test_dims_of_images() -> None:
    """What is broadcast is transposed, which is smaller; two transposes that do not cancel become one."""
    body = """  %a = tcp.add(%t, broadcast(%b, [2, 3])) : tensor<2x[H]x5x[C]xf32>
  %n = tcp.rms_norm(%a) {dims = [3]} : tensor<2x[H]x5x[C]xf32>
  %r = tcp.transpose(%n) {permutation = [0, 3, 2, 1]} : tensor<2x[C]x5x[H]xf32>"""
    found = check(NCHW.format(body=body, result="tensor<2x[C]x5x[H]xf32>"), CANCEL, IMAGES).module.text()
    assert re.findall(r"tcp.transpose\((\S+)\) {permutation = (\S+ \S+(?: \S+ \S+)?)}", found) == [
        ("%b", "[1, 0]"),
        ("%n.1", "[0, 1, 3, 2]"),
    ]


def test_a_reduced_result_is_transposed_where_its_dims_have_another_order() -> None:
    result = "tensor<2x[H]x[C]xf32>"
    body = f"  %r = tcp.reduce_max(%t) {{dims = [2]}} : {result}"
    found = check(NCHW.format(body=body, result=result), CANCEL, IMAGES).module.text()
    assert "tcp.reduce_max(%x) {dims = [3]} : tensor<2x[C]x[H]xf32>" in found
    assert "{permutation = [0, 2, 1]}" in found


def test_positions_of_several_dims_keep_their_order() -> None:
    """The index of a maximum counts the dims in the order of the operand."""
    result = "tensor<2xf32>"
    body = f"  %r, %at = tcp.reduce_argmax(%t) {{dims = [1, 2, 3]}} : {result}, tensor<2xsi64>"
    text = NCHW.format(body=body, result=result).replace("0..", "1..")
    assert refusal(text, CANCEL).message == "`cancel_transposes` changes nothing here"


@pytest.mark.parametrize(
    "text",
    [
        payload(f"  %r = tcp.exp(%t) : {T}\n", T),
        payload(f"  %r = tcp.add(%t, %y) : {T}\n", T, f"%x: {X}, %y: {T}"),
        payload(f"  %s = tcp.add(%t, %y) : {T}\n{BACK}", X, f"%x: {X}, %y: {T}"),
        payload(BESIDE, f"({COLUMNS}, {T})"),
        payload(f"  %s, %l = tcp.cumsum(%t) {{dim = 1}} : {T}, {COLUMNS}\n{BACK}"),
    ],
    ids=["as large", "beside another operand", "of which one stays", "returned", "in order"],
)
def test_nothing_changes_where_as_much_is_transposed(text: str) -> None:
    assert refusal(text, CANCEL).message == "`cancel_transposes` changes nothing here"


def test_a_result_is_read_in_both_orders() -> None:
    """What another operation returns is transposed, what the transpose showed is not."""
    both = f"  %e = tcp.exp(%t) : {T}\n  %s = tcp.neg(%e) : {T}\n{BACK}  tcp.return(%r, %s)\n}}\n"
    found = check(payload(both, f"({X}, {T})"), CANCEL, SIZES).module.text()
    assert found.count("tcp.transpose") == 1
    assert "tcp.return(%s.1, %s.turned)" in found


def test_a_square_that_is_read_beside_its_own_transpose_stays() -> None:
    """The transpose of what would be computed in the other order is no operand that is stored in it."""
    square = "tensor<5x5xf32>"
    text = f"""\
func @f(%x: {square}) -> {square} {{
  %t = tcp.transpose(%x) {{permutation = [1, 0]}} : {square}
  %e = tcp.exp(%t) : {square}
  %u = tcp.transpose(%e) {{permutation = [1, 0]}} : {square}
  %s = tcp.sub(%e, %u) : {square}
  %r = tcp.transpose(%s) {{permutation = [1, 0]}} : {square}
  tcp.return(%r)
}}
"""
    assert refusal(text, CANCEL).message == "`cancel_transposes` changes nothing here"


def test_inits_stay() -> None:
    body = f"  %r = tcp.reduce_sum(%t, init = %b) {{dims = [1]}} : {COLUMNS}\n"
    assert refusal(payload(body, COLUMNS, f"%x: {X}, %b: {COLUMNS}"), CANCEL).message == (
        "`cancel_transposes` changes nothing here"
    )


def test_the_default_schedule_does_it() -> None:
    module = tcpx.parse(payload(f"  %s = tcp.softmax(%t) {{dim = 1}} : {T}\n{BACK}"))
    assert "tcp.transpose" not in tcpx.apply_schedule(module, None, target="x86_avx2").module.text()
