"""Attention in the forms in which exporters and ONNX's own function write it: the numbers, and memory that is linear in
the lengths."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx.parser
import pytest
from onnx.numpy_helper import from_array
from onnx.reference import ReferenceEvaluator

import tcpx

HEADS, SIZE = 3, 32
DTYPES = {"float": np.float32, "bfloat16": ml_dtypes.bfloat16, "float16": np.float16}
QKV = "T[B,3,M,32] q, T[B,3,N,32] k, T[B,3,N,32] v"
PRODUCTS = "kt = Transpose<perm=[0,1,3,2]>(k) raw = MatMul(q, kt) t = Mul(raw, factor)"
SAFE = "p = Softmax<axis=-1>(s) none = IsNaN(p) safe = Where(none, high, p) y = MatMul(safe, v)"
NUMBERS = {"factor": 0.125, "low": -np.inf, "high": 0.0}
FORMS = {
    "products": (QKV, f"{PRODUCTS} p = Softmax<axis=-1>(t) y = MatMul(p, v)"),
    "operator": (QKV, "y = Attention(q, k, v)"),
    "causal": (QKV, "y = Attention<is_causal=1>(q, k, v)"),
    "softcap": (QKV, "y = Attention<softcap=2.0>(q, k, v)"),
    "kept": (f"{QKV}, bool[M,N] m", "y = Attention(q, k, v, m)"),
    "added": (f"{QKV}, T[M,N] m", "y = Attention(q, k, v, m)"),
    "PyTorch's mask": (
        f"{QKV}, bool[M,N] m",
        f"{PRODUCTS} b = Where(m, high, low) s = Add(t, b) {SAFE}",
    ),
}


def model(form: str, dtype: str) -> onnx.ModelProto:
    inputs, body = FORMS[form]
    text = f'<ir_version: 10, opset_import: ["" : 23]> f ({inputs}) => (T[B,3,M,32] y) {{ {body} }}'
    made = onnx.parser.parse_model(text.replace("T[", f"{dtype}["))
    made.graph.initializer.extend(from_array(np.array(n, DTYPES[dtype]), name) for name, n in NUMBERS.items())
    return made


def feeds(form: str, dtype: str, sizes: dict[str, int]) -> dict[str, Any]:
    """Queries, keys and values, and a mask of which every third row excludes all keys."""
    random = np.random.default_rng(sum(sizes.values()))
    b, m, n = sizes.values()
    made = {
        name: random.standard_normal((b, HEADS, length, SIZE)).astype(DTYPES[dtype])
        for name, length in (("q", m), ("k", n), ("v", n))
    }
    if " m" in FORMS[form][0]:
        mask = random.random((m, n)) > 0.3
        mask[::3] = False
        made["m"] = mask if "bool" in FORMS[form][0] else np.where(mask, 0.5, -np.inf).astype(DTYPES[dtype])
    return made


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
def test_numbers_and_memory(form: str, dtype: str) -> None:
    written = model(form, dtype)
    module = tcpx.onnx.load(written).module
    kernel = tcpx.compile(module)
    assert not [remark for remark in kernel.remarks if not remark.factor]
    tolerance = 2e-5 if dtype == "float" else 4e-2
    for b, m, n in ((1, 1, 1), (2, 5, 7), (1, 70, 130), (2, 33, 4)):
        given = feeds(form, dtype, {"B": b, "M": m, "N": n})
        with np.errstate(invalid="ignore"):  # -inf - -inf
            (wanted,) = ReferenceEvaluator(written).run(None, given)
        found = kernel(*given.values())
        np.testing.assert_allclose(
            np.asarray(found, np.float32),
            np.asarray(wanted, np.float32),
            rtol=tolerance,
            atol=tolerance,
            equal_nan=True,
        )
    short, long = (kernel.report({"B": 1, "M": n, "N": n}).workspace_bytes or 0 for n in (1024, 4096))
    masks = 4 * 4096 * 4096 if "bool" in FORMS[form][0] else 0  # once for all heads, where they are no numbers yet
    assert long <= 6 * short + masks, (short, long)
