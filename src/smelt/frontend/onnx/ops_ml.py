"""Converters of the domain ai.onnx.ml: features, linear models, support vectors.

Numbers are computed in float32, or in float64 where the operand is float64 or an integer that
float32 cannot hold; scores are float32, as the operators say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from smelt.frontend.common import Build, Value, moves
from smelt.frontend.common.moves import as_type
from smelt.ir import dtype as dt

from .ops_string import text_lookup
from .registry import Array, Floats, Ints, Strs, onnx_op

DOMAIN = "ai.onnx.ml"
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


# --------------------------------------------------------------------------------- what is shared


def float_features(g: Build, x: Value) -> Value:
    """Features [rows, columns] as floats; a vector is one row."""
    kind = "float64" if x.dtype in ("float64", "int64", "int32") else "float32"
    rows = moves.expand_dims(g, x, (0,)) if x.rank == 1 else x
    if rows.rank != 2:
        g.unsupported(f"an operand of {x.rank} dimensions", "[columns], [rows, columns]")
    return as_type(g, rows, x.dtype if x.dtype == "float16" else kind)


def as_scores(g: Build, x: Value) -> Value:
    """Scores as the result holds them."""
    return as_type(g, x, "float32")


def labels_at(g: Build, which: Value, labels: Ints | Strs) -> Value:
    """The class labels with these numbers."""
    if labels and isinstance(labels[0], str):
        return text_lookup(g, which, list(range(len(labels))), list(labels), "", "string")
    return g.call("gather", g.constant(np.array(labels), "int64"), which, axis=0)


def _probit(g: Build, p: Value) -> Value:
    """The inverse of the normal distribution's integral: a closed form, then Newton's method."""
    x = g.call("subtract", g.call("multiply", p, 2.0), 1.0)
    rest = g.call("log", g.call("subtract", 1.0, g.call("multiply", x, x)))
    a = 0.147
    half = g.call("add", g.call("multiply", rest, 0.5), 2 / (np.pi * a))
    inside = g.call("subtract", g.call("multiply", half, half), g.call("multiply", rest, 1 / a))
    size = g.call("sqrt", g.call("subtract", g.call("sqrt", inside), half))
    y = g.call("multiply", g.call("sign", x), size)
    for _ in range(2):
        slope = g.call("exp", g.call("multiply", y, y))
        off = g.call("subtract", g.call("erf", y), x)
        step = g.call("multiply", off, g.call("multiply", slope, np.sqrt(np.pi) / 2))
        y = g.call("subtract", y, step)
    return g.call("multiply", y, np.sqrt(2))


def _softmax_zero(g: Build, x: Value) -> Value:
    """Softmax over the scores that are not 0; the others stay 0."""
    counts = g.call("cast", g.call("not_equal", x, 0), dtype=x.dtype)
    moved = g.call("subtract", x, g.call("max", x, axes=(1,), keepdims=True))
    powers = g.call("multiply", g.call("exp", moved), counts)
    total = g.call("sum", powers, axes=(1,), keepdims=True)
    empty = g.call("equal", total, 0)
    return g.call("divide", powers, g.call("where", empty, 1, total))


def post_transformed(g: Build, scores: Value, how: str) -> Value:
    """Scores [rows, classes] after the node's transformation."""
    g.one_of("post_transform", how, TRANSFORMS)
    match how:
        case "SOFTMAX":
            return g.call("softmax", scores, axis=1)
        case "LOGISTIC":
            return g.call("sigmoid", scores)
        case "SOFTMAX_ZERO":
            return _softmax_zero(g, scores)
        case "PROBIT":
            return _probit(g, scores)
    return scores


def two_classes(g: Build, score: Value, how: str, *, share: bool) -> Value:
    """Scores of both classes from that of the second one, [rows, 1].

    share  the score is a share: the first class has the rest of 1; otherwise it has its negative
    """
    if how == "PROBIT":
        return post_transformed(g, score, how)
    if share:
        score = g.call("sigmoid", score) if how == "LOGISTIC" else score
        other = g.call("subtract", 1, score)
        pair = moves.concat(g, (other, score), 1)
        return pair if how == "LOGISTIC" else post_transformed(g, pair, how)
    pair = moves.concat(g, (g.call("negative", score), score), 1)
    return post_transformed(g, pair, how)


def best(g: Build, scores: Value, how: str, labels: Ints | Strs) -> tuple[Value, Value]:
    """The label of the highest score, and the scores after the node's transformation."""
    which = g.call("argmax", scores, axis=1, keepdims=False)
    scores = as_scores(g, post_transformed(g, scores, how))
    return labels_at(g, which, labels), scores


