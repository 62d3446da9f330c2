"""Integer arithmetic: simplification, bounds, proofs, affine iterator maps, index maps."""

from smelt.ir.tables import names_above

from .affine.inverse import inverse_affine_iter_map
from .affine.maps import (
    IterMapLevel,
    IterMapResult,
    detect_iter_map,
    iter_map_simplify,
    normalize_iter_map_to_expr,
)
from .affine.nodes import IterMark, IterSplit, IterSplitExpr, IterSum, IterSumExpr
from .analyzer import Analyzer, Domain, RangeLike
from .answer import Answer, ConstIntBound, ModularSet
from .index_map import AXIS_SEPARATOR, IndexMap
from .interval_set import IntervalSet, IntSet

__getattr__ = names_above(__name__, {
    **dict.fromkeys(("IntConstraints", "IntConstraintsTransform", "solve_linear_equations",
                     "solve_linear_inequalities"), "smelt.classic.linear_system"),
    **dict.fromkeys(("deduce_bound", "detect_clip_bound", "detect_linear_equation",
                     "estimate_region_lower_bound", "estimate_region_strict_bound",
                     "estimate_region_upper_bound"), "smelt.classic.region"),
    **dict.fromkeys(("SubspaceDivision", "subspace_divide"), "smelt.classic.subspace"),
})  # fmt: skip
"""Classic names of this room whose things stand in a room above."""

__all__ = ["AXIS_SEPARATOR", "Analyzer", "Answer", "ConstIntBound", "Domain", "IndexMap",
           "IntConstraints", "IntConstraintsTransform", "IntSet", "IntervalSet", "IterMapLevel",
           "IterMapResult", "IterMark", "IterSplit", "IterSplitExpr", "IterSum", "IterSumExpr",
           "ModularSet", "RangeLike", "SubspaceDivision", "deduce_bound", "detect_clip_bound",
           "detect_iter_map", "detect_linear_equation", "estimate_region_lower_bound",
           "estimate_region_strict_bound", "estimate_region_upper_bound", "inverse_affine_iter_map",
           "iter_map_simplify", "normalize_iter_map_to_expr", "solve_linear_equations",
           "solve_linear_inequalities", "subspace_divide"]  # fmt: skip
