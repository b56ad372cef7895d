"""Random inputs for a payload."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tcpx

PAYLOAD = """\
func @f(%a: tensor<[N]x[2 * M]xf32>, %b: tensor<[M]xsi8>, %c: tensor<3xui16>, %d: tensor<[K]xi1>, %e: tensor<2xbf16>)
    -> tensor<[M]xsi8> symbols [N: 0..64, M multiple_of 4, K: 5..5] {
  tcp.return(%b)
}
"""


def test_shapes_dtypes_and_ranges() -> None:
    module = tcpx.parse(PAYLOAD)
    arrays = tcpx.random_inputs(module, 3, sizes={"N": 7, "M": 8})
    assert [a.shape for a in arrays] == [(7, 16), (8,), (3,), (5,), (2,)]
    assert {n: a.dtype for n, a in zip("abcde", arrays, strict=True)} == tcpx.argument_dtypes(module)
    assert np.abs(arrays[1].astype(np.int64)).max() <= 8
    assert arrays[2].astype(np.int64).max() < 8


def test_a_seed_gives_the_same_arrays() -> None:
    module = tcpx.parse(PAYLOAD)
    first, again, other = (tcpx.random_inputs(module, seed, sizes={"N": 7, "M": 8}) for seed in (1, 1, 2))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(first[0], other[0])


def test_a_given_array_is_taken_and_tells_its_sizes() -> None:
    given = np.zeros(12, np.int8)
    arrays = tcpx.random_inputs(tcpx.parse(PAYLOAD), given={"b": given}, sizes={"N": 1})
    assert arrays[1] is given
    assert arrays[0].shape == (1, 24)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"N": 1}, "the size `M` of argument `a` is not known"),
        ({"N": 65, "M": 4}, "the size `N` is out of its range"),
        ({"N": 1, "M": 6}, "the size `M` is out of its range"),
        ({"N": 1, "M": 4, "k": 5}, "@f has no size `k`"),
        ({"N": 64, "M": 2**50}, "argument `a` does not fit into memory"),
    ],
)
def test_refused(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(tcpx.ArgumentError) as caught:
        tcpx.random_inputs(tcpx.parse(PAYLOAD), sizes=sizes)
    assert caught.value.diagnostic.message == message


def test_a_size_against_the_given_array() -> None:
    with pytest.raises(tcpx.ArgumentError, match="not that of argument `b`"):
        tcpx.random_inputs(tcpx.parse(PAYLOAD), given={"b": np.zeros(4, np.int8)}, sizes={"N": 1, "M": 8})


def test_a_path_is_no_schedule() -> None:
    module = tcpx.parse(PAYLOAD)
    with pytest.raises(tcpx.ArgumentError) as schedule:
        tcpx.compile(module, "mlp.tcps")  # pyright: ignore[reportArgumentType]
    assert schedule.value.diagnostic.fix == 'tcpx.load_schedule("mlp.tcps")'
    with pytest.raises(tcpx.ArgumentError) as other:
        tcpx.compile(module, {})  # pyright: ignore[reportArgumentType]
    assert other.value.diagnostic.found == "something of the Python type dict"


def test_a_text_is_neither_a_payload_nor_a_schedule() -> None:
    with pytest.raises(tcpx.ArgumentError) as payload:
        tcpx.apply_schedule(PAYLOAD, None)
    assert (payload.value.diagnostic.found, payload.value.diagnostic.fix) == ("a text", "tcpx.parse(text)")
    text = "language 1\nschedule s(root: func) { }\n"
    with pytest.raises(tcpx.ArgumentError) as schedule:
        tcpx.compile(tcpx.parse(PAYLOAD), text)  # pyright: ignore[reportArgumentType]
    assert (schedule.value.diagnostic.found, schedule.value.diagnostic.fix) == ("a text", "tcpx.parse_schedule(text)")


def test_a_finding_prints_as_its_text() -> None:
    schedule = tcpx.parse_schedule("language 1\nschedule s(root: func) { tlie(root) }")
    assert str(tcpx.check(schedule)[0]).startswith("definite error: there is no transform, sequence or function `tlie`")


@pytest.mark.parametrize(
    ("array", "found"),
    [(np.ma.array(np.ones(2, np.float32), mask=[True, False]), "MaskedArray"), ([[1.0], [1.0, 2.0]], "inhomogeneous")],
)
def test_what_the_evaluator_takes_for_no_array(array: Any, found: str) -> None:
    module = tcpx.parse("func @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n  tcp.return(%x)\n}\n")
    with pytest.raises(tcpx.ArgumentError, match="this is no array") as caught:
        tcpx.evaluate(module, array)
    assert found in str(caught.value.diagnostic.found)
