"""vector.dot, vector.repeat, vector.shuffle, reads of two dims as one vector: what they compute, what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from tcpx.payload.diagnostics import VerifyError
from tcpx.payload.evaluator import Array, Evaluation
from tcpx.payload.text.parser import parse


def run(text: str, *arrays: Array) -> Array:
    module = parse(text)
    return Evaluation(module.constants, {}).run_block(module.main.body, list(arrays))[0]


DOT = """
func @f(%a: vector<2xsi32>, %b: vector<8xui8>, %c: vector<8xsi8>) -> vector<2xsi32> {
  %r = vector.dot(%a, %b, %c) : vector<2xsi32>
  tcp.return(%r)
}
"""
REPEAT = """
func @f(%a: vector<2xsi8>) -> vector<6xsi8> {
  %r = vector.repeat(%a) : vector<6xsi8>
  tcp.return(%r)
}
"""
SHUFFLE = """
func @f(%a: vector<3xsi8>, %b: vector<3xsi8>) -> vector<4xsi8> {
  %r = vector.shuffle(%a, %b) {lanes = [5, 0, 0, 4]} : vector<4xsi8>
  tcp.return(%r)
}
"""
FLAT = """
func @f(%x: tensor<3x5x4xsi8>) -> vector<12xsi8> {
  %r = vector.read(%x) tile [1, 2, 0] [1, 2, 4] drop [0] {value = -1} : vector<12xsi8>
  tcp.return(%r)
}
"""


def test_a_dot_takes_neighbours_and_does_not_saturate() -> None:
    a = np.array([1, 2**31 - 1], np.int32)
    b = np.array([255, 255, 255, 255, 1, 0, 0, 0], np.uint8)
    c = np.array([-128, -128, -128, -128, 1, 5, 6, 7], np.int8)
    assert run(DOT, a, b, c).tolist() == [1 - 4 * 255 * 128, -(2**31)]


def test_lanes_are_repeated() -> None:
    assert run(REPEAT, np.array([3, 4], np.int8)).tolist() == [3, 4, 3, 4, 3, 4]


def test_lanes_of_two_vectors_are_put_together() -> None:
    assert run(SHUFFLE, np.array([1, 2, 3], np.int8), np.array([4, 5, 6], np.int8)).tolist() == [6, 1, 1, 5]


def test_rows_of_a_read_lie_one_behind_the_other() -> None:
    x = np.arange(60, dtype=np.int8).reshape(3, 5, 4)
    assert run(FLAT, x).tolist() == [*x[1, 2:4].reshape(-1).tolist(), -1, -1, -1, -1]


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (DOT, "%c: vector<8xsi8>", "%c: vector<4xsi8>"),
        (DOT, "%a: vector<2xsi32>", "%a: vector<3xsi32>"),
        (DOT, "%b: vector<8xui8>, %c: vector<8xsi8>", "%b: vector<9xui8>, %c: vector<9xsi8>"),
        (REPEAT, "%a: vector<2xsi8>", "%a: vector<4xsi8>"),
        (REPEAT, "%a: vector<2xsi8>", "%a: vector<2xui8>"),
        (REPEAT, "%a: vector<2xsi8>", "%a: si8"),
        (SHUFFLE, "%b: vector<3xsi8>", "%b: vector<4xsi8>"),
        (SHUFFLE, "%a: vector<3xsi8>, %b: vector<3xsi8>", "%a: vector<1x3xsi8>, %b: vector<1x3xsi8>"),
        (SHUFFLE, "[5, 0, 0, 4]", "[6, 0, 0, 4]"),
        (SHUFFLE, "[5, 0, 0, 4]", "[5, -1, 0, 4]"),
        (SHUFFLE, "[5, 0, 0, 4]", "[5, 0, 0]"),
        (SHUFFLE, "{lanes = [5, 0, 0, 4]}", ""),
        (FLAT, "vector<12xsi8>", "vector<10xsi8>"),
        (FLAT, "vector<12xsi8>", "vector<12xf32>"),
    ],
)
def test_refused(text: str, old: str, new: str) -> None:
    with pytest.raises(VerifyError):
        parse(text.replace(old, new))
