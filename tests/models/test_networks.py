"""Small versions of the known architectures against onnxruntime."""

from __future__ import annotations

import platform
from collections.abc import Callable

import numpy as np
import onnx
import pytest

import smelt
from smelt.cli.results import largest_error
from smelt.frontend.source import import_model
from smelt.runtime import Executable
from tests.frontend.models import reference
from tests.models import conv_nets, transformers
from tests.models.compare import TOLERANCE, check, compiled, permuted, run
from tests.models.net import Dim, Feeds, floats, merged, words

Build = Callable[[Dim], onnx.ModelProto]


def image(name: str, side: int) -> Callable[[int], Feeds]:
    return lambda n: floats(name, n, 3, side, side)


def masked(tokens: int) -> Callable[[int], Feeds]:
    def feeds(n: int) -> Feeds:
        mask = np.arange(tokens)[None, :] < 3 + np.arange(n)[:, None] % 9
        ids = words("input_ids", transformers.VOCABULARY, n, tokens)
        return merged(ids, {"attention_mask": mask.astype(np.int64)})

    return feeds


def ids(n: int) -> Feeds:
    return words("input_ids", transformers.VOCABULARY, n, 9)


NETWORKS: dict[str, tuple[Build, Callable[[int], Feeds]]] = {
    "resnet18": (conv_nets.resnet18_small, image("input", 40)),
    "bottleneck": (conv_nets.bottleneck, image("x", 26)),
    "mobilenet": (conv_nets.mobilenet, image("x", 33)),
    "squeezenet": (conv_nets.squeezenet, image("x", 37)),
    "dscnn": (conv_nets.dscnn, lambda n: floats("x", n, 1, 49, 10)),
    "inception": (conv_nets.inception, image("x", 19)),
    "densenet": (conv_nets.densenet, image("x", 18)),
    "shufflenet": (conv_nets.shufflenet, image("x", 14)),
    "alexnet": (conv_nets.alexnet, image("x", 35)),
    "mlp": (conv_nets.mlp, lambda n: floats("x", n, 196)),
    "vit": (transformers.vit, image("x", 24)),
    "bert": (transformers.bert_symbolic, masked(12)),
    "gpt2": (transformers.gpt2, ids),
    "llama": (transformers.llama, ids),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_agrees_with_onnxruntime(name: str, threads: int, cache: str) -> None:
    build, feeds = NETWORKS[name]
    model = build(2)
    exe = compiled(model, cache, threads)
    check(exe, model, feeds(2))


@pytest.mark.parametrize("name", NETWORKS)
def test_a_symbolic_batch_is_compiled_once(name: str, cache: str) -> None:
    build, feeds = NETWORKS[name]
    model = build("n")
    exe = compiled(model, cache)
    for n in (1, 3, 16):
        check(exe, model, feeds(n))


def test_a_symbolic_sequence_is_compiled_once(cache: str) -> None:
    model = transformers.bert("n", "tokens")
    exe = compiled(model, cache)
    assert [i.shape for i in exe.inputs] == [("n", "tokens")] * 2
    for n, tokens in ((1, 1), (2, 7), (3, 33), (5, 16)):
        check(exe, model, masked(tokens)(n))


@pytest.mark.parametrize("name", NETWORKS)
def test_exchanged_channels_are_noticed(name: str, cache: str) -> None:
    build, feeds = NETWORKS[name]
    model = build(2)
    exe: Executable = compiled(model, cache, 2)
    error = largest_error(run(exe, feeds(2)), reference(permuted(model), feeds(2)))
    assert error > 10 * TOLERANCE


@pytest.mark.parametrize("name", NETWORKS)
def test_every_step_of_the_graph_verifies(name: str) -> None:
    for batch in (2, "n"):
        mod = import_model(NETWORKS[name][0](batch))
        smelt.optimize(mod, smelt.Options(verify=2))


@pytest.mark.parametrize("name", ["resnet18", "mobilenet", "densenet", "bert", "llama"])
@pytest.mark.parametrize("level", [0, 1, 2])
def test_lower_levels_of_optimisation(name: str, level: int, cache: str) -> None:
    build, feeds = NETWORKS[name]
    model = build("n")
    exe = smelt.compile(model, options=smelt.Options(cache_dir=cache, opt_level=level))
    check(exe, model, feeds(3))


@pytest.mark.parametrize("name", ["mobilenet", "inception", "gpt2"])
@pytest.mark.skipif(platform.machine() != "x86_64", reason="targets of x86-64")
def test_other_cpus(name: str, cache: str) -> None:
    build, feeds = NETWORKS[name]
    for cpu in ("x86-64", "x86-64-v3"):
        model = build(2)
        check(compiled(model, cache, target=f"llvm -mcpu={cpu}"), model, feeds(2))
