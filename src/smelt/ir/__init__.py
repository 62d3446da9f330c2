"""What all levels share: scalar expressions, types, nodes, modules, options, errors."""

from .equal import StructuralDifference, assert_structural_equal, structural_equal
from .hash import structural_hash
from .module import IRModule
from .op_attrs import register_op_attr
from .serial import load_json, save_json

__all__ = [
    "IRModule",
    "StructuralDifference",
    "assert_structural_equal",
    "load_json",
    "register_op_attr",
    "save_json",
    "structural_equal",
    "structural_hash",
]
