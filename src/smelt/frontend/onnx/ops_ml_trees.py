"""Converters of ensembles of decision trees.

The core's operator says which leaf of each tree a row reaches; the leaves' weights are gathered and
summed. A question for membership in a set becomes one question for equality per member.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack

import numpy as np

from smelt.frontend.common import Build, Value, moves
from smelt.frontend.common.converter import attribute_set
from smelt.frontend.common.moves import as_type
from smelt.ir import dtype as dt

from . import ops_ml
from .registry import Array, Floats, Ints, Strs, onnx_op

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
MEMBER = 6
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


_THEN, _OTHER = 3, 4


@dataclass
class _Forest:
    """Trees as a table: a node k follows as k, a leaf k as -1 - k.

    nodes  [feature, mode, value, then, other, whether NaN goes the first way]
    """

    roots: list[int] = field(default_factory=list)
    nodes: list[list[Any]] = field(default_factory=list)

    def add(self, *node: float) -> int:
        """A node's number."""
        self.nodes.append([*node])
        return len(self.nodes) - 1

    def depth(self, g: Build) -> int:
        """The most nodes on a way from a root to a leaf."""
        level, seen = [r for r in self.roots if r >= 0], 0
        while level:
            seen += 1
            if seen > len(self.nodes):
                g.malformed("the nodes of a tree form a cycle")
            after = {n for k in level for n in self.nodes[k][_THEN : _OTHER + 1]}
            level = [n for n in after if n >= 0]
        return seen

    def leaves(self, g: Build, rows: Value) -> Value:
        """The leaf that each row reaches in each tree."""
        depth, most = self.depth(g), max([n[0] for n in self.nodes], default=0)
        if depth and most >= int(rows.shape[1]):
            g.malformed(f"a node asks for feature {most} of {rows.shape[1]}")
        table = zip(*self.nodes or [[0, 0, 0.0, -1, -1, 0]], strict=True)
        kinds = ("int64", "int64", rows.dtype, "int64", "int64", "int64")
        columns = [g.constant(np.array(c), kind) for c, kind in zip(table, kinds, strict=True)]
        roots = g.constant(np.array(self.roots), "int64")
        return g.call("tree_leaves", rows, roots, *columns, depth=depth)


def _gathered(
    g: Build, leaves: Value, shape: tuple[int, int], given: Iterable[tuple[int, int, float]],
    how: str, dtype: str,
) -> Value:  # fmt: skip
    """What the leaves of rows give to each target, [rows, targets].

    shape  how many leaves and targets there are
    given  (leaf, target, weight)
    """
    weights, present = np.zeros(shape), np.zeros(shape, bool)
    for leaf, target, w in given:
        weights[leaf, target] += w
        present[leaf, target] = True
    g.one_of("aggregate_function", how, AGGREGATES)
    if how in ("MIN", "MAX"):
        nothing = np.inf if how == "MIN" else -np.inf
        weights = np.where(present, weights, nothing)
    each = g.call("gather", g.constant(weights, dtype), leaves, axis=0)
    op = {"AVERAGE": "sum", "SUM": "sum", "MIN": "min", "MAX": "max"}[how]
    y = g.call(op, each, axes=(1,), keepdims=False)
    if how == "AVERAGE":
        return g.call("divide", y, float(leaves.shape[1]))
    if how in ("MIN", "MAX") and not present.all():
        y = g.call("where", g.call("isinf", y), 0, y)
    return y


# --------------------------------------------------------------------------------- TreeEnsemble-5


def _members(values: Array | None, count: int) -> list[list[float]]:
    """The sets of the nodes that ask for membership; NaN ends a set."""
    sets: list[list[float]] = [[]]
    for v in [] if values is None else values.ravel().tolist():
        if v != v:
            sets.append([])
        else:
            sets[-1].append(v)
    return sets + [[]] * (count - len(sets))