# -------------------------------------------------------------------------------------- features


@onnx_op("ArrayFeatureExtractor", domain=DOMAIN)
def array_feature_extractor(g: Build, x: Value, indices: Value) -> Value:
    """Columns by number."""
    y = g.call("gather", x, moves.reshape(g, indices, (-1,)), axis=x.rank - 1)
    return moves.expand_dims(g, y, (0,)) if x.rank == 1 else y


@onnx_op("Binarizer", domain=DOMAIN)
def binarizer(g: Build, x: Value, *, threshold: float = 0.0) -> Value:
    """1 above the threshold, else 0."""
    kind = x.dtype if dt.is_float(x.dtype) else "float64"
    above = g.call("greater", as_type(g, x, kind), threshold)
    return g.call("cast", above, dtype=x.dtype)


@onnx_op("FeatureVectorizer", domain=DOMAIN)
def feature_vectorizer(g: Build, *parts: Value, inputdimensions: Ints = ()) -> Value:
    """Features side by side, cut or filled up with zeros to the columns that are given."""
    rows = [x if x.rank == 2 else moves.reshape(g, x, (x.shape[0], -1)) for x in parts]
    wanted = inputdimensions or tuple([int(x.shape[1]) for x in rows])
    if len(wanted) != len(rows):
        g.malformed(f"{len(wanted)} inputdimensions for {len(rows)} operands")
    fitted = [
        moves.pad(g, x, (0, 0, 0, n - int(x.shape[1]))) for x, n in zip(rows, wanted, strict=True)
    ]
    return as_scores(g, moves.concat(g, [as_type(g, x, "float32") for x in fitted], 1))


@onnx_op("Imputer", domain=DOMAIN)
def imputer(
    g: Build, x: Value, *, imputed_value_floats: Floats = (), imputed_value_int64s: Ints = (),
    replaced_value_float: float = 0.0, replaced_value_int64: int = 0,
) -> Value:  # fmt: skip
    """Another value for each element that has a certain one; NaN counts as equal to itself."""
    floats = dt.is_float(x.dtype)
    values: Sequence[float] = imputed_value_floats if floats else imputed_value_int64s
    gone = replaced_value_float if floats else replaced_value_int64
    if not values:
        g.malformed(f"no imputed values for an operand of {x.dtype}")
    if len(values) != 1 and len(values) != x.shape[-1]:
        g.malformed(f"{len(values)} imputed values for {x.shape[-1]} columns")
    found = g.call("isnan", x) if gone != gone else g.call("equal", x, gone)
    return g.call("where", found, g.constant(np.array(values), x.dtype), x)


@onnx_op("Normalizer", domain=DOMAIN)
def normalizer(g: Build, x: Value, *, norm: str = "MAX") -> Value:
    """Rows divided by their largest element, or by the sum of magnitudes or of squares (a root)."""
    g.one_of("norm", norm, ("MAX", "L1", "L2"))
    rows = as_scores(g, x)
    op = {"MAX": "max", "L1": "reduce_l1", "L2": "reduce_l2"}[norm]
    size = g.call(op, rows, axes=(x.rank - 1,), keepdims=True)
    none = g.call("equal", size, 0)
    return g.call("divide", rows, g.call("where", none, 1, size))


@onnx_op("OneHotEncoder", domain=DOMAIN)
def one_hot_encoder(
    g: Build, x: Value, *, cats_int64s: Ints = (), cats_strings: Strs = (), zeros: int = 1
) -> Value:
    """1 at the place of an element's category."""
    if not cats_int64s:
        g.unsupported("categories that are texts", "cats_int64s")
    if not zeros:
        g.unsupported("zeros=0, an error for an unknown category", "zeros=1")
    items = moves.expand_dims(g, as_type(g, x, "int64"), (x.rank,))
    same = g.call("equal", items, g.constant(np.array(cats_int64s), "int64"))
    return g.call("cast", same, dtype="float32")


@onnx_op("Scaler", domain=DOMAIN)
def scaler(g: Build, x: Value, *, offset: Floats = (), scale: Floats = ()) -> Value:
    """(x - offset) scale."""
    wide = float_features(g, x).dtype if x.rank in (1, 2) else "float32"
    y = as_type(g, x, wide)
    for op, values in (("subtract", offset), ("multiply", scale)):
        if values:
            y = g.call(op, y, g.constant(np.array(values), wide))
    return as_scores(g, y)


# ----------------------------------------------------------------------------------------- labels


class _Nan:
    """Stands for NaN in a table."""


