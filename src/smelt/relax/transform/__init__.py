"""Passes over graph programs: functions from a module to a module, one file each."""

from .canonicalize import simplify_graph
from .combine_parallel_matmul import combine_parallel_matmul
from .eliminate_common_subexpr import eliminate_common_subexpr
from .eliminate_dead_code import eliminate_dead_code
from .fold_constants import fold_constants
from .patterns import recognize_patterns
from .recognize_attention import recognize_attention
from .simplify import simplify

__all__ = [
    "combine_parallel_matmul", "eliminate_common_subexpr", "eliminate_dead_code",
    "fold_constants", "recognize_attention", "recognize_patterns", "simplify", "simplify_graph",
]  # fmt: skip
