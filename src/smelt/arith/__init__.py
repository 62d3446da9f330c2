"""Integer arithmetic: simplification, bounds, proofs, affine iterator maps, index maps."""

from .analyzer import Analyzer, Domain, RangeLike
from .answer import Answer
from .index_map import IndexMap
from .iter_map import (
    IterMap,
    IterMark,
    IterSplit,
    IterSum,
    detect_iter_map,
    inverse_affine_map,
    is_bijective,
    normalize_iter_values,
    subspace_divide,
)

__all__ = [
    "Analyzer",
    "Answer",
    "Domain",
    "IndexMap",
    "IterMap",
    "IterMark",
    "IterSplit",
    "IterSum",
    "RangeLike",
    "detect_iter_map",
    "inverse_affine_map",
    "is_bijective",
    "normalize_iter_values",
    "subspace_divide",
]
