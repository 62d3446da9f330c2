"""Passes over graph programs: functions from a module to a module, one file each."""

from .annotate_target import annotate_target, register_op_predicate
from .canonicalize import simplify_graph
from .combine_parallel_matmul import combine_parallel_matmul
from .eliminate_common_subexpr import eliminate_common_subexpr
from .eliminate_dead_code import eliminate_dead_code
from .fold_constants import fold_constants
from .fuse_ops_by_pattern import FusionPattern, fuse_ops_by_pattern, merge_composite_functions
from .merge_compiler_regions import merge_compiler_regions
from .merge_composite import merge_composite
from .partition_graph import partition_graph
from .patterns import recognize_patterns
from .recognize_attention import recognize_attention
from .simplify import simplify

__all__ = [
    "FusionPattern", "annotate_target", "combine_parallel_matmul", "eliminate_common_subexpr",
    "eliminate_dead_code", "fold_constants", "fuse_ops_by_pattern", "merge_compiler_regions",
    "merge_composite", "merge_composite_functions", "partition_graph", "recognize_attention",
    "recognize_patterns", "register_op_predicate", "simplify", "simplify_graph",
]  # fmt: skip