@onnx_op("TreeEnsemble", since=5, domain=ops_ml.DOMAIN)
def tree_ensemble(
    g: Build, x: Value, *, aggregate_function: int = 1, leaf_targetids: Ints, leaf_weights: Array,
    membership_values: Array | None = None, n_targets: int | None = None, nodes_falseleafs: Ints,
    nodes_falsenodeids: Ints, nodes_featureids: Ints, nodes_hitrates: Array | None = None,
    nodes_missing_value_tracks_true: Ints = (), nodes_modes: Array, nodes_splits: Array,
    nodes_trueleafs: Ints, nodes_truenodeids: Ints, post_transform: int = 0, tree_roots: Ints,
) -> Value:  # fmt: skip
    """Leaves that give a weight to one target each."""
    g.one_of("aggregate_function", aggregate_function, range(len(AGGREGATES)))
    g.one_of("post_transform", post_transform, range(len(ops_ml.TRANSFORMS)))
    modes = nodes_modes.ravel().tolist()
    sets = iter(_members(membership_values, modes.count(MEMBER)))
    sides = (nodes_truenodeids, nodes_trueleafs), (nodes_falsenodeids, nodes_falseleafs)
    after = [[-1 - n if leaf else n for n, leaf in zip(*side, strict=True)] for side in sides]
    forest, chains = _Forest(list(tree_roots)), []
    missing = nodes_missing_value_tracks_true or (0,) * len(modes)
    for k, mode in enumerate(modes):
        asked = next(sets) if mode == MEMBER else [float(nodes_splits.ravel()[k])]
        first, *rest = asked or [np.nan]
        forest.add(
            nodes_featureids[k], 4 if mode == MEMBER else mode, first, after[0][k], after[1][k],
            missing[k],
        )  # fmt: skip
        chains.append(rest)
    for k, rest in enumerate(chains):
        last = node = forest.nodes[k]
        feature, *_, then, no, _ = node
        for v in rest:
            last[_OTHER] = forest.add(feature, 4, v, then, no, 0)
            last = forest.nodes[-1]
    targets = n_targets or max(leaf_targetids, default=0) + 1
    g.affordable((len(leaf_targetids), targets), "weights")
    given = zip(range(len(leaf_targetids)), leaf_targetids, leaf_weights.ravel(), strict=True)
    rows = x if x.rank == 2 else ops_ml.float_features(g, x)
    wide = dt.bits(x.dtype) < 32
    how = AGGREGATES[aggregate_function]
    leaves, shape = forest.leaves(g, rows), (len(leaf_targetids), targets)
    y = _gathered(g, leaves, shape, given, how, "float32" if wide else x.dtype)
    return as_type(g, ops_ml.post_transformed(g, y, ops_ml.TRANSFORMS[post_transform]), x.dtype)


# --------------------------------------------------------------- classifiers and regressors of old


def _array(given: Mapping[str, Any], name: str) -> np.ndarray:
    """An attribute that is a list of floats, or an array of doubles under another name."""
    exact = given.get(f"{name}_as_tensor")
    if exact is not None:
        return np.asarray(exact, np.float64).ravel()
    return np.asarray(given.get(name, ()), np.float32).astype(np.float64)


def _grown(
    g: Build, given: Mapping[str, Any], votes: Sequence[tuple[int, int]]
) -> tuple[_Forest, dict[tuple[int, int], int]]:
    """The forest, and the number of the leaf at each (tree, node)."""
    ids = list(zip(given["nodes_treeids"], given["nodes_nodeids"], strict=True))
    modes, values = given["nodes_modes"], _array(given, "nodes_values")
    missing = given.get("nodes_missing_value_tracks_true") or (0,) * len(ids)
    for mode in modes:
        g.one_of("nodes_modes", mode, (*MODES, "LEAF"))
    numbers: dict[tuple[int, int], int] = {}
    leaves: dict[tuple[int, int], int] = {}
    for k, at in enumerate(ids):
        if modes[k] == "LEAF":
            leaves[at] = len(leaves)
        else:
            numbers[at] = len(numbers)
    for at in votes:
        if at not in leaves:
            g.malformed(f"a weight for node {at[1]} of tree {at[0]}, which is no leaf")
    where = {**numbers, **{at: -1 - n for at, n in leaves.items()}}
    forest = _Forest()
    followed = set()
    for k, at in enumerate(ids):
        if at not in numbers:
            continue
        ways = [(at[0], given[f"nodes_{side}nodeids"][k]) for side in ("true", "false")]
        for way in ways:
            if way not in where:
                g.malformed(f"node {way[1]} of tree {way[0]} is named, and does not exist")
        followed.update(ways)
        forest.add(
            given["nodes_featureids"][k], MODES.index(modes[k]), float(values[k]),
            where[ways[0]], where[ways[1]], missing[k],
        )  # fmt: skip
    forest.roots = [where[at] for at in ids if at not in followed]
    return forest, leaves


