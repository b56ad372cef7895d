"""Arrays of other libraries: taken by calls, `bind` and `out`, or refused with a fix that works."""

from __future__ import annotations

import array
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tcpx.emit_c.kernel import Kernel, KernelRequest, build_many
from tcpx.emit_c.what_to_pass import no_array
from tcpx.payload.diagnostics import ArgumentError
from tests.emit_c.payloads import AXPY, GENERIC, module
from tests.emit_c.test_arguments import BF16, Foreign
from tests.optional_tools import JAX, TORCH

PAGE = Path(__file__).parents[2] / "docs" / "other-arrays.md"


@pytest.fixture(scope="module")
def kernels() -> dict[str, Kernel]:
    requests = [KernelRequest(module(text)) for text in (AXPY, BF16)]
    return dict(zip(("axpy", "bf16"), build_many(requests, GENERIC), strict=True))


@pytest.mark.parametrize("form", ["dlpack", "buffer", "subclass"])
def test_bound_and_written_where_they_lie(kernels: dict[str, Kernel], form: str) -> None:
    x, y, out = (np.full(3, value, np.float32) for value in (1, 2, 0))
    forms: dict[str, Any] = {
        "dlpack": Foreign,
        "buffer": memoryview,
        "subclass": lambda held: held.view(type("Subclass", (np.ndarray,), {})),
    }
    given, to = forms[form](x), forms[form](out)
    kernels["axpy"](given, y, out=to)
    np.testing.assert_array_equal(out, 2.5 * x + y)
    call = kernels["axpy"].bind(given, y, out=to)
    x[1] = 7
    assert np.shares_memory(np.asarray(call()), out)
    np.testing.assert_array_equal(out, 2.5 * x + y)


def test_what_is_no_array_on_its_own_memory(kernels: dict[str, Kernel]) -> None:
    one = array.array("f", [1, 2, 3])
    out = array.array("f", [0, 0, 0])
    kernels["axpy"](one, one, out=out)
    assert list(out) == [3.5, 7, 10.5]
    with pytest.raises(ArgumentError, match="required: an array that can be written to"):
        kernels["axpy"](one, one, out=memoryview(bytes(12)).cast("f"))
    with pytest.raises(ArgumentError, match="required: memory of its own"):
        kernels["axpy"](one, one, out=one)


class Tensor:
    """A tensor as PyTorch has them: with a gradient, of bfloat16, or of another device, it exports nothing."""

    def __init__(
        self, dtype: str = "torch.float32", *, requires_grad: bool = False, device: int = 1, layout: str = "strided"
    ) -> None:
        self.dtype, self.requires_grad, self.device = dtype, requires_grad, device
        self.layout = f"torch.{layout}"
        self.is_meta, self.is_quantized = device < 0, dtype == "torch.qint8"

    def __dlpack__(self, **options: Any) -> object:
        raise BufferError("no export")

    def __dlpack_device__(self) -> tuple[int, int]:
        if self.device < 0:
            raise ValueError("Unknown device type meta for Dlpack")
        return (self.device, 0)

    def __array__(self, *options: Any, **named: Any) -> object:
        raise TypeError("no NumPy array")

    def to_dense(self) -> Tensor:
        return self

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self


VIEW = ".view(torch.uint16).numpy().view(ml_dtypes.bfloat16)"
NARROW = "Tensor of bfloat16"


@pytest.mark.parametrize(
    ("tensor", "found", "fix"),
    [
        (Tensor(requires_grad=True), "Tensor that requires a gradient", ".detach()"),
        (Tensor("torch.bfloat16"), NARROW, ".to(torch.float32)"),
        (Tensor("torch.bfloat16", requires_grad=True), NARROW, ".detach().to(torch.float32)"),
        (Tensor("torch.float8_e5m2"), "Tensor of float8_e5m2", ".to(torch.float32)"),
        (Tensor(device=2), "Tensor in the memory of another device", ".cpu()"),
        (Tensor(device=-1), "Tensor of device meta, without elements", "make one on the CPU: torch.zeros(shape)"),
        (Tensor(layout="sparse_csr"), "Tensor of layout torch.sparse_csr", ".to_dense()"),
        (Tensor(layout="_mkldnn", requires_grad=True), "Tensor of layout torch._mkldnn", ".detach().to_dense()"),
        (Tensor("torch.qint8"), "Tensor of torch.qint8", ".dequantize()"),
        (Tensor(), "Tensor", "make a dense array of numbers of it, of np.float32"),
    ],
)
def test_tensors_that_export_nothing_say_what_to_write(
    kernels: dict[str, Kernel], tensor: Tensor, found: str, fix: str
) -> None:
    x = np.ones(3, np.float32)
    told = f"found: {found}\n  {'hint' if fix.startswith('make') else 'fix'}: {fix}"
    of_out = told if fix == ".detach()" else f"found: {found}"
    for refused, expected in (
        (lambda: kernels["axpy"](tensor, x), told),
        (lambda: kernels["axpy"].bind(tensor, x), told),
        (lambda: kernels["axpy"](x, x, out=tensor), of_out),
    ):
        with pytest.raises(ArgumentError) as caught:
            refused()
        assert str(caught.value).endswith(expected)


@pytest.mark.parametrize(("requires_grad", "detach"), [(False, ""), (True, ".detach()")])
def test_tensors_of_bfloat16_share_their_memory(requires_grad: bool, detach: str) -> None:
    wanted = np.dtype(ml_dtypes.bfloat16)
    assert no_array(Tensor("torch.bfloat16", requires_grad=requires_grad), wanted) == (NARROW, f"{detach}{VIEW}")


