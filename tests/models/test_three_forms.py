"""Graph, AOT and VM form of every network: one result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smelt import relay
from smelt.contrib.graph_executor import GraphModule
from smelt.relay.backend import Executor
from smelt.runtime import cpu
from smelt.runtime.executor import AotModule
from smelt.runtime.vm import VirtualMachine

from .test_networks import NETWORKS


@pytest.mark.parametrize("name", NETWORKS)
def test_the_forms_agree(name: str, cache: str) -> None:
    build, feeds = NETWORKS[name]
    mod, _ = relay.frontend.from_onnx(build(2))
    inputs = feeds(2)
    graph = GraphModule(relay.build(mod)["default"](cpu(0)))
    aot = AotModule(relay.build(mod, executor=Executor("aot"))["default"](cpu(0)))
    results: list[list[Any]] = []
    for module in (graph, aot):
        module.run(**inputs)
        count = module.get_num_outputs()
        results.append([module.get_output(i).numpy().copy() for i in range(count)])
    machine = VirtualMachine(relay.vm.compile(mod, target="llvm -mcpu=native"), cpu(0))
    machine.set_input("main", **inputs)
    machine.run()
    results.append([np.asarray(o) for o in machine.get_outputs()])
    for found in results[1:]:
        for a, b in zip(found, results[0], strict=True):
            assert np.array_equal(a, b)
