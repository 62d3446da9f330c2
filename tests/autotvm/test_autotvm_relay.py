"""The kernels of Relay programs as tasks, and what was tuned in what is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt import autotvm, relay
from smelt.ir.errors import SmeltError
from smelt.search.record import Record

TARGET = "llvm -mcpu=native"


def network() -> tuple[Any, dict[str, Any]]:
    rng = np.random.default_rng(0)
    x = relay.var("x", shape=(1, 8, 12, 12), dtype="float32")
    names = {"w": (16, 8, 3, 3), "b": (16,), "d": (10, 16 * 12 * 12)}
    w, b, d = [relay.var(n, shape=s) for n, s in names.items()]
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, w, padding=(1, 1)), b))
    y = relay.nn.dense(relay.nn.batch_flatten(y), d)
    params = {n: rng.standard_normal(s).astype("float32") for n, s in names.items()}
    return smelt.IRModule.from_expr(relay.Function([x, w, b, d], y)), params


def run(lib: Any) -> Any:
    x = np.random.default_rng(1).standard_normal((1, 8, 12, 12)).astype("float32")
    module = smelt.contrib.graph_executor.GraphModule(lib["default"](smelt.cpu()))
    module.set_input("x", x)
    module.run()
    return module.get_output(0).numpy()


def test_kernels_are_tuned_and_the_best_is_built(tmp_path: Path) -> None:
    mod, params = network()
    log = tmp_path / "net.log"
    tasks = autotvm.task.extract_from_program(mod["main"], params, TARGET)
    assert any("conv2d" in t.name for t in tasks)
    option = autotvm.measure_option("local", autotvm.LocalRunner(cooldown_interval=0))
    for t in tasks:
        tuner = autotvm.tuner.XGBTuner(t, seed=0)
        tuner.tune(min(4, len(t.config_space)), option,
                   callbacks=[autotvm.callback.log_to_file(log)])  # fmt: skip
    hits: list[Record] = []
    context = autotvm.apply_history_best(log)
    best = context.database.best

    def seen(workload: str, machine: str, confirmed: bool = True) -> Record | None:
        found = best(workload, machine, confirmed)
        hits.extend([] if found is None else [found])
        return found

    context.database.best = seen  # type: ignore[method-assign]
    with context, smelt.transform.PassContext(opt_level=3):
        tuned = relay.build(mod, TARGET, params=params)
    assert {r.workload for r in hits} == {t.args[0] for t in tasks}
    plain = run(relay.build(mod, TARGET, params=params))
    assert np.max(np.abs(run(tuned) - plain)) < 1e-3 * np.max(np.abs(plain))


def test_configs_of_kernels_have_numbers() -> None:
    mod, params = network()
    for t in autotvm.task.extract_from_program(mod, params, TARGET):
        size = len(t.config_space)
        for n in {0, size // 3, size - 1}:
            config = t.config_space.get(n)
            assert config.index == n
            sch, args = t.instantiate(config)
            assert str(sch.trace) == config["trace"].val
            assert len(args) == len(t.args) - 1
        with pytest.raises(SmeltError, match=f"config {size}; legal: 0 to {size - 1}"):
            t.config_space.get(size)


def test_tasks_of_some_operators() -> None:
    mod, params = network()
    only: Any
    (only,) = autotvm.task.extract_from_program(mod, params, TARGET, ops=["nn.conv2d"])
    assert "conv2d" in only.ops
    by_op = autotvm.task.extract_from_program(mod, params, TARGET, ops=(relay.op.get("nn.conv2d"),))
    assert [t.name for t in by_op] == [only.name]
    with pytest.raises(SmeltError, match="no kernel has conv3d; operators: "):
        autotvm.task.extract_from_program(mod, params, TARGET, ops=["nn.conv3d"])
