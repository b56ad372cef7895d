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

from tcpx.emit_c.arguments import no_array
from tcpx.emit_c.kernel import Kernel, KernelRequest, build_many
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

    def __init__(self, dtype: str = "torch.float32", *, requires_grad: bool = False, device: int = 1) -> None:
        self.dtype, self.requires_grad, self.device = dtype, requires_grad, device

    def __dlpack__(self, **options: Any) -> object:
        raise BufferError("no export")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device, 0)

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self


VIEW = ".view(torch.uint16).numpy().view(ml_dtypes.bfloat16)"


@pytest.mark.parametrize(
    ("tensor", "found", "fix"),
    [
        (Tensor(requires_grad=True), "Tensor that requires a gradient", ".detach()"),
        (Tensor("torch.bfloat16"), "Tensor of bfloat16", VIEW),
        (Tensor("torch.bfloat16", requires_grad=True), "Tensor of bfloat16", f".detach(){VIEW}"),
        (Tensor(device=2), "Tensor in the memory of another device", ".cpu()"),
    ],
)
def test_tensors_that_export_nothing_say_what_to_write(
    kernels: dict[str, Kernel], tensor: Tensor, found: str, fix: str
) -> None:
    x = np.ones(3, np.float32)
    told = f"found: {found}\n  fix: {fix}"
    for refused in (
        lambda: kernels["axpy"](tensor, x),
        lambda: kernels["axpy"].bind(tensor, x),
        lambda: kernels["axpy"](x, x, out=tensor),
    ):
        with pytest.raises(ArgumentError) as caught:
            refused()
        assert str(caught.value).endswith(told)


@TORCH.needed
def test_the_fixes_for_pytorch_work(kernels: dict[str, Kernel]) -> None:
    torch: Any = import_module("torch")
    known = {"torch": torch, "ml_dtypes": ml_dtypes, "np": np}
    narrow = torch.arange(4, dtype=torch.bfloat16).view(2, 2)
    for tensor, name in (
        (torch.ones(3, requires_grad=True), "axpy"),
        (narrow, "bf16"),
        (narrow.clone().requires_grad_(), "bf16"),
    ):
        more = [torch.ones(3)] if name == "axpy" else []
        with pytest.raises(ArgumentError) as caught:
            kernels[name](tensor, *more)
        held = eval(f"x{caught.value.diagnostic.fix}", {**known, "x": tensor})  # noqa: S307 - as the message says
        found = np.asarray(kernels[name](held, *more)).astype(np.float64)
        np.testing.assert_array_equal(found, [3.5] * 3 if name == "axpy" else [0, 1, 2, 3])


@JAX.needed
def test_the_fix_for_jax_works(kernels: dict[str, Kernel]) -> None:
    jnp: Any = import_module("jax.numpy")
    given = jnp.arange(4, dtype=jnp.bfloat16).reshape(2, 2)
    assert no_array(kernels["bf16"].signature.inputs[0], given)[1] == "np.asarray(..)"
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
