"""What all levels share: scalar expressions, types, nodes, modules, options, errors."""

from .equal import StructuralDifference, assert_structural_equal, structural_equal
from .module import IRModule

__all__ = ["IRModule", "StructuralDifference", "assert_structural_equal", "structural_equal"]
