"""Operators of ai.onnx.ml against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import smelt
from smelt.frontend.onnx import from_onnx
from smelt.ir.errors import ImportFailure

from .models import check, model, random, reference

F32, I64 = np.float32, np.int64
X = random(7, 4)


def learned(
    op: str, *inputs: np.ndarray, kinds: Sequence[int] = (1,), version: int = 3, **attrs: Any
) -> onnx.ModelProto:
    """A model of one node whose results have these element types."""
    names = [f"x{k}" for k in range(len(inputs))]
    outputs = [f"y{k}" for k in range(len(kinds))]
    node = helper.make_node(op, names, outputs, name="n", domain="ai.onnx.ml", **attrs)
    given = {n: (x.shape, x.dtype) for n, x in zip(names, inputs, strict=True)}
    made = model([node], given, outputs)
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", version))
    for o, kind in zip(made.graph.output, kinds, strict=True):
        o.type.tensor_type.elem_type = kind
    return made


def agrees(
    op: str, *inputs: np.ndarray, kinds: Sequence[int] = (1,), version: int = 3,
    tolerance: float = 2e-6, **attrs: Any,
) -> None:  # fmt: skip
    made = learned(op, *inputs, kinds=kinds, version=version, **attrs)
    check(made, {f"x{k}": x for k, x in enumerate(inputs)}, tolerance)


CLASSIFIED = (TensorProto.INT64, TensorProto.FLOAT)


def test_features() -> None:
    holes = X.copy()
    holes[::2, 1] = np.nan
    numbers = np.arange(12).reshape(3, 4)
    agrees("ArrayFeatureExtractor", X, np.array([[2, 0]]))
    agrees("Binarizer", X, threshold=0.25)
    agrees("Imputer", holes, imputed_value_floats=[5.0], replaced_value_float=float("nan"))
    agrees("Imputer", numbers, kinds=(7,), imputed_value_int64s=[9, 8, 7, 6],
           replaced_value_int64=5)  # fmt: skip
    agrees("Scaler", X, offset=[0.1, 0.2, 0.3, 0.4], scale=[2.0, 1.0, 0.5, 3.0])
    agrees("Scaler", X, offset=[0.5], scale=[2.0])
    agrees("OneHotEncoder", np.array([4, 1, 7, 2]), cats_int64s=[1, 2, 4], zeros=1)
    agrees("FeatureVectorizer", X, X[:, :2], inputdimensions=[4, 2])
    for norm in ("L1", "L2"):
        agrees("Normalizer", X, norm=norm)
    agrees("Normalizer", np.abs(X), norm="MAX")


def test_labels() -> None:
    numbers = np.array([[3, 1, 9], [2, 3, 4]])
    agrees("LabelEncoder", numbers, version=2, keys_int64s=[3, 1, 4],
           values_floats=[0.5, 1.5, 2.5], default_float=-7.0)  # fmt: skip
    agrees("LabelEncoder", np.array([0.5, np.nan, 2.0], F32), version=4, kinds=(7,),
           keys_floats=[float("nan"), 0.5], values_int64s=[10, 20])  # fmt: skip


def test_the_last_of_equal_keys_counts() -> None:
    keys, values = [3, 1, 3], [10, 20, 30]
    made = learned("LabelEncoder", np.array([3, 1, 5]), version=2, kinds=(7,),
                   keys_int64s=keys, values_int64s=values)  # fmt: skip
    got = smelt.compile(made)(np.array([3, 1, 5])).numpy()
    assert got.tolist() == [30, 20, -1]


LINEAR = {"coefficients": random(12).tolist(), "intercepts": [0.1, -0.2, 0.3]}
ONE = {"coefficients": random(4).tolist(), "intercepts": [0.1]}


@pytest.mark.parametrize("how", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
def test_linear_models(how: str) -> None:
    agrees("LinearRegressor", X, targets=3, post_transform=how, **LINEAR)
    agrees("LinearClassifier", X, kinds=CLASSIFIED, post_transform=how,
           classlabels_ints=[7, 8, 9], **LINEAR)  # fmt: skip
    if how in ("NONE", "LOGISTIC"):
        agrees("LinearClassifier", X, kinds=CLASSIFIED, post_transform=how,
               classlabels_ints=[7, 8], **ONE)  # fmt: skip


def test_probit_is_the_inverse_of_the_normal_integral() -> None:
    shares = np.array([[0.001], [0.2], [0.5], [0.9], [0.999]], F32)
    made = learned("LinearRegressor", shares, coefficients=[1.0], post_transform="PROBIT")
    (got,) = [smelt.compile(made)(shares).numpy()]
    want = [[-3.0902323], [-0.8416212], [0.0], [1.2815516], [3.0902323]]
    np.testing.assert_allclose(got, want, atol=2e-5)


# --------------------------------------------------------------------------------------- trees

Forest = Mapping[str, list[Any]]


def grown(seed: int, trees: int, ids: int, negative: bool = True, modes: int = 5) -> dict[str, Any]:
    """Random trees of three levels, whose leaves vote for one or two of `ids` targets."""
    rng = np.random.default_rng(seed)
    nodes: dict[str, list[Any]] = {f"nodes_{k}": [] for k in (
        "treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids",
        "missing_value_tracks_true")}  # fmt: skip
    votes: dict[str, list[Any]] = {k: [] for k in ("treeids", "nodeids", "ids", "weights")}
    names = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_NEQ"]
    for tree in range(trees):
        for n in range(15):
            leaf = n >= 7
            row = (tree, n, int(rng.integers(4)), "LEAF" if leaf else names[rng.integers(modes)],
                   float(F32(rng.normal())), 0 if leaf else 2 * n + 1, 0 if leaf else 2 * n + 2,
                   int(rng.integers(2)))  # fmt: skip
            for column, v in zip(nodes.values(), row, strict=True):
                column.append(v)
            for target in rng.permutation(ids)[: 1 + int(rng.integers(2))] if leaf else ():
                weight = float(F32(rng.normal()))
                vote = (tree, n, int(target), weight if negative else abs(weight) / 8)
                for column, v in zip(votes.values(), vote, strict=True):
                    column.append(v)
    return {**nodes, "votes": votes}


def with_votes(forest: dict[str, Any], prefix: str) -> dict[str, Any]:
    votes = forest.pop("votes")
    return {**forest, **{f"{prefix}_{k}": v for k, v in votes.items()}}


@pytest.mark.parametrize("how", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_forests_of_regressors(how: str) -> None:
    holes = X.copy()
    holes[3, :2] = np.nan
    forest = with_votes(grown(1, 5, 1, modes=4), "target")
    agrees("TreeEnsembleRegressor", holes, aggregate_function=how, n_targets=1,
           base_values=[0.5], **forest)  # fmt: skip
    many = with_votes(grown(2, 4, 3, modes=4), "target")
    agrees("TreeEnsembleRegressor", holes, aggregate_function=how, n_targets=3, **many)
    agrees("TreeEnsembleRegressor", X.astype(np.float64), aggregate_function=how, n_targets=3,
           **many)  # fmt: skip


@pytest.mark.parametrize("how", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_forests_of_classifiers(how: str) -> None:
    forest = with_votes(grown(3, 4, 3), "class")
    agrees("TreeEnsembleClassifier", X, kinds=CLASSIFIED, classlabels_int64s=[5, 3, 4],
           post_transform=how, base_values=[0.1, 0.2, -0.3], **forest)  # fmt: skip


@pytest.mark.parametrize("how", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("negative", [False, True])
def test_forests_with_weights_of_one_of_two_classes(negative: bool, how: str) -> None:
    forest = with_votes(grown(4, 4, 1, negative), "class")
    agrees("TreeEnsembleClassifier", X, kinds=CLASSIFIED, classlabels_int64s=[0, 1],
           post_transform=how, **forest)  # fmt: skip


def test_compiled_forests() -> None:
    forest = with_votes(grown(5, 6, 2), "target")
    made = learned("TreeEnsembleRegressor", X, n_targets=2, **forest)
    from_numpy = smelt.compile(made, shapes={"x0": ("n", 4)})
    one = smelt.compile(made)(X).numpy()
    np.testing.assert_allclose(from_numpy(X).numpy(), one, rtol=1e-6)
    np.testing.assert_allclose(from_numpy(X[:2]).numpy(), one[:2], rtol=1e-6)


def test_mistakes_in_trees() -> None:
    forest = with_votes(grown(1, 1, 1), "target")
    forest["nodes_truenodeids"][0] = 99
    with pytest.raises(ImportFailure, match="node 99 of tree 0 is named, and does not exist"):
        from_onnx(learned("TreeEnsembleRegressor", X, **forest))


def test_labels_that_are_texts() -> None:
    made = learned(
        "LinearClassifier", X, kinds=(8, 1), classlabels_strings=["a", "b", "c"], **LINEAR
    )
    for got, want in zip(smelt.compile(made)(X), reference(made, {"x0": X}), strict=True):
        found = got.numpy() if hasattr(got, "numpy") else got
        assert found.shape == want.shape
        if want.dtype == np.float32:
            np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)
        else:
            assert found.tolist() == want.tolist()


# ----------------------------------------------------------------------------- support vectors

KERNELS = {
    "LINEAR": [0.0, 0, 0],
    "RBF": [0.4, 0, 0],
    "POLY": [0.3, 0.5, 3],
    "SIGMOID": [0.2, 0.1, 0],
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_support_vectors(kernel: str) -> None:
    more: dict[str, Any] = {"kernel_type": kernel, "kernel_params": KERNELS[kernel]}
    agrees("SVMRegressor", X, n_supports=5, support_vectors=random(20, seed=1).tolist(),
           coefficients=random(5, seed=2).tolist(), rho=[0.3], tolerance=1e-5, **more)  # fmt: skip
    agrees("SVMClassifier", X, kinds=CLASSIFIED, classlabels_ints=[3, 5, 9],
           vectors_per_class=[2, 3, 1], support_vectors=random(24, seed=1).tolist(),
           coefficients=random(12, seed=2).tolist(), rho=[0.3, -0.1, 0.2], tolerance=1e-5,
           **more)  # fmt: skip


def test_probabilities_of_three_classes() -> None:
    # onnxruntime stops its iteration early, as libsvm does
    agrees("SVMClassifier", X, kinds=CLASSIFIED, classlabels_ints=[3, 5, 9], kernel_type="RBF",
           kernel_params=[0.4, 0.0, 0.0], vectors_per_class=[2, 3, 1],
           support_vectors=random(24, seed=1).tolist(), coefficients=random(12, seed=2).tolist(),
           rho=[0.3, -0.1, 0.2], prob_a=[-1.5, -1.0, -2.0], prob_b=[0.2, 0.0, -0.1],
           tolerance=2e-2)  # fmt: skip


def test_two_classes_of_support_vectors() -> None:
    more: dict[str, Any] = {
        "kinds": CLASSIFIED, "classlabels_ints": [3, 5], "vectors_per_class": [2, 3],
        "support_vectors": random(20, seed=1).tolist(), "kernel_type": "RBF",
        "coefficients": random(5, seed=2).tolist(), "rho": [0.1], "kernel_params": [0.4, 0, 0],
    }  # fmt: skip
    agrees("SVMClassifier", X, **more)
    # onnxruntime stops an iteration for this early, as libsvm does
    agrees("SVMClassifier", X, prob_a=[-1.5], prob_b=[0.2], tolerance=1e-2, **more)
    agrees("SVMRegressor", X, one_class=1, coefficients=random(4).tolist(), rho=[0.1],
           kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0])  # fmt: skip
