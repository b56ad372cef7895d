"""The example of attention: right for all sizes, and in memory that does not grow with the keys."""

from __future__ import annotations

import re
import runpy
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


STEPS, BEGIN = 500, 7


def test_decoding_changes_the_caches_in_place() -> None:
    """500 steps on caches that are not copied: they stay the same arrays; the workspace has nothing of their size."""
    kernel, random = tcpx.compile(tcpx.load(EXAMPLE / "decode.tcp")), np.random.default_rng(0)
    assert kernel.remarks == ()
    source = "".join(kernel.sources.values())
    _, _, body = source[: source.index("\n}", source.index("size_t decode_workspace("))].rpartition("SIZE_MAX;")
    assert not re.search(r"\bC\b", body)
    capacity = STEPS + BEGIN + 3
    caches = [random.standard_normal((4, capacity, 64), np.float32) for _ in range(2)]
    wanted = [cache.copy() for cache in caches]
    for step in range(BEGIN, BEGIN + STEPS):
        q = random.standard_normal((12, 1, 64), np.float32)
        rows = [random.standard_normal((4, 1, 64), np.float32) for _ in range(2)]
        for cache, row in zip(wanted, rows, strict=True):
            cache[:, step : step + 1] = row
        found, *after = kernel(step, q, *rows, *caches)
        assert all(a is b for a, b in zip(after, caches, strict=True))
        if step % 100 == 0 or step == BEGIN + STEPS - 1:
            k, v = (np.repeat(cache[:, : step + 1], 3, 0) for cache in wanted)
            np.testing.assert_allclose(np.asarray(found, np.float64), attention(q, k, v), rtol=1e-5, atol=2e-6)
    for cache, other in zip(caches, wanted, strict=True):
        np.testing.assert_array_equal(cache, other)


def test_a_step_moves_the_keys_and_values_that_are_used() -> None:
    """Bytes as the profile reports them: they grow with the steps, not with what the caches have room for."""
    module, random = tcpx.load(EXAMPLE / "decode.tcp"), np.random.default_rng(0)

    def moved(used: int, capacity: int) -> float:
        given = [random.standard_normal(shape, np.float32) for shape in ((12, 1, 64), (4, 1, 64), (4, 1, 64))]
        caches = [random.standard_normal((4, capacity, 64), np.float32) for _ in range(2)]
        return sum(row.l2_bytes for row in tcpx.profile(module, None, used, *given, *caches, seconds=0.0).rows)

    few, many = moved(255, 300), moved(511, 3000)
    assert moved(511, 512) == many
    for keys, found in ((256, few), (512, many)):
        assert 2 * 12 * keys * 64 * 4 <= found <= 1.05 * 2 * 12 * keys * 64 * 4


def test_the_page_is_what_the_schedule_does() -> None:
    docs = Path(__file__).parents[1] / "docs"
    page = runpy.run_path(str(docs / "attention_page.py"))["attention_page"]()
    assert (docs / "attention.md").read_text(encoding="utf-8") == page, "make docs"
