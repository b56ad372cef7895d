"""Ensembles of decision trees, of the domain `ai.onnx.ml`: all trees go down one node at a time, by gathers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import DTypeLike

from tcpx.frontends.onnx.node import Node
from tcpx.frontends.onnx.operators.classical import labelled, real, transformed
from tcpx.frontends.onnx.table import Result, rule
from tcpx.payload.ir import Value
from tcpx.payload.sizes import Dim
from tcpx.payload.types import dtype_of, f32, i1, shape_of

DEEPEST: Final = 128
"""Nodes from a root to a leaf: each is a step of its own."""
_COMPARISONS: Final = {
    "LEQ": "less_equal", "LT": "less", "GTE": "greater_equal", "GT": "greater", "EQ": "equal", "NEQ": "not_equal",
}  # fmt: skip
_MODES: Final = (*_COMPARISONS, "MEMBER")
"""By their numbers in `TreeEnsemble`; older operators write BRANCH_LEQ."""
_AGGREGATES: Final = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS: Final = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@dataclass(slots=True)
class Forest:
    """Nodes in lists: what each compares, with which children. A leaf has itself as children, and weights by target."""

    roots: list[int] = field(default_factory=list[int])
    features: list[int] = field(default_factory=list[int])
    thresholds: list[float] = field(default_factory=list[float])
    modes: list[str] = field(default_factory=list[str])
    missing: list[bool] = field(default_factory=list[bool])
    """Whether NaN goes to the first child."""
    children: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    weights: dict[int, dict[int, float]] = field(default_factory=dict[int, dict[int, float]])

    def add(self, feature: int, threshold: float, mode: str, missing: bool, children: tuple[int, int]) -> int:
        self.features.append(feature)
        self.thresholds.append(threshold)
        self.modes.append(mode)
        self.missing.append(missing)
        self.children.append(children)
        return len(self.children) - 1

    def leaf(self, index: int) -> bool:
        return self.children[index] == (index, index)

    def depth(self, n: Node) -> int:
        """The steps that every tree takes at most. Raises OnnxError for nodes in a circle, or too deep."""
        level, steps = set(self.roots), 0
        while level := {c for k in level if not self.leaf(k) for c in self.children[k]}:
            steps += 1
            if steps > DEEPEST:
                most = f"{DEEPEST} nodes from a root to a leaf at most"
                raise n.error("the depth of trees", most, "more, or a circle")
        return steps


def _scores(n: Node, forest: Forest, targets: int, aggregate: str, base: Sequence[float]) -> Value:
    """What the leaves of all trees say of each row: [rows, targets]."""
    w, x, rows = n.w, real(n), _checked_rows(n, forest, targets)
    dtype = dtype_of(x.type)
    ends = {"MIN": np.finfo(np.float32).max, "MAX": np.finfo(np.float32).min}
    weights = np.full((len(forest.children), targets), ends.get(aggregate, 0.0), dtype.numpy)
    for index, held in forest.weights.items():
        for target, weight in held.items():
            weights[index, target] = weight
    found = _chosen(n, w.constant(f"{w.prefix}.weights", weights), _leaves(n, forest, x))
    words = {"MIN": "reduce_min", "MAX": "reduce_max"}
    made = w.reduce(words.get(aggregate, "reduce_sum"), found, (1,))
    if aggregate == "AVERAGE":
        made = w.with_number("div", made, len(forest.roots))
    if not base:
        return made
    if len(base) not in (1, targets):
        raise n.error("a base value for each target", f"{targets}", str(len(base)))
    offset = w.constant(f"{w.prefix}.base", np.array([*base] * (targets // len(base)), dtype.numpy))
    return w.op("add", made, w.op("broadcast", offset, shape=(rows, targets), dims=(1,)))


def _checked_rows(n: Node, forest: Forest, targets: int) -> Dim:
    """The number of rows. Raises OnnxError for nodes of features, and leaves of targets, that are not there."""
    rows, columns = n.ranked(0, 2, 2).shape
    features = [f for k, f in enumerate(forest.features) if not forest.leaf(k)]
    if not isinstance(columns, int) or not -1 < min(features, default=0) <= max(features, default=0) < columns:
        found = f"features {min(features, default=0)} to {max(features, default=0)}"
        raise n.error("the features of nodes are columns", f"{columns} columns", found, [columns])
    outside = [t for held in forest.weights.values() for t in held if not 0 <= t < targets]
    if outside or not forest.roots:
        raise n.error("trees, and the targets of their leaves", f"0 to {targets - 1}", str(outside[:1] or "no tree"))
    return rows


def _chosen(n: Node, table: Value, node: Value) -> Value:
    """What a table has for each node."""
    shape = (*shape_of(node.type), *shape_of(table.type)[1:])
    return n.w.op("gather", table, node, shape=shape, dim=0, out_of_range="fill")


def _leaves(n: Node, forest: Forest, x: Value) -> Value:
    """The leaf of each row and tree: [rows, trees]."""
    w, shape = n.w, (shape_of(x.type)[0], len(forest.roots))

    def table(name: str, held: Sequence[float], kind: DTypeLike) -> Value:
        return w.constant(f"{w.prefix}.{name}", np.array(held, kind))

    features = table("features", forest.features, np.int64)
    thresholds, missing = (
        table("thresholds", forest.thresholds, dtype_of(x.type).numpy),
        table("missing", forest.missing, bool),
    )
    first, second = (table(f"children{k}", [c[k] for c in forest.children], np.int64) for k in range(2))
    modes = sorted({mode for k, mode in enumerate(forest.modes) if not forest.leaf(k)})
    has_mode = {mode: table(f"is_{mode}", [m == mode for m in forest.modes], bool) for mode in modes[1:]}
    node = w.op("broadcast", table("roots", forest.roots, np.int64), shape=shape, dims=(1,))
    for _ in range(forest.depth(n)):
        value = w.op("gather_elements", x, _chosen(n, features, node), shape=shape, dim=1, out_of_range="fill")
        bound = _chosen(n, thresholds, node)
        goes = w.op(_COMPARISONS[modes[0]], value, bound, dtype=i1)
        for mode in modes[1:]:
            holds = w.op(_COMPARISONS[mode], value, bound, dtype=i1)
            goes = w.select(_chosen(n, has_mode[mode], node), holds, goes)
        goes = w.select(w.op("isnan", value, dtype=i1), _chosen(n, missing, node), goes)
        node = w.select(goes, _chosen(n, first, node), _chosen(n, second, node))
    return node


def _floats(n: Node, name: str) -> list[float]:
    """A list of numbers that is an attribute, or a tensor."""
    tensor = n.raw(f"{name}_as_tensor")
    held: Sequence[float] = n.of_array(tensor).ravel().tolist() if tensor is not None else list(n.raw(name) or ())
    return [float(number) for number in held]


def _words(n: Node, name: str) -> list[str]:
    """A list of strings that is an attribute."""
    held: Sequence[bytes | str] = n.raw(name) or ()
    return [word.decode("utf-8", "replace") if isinstance(word, bytes) else word for word in held]


def _integers(n: Node, name: str) -> list[int]:
    """The integers of a tensor that is an attribute."""
    return [int(number) for number in n.of_array(n.raw(name)).ravel().tolist()]


def _listed(n: Node, prefix: str) -> Forest:
    """The trees of the older operators, whose nodes and leaf weights are lists of numbers of trees and nodes."""
    trees, names = n.ints("nodes_treeids"), n.ints("nodes_nodeids")
    features, modes, values = n.ints("nodes_featureids"), _words(n, "nodes_modes"), _floats(n, "nodes_values")
    yes, no = n.ints("nodes_truenodeids"), n.ints("nodes_falsenodeids")
    count = len(names)
    missing = n.ints("nodes_missing_value_tracks_true", [0] * count) or [0] * count
    for name in ("nodes_hitrates", "nodes_hitrates_as_tensor"):
        n.raw(name)  # how often nodes were reached says nothing of results
    if any(len(held) != count for held in (trees, features, modes, values, yes, no, missing)):
        raise n.error("a number for each node in all lists", str(count), "other lengths")
    places = {key: k for k, key in enumerate(zip(trees, names, strict=True))}
    forest = Forest()
    for k, tree in enumerate(trees):
        mode = modes[k].removeprefix("BRANCH_")
        ends = (tree, yes[k]), (tree, no[k])
        if mode == "LEAF":
            forest.add(0, 0.0, mode, False, (k, k))
        elif mode in _COMPARISONS and all(end in places for end in ends):
            forest.add(features[k], values[k], mode, bool(missing[k]), (places[ends[0]], places[ends[1]]))
        else:
            found = f"{modes[k]}, {yes[k]}, {no[k]}"
            raise n.error("nodes with a mode and two children", ", ".join(_COMPARISONS), found)
    firsts: dict[int, int] = {}
    for k, tree in enumerate(trees):
        firsts.setdefault(tree, k)
    forest.roots = list(firsts.values())
    owners = list(zip(n.ints(f"{prefix}_treeids"), n.ints(f"{prefix}_nodeids"), strict=True))
    weights = _floats(n, f"{prefix}_weights")
    targets = n.ints(f"{prefix}_ids")
    if not len(owners) == len(weights) == len(targets) or any(owner not in places for owner in owners):
        raise n.error("a leaf and a target for each weight", str(len(weights)), f"{len(owners)}, {len(targets)}")
    for owner, target, weight in zip(owners, targets, weights, strict=True):
        held = forest.weights.setdefault(places[owner], {})
        held[target] = held.get(target, 0.0) + weight
    return forest


@rule("ai.onnx.ml.TreeEnsembleRegressor")
def regressor(n: Node) -> Result:
    """Numbers of each row: what the leaves of all trees say."""
    aggregate, forest = n.text("aggregate_function", "SUM"), _listed(n, "target")
    made = _scores(n, forest, n.int("n_targets", 1), aggregate, _floats(n, "base_values"))
    return n.w.cast(transformed(n, made, n.text("post_transform", "NONE")), f32)


@rule("ai.onnx.ml.TreeEnsembleClassifier")
def classifier(n: Node) -> Sequence[Result]:
    """The label with the highest score, and the scores. Of two classes, leaves may say the score of the second."""
    labels, forest = labelled(n, "classlabels_int64s"), _listed(n, "class")
    base, word = _floats(n, "base_values"), n.text("post_transform", "NONE")
    is_binary = len({t for held in forest.weights.values() for t in held}) == 1 and len(labels) == 2
    if is_binary:
        forest.weights = {k: {0: sum(held.values())} for k, held in forest.weights.items()}
        score = _scores(n, forest, 1, "SUM", base[:1] if len(base) == 1 else [])
        if len(base) == 2:
            score = n.w.with_number("add", score, base[0])
        other = n.w.with_number("sub", score, 1, first=True) if word in ("NONE", "PROBIT") else n.w.unary("neg", score)
        scores = n.w.concat([other, score], 1)
    else:
        scores = _scores(n, forest, len(labels), "SUM", base)
    scores = n.w.cast(transformed(n, scores, word), f32)
    return labels.of(n, scores), scores


@rule("ai.onnx.ml.TreeEnsemble")
def ensemble(n: Node) -> Result:
    """Numbers of each row, by nodes that name their children among nodes or leaves."""
    forest, splits = Forest(), n.of_array(n.raw("nodes_splits")).ravel().tolist()
    features, modes = n.ints("nodes_featureids"), _integers(n, "nodes_modes")
    yes, no, count = n.ints("nodes_truenodeids"), n.ints("nodes_falsenodeids"), len(splits)
    ends = n.ints("nodes_trueleafs"), n.ints("nodes_falseleafs")
    missing = n.ints("nodes_missing_value_tracks_true", [0] * count) or [0] * count
    n.raw("nodes_hitrates")
    weights, targets = n.of_array(n.raw("leaf_weights")).ravel().tolist(), n.ints("leaf_targetids")
    lists = (features, modes, yes, no, *ends, missing)
    if any(len(held) != count for held in lists) or len(weights) != len(targets) or not all(0 <= m < 7 for m in modes):
        raise n.error("a number for each node in all lists", f"{count}, and modes of {', '.join(_MODES)}", "others")
    for k, held in enumerate(zip(yes, no, strict=True)):
        for child, is_leaf in zip(held, (ends[0][k], ends[1][k]), strict=True):
            if not 0 <= child < (len(weights) if is_leaf else count):
                required = f"a leaf below {len(weights)}, or a node below {count}"
                raise n.error("the children of a node", required, str(child))
    for k in range(count):
        children = tuple(c + count if leaf else c for c, leaf in ((yes[k], ends[0][k]), (no[k], ends[1][k])))
        mode = _MODES[modes[k]]
        forest.add(features[k], splits[k], mode, bool(missing[k]) or mode == "NEQ", (children[0], children[1]))
    for k, (target, weight) in enumerate(zip(targets, weights, strict=True), count):
        forest.add(0, 0.0, "LEAF", False, (k, k))
        forest.weights[k] = {target: weight}
    roots = n.ints("tree_roots")
    if any(not 0 <= r < count for r in roots):
        raise n.error("the roots are nodes", f"0 to {count - 1}", str(roots))
    forest.roots = [yes[r] + count if ends[0][r] and ends[1][r] and yes[r] == no[r] else r for r in roots]
    _expand_members(n, forest)
    aggregate, word = n.int("aggregate_function", 1), n.int("post_transform", 0)
    if not (0 <= aggregate < len(_AGGREGATES) and 0 <= word < len(_TRANSFORMS)):
        raise n.error("the aggregate and the transform", ", ".join(_AGGREGATES), f"{aggregate}, {word}")
    made = _scores(n, forest, n.int("n_targets", 1), _AGGREGATES[aggregate], [])
    return n.w.cast(transformed(n, made, _TRANSFORMS[word]), n.dtype())


def _expand_members(n: Node, forest: Forest) -> None:
    """Nodes that ask for one of several numbers, as chains of nodes that ask for one each: their lists end in NaN, and
    are in the order in which the trees are walked."""
    given = n.raw("membership_values")
    numbers = [] if given is None else n.of_array(given).ravel().tolist()
    lists: list[list[float]] = [[]]
    for number in numbers:
        if np.isnan(number):
            lists.append([])
        else:
            lists[-1].append(number)
    waiting, seen, at = forest.roots[::-1], set[int](), 0
    while waiting:
        node = waiting.pop()
        if node in seen or forest.leaf(node):
            continue
        seen.add(node)
        yes, no = forest.children[node]
        waiting += [no, yes]
        if forest.modes[node] != "MEMBER":
            continue
        if at >= len(lists) - 1:
            found = str(len(lists) - 1)
            raise n.error("`membership_values` has a list for each node that asks for members", str(at + 1), found)
        members, at = lists[at] or [np.nan], at + 1
        feature, missing = forest.features[node], forest.missing[node]
        last = no
        for member in members[:0:-1]:
            last = forest.add(feature, member, "EQ", missing, (yes, last))
        forest.modes[node], forest.thresholds[node], forest.children[node] = "EQ", members[0], (yes, last)
