"""The regions that are meant for other compilers become functions of the module."""

from __future__ import annotations

import re
from typing import Any

from smelt.ir.module import IRModule
from smelt.relax.nodes import Function, GlobalVar

from .merge_composite import graph_functions
from .regions import Lifted, lift_regions, read_regions


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
        if given:
            names = _Names(f"tvmgen_{mod_name}", name, mod, bind_constants)
            plain, functions = lift_regions(plain, given, names.make)
            changed |= functions
        if plain is not f:
            changed[name] = plain
    return mod.with_functions(changed) if changed else mod


class _Names:
    """Makes the functions of one caller's regions, numbered; names that are taken are left out."""

    def __init__(self, prefix: str, caller: str, mod: IRModule, bind_constants: bool) -> None:
        self.prefix, self.caller, self.mod = prefix, caller, mod
        self.bind_constants = bind_constants
        self.count = 0

    def make(self, part: Lifted) -> tuple[GlobalVar, Function]:
        """The name and the function of a region."""
        target = part.region.target
        while (symbol := self.symbol(target)) in self.mod:
            self.count += 1
        prefix = re.sub(r"\W", "_", f"{target}_{self.count}_i")
        self.count += 1
        attrs = {"Compiler": target, "global_symbol": symbol, "Primitive": 1, "Inline": 1}
        return GlobalVar(symbol), part.function(prefix, attrs, self.bind_constants)

    def symbol(self, target: str) -> str:
        """The next name, in letters, digits and underscores."""
        return re.sub(r"\W", "_", f"{self.prefix}_{target}_{self.caller}_{self.count}")
