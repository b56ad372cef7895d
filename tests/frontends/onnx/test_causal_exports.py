"""Masks of causal attention that PyTorch exports are recognized, and the kernels give what PyTorch does."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tcpx
from tests.optional_tools import TORCH
from tests.transform.payloads import run

pytestmark = [
    pytest.mark.slow,
    TORCH.needed,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),  # of the exporter
]
NAMES = ("library", "truth", "buffer of numbers", "buffer of truth", "added")


@pytest.mark.parametrize("name", NAMES)
def test_beside_pytorch(name: str, tmp_path: Path) -> None:
    torch, causal = import_module("torch"), import_module("tests.frontends.onnx.causal")
    model, path = causal.MODELS[name](), tmp_path / "model.onnx"
    causal.exported(model, str(path))
    module = tcpx.onnx.load(path).module
    after = run(tcpx.onnx.load(path).module, "recognize_mask(match one softmax in root)\noptional dce(root)").module
    opcodes = [op.opcode.removeprefix("tcp.") for op in after.main.body.ops]
    assert {"generic", "softmax"} <= {*opcodes}
    assert not {"select", "iota", "isnan"} & {*opcodes}
    kernel = tcpx.compile(module)
    draw = np.random.default_rng(0)
    for batch, length in ((1, 1), (2, 9), (1, 60)):
        args = [draw.standard_normal((batch, 3, length, 8), np.float32) for _ in range(3)]
        wanted = model(*map(torch.from_numpy, args)).numpy()
        found: Any = kernel(*args)
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)
