"""What `relay.build` gives."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from smelt.ir.errors import CompileError
from smelt.ir.module import IRModule
from smelt.lowering.graph import GraphPlan, plan_graph
from smelt.runtime import Device, Executable, ExportError, NDArray
from smelt.target import Target

from .graph_json import graph_json, graph_params

__all__ = ["GraphExecutorFactoryModule"]


class GraphExecutorFactoryModule:
    """A compiled model: `lib["default"](smelt.cpu(0))` makes it ready to run.

    lib, module   the executable
    ir_mod        what was compiled
    target        for what
    libmod_name   the name in lib["..."]
    """

    def __init__(
        self, lib: Executable, ir_mod: IRModule, fused: IRModule, target: Target, libmod_name: str
    ) -> None:
        """For relay.build. fused: the graph after its passes."""
        self.lib = self.module = lib
        self.ir_mod, self.target, self.libmod_name = ir_mod, target, libmod_name
        self._fused = fused

    @cached_property
    def _plan(self) -> GraphPlan:
        return plan_graph(self._fused)

    def __getitem__(self, name: str) -> Callable[[Device], Executable]:
        """The function that makes the model ready on a device."""
        return self.lib[name]

    def get_graph_json(self) -> str:
        """The kernel launches with names, inputs, shapes and storages."""
        return graph_json(self._plan)

    get_executor_config = get_graph_json

    def get_params(self) -> dict[str, NDArray]:
        """The constants that the JSON names, after the graph passes.

        They are in the executable already, packed as its kernels want them.
        """
        return graph_params(self._plan)

    def get_lib(self) -> Executable:
        """The executable."""
        return self.lib

    @property
    def function_metadata(self) -> dict[str, Any]:
        """What is known of each kernel, by the name of its launch."""
        return {k["name"]: k for k in self.lib.metadata["kernels"]}

    def export_library(
        self,
        file_name: str | os.PathLike[str],
        fcompile: object = None,
        addons: Sequence[str] | None = None,
        *,
        cc: str | Sequence[str] | None = None,
    ) -> None:
        """Write a shared library with the model, its constants and the runtime.

        cc  the C compiler to link with
        """
        if fcompile is not None or addons:
            raise CompileError("export_library: fcompile and addons cannot be given; "
                               "cc names the compiler to link with")  # fmt: skip
        suffix = os.path.splitext(os.fspath(file_name))[1]
        if suffix in (".tar", ".zip", ".o", ".json"):
            raise ExportError(f"cannot write {os.fspath(file_name)}: {suffix} files cannot be "
                              "written yet; today: a shared library, e.g. model.so")  # fmt: skip
        self.lib.export_library(file_name, cc=cc)

    def __iter__(self) -> Iterator[Any]:
        """Old programs write `graph, lib, params = relay.build(...)`."""
        return iter((self.get_graph_json(), self.lib, self.get_params()))

    def __repr__(self) -> str:
        return f"GraphExecutorFactoryModule({self.lib!r})"
