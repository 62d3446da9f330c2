"""What every user of the classic stack learns the hard way, as messages."""

import copy
import importlib
import pickle

import pytest
import tvm
from tvm import relay

from .models import WEIGHTS, network

FOREIGN = ("avx512fp16", "amx-tile", "avxvnniint8", "xop", "fma4")
"""Features that no one processor has together."""


def refused(run, *texts):
    """Whether one SmeltError says all of some texts."""
    with pytest.raises(tvm.TVMError) as caught:
        run()
    for text in texts:
        assert text in str(caught.value)


def lacking():
    """A feature that this machine does not have."""
    if tvm.runtime.cpu_features() and "64bit" in tvm.runtime.cpu_features():
        return next(f for f in FOREIGN if f not in tvm.runtime.cpu_features())
    pytest.skip("the features are those of x86-64")


def test_code_for_another_cpu_is_refused_by_name():
    feature = lacking()
    refused(
        lambda: relay.build(network(), f"llvm -mattr=+{feature}", params=WEIGHTS),
        f"compiled for a CPU with {feature}, which this CPU lacks",
        f"-mattr=+{feature}",
    )


def test_a_library_for_another_cpu_is_refused_by_name(tmp_path):
    feature, path = lacking(), tmp_path / "net.so"
    lib = relay.build(network(), "llvm", params=WEIGHTS)
    lib.lib.metadata["features"] = [feature]
    lib.export_library(path)
    refused(
        lambda: tvm.runtime.load_module(path),
        f"compiled for a CPU with {feature}, which this CPU lacks",
    )


def test_an_unknown_cpu_or_feature_is_no_silent_default():
    refused(lambda: relay.build(network(), "llvm -mcpu=skylak"), "unknown CPU 'skylak'")
    refused(lambda: relay.build(network(), "llvm -mattr=+avx999"), "'+avx999'", "nearest: avx")


def test_only_export_library_deploys(tmp_path):
    lib = relay.build(network(), "llvm", params=WEIGHTS)
    vm = relay.vm.compile(network(), "llvm", params=WEIGHTS)
    for run in (
        lambda: pickle.dumps(lib),
        lambda: pickle.dumps(lib.lib),
        lambda: pickle.dumps(vm),
        lambda: copy.deepcopy(lib),
        lambda: lib.save("net.o"),
        lambda: lib.lib.save("net.o"),
    ):
        refused(run, "export_library(path) writes it to a file")


def test_other_machines_get_libraries_and_do_not_run_here():
    lib = relay.build(network(), "llvm -mtriple=aarch64-linux-gnu", params=WEIGHTS)
    for run in (lambda: lib["default"](tvm.cpu(0)), lambda: lib.lib):
        refused(
            run,
            "code for aarch64-linux-gnu cannot run on this machine",
            'lib.export_library("model.tar", cc=...)',
        )


@pytest.mark.parametrize("name", ["relay.collage"])
def test_what_is_not_there_yet(name):
    refused(lambda: importlib.import_module(f"tvm.{name}"), "is not there yet")


def test_memory_planning_belongs_to_aot():
    config = {"tir.usmp.enable": True, "tir.usmp.algorithm": "greedy_by_size"}
    with tvm.transform.PassContext(opt_level=3, config=config):
        refused(
            lambda: relay.build(network(), "llvm", params=WEIGHTS),
            "config 'tir.usmp.enable'",
            'executor=relay.backend.Executor("aot")',
        )
        relay.build(network(), "llvm", params=WEIGHTS, executor=relay.backend.Executor("aot"))
    with tvm.transform.PassContext(config={"tir.usmp.enable": False}):
        relay.build(network(), "llvm", params=WEIGHTS)
    for algorithm in ("greedy_by_conflicts", "hill_climb"):
        config["tir.usmp.algorithm"] = algorithm
        with tvm.transform.PassContext(opt_level=3, config=config):
            relay.build(network(), "llvm", params=WEIGHTS, executor=relay.backend.Executor("aot"))
    refused(
        lambda: tvm.transform.PassContext(config={"tir.usmp.algorithm": "first_fit"}),
        "legal: one of greedy_by_size",
    )


@pytest.mark.parametrize("name", ["tensorrt", "cudnn", "arm_compute_lib"])
def test_other_compilers_are_not_there_yet(name):
    with pytest.raises(ImportError, match=f"{name} is not there yet"):
        exec(f"from tvm.relay.op.contrib import {name}")


@pytest.mark.parametrize("name", ["from_keras", "from_tensorflow"])
def test_other_importers_name_the_way_through_onnx(name):
    refused(lambda: getattr(relay.frontend, name), f"{name} is not there yet", "tf2onnx")


@pytest.mark.parametrize("name", ["register", "register_compute", "register_strategy"])
def test_operators_are_made_by_smelt_op(name):
    refused(lambda: getattr(relay.op, name), "an operator is defined by smelt.op")
