"""Matches of a compiler's patterns become functions of their own: composites."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smelt.ir.module import IRModule
from smelt.relax.dpl.partition import Partitioner, partitioned
from smelt.relax.dpl.tables import PatternEntry, check_table
from smelt.relax.graph import is_closed
from smelt.relax.nodes import Function


def graph_functions(mod: IRModule) -> dict[str, Function]:
    """The functions of a module that are programs of the user, not parts that a pass made."""
    return {
        name: f for name, f in mod.functions.items() if isinstance(f, Function) and not is_closed(f)
    }


def merge_composite(mod: IRModule, pattern_table: Sequence[PatternEntry]) -> IRModule:
    """A module in which every match of a table's patterns is a function, called in place.

    pattern_table  (name, pattern) or (name, pattern, check), in order of preference; check gets
                   the value that the match computes. The functions have the attributes
                   "Composite" (the name) and "PartitionedFromPattern" (its operators)
    """
    table = check_table(pattern_table, "MergeComposite")
    changed: dict[str, Any] = {}
    for name, f in graph_functions(mod).items():
        graph = Partitioner(f)
        for entry in table:
            check = entry[2] if len(entry) == 3 else _any
            new = partitioned(graph, entry[1], {"Composite": entry[0]}, check, entry[0])
            if new is not graph.graph.root:
                graph = Partitioner(new)
                changed[name] = new
    return mod.with_functions(changed) if changed else mod


def _any(extract: Any) -> bool:
    return True
