"""The example of attention: right for all sizes, and in memory that does not grow with the keys."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import tcpx

EXAMPLE = Path(__file__).parents[1] / "examples" / "attention"
SIZES = ((1, 1, 1), (2, 7, 5), (3, 200, 133), (1, 193, 300))


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """In f64."""
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(1, 2) / 8
    powers = np.exp(scores - scores.max(2, keepdims=True))
    return powers / powers.sum(2, keepdims=True) @ v


@pytest.mark.parametrize("target", ["generic", "native"])
def test_attention(target: str) -> None:
    module, schedule = tcpx.load(EXAMPLE / "attention.tcp"), tcpx.load_schedule(EXAMPLE / "attention.tcps")
    kernel, random = tcpx.compile(module, schedule, target=target, threads=2), np.random.default_rng(0)
    for heads, queries, keys in SIZES:
        q, k, v = (random.standard_normal((heads, n, 64), np.float32) for n in (queries, keys, keys))
        found = np.asarray(kernel(q, k, v), np.float64)
        np.testing.assert_allclose(found, attention(q, k, v), rtol=1e-5, atol=2e-6)
    q[:], k[0, -1] = 1.0, 100.0  # the last key of the last block takes nearly all
    np.testing.assert_allclose(np.asarray(kernel(q, k, v), np.float64), attention(q, k, v), rtol=1e-5, atol=2e-6)


def test_the_workspace_does_not_grow_with_the_keys() -> None:
    module, schedule = tcpx.load(EXAMPLE / "attention.tcp"), tcpx.load_schedule(EXAMPLE / "attention.tcps")
    source = "".join(tcpx.compile(module, schedule).sources.values())
    _, _, body = source[: source.index("\n}", source.index("size_t attention_workspace("))].rpartition("SIZE_MAX;")
    assert re.findall(r".*= (.*\bN\b.*);", body) == ["tcpx_size_min(128, N)"]
