"""What `relay.build` gives."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from smelt.artifact.artifact import Artifact, check_native, load
from smelt.artifact.graph import GraphPlan, plan_graph
from smelt.artifact.graph_json import Node, constant_names, graph_data
from smelt.ir.errors import CompileError
from smelt.ir.module import IRModule
from smelt.micro import CSource
from smelt.runtime import NativeExecutable, NDArray, array
from smelt.runtime.errors import not_picklable
from smelt.runtime.linking import Linker
from smelt.runtime.params import digest, load_param_dict
from smelt.runtime.report import node_names
from smelt.target import Target

from .backend import Executor
from .printer import size_text


class _FactoryModule:
    """A compiled model: `lib["default"](smelt.cpu(0))` makes it ready to run.

    lib, module   the executable; an error where it is for another machine
    ir_mod        what was compiled
    target        for what
    libmod_name   the name in lib["..."]
    executor      how it runs, with which options
    """

    kind: str

    def __init__(
        self,
        lib: NativeExecutable | Artifact,
        ir_mod: IRModule,
        fused: IRModule,
        target: Target,
        libmod_name: str,
        executor: Executor | None = None,
    ) -> None:
        """For relay.build. fused: the graph after its passes."""
        self._code = lib
        self.executor = Executor(self.kind) if executor is None else executor
        self.ir_mod, self.target, self.libmod_name = ir_mod, target, libmod_name
        self._fused = fused

    @cached_property
    def _plan(self) -> GraphPlan:
        return plan_graph(self._fused)

    @cached_property
    def _nodes(self) -> list[Node]:
        launches = self._plan.launches
        return [Node(shown, x.name, x.inputs, x.outputs) for shown, x
                in zip(node_names([x.name for x in launches]), launches, strict=True)]  # fmt: skip

    def __reduce__(self) -> Any:
        raise not_picklable(self)

    def save(self, file_name: str, fmt: str = "") -> None:
        """Refused: single objects are not written; see `export_library`."""
        raise not_picklable(self)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """The function that makes the model ready on a device."""
        return self.lib[name]

    @property
    def lib(self) -> NativeExecutable:
        """The executable. Raises CompileError where it is for another machine."""
        if isinstance(self._code, Artifact):
            check_native(
                self._code.target,
                '; lib.export_library("model.tar", cc=...) writes it for that machine',
            )
            return load(self._code)
        return self._code

    module = lib

    def get_params(self) -> dict[str, NDArray]:
        """The constants that the JSON names, after the graph passes.

        They are in the executable already, packed as its kernels want them.
        """
        names = constant_names(self._plan, self._nodes)
        return {name: array(s.data) for s, name in names.items() if s.data is not None}

    def get_lib(self) -> NativeExecutable:
        """The executable."""
        return self.lib

    @property
    def function_metadata(self) -> dict[str, Any]:
        """What is known of each kernel, by the name of its launch."""
        return {k["name"]: k for k in self._code.metadata["kernels"]}

    def export_library(
        self,
        file_name: str | os.PathLike[str],
        fcompile: Linker | None = None,
        addons: Sequence[str] | None = None,
        *,
        cc: str | Sequence[str] | None = None,
    ) -> None:
        """Write a library with the model and its constants.

        file_name  "x.tar" holds objects, linked where they are loaded; other names are shared
                   libraries with the runtime in them
        fcompile   what links or packs in place of the C compiler: contrib.cc, contrib.tar
        cc         the C compiler to link with; a .tar is then linked already; None: one for the
                   target's machine that is installed
        """
        if addons:
            raise CompileError("export_library: addons cannot be given; a library holds one model")
        self._code.export_library(file_name, fcompile, cc=cc)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._code!r})"


class GraphExecutorFactoryModule(_FactoryModule):
    """A compiled model for the graph executor: `GraphModule(lib["default"](smelt.cpu(0)))`.

    lib["debug_create"]("default", device) keeps every result, for contrib.debug_executor.
    """

    kind = "graph"

    def get_graph_json(self) -> str:
        """The kernel launches with names, inputs, shapes and storages."""
        data, _ = graph_data(self._plan, self._nodes, size_text)
        held = [digest(s.data) for s in constant_names(self._plan, self._nodes)]
        data["attrs"]["constants"] = ["list_str", held]
        return json.dumps(data, indent=2)

    get_executor_config = get_graph_json

    def __iter__(self) -> Iterator[Any]:
        """Old programs write `graph, lib, params = relay.build(...)`."""
        return iter((self.get_graph_json(), self.lib, self.get_params()))


class AOTExecutorFactoryModule(_FactoryModule):
    """A model compiled ahead of time, for `runtime.executor.AotModule(lib["default"](device))`."""

    kind = "aot"

    def get_executor_config(self) -> str | None:
        """None: the order of the kernels is compiled code."""
        return None

    def __iter__(self) -> Iterator[Any]:
        """Old programs write `_, lib, params = relay.build(...)`."""
        return iter((None, self.lib, self.get_params()))


class CSourceFactoryModule:
    """A model as C source, for a target of the kind "c".

    code         the texts, and what they need: see smelt.micro.CSource
    ir_mod       what was compiled
    target       for what
    libmod_name  the name in lib["..."]
    executor     how it runs, with which options
    """

    def __init__(
        self, code: CSource, ir_mod: IRModule, target: Target, libmod_name: str, executor: Executor
    ) -> None:
        """For relay.build."""
        self.code, self.ir_mod, self.target = code, ir_mod, target
        self.libmod_name, self.executor = libmod_name, executor

    def get_source(self, fmt: str = "c") -> str:
        """The source; fmt: "c", or "h" for the header."""
        texts = {"c": self.code.source, "h": self.code.header}
        if fmt not in texts:
            raise CompileError(f"get_source: fmt is {fmt!r}; legal: 'c', 'h'")
        return texts[fmt]

    def save(self, file_name: str | os.PathLike[str], fmt: str = "c") -> None:
        """Write the source, model.c, and the header beside it. Raises ExportError."""
        if fmt != "c":
            raise CompileError(f"save: fmt is {fmt!r}; legal: 'c'")
        self.code.save(file_name)

    def get_params(self) -> dict[str, NDArray]:
        """The parameters of a graph; nothing where the order of kernels is compiled code, as its
        constants are in the source."""
        return load_param_dict(self.code.parameters)

    def get_graph_json(self) -> str:
        """The graph that the source holds. Raises CompileError where it holds none."""
        if not self.code.graph:
            raise CompileError(
                "get_graph_json: the order of the kernels is compiled code; legal: "
                "Executor('graph') with Runtime('crt')"
            )
        return self.code.graph

    def get_executor_config(self) -> str | None:
        """The graph, or None."""
        return self.code.graph or None

    def get_lib(self) -> CSourceFactoryModule:
        """Itself."""
        return self

    def __iter__(self) -> Iterator[Any]:
        """Old programs write `graph, lib, params = relay.build(...)`."""
        return iter((self.get_executor_config(), self, self.get_params()))

    def __getitem__(self, name: str) -> Any:
        """Refused: it runs where its source is compiled."""
        raise CompileError(
            f'lib[{name!r}]: C source cannot run here; lib.save("model.c") writes it'
        )

    def export_library(self, file_name: str | os.PathLike[str], *args: Any, **others: Any) -> None:
        """Refused: there is no library of C source."""
        raise CompileError(
            f"export_library({str(file_name)!r}): the target is C, of which there is a source: "
            'lib.save("model.c")'
        )

    def __repr__(self) -> str:
        return f"CSourceFactoryModule({self.code.name}, {self.code.workspace_bytes} bytes)"
