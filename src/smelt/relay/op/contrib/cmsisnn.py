"""CMSIS-NN, Arm's library of quantized operators for Cortex-M, under its classic name.

`partition_for_cmsisnn` gives what the library computes to the compiler "cmsis-nn", whose code
generator writes C that calls it: see smelt.micro.cmsis_nn. There is no pattern table: parts are
read from the graph's numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smelt.ir.errors import CompileError
from smelt.ir.module import IRModule
from smelt.micro.cmsis_nn import partition

from ...build_module import bind_params

OPTIONS = ("mcpu",)


def enabled() -> bool:
    """Whether there is a code generator: always, as it writes source."""
    return True


def partition_for_cmsisnn(
    mod: IRModule, params: Mapping[str, Any] | None = None, mod_name: str = "default", **opts: Any
) -> IRModule:
    """A model with every call of CMSIS-NN as a function of its own.

    params    weights that become constants first
    mod_name  part of the functions' names: tvmgen_default_cmsis_nn_main_0
    opts      mcpu: the processor, which tells how much memory the calls work in
    """
    unknown = [n for n in opts if n not in OPTIONS]
    if unknown:
        raise CompileError(
            f"partition_for_cmsisnn: there is no option {unknown[0]!r}; legal: {', '.join(OPTIONS)}"
        )
    if params:
        mod = bind_params(mod, params)
    return partition(mod, mod_name, str(opts.get("mcpu", "")))
