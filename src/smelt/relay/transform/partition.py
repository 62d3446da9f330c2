"""Passes that give parts of a program to other compilers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smelt.relax.transform import (
    annotate_target,
    merge_compiler_regions,
    merge_composite,
    partition_graph,
)
from smelt.transform import Pass

from .passes import graph_pass


def MergeComposite(pattern_table: Sequence[Any]) -> Pass:
    """Every match of a table's patterns becomes a function with the attribute "Composite".

    pattern_table  (name, pattern) or (name, pattern, check), in order of preference; check gets the
                   value that the match computes
    """
    return graph_pass("MergeComposite", lambda mod: merge_composite(mod, pattern_table))


def AnnotateTarget(targets: str | Sequence[str], include_non_call_ops: bool = True) -> Pass:
    """Mark what each of some compilers takes: its composites, and operators that it accepts."""
    return graph_pass(
        "AnnotateTarget", lambda mod: annotate_target(mod, targets, include_non_call_ops)
    )


def MergeCompilerRegions() -> Pass:
    """Neighbouring regions of one compiler become one, where that makes no cycle."""
    return graph_pass("MergeCompilerRegions", merge_compiler_regions)


def PartitionGraph(mod_name: str = "default", bind_constants: bool = True) -> Pass:
    """Each marked region becomes a function of the module with the attribute "Compiler".

    mod_name        part of the functions' names: tvmgen_<mod_name>_<compiler>_main_<n>
    bind_constants  whether constants stay inside; else they are passed
    """
    return graph_pass("PartitionGraph", lambda mod: partition_graph(mod, mod_name, bind_constants))