def _mapped(g: Build, x: Value, keys: np.ndarray, values: np.ndarray, default: Any) -> Value:
    """Elements replaced by the values of their keys: a search in the sorted keys."""
    if len(keys) != len(values):
        g.malformed(f"{len(keys)} keys, {len(values)} values")
    last = {(_Nan if k != k else k): n for n, k in enumerate(keys.tolist())}
    chosen = np.array(sorted(last.values()), np.int64)
    keys, values = keys[chosen], values[chosen]
    order = np.argsort(keys, kind="stable")
    kind = dt.from_numpy(values.dtype)
    table = g.constant(keys[order], x.dtype)
    flat = moves.reshape(g, x, (-1,))
    at = g.call("searchsorted", table, flat, right=False)
    at = g.call("minimum", at, len(keys) - 1)
    key = g.call("gather", table, at, axis=0)
    same = g.call("equal", key, flat)
    if dt.is_float(x.dtype):
        both = g.call("logical_and", g.call("isnan", key), g.call("isnan", flat))
        same = g.call("logical_or", same, both)
    value = g.call("gather", g.constant(values[order], kind), at, axis=0)
    y = g.call("where", same, value, g.constant(default, kind))
    return moves.reshape(g, y, x.shape)


def _text_labels(
    g: Build, x: Value, keys: Sequence[Any], values: Sequence[Any], defaults: Sequence[Any],
    dtype: str,
) -> Value:  # fmt: skip
    """Labels where keys or values are texts. defaults: for texts, floats, integers."""
    if len(keys) != len(values) or not keys:
        g.malformed(f"{len(keys)} keys and {len(values)} values")
    kind = 0 if isinstance(values[0], str) else 1 if isinstance(values[0], float) else 2
    made = dtype or ("string", "float32", "int64")[kind]
    return text_lookup(g, x, list(keys), list(values), defaults[kind], made)


def _items(tensor: Array | None, others: Sequence[Any]) -> list[Any]:
    """What a tensor holds, where it is given."""
    return list(others) if tensor is None else tensor.ravel().tolist()


@onnx_op("CategoryMapper", domain=DOMAIN)
def category_mapper(
    g: Build, x: Value, *, cats_int64s: Ints = (), cats_strings: Strs = (), default_int64: int = -1,
    default_string: str = "_Unused",
) -> Value:  # fmt: skip
    """Numbers for texts, or texts for numbers."""
    keys: Sequence[Any] = cats_strings if x.dtype == "string" else cats_int64s
    values: Sequence[Any] = cats_int64s if x.dtype == "string" else cats_strings
    return _text_labels(g, x, keys, values, (default_string, 0.0, default_int64), "")


@onnx_op("LabelEncoder", domain=DOMAIN)
def label_encoder_1(
    g: Build, x: Value, *, classes_strings: Strs = (), default_int64: int = -1,
    default_string: str = "_Unused",
) -> Value:  # fmt: skip
    """The place of a text in a list, or the text at a place."""
    places = tuple(range(len(classes_strings)))
    return category_mapper(
        g, x, cats_int64s=places, cats_strings=classes_strings, default_int64=default_int64,
        default_string=default_string,
    )  # fmt: skip


@onnx_op("LabelEncoder", since=2, domain=DOMAIN)
def label_encoder(
    g: Build, x: Value, *, default_float: float = -0.0, default_int64: int = -1,
    default_string: str = "_Unused", default_tensor: Array | None = None, keys_floats: Floats = (),
    keys_int64s: Ints = (), keys_strings: Strs = (), keys_tensor: Array | None = None,
    values_floats: Floats = (), values_int64s: Ints = (), values_strings: Strs = (),
    values_tensor: Array | None = None,
) -> Value:  # fmt: skip
    """Numbers for numbers."""
    tensors = [t for t in (keys_tensor, values_tensor) if t is not None]
    if keys_strings or values_strings or any(t.dtype.kind == "U" for t in tensors):
        return _text_labels(
            g, x,
            _items(keys_tensor, keys_strings or keys_floats or keys_int64s),
            _items(values_tensor, values_strings or values_floats or values_int64s),
            _items(default_tensor, (default_string, default_float, default_int64)) * 3,
            "" if values_tensor is None else dt.from_numpy(values_tensor.dtype),
        )  # fmt: skip
    keys = np.array(keys_floats or keys_int64s) if keys_tensor is None else keys_tensor
    default: Any = default_float if values_floats else default_int64
    values = np.array(values_floats or values_int64s, np.float32 if values_floats else np.int64)
    if values_tensor is not None:
        values = values_tensor
        default = -0.0 if values.dtype.kind == "f" else -1
    if default_tensor is not None:
        default = default_tensor.reshape(-1)[0].item()
    if not keys.size:
        g.malformed("the node has no keys")
    return _mapped(g, x, keys, values, default)


