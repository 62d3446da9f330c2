"""What all levels share: scalar expressions, types, nodes, modules, options, errors."""

from .equal import StructuralDifference, assert_structural_equal, structural_equal
from .hash import structural_hash
from .module import IRModule
from .op_attrs import register_op_attr
from .serial import load_json, save_json
from .tables import names_above

__getattr__ = names_above(__name__, {
    **dict.fromkeys(("Constructor", "FuncType", "GlobalTypeVar", "GlobalVar", "IncompleteType",
                     "RelayExpr", "TensorType", "TupleType", "Type", "TypeCall", "TypeData",
                     "TypeVar"), "smelt.relay"),
    **dict.fromkeys(("PrimExpr", "Range"), "smelt.tir.classic"),
    "Node": "smelt.ir.node", "Op": "smelt.relay.op",
})  # fmt: skip
"""Classic names of this room whose things stand in rooms above."""

__all__ = ["IRModule", "StructuralDifference", "assert_structural_equal", "load_json",
           "register_op_attr", "save_json", "structural_equal", "structural_hash"]  # fmt: skip
