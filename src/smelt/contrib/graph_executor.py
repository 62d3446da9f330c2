"""`GraphModule`: a compiled model with inputs that are set and outputs that are got.

m = graph_executor.GraphModule(lib["default"](smelt.cpu(0)))
m.set_input("input", x)
m.run()
y = m.get_output(0).numpy()
"""

from __future__ import annotations

import json
from typing import Any

from smelt.runtime import Device, InputError, NDArray
from smelt.runtime.executor import AotModule
from smelt.runtime.params import digest, load_param_dict
from smelt.runtime.report import node_names


def create(graph_json_str: str, libmod: Any, device: Device) -> GraphModule:
    """A GraphModule of `graph, lib, params = relay.build(...)`.

    The order of the kernels is compiled code: the graph has to be the library's own.
    """
    made = GraphModule(libmod["default"](device))
    try:
        nodes = json.loads(graph_json_str)["nodes"]
        names = [n["name"] for n in nodes if n["op"] != "null"]
        given = [n["name"] for n in nodes if n["op"] == "null"][len(made.module.inputs) :]
        digests = json.loads(graph_json_str).get("attrs", {}).get("constants", ["", []])[1]
        made.weights = dict(zip(given, digests, strict=False))
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{made.module.name}: graph_json_str is no graph in JSON") from None
    made.check_graph(names)
    return made


class GraphModule(AotModule):
    """A model on buffers of its own. A run is one native call; one thread at a time may run it."""

    weights: dict[str, str] = {}  # noqa: RUF012  (read only; `create` gives a module its own)
    """Constants of the graph that `create` was given: their digests by name."""

    def set_input(self, key: str | int | None = None, value: Any = None, **params: Any) -> None:
        """Copy an array (numpy, NDArray, or anything of DLPack) into an input, or several by name.

        The constants of `graph, lib, params = relay.build(...)` may be among them if they are
        unchanged: the library holds them.
        """
        held = {n: v for n, v in params.items() if n in self.weights}
        for name, given in held.items():
            if digest(given) != self.weights[name]:
                raise InputError(
                    f"{self.module.name}: {name!r} is a constant of the library, and the array "
                    "given has other elements; build with the new weights as params"
                )
        super().set_input(key, value, **{n: v for n, v in params.items() if n not in held})

    def load_params(self, params_bytes: bytes | bytearray) -> None:
        """Set inputs from the bytes of relay.save_param_dict."""
        for name, value in load_param_dict(params_bytes).items():
            if name not in self.get_input_info()[0] and name not in self.weights:
                raise self.unknown(
                    "input", self.module.inputs, name,
                    "weights that relay.build bound are in the library and cannot be replaced",
                )  # fmt: skip
            given: dict[str, Any] = {name: value}
            self.set_input(**given)

    def share_params(self, other: GraphModule, params_bytes: bytes | bytearray) -> None:
        """Use another module's buffers for the inputs that the bytes name; nothing is copied."""
        for name in load_param_dict(params_bytes):
            self.set_input_zero_copy(name, other.get_input(name))

    # ---- inside -------------------------------------------------------------------------------

    def kernel_names(self) -> list[str]:
        """The kernels in the order of the model; one that runs again has a number: relu_1."""
        return node_names([k["name"] for k in self.module.metadata.get("kernels", ())])

    def check_graph(self, names: list[str]) -> None:
        """Refuse the kernels of another model's graph."""
        mine = self.kernel_names()
        if names != mine:
            raise InputError(
                f"{self.module.name}: the graph JSON is another model's: it has the kernels "
                f"{', '.join(names) or 'none'}; the library has {', '.join(mine) or 'none'}"
            )

    def debug_get_output(self, node: str | int, out: NDArray | None = None) -> NDArray:
        """The result of a kernel, by name or number, or an output of the model by name.

        Results inside a model are kept by a GraphModuleDebug alone; a kernel with several results
        gives the first, the others are `debug_get_outputs`.
        """
        if node in [o.name for o in self.module.outputs]:
            return self.get_output(node, out)
        found = self.debug_get_outputs(node)[0]
        if out is not None:
            found.copyto(out)
            return out
        return found

    def debug_get_outputs(self, node: str | int) -> list[NDArray]:
        """All results of a kernel in the last run, copied."""
        names = self.kernel_names()
        name = names[self._index("kernel", names, node)]
        raise InputError(
            f"{self.module.name}: the result of kernel {name!r} is not kept: its memory is used "
            'again\n  smelt.contrib.debug_executor, on lib["debug_create"]("default", device), '
            "keeps all results"
        )
