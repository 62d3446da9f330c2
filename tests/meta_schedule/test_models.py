"""Models are tuned, and built with what was found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt import meta_schedule as ms
from smelt import relax, relay
from smelt.contrib import graph_executor
from smelt.ir.errors import CompileError
from smelt.meta_schedule.database import KernelTunings
from smelt.rpc import RPCError
from smelt.search.runner import AnalyticRunner
from smelt.tir.schedule import Schedule

from .programs import NATIVE

WEIGHT = np.random.default_rng(0).random((16, 32), "float32")
PARAMS = {"w": WEIGHT}
X = np.random.default_rng(1).random((4, 32), "float32")
EXPECTED = np.maximum(X @ WEIGHT.T, 0)


def network() -> Any:
    """A dense layer."""
    x, w = relay.var("x", shape=(4, 32)), relay.var("w", shape=(16, 32))
    return smelt.IRModule.from_expr(relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w))))


def result(lib: Any) -> Any:
    """What a library computes."""
    m = graph_executor.GraphModule(lib["default"](smelt.cpu(0)))
    m.run(x=X)
    return m.get_output(0).numpy()


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The traces that kernels were compiled with."""
    found: list[str] = []
    own = KernelTunings.tuned

    def tuned(self: KernelTunings, spec: Any) -> Any:
        made = own(self, spec)
        found.append("" if made is None else made.trace)
        return made

    monkeypatch.setattr(KernelTunings, "tuned", tuned)
    return found


def loops(sch: Schedule) -> None:
    """A schedule like no rule's: the first loop of the first block is split by a sample."""
    block = sch.get_child_blocks("root")[0]
    loop = sch.get_loops(block)[0]
    sch.annotate(sch.split(loop, sch.sample_perfect_tile(loop, 2))[0], "mine", 1)


@pytest.mark.parametrize("backend", ["graph", "vm"])
def test_a_relay_model_is_built_with_what_was_found(backend: str, used: list[str]) -> None:
    mod = network()
    database = ms.tune_relay(mod, PARAMS, NATIVE, max_trials_global=4, database="memory",
                             runner=AnalyticRunner(), space=loops, seed=2)  # fmt: skip
    assert len(database) >= 3
    lib = ms.compile_relay(database, mod, NATIVE, PARAMS, backend=backend)
    assert used
    assert all('"mine"' in t for t in used)
    if backend == "graph":
        np.testing.assert_allclose(result(lib), EXPECTED, rtol=1e-4)


def test_kernels_are_tasks() -> None:
    (task,) = ms.relay_integration.extract_tasks(network(), NATIVE, PARAMS)
    assert task.weight == 1
    assert [*task.mod.functions] == ["main"]
    contexts, weights = ms.relay_integration.extracted_tasks_to_tune_contexts([task], seed=3)
    assert weights == [1.0]
    assert contexts[0].spec is task.spec
    assert len(contexts[0].generate_design_space()) >= 1


def test_the_older_forms_and_the_name_of_articles(tmp_path: Path) -> None:
    how = ms.TuneConfig(strategy="evolutionary", num_trials_per_iter=32, max_trials_per_task=3)
    database = ms.tune_tvm(mod=network(), target=NATIVE, config=how, params=PARAMS,
                           runner=AnalyticRunner(), work_dir=tmp_path / "tuned")  # fmt: skip
    assert isinstance(database, ms.database.JSONDatabase)
    assert len(database) >= 3
    lib = ms.tune_relay(mod=network(), target=NATIVE, config=ms.TuneConfig(max_trials_global=2),
                        work_dir=tmp_path / "tuned", params=PARAMS,
                        runner=AnalyticRunner())  # fmt: skip
    np.testing.assert_allclose(result(lib), EXPECTED, rtol=1e-4)
    remote = ms.runner.RPCRunner(
        rpc_config=ms.runner.RPCConfig(tracker_host="127.0.0.1", tracker_port=1,
                                       tracker_key="rpi4", session_timeout_sec=60),
        max_workers=1,
    )  # fmt: skip
    with pytest.raises(RPCError, match=r"the tracker at 127\.0\.0\.1:1 cannot be reached"):
        ms.tune_tvm(mod=network(), target=NATIVE, config=how, runner=remote, work_dir=tmp_path)
    with pytest.raises(CompileError, match="params is a target, as in the older order"):
        ms.tune_relay(network(), NATIVE)
    with pytest.raises(CompileError, match="max_trials_global is 0; legal: from 1 on"):
        ms.TuneConfig(max_trials_global=0)


def test_a_relax_model_is_built_with_what_was_found(used: list[str]) -> None:
    mod = network()
    database = ms.tune_relax(mod, PARAMS, NATIVE, max_trials_global=3, database="memory",
                             runner=AnalyticRunner(), space=loops, seed=2)  # fmt: skip
    exe = ms.compile_relax(database, mod, NATIVE, PARAMS)
    assert used
    assert all('"mine"' in t for t in used)
    vm = relax.VirtualMachine(exe, smelt.cpu(0))
    np.testing.assert_allclose(vm["main"](smelt.nd.array(X)).numpy(), EXPECTED, rtol=1e-4)


def test_a_function_schedules_the_kernels_of_a_model(used: list[str]) -> None:
    def first(sch: Schedule) -> bool:
        loops(sch)
        return True

    lib = ms.compile_relay(ms.Database.create(first), network(), NATIVE, PARAMS)
    assert all('"mine"' in t for t in used)
    np.testing.assert_allclose(result(lib), EXPECTED, rtol=1e-4)
