"""The regions that are meant for other compilers become functions of the module."""

from __future__ import annotations

import re
from typing import Any

from smelt.ir.module import IRModule
from smelt.relax.nodes import Function, GlobalVar

from .merge_composite import graph_functions
from .regions import Lifted, lift_regions, read_regions

__all__ = ["partition_graph"]


def partition_graph(
    mod: IRModule, mod_name: str = "default", bind_constants: bool = True
) -> IRModule:
    """A module with a function for every region of a compiler, called where the region was.

    mod_name        part of the functions' names: tvmgen_<mod_name>_<compiler>_main_<n>, where n
                    counts the regions of "main" in order of evaluation
    bind_constants  whether constants stay inside; else they are passed
    Functions have the attributes "Compiler", "global_symbol", "Primitive" and "Inline". Marks, and
    the regions of "default", are gone.
    """
    changed: dict[str, Any] = {}
    for name, f in graph_functions(mod).items():
        plain, regions = read_regions(f)
        given = {n: r for n, r in regions.items() if r.target != "default"}
        count = 0

        def make(part: Lifted, name: str = name) -> tuple[GlobalVar, Function]:
            nonlocal count
            target = part.region.target
            symbol = re.sub(r"\W", "_", f"tvmgen_{mod_name}_{target}_{name}_{count}")
            attrs = {"Compiler": target, "global_symbol": symbol, "Primitive": 1, "Inline": 1}
            prefix = re.sub(r"\W", "_", f"{target}_{count}_i")
            count += 1
            return GlobalVar(symbol), part.function(prefix, attrs, bind_constants)

        new, functions = lift_regions(plain, given, make) if given else (plain, {})
        if new is not f:
            changed |= {name: new, **functions}
    return mod.with_functions(changed) if changed else mod
