"""Losses of labels: their values, and labels that are no class."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import tcpx
from tests.frontends.onnx.models import agrees, loaded, model_of

RNG = np.random.default_rng(0)
HEAD = "f (float[N, C, D] x, int64[N, D] labels, float[C] w) => (float y, float z)"


def text(attributes: str) -> str:
    return f"""{HEAD} {{
      y = NegativeLogLikelihoodLoss <{attributes}> (x, labels, w)
      z = SoftmaxCrossEntropyLoss <{attributes}> (x, labels)
    }}"""


@pytest.mark.parametrize(
    ("reduction", "ignored"), list(product(("none", "sum", "mean"), ("", ", ignore_index = -100")))
)
def test_losses(reduction: str, ignored: str) -> None:
    """The kernels of one of them; the others by the evaluator."""
    model = model_of(text(f'reduction = "{reduction}"{ignored}'))
    for n, c, d in ((1, 1, 1), (3, 5, 2), (2, 7, 3)):
        x, w = RNG.standard_normal((n, c, d)).astype(np.float32), RNG.random(c).astype(np.float32)
        labels = RNG.integers(0, c, (n, d))
        labels[-1, -1] = -100 if ignored and n > 1 else 0
        found: Any = tcpx.evaluate(tcpx.onnx.load(model).module, x, labels, w)
        logarithms = x - np.log(np.exp(x).sum(1, keepdims=True))
        for ours, table, weights in ((found[0], x, w), (found[1], logarithms, np.ones_like(w))):
            used = labels != -100
            factors = np.where(used, weights[labels * used], 0)
            each = -np.take_along_axis(table, (labels * used)[:, None], 1)[:, 0] * factors
            wanted = {"none": each, "sum": each.sum(), "mean": each.sum() / (factors.sum() if used.any() else 1)}
            mean_of_all = reduction == "mean" and not ignored and weights is not w
            np.testing.assert_allclose(ours, each.mean() if mean_of_all else wanted[reduction], rtol=2e-5, atol=1e-6)


def test_compiled_with_log_probabilities() -> None:
    model = model_of("""f (float[N, C] x, int32[N] labels, float[C] w) => (float y, float[N, C] p) {
      y, p = SoftmaxCrossEntropyLoss <ignore_index = -1> (x, labels, w)
    }""")
    x, w = RNG.standard_normal((5, 3)).astype(np.float32), RNG.random(3).astype(np.float32)
    agrees(model, x=x, labels=np.array([0, -1, 2, 1, 2], np.int32), w=w)


@pytest.mark.parametrize(
    ("ignored", "bad"), [(None, (-1, 3)), (-1, (-2, 3)), (3, (-1, 4)), (-100, (-101, 3)), (255, (256,))]
)
def test_labels_outside_are_refused(ignored: int | None, bad: tuple[int, ...]) -> None:
    attribute = "" if ignored is None else f"ignore_index = {ignored}"
    module = loaded(text(f'reduction = "none"{", " if attribute else ""}{attribute}')).module
    x, w = np.zeros((1, 3, 2), np.float32), np.ones(3, np.float32)
    for label in bad:
        with pytest.raises(tcpx.ArgumentError, match="labels"):
            tcpx.evaluate(module, x, np.array([[0, label]]), w)


def test_labels_between_the_ignored_one_and_the_classes_make_a_loss_nan() -> None:
    module = loaded(text('reduction = "none", ignore_index = -100')).module
    x, w = np.zeros((1, 3, 4), np.float32), np.ones(3, np.float32)
    found: Any = tcpx.evaluate(module, x, np.array([[2, -100, -7, -1]]), w)
    for loss in found:
        np.testing.assert_array_equal(np.isnan(loss), [[False, False, True, True]])


def test_known_labels_that_are_no_class() -> None:
    given = "f (float[2, 3] x) => (float y) <int64[2] labels = {-1, 3}> "
    with pytest.raises(tcpx.onnx.OnnxError, match="a label is no class") as error:
        _ = loaded(given + "{ y = SoftmaxCrossEntropyLoss <ignore_index = -1> (x, labels) }").module
    assert (error.value.diagnostic.required, error.value.diagnostic.found) == ("0 to 2 or -1", "3")
