"""Converters of support vector machines."""

from __future__ import annotations

import numpy as np

from smelt.frontend.common import Build, Value, moves

from . import ops_ml
from .registry import Floats, Ints, Strs, onnx_op


def _kernel(g: Build, rows: Value, vectors: Value, kind: str, params: Floats) -> Value:
    """How near each row is to each vector, [rows, vectors]; params are gamma, coef0, degree."""
    g.one_of("kernel_type", kind, ("LINEAR", "POLY", "RBF", "SIGMOID"))
    gamma, coef0, degree = (*params, *(0.0,) * 3)[:3]
    if kind == "RBF":
        a, b = moves.expand_dims(g, rows, (1,)), moves.expand_dims(g, vectors, (0,))
        apart = g.call("subtract", a, b)
        far = g.call("reduce_sum_square", apart, axes=(2,), keepdims=False)
        return g.call("exp", g.call("multiply", far, -gamma))
    product = g.call("matmul", rows, vectors, transpose_b=True)
    if kind == "LINEAR":
        return product
    bent = g.call("add", g.call("multiply", product, gamma), coef0)
    return g.call("tanh", bent) if kind == "SIGMOID" else g.call("power", bent, degree)


def _table(g: Build, values: Floats, rows: int, what: str, dtype: str) -> Value:
    if rows < 1 or len(values) % rows:
        g.malformed(f"{len(values)} {what} for {rows} rows")
    return g.constant(np.array(values).reshape(rows, -1), dtype)


def _sums(g: Build, x: Value, coefficients: Floats, targets: int, rho: Floats) -> Value:
    """x coefficients + rho, [rows, targets]."""
    weights = _table(g, coefficients, targets, "coefficients", x.dtype)
    y = g.call("matmul", x, weights, transpose_b=True)
    return g.call("add", y, rho[0] if rho else 0.0)


@onnx_op("SVMRegressor", domain=ops_ml.DOMAIN)
def svm_regressor(
    g: Build,
    x: Value,
    *,
    coefficients: Floats = (),
    kernel_params: Floats = (),
    kernel_type: str = "LINEAR",
    n_supports: int = 0,
    one_class: int = 0,
    post_transform: str = "NONE",
    rho: Floats = (),
    support_vectors: Floats = (),
) -> Value:
    """A weighted sum of kernels plus rho; its sign where there is one class."""
    rows = ops_ml.float_features(g, x)
    if n_supports:
        vectors = _table(g, support_vectors, n_supports, "support_vectors", rows.dtype)
        near = _kernel(g, rows, vectors, kernel_type, kernel_params)
    else:
        near = rows
    y = _sums(g, near, coefficients, 1, rho)
    if one_class:
        positive = g.call("greater", y, 0)
        y = g.call("where", positive, g.constant(1, y.dtype), g.constant(-1, y.dtype))
    return ops_ml.as_scores(g, ops_ml.post_transformed(g, y, post_transform))


def _duels(
    g: Build, near: Value, coefficients: Floats, rho: Floats, sizes: Ints
) -> list[tuple[int, int, Value]]:
    """The decision [rows, 1] between each two classes; above 0 the first one wins."""
    supports = sum(sizes)
    table = np.array(coefficients).reshape(len(sizes) - 1, supports)
    begins = np.concatenate([[0], np.cumsum(sizes)])
    pairs = [(i, j) for i in range(len(sizes)) for j in range(i + 1, len(sizes))]
    weights = np.zeros((len(pairs), supports))
    for k, (i, j) in enumerate(pairs):
        for mine, row in ((i, j - 1), (j, i)):
            part = slice(begins[mine], begins[mine + 1])
            weights[k, part] = table[row, part]
    y = g.call("matmul", near, g.constant(weights, near.dtype), transpose_b=True)
    y = g.call("add", y, g.constant(np.array(rho), near.dtype))
    columns = moves.split(g, y, (1,) * len(pairs), 1)
    return [(i, j, c) for (i, j), c in zip(pairs, columns, strict=True)]


def _votes(g: Build, duels: list[tuple[int, int, Value]], classes: int) -> Value:
    """How many duels each class has won, [rows, classes]."""
    total: list[Value | None] = [None] * classes
    for i, j, score in duels:
        won = g.call("greater", score, 0)
        for k, yes in ((i, won), (j, g.call("logical_not", won))):
            one = g.call("cast", yes, dtype="int64")
            before = total[k]
            total[k] = one if before is None else g.call("add", before, one)
    return moves.concat(g, [v for v in total if v is not None], 1)


def _share(g: Build, duel: Value, a: float, b: float) -> Value:
    """The share of the first of two classes, by Platt's sigmoid."""
    bent = g.call("multiply", duel, a)
    bent = g.call("add", bent, b)
    return g.call("sigmoid", g.call("negative", bent))


@onnx_op("SVMClassifier", domain=ops_ml.DOMAIN)
def svm_classifier(
    g: Build,
    x: Value,
    *,
    classlabels_ints: Ints = (),
    classlabels_strings: Strs = (),
    coefficients: Floats = (),
    kernel_params: Floats = (),
    kernel_type: str = "LINEAR",
    post_transform: str = "NONE",
    prob_a: Floats = (),
    prob_b: Floats = (),
    rho: Floats = (),
    support_vectors: Floats = (),
    vectors_per_class: Ints = (),
) -> tuple[Value, Value]:
    """Each class against each other one, the most votes win; without vectors, linear scores."""
    rows = ops_ml.float_features(g, x)
    classes = len(classlabels_ints or classlabels_strings)
    if not vectors_per_class:
        scores = _sums(g, rows, coefficients, classes, rho)
        return ops_ml.best(g, scores, post_transform, classlabels_ints, classlabels_strings)
    if len(vectors_per_class) != classes or classes < 2:
        g.malformed(f"vectors of {len(vectors_per_class)} classes, labels of {classes}")
    vectors = _table(g, support_vectors, sum(vectors_per_class), "support_vectors", rows.dtype)
    near = _kernel(g, rows, vectors, kernel_type, kernel_params)
    duels = _duels(g, near, coefficients, rho, vectors_per_class)
    which = g.call("argmax", _votes(g, duels, classes), axis=1, keepdims=False)
    if prob_a:
        shares = [
            (i, j, _share(g, d, a, b))
            for (i, j, d), a, b in zip(duels, prob_a, prob_b, strict=True)
        ]
        scores = ops_ml.post_transformed(g, _coupled(g, shares, classes), post_transform)
    elif classes == 2:
        scores = ops_ml.two_classes(g, duels[0][2], post_transform, share=False)
    else:
        scores = moves.concat(g, [d for _, _, d in duels], 1)
        scores = ops_ml.post_transformed(g, scores, post_transform)
    return ops_ml.labels_at(g, which, classlabels_ints, classlabels_strings), ops_ml.as_scores(
        g, scores
    )


def _coupled(g: Build, shares: list[tuple[int, int, Value]], classes: int) -> Value:
    """Probabilities [rows, classes] from those of each pair."""
    first = shares[0][2]
    if classes == 2:
        return moves.concat(g, (first, g.call("subtract", 1, first)), 1)
    known: dict[tuple[int, int], Value] = {}
    for i, j, p in shares:
        known[i, j] = g.call("clip", p, min=1e-7, max=1 - 1e-7)
        known[j, i] = g.call("subtract", 1, known[i, j])
    none = g.call("multiply", first, 0)
    cells = [known.get((i, j), none) for i in range(classes) for j in range(classes)]
    table = moves.reshape(g, moves.concat(g, cells, 1), (first.shape[0], classes, classes))
    return g.call("pairwise_coupling", table)
