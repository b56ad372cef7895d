"""Scaling, linear models and trees of the domain `ai.onnx.ml`, beside the reference of ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.reference
import pytest
from onnx import TensorProto, helper, numpy_helper

import tcpx

RNG = np.random.default_rng(2)
X = np.concatenate([RNG.standard_normal((9, 3)), [[0.5, np.nan, -0.25]], [[np.inf, 0, -np.inf]]]).astype(np.float32)
TREES: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0, 0, 0, 1, 1, 1], "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
    "nodes_featureids": [0, 1, 0, 0, 0, 2, 0, 0], "nodes_values": [0.5, -0.2, 0, 0, 0, -0.25, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "BRANCH_GT", "LEAF", "LEAF", "LEAF", "BRANCH_LT", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 3, 0, 0, 0, 1, 0, 0], "nodes_falsenodeids": [2, 4, 0, 0, 0, 2, 0, 0],
    "nodes_missing_value_tracks_true": [0, 1, 0, 0, 0, 0, 0, 0],
}  # fmt: skip
"""A tree of three leaves (2, 3, 4), and one of two (1, 2)."""
OWNERS = [0, 0, 0, 1, 1], [2, 3, 4, 1, 2]


def model_of(operator: str, outputs: int = 1, dtype: int = TensorProto.FLOAT, **attributes: Any) -> onnx.ModelProto:
    names = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(operator, ["x"], names, domain="ai.onnx.ml", **attributes)
    kinds = [TensorProto.INT64, TensorProto.FLOAT][-outputs:]
    ports = [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(names, kinds, strict=True)]
    x = helper.make_tensor_value_info("x", dtype, ["N", X.shape[1]])
    domains = [helper.make_opsetid("ai.onnx.ml", 5 if operator == "TreeEnsemble" else 3), helper.make_opsetid("", 18)]
    return helper.make_model(helper.make_graph([node], "f", [x], ports), opset_imports=domains)


def as_the_reference(model: onnx.ModelProto, x: np.ndarray = X) -> None:
    found: Any = tcpx.evaluate(tcpx.onnx.load(model).module, x)
    wanted: Any = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})
    for ours, theirs in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_scaler() -> None:
    as_the_reference(model_of("Scaler", offset=[0.5, 1.0, -1.0], scale=[2.0, 3.0, 0.5]))
    as_the_reference(model_of("Scaler", offset=[0.5], scale=[2.0]))


def test_a_linear_regressor() -> None:
    factors = [1.0, 2.0, -1.0, 0.5, 0.25, 3.0]
    as_the_reference(model_of("LinearRegressor", coefficients=factors, intercepts=[1.0, -2.0], targets=2), X[:9])


def test_quantiles_of_scores() -> None:
    """By the standard's formula in f64; 0 of 0 and 1, and NaN of what is no probability."""
    model = model_of("LinearRegressor", coefficients=[1.0, 0.0, 0.0], post_transform="PROBIT")
    p = np.array([0.001, 0.3, 0.5, 0.50001, 0.9, 1 - 2**-24, 0.0, 1.0, -0.5, np.nan], np.float32)
    x = np.stack([p, np.zeros_like(p), np.zeros_like(p)], 1)
    centred = p.astype(np.float64) * 2 - 1
    with np.errstate(all="ignore"):
        log = np.log((1 - centred) * (1 + centred))
        half = 2 / (np.pi * 0.147) + log / 2
        wanted = 1.41421356 * np.sign(centred) * np.sqrt(np.sqrt(half * half - log / 0.147) - half)
    wanted[np.abs(centred) == 1] = 0
    found: Any = tcpx.evaluate(tcpx.onnx.load(model).module, x)
    np.testing.assert_allclose(found.ravel(), wanted, rtol=1e-6)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("classes", [1, 3])