def _scores(g: Build, x: Value, given: Mapping[str, Any], prefix: str, targets: int) -> Value:
    """What all trees give to each target, [rows, targets], without the base values."""
    votes = list(zip(given[f"{prefix}_treeids"], given[f"{prefix}_nodeids"], strict=True))
    forest, leaves = _grown(g, given, votes)
    shape = (max(len(leaves), 1), targets)
    g.affordable(shape, "weights")
    ids, values = given[f"{prefix}_ids"], _array(given, f"{prefix}_weights")
    for target in ids:
        if not 0 <= target < targets:
            g.malformed(f"a weight for target {target} of {targets}")
    weights = zip([leaves[at] for at in votes], ids, values, strict=True)
    rows = ops_ml.float_features(g, x)
    how = given.get("aggregate_function", "SUM")
    exact = rows.dtype == "float64" and given.get("nodes_values_as_tensor") is not None
    wide = "float64" if exact else "float32"
    return _gathered(g, forest.leaves(g, rows), shape, weights, how, wide)


def _based(g: Build, scores: Value, given: Mapping[str, Any]) -> Value:
    """With the base values, one for each target or one for all."""
    base = _array(given, "base_values")
    if not base.size:
        return scores
    if base.size not in (1, scores.shape[1]):
        g.malformed(f"{base.size} base values for {scores.shape[1]} targets")
    return g.call("add", scores, g.constant(base, scores.dtype))


class _Nodes(TypedDict):
    """What every node of the trees has."""

    nodes_falsenodeids: Ints
    nodes_featureids: Ints
    nodes_modes: Strs
    nodes_nodeids: Ints
    nodes_treeids: Ints
    nodes_truenodeids: Ints


@attribute_set
class Trees(_Nodes, total=False):
    """The trees, and what is added to and made of their sums."""

    base_values: Floats
    base_values_as_tensor: Array
    nodes_hitrates: Floats
    nodes_hitrates_as_tensor: Array
    nodes_missing_value_tracks_true: Ints
    nodes_values: Floats
    nodes_values_as_tensor: Array
    post_transform: str


@onnx_op("TreeEnsembleRegressor", domain=ops_ml.DOMAIN)
def tree_regressor(
    g: Build, x: Value, *, aggregate_function: str = "SUM", n_targets: int = 1, target_ids: Ints,
    target_nodeids: Ints, target_treeids: Ints, target_weights: Floats = (),
    target_weights_as_tensor: Array | None = None, **trees: Unpack[Trees],
) -> Value:  # fmt: skip
    """The leaves' weights of each target joined, plus its base value."""
    given = {**locals(), **trees}
    y = _based(g, _scores(g, x, given, "target", n_targets), given)
    return ops_ml.as_scores(g, ops_ml.post_transformed(g, y, trees.get("post_transform", "NONE")))


@onnx_op("TreeEnsembleClassifier", domain=ops_ml.DOMAIN)
def tree_classifier(
    g: Build, x: Value, *, class_ids: Ints, class_nodeids: Ints, class_treeids: Ints,
    class_weights: Floats = (), class_weights_as_tensor: Array | None = None,
    classlabels_int64s: Ints = (), classlabels_strings: Strs = (), **trees: Unpack[Trees],
) -> tuple[Value, Value]:  # fmt: skip
    """The class with the highest score; of two classes only one may have weights.

    Then that score is the second class's: a share of 1 where no weight is negative, which wins
    above one half, otherwise a margin, which wins above 0.
    """
    given = {**locals(), **trees}
    post_transform = trees.get("post_transform", "NONE")
    labels = classlabels_int64s or classlabels_strings
    classes = len(labels)
    single = classes == 2 and len(set(class_ids)) == 1
    if single:
        given = {**given, "class_ids": (0,) * len(class_ids)}
        base = _array(given, "base_values")[-1:]
        given |= {"base_values": (), "base_values_as_tensor": base}
    scores = _based(g, _scores(g, x, given, "class", 1 if single else classes), given)
    if single:
        share = bool((_array(given, "class_weights") >= 0).all())
        above = g.constant(0.5 if share else 0.0, scores.dtype)
        won = g.call("greater", moves.squeeze(g, scores, (1,)), above)
        which = g.call("cast", won, dtype="int64")
        scores = ops_ml.as_scores(g, ops_ml.two_classes(g, scores, post_transform, share=share))
        return ops_ml.labels_at(g, which, labels), scores
    return ops_ml.best(g, scores, post_transform, labels)
