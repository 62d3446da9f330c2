"""The virtual machine's compiler by its classic names: `relay.vm.compile(mod, target, params)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smelt.codegen.llvm import resolve
from smelt.ir.errors import TypeMismatch
from smelt.pipeline import checked_context, compile_program
from smelt.runtime.vm import VirtualMachine as VirtualMachine
from smelt.runtime.vm import VMExecutable

from .build_module import as_module, bind_params, target_of, with_required
from .transform.passes import LEVELS

Executable = VMExecutable


def compile(
    mod: Any, target: Any = None, target_host: Any = None, params: Mapping[str, Any] | None = None
) -> VMExecutable:
    """Compile a module for the virtual machine: branches, recursion, closures, data types.

    mod     an IRModule, or a function
    target  e.g. "llvm -mcpu=native"; None: that of `with Target(...)`, or this machine
    params  parameters of "main" that become constants, by name

    `with smelt.transform.PassContext(...)` around the call says how the segments are compiled.
    """
    mod = as_module("relay.vm.compile", mod)
    context = checked_context("relay.vm.compile", others=LEVELS)
    plain = with_required(bind_params(mod, params) if params else mod, context)
    return compile_program(plain, resolve(target_of(target, target_host)), context)


class VMCompiler:
    """The compiler step by step, for old programs: `lower`, `codegen`, `get_exec`."""

    def __init__(self) -> None:
        """Nothing compiled yet."""
        self._params: dict[str, Any] = {}
        self._exe: VMExecutable | None = None

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Parameters of "main" that become constants, by name."""
        self._params = dict(params)

    def get_params(self) -> dict[str, Any]:
        """What set_params was given."""
        return dict(self._params)

    def lower(self, mod: Any, target: Any = None, target_host: Any = None) -> None:
        """Compile a module."""
        self._exe = compile(mod, target, target_host, self._params)

    def codegen(self) -> None:
        """Everything is done by `lower`."""
        self.get_exec()

    def get_exec(self) -> VMExecutable:
        """The executable."""
        if self._exe is None:
            raise TypeMismatch("VMCompiler: nothing is compiled yet; call lower(mod, target)")
        return self._exe