# ---------------------------------------------------------------------------------- linear models


def _linear(g: Build, x: Value, coefficients: Floats, intercepts: Floats) -> Value:
    """Scores [rows, targets]."""
    rows = float_features(g, x)
    columns = rows.shape[1]
    if not isinstance(columns, int) or not columns or len(coefficients) % columns:
        g.malformed(f"{len(coefficients)} coefficients for {columns} columns")
    weights = g.constant(np.array(coefficients).reshape(-1, columns), rows.dtype)
    y = g.call("matmul", rows, weights, transpose_b=True)
    return y if not intercepts else g.call("add", y, g.constant(np.array(intercepts), y.dtype))


@onnx_op("LinearRegressor", domain=DOMAIN)
def linear_regressor(
    g: Build, x: Value, *, coefficients: Floats = (), intercepts: Floats = (),
    post_transform: str = "NONE", targets: int = 1,
) -> Value:  # fmt: skip
    """x coefficients + intercepts."""
    y = _linear(g, x, coefficients, intercepts)
    if y.shape[1] != targets:
        g.malformed(f"{len(coefficients)} coefficients for targets={targets}")
    return as_scores(g, post_transformed(g, y, post_transform))


@onnx_op("LinearClassifier", domain=DOMAIN)
def linear_classifier(
    g: Build, x: Value, *, classlabels_ints: Ints = (), classlabels_strings: Strs = (),
    coefficients: Floats, intercepts: Floats = (), multi_class: int = 0,
    post_transform: str = "NONE",
) -> tuple[Value, Value]:  # fmt: skip
    """The class with the highest score; of two classes only the second one may have a score."""
    scores = _linear(g, x, coefficients, intercepts)
    labels = classlabels_ints or classlabels_strings
    count = len(labels)
    if scores.shape[1] == 1 and count == 2:
        second = g.call("greater", moves.squeeze(g, scores, (1,)), 0)
        which = g.call("cast", second, dtype="int64")
        scores = as_scores(g, two_classes(g, scores, post_transform, share=True))
        return labels_at(g, which, labels), scores
    if scores.shape[1] != count:
        g.malformed(f"scores of {scores.shape[1]} classes, labels of {count}")
    return best(g, scores, post_transform, labels)


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


@onnx_op("SVMRegressor", domain=DOMAIN)
def svm_regressor(
    g: Build, x: Value, *, coefficients: Floats = (), kernel_params: Floats = (),
    kernel_type: str = "LINEAR", n_supports: int = 0, one_class: int = 0,
    post_transform: str = "NONE", rho: Floats = (), support_vectors: Floats = (),
) -> Value:  # fmt: skip
    """A weighted sum of kernels plus rho; its sign where there is one class."""
    rows = float_features(g, x)
    if n_supports:
        vectors = _table(g, support_vectors, n_supports, "support_vectors", rows.dtype)
        near = _kernel(g, rows, vectors, kernel_type, kernel_params)
    else:
        near = rows
    y = _sums(g, near, coefficients, 1, rho)
    if one_class:
        positive = g.call("greater", y, 0)
        y = g.call("where", positive, g.constant(1, y.dtype), g.constant(-1, y.dtype))
    return as_scores(g, post_transformed(g, y, post_transform))


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
    bent = g.call("add", g.call("multiply", duel, a), b)
    return g.call("sigmoid", g.call("negative", bent))


@onnx_op("SVMClassifier", domain=DOMAIN)
def svm_classifier(
    g: Build, x: Value, *, classlabels_ints: Ints = (), classlabels_strings: Strs = (),
    coefficients: Floats = (), kernel_params: Floats = (), kernel_type: str = "LINEAR",
    post_transform: str = "NONE", prob_a: Floats = (), prob_b: Floats = (), rho: Floats = (),
    support_vectors: Floats = (), vectors_per_class: Ints = (),
) -> tuple[Value, Value]:  # fmt: skip
    """Each class against each other one, the most votes win; without vectors, linear scores."""
    rows = float_features(g, x)
    labels = classlabels_ints or classlabels_strings
    classes = len(labels)
    if not vectors_per_class:
        scores = _sums(g, rows, coefficients, classes, rho)
        return best(g, scores, post_transform, labels)
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
        scores = post_transformed(g, _coupled(g, shares, classes), post_transform)
    elif classes == 2:
        scores = two_classes(g, duels[0][2], post_transform, share=False)
    else:
        scores = moves.concat(g, [d for _, _, d in duels], 1)
        scores = post_transformed(g, scores, post_transform)
    return labels_at(g, which, labels), as_scores(g, scores)


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
