"""Compiled tensor programs: functions that work on arrays in place, and modules of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from smelt.runtime.bound import BoundCall
from smelt.runtime.device import Device
from smelt.runtime.dtypes import numpy_dtype
from smelt.runtime.errors import ExportError, InputError, unknown
from smelt.runtime.evaluator import Timed
from smelt.runtime.linking import Linker
from smelt.runtime.native_executable import NativeExecutable
from smelt.runtime.report import TimeEvaluation


class TensorFunction:
    """A compiled tensor program. `f(a, b, c)` reads and writes the arrays in place.

    Arguments are those of the program in order. Sizes that are extents of its arrays may all be
    left out: the arrays' shapes tell them.
    """

    def __init__(self, exe: NativeExecutable, sources: Mapping[str, Callable[[], str]]) -> None:
        """exe: takes all arrays as inputs; sources: by format, what makes the text."""
        self.exe, self.sources = exe, sources
        self._parameters: list[str] = exe.metadata["parameters"]
        self._symbols = exe.signature.symbols
        self._written = set(exe.metadata["written"])
        self._scalars = {i.name for i in exe.inputs if not i.shape} - self._written

    @property
    def name(self) -> str:
        """The program's name."""
        return self.exe.name

    def __repr__(self) -> str:
        """Name and parameters."""
        return f"TensorFunction {self.name}({', '.join(self._listed())})"

    def _listed(self) -> list[str]:
        by_name = {i.name: str(i) for i in self.exe.inputs}
        return [by_name.get(p, f"{p}: size") for p in self._parameters]

    def __call__(self, *args: Any) -> None:
        """Run the program on arrays (numpy, NDArray, or DLPack) and numbers."""
        self.bind(*args)()

    def bind(self, *args: Any) -> BoundCall:
        """The call with its arguments fixed, checked once."""
        given, sizes = self._sorted(args)
        infos = self.exe.inputs
        arrays = [
            np.asarray(given[i.name], numpy_dtype(i.dtype)) if i.name in self._scalars
            else given[i.name]
            for i in infos
        ]  # fmt: skip
        call = self.exe.bind(arrays, ())
        for info, view in zip(infos, call.inputs, strict=True):
            if info.name in self._written and not np.asarray(view).flags.writeable:
                raise self.exe.signature.wrong("argument", info, "the array is read-only")
        self._check_sizes(sizes, call.inputs)
        return call

    def _sorted(self, args: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The arguments by name: arrays and numbers, and the sizes that were given."""
        names = self._parameters
        if len(args) != len(names):
            names = [n for n in names if n not in self._symbols]
        if len(args) != len(names):
            most, least = len(self._parameters), len(names)
            needed = str(most) if most == least else f"{least} or {most}"
            raise InputError(
                f"{self.name}: {len(args)} arguments given, {needed} needed\n"
                f"  parameters: {'; '.join(self._listed())}"
            )
        given = dict(zip(names, args, strict=True))
        return given, {n: v for n, v in given.items() if n in self._symbols}

    def _check_sizes(self, sizes: Mapping[str, Any], arrays: Sequence[Any]) -> None:
        if not sizes:
            return
        told = self.exe.signature.bind([np.asarray(a) for a in arrays])
        for name, value in sizes.items():
            if int(value) != told[name]:
                raise InputError(
                    f"{self.name}: the size {name} is given as {int(value)}, "
                    f"but the arrays' shapes say {told[name]}"
                )

    def time_evaluator(
        self, device: Device | None = None, **how: Any
    ) -> Callable[..., TimeEvaluation]:
        """A function of the program's arguments that times it, in seconds a run.

        how  as of `Module.time_evaluator`, by name: number, repeat, min_repeat_ms, ...
        """
        return Module([self]).time_evaluator(self.name, device, **how)

    def get_source(self, fmt: str = "tir") -> str:
        """What it was compiled from: "tir" (flat loops), "ll" (LLVM IR) or "asm" (assembly)."""
        if fmt not in self.sources:
            raise InputError(
                f"{self.name}: no source in the format {fmt!r}; "
                f"formats: {', '.join(self.sources) or 'none, it was loaded from a library'}"
            )
        return self.sources[fmt]()


class Module(Timed):
    """Compiled tensor programs by name. Calling it runs the first (or "main")."""

    def __init__(self, functions: Sequence[TensorFunction]) -> None:
        """At least one function."""
        self._functions = {f.name: f for f in functions}
        self.entry_name = "main" if "main" in self._functions else functions[0].name

    @property
    def imported_modules(self) -> list[Module]:
        """None: a module holds all of its code."""
        return []

    @property
    def functions(self) -> dict[str, TensorFunction]:
        """The functions by name."""
        return dict(self._functions)

    def __repr__(self) -> str:
        """Names and parameters."""
        return f"Module({', '.join(map(repr, self._functions.values()))})"

    def __call__(self, *args: Any) -> None:
        """Run the entry function on arrays, in place."""
        self._functions[self.entry_name](*args)

    def get_function(self, name: str) -> TensorFunction:
        """The function of a name; "default" is the entry."""
        found = self._functions.get(self.entry_name if name == "default" else name)
        if found is None:
            raise InputError(f"the module has {unknown('function', name, self._functions)}")
        return found

    __getitem__ = get_function

    def bound_for(self, func_name: str, dev: Device | None) -> Callable[..., BoundCall]:
        """What binds a function's arguments."""
        function = self.get_function(func_name)
        if dev is not None:
            function.exe["default"](dev)
        return function.bind

    def get_source(self, fmt: str = "tir") -> str:
        """The sources of all functions: "tir", "ll" or "asm"."""
        return "\n\n".join([f.get_source(fmt) for f in self._functions.values()])

    def export_library(
        self,
        file_name: str | os.PathLike[str],
        fcompile: Linker | None = None,
        *,
        cc: str | Sequence[str] | None = None,
        header: bool = False,
    ) -> None:
        """Write the function as a library, for `load_module` and for C.

        As `Executable.export_library` says: a .tar is linked where it is loaded.
        """
        if len(self._functions) > 1:
            raise ExportError(
                f"a library holds one function, the module has {', '.join(self._functions)}; "
                "build them apart"
            )
        self._functions[self.entry_name].exe.export_library(
            file_name, fcompile, cc=cc, header=header
        )
