"""`GraphModuleDebug`: a GraphModule that shows what happens inside the model.

m = debug_executor.GraphModuleDebug(lib["debug_create"]("default", dev), [dev], graph_json, folder)
m.set_input("input", x)
m.run()                                     # prints a table: one line a kernel
y = m.debug_get_output("fused_conv2d_add_relu").numpy()

A run is a native call as always. A probe in it takes copies of all results inside the model when
they are made, since their memory is used again, and in another one the times. So it is for any
library, of a file or on another machine, too.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from smelt.contrib.graph_executor import GraphModule
from smelt.runtime import Device, InputError, NativeExecutable, NDArray, ProfileReport, array
from smelt.runtime.evaluator import evaluate_times
from smelt.runtime.expression import evaluate
from smelt.runtime.params import save_param_dict
from smelt.runtime.profiler import Copies, Times, measured, profiled
from smelt.runtime.remote import RemoteLibrary
from smelt.runtime.report import TimeEvaluation

_FOLDER = "_tvmdbg_device_CPU_0"
_GRAPH = "_tvmdbg_graph_dump.json"
_TRACE = "_tvmdbg_execution_trace.json"
_TENSORS = "output_tensors.params"


def create(
    graph_json_str: str,
    libmod: Any,
    device: Device | Sequence[Device],
    dump_root: str | None = None,
) -> GraphModuleDebug:
    """A GraphModuleDebug of `graph, lib, params = relay.build(...)`.

    dump_root  a folder for what `run` writes; None: nothing is written
    """
    devices = [device] if isinstance(device, Device) else list(device)
    if len(devices) != 1:
        raise InputError(
            f"debug_executor.create: {len(devices)} devices given; a model runs on one"
        )
    module = libmod["debug_create"]("default", devices[0])
    return GraphModuleDebug(module, devices, graph_json_str, dump_root)


class GraphModuleDebug(GraphModule):
    """A model on buffers of its own whose results inside can be read."""

    def __new__(
        cls, module: Any, device: Any, graph_json_str: str, dump_root: str | None = None
    ) -> Any:
        """One on the machine where the library is, whose tables are printed here."""
        if not isinstance(module, RemoteLibrary):
            return super().__new__(cls)
        if dump_root is not None:
            raise InputError(f"GraphModuleDebug: dump_root={dump_root!r} is a folder here, and the "
                             "library is on another machine; legal: None")  # fmt: skip
        return Elsewhere(super().__new__(cls, module, device, graph_json_str))

    def __init__(
        self,
        module: NativeExecutable,
        device: Sequence[Device],
        graph_json_str: str,
        dump_root: str | None = None,
    ) -> None:
        """module: lib["debug_create"]("default", device); graph_json_str: lib.get_graph_json()."""
        super().__init__(module)
        if any("results" not in k for k in module.metadata["kernels"]):
            raise InputError(
                f"{module.name}: its description does not say where results inside the model are: "
                "it is of an earlier smelt; export it again"
            )
        for d in device:
            module["default"](d)
        self.graph: dict[str, Any] = json.loads(graph_json_str)
        self.nodes: list[dict[str, Any]] = self.graph["nodes"]
        self._first = sum(n["op"] == "null" for n in self.nodes)
        names = [n["name"] for n in self.nodes[self._first :]]
        self.check_graph(names)
        self._names = [n["name"] for n in self.nodes]
        self.dump_root = None if dump_root is None else Path(dump_root) / _FOLDER
        self._probe = module.probe()
        self._copies = Copies(self._probe)
        self._measured: tuple[Times, float] | None = None

    # ---- running ------------------------------------------------------------------------------

    def run(self, **inputs: Any) -> None:
        """Run once, print a table of the kernels, and write the dump where there is a folder."""
        print(self.measure(**inputs), end="")
        if self.dump_root is not None:
            self.dump(self.dump_root)

    def measure(self, **inputs: Any) -> str:
        """Run once; the table as text."""
        self.set_input(**inputs)
        self._run()
        text = io.StringIO()
        Console(file=text, width=Console().width).print(self.table())
        return text.getvalue()

    def _run(self) -> None:
        """Run once for copies of all results, and once more for the times, unless that would
        change them: where an input is updated the times are those of the first run."""
        probe, bound = self._copies.probe, self.bound()
        self._copies.run(self.module.bind(self._inputs, bound.outputs, self._copies))
        total = float(probe.milliseconds.sum())
        if not self.module.metadata.get("updates"):
            total = measured(probe, bound.time, 1)[0].milliseconds
        self._measured, self._ran = (probe.milliseconds, total), True

    def table(self) -> Table:
        """The last run as a table: one line a kernel, in the order of the model."""
        times, total = self._last()
        table = Table(title=f"{self.module.name}: {total:.4f} ms")
        for head in ("node", "operators", "time (us)", "time (%)", "shape"):
            table.add_column(head, justify="right" if "time" in head else "left")
        kernels = self.module.metadata["kernels"]
        symbols = self.bound().symbols
        rows = zip(self.kernel_names(), kernels, times, strict=True)
        for name, k, t in rows:
            results: Any = k["results"]
            shapes = "; ".join(
                [str(tuple([evaluate(e, symbols) for e in r["shape"]])) for r in results]
            )
            table.add_row(
                name, " ".join(k["ops"]), f"{1e3 * t:.3f}", f"{100 * t / total:.2f}", shapes
            )
        return table

    def _last(self) -> tuple[Times, float]:
        if self._measured is None:
            raise InputError(f"{self.module.name}: it was not run yet; run() measures")
        return self._measured

    def run_individual(
        self,
        number: int,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
    ) -> list[list[float]]:
        """Seconds of each node: `repeat` means over `number` runs of the model; inputs take none.

        The kernels run in the model's order with its memory, so what they find in the caches is
        what they find there.
        """
        probe = self._probe
        assert probe is not None
        rows: list[Times] = []

        def timed(runs: int) -> float:
            call = self.bound()
            call()
            probe.clear()
            spent = call.time(runs)
            rows.append(probe.milliseconds / 1e3 / runs)
            return spent

        evaluate_times(
            "run_individual", timed, number, repeat, min_repeat_ms, limit_zero_time_iterations,
            cooldown_interval_ms, repeats_to_cooldown,
        )  # fmt: skip
        self._run()
        kernels: list[list[float]] = np.array(rows[-repeat:]).T.tolist()
        return [[0.0] * repeat for _ in range(self._first)] + kernels

    def run_individual_node(
        self,
        index: int,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
    ) -> TimeEvaluation:
        """Seconds of one node of the graph, by its number in the JSON, as of `run_individual`."""
        if not 0 <= index < len(self.nodes):
            raise self.unknown("node", self._names, index)
        times = self.run_individual(
            number, repeat, min_repeat_ms, limit_zero_time_iterations, cooldown_interval_ms,
            repeats_to_cooldown,
        )  # fmt: skip
        return TimeEvaluation(tuple(times[index]))

    def profile(self, collectors: object = None, repeat: int = 10, **inputs: Any) -> ProfileReport:
        """Medians over `repeat` runs; the report has `table()`, `csv()` and `json()`."""
        if collectors:
            raise InputError("profile: collectors cannot be given; times and costs are reported")
        self.set_input(**inputs)
        assert self._probe is not None
        described = [
            {**k, "name": n}
            for k, n in zip(self.module.metadata["kernels"], self.kernel_names(), strict=True)
        ]
        made = profiled(self.module.name, described, self._probe, self.bound(), repeat)
        self._run()
        return made

    # ---- inside -------------------------------------------------------------------------------

    def debug_get_output(self, node: str | int, out: NDArray | None = None) -> NDArray:
        """What a node gave in the last run, by its name or its number in the graph's JSON."""
        if node not in self._names and node in [o.name for o in self.module.outputs]:
            return self.get_output(node, out)
        index = self._node(node)
        if index < len(self.module.inputs):
            return self.get_input(index, out)
        if index < self._first:
            raise InputError(
                f"{self.module.name}: node {self._names[index]!r} is a constant; "
                "lib.get_params() has it"
            )
        return super().debug_get_output(self._names[index], out)

    def debug_get_outputs(self, node: str | int) -> list[NDArray]:
        """All results of a kernel in the last run, copied."""
        names = self.kernel_names()
        index = self._index("kernel", names, node)
        if not self._ran:
            raise InputError(f"{self.module.name}: debug_get_output before run()")
        if index not in self._copies.results:
            raise InputError(f"{self.module.name}: kernel {names[index]!r} is for other sizes than "
                             "those of the last run")  # fmt: skip
        return [array(a) for a in self._copies.results[index]]

    def get_node_output(self, node: str | int) -> list[NDArray]:
        """All results of a kernel, by its name or its number in the graph's JSON."""
        index = self._node(node)
        if index < self._first:
            return [self.debug_get_output(index)]
        return self.debug_get_outputs(index - self._first)

    def _node(self, node: str | int) -> int:
        return self._index("node", self._names, node)

    def dump(self, folder: Path) -> None:
        """Write the last run: the graph with times, a trace, and all results.

        The trace is for a browser's trace viewer (chrome://tracing); the results are a parameter
        file, for relay.load_param_dict.
        """
        times, _ = self._last()
        folder.mkdir(parents=True, exist_ok=True)
        spent = [0.0] * self._first + [float(t) for t in times]
        nodes = [{**n, "time_us": f"{1e3 * t:.3f}"} for n, t in zip(self.nodes, spent, strict=True)]
        graph = {**self.graph, "nodes": nodes}
        (folder / _GRAPH).write_text(json.dumps(graph, indent=2))
        events, at = [], 0.0
        for node, t in zip(nodes, spent, strict=True):
            for phase, when in (("B", at), ("E", at + 1e3 * t)):
                events.append({"name": node["name"], "ph": phase, "ts": when, "pid": 1, "tid": 1})
            at += 1e3 * t
        (folder / _TRACE).write_text(json.dumps({"displayTimeUnit": "ns", "traceEvents": events}))
        tensors = {
            f"{name}____{i}": np.asarray(a)
            for name in self.kernel_names()
            for i, a in enumerate(self.debug_get_outputs(name))
        }
        (folder / _TENSORS).write_bytes(bytes(save_param_dict(tensors)))


class Elsewhere:
    """A GraphModuleDebug on another machine."""

    def __init__(self, there: Any) -> None:
        """there: what stands for it here."""
        self._there = there

    def run(self, **inputs: Any) -> None:
        """Run once there, and print a table of the kernels here."""
        print(self._there.measure(**inputs), end="")

    def __getattr__(self, name: str) -> Any:
        """All else is there."""
        return getattr(self._there, name)
