"""`layouts`: arrays of arguments and results with their dims in another order than the payload has them."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import tcpx
from tcpx.cli import main

TARGET = "x86_avx2"
RELU = """
func @f(%x: tensor<[N]x3x9x7xf32>, %b: tensor<3xf32>) -> %y: tensor<[N]x3x9x7xf32> symbols [N] {
  %s = tcp.add(%x, broadcast(%b, [1])) : tensor<[N]x3x9x7xf32>
  %y = tcp.relu(%s) : tensor<[N]x3x9x7xf32>
  tcp.return(%y)
}
"""
CONVOLUTION = """
func @f(%x: tensor<1x16x11x13xf32>) -> tensor<1x32x11x13xf32> {
  %w = tcp.const {constant = "w"} : tensor<32x16x3x3xf32>
  %p = tcp.pad(%x) {value = 0.0, low = [0, 0, 1, 1]} : tensor<1x16x13x15xf32>
  %c = tcp.convolution(%p, %w) : tensor<1x32x11x13xf32>
  %y = tcp.relu(%c) : tensor<1x32x11x13xf32>
  tcp.return(%y)
}
"""
STATE = """
func @f(%s: inout tensor<4x6xf32>, %x: tensor<4x6xf32>) -> %s: tensor<4x6xf32> {
  %n = tcp.add(%s, %x) : tensor<4x6xf32>
  tcp.return(%n)
}
"""


def floats(*shape: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("strided", [False, True])
def test_arguments_and_results(strided: bool) -> None:
    x, b = floats(2, 3, 9, 7), floats(3)
    layouts = {"x": [0, 2, 3, 1], "y": (3, 1, 0, 2), "b": [0]}
    kernel = tcpx.compile(tcpx.parse(RELU), layouts=layouts, target=TARGET, strided=strided)
    assert str(kernel.signature.arguments[0]).startswith("%x: tensor<[N]x9x7x3xf32>")
    given = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    wanted = np.maximum(x + b[:, None, None], 0).transpose(3, 1, 0, 2)
    np.testing.assert_array_equal(np.asarray(kernel(given, b)), wanted)
    out = np.zeros_like(wanted, order="C")
    kernel(given, b, out=out)
    np.testing.assert_array_equal(out, wanted)


def test_with_layouts_is_what_compile_does() -> None:
    """The payload has the transposes, so that everything that takes a payload follows."""
    layouts = {"x": [0, 2, 3, 1], "y": [0, 2, 3, 1]}
    module = tcpx.with_layouts(tcpx.parse(RELU), layouts)
    x, b = floats(2, 9, 7, 3), floats(3)
    np.testing.assert_array_equal(np.asarray(tcpx.evaluate(module, x, b)), np.maximum(x + b, 0))
    made = tcpx.compile(tcpx.parse(RELU), layouts=layouts, target=TARGET)
    assert made.c_source == tcpx.compile(module, target=TARGET).c_source
    assert made.c_source == tcpx.emit(tcpx.parse(RELU), layouts=layouts, target=TARGET).c_source
    assert tcpx.parse(module.text()).text() == module.text()


def test_a_convolution_transposes_nothing() -> None:
    weights = floats(32, 16, 3, 3)
    module = tcpx.parse(CONVOLUTION, constants={"w": weights})
    layouts = {"x": [0, 2, 3, 1], "out": [0, 2, 3, 1]}
    plain, kernel = (tcpx.compile(module, layouts=given, target=TARGET) for given in (None, layouts))
    assert "out.transposed" not in kernel.c_source
    assert kernel.workspace_bytes({}) == 0 < plain.workspace_bytes({})
    x = floats(1, 16, 11, 13)
    found = np.asarray(kernel(np.ascontiguousarray(x.transpose(0, 2, 3, 1))), np.float32)
    wanted = np.asarray(plain(x), np.float32).transpose(0, 2, 3, 1)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_state_is_taken_and_given_in_one_order() -> None:
    kernel = tcpx.compile(tcpx.parse(STATE), layouts={"s": [1, 0]}, target=TARGET)
    state, x = floats(6, 4), floats(4, 6)
    wanted = state + x.T
    kernel(state, x)
    np.testing.assert_array_equal(state, wanted)


def test_an_array_in_the_order_of_the_payload_is_refused() -> None:
    kernel = tcpx.compile(tcpx.parse(RELU), layouts={"x": [0, 2, 3, 1]}, target=TARGET)
    with pytest.raises(tcpx.ArgumentError) as error:
        kernel(floats(2, 3, 9, 7), floats(3))
    assert error.value.diagnostic.required == "9 in dim 1"
    assert error.value.diagnostic.found == "3, shape (2, 3, 9, 7)"


@pytest.mark.parametrize(
    ("layouts", "message", "required", "found"),
    [
        ({"z": [0]}, "@f has no argument or result `z`", "one of x, b, y", "z"),
        (
            {"x": [0, 1, 2]},
            "this is no order of the dims of %x",
            "each of the dims 0 to 3 of tensor<[N]x3x9x7xf32> once, outermost first",
            "[0, 1, 2]",
        ),
        (
            {"y": "0231"},
            "this is no order of the dims of %y",
            "each of the dims 0 to 3 of tensor<[N]x3x9x7xf32> once, outermost first",
            "0231",
        ),
        (
            [0],
            "`layouts` names arguments and results",
            "a mapping from names to orders of dims, as dict(x=[0, 2, 3, 1])",
            "[0]",
        ),
    ],
)
def test_what_is_no_layout(layouts: dict[str, list[int]], message: str, required: str, found: str) -> None:
    with pytest.raises(tcpx.ArgumentError) as error:
        tcpx.compile(tcpx.parse(RELU), layouts=layouts, target=TARGET)
    diagnostic = error.value.diagnostic
    assert (diagnostic.message, diagnostic.required, diagnostic.found) == (message, required, found)
    assert diagnostic.payload is not None


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    payload = tmp_path / "f.tcp"
    payload.write_text(RELU, encoding="utf-8")
    words = [str(payload), "--target", TARGET, "--layout", "x=0,2,3,1", "--layout", "y=0,2,3,1"]
    assert main(["run", *words, "--random", "0", "--size", "N=2", "--check"]) == 0
    assert "%y: 2x9x7x3 float32" in capsys.readouterr().out
    assert main(["emit", *words, "-o", str(tmp_path / "c")]) == 0
    assert "in  %x: tensor<[N]x9x7x3xf32>" in (tmp_path / "c" / "f.c").read_text(encoding="utf-8")
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["run", str(payload), "--layout", "x=nhwc"])
    assert "required an order of dims such as x=0,2,3,1, found 'x=nhwc'" in capsys.readouterr().err


def test_a_saved_kernel_says_the_orders(tmp_path: Path) -> None:
    kernel = tcpx.compile(tcpx.parse(RELU), layouts={"x": [0, 2, 3, 1]}, target=TARGET)
    again = tcpx.load_kernel(kernel.save(tmp_path / "k"))
    assert again.signature.layouts == kernel.signature.layouts == ("x: 0, 2, 3, 1",)
    assert "Order of dims that is not that of the payload: x: 0, 2, 3, 1." in header_in(tmp_path / "k")
    plain = tcpx.compile(tcpx.parse(RELU), target=TARGET)
    assert "Order of dims" not in header_in(plain.save(tmp_path / "p"))


def header_in(folder: Path) -> str:
    """The text of the header of a kernel in a folder."""
    (found,) = folder.glob("*.h")
    return found.read_text()
