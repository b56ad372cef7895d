"""Arguments that declare `unique`, `sorted` and `spanning` elements: checked, followed, and what follows from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.inputs import random_inputs
from tcpx.payload.text.parser import parse
from tcpx.payload.text.printer import print_module
from tcpx.payload.value_ranges import declared_ranges, value_order
from tests.guard_pages import run_guarded
from tests.transform.payloads import run

Array = npt.NDArray[Any]

GATHER = """
func @f(%x: tensor<[V]x[D]xf32>, %ix: tensor<SHAPExDTYPE> in 0 to V WORDSSTRIDED) -> tensor<SHAPEx[D]xf32>
    symbols [V, D, N, M] {
  %v = tcp.generic(%x, %ix) {iterators = [["m", "parallel"], ["n", "parallel"], ["d", "parallel"]],
      maps = [[in1, d], [m, n], [m, n, d]]} ({ (%a: f32, %i: DTYPE):
    tcp.yield(%a)
  }) : tensor<SHAPEx[D]xf32>
  tcp.return(%v)
}
"""
WRONG: list[tuple[str, list[list[int]], list[str]]] = [
    (
        "unique",
        [[3, 1, 5], [4, 5, 1]],
        ["argument `ix` has an element twice", "elements that are different", "5 at [1, 1] and 5 at [0, 2]"],
    ),
    ("unique", [[3, 1, 5], [4, 5, 7]], ["has 1 element out of range", "elements in 0 to 6", "7 at [1, 2]"]),
    (
        "sorted",
        [[1, 1, 2], [0, 3, 3]],
        [
            "argument `ix` is not sorted",
            "elements of which none is smaller than the one before",
            "0 at [1, 0] and 2 at [0, 2]",
        ],
    ),
    (
        "unique sorted",
        [[0, 1, 2], [2, 3, 4]],
        ["argument `ix` has an element twice", "elements that are different", "2 at [1, 0] and 2 at [0, 2]"],
    ),
    (
        "sorted spanning",
        [[0, 1, 1], [2, 2, 5]],
        ["argument `ix` does not span its range", "0 first and 6 last", "0 at [0, 0] and 5 at [1, 2]"],
    ),
    (
        "sorted spanning",
        [[], []],
        ["argument `ix` does not span its range", "0 first and 6 last", "no element"],
    ),
]


def _gather(words: str, dtype: str = "si64", strided: bool = False) -> str:
    text = GATHER.replace("SHAPE", "[M]x[N]").replace("DTYPE", dtype).replace("WORDS", words)
    return text.replace("STRIDED", " strided" if strided else "")


@pytest.mark.parametrize("strided", [False, True], ids=["contiguous", "strided"])
@pytest.mark.parametrize(("words", "given", "wanted"), WRONG)
def test_what_is_not_as_declared_is_found_before_anything_is_written(
    words: str, given: list[list[int]], wanted: list[str], strided: bool
) -> None:
    x = np.arange(21, dtype=np.float32).reshape(7, 3)
    module = tcpx.parse(_gather(words, strided=strided))
    assert print_module(parse(print_module(module))) == print_module(module)
    kernel = tcpx.compile(module)
    ix = np.array(given, np.int64).reshape(2, -1)
    out = np.full((*ix.shape, 3), 17, np.float32)
    for call in (lambda: kernel(x, ix, out=out), lambda: tcpx.evaluate(module, x, ix)):
        with pytest.raises(tcpx.ArgumentError) as caught:
            call()
        found = caught.value.diagnostic
        assert found.message.endswith(wanted[0])
        assert [found.required, found.found] == wanted[1:]
    assert (out == 17).all()


@pytest.mark.parametrize("dtype", ["si8", "si32", "ui16", "si64"])
@pytest.mark.parametrize("words", ["unique", "sorted", "unique sorted", "sorted spanning"])
def test_what_is_as_declared_is_taken(words: str, dtype: str) -> None:
    """Also the numbers that are drawn; also the last bit of a byte, and the first of the next."""
    module = tcpx.parse(_gather(words, dtype))
    kernel = tcpx.compile(module)
    for v, shape in ((9, (3, 3)), (8, (2, 4)), (17, (1, 3)), (0, (0, 4)), (5, (2, 0))):
        if words == "sorted spanning" and 0 in shape:
            continue
        x, ix = random_inputs(module, sizes={"V": v, "D": 3, "M": shape[0], "N": shape[1]})
        assert np.array_equal(run_guarded(kernel, x, ix)[0], np.take(x, ix.astype(np.int64), 0))


def test_each_declaration_has_codes_of_its_own() -> None:
    kernel = tcpx.compile(tcpx.parse(_gather("unique")))
    assert "3: an element of ix is out of its range, 4: ix is not unique" in kernel.c_source
    assert kernel.workspace_bytes({"V": 17, "D": 3, "M": 1, "N": 1}) == 3  # a bit for each number of the range
    kernel = tcpx.compile(tcpx.parse(_gather("unique sorted")))
    assert "4: ix is not unique and sorted" in kernel.c_source
    assert kernel.workspace_bytes({"V": 17, "D": 3, "M": 1, "N": 1}) == 0


REFUSED = {
    "too many bits": (
        "%ix: tensor<[N]xsi64> in 0 to 8589934593 unique",
        "that elements are `unique` is seen with a bit for each number of their range",
    ),
    "spanning alone": (
        "%ix: tensor<[N]xsi64> in 0 to 9 spanning",
        "what spans a range goes from its first number to its last",
    ),
    "of floats": ("%ix: tensor<[N]xf32> in 0 to 9 sorted", "what is in a range is an integer"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_declared_is_refused(name: str) -> None:
    argument, message = REFUSED[name]
    with pytest.raises(tcpx.VerifyError) as caught:
        parse(f"func @f({argument}) -> {argument.split(' ')[1]} symbols [N] {{\n  tcp.return(%ix)\n}}\n")
    assert caught.value.diagnostic.message.endswith(message)


FOLLOWED = {
    "all": ("gml_st.materialize(%ix) tile [0] [N] : tensor<[N]xsi64>", {"unique", "sorted", "spanning"}),
    "a part": ("gml_st.materialize(%ix) tile [1] [N - 1] : tensor<[N - 1]xsi64>", {"unique", "sorted"}),
    "every second": ("gml_st.materialize(%ix) tile [0] [4] [2] : tensor<4xsi64>", {"unique", "sorted"}),
    "falling": ("gml_st.materialize(%ix) tile [7] [8] [-1] : tensor<8xsi64>", {"unique"}),
    "a cast": ("tcp.cast(%ix) : tensor<[N]xsi32>", {"unique", "sorted", "spanning"}),
    "a cast that does not hold them": ("tcp.cast(%ix) : tensor<[N]xsi8>", set[str]()),
    "repeated": ("tcp.broadcast(%ix) {dims = [0]} : tensor<[N]x2xsi64>", set[str]()),
    "another": ("tcp.add(%ix, %ix) : tensor<[N]xsi64>", set[str]()),
    "padded": ("tcp.pad(%ix) {value = 0} : tensor<[N] + 1xsi64>", set[str]()),
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_what_holds_of_an_argument_holds_of_what_is_made_of_it(name: str) -> None:
    operation, wanted = FOLLOWED[name]
    type_ = operation.rpartition(" : ")[2].replace("[N] + 1x", "[N + 1]x")
    text = f"func @f(%ix: tensor<[N]xsi64> in 0 to 300 unique sorted spanning) -> {type_} symbols [N: 9..] {{\n"
    module = parse(f"{text}  %v = {operation.rpartition(' : ')[0]} : {type_}\n  tcp.return(%v)\n}}\n")
    assert set(value_order(module.main.outputs[0])) == wanted


def test_stored_arrays_are_looked_at() -> None:
    text = 'func @f() -> tensor<3xsi64> {\n  %c = tcp.const {constant = "c"} : tensor<3xsi64>\n  tcp.return(%c)\n}\n'
    for array, wanted in (([2, 0, 1], {"unique"}), ([0, 0, 1], {"sorted", "spanning"}), ([1, 0, 1], set[str]())):
        module = tcpx.parse(text, constants={"c": np.array(array, np.int64)})
        assert set(value_order(module.main.outputs[0])) == wanted


CALLED = """
func @main(%x: tensor<[V]x[D]xf32>, %at: tensor<[M]x[N]xsi64> in 0 to V HAS) -> tensor<[M]x[N]x[D]xf32>
    symbols [V, D, M, N] {
  %y = tcp.call @f(%x, %at) : tensor<[M]x[N]x[D]xf32>
  tcp.return(%y)
}
"""


@pytest.mark.parametrize(("has", "wants", "missing"), [
    ("unique", "unique", ""),
    ("unique sorted", "unique", ""),
    ("sorted spanning", "sorted spanning", ""),
    ("sorted", "unique sorted", "unique"),
    ("unique", "sorted spanning", "sorted and spanning"),
])  # fmt: skip
def test_a_call_gives_what_a_function_declares(has: str, wants: str, missing: str) -> None:
    text = CALLED.replace("HAS", has) + _gather(wants)
    if not missing:
        module = tcpx.parse(text)
        x, ix = random_inputs(module, sizes={"V": 12, "D": 3, "M": 2, "N": 4})
        assert np.array_equal(run_guarded(tcpx.compile(module), x, ix)[0], np.take(x, ix.astype(np.int64), 0))
        return
    with pytest.raises(tcpx.VerifyError) as caught:
        parse(text)
    found = caught.value.diagnostic
    assert found.message == "%y (tcp.call): the elements of the argument `ix` of @f are in an order"
    assert found.required == f"a value that is known to be {missing}"
    assert found.found == f"%at: tensor<[M]x[N]xsi64>, {has}"
    assert found.fix == f"declare the argument: `in 0 to V {wants}`"


def test_what_is_outlined_declares_what_is_known() -> None:
    done = run(_gather("unique sorted"), 'let v = match one "v" in root\nlet w = outline(v)')
    outlined = next(func for func in done.module.funcs.values() if func is not done.module.main)
    assert [str(held) for held in declared_ranges(outlined).values()] == ["in 0 to V unique sorted"]
