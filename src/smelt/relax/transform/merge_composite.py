"""Matches of a compiler's patterns become functions of their own: composites."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smelt.ir.module import IRModule
from smelt.relax.dpl.partition import Partitioner, partitioned
from smelt.relax.dpl.tables import PatternEntry, check_table
from smelt.relax.graph import is_closed
from smelt.relax.nodes import Function

from .rewriting import functions_of, map_functions


def graph_functions(mod: IRModule) -> dict[str, Function]:
    """The functions of a module that are programs of the user, not parts that a pass made."""
    return {name: f for name, f in functions_of(mod).items() if not is_closed(f)}


def merge_composite(mod: IRModule, pattern_table: Sequence[PatternEntry]) -> IRModule:
    """A module in which every match of a table's patterns is a function, called in place.

    pattern_table  (name, pattern) or (name, pattern, check), in order of preference; check gets
                   the value that the match computes. The functions have the attributes
                   "Composite" (the name) and "PartitionedFromPattern" (its operators)
    """
    table = check_table(pattern_table, "MergeComposite")

    def merged(f: Function) -> Any:
        graph = Partitioner(f)
        for name, pattern, *check in table:
            whole = check[0] if check else lambda extract: True
            new = partitioned(graph, pattern, {"Composite": name}, whole, name)
            graph = graph if new is graph.graph.root else Partitioner(new)
        return graph.graph.root

    return map_functions(mod, merged, lambda f: not is_closed(f))
