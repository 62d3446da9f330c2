"""The regions that are meant for other compilers become functions of the module."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
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
            make = _naming(f"tvmgen_{mod_name}", name, mod, bind_constants)
            plain, functions = lift_regions(plain, given, make)
            changed |= functions
        if plain is not f:
            changed[name] = plain
    return mod.with_functions(changed) if changed else mod


def _naming(
    prefix: str, caller: str, mod: IRModule, bind_constants: bool
) -> Callable[[Lifted], tuple[GlobalVar, Function]]:
    """What makes the functions of one caller's regions, numbered; taken names are left out."""
    numbers = itertools.count()

    def make(part: Lifted) -> tuple[GlobalVar, Function]:
        target = part.region.target
        rows = ((n, re.sub(r"\W", "_", f"{prefix}_{target}_{caller}_{n}")) for n in numbers)
        n, symbol = next((n, symbol) for n, symbol in rows if symbol not in mod)
        attrs = {"Compiler": target, "global_symbol": symbol, "Primitive": 1, "Inline": 1}
        own = re.sub(r"\W", "_", f"{target}_{n}_i")
        return GlobalVar(symbol), part.function(own, attrs, bind_constants)

    return make