OF_OTHER_DTYPES: dict[str, tuple[Any, str]] = {
    "text of numbers": (np.array([b"1", b"2", b"4"]), ".astype(np.float32)"),
    "bytes of numbers": (np.frombuffer(np.array([1, 2, 4], np.float32).tobytes(), "S4"), ".view(np.float32)"),
    "raw bytes": (np.array([1, 2, 4], np.float32).view("V4"), ".view(np.float32)"),
    "objects": (np.array([1, 2, 4], object), ".astype(np.float32)"),
    "complex": (np.array([1, 2, 4], complex), ".real.astype(np.float32)"),
    "integers": (np.array([1, 2, 4]), ".astype(np.float32)"),
    "bfloat16": (np.array([1, 2, 4], ml_dtypes.bfloat16), ".astype(np.float32)"),
    "bytes": (np.array([1, 2, 4], np.float32).tobytes(), "np.frombuffer(.., np.float32)"),
    "a few bytes": (b"\1\2\4", "np.frombuffer(.., np.uint8).astype(np.float32)"),
    "array.array": (array.array("d", [1, 2, 4]), "np.asarray(.., np.float32)"),
    "a list": ([1, 2, 4], "np.asarray(.., np.float32)"),
}


@pytest.mark.parametrize("case", OF_OTHER_DTYPES)
def test_the_fix_for_another_dtype_works(kernels: dict[str, Kernel], case: str) -> None:
    given, fix = OF_OTHER_DTYPES[case]
    zeros = np.zeros(3, np.float32)
    for refused in (lambda: kernels["axpy"](given, zeros), lambda: kernels["axpy"].bind(given, zeros)):
        with pytest.raises(ArgumentError) as caught:
            refused()
        assert caught.value.diagnostic.fix == fix
    text = fix.replace("..", "given", 1) if ".." in fix else f"given{fix}"
    found = kernels["axpy"](eval(text, {"given": given, "np": np}), zeros)  # noqa: S307 - as the message says
    np.testing.assert_array_equal(found, np.array([2.5, 5, 10], np.float32))


NOT_CONVERTED = "make an array of numbers of it: NumPy does not convert its elements to np.float32"


@pytest.mark.parametrize(
    ("given", "fix"),
    [
        (np.array([b"abc"]), "make an array of numbers of it: NumPy does not convert its elements to np.float32"),
        (
            np.array([[1], [2, 3]], object),
            "make an array of numbers of it: NumPy does not convert its elements to np.float32",
        ),
        (np.zeros(3, [("a", "f4")]), 'pass one field of it: ["a"].astype(np.float32)'),
        ([[1], [2, 3]], "make an array of numbers of it: np.asarray(.., np.float32) does not"),
    ],
)
def test_what_numpy_does_not_convert(kernels: dict[str, Kernel], given: Any, fix: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        kernels["axpy"](given, np.zeros(3, np.float32))
    assert caught.value.diagnostic.fix == fix


@TORCH.needed
def test_the_fixes_for_pytorch_work(kernels: dict[str, Kernel]) -> None:
    torch: Any = import_module("torch")
    known = {"torch": torch, "ml_dtypes": ml_dtypes, "np": np}
    narrow, ones = torch.arange(4, dtype=torch.bfloat16).view(2, 2), torch.ones(3)
    for tensor, name in (
        (torch.ones(3, requires_grad=True), "axpy"),
        (narrow, "bf16"),
        (narrow.clone().requires_grad_(), "bf16"),
        (ones.to_sparse(), "axpy"),
        (ones.clone().requires_grad_().to_sparse(), "axpy"),
        (ones.to_mkldnn(), "axpy"),
        (ones.bfloat16(), "axpy"),
        (ones.to(torch.float8_e5m2), "axpy"),
    ):
        more = [ones] if name == "axpy" else []
        with pytest.raises(ArgumentError) as caught:
            kernels[name](tensor, *more)
        held = eval(f"x{caught.value.diagnostic.fix}", {**known, "x": tensor})  # noqa: S307 - as the message says
        found = np.asarray(kernels[name](held, *more)).astype(np.float64)
        np.testing.assert_array_equal(found, [3.5] * 3 if name == "axpy" else [0, 1, 2, 3])
    with pytest.raises(ArgumentError, match="Tensor of device meta, without elements"):
        kernels["axpy"](torch.ones(3, device="meta"), ones)


@JAX.needed
def test_the_fix_for_jax_works(kernels: dict[str, Kernel]) -> None:
    jnp: Any = import_module("jax.numpy")
    given = jnp.arange(4, dtype=jnp.bfloat16).reshape(2, 2)
    assert no_array(given, kernels["bf16"].signature.inputs[0].dtype.numpy)[1] == "np.asarray(..)"
    found = kernels["bf16"](np.asarray(given))
    np.testing.assert_array_equal(np.asarray(found).astype(np.float64), [0, 1, 2, 3])


@TORCH.needed
@JAX.needed
def test_the_page_runs() -> None:
    known: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(block, known)  # noqa: S102 - as the page says
    assert known["y"].tolist() == [10, 2, 2]
    assert known["z"].tolist() == [10, 2, 2]
    assert known["j"].tolist() == [2, 2, 2]
    assert known["b"].dtype == ml_dtypes.bfloat16
