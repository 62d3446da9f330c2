"""One build for every size: variants for likely sizes, the general code for the rest."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smelt
from smelt import Size
from smelt.cli.results import arrays
from smelt.runtime import NativeExecutable, load_module
from smelt.runtime.errors import InputError
from tests.frontend.models import model, node, random, reference
from tests.models import conv_nets, transformers
from tests.models.compare import agree, check, run
from tests.models.net import Feeds
from tests.models.test_networks import image, masked

F32 = np.float32


def build(
    m: onnx.ModelProto, cache: str, shapes: Any, threads: int = 2, opt_level: int = 3
) -> NativeExecutable:
    options = smelt.Options(threads=threads, cache_dir=cache, opt_level=opt_level)
    exe = smelt.compile(m, shapes=shapes, options=options)
    assert isinstance(exe, NativeExecutable)
    return exe


def symbols_of(exe: NativeExecutable, variant: dict[str, int] | None = None) -> list[str]:
    """The kernels of the general code or of a variant."""
    return [k["symbol"] for k in exe.metadata["kernels"] if k.get("variant") == variant]


SHAPES = {"input": (Size("n", max=16, likely=(1, 8)), 3, 40, 40)}


@pytest.fixture(scope="module", name="resnet")
def fixture_resnet(cache: str) -> NativeExecutable:
    return build(conv_nets.resnet18_small("batch"), cache, SHAPES)


def test_a_variant_is_the_static_build(resnet: NativeExecutable, cache: str) -> None:
    """The same kernels: its speed is that of the static build."""
    assert resnet.metadata["variants"] == [{"n": 1}, {"n": 8}]
    for n in (1, 8):
        static = build(conv_nets.resnet18_small(n), cache, None)
        assert symbols_of(resnet, {"n": n}) == symbols_of(static)
        x = image("input", 40)(n)
        for a, b in zip(run(resnet, x), run(static, x), strict=True):
            np.testing.assert_array_equal(a, b)


def test_the_general_code_agrees_at_every_size(resnet: NativeExecutable) -> None:
    m = conv_nets.resnet18_small("batch")
    for n in (2, 3, 7, 16):
        check(resnet, m, image("input", 40)(n))


def test_the_sizes_choose_what_runs(resnet: NativeExecutable) -> None:
    """The profile shows one kernel of each launch, of the variant that the sizes ask for."""
    for n, variant in ((1, {"n": 1}), (8, {"n": 8}), (5, None)):
        report = resnet.profile(*image("input", 40)(n).values(), repeat=1)
        probe = resnet.probe()
        resnet.bind(list(image("input", 40)(n).values()), probe=probe)()
        ran = [k for k, calls in zip(resnet.metadata["kernels"], probe.calls, strict=True) if calls]
        assert {str(k.get("variant")) for k in ran} == {str(variant)}
        assert [k.name for k in report.kernels] == [k["name"] for k in ran]


def test_constants_stand_in_memory_once(cache: str) -> None:
    """An image has as many pixels in any batch: all variants pack the weights alike."""
    exe = build(conv_nets.resnet18_small("batch"), cache, SHAPES, opt_level=2)
    static = build(conv_nets.resnet18_small(1), cache, None, opt_level=2)
    assert exe.memory.weights < 1.15 * static.memory.weights


def test_constants_stand_in_memory_once_for_each_algorithm(cache: str) -> None:
    """One image may be too little work for filters that are transformed; the general code and the
    variant of many images share them. For one processor: what is chosen depends on it."""

    def constants(n: int | str, shapes: Any = None) -> int:
        options = smelt.Options(threads=2, cache_dir=cache)
        model = conv_nets.resnet18_small(n)
        made = smelt.compile_artifact(model, "llvm -mcpu=znver3", shapes=shapes, options=options)
        return int(made.weights.nbytes)

    one, many = constants(1), constants(8)
    assert constants("batch", SHAPES) < 1.15 * max(many, one + many * (one != many))


def test_a_library_holds_the_variants(resnet: NativeExecutable, tmp_path: Path) -> None:
    path = tmp_path / "resnet.so"
    resnet.export_library(path)
    loaded = load_module(path)
    assert loaded.metadata["variants"] == resnet.metadata["variants"]
    for n in (1, 5, 8):
        x = image("input", 40)(n)
        for a, b in zip(run(loaded, x), run(resnet, x), strict=True):
            np.testing.assert_array_equal(a, b)
    with pytest.raises(InputError, match="n is out of range: 0 to 16 needed"):
        loaded(**image("input", 40)(17))


def test_calls_of_many_sizes_at_once(resnet: NativeExecutable) -> None:
    """Several threads, each with sizes of its own; plans are made once and are bounded."""
    feeds = {n: image("input", 40)(n) for n in (1, 2, 3, 8)}
    expected = {n: run(resnet, x) for n, x in feeds.items()}
    failures: list[BaseException] = []

    def work(first: int) -> None:
        try:
            for k in range(8):
                n = list(feeds)[(first + k) % len(feeds)]
                for a, b in zip(run(resnet, feeds[n]), expected[n], strict=True):
                    np.testing.assert_array_equal(a, b)
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


@pytest.fixture(scope="module", name="bert")
def fixture_bert(cache: str) -> NativeExecutable:
    batch, tokens = Size("n", max=6), Size("s", max=40, likely=(12,))
    return build(transformers.bert("n", "tokens"), cache, {"input_ids": (batch, tokens)})


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 6), st.integers(1, 40))
def test_a_transformer_at_any_size(bert: NativeExecutable, n: int, tokens: int) -> None:
    check(bert, transformers.bert("n", "tokens"), masked(tokens)(n))


def test_a_variant_of_some_sizes_leaves_the_others_open(bert: NativeExecutable) -> None:
    assert bert.metadata["variants"] == [{"s": 12}]
    assert [i.shape for i in bert.inputs] == [("n", "s")] * 2
    for n in (1, 4):
        check(bert, transformers.bert("n", "tokens"), masked(12)(n))


# ------------------------------------------------------------------------------- operators, sizes

OPERATORS: dict[str, tuple[Any, list[Any]]] = {
    "softmax": ([node("Softmax", ["x"], axis=-1)], ["a", "b", 8]),
    "softmax over the size": ([node("Softmax", ["x"], axis=1)], ["a", "b", 8]),
    "pool": (
        [node("MaxPool", ["x"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])],
        ["a", 5, "b", 9],
    ),
    "mean": ([node("ReduceMean", ["x", "axes"], keepdims=0)], ["a", "b", 3]),
    "turn": ([node("Transpose", ["x"], perm=[1, 0, 2])], ["a", "b", 5]),
    "join": ([node("Concat", ["x", "x"], axis=1)], ["a", "b", 3]),
    "products": (
        [node("Transpose", ["x"], ["t"], perm=[0, 2, 1]), node("MatMul", ["x", "t"])],
        ["a", "b", 7],
    ),
}
CONSTANTS = {"mean": {"axes": np.array([1])}}


def feeds_of(name: str, a: int, b: int) -> Feeds:
    return {"x": random(*[{"a": a, "b": b}.get(e, e) for e in OPERATORS[name][1]])}


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_on_open_sizes(name: str, cache: str) -> None:
    nodes, shape = OPERATORS[name]
    m = model(nodes, {"x": (shape, F32)}, constants=CONSTANTS.get(name))
    likely = [Size(e, likely=(2,)) if e == "a" else e for e in shape]
    exe = build(m, cache, {"x": tuple(likely)})
    for a, b in ((1, 1), (2, 3), (3, 17), (2, 33), (9, 16)):
        feeds = feeds_of(name, a, b)
        agree(run(exe, feeds), reference(m, feeds))


# ---------------------------------------------------------------------------------------- nothing


def attention_with_a_cache() -> tuple[onnx.ModelProto, Any]:
    nodes = [
        node("MatMul", ["x", "w"], ["q"]),
        node("Concat", ["past", "q"], ["k"], axis=1),
        node("Transpose", ["k"], ["t"], perm=[0, 2, 1]),
        node("MatMul", ["q", "t"], ["s"]),
        node("Softmax", ["s"], ["p"], axis=-1),
        node("MatMul", ["p", "k"], ["o"]),
        node("Relu", ["past"], ["r"]),
    ]
    w = random(8, 8)
    shapes = {"x": (["b", "seq", 8], F32), "past": (["b", "past_len", 8], F32)}

    def expected(x: Any, past: Any) -> list[Any]:
        q = x @ w
        k = np.concatenate([past, q], 1)
        s = q @ k.transpose(0, 2, 1)
        p = np.exp(s - s.max(-1, keepdims=True))
        return [p / p.sum(-1, keepdims=True) @ k, k, np.maximum(past, 0)]

    return model(nodes, shapes, ["o", "k", "r"], {"w": w}), expected


def test_a_cache_of_nothing(cache: str) -> None:
    """The first step of a decoder: its keys are past and present ones, some of which exist."""
    m, expected = attention_with_a_cache()
    exe = build(m, cache, None)
    for b, seq, past in ((1, 1, 0), (2, 3, 0), (2, 3, 5), (1, 1, 9)):
        x, p = random(b, seq, 8), random(b, past, 8)
        agree(list(arrays(exe(x, p))), expected(x, p))


def test_a_batch_of_nothing(cache: str) -> None:
    m, _ = attention_with_a_cache()
    exe = build(m, cache, {"x": (Size("b", max=9), "seq", 8)})
    found = arrays(exe(np.zeros((0, 3, 8), F32), np.zeros((0, 2, 8), F32)))
    assert [a.shape for a in found] == [(0, 3, 8), (0, 5, 8), (0, 2, 8)]
