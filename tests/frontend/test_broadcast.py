"""Sizes known only at run time broadcast: equal, or one of them 1, as onnxruntime has it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

import smelt
from smelt.frontend.onnx import from_onnx
from smelt.relax.interpret import interpret
from smelt.relax.verify import verify
from smelt.runtime.errors import InputError

from .models import Arrays, model, node, reference

F32, I64, BOOL = np.float32, np.int64, np.bool_
K = 5
"""What sizes are that are not 1."""

Inputs = dict[str, tuple[Sequence[Any], Any]]
AB: Inputs = {"a": (["n", 3], F32), "b": (["m", 3], F32)}
ABC: Inputs = {**AB, "c": (["k", 3], F32)}

NODES: dict[str, tuple[list[NodeProto], Inputs, Arrays]] = {}


def case(name: str, nodes: Sequence[NodeProto], inputs: Inputs, **constants: Any) -> None:
    NODES[name] = list(nodes), inputs, {n: np.asarray(c) for n, c in constants.items()}


for _op in ("Add", "Sub", "Mul", "Div", "Pow", "PRelu", "Less", "Equal", "GreaterOrEqual"):
    case(_op, [node(_op, "ab")], AB)
for _op in ("Max", "Min", "Sum", "Mean"):
    case(_op, [node(_op, "abc")], ABC)
case("Mod", [node("Mod", "ab")], {n: (s, I64) for n, (s, _) in AB.items()})
case("BitShift", [node("BitShift", "ab", direction="LEFT")],
     {n: (s, np.uint32) for n, (s, _) in AB.items()})  # fmt: skip
case("And", [node("And", "ab")], {n: (s, BOOL) for n, (s, _) in AB.items()})
case("Where", [node("Where", "cab")], {"c": (["k", 1], BOOL), **AB})
case("both dimensions", [node("Add", "ab")], {"a": (["n", "m"], F32), "b": (["m", "n"], F32)})
case("ranks", [node("Add", "ab")], {"a": (["n", 2, "m"], F32), "b": (["k"], F32)})
case("a number", [node("Add", "ab")], {"a": (["n", 3], F32), "b": ([K, 3], F32)})
case("expressions", [node("Concat", "ab", "h", axis=0), node("Add", "hc")],
     {**AB, "c": (["k", 3], F32)})  # fmt: skip
case("a chain", [node("Add", "ab", "d"), node("Mul", "dc", "e"), node("Sub", "ea", "f"),
                 node("Relu", "f")], ABC)  # fmt: skip
case("a matrix product behind", [node("Add", "ab", "d"), node("MatMul", "dw", "e"),
     node("Add", "ec")], {**AB, "c": (["k", 4], F32)}, w=np.eye(3, 4, dtype=F32))  # fmt: skip
case("a sum behind", [node("Add", "ab", "d"), node("ReduceSum", ["d"], keepdims=0)], AB)
case("softmax behind", [node("Add", "ab", "d"), node("Softmax", ["d"], axis=0)], AB)
case("reshape behind", [node("Add", "ab", "d"), node("Reshape", "ds")], AB, s=[-1])
case("transpose and slice", [node("Add", "ab", "d"), node("Transpose", "d", "e"),
     node("Slice", ["e", "zero", "one", "one"])], AB, zero=[0], one=[1])  # fmt: skip
case("MatMul", [node("MatMul", "ab")], {"a": (["n", 2, 3], F32), "b": (["m", 3, 4], F32)})
case("MatMul, two dimensions", [node("MatMul", "ab")],
     {"a": (["n", "m", 2, 3], F32), "b": (["k", 1, 3, 4], F32)})  # fmt: skip
case("Gemm", [node("Gemm", "abc")], {"a": ([K, 3], F32), "b": ([3, 4], F32), "c": (["n", 4], F32)})
case("Expand", [node("Shape", "b", "s"), node("Expand", "as")], AB)
case("Expand to a number", [node("Expand", "as")], {"a": (["n", 3], F32)}, s=[K, 3])
case("Expand in rank", [node("Shape", "b", "s"), node("Expand", "as")],
     {"a": (["n", 1], F32), "b": (["k", "m", 3], F32)})  # fmt: skip
case("Concat", [node("Add", "ab", "d"), node("Concat", "da", axis=1)],
     {"a": ([K, 3], F32), "b": (["m", 3], F32)})  # fmt: skip
case("Einsum", [node("Einsum", "ab", equation="...ij,...jk->...ik")],
     {"a": (["n", 2, 3], F32), "b": (["m", 3, 4], F32)})  # fmt: skip
case("Einsum, summed", [node("Einsum", "ab", equation="bij,bjk->bik")],
     {"a": (["n", 2, "m"], F32), "b": (["k", "j", 4], F32)})  # fmt: skip
case("Einsum, of three", [node("Einsum", "abc", equation="bi,bi,b->i")],
     {"a": (["n", 2], F32), "b": (["m", 2], F32), "c": (["k"], F32)})  # fmt: skip
case("Gather", [node("Add", "ab", "d"), node("Gather", "di", axis=0)],
     {**AB, "i": (["k"], I64)})  # fmt: skip
case("GatherElements", [node("GatherElements", "ai", axis=1)],
     {"a": (["n", 3], F32), "i": (["m", "k"], I64)})  # fmt: skip
case("ScatterElements", [node("ScatterElements", "aib", axis=0)],
     {"a": (["n", 3], F32), "i": (["m", "k"], I64), "b": (["m", "k"], F32)})  # fmt: skip
case("GatherND", [node("GatherND", "ai")],
     {"a": (["n", 3], F32), "i": (["m", 2, 1], I64)})  # fmt: skip
case("ScatterND", [node("ScatterND", "aib")],
     {"a": (["n", 3], F32), "i": (["m", 1], I64), "b": (["k", 3], F32)})  # fmt: skip
case("TopK", [node("TopK", "ak", ("y", "z"), axis=0)], {"a": (["n", "m"], F32)}, k=[3])
case("LayerNormalization", [node("LayerNormalization", "ac")],
     {"a": ([2, K], F32), "c": (["n"], F32)})  # fmt: skip
case("Conv", [node("Add", "ab", "d"), node("Conv", "dw", pads=[1, 1, 1, 1])],
     {"a": (["n", 2, 6, 6], F32), "b": (["m", 2, 6, 6], F32)},
     w=np.ones((4, 2, 3, 3), F32))  # fmt: skip
case("Conv before", [node("Conv", "aw", "d", pads=[1, 1, 1, 1]), node("Relu", "d", "e"),
     node("Add", "eb")], {"a": (["n", 2, "h", 6], F32), "b": (["m", 4, "k", 6], F32)},
     w=np.ones((4, 2, 3, 3), F32))  # fmt: skip
case("two results", [node("Add", "ab", "d"), node("Split", "d", ("y", "e"), axis=1, num_outputs=2)],
     {"a": (["n", 4], F32), "b": (["m", 4], F32)})  # fmt: skip


def arrays(inputs: Inputs, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Any]:
    """Random inputs of these sizes."""
    random = np.random.default_rng(seed)
    found: dict[str, Any] = {}
    for name, (shape, kind) in inputs.items():
        dims = [sizes.get(e, e) for e in shape]
        low, high = (-1, 1) if name == "i" else (1, 9) if kind == I64 else (0, 2)
        whole = random.integers(low, high, dims)
        found[name] = np.asarray(random.random(dims) + 0.5 if kind == F32 else whole, kind)
    return found


def combinations(inputs: Inputs) -> list[dict[str, int]]:
    names = sorted({e for shape, _ in inputs.values() for e in shape if isinstance(e, str)})
    return [dict(zip(names, v, strict=True)) for v in itertools.product((1, K), repeat=len(names))]


def legal(m: Any, given: Arrays) -> list[Any] | None:
    """What onnxruntime gives, or None where it refuses the shapes."""
    try:
        return reference(m, given)
    except (Fail, InvalidArgument, RuntimeException):
        return None


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", NODES)
def test_every_size_may_be_one(name: str, threads: int) -> None:
    nodes, inputs, constants = NODES[name]
    m = model(nodes, inputs, ["y"], constants)
    exe = smelt.compile(m, options=smelt.Options(threads=threads, verify=2))
    graph = from_onnx(m)
    verify(graph)
    run = 0
    for sizes in combinations(inputs):
        given = arrays(inputs, sizes)
        want = legal(m, given)
        if want is None:
            with pytest.raises(InputError):
                exe(**given)
            continue
        run += 1
        got = exe(**given).numpy()
        assert got.shape == want[0].shape, sizes
        np.testing.assert_allclose(got, want[0], rtol=2e-5, atol=2e-6, err_msg=str(sizes))
        (own,) = interpret(graph["main"], *[given[p.name] for p in graph["main"].params])
        np.testing.assert_allclose(own, want[0], rtol=2e-5, atol=2e-6, err_msg=str(sizes))
    assert run >= 2


def test_sizes_that_meet_in_a_shape_only_are_checked_where_they_are_used() -> None:
    nodes = [node("Add", "ab", "d"), node("Shape", "d", "s"),
             node("ConstantOfShape", "s", "z"), node("Add", "za")]  # fmt: skip
    exe = smelt.compile(model(nodes, AB, ["y"]))
    for sizes in combinations(AB):
        given = arrays(AB, sizes)
        want = given["a"] + 0 * given["b"]
        np.testing.assert_array_equal(exe(**given).numpy(), want)
    with pytest.raises(InputError, match=r"needs .* or one of them 1, but these are 9 and 2"):
        exe(**arrays(AB, {"n": 2, "m": 9}))
