"""Adjacent regions of one compiler become one."""

from __future__ import annotations

from typing import Any

from smelt.ir.module import IRModule

from .merge_composite import graph_functions
from .regions import mark_regions, merge_regions, read_regions, top_level


def merge_compiler_regions(mod: IRModule) -> IRModule:
    """A module whose regions are as large as can be; "default" is a compiler like the others.

    Two regions stay apart where a value would leave the merged region and come back into it.
    """
    changed: dict[str, Any] = {}
    for name, f in graph_functions(mod).items():
        plain, regions = read_regions(f)
        if regions:
            merged = merge_regions(top_level(plain), regions)
            changed[name] = mark_regions(plain, merged)
    return mod.with_functions(changed) if changed else mod
