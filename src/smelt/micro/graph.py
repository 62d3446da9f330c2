"""A compiled graph as C for the graph executor: kernels, a table of them, and the graph as JSON.

smelt_graph.c, in native/, reads the JSON when the program runs; `NAME_run` opens the graph, runs it
and keeps nothing, so that everything that runs a model as C runs this one, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from smelt.artifact.graph import Place, Storage, number_of
from smelt.artifact.graph_json import Node, constant_names, graph_data
from smelt.artifact.host import KernelCall
from smelt.artifact.memory import C_ALIGNMENT, aligned
from smelt.codegen.c_helpers import STORED
from smelt.ir import dtype as dt
from smelt.ir.expr import const
from smelt.relax.views import dense
from smelt.runtime.params import save_param_dict
from smelt.runtime.report import node_names
from smelt.tir.names import unique_name

from .source import Writer, array_text


class GraphWriter(Writer):
    """Writes one model for the graph executor.

    linked  whether the parameters are in the source; else they are the caller's
    """

    linked = True

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.taken |= {f"{self.name}_{n}" for n in ("graph", "json", "functions", "params", "done")}
        self.shown = node_names([launch.name for launch in self.model.plan.launches])
        self.nodes: list[Node] = []
        self.callers: dict[tuple[str, str], str] = {}
        self.needs: dict[str, tuple[list[int], int]] = {}
        self.read: dict[Storage, str] = {}

    def call(self, step: int, c: KernelCall) -> str:
        """Nothing: a kernel is a node. Scratch memory of a kernel is one result more."""
        inputs = c.places[: len(c.places) - len(c.launch.own_outputs)]
        scratch = [Place(w, dense((const(w.fixed_bytes),))) for w in c.workspaces]
        places = [*c.places, *scratch]
        kinds = [*self.kinds(c), *[w.dtype for w in c.workspaces]]
        for p, kind in zip(inputs, kinds, strict=False):
            if p.storage.kind == "constant":
                self.read.setdefault(p.storage, kind)
        given = ", ".join([_operand(n, p, kind) for n, (p, kind)
                           in enumerate(zip(places, kinds, strict=True))])  # fmt: skip
        key = self.function(c), given
        own = key[0].removeprefix(f"{self.name}_")
        name = self.callers.setdefault(key, unique_name(own, set(self.callers.values())))
        sizes = [p.storage.fixed_bytes for p in places]
        known, _ = self.needs.get(name, (sizes, 0))
        self.needs[name] = [*map(min, known, sizes)], len(inputs)
        self.nodes.append(Node(self.shown[step], name, inputs, places[len(inputs) :]))
        return ""

    def arrays(self) -> Iterator[str]:
        """The graph, and the parameters where they are in the source."""
        data, storages = graph_data(self.model.plan, self.nodes)
        self._place(data, storages)
        shapes = dict(zip([n["name"] for n in data["nodes"]], data["attrs"]["shape"][1],
                          strict=False))  # fmt: skip
        self.names = constant_names(self.model.plan, self.nodes)
        self.parameters = bytes(
            save_param_dict({n: self._data(s, shapes[n]) for s, n in self.names.items()})
        )
        self.graph = json.dumps(data, separators=(",", ":"))
        held = np.frombuffer(self.graph.encode(), np.uint8)
        if self.linked:
            for s in self.names:
                self.constant(s, self.read[s])
            yield from super().arrays()
        yield array_text(f"{self.name}_json", "uint8", held)

    def _place(self, data: dict[str, Any], storages: list[Storage]) -> None:
        """Add what the executor needs: sizes of storages, and where they stand in its memory."""
        memory, places = self.model.memory, []
        at = aligned(number_of(memory.total), C_ALIGNMENT)
        for s in storages:
            places.append(number_of(memory.offsets[s]) if s in memory.offsets else -1)
            if s.kind == "output":
                places[-1], at = at, at + aligned(s.fixed_bytes, C_ALIGNMENT)
        data["attrs"]["storage_bytes"] = ["list_int", [s.fixed_bytes for s in storages]]
        data["attrs"]["storage_offset"] = ["list_int", places]
        rows, calls = data["node_row_ptr"], self.nodes
        words = len(rows) + rows[-1] + len(data["heads"])
        words += sum([len(n.inputs) + len(n.outputs) for n in calls])
        tables = 16 * len(storages) + 12 * len(data["arg_nodes"]) + 4 * len(calls) + 2 * words
        self.workspace = aligned(tables, C_ALIGNMENT) + at

    def _data(self, s: Storage, shape: list[int]) -> np.ndarray:
        """A parameter; one that has no shape of its own as it lies in memory."""
        kind = np.dtype("uint16") if s.dtype == "bfloat16" else dt.to_numpy(s.dtype)
        start = self.places[s]
        data = self.weights[start : start + s.fixed_bytes].view(kind)
        return data.reshape(shape) if np.prod(shape) == data.size else data

    def runner(self, calls: str) -> str:
        """What calls kernels, the table of them, the model, and the function that runs it."""
        name, rows, text = self.name, "", ""
        for (function, given), own in self.callers.items():
            needs, inputs = self.needs[own]
            caller = f"{name}_call_{own}"
            text += (
                f"static int32_t {caller}(const smelt_graph_value *values, const uint16_t *at) {{\n"
                f"    return {function}({given});\n}}\n"
                f"static const uint32_t {caller}_bytes[] = {{{', '.join(map(str, needs))}}};\n\n"
            )
            rows += f'    {{"{own}", {caller}, {caller}_bytes, {inputs}, {len(needs) - inputs}}},\n'
        text += f"static const smelt_graph_function {name}_functions[] = {{\n{rows}}};\n\n"
        if self.linked and self.names:
            held = "".join([f'    {{"{n}", {self.constant(s, self.read[s])}, {s.fixed_bytes}u}},\n'
                            for s, n in self.names.items()])  # fmt: skip
            text += f"static const smelt_graph_param {name}_params[] = {{\n{held}}};\n\n"
        return text + self._model() + self._run()

    def _model(self) -> str:
        name, params = self.name, f"{self.name}_params" if self.names else "0"
        return (
            f"static void {name}_done(uint32_t step) {{\n    {self.step}(step);\n"
            f"    (void)step;\n}}\n\nconst smelt_graph_model {name}_graph = {{\n"
            f"    {name}_json, sizeof {name}_json, {len(self.callers)}, {name}_functions,\n"
            f"    {params}, {len(self.names)}, {name}_done}};\n\n"
        )

    def _run(self) -> str:
        moves = [
            [f"smelt_graph_{verb}(&graph, {n}, {kind}->{field}, {number_of(t.bytes())}u)"
             for n, (field, t) in enumerate(zip(names, types, strict=True))]
            for verb, kind, names, types in (
                ("set_input", "inputs", self.inputs, self.types[0]),
                ("get_output", "outputs", self.outputs, self.types[1]))
        ]  # fmt: skip
        first = f"smelt_graph_open(&graph, &{self.name}_graph, space, {self.workspace}u)"
        then = [*moves[0], "smelt_graph_run(&graph)", *moves[1]]
        steps = "".join([f"    if (status == 0) status = {step};\n" for step in then])
        return (
            f"{self.signature()} {{\n    smelt_graph graph;\n    int32_t status = {first};\n"
            f"    (void)inputs;\n{steps}    return status;\n}}\n"
        )

    def constant_bytes(self) -> int:
        """Those of the graph count, too."""
        return super().constant_bytes() + len(self.graph)

    def workspace_bytes(self) -> int:
        """With the executor's tables, where pointers have 64 bits."""
        return self.workspace

    def declared(self) -> str:
        """The model, for smelt_graph.h, and parameters that are the caller's."""
        needed = f"{self.name.upper()}_WORKSPACE_BYTES"
        text = f"\n/* For smelt_graph_open, with an arena of {needed}. */\n"
        text += f"extern const smelt_graph_model {self.name}_graph;\n"
        if self.names and not self.linked:
            listed = ", ".join(self.names.values())
            text += f"\n/* Yours to define: {listed}. */\n"
            text += f"extern const smelt_graph_param {self.name}_params[{len(self.names)}];\n"
        return text


class UnlinkedGraphWriter(GraphWriter):
    """The same without parameters."""

    linked = False


def _operand(n: int, p: Place, dtype: str) -> str:
    """An operand of a kernel, from the executor's values."""
    offset, value = number_of(p.view.offset), f"values[at[{n}]].data"
    return f"({STORED[dtype]} *){value} + {offset}" if offset else value
