"""IF and WHILE, whose branches and bodies are other subgraphs, beside TFLite's kernels."""

from __future__ import annotations

import numpy as np
import pytest

import smelt
from smelt.frontend.tflite import from_tflite
from smelt.ir.errors import ImportFailure
from tests.tflite.build import Oracle, Part, Spec, Step, const, model
from tests.tflite.check import differences

X = np.array([1.0, -2.0, 3.0], np.float32)


def branch(op: str, kind: str) -> Part:
    """x op 2"""
    tensors = [Spec((3,)), const([2.0], "float32"), Spec((3,))]
    return tensors, [Step(op, [0, 1], [2], {}, kind)], [0], [2]


def choice(then: int = 1, other: int = 2) -> bytes:
    step = Step("IF", [0, 1], [2], {"ThenSubgraphIndex": then, "ElseSubgraphIndex": other},
                "IfOptions")  # fmt: skip
    return model([Spec((1,), "bool"), Spec((3,)), Spec((3,))], [step], [0, 1], [2],
                 others=[branch("ADD", "AddOptions"), branch("MUL", "MulOptions")])  # fmt: skip


@pytest.mark.parametrize("condition", [True, False])
def test_if(condition: bool) -> None:
    given = np.array([condition]), X
    found = smelt.compile(choice())(*given)
    np.testing.assert_array_equal(np.asarray(found), Oracle(choice())(*given)[0])


def test_if_behind_a_layer_that_keeps_its_state() -> None:
    r = np.random.default_rng(0)

    def weights(*shape: int) -> Spec:
        return const(r.normal(0, 0.5, shape), "float32")

    tensors = [
        Spec((1,), "bool"), Spec((1, 3)), weights(3, 3), weights(3, 3), weights(3),
        Spec((1, 3), variable=True), Spec((1, 3)), Spec((3,)), const([3], "int32"), Spec((3,)),
    ]  # fmt: skip
    steps = [
        Step("RNN", [1, 2, 3, 4, 5], [6], {"FusedActivationFunction": 4}, "RNNOptions"),
        Step("RESHAPE", [6, 8], [7]),
        Step("IF", [0, 7], [9], {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 2}, "IfOptions"),
    ]
    content = model(tensors, steps, [0, 1], [9],
                    others=[branch("ADD", "AddOptions"), branch("MUL", "MulOptions")])  # fmt: skip
    oracle, exe = Oracle(content), smelt.compile(content)
    for k in range(4):
        given = np.array([k % 2 == 0]), r.normal(size=(1, 3)).astype("float32")
        found = exe(*given)
        found = found[0] if isinstance(found, tuple | list) else found
        assert not differences(np.asarray(found), oracle(*given)[0])


def loop() -> bytes:
    """Doubled until a number is reached."""
    below: Part = (
        [Spec((1,), "int32"), Spec((3,)), const([5], "int32"), Spec((1,), "bool")],
        [Step("LESS", [0, 2], [3], {}, "LessOptions")], [0, 1], [3],
    )  # fmt: skip
    double: Part = (
        [Spec((1,), "int32"), Spec((3,)), const([1], "int32"), Spec((1,), "int32"), Spec((3,))],
        [Step("ADD", [0, 2], [3], {}, "AddOptions"), Step("ADD", [1, 1], [4], {}, "AddOptions")],
        [0, 1], [3, 4],
    )  # fmt: skip
    tensors = [Spec((1,), "int32"), Spec((3,)), Spec((1,), "int32"), Spec((3,))]
    step = Step("WHILE", [0, 1], [2, 3], {"CondSubgraphIndex": 1, "BodySubgraphIndex": 2},
                "WhileOptions")  # fmt: skip
    return model(tensors, [step], [0, 1], [2, 3], others=[below, double])


@pytest.mark.parametrize("start", [0, 3, 9])
def test_while(start: int) -> None:
    given = np.array([start], np.int32), X
    found = smelt.compile(loop())(*given)
    for a, b in zip(found, Oracle(loop())(*given), strict=True):
        np.testing.assert_array_equal(np.asarray(a), b)


def test_an_operand_that_is_missing() -> None:
    step = Step("IF", [0, -1], [2], {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 1}, "IfOptions")
    tensors = [Spec((1,), "bool"), Spec((3,)), Spec((3,))]
    with pytest.raises(ImportFailure, match="operand 0 of subgraph 1 is missing"):
        from_tflite(model(tensors, [step], [0], [2], others=[branch("ADD", "AddOptions")]))


def test_a_subgraph_that_is_not_there() -> None:
    with pytest.raises(ImportFailure) as e:
        from_tflite(choice(other=7))
    assert str(e.value) == (
        "<bytes>: node '0' (IF, which makes 't2'): subgraph 7; there are 3, and the first one is "
        "the model"
    )


def test_a_subgraph_that_runs_itself() -> None:
    step = Step("WHILE", [0], [1], {"CondSubgraphIndex": 1, "BodySubgraphIndex": 1},
                "WhileOptions")  # fmt: skip
    part: Part = ([Spec((1,)), Spec((1,))], [step], [0], [1])
    with pytest.raises(ImportFailure) as e:
        from_tflite(model(*part, others=[part]))
    assert str(e.value) == "<bytes>: subgraph 1 runs itself"
