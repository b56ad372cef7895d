"""tcp.select, tcp.less and vector.insert: what they compute and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from tcpx.payload.diagnostics import VerifyError
from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.text.parser import parse


def run(text: str, *arrays: Array) -> Array:
    module = parse(text)
    return Evaluation(module.constants, {}).run_block(module.main.body, list(arrays))[0]


SELECT = """
func @f(%m: vector<4xi1>, %a: vector<4xf32>, %b: vector<4xf32>) -> vector<4xf32> {
  %r = tcp.select(%m, %a, %b) : vector<4xf32>
  tcp.return(%r)
}
"""


def test_select_takes_the_second_operand_where_the_first_is_true() -> None:
    mask = np.array([True, False, True, False])
    a, b = (np.array(x, np.float32) for x in ([1, 2, np.nan, 4], [5, np.nan, 7, 8]))
    np.testing.assert_array_equal(np.asarray(run(SELECT, mask, a, b), np.float64), [1, np.nan, np.nan, 8])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("%m: vector<4xi1>", "%m: vector<4xsi8>", "operand `a` has the wrong dtype"),
        ("%b: vector<4xf32>", "%b: vector<4xf64>", "operand `c` has the wrong dtype"),
        ("%m: vector<4xi1>", "%m: i1", "one kind"),
        ("%b: vector<4xf32>", "%b: vector<5xf32>", "does not agree"),
    ],
)
def test_select_refuses_operands_that_do_not_fit(old: str, new: str, message: str) -> None:
    with pytest.raises(VerifyError, match=message):
        parse(SELECT.replace(old, new))


LESS = """
func @f(%a: vector<4xf32>, %b: vector<4xf32>) -> vector<4xi1> {
  %r = tcp.less(%a, %b) : vector<4xi1>
  tcp.return(%r)
}
"""


def test_less_is_false_for_nan() -> None:
    a, b = (np.array(x, np.float32) for x in ([1, 2, np.nan, 4], [5, 2, 7, np.nan]))
    np.testing.assert_array_equal(run(LESS, a, b), [True, False, False, False])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("%b: vector<4xf32>", "%b: vector<4xf64>", "operands have one dtype"),
        ("vector<4xi1>", "vector<4xf32>", "the result is a truth value"),
        ("xf32", "xi1", "truth values have no order"),
        ("%b: vector<4xf32>", "%b: f32", "one kind"),
        ("%b: vector<4xf32>", "%b: vector<5xf32>", "does not agree"),
        ("(%a, %b) :", "(%a) :", "the wrong number of operands"),
    ],
)
def test_less_refuses_operands_that_do_not_fit(old: str, new: str, message: str) -> None:
    with pytest.raises(VerifyError, match=message):
        parse(LESS.replace(old, new))


INSERT = """
func @f(%v: vector<4xf32>, %x: f32) -> vector<4xf32> {
  %r = vector.insert(%v, %x) {lane = 2} : vector<4xf32>
  tcp.return(%r)
}
"""


def test_insert_replaces_one_lane_of_a_copy() -> None:
    vector = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(np.asarray(run(INSERT, vector, np.asarray(9, np.float32)), np.float64), [0, 1, 9, 3])
    assert vector[2] == 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("lane = 2", "lane = 4", "a lane of a 1-D vector"),
        ("%x: f32", "%x: f64", "the dtype of the vector"),
    ],
)
def test_insert_refuses_a_lane_or_element_that_does_not_fit(old: str, new: str, message: str) -> None:
    with pytest.raises(VerifyError, match=message):
        parse(INSERT.replace(old, new))


MASK = """\
func @f() -> vector<4xi1> symbols [N] {
  %m = vector.mask {count = N - 1, first = 1} : vector<4xi1>
  tcp.return(%m)
}
"""


@pytest.mark.parametrize(("count", "lanes"), [(-1, "0000"), (0, "0000"), (1, "0100"), (3, "0111"), (9, "0111")])
def test_a_mask_has_some_lanes_from_the_first_on(count: int, lanes: str) -> None:
    module = parse(MASK)
    (found,) = Evaluation(module.constants, {"N": count + 1}).run_block(module.main.body, [])
    assert "".join("01"[int(lane)] for lane in found) == lanes


def test_a_mask_prints_and_is_read_again() -> None:
    assert parse(parse(MASK).text()).text() == parse(MASK).text()


def test_a_mask_is_of_truth_values() -> None:
    with pytest.raises(VerifyError, match="a mask has a truth value for each lane"):
        parse(MASK.replace("vector<4xi1>", "vector<4xsi8>"))


@pytest.mark.parametrize(("count", "first", "value"), [(0, 0, False), (1, 0, True), (3, 0, True), (2, 1, False)])
def test_a_mask_of_one_lane_is_a_scalar(count: int, first: int, value: bool) -> None:
    text = f"func @f() -> i1 {{\n  %m = vector.mask {{count = {count}, first = {first}}} : i1\n  tcp.return(%m)\n}}\n"
    module = parse(text)
    (found,) = Evaluation(module.constants, {}).run_block(module.main.body, [])
    assert found.shape == ()
    assert bool(found) is value