def test_a_linear_classifier(classes: int, transform: str) -> None:
    factors, labels = RNG.standard_normal(3 * classes).tolist(), [7, 3, 5][: max(2, classes)]
    options = {"coefficients": factors, "intercepts": [0.5] * classes, "classlabels_ints": labels}
    as_the_reference(model_of("LinearClassifier", 2, post_transform=transform, **options), X[:9])


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_trees_that_regress(aggregate: str) -> None:
    treeids, nodeids = OWNERS
    options: dict[str, Any] = {"target_treeids": [*treeids, *treeids], "target_nodeids": [*nodeids, *nodeids]}
    options["target_ids"] = [0] * 5 + [1] * 5
    options["target_weights"] = [1.0, 2.0, 3.0, 10.0, 20.0, -1.0, -2.0, 4.0, 5.0, 0.5]
    model = model_of("TreeEnsembleRegressor", n_targets=2, aggregate_function=aggregate, **TREES, **options)
    as_the_reference(model)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("is_binary", [True, False])
def test_trees_that_classify(is_binary: bool, transform: str) -> None:
    treeids, nodeids = OWNERS
    options: dict[str, Any] = {"class_treeids": treeids, "class_nodeids": nodeids, "post_transform": transform}
    options["class_ids"] = [0] * 5 if is_binary else [0, 1, 2, 1, 2]
    options |= {"class_weights": [0.1, 0.4, -0.3, 0.6, 0.2], "classlabels_int64s": [4, 9] if is_binary else [4, 9, 2]}
    as_the_reference(model_of("TreeEnsembleClassifier", 2, **TREES, **options))


def ensemble(**changes: Any) -> onnx.ModelProto:
    """One tree whose second node asks for members."""
    attributes: dict[str, Any] = {
        "nodes_splits": [0.0, 0.0], "nodes_modes": np.array([0, 6], np.uint8), "nodes_featureids": [0, 1],
        "nodes_truenodeids": [1, 0], "nodes_falsenodeids": [2, 1],
        "nodes_trueleafs": [0, 1], "nodes_falseleafs": [1, 1],
        "leaf_weights": [1.0, 2.0, 3.0], "leaf_targetids": [0, 1, 0], "tree_roots": [0], "n_targets": 2,
        "membership_values": [2.0, 4.0, np.nan], **changes,
    }  # fmt: skip
    for name in ("nodes_splits", "leaf_weights", "membership_values", "nodes_modes"):
        held = attributes[name]
        attributes[name] = numpy_helper.from_array(held if name == "nodes_modes" else np.array(held, np.float32), name)
    return model_of("TreeEnsemble", **attributes)


def test_members() -> None:
    x = np.array([[-1, 2, 0], [-1, 3, 0], [-1, 4, 0], [1, 4, 0]], np.float32)
    as_the_reference(ensemble(), x)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes_truenodeids": [0, 0]}, "the depth of trees"),
        ({"nodes_featureids": [0, 3]}, "the features of nodes are columns"),
        ({"leaf_targetids": [0, 2, 0]}, "trees, and the targets of their leaves"),
        ({"nodes_falsenodeids": [3, 1]}, "the children of a node"),
        ({"membership_values": [2.0]}, "has a list for each node that asks for members"),
        ({"tree_roots": [2]}, "the roots are nodes"),
    ],
)
def test_trees_that_are_none(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(tcpx.onnx.OnnxError, match=message):
        _ = tcpx.onnx.load(ensemble(**changes)).module


def test_labels_that_are_strings() -> None:
    model = model_of("LinearClassifier", 2, coefficients=[1.0, 2.0, 3.0], classlabels_strings=["a", "b"])
    with pytest.raises(tcpx.onnx.UnsupportedError, match="labels that are strings"):
        _ = tcpx.onnx.load(model).module


def test_a_body_without_an_opset_of_its_own() -> None:
    node = helper.make_node("FlexAttention", ["q", "k", "v"], ["y"], domain="ai.onnx.preview")
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2, "L", 4]) for name in "qkv"]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "f", ports, [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.preview", 1)])
    arrays = {name: RNG.standard_normal((1, 2, 5, 4)).astype(np.float32) for name in "qkv"}
    found: Any = tcpx.evaluate(tcpx.onnx.load(model).module, *arrays.values())
    scores = arrays["q"] @ arrays["k"].swapaxes(2, 3) / 2
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(found, weights / weights.sum(-1, keepdims=True) @ arrays["v"], rtol=1e-5, atol=1e-6)
