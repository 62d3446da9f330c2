"""Adjacent regions of one compiler become one."""

from __future__ import annotations

from smelt.ir.module import IRModule
from smelt.relax.graph import is_closed
from smelt.relax.nodes import Function

from .regions import mark_regions, merge_regions, read_regions, top_level
from .rewriting import map_functions


def merge_compiler_regions(mod: IRModule) -> IRModule:
    """A module whose regions are as large as can be; "default" is a compiler like the others.

    Two regions stay apart where a value would leave the merged region and come back into it.
    """
    return map_functions(mod, _merged, lambda f: not is_closed(f))


def _merged(f: Function) -> Function:
    plain, regions = read_regions(f)
    return mark_regions(plain, merge_regions(top_level(plain), regions)) if regions else f
