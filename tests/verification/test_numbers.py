"""What counts as the same result, and what is tried."""

from __future__ import annotations

import numpy as np
import pytest

from tcpx.payload.diagnostics import ArgumentError
from tcpx.payload.text.parser import parse
from tcpx.verification.numbers import Case, cases_of, compare
from tcpx.verification.sizes import adversarial_sizes, work_of


def case(*expected: object) -> Case:
    return Case((), False, (), tuple(np.asarray(e) for e in expected))


@pytest.mark.parametrize(
    ("wanted", "found", "same"),
    [
        (np.array([1, np.nan], np.float32), np.array([1, np.nan], np.float32), True),
        (np.array([1, np.nan], np.float32), np.array([1, 0], np.float32), False),
        (np.array([1, np.inf], np.float32), np.array([1, -np.inf], np.float32), False),
        (np.array([1, np.inf], np.float32), np.array([1 + 1e-6, np.inf], np.float32), True),
        (np.array([1, 2], np.float32), np.array([1, 2.01], np.float32), False),
        (np.array([1000, 0], np.float32), np.array([1000, 1e-4], np.float32), True),
        (np.array([1, 2], np.int32), np.array([1, 3], np.int32), False),
        (np.array([], np.float32), np.array([], np.float32), True),
    ],
)
def test_compare(wanted: np.ndarray, found: np.ndarray, same: bool) -> None:
    assert (compare(case(wanted), [found]) is None) == same


def test_the_first_wrong_element_is_named() -> None:
    wanted = np.zeros((3, 4), np.float32)
    found = wanted.copy()
    found[1, 2], found[2, 3] = 5, 7
    mismatch = compare(case(np.zeros(2, np.int32), wanted), [np.zeros(2, np.int32), found])
    assert mismatch is not None
    assert (mismatch.result, mismatch.index, mismatch.found, mismatch.wrong, mismatch.total) == (1, (1, 2), 5.0, 2, 12)
    assert "result 1, element [1, 2] is 5.0, not 0.0" in str(mismatch)


def test_sizes_are_in_range() -> None:
    head = "func @f(%x: tensor<[M]x[N]xf32>) -> tensor<[M]x[N]xf32> symbols [M: 2..9, N: 8.. multiple_of 8]"
    func = parse(head + " {\n  tcp.return(%x)\n}\n").main
    found = adversarial_sizes(func, {func.symbols[0]: [4], func.symbols[1]: [16]})
    assert {values["M"] for values in found} == {3, 4, 5, 7, 9}
    assert {values["N"] for values in found} == {8, 16}


def test_work_counts_iterations() -> None:
    text = """func @f(%x: tensor<[N]xf32>) -> tensor<[N]xf32> symbols [N] {
  %o = tcp.empty : tensor<[N]xf32>
  %r = gml_st.for %i in 0 to N step 4 (%c = %o) {
    %p = gml_st.materialize(%x) tile [%i] [min(4, N - %i)] : tensor<[min(4, N - %i)]xf32>
    gml_st.yield(%p, %c) tile [%i] [min(4, N - %i)]
  } : tensor<[N]xf32>
  tcp.return(%r)
}
"""
    func = parse(text).main
    assert work_of(func, {"N": 40}) == 10 * 2 + 2
    assert work_of(func, {"N": 0}) == 3


GATHER = """func @f(%t: tensor<[V]xf32>, %i: tensor<[N]xsi64> in 0 to V{order}) -> tensor<[N]xf32> symbols [V, N] {{
  %y = tcp.gather(%t, %i) {{dim = 0}} : tensor<[N]xf32>
  tcp.return(%y)
}}
"""
SUM = """func @f(%x: tensor<[T]xf32>, %y: tensor<[C]xf32>) -> tensor<[T]xf32> symbols [T, C] {
  tcp.assert {any = [T + 1 <= C], message = "the cache is full"}
  tcp.return(%x)
}
"""


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (GATHER.format(order=""), {(5, 0), (5, 1), (5, 3), (5, 7), (1, 5), (3, 5), (7, 5), (13, 5), (5, 13)}),
        (GATHER.format(order=" unique"), {(5, 0), (5, 1), (5, 3), (7, 5), (13, 5)}),
        (SUM, {(0, 5), (1, 5), (3, 5), (5, 7), (5, 13)}),
    ],
)
def test_drawn_sizes_that_the_payload_refuses_are_left_out(text: str, left: set[tuple[int, ...]]) -> None:
    module = parse(text)
    sizes = adversarial_sizes(module.main, {})
    cases = cases_of(module, sizes, 0, drawn=True)
    assert {tuple(size for _, size in held.sizes) for held in cases} == left
    assert sum(held.special for held in cases) == 1
    with pytest.raises(ArgumentError):
        cases_of(module, sizes, 0)


def test_sizes_that_are_all_refused_are_an_error() -> None:
    with pytest.raises(ArgumentError, match="the cache is full"):
        cases_of(parse(SUM), [{"T": 5, "C": 5}, {"T": 7, "C": 5}], 0, drawn=True)
