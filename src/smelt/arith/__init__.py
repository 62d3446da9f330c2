"""Integer arithmetic: simplification, bounds, proofs, affine iterator maps, index maps.

Names are resolved when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .analyzer import Analyzer as Analyzer
    from .analyzer import Domain as Domain
    from .analyzer import RangeLike as RangeLike
    from .answer import Answer as Answer
    from .answer import ConstIntBound as ConstIntBound
    from .answer import ModularSet as ModularSet
    from .index_map import AXIS_SEPARATOR as AXIS_SEPARATOR
    from .index_map import IndexMap as IndexMap
    from .interval_set import IntervalSet as IntervalSet
    from .iter_inverse import inverse_affine_iter_map as inverse_affine_iter_map
    from .iter_map import IterMapLevel as IterMapLevel
    from .iter_map import IterMapResult as IterMapResult
    from .iter_map import detect_iter_map as detect_iter_map
    from .iter_map import iter_map_simplify as iter_map_simplify
    from .iter_map import normalize_iter_map_to_expr as normalize_iter_map_to_expr
    from .iter_nodes import IterMark as IterMark
    from .iter_nodes import IterSplit as IterSplit
    from .iter_nodes import IterSum as IterSum
    from .linear_system import IntConstraints as IntConstraints
    from .linear_system import IntConstraintsTransform as IntConstraintsTransform
    from .linear_system import solve_linear_equations as solve_linear_equations
    from .linear_system import solve_linear_inequalities as solve_linear_inequalities
    from .region import deduce_bound as deduce_bound
    from .region import detect_clip_bound as detect_clip_bound
    from .region import detect_linear_equation as detect_linear_equation
    from .region import estimate_region_lower_bound as estimate_region_lower_bound
    from .region import estimate_region_strict_bound as estimate_region_strict_bound
    from .region import estimate_region_upper_bound as estimate_region_upper_bound
    from .subspace import SubspaceDivision as SubspaceDivision
    from .subspace import subspace_divide as subspace_divide

_NAMES = {
    "analyzer": ("Analyzer", "Domain", "RangeLike"),
    "answer": ("Answer", "ConstIntBound", "ModularSet"),
    "index_map": ("AXIS_SEPARATOR", "IndexMap"),
    "interval_set": ("IntSet", "IntervalSet"),
    "iter_inverse": ("inverse_affine_iter_map",),
    "iter_map": (
        "IterMapLevel",
        "IterMapResult",
        "detect_iter_map",
        "iter_map_simplify",
        "normalize_iter_map_to_expr",
    ),
    "iter_nodes": ("IterMark", "IterSplit", "IterSplitExpr", "IterSum", "IterSumExpr"),
    "linear_system": (
        "IntConstraints",
        "IntConstraintsTransform",
        "solve_linear_equations",
        "solve_linear_inequalities",
    ),
    "region": (
        "deduce_bound",
        "detect_clip_bound",
        "detect_linear_equation",
        "estimate_region_lower_bound",
        "estimate_region_strict_bound",
        "estimate_region_upper_bound",
    ),
    "subspace": ("SubspaceDivision", "subspace_divide"),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
